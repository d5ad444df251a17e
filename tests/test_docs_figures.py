"""Figures of the documentation: committed as the commands draw them now, and shown on a page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from docs_figures import (
    CHIP_FIGURES,
    FIGURES,
    UNITARY_FIGURE,
    write_chip_figures,
    write_figures,
    write_unitary_figure,
)
from matplotlib.image import imread

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


@pytest.mark.full
@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_what_its_command_draws(figure: str, drawn: Path) -> None:
    committed = content(DOCS / figure)
    assert sum(kind == "text" for kind, _ in committed) > 10
    assert content(drawn / figure) == committed


@pytest.mark.full
def test_figures_of_chips_are_what_their_commands_draw(tmp_path: Path) -> None:
    """Letters depend on the fonts, so that some pixels may differ."""
    for drawn in (*write_chip_figures(tmp_path), write_unitary_figure(tmp_path)):
        found, committed = imread(drawn), imread(DOCS / drawn.name)
        assert found.shape == committed.shape
        assert np.mean(np.max(np.abs(found - committed), axis=2) > 0.2) < 0.004, drawn.name


@pytest.mark.parametrize("figure", [*FIGURES, *CHIP_FIGURES, UNITARY_FIGURE])
def test_a_figure_is_shown_on_a_page(figure: str) -> None:
    pages = [DOCS.parent / "README.md", *DOCS.glob("*.md")]
    assert any(re.search(rf"\]\((docs/)?{re.escape(figure)}\)", page.read_text(encoding="utf-8")) for page in pages)
