"""Layouts, netlists and processes that cannot be of one chip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.errors import InputError
from optinc_pdk.extract import Extraction
from optinc_pdk.signoff.lvs.input_consistency import check_netlist, netlist_hint, process_hint

PROCESS = load_process()


def extracted(circuit: Circuit) -> Extraction:
    return Extraction(circuit, (), {})


def renamed(circuit: Circuit, count: int) -> Circuit:
    """A circuit whose first labels, except those of grounds, are replaced by others."""
    names = [name for name in circuit.ports if not name.startswith("GND")][:count]
    return replace(circuit, ports={f"x{k}" if k in names else k: port for k, port in circuit.ports.items()})


def test_only_a_netlist_that_shares_less_than_half_its_labels_is_another_chips() -> None:
    chip = mesh_chip(4, PROCESS, "chip")
    channels = sum(not name.startswith("GND") for name in chip.ports)
    check_netlist(chip, extracted(chip), PROCESS)
    check_netlist(chip, extracted(renamed(chip, channels // 2)), PROCESS)
    with pytest.raises(InputError, match=rf"{channels // 2 + 1} of its {channels} labels"):
        check_netlist(chip, extracted(renamed(chip, channels // 2 + 1)), PROCESS)


def test_a_layout_without_labels_or_half_of_its_chip_is_compared() -> None:
    chip = mesh_chip(4, PROCESS, "chip")
    check_netlist(chip, extracted(replace(chip, ports={})), PROCESS)
    few = dict(list(chip.ports.items())[:12])
    check_netlist(chip, extracted(replace(chip, ports=few)), PROCESS)
    check_netlist(replace(chip, ports=few), extracted(chip), PROCESS)


def test_a_netlist_with_few_common_labels_gets_a_hint() -> None:
    small, large = mesh_chip(2, PROCESS, "small"), mesh_chip(6, PROCESS, "large")
    assert netlist_hint(small, extracted(small)) == ""
    assert "labels are not in the layout" in netlist_hint(large, extracted(small))
    assert "are not in it" in netlist_hint(small, extracted(large))


def test_devices_without_a_card_are_another_processes() -> None:
    chip = mesh_chip(4, PROCESS, "chip")
    without = PROCESS.model_copy(update={"devices": {k: v for k, v in PROCESS.devices.items() if k != "mmi2x2"}})
    with pytest.raises(InputError, match=r"'soi220'.*: mmi2x2"):
        check_netlist(chip, extracted(chip), without)


def test_the_hint_names_the_process_that_has_all_layers(tmp_path: Path) -> None:
    def written(*layers: str) -> Path:
        layout = kdb.Layout()
        top = layout.create_cell("TOP")
        known = load_process("soi220_flipchip").gds_layers | {"none": (777, 0)}
        for name in layers:
            top.shapes(layout.layer(*known[name])).insert(kdb.Box(0, 0, 1000, 1000))
        layout.write(str(tmp_path / "chip.gds"))
        return tmp_path / "chip.gds"

    assert "soi220_flipchip" in process_hint(written("core", "bump"), PROCESS)
    assert process_hint(written("core", "metal"), PROCESS) == ""
    assert process_hint(written("core", "none"), PROCESS) == ""
