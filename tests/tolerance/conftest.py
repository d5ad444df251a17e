"""A chip of four bits and two servers with a geometry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import flatten
from optinc_pdk.onn import carry_chain
from optinc_pdk.simulate import program
from optinc_pdk.tolerance.spectrum import Subject

PROCESS = load_process()


def subject_of(scale_um=300.0, process=PROCESS):
    """Guides of random lengths between MZIs, equal arms inside them, resistances; programmed at 1550 nm."""
    onn = carry_chain(Averaging(4, 2, 2))
    circuit = assemble(onn, process, "chip")
    flat = flatten(circuit)
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(len(flat.instances)), np.diff(flat.offset))[flat.nets]
    parent = np.array([name.rpartition(".")[0] for name in flat.instances])[owner]
    inside = (parent[:, 0] == parent[:, 1]) & (parent[:, 0] != "")
    heated = flat.of_kind("phase_shifter")
    settings = {key: np.full(len(flat.instances), np.nan) for key in ("resistance_ohm", "wire_ohm")}
    settings["resistance_ohm"][heated], settings["wire_ohm"][heated] = 1100.0, 80.0
    lengths = np.where(inside, 30.0, rng.uniform(30.0, 30.0 + scale_um, len(flat.nets)))
    flat = replace(flat, settings=settings, net_length_um=lengths)
    bias = program(flat, circuit.board, onn, process).bias
    return Subject(flat, circuit.board, bias, onn, process)


@pytest.fixture(scope="session")
def subject():
    return subject_of()
