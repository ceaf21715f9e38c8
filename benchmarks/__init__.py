"""Measurements that the README states: each prints one JSON object and writes it to benchmarks/results/."""

__all__: list[str] = []
