"""The search for the fastest plan of a network over a cluster."""

__all__: list[str] = []
