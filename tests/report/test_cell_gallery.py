"""The gallery of cells: contents of the page, and pictures."""

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


def test_a_gallery_has_a_section_and_a_picture_of_every_cell(tmp_path: Path) -> None:
    assert write_gallery("soi220", tmp_path / "cells.md") == len(cells_of(load_process()))
    page = (tmp_path / "cells.md").read_text()
    assert re.findall(r"\n## (\w+)\n", page) == list(cells_of(load_process()))
    shown = set(re.findall(r"!\[\w+\]\((.*?)\)", page))
    assert shown == {f"cells/{path.name}" for path in (tmp_path / "cells").iterdir()}
    assert shown == {f"cells/{cell}.png" for cell in cells_of(load_process())}


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
