"""Projects for the boards' own tools: one a device, in ``device{k}/FLOW/``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ...errors import TargetError
from ...plan.plan import Plan
from ...target import Cluster, Device
from . import ecp5, quartus, vivado
from .aurora import FAMILIES
from .job import OUT, Job, Maker

__all__ = ["FLOWS", "REFUSED", "flow_of", "made_in", "project_files", "refusals", "results_below"]

REFUSED = "refused.txt"
"""Stands alone in the folder of a project that cannot be made, and says why."""
FLOWS: dict[str, Maker] = {"ecp5": ecp5.files, "quartus": quartus.files, "vivado": vivado.files}
"""What makes the files of a project, by the name of its flow."""


def flow_of(device: Device) -> str | None:
    """The flow of a device's tools, None if hwgen has none for it."""
    if (device.vendor, device.family) == ("lattice", "ecp5"):
        return "ecp5"
    if device.vendor == "xilinx" and device.family in FAMILIES:
        return "vivado"
    if device.vendor == "intel":
        return "quartus"
    return None


def project_files(plan: Plan, cluster: Cluster | None, number: int, sources: Sequence[str]) -> dict[str, str]:
    """Files by path of the project of every board that has a flow; {} for a device by itself.

    ``number`` is the build's; ``sources`` are paths of all Verilog files. Where a project cannot be made there is only
    a text that says why.
    """
    files: dict[str, str] = {}
    if cluster is None:
        return files
    ends = (None, *cluster.links, None)
    for index, board in enumerate(cluster.boards):
        flow = flow_of(board.device)
        if flow is None:
            continue
        try:
            made = FLOWS[flow](
                Job(plan, index, board, number, tuple(sources), (ends[index], ends[index + 1]))
            )
        except TargetError as error:
            made = {REFUSED: f"device {index}: no project: {error}\n"}
        files |= {f"device{index}/{flow}/{name}": text for name, text in made.items()}
    return files


def made_in(files: dict[str, str]) -> list[str]:
    """Folders of the projects among ``files``."""
    return sorted({str(PurePosixPath(path).parent) for path in files if not path.endswith(f"/{REFUSED}")})


def refusals(files: dict[str, str]) -> list[str]:
    """Why projects among ``files`` could not be made, a line each."""
    return [text.strip() for path, text in files.items() if path.endswith(f"/{REFUSED}")]


def results_below(build: Path) -> list[str]:
    """Files that the tools of projects left in a build directory, by path below it: results of those projects alone."""
    folders = [folder for flow in FLOWS for folder in build.glob(f"device*/{flow}/{OUT}")]
    return [
        path.relative_to(build).as_posix()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    ]
