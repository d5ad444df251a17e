"""The card of CORNERSTONE's platform: numbers derived from its measurements, its limits, and chips on it."""

from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
import yaml

from optinc_pdk.cards import CardError, load_process
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.cells import CELLS
from optinc_pdk.networks import bundled_weights
from optinc_pdk.options import BuildOptions
from optinc_pdk.pdk import get_pdk
from optinc_pdk.pipeline.building import build
from optinc_pdk.pipeline.stages import Build

NAME = "cornerstone220"
PROCESS = load_process(NAME)
# cut-backs of strip devices in the component library of call 48, dB
BAR_DB, CROSS_DB, ONE_PORT_DB, CROSSING_DB = 3.3673, 3.3073, 3.3056, 0.1195


def test_losses_follow_from_the_published_cut_backs() -> None:
    bar, cross = 10 ** (-BAR_DB / 10), 10 ** (-CROSS_DB / 10)
    coupler = PROCESS.device("mmi2x2").model.parameters
    assert float(coupler["loss_db"]) == pytest.approx(-10 * np.log10(bar + cross), abs=5e-4)
    assert float(coupler["imbalance"]) == pytest.approx((bar - cross) / (bar + cross), abs=5e-4)
    splitter = PROCESS.device("mmi1x2").model.parameters
    assert float(splitter["loss_db"]) == pytest.approx(ONE_PORT_DB - 10 * np.log10(2), abs=5e-4)
    assert float(PROCESS.device("crossing").model.parameters["loss_db"]) == pytest.approx(CROSSING_DB, abs=1e-3)


def test_fast_parts_are_engineering_defaults() -> None:
    """The run offers no modulator and no photodiode of stated bandwidth: a card that named a source would claim one."""
    assert PROCESS.activation.realisation == "offchip"
    assert PROCESS.link.kind == "neurons"
    for device in ("modulator", "photodiode"):
        card = PROCESS.device(device)
        for parameter in card.model.parameters.values():
            assert card.sources[parameter.source].startswith("engineering default")


def test_grating_lines_are_no_longer_than_the_guidelines_allow() -> None:
    """Lines whose gaps are below 350 nm are at most 20 µm long; no kind of rule expresses this."""
    get_pdk(NAME).activate()
    grating = CELLS["grating_coupler"]()
    etch = kdb.Region(grating.begin_shapes_rec(grating.kcl.layer(*PROCESS.layers["etch70"].gds)))
    lines = [line.to_dtype(0.001) for line in etch.merged().each()]
    card = PROCESS.device("grating_coupler")
    assert card.size("period_um") - card.size("etch_um") < 0.35
    assert len(lines) == card.size("periods")
    # a thin line is half of its perimeter long
    assert 15.0 < max(line.perimeter() / 2 for line in lines) < 20.0


def test_no_die_is_larger_than_the_design_area(tmp_path: Path) -> None:
    """No larger area is offered: a die of its own size contradicts the rule, also below the design area."""
    card = {
        "schema": 1,
        "name": "larger",
        "title": "larger dies",
        "base": NAME,
        "dies": [
            {
                "width_um": {"value": 11470, "source": "guidelines"},
                "height_um": {"value": 4900, "source": "guidelines"},
                "fit": "fits one die",
                "own_size": True,
            }
        ],
    }
    (tmp_path / "process.yml").write_text(yaml.safe_dump(card))
    with pytest.raises(CardError, match=r"dies\.0.*11470 by 4900 µm.*no own_size"):
        load_process(tmp_path)


def built(process: str, folder: Path) -> Build:
    return build(bundled_weights(4, 4), folder, BuildOptions(name="chip", process=process, link="neurons"))


@pytest.mark.full
def test_the_bundled_network_passes_on_layers_of_the_platform(tmp_path: Path) -> None:
    report = built(NAME, tmp_path).report
    assert report.verdict == "pass"
    assert report.function is not None
    assert report.function.exact == report.function.inputs
    assert (report.chip.fit, report.chip.width_um, report.chip.height_um) == ("fits one die", 11470, 4900)
    layout = kdb.Layout()
    layout.read(str(tmp_path / "chip.gds"))
    # black boxes and marks of coupled guides are layers of this project, not of the platform
    ours = {PROCESS.layers[name].gds for name in ("blackbox", "coupled")}
    drawn = {(info.layer, info.datatype) for info in layout.layer_infos()}
    assert drawn <= set(PROCESS.gds_layers.values()) - ours


@pytest.mark.full
def test_the_extinction_of_the_platforms_own_modulator_does_not_suffice(tmp_path: Path) -> None:
    """At 3 dB, geometry and circuit are right, and words are wrong."""
    cards = tmp_path / "cards"
    (cards / "devices").mkdir(parents=True)
    (cards / "process.yml").write_text(f"schema: 1\nname: weak\ntitle: weak extinction\nbase: {NAME}\n")
    device = yaml.safe_load((components_folder() / NAME / "devices" / "modulator.yml").read_text())
    device["model"]["parameters"]["extinction_db"] = {"value": 3.0, "source": "default"}
    (cards / "devices" / "modulator.yml").write_text(yaml.safe_dump(device))
    report = built(str(cards), tmp_path / "out").report
    assert report.verdict == "fail"
    assert report.drc.violations == 0
    assert report.lvs.match
    assert report.function is not None
    assert report.function.exact < report.function.inputs / 2
