"""Templates of the folder templates, data of their scripts, and figures of matplotlib as files for papers."""

from __future__ import annotations

import gzip
import io
import json
from base64 import b64encode
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from optinc_pdk.errors import InputError, printable
from optinc_pdk.io.formatting import count_text, format_si

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def render(template: str, **data: Any) -> str:
    """Render a Jinja2 template of the folder ``templates``; strings are escaped, except in ``.md.j2`` templates.

    Raises:
        jinja2.UndefinedError: The template uses a name that ``data`` does not have.
    """
    return _environment().get_template(template).render(**data)


def base64_text(content: bytes) -> str:
    """Return content, such as that of a PNG file, as base64."""
    return b64encode(content).decode()


def packed_json(data: Any) -> str:
    """Return data as base64 of gzip-compressed JSON, which the scripts of pages read. Equal data give equal text."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return base64_text(gzip.compress(text.encode(), 9, mtime=0))


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


FORMATS = (".svg", ".pdf", ".png")
"""Endings of the files."""
DPI = 200
"""Resolution of PNG files."""
# matplotlib's settings are global
_SETTINGS_LOCK = Lock()


def figure_format(path: Path) -> str:
    """Return the format of a figure's file, such as ``svg``; its ending may be in capitals.

    Raises:
        InputError: The ending is not one of `FORMATS`.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise InputError(f"{path}: the picture is a file of format {', '.join(FORMATS)}; give it one of these endings")
    return ending.removeprefix(".")


def figure_bytes(figure: Figure, file_format: str, title: str) -> bytes:
    """Return the content of a figure's file, ``svg``, ``pdf`` or ``png``, with a title.

    Equal figures give equal bytes, and texts of SVG and PDF stay texts.
    """
    import matplotlib

    metadata = {
        "svg": {"Date": None, "Creator": None, "Title": title},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None, "Title": title},
        "png": {"Software": None, "Title": title},
    }[file_format]
    picture = io.BytesIO()
    with (
        _SETTINGS_LOCK,
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "optinc-pdk", "pdf.fonttype": 42}),
    ):
        figure.savefig(picture, format=file_format, dpi=DPI, metadata=metadata)
    return picture.getvalue()
