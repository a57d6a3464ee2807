"""Pages that need no server: templates with their style and script inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2


def render(template: str, **values: Any) -> str:
    """The page that a template of this folder makes of the values; all of them are escaped."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template(template).render(**values)
