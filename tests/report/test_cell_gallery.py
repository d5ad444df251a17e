"""The gallery of cells: contents of the page, and whether the committed pages and pictures are up to date."""

import re
from pathlib import Path

import matplotlib.image
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cells import CELLS, cells_of
from optinc_pdk.errors import InputError
from optinc_pdk.models import MODELS
from optinc_pdk.pdk import get_pdk
from optinc_pdk.report.cell_gallery import cell_picture, model_text, render_gallery, write_gallery

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {"soi220": "cells", "soi220_flipchip": "cells_flipchip", "cornerstone220": "cells_cornerstone220"}


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_up_to_date_and_has_its_pictures(name: str) -> None:
    get_pdk(name).activate()
    process = load_process(name)
    page = DOCS / f"{PAGES[name]}.md"
    assert page.read_text() == render_gallery(process, page.stem), f"optinc cells --process {name} -o docs/{page.name}"
    shown = set(re.findall(r"!\[\w+\]\((.*?)\)", page.read_text()))
    assert shown == {f"{page.stem}/{cell}.png" for cell in cells_of(process)}
    assert {f"{page.stem}/{path.name}" for path in (DOCS / page.stem).iterdir()} == shown


def test_every_number_of_a_card_is_listed_with_its_source() -> None:
    get_pdk().activate()
    process = load_process()
    section = render_gallery(process, "cells").split("\n## monitor_tap\n")[1].split("\n## ")[0]
    card = process.device("monitor_tap")
    assert f"| model: cross | 0.05 | {card.sources['scaled']} |" in section
    assert section.count("| geometry: ") == len(card.geometry)
    assert section.count("| model: ") == len(card.model.parameters)
    assert "| o4 | optical | 24.984, -3 | 0° |" in section


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mmi2x2", "`coupler`"),
        ("coupler_ring", "`coupled_guides`"),
        ("ring_double", "none: a circuit of 2 coupler"),
        ("straight", "`guide`, by its length"),
        ("pad", "none: carries no light"),
        ("mzi_dummy", "none: a circuit of 2 mmi2x2, 2 terminator"),
        ("mesh", "none: a circuit of 20 mmi2x2, 12 phase_shifter, 8 terminator"),
    ],
)
def test_a_cell_has_a_model_or_a_reason(name: str, text: str) -> None:
    get_pdk().activate()
    assert model_text(load_process(), name, CELLS[name]()) == text
    assert not text.startswith("`") or text.split("`")[1] in {*MODELS, "guide"}


@pytest.mark.parametrize("name", ["straight", "fibre_array", "crossing"])
def test_a_picture_is_small_and_neither_flat_nor_narrow(name: str, tmp_path: Path) -> None:
    get_pdk().activate()
    png = cell_picture(load_process(), CELLS[name]())
    (tmp_path / "cell.png").write_bytes(png)
    height, width, _ = matplotlib.image.imread(tmp_path / "cell.png").shape
    assert width <= 640 and height <= 480
    assert 1 / 7 < height / width < 7
    assert png == cell_picture(load_process(), CELLS[name]())


def test_a_page_without_the_ending_md_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cells\.html: .*\.md"):
        write_gallery("soi220", tmp_path / "cells.html")
    assert not list(tmp_path.iterdir())
