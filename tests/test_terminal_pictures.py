"""Pictures of commands in a terminal: complete, loading nothing, and of the commands that exist."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from terminal_pictures import PICTURES, shortened, terminal_svg

from optinc_pdk.cli.app import GROUPS

FOLDER = Path(__file__).parent.parent / "docs" / "terminal"


def lines(svg: str) -> list[str]:
    """Lines of text of a picture, the title first."""
    rows: dict[str, str] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        row = element.get("y", "")
        rows[row] = rows.get(row, "") + (element.text or "")
    return [text.replace("\xa0", " ").rstrip() for text in rows.values()]


def test_a_picture_has_the_command_and_its_output_and_loads_nothing() -> None:
    svg = terminal_svg("name", "optinc drc a.gds", "a <b> & c\n  d\n")
    assert lines(svg)[1:] == ["$ optinc drc a.gds", "a <b> & c", "  d"]
    assert "@font-face" not in svg and "url(http" not in svg


def test_folders_are_shortened_the_longest_first() -> None:
    assert shortened("/a/b/c /a/d", {"/a": "A", "/a/b": "B"}) == "B/c A/d"


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_docs_show_their_command_and_no_folder_of_a_machine(name: str) -> None:
    text = lines((FOLDER / f"{name}.svg").read_text(encoding="utf-8"))
    assert text[1] == f"$ optinc {' '.join(PICTURES[name])}"
    assert not re.search(r"/(home|root|work|tmp|Users)/", "\n".join(text))


def test_the_picture_of_the_help_lists_all_commands() -> None:
    text = lines((FOLDER / "help.svg").read_text(encoding="utf-8"))
    listed = [match[1] for line in text if (match := re.match(r"  ([a-z]+)  +[A-Z]", line))]
    assert listed == [name for names in GROUPS.values() for name in names]
