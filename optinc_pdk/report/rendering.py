"""Render the Jinja2 templates in the folder ``templates``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from optinc_pdk.errors import printable
from optinc_pdk.report.formatting import count_text, format_si


def render(template: str, **data: Any) -> str:
    """Render a Jinja2 template of the folder ``templates``.

    Args:
        template: File name, such as ``page.html.j2``. Strings are escaped, except in ``.md.j2`` templates.
        data: Variables of the template.

    Returns:
        The rendered text.

    Raises:
        jinja2.UndefinedError: The template uses a name that ``data`` does not have.
    """
    return _environment().get_template(template).render(**data)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        # included files such as page.css are part of an HTML page too
        autoescape=lambda name: name is None or not name.endswith(".md.j2"),
        # text of files; what is inserted as markup has no such characters
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"si": format_si, "counted": count_text}
    return environment
