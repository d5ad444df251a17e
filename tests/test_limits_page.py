"""docs/limits.md states the limits of the code."""

from pathlib import Path

from optinc_pdk.circuit import _hierarchy as hierarchy
from optinc_pdk.extract import layout_reader, layout_size
from optinc_pdk.io import yaml_files
from optinc_pdk.io.reading import FILE_KINDS, MIB
from optinc_pdk.signoff.drc import _shape_checks as shape_checks
from optinc_pdk.signoff.drc import design_rule_check
from optinc_pdk.signoff.electrical import _resistive_sheet as resistive_sheet

PAGE = (Path(__file__).parents[1] / "docs" / "limits.md").read_text()


def rows(title: str) -> list[list[str]]:
    """Cells of the body of the table below a title."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_sizes_of_files() -> None:
    assert rows("Size of a file") == [[kind.name, f"{kind.max_bytes // MIB:,}", kind.remedy] for kind in FILE_KINDS]


def test_contents_of_files() -> None:
    limits = [
        layout_size.MAX_CELLS, layout_size.MAX_DEPTH, layout_size.MAX_PLACED, layout_size.MAX_POINTS,
        layout_reader.MAX_LAYERS, round(layout_reader.MAX_UM), layout_reader.MAX_SECONDS, hierarchy.MAX_INSTANCES,
        yaml_files.MAX_VALUES, yaml_files.MAX_REPEATED, yaml_files.MAX_DEPTH,
    ]  # fmt: skip
    assert [row[2] for row in rows("Content of a file")] == [f"{limit:,}" for limit in limits]


def test_work() -> None:
    limits = [f"{design_rule_check.MAX_MARKED:,}", f"{resistive_sheet.MAX_CELLS:,}"]
    assert [row[2] for row in rows("Work on a file")][:2] == limits
    assert f"more than {shape_checks.MAX_CORNERS:,} corners" in PAGE
    assert f"more than {shape_checks.MAX_PAIRS:,} pairs" in PAGE
