"""Alternative texts of the pictures of notebooks, from comments such as ``# picture: Layout of the chip`` in code."""

from __future__ import annotations

import re
from html import escape

COMMENT = re.compile(r"^# picture: (.+)$", re.MULTILINE)
UNDESCRIBED = re.compile(r'(<img\b[^>]*\balt=")No description has been provided for this image(?=")')


def descriptions(source: str) -> list[str]:
    """Return the descriptions of the pictures that the code of a notebook draws, in its order."""
    return COMMENT.findall(source)


def with_descriptions(html: str, texts: list[str]) -> str:
    """Return the HTML of a notebook with alternative texts for its pictures.

    Args:
        html: HTML of the executed notebook.
        texts: Descriptions of its pictures, in its order.

    Raises:
        ValueError: There are fewer or more pictures than descriptions.
    """
    count = len(UNDESCRIBED.findall(html))
    if count != len(texts):
        raise ValueError(
            f"{count} pictures and {len(texts)} descriptions; write '# picture: TEXT' into every cell with a picture"
        )
    rest = iter(texts)
    return UNDESCRIBED.sub(lambda found: found[1] + escape(next(rest)), html)
