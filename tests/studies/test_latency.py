"""Latency of a chip: delays of its guides against their lengths, and every part that a card states."""

from __future__ import annotations

import numpy as np
import pytest
from comparator_toy import BOARD

from optinc_pdk.cards import load_process
from optinc_pdk.simulate import Scattering
from optinc_pdk.studies.latency import APART_NM, LIGHT_SPEED_M_S, layer_delays_s, link_latency


def light(board, delays_ps, wavelength_nm):
    """A chip whose light to each detector is late by a delay of its layer, and by half of it from the first source."""
    layers = [[label for row in board.inputs for label in row]]
    ends = []
    for layer in range(board.layers - 1):
        neurons = [neuron for neuron in board.neurons if neuron.layer == layer]
        ends.append(sorted({label for n in neurons for label in (n.plus, n.minus) if label}))
        layers.append([n.to for n in neurons])
    ends.append([label for row in board.outputs for label in row])
    labels = sorted({label for group in (*layers, *ends) for label in group})
    s = np.zeros((1, len(labels), len(labels)), dtype=np.complex128)
    turns = 2e9 * np.pi * LIGHT_SPEED_M_S / wavelength_nm
    for sources, detectors, delay in zip(layers, ends, delays_ps, strict=True):
        for column, source in enumerate(sources):
            late = 1e-12 * delay * (1.0 if column else 0.5)
            for detector in detectors:
                s[0, labels.index(detector), labels.index(source)] = 0.5 * np.exp(1j * turns * late)
    return Scattering(np.array([wavelength_nm]), tuple(labels), s)


def test_the_longest_delay_of_each_layer_counts() -> None:
    delays = [80.0, 250.0]
    near, longer = (light(BOARD, delays, 1550.0 + far) for far in (0.0, APART_NM))
    # the single input is the first source of its layer
    assert 1e12 * layer_delays_s(near, longer, BOARD) == pytest.approx([40.0, 250.0], rel=1e-4)


def test_every_part_counts_and_parts_without_a_number_are_named() -> None:
    process = load_process()
    arguments = *(light(BOARD, [80.0, 250.0], 1550.0 + far) for far in (0.0, APART_NM)), BOARD
    found = link_latency(*arguments, process, 1e9)
    fibres, activation = process.noise.fibres, process.activation
    assert found.parts_s == pytest.approx(
        {
            "symbols": 2e-9,
            "guides": 2.9e-10,
            "fibres": 2.0 * float(fibres.length_m) * float(fibres.index) / LIGHT_SPEED_M_S,
            "modulators": 2.0 * float(activation.modulator_delay_s),
            "electronics": 2.0 * float(activation.delay_s),
        },
        rel=1e-4,
    )
    assert found.missing == () and found.total_s == pytest.approx(sum(found.parts_s.values()))
    unknown = process.model_copy(update={"activation": activation.model_copy(update={"delay_s": None})})
    less = link_latency(*arguments, unknown, 1e9)
    assert less.missing == ("electronics (activation.delay_s)",) and "electronics" not in less.parts_s
