"""Front ends: what a user writes (the Python DSL and imported models) becomes a graph."""

__all__: list[str] = []
