"""Links of the built site: those of notebooks are rewritten, and all are checked."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SERVED = "404.html"
"""Page that only a server shows, at any address: its links begin at the root of the site."""
NOTEBOOK_LINK = re.compile(r'(<a [^>]*href="[^":#]+)\.(?:md|py)(?=[#"])')


def links_to_pages(html: str) -> str:
    """Return the HTML of a notebook with links to the built pages instead of to their Markdown or Python files."""
    return NOTEBOOK_LINK.sub(r"\1.html", html)


def broken_links(site: Path) -> Iterator[str]:
    """Find links within a built site that lead nowhere when its pages are opened without a server.

    Links to folders are among them, because a browser would list the folder.

    Args:
        site: Folder of the site.

    Yields:
        One line for each page and link: the page, and the link as the page has it.
    """
    pages = {path.relative_to(site).as_posix(): _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    for name, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = _target(name, unquote(parts.path))
            anchor = unquote(parts.fragment)
            lost = anchor != "" and target in pages and anchor not in pages[target].anchors
            if lost or not (site / target).is_file():
                yield f"{name}: {link}"


def _target(page: str, path: str) -> str:
    """Return the file of the site to which a path on a page leads."""
    if not path:
        return page
    if page == SERVED and path.startswith("/"):
        target = posixpath.normpath(path.lstrip("/"))
        return "index.html" if target == "." else target
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path))


class _Page(HTMLParser):
    """An HTML page.

    Attributes:
        links: Links to pages, pictures, scripts and style sheets.
        anchors: Names of places to which links can lead.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read the links and anchors of a tag."""
        for name, value in attrs:
            if value is None:
                continue
            if name in ("href", "src"):
                self.links.append(value)
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
