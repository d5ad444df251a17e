"""Figures of the documentation: committed as the commands draw them now, and shown on a page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from docs_figures import FIGURES, write_figures

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the figures as the commands draw them."""
    folder = tmp_path_factory.mktemp("figures")
    write_figures(folder)
    return folder


def content(svg: Path) -> list[tuple[str, str]]:
    """Texts, shapes and colours in order. Coordinates depend on the version of matplotlib."""
    found = []
    for element in ElementTree.parse(svg).iter():
        tag = element.tag.rpartition("}")[2]
        if tag == "text":
            found.append((tag, element.text or ""))
        elif tag == "path":
            colours = re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", element.get("style", ""))
            found.append((re.sub(r"[^A-Za-z]", "", element.get("d", "")), " ".join(colours)))
    return found


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_what_its_command_draws(figure: str, drawn: Path) -> None:
    committed = content(DOCS / figure)
    assert sum(kind == "text" for kind, _ in committed) > 10
    assert content(drawn / figure) == committed


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_shown_on_a_page(figure: str) -> None:
    assert any(f"]({figure})" in page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
