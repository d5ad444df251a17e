"""Hooks of MkDocs: pages outside ``docs``, files that pages link to, and drawn pages of commands, cells and results.

Pages link to files as they lie in the repository. A link to a file outside ``docs`` becomes a link to a page that shows
this file, so that the site needs neither the repository nor a network. Links in notebooks, which MkDocs does not read,
become links to the built pages. At the end every link of the built pages is checked, and a broken one fails the build.
"""

from __future__ import annotations

import logging
import posixpath
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import command_line
import imperfections
import notebook_pictures
import site_links
import studies
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from optinc_pdk.report.cell_gallery import write_gallery

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Pages of the repository outside ``docs``, and their places on the site."""
SOURCES = "source"
"""Folder of the site with pages that show files of the repository."""
CELLS = "optinc_pdk/cells"
"""Folder of the repository whose page on the site is the gallery of `PROCESSES`."""
PROCESSES = ("soi220", "soi220_flipchip", "cornerstone220")
NOTEBOOKS = "tutorials/"
"""Folder of ``docs`` with notebooks."""
BOOSTS = {"Start": 3.0, "How-to": 6.0, "Tutorials": 2.0, "Reference": 0.5}
"""Weights of pages in the search, by their section of the navigation: tasks come before the reference."""
NOT_SEARCHED = "---\nsearch: {exclude: true}\n---\n\n"
RESULT = re.compile(r"results/(\w+)\.json")
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")
ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):<code>(~?)([\w.]+)</code>")
LANGUAGES = {".py": "python", ".yml": "yaml", ".cff": "yaml", ".toml": "toml", ".npz": "", "": ""}


def on_startup(command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:
    """Print warnings and errors only; with ``--quiet``, MkDocs drops warnings before it counts them."""
    logging.getLogger("mkdocs").setLevel(logging.WARNING)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages of the repository, pages of files that pages link to, and generated pages."""
    contents = {place: (ROOT / path).read_text(encoding="utf-8") for path, place in ROOT_PAGES.items()}
    contents["reference/command_line.md"] = command_line.page()
    contents |= {_place(f"results/{name}.json"): studies.page(name) for name in studies.SCRIPTS}
    contents |= _galleries()
    for path in sorted(_linked_sources(contents)):
        contents[_place(path)] = NOT_SEARCHED + _source_page(path)
    for place, content in contents.items():
        files.append(File.generated(config, place, content=content))
    return files


def _galleries() -> dict[str, str | bytes]:
    """Return the galleries of cells with their pictures, by place on the site."""
    with tempfile.TemporaryDirectory() as folder:
        for process in PROCESSES:
            write_gallery(process, Path(folder) / f"{process}.md")
        files = {f"cells/{path.relative_to(folder).as_posix()}": path for path in Path(folder).rglob("*.*")}
        return {
            place: path.read_text("utf-8") if path.suffix == ".md" else path.read_bytes()
            for place, path in files.items()
        }


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert tables, let links to files of the repository lead to their pages, and weight the page in the search."""
    place = page.file.src_uri
    if imperfections.MARK in markdown:
        markdown = markdown.replace(imperfections.MARK, imperfections.tables())
    markdown = studies.MARK.sub(lambda mark: studies.inserted(mark[1]), markdown)
    if page.ancestors and (boost := BOOSTS.get(page.ancestors[-1].title)):
        page.meta["search"] = {"boost": boost}
    if place.startswith(f"{SOURCES}/"):
        return markdown
    start = posixpath.dirname(_repository_path(place))

    def moved(link: re.Match[str]) -> str:
        before, target, anchor = link[1], link[2], link[3] or ""
        if "://" in target or target.startswith(("mailto:", "/")):
            return link[0]
        path = posixpath.normpath(posixpath.join(start, target))
        return f"{before}{posixpath.relpath(_place(path), posixpath.dirname(place) or '.')}{anchor})"

    return LINK.sub(moved, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write names in docstrings without the roles of reStructuredText and leading packages; edit notebooks."""
    if page.file.src_uri.startswith(NOTEBOOKS):
        html = site_links.links_to_pages(html)
        texts = notebook_pictures.descriptions((ROOT / "docs" / page.file.src_uri).read_text(encoding="utf-8"))
        try:
            html = notebook_pictures.with_descriptions(html, texts)
        except ValueError as fault:
            raise PluginError(f"{page.file.src_uri}: {fault}") from fault
    return ROLE.sub(lambda role: f"<code>{role[2].rpartition('.')[2] if role[1] else role[2]}</code>", html)


@event_priority(-100)
def on_post_build(config: MkDocsConfig) -> None:
    """Fail if a link of the built site leads nowhere."""
    broken = list(site_links.broken_links(Path(config.site_dir)))
    if broken:
        raise PluginError(f"{len(broken)} links of the built site lead nowhere:\n" + "\n".join(broken))


def _place(path: str) -> str:
    """Return the place on the site of a path of the repository."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path == CELLS:
        return f"cells/{PROCESSES[0]}.md"
    if result := RESULT.fullmatch(path):
        # some are shown on a page of docs
        return f"{result[1]}.md" if result[1] in studies.INSERTED else f"results/{result[1]}.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{SOURCES}/{path}.md"


def _repository_path(place: str) -> str:
    """Return the path in the repository of a page of the site."""
    # texts of results link as from docs
    place = place.removeprefix("results/")
    return next((path for path, own in ROOT_PAGES.items() if own == place), f"docs/{place}")


def _linked_sources(drawn: Mapping[str, str | bytes]) -> set[str]:
    """Return the files outside ``docs`` to which pages link, and those of linked folders.

    Args:
        drawn: Contents of pages that are not in ``docs``, by their places.
    """
    found: set[str] = set()
    written = (ROOT / "docs").rglob("*.md")
    pages = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in written}
    pages |= {_repository_path(place): content for place, content in drawn.items() if isinstance(content, str)}
    for page, text in pages.items():
        start = posixpath.dirname(page)
        for link in LINK.finditer(text):
            path = posixpath.normpath(posixpath.join(start, link[2]))
            if "://" in link[2] or path in ROOT_PAGES or path == CELLS or path.startswith(("docs/", "results/", "..")):
                continue
            if (ROOT / path).exists():
                found |= {path, *_files_of(path)}
    return found


def _files_of(path: str) -> Iterator[str]:
    """Yield the text files of a folder and of its folders."""
    if (ROOT / path).is_dir():
        for file in sorted((ROOT / path).rglob("*")):
            if file.is_file() and file.suffix in LANGUAGES and "__pycache__" not in file.parts:
                yield file.relative_to(ROOT).as_posix()


def _source_page(path: str) -> str:
    """Return a page that shows a file, or lists the files of a folder."""
    source = ROOT / path
    if source.is_dir():
        start = posixpath.dirname(_place(path))
        lines = [f"- [{file}]({posixpath.relpath(_place(file), start)})" for file in _files_of(path)]
        return f"# {path}\n\n" + "\n".join(lines) + "\n"
    try:
        text = source.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return f"# {path}\n\nA binary file of {source.stat().st_size:,} bytes.\n"
    fence = "`" * max(3, *(len(run) + 1 for run in [*re.findall("`+", text), "``"]))
    return f"# {path}\n\n{fence}{LANGUAGES.get(source.suffix, '')}\n{text.rstrip()}\n{fence}\n"
