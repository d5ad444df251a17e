"""Figures of matplotlib as files for papers: SVG, PDF or PNG."""

from __future__ import annotations

import io
from pathlib import Path
from threading import Lock

import matplotlib
from matplotlib.figure import Figure

from optinc_pdk.errors import InputError

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
    """Return the content of a figure's file. Equal figures give equal bytes, and texts of SVG and PDF stay texts.

    Args:
        figure: The figure.
        file_format: ``svg``, ``pdf`` or ``png``.
        title: Title in the file.
    """
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
