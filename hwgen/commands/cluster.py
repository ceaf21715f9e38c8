"""The boards that a command builds for: ``--cluster``, else what the model says."""

from __future__ import annotations

import argparse

from ..frontend.dsl import Model
from ..target import Cluster

__all__ = ["add_cluster_argument", "resolve"]


def add_cluster_argument(parser: argparse.ArgumentParser) -> None:
    """Adds ``--cluster SPEC``."""
    parser.add_argument(
        "--cluster",
        metavar="SPEC",
        help="boards in a chain, such as vc709*3 or vc709*2,alveo_u280, or a cluster.toml (default: the model's)",
    )


def resolve(arguments: argparse.Namespace, model: Model) -> Cluster | None:
    """The cluster of the command line, else of the model, else None. Raises TargetError."""
    chosen = arguments.cluster if arguments.cluster is not None else model.cluster
    return chosen if chosen is None or isinstance(chosen, Cluster) else Cluster.parse(chosen)
