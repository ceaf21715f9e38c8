"""The build directory: everything made of one model, checked when it is read again."""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import __version__
from ..data import Dataset
from ..errors import BuildError
from ..frontend.dsl import Model
from ..frontend.loader import Source
from ..frontend.origin import Origin
from ..frontend.training import Training
from ..ir.initial import Parameters
from ..ir.stage import Network
from ..plan.plan import Plan, StagePlan
from ..plan.serial import plan_from_json, plan_to_json
from ..target import Cluster
from .arrays import pack, unpack
from .trained import origins_from_json, origins_to_json, parameter_tensors
from .writer import require_writable, write_tree

__all__ = ["FORMAT", "MANIFEST", "RESULT", "Build", "build", "load_build", "resolve_cluster"]

FORMAT = 3
"""Version of the build directory's layout; another one is refused."""
MANIFEST = "manifest.json"
RESULT = "result.json"
ORIGINS = "import.json"
"""Names and layouts of the parameters in the model that was imported, for exports."""
DATA_FILES = {"plan.json", "plan.txt", "parameters.npz", "data.npz"}
"""What every build has beside its Verilog."""
TENSORS = ("train_images", "train_labels", "test_images", "test_labels")


@dataclass(frozen=True, eq=False)
class Build:
    """A build directory in memory. ``files`` are the Verilog texts by path relative to ``path``.

    ``parameters`` are the first ones, drawn or given, ``origins`` those of an imported model; ``dataset`` is quantised;
    ``seed`` drew the parameters.
    """

    path: Path
    plan: Plan
    parameters: Parameters
    dataset: Dataset
    files: Mapping[str, str]
    seed: int
    manifest: Mapping[str, Any]
    origins: Mapping[str, Origin] = field(default_factory=dict)


def build(
    source: Path | str | Model,
    out: Path | str,
    *,
    data: Dataset | Callable[[Network], Dataset] | None = None,
    seed: int = 0,
    cluster: str | None = None,
    plan: Path | None = None,
    training: Training | None = None,
    kept: Path | None = None,
    progress: Callable[..., None] = lambda text, done=None, total=None: None,
) -> dict[str, Any]:
    """Builds a model, or the Python or ONNX file of one, into directory ``out``; the result of docs/result.md.

    ``cluster`` names the boards ("vc709*3", a cluster.toml; None: the model's own, else a device by itself).
    ``plan`` is a file that ``hwgen plan`` wrote: it says the boards, cuts and foldings, and ``cluster`` is not asked.
    ``training`` says how to train the model of an ONNX file, ``data`` what a model that is no file is trained on.
    ``kept`` is a directory of finished modules, which are not made again; so a build that was stopped goes on where
    it was. The same source, seed and cluster give the same files, except result.json, which says how long it took and
    how many modules were there. ``progress`` is told each step as it begins, and how many boards of how many are done.
    Raises an HwgenError, and leaves ``out`` as it was, if something is wrong.
    """
    from ..frontend.loader import load_source, source_of
    from ..plan.describe import describe
    from .host import host_files  # loads Amaranth
    from .kept import Kept
    from .projects import made_in, project_files, refusals, results_below
    from .projects.fusesoc import CORE, core_file
    from .verilog import build_number, emit_modules

    start = time.monotonic()
    out = Path(out)
    before = _earlier_files(out)
    if isinstance(source, Model):
        loaded = source_of(source, seed, data)
    else:
        if data is not None:
            raise BuildError(f"data beside {source}, which says its own; give a model, or leave data out")
        progress(f"loading {source}")
        loaded = load_source(source, seed, training)
    progress("planning")
    planned, boards = _plan(loaded, cluster, plan)
    progress("emitting Verilog")
    modules = Kept(kept) if kept is not None else None
    emission = emit_modules(
        planned,
        modules,
        lambda k, of: progress("emitting Verilog: board", k, of),
    )
    verilog = emission.files
    host = host_files(planned, modules)
    sources = [*verilog, *(name for name in host if name.endswith(".v"))]
    projects = project_files(planned, boards, build_number(planned), sources)
    files: dict[str, str | bytes] = {
        "plan.json": plan_to_json(planned),
        "plan.txt": describe(planned),
        "parameters.npz": pack(parameter_tensors(planned.network, loaded.parameters)),
        "data.npz": pack({name: getattr(loaded.dataset, name) for name in TENSORS}),
        **verilog,
        **host,
        **projects,
        CORE: core_file(planned, boards, build_number(planned), sources, projects),
    }
    if loaded.model.origins:
        files[ORIGINS] = origins_to_json(loaded.model.origins)
    number = f"0x{build_number(planned):08x}"
    manifest = {
        "format": FORMAT,
        "hwgen": __version__,
        "build": number,
        "seed": seed,
        "files": {name: _sha256(content) for name, content in sorted(files.items())},
    }
    result = {
        "command": "build",
        "hwgen": __version__,
        "build": number,
        "seed": seed,
        "seconds": round(time.monotonic() - start, 3),
        "random_data": loaded.given is None,
        "modules_made": emission.made,
        "modules_kept": emission.kept,
        "modules_damaged": emission.damaged,
        "verilog_files": len(verilog),
        "verilog_bytes": sum(len(text.encode()) for text in verilog.values()),
        "projects": made_in(projects),
        "projects_refused": refusals(projects),
        **_predictions(planned),
    }
    progress(f"writing {out}")
    written = {**files, MANIFEST: _json(manifest), RESULT: _json(result)}
    if _read_json(out / MANIFEST) != manifest:
        before += results_below(out)
    write_tree(out, written, remove=before)
    return result


def _plan(loaded: Source, cluster: str | None, path: Path | None) -> tuple[Plan, Cluster | None]:
    """The plan of a file, else the planner's, and the boards that it is for."""
    if path is None:
        from ..plan.planner import plan_network

        boards = resolve_cluster(cluster, loaded.model)
        return plan_network(loaded.network, cluster=boards), boards
    if cluster is not None:
        raise BuildError(
            f"--cluster {cluster} beside --plan {path}, which names its boards; give one of them"
        )
    from ..plan.file import plan_from_file, read_plan

    file = read_plan(path)
    return plan_from_file(file, loaded.network), file.cluster


def resolve_cluster(spec: str | None, model: Model) -> Cluster | None:
    """The boards that ``spec`` names, else those of the model, else None: a device by itself. Raises TargetError."""
    chosen = spec if spec is not None else model.cluster
    return chosen if chosen is None or isinstance(chosen, Cluster) else Cluster.parse(chosen)


def load_build(path: Path) -> Build:
    """Reads a build directory and checks it against its manifest.

    Raises BuildError if it is missing, of another version or format, or a file is missing or was changed.
    """
    from .verilog import build_number  # loads Amaranth

    manifest = _manifest(path)
    contents = {name: _checked(path / name, digest) for name, digest in manifest["files"].items()}
    plan = plan_from_json(contents["plan.json"].decode())
    if manifest["build"] != f"0x{build_number(plan):08x}":
        raise BuildError(
            f"{path / MANIFEST}: build {manifest['build']} is not that of plan.json; build again"
        )
    names = [stage.name for stage in plan.network.stages]
    try:
        tensors = unpack(contents["parameters.npz"])
        parameters = Parameters(
            tuple(tensors[f"{name}.weight"] for name in names),
            tuple(tensors.get(f"{name}.bias") for name in names),
        )
        dataset = Dataset(**unpack(contents["data.npz"]))
        files = {name: contents[name].decode() for name in contents if name.startswith("verilog/")}
        origins = origins_from_json(contents[ORIGINS].decode()) if ORIGINS in contents else {}
    except (EOFError, LookupError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise BuildError(f"{path}: damaged ({type(error).__name__}: {error}); build again") from None
    return Build(path, plan, parameters, dataset, files, manifest["seed"], manifest, origins)


def _manifest(path: Path) -> dict[str, Any]:
    place = path / MANIFEST
    if not place.is_file():
        raise BuildError(
            f"{path}: no build directory (no {MANIFEST}); make one with hwgen build SOURCE -o {path}"
        )
    manifest = _read_json(place)
    if not isinstance(manifest, dict) or not {"format", "hwgen"} <= manifest.keys():
        raise BuildError(f"{place}: not written by hwgen, or damaged; build into a new directory")
    if manifest["format"] != FORMAT:
        raise BuildError(
            f"{path}: build directory of format {manifest['format']}, this is {FORMAT}; build again"
        )
    if manifest["hwgen"] != __version__:
        raise BuildError(f"{path}: built by hwgen {manifest['hwgen']}, this is {__version__}; build again")
    if not _complete(manifest):
        raise BuildError(f"{place}: not written by hwgen, or damaged; build into a new directory")
    return manifest


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _complete(manifest: dict[str, Any]) -> bool:
    """Whether a manifest of this version has all that a build needs."""
    files = manifest.get("files")
    return (
        isinstance(manifest.get("build"), str)
        and type(seed := manifest.get("seed")) is int
        and 0 <= seed < 1 << 32
        and isinstance(files, dict)
        and files.keys() >= DATA_FILES
        and all(isinstance(digest, str) for digest in files.values())
    )


def _checked(path: Path, digest: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BuildError(f"{path}: cannot be read ({error.strerror}); build again") from None
    if _sha256(content) != digest:
        raise BuildError(f"{path}: changed since it was built; build again")
    return content


def _earlier_files(out: Path) -> list[str]:
    """What an earlier build left in ``out``. Raises BuildError if it cannot be written or holds something
    else."""
    require_writable(out)
    if not out.is_dir() or {entry.name for entry in out.iterdir()} <= {RESULT}:
        return []
    manifest = _read_json(out / MANIFEST)
    if not isinstance(manifest, dict) or not isinstance(files := manifest.get("files"), dict):
        raise BuildError(f"{out}: not empty and no build directory; give a new directory with -o")
    return list(files)


def _predictions(plan: Plan) -> dict[str, Any]:
    prediction = plan.prediction
    return {
        "multipliers": plan.multipliers,
        "macs_per_sample": plan.network.macs,
        "batch": plan.network.update.batch,
        "predicted_cycles_per_sample": prediction.cycles_per_sample,
        "predicted_cycles_per_batch": prediction.cycles_per_batch,
        "predicted_occupancy": prediction.occupancy,
        "predicted_latency": prediction.latency,
        "bottleneck": prediction.bottleneck,
        "boards": list(plan.boards),
        "stages": [_stage(planned) for planned in plan.stages],
    }


def _stage(planned: StagePlan) -> dict[str, Any]:
    fold, folding = planned.fold, planned.folding
    return {
        "name": planned.stage.name,
        "board": planned.board,
        "array": [fold.pk, fold.pn],
        "folding": {"u": folding.u, "pc": folding.pc, "pn": folding.pn, "b": folding.b},
        "multipliers": fold.multipliers,
        "macs": dict(zip(("forward", "backward", "gradient"), planned.stage.macs, strict=True)),
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=1) + "\n"


def _sha256(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
