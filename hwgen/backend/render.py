"""Text from the templates of hwgen.templates."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .. import __version__, templates

__all__ = ["render"]


def render(template: str, **values: object) -> str:
    """Text of a template."""
    environment = Environment(
        loader=FileSystemLoader(Path(templates.__file__).parent), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template(template).render(version=__version__, **values)
