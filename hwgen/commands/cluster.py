"""The boards that a command builds for: ``--cluster``, else what the model says."""

from __future__ import annotations

import argparse

__all__ = ["add_cluster_argument"]


def add_cluster_argument(parser: argparse.ArgumentParser) -> None:
    """Adds ``--cluster SPEC``."""
    parser.add_argument(
        "--cluster",
        metavar="SPEC",
        help="boards in a chain, such as vc709*3 or vc709*2,alveo_u280, or a cluster.toml (default: the model's)",
    )
