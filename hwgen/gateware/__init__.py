"""The hardware, as Amaranth components."""

__all__: list[str] = []
