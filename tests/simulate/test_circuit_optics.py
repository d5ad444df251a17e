"""Index arrays of a circuit, and refusal of incomplete circuits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import NetlistError, flatten
from optinc_pdk.simulate import analyse
from optinc_pdk.simulate.circuit_optics import label_suggestion

from .conftest import add_fibre, add_heater, builder, chain


def heated_guide():
    b = builder()
    b.add("h", "phase_shifter")
    add_heater(b, "h", "drive")
    add_fibre(b, "in", "h,o1")
    add_fibre(b, "out", "h,o2")
    return b


def test_heater_knows_its_channel_and_ports():
    structure = analyse(heated_guide().build())
    assert structure.labels == ("in", "out")
    assert structure.channel == ("drive",)
    assert structure.heater_port.shape == (1, 2)
    # both ports of the heated guide are joined to gratings
    assert np.all(structure.partner[structure.heater_port] >= 0)


def test_hierarchical_and_flat_are_the_same(process):
    circuit = assemble(chain(Averaging(4, 4, 2)), process, "chip")
    whole, flat = analyse(circuit), analyse(flatten(circuit))
    assert np.array_equal(whole.partner, flat.partner)
    assert whole.channel == flat.channel
    assert "" not in whole.channel
    assert len(set(whole.channel)) == whole.heater.size


def test_lengths_belong_to_both_ends():
    circuit = heated_guide().build()
    structure = analyse(replace(circuit, net_length_um=np.array([10.0, 20.0])))
    assert sorted(structure.length_um.tolist()) == [0.0, 0.0, 10.0, 10.0, 20.0, 20.0]


def test_open_port_is_refused():
    b = builder()
    b.add("split", "mmi1x2")
    add_fibre(b, "in", "split,o1")
    add_fibre(b, "out", "split,o2")
    with pytest.raises(NetlistError, match=r"split,o3 .*\(1 "):
        analyse(b.build())


def test_fibre_that_is_joined_inside_is_refused():
    circuit = heated_guide().build()
    joined = int(circuit.nets[0, 0])
    with pytest.raises(NetlistError, match="'middle'"):
        analyse(replace(circuit, ports={**circuit.ports, "middle": joined}))


def test_shorted_channels_are_refused():
    b = heated_guide()
    b.add("pad_other", "pad")
    b.ports["other"] = "pad_other,e1"
    b.connect("pad_other,e1", "pad_drive,e1")
    with pytest.raises(NetlistError, match=r"'h' .* drive, other"):
        analyse(b.build())


def test_heater_without_ground_has_no_channel():
    b = heated_guide()
    b.nets.remove(("pad_GND0,e1", "h,e2"))
    assert analyse(b.build()).channel == ("",)


def test_unknown_fibre_is_refused():
    with pytest.raises(NetlistError, match=r"'nowhere'.* in, out \(2\)"):
        analyse(heated_guide().build()).label_positions(["nowhere"])


def test_similar_labels_are_suggested():
    labels = [f"in_r{i}" for i in range(9)]
    assert " in_r0 or" in label_suggestion("in_r0_", labels)
    assert label_suggestion("zzz", labels).endswith(" in_r0, in_r1, in_r2, in_r3, in_r4, in_r5, … (9)")
