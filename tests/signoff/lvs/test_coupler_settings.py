"""Settings of couplers of any gap and length: what a netlist rounds is no difference, another setting is one."""

from pathlib import Path
from typing import Any

import gdsfactory as gf
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.circuit.gdsfactory_netlists import placed_circuit
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.extracted_chip import read_drawn_circuit

PROCESS = load_process()


def draw(gds: Path, gap: float, length_x: float) -> dict[str, Any]:
    """Draw a ring beside a guide with a fibre at each end, and return its netlist."""
    get_pdk().activate()
    c = gf.Component()
    ring = c.add_ref(gf.get_component("coupler_ring", gap=gap, radius=20.0, length_x=length_x), name="coupler")
    for port in ("o1", "o4"):
        fibre = c.add_ref(gf.get_component("grating_coupler"), name=f"fibre_{port}")
        fibre.connect("o1", ring[port])
        c.add_port(port, port=fibre["o2"])
    for port in ("o2", "o3"):
        c.add_ref(gf.get_component("terminator"), name=f"end_{port}").connect("o1", ring[port])
    c.write_gds(str(gds))
    return dict(c.get_netlist())


@pytest.mark.parametrize("gap", [0.2, 1.1, 1.2])
def test_a_coupled_length_that_the_netlist_rounds_to_a_nanometre_matches(gap: float, tmp_path: Path) -> None:
    """Guides 1.2 µm apart have a coupled length of 8.3 nm, which the netlist states as 8 nm: 4 % less."""
    netlist = draw(tmp_path / "ring.gds", gap, 4.0)
    result = read_drawn_circuit(tmp_path / "ring.gds", placed_circuit(netlist, PROCESS, "ring"), PROCESS).lvs
    assert result is not None and result.match, result.differences


@pytest.mark.parametrize("gap", [0.2, 0.6])
def test_another_coupled_length_is_a_difference(gap: float, tmp_path: Path) -> None:
    netlist = draw(tmp_path / "ring.gds", gap, 4.0)
    draw(tmp_path / "ring.gds", gap, 5.0)
    result = read_drawn_circuit(tmp_path / "ring.gds", placed_circuit(netlist, PROCESS, "ring"), PROCESS).lvs
    assert result is not None
    assert "coupled_length" in {difference.kind for difference in result.differences}
