"""Outputs that end in neurons: the same function, one layer more, and the network that a chip's layers realise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.networks import (
    Activation,
    AveragingNetwork,
    Layer,
    comparator_network,
    factorise,
    output_notes,
    realised_network,
    with_output_neurons,
)

TASK = Averaging(4, 4, 2)


def exact(activation: Activation) -> AveragingNetwork:
    """A network whose levels are within 0 … 3, with an output bias of 0.3 levels."""
    if activation == "clipped_relu":
        onn = comparator_network(TASK)
    else:
        # the inputs pass through
        onn = AveragingNetwork((Layer(np.eye(2), np.zeros(2)), Layer(np.diag([0.9, 0.8]), np.zeros(2))), TASK)
    *hidden, last = onn.layers
    return replace(onn, layers=(*hidden, Layer(0.9 * last.weight, np.full(2, 0.3))), card={})


@pytest.mark.parametrize("activation", ["relu", "clipped_relu"])
def test_the_function_is_the_same_and_the_bias_is_a_neurons(activation: Activation) -> None:
    onn = exact(activation)
    changed = with_output_neurons(onn)
    points = TASK.lattice()
    np.testing.assert_allclose(changed.forward(points), onn.forward(points), atol=1e-12)
    assert changed.structure == (*onn.structure, 2) and changed.activation == activation
    assert not changed.layers[-1].bias.any() and changed.layers[-2].bias.all()


def test_a_remainder_has_its_own_full_scale() -> None:
    task = Averaging(4, 4, 2, remainder=True)
    onn = comparator_network(task)
    changed = with_output_neurons(onn)
    # the last output reaches level 3.75
    np.testing.assert_allclose(np.diag(changed.layers[-1].weight), [3.0, 3.75])
    points = task.lattice()
    np.testing.assert_allclose(changed.forward(points), onn.forward(points), atol=1e-12)


def test_the_added_layer_has_an_attenuator_for_each_symbol() -> None:
    onn = comparator_network(TASK)
    *_, last = factorise(with_output_neurons(onn))
    np.testing.assert_allclose(last.realised, np.eye(2), atol=1e-12)
    # the paper's convention counts an attenuator as an MZI
    assert last.factor.mzis == 2


def test_the_number_of_layers_tells_which_network_a_chip_realises() -> None:
    onn = exact("clipped_relu")
    count = len(onn.layers)
    assert realised_network(onn, count).structure[-2] == onn.structure[-2] + 1  # the bias as a unit
    assert len(realised_network(onn, count + 1).layers) == count + 1
    realised = with_output_neurons(onn)
    assert realised_network(realised, count + 1) is realised
    for wrong in (count - 1, count + 2):
        with pytest.raises(InputError, match=rf"the chip has {wrong} layers, the network {count}"):
            realised_network(onn, wrong)


def test_notes_say_what_is_added() -> None:
    onn = exact("clipped_relu")
    [note] = output_notes(onn, neurons=True)
    assert "2 neurons" in note and "one layer more" in note
    [note] = output_notes(onn, neurons=False)
    assert "constant" in note
    assert output_notes(comparator_network(TASK), neurons=False) == []
