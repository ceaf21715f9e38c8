"""``hwgen plan``: find the fastest plan of a model on a cluster, or the fewest boards for a rate."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import TargetError
from . import report
from .cluster import add_cluster_argument
from .training import add_source_argument, add_training_arguments, training

if TYPE_CHECKING:
    from ..ir.stage import Network
    from ..plan.propose import Proposal
    from ..target import Cluster

__all__ = ["NAME", "add_arguments", "run"]

NAME = "plan"
MASTERS = ("here", "memory", "auto")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    add_source_argument(parser)
    add_cluster_argument(parser)
    parser.add_argument(
        "-o", dest="out", metavar="FILE", type=Path, help="write the plan: hwgen build --plan FILE"
    )
    parser.add_argument(
        "--svg", metavar="FILE", type=Path, help="write a picture of the boards and their layers"
    )
    parser.add_argument(
        "--target-ips",
        metavar="R",
        type=report.above_zero("images a second, a number"),
        help="find the fewest boards of the cluster's kind that train R images a second",
    )
    parser.add_argument(
        "--masters",
        choices=MASTERS,
        default="here",
        help="master weights beside the weights, in external memory, or whatever is faster (default: here)",
    )
    parser.add_argument(
        "--all", action="store_true", help="a row for every board, also where neighbours are equal"
    )
    add_training_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Searches, writes what was asked for, and shows the plan."""
    from ..plan.file import plan_text
    from ..plan.picture import picture
    from ..plan.report_text import report_text

    _check_outputs(arguments)
    with report.Progress() as progress, contextlib.redirect_stdout(sys.stderr):  # the model file may print
        proposal = _propose(arguments, progress)
    plan = proposal.plan
    _write(arguments.out, plan_text(plan))
    _write(arguments.svg, picture(plan.report))
    lines = [report_text(plan.report, arguments.all).rstrip()]
    if arguments.target_ips is not None:
        lines.append(_smaller(proposal, arguments.target_ips))
    if arguments.out is not None:
        lines.append(
            f"plan written to {arguments.out}; build it: hwgen build {arguments.source} --plan {arguments.out}"
        )
    report.show(_result(proposal, arguments), "\n\n".join(lines), arguments.json)
    return 0


def _propose(arguments: argparse.Namespace, progress: report.Progress) -> Proposal:
    from ..frontend.loader import load_source
    from ..plan.propose import propose, propose_for_rate

    progress(f"loading {arguments.source}")
    source = load_source(arguments.source, training=training(arguments))
    cluster = _cluster(arguments.cluster, source.model.cluster, arguments.source)
    network: Network = source.network
    if arguments.target_ips is not None:
        return propose_for_rate(network, cluster, arguments.target_ips, arguments.masters, progress)
    return propose(network, cluster, arguments.masters, progress)


def _cluster(spec: str | None, own: Any, source: Path) -> Cluster:
    from ..target import Cluster

    chosen = spec if spec is not None else own
    if chosen is None:
        raise TargetError(f"{source}: the model names no cluster; give --cluster, such as --cluster vc709*3")
    return chosen if isinstance(chosen, Cluster) else Cluster.parse(chosen)


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Before long work, not after it."""
    from ..backend.writer import require_writable

    for path in (arguments.out, arguments.svg):
        if path is not None:
            if path.is_dir():
                raise TargetError(f"{path}: is a directory; give the name of a file")
            require_writable(path.parent)
    if arguments.out is not None and arguments.out == arguments.svg:
        raise TargetError(f"{arguments.out}: -o and --svg name the same file; give two")


def _write(path: Path | None, text: str) -> None:
    from ..backend.writer import write_tree

    if path is not None:
        write_tree(path.parent, {path.name: text})


def _smaller(proposal: Proposal, rate: float) -> str:
    count = len(proposal.plan.cluster.boards)
    start = f"{count} board{'' if count == 1 else 's'} for {rate:,.10g} images a second"
    if proposal.smaller is None:
        return start
    if not proposal.smaller:
        return f"{start}; {count - 1} hold no plan"
    return f"{start}; {count - 1} make {proposal.smaller:,.1f}"


def _result(proposal: Proposal, arguments: argparse.Namespace) -> dict[str, Any]:
    from ..plan.codec import encode
    from ..plan.report import PlanReport

    return {
        "command": NAME,
        "hwgen": __version__,
        "target_ips": arguments.target_ips,
        "one_board_fewer_ips": proposal.smaller,
        "report": encode(proposal.plan.report, PlanReport, "report"),
    }
