"""Failures of KLayout's geometry engine are refusals of the layout; other errors stay errors."""

from __future__ import annotations

from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.extract import extract
from optinc_pdk.extract.size_limits import GdsError
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.electrical.wiring import read_wiring

PROCESS = load_process()
FAULT = "Internal error: src/db/db/dbPolygonGenerators.cc:394 m_open.empty () was not true in Region.merged"


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    path, plan = tmp_path / "odd.gds", kdb.Layout()
    cell = plan.create_cell("ODD")
    for name in ("core", "metal", "heater"):
        cell.shapes(plan.layer(*PROCESS.gds_layers[name])).insert(kdb.Box(0, 0, 20_000, 20_000))
    plan.write(str(path))
    return path


@pytest.mark.parametrize(
    "read",
    [
        lambda path: extract(path, PROCESS),
        lambda path: run_drc(path, PROCESS.rules, PROCESS.gds_layers),
        lambda path: read_wiring(path, PROCESS),
    ],
)
def test_an_engine_that_fails_refuses_the_file(layout: Path, monkeypatch: pytest.MonkeyPatch, read) -> None:
    read(layout)

    def broken(*given: object) -> None:
        raise RuntimeError(FAULT)

    for name in ("merged", "merge", "sized", "space_check", "width_check", "interacting", "insert"):
        monkeypatch.setattr(kdb.Region, name, broken)
    with pytest.raises(GdsError, match=r"odd\.gds: KLayout cannot process its polygons \(Internal error: .*draw"):
        read(layout)


def test_other_errors_are_not_hidden(layout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(kdb.Region, "merged", broken)
    monkeypatch.setattr(kdb.Region, "insert", broken)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        extract(layout, PROCESS)
