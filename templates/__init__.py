"""Jinja2 templates of the generated files (installs as hwgen.templates)."""

__all__: list[str] = []
