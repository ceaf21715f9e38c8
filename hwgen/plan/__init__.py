"""The planner: cost, folding, buffers and schedule of a graph on given devices."""

__all__: list[str] = []
