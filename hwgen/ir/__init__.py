"""The graph every pass works on: nodes, formats, the one table of operations, verification."""

__all__: list[str] = []
