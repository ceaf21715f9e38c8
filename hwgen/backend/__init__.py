"""Back ends: a planned graph becomes a set of files."""

__all__: list[str] = []
