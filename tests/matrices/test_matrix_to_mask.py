"""benchmarks/matrix_to_mask.py: other packages on the same matrices, and its page."""

import sys
from pathlib import Path

import matrix_to_mask
import pytest
from matrix_peers import PEERS
from studies import page

PAGE = page("matrix_peers")


@pytest.mark.parametrize("name", ["optinc-pdk", "phaseshift"])
def test_a_package_is_measured_in_its_process(name: str, tmp_path: Path) -> None:
    pytest.importorskip(name.replace("-", "_"), reason=f"the peer {name} is not installed")
    files = matrix_to_mask.targets((3, 4), tmp_path)[False]
    found = matrix_to_mask.run(name, sys.executable, files, 300.0, tmp_path)
    assert found.reason == ""
    assert sorted(found.rows) == [3, 4]
    assert all(row["error"] < 1e-12 and row["decomposition"] > 0 for row in found.rows.values())


def test_a_package_that_does_not_run_is_listed_with_the_reason(tmp_path: Path) -> None:
    files = matrix_to_mask.targets((3,), tmp_path)[True]
    missing = matrix_to_mask.run("torchonn", str(tmp_path / "python"), files, 300.0, tmp_path)
    assert "No such file" in missing.reason
    absent = matrix_to_mask.run("neurophox", sys.executable, files, 300.0, tmp_path)
    assert "No module named 'neurophox'" in absent.reason
    rows = matrix_to_mask.table_rows({"torchonn": missing, "perceval": matrix_to_mask.Measured(reason="why")}, (3, 4))
    assert rows[1] == "| perceval, triangle | – | why | why | – |"


def test_the_page_lists_every_package_and_title() -> None:
    for name in (*matrix_to_mask.FEATURES, *(matrix_to_mask.TITLES[peer] for peer in PEERS)):
        assert f"\n| {name} |" in PAGE
