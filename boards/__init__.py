"""Board descriptions, one TOML file a board (installs as hwgen.boards)."""

__all__: list[str] = []
