"""Light of a chip without noise, settled for many words by a compiled loop."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.errors import InputError
from optinc_pdk.simulate.transmission.detection import ChipNetwork, DetectionMatrix

MAX_PASSES = 20
"""Largest number of passes through the layers of a chip whose reflections couple them."""
SETTLED_CHANGE = 1e-9
"""Largest change of an amplitude in the last pass."""


class UnsettledError(InputError):
    """Amplitudes do not converge within the allowed number of passes, because reflections couple the layers."""

    def __init__(self, change: float) -> None:
        """Describe the change of an amplitude in the last pass."""
        super().__init__(
            f"light does not settle within {MAX_PASSES} passes, its last change is {change:.3g}: reflections "
            "couple the layers; lower the gains or the reflections"
        )


class SettlingArrays(NamedTuple):
    """The hidden layers of a chip as arrays, see :func:`optinc_pdk.simulate.transmission.settling_kernel.settle`."""

    first: int
    leak: float
    field_re: Floats
    field_im: Floats
    detector_start: Ints
    row_of_pair: Ints
    row_balance: Floats
    row_start: Ints
    neuron_start: Ints
    row_of_neuron: Ints
    gain: Floats
    offset: Floats
    receiver_re: Floats
    receiver_im: Floats


class SettledLight(NamedTuple):
    """Light of B words in a chip.

    Attributes:
        amplitudes: (B, sources) amplitudes of all sources, those of neurons after saturation at 1.
        differences: For each hidden layer, (B, neurons) detected differences, offsets included.
        fields: (B, 2 receivers) fields at the receivers, real parts first.
    """

    amplitudes: Floats
    differences: list[Floats]
    fields: Floats


@lru_cache(maxsize=1)
def settling_arrays(network: ChipNetwork) -> SettlingArrays:
    """Return the hidden layers of a chip as arrays.

    Args:
        network: The chip on its board; it has a hidden layer.
    """
    layers = network.layers
    fields = [_dense_fields(layer.detection, network.sources) for layer in layers]
    rows = [
        np.repeat(np.arange(a.starts.size), np.diff(a.starts, append=a.detection.feed.detectors // 2)) for a in layers
    ]
    receivers = _dense_fields(network.receivers, network.sources)
    return SettlingArrays(
        first=layers[0].source.start,
        leak=layers[0].detection.leak,
        field_re=np.hstack([real for real, _ in fields]),
        field_im=np.hstack([imaginary for _, imaginary in fields]),
        detector_start=_starts([layer.detection.feed.detectors for layer in layers]),
        row_of_pair=np.concatenate(rows),
        row_balance=np.concatenate([layer.row_balance for layer in layers]),
        row_start=_starts([layer.starts.size for layer in layers]),
        neuron_start=_starts([layer.gain.size for layer in layers]),
        row_of_neuron=np.concatenate([layer.row for layer in layers]),
        gain=np.concatenate([layer.gain for layer in layers]),
        offset=np.concatenate([layer.offset for layer in layers]),
        receiver_re=receivers[0],
        receiver_im=receivers[1],
    )


def _dense_fields(detection: DetectionMatrix, sources: int) -> tuple[Floats, Floats]:
    """Return real and imaginary parts, (F, D) both, of the fields at D detectors for all F sources."""
    dense = np.zeros((sources, detection.field.shape[1]))
    dense[detection.reaching] = detection.field
    real, imaginary = np.split(dense, 2, axis=1)
    return np.ascontiguousarray(real), np.ascontiguousarray(imaginary)


def _starts(counts: list[int]) -> Ints:
    return np.cumsum([0, *counts])


def settle_light(inputs: Floats, network: ChipNetwork) -> SettledLight:
    """Calculate the light of a chip after it has settled, without noise.

    Args:
        inputs: (B, inputs) amplitudes of the servers' modulators.
        network: The chip on its board.

    Raises:
        UnsettledError: Amplitudes do not converge.
    """
    light = np.empty((network.sources, inputs.shape[0]))
    light[0] = 1.0
    light[1 : 1 + inputs.shape[1]] = inputs.T
    if not network.layers:
        return SettledLight(light.T, [], network.receivers.fields(light.T))
    from optinc_pdk.simulate.transmission.settling_kernel import settle

    arrays = settling_arrays(network)
    differences = np.empty((arrays.gain.size, inputs.shape[0]))
    fields = np.empty((2 * arrays.receiver_re.shape[1], inputs.shape[0]))
    passes = 1 if network.forward else MAX_PASSES
    change = settle(light, *arrays, passes, SETTLED_CHANGE, differences, fields)
    if change > 0.0:
        raise UnsettledError(change)
    bounds = zip(arrays.neuron_start[:-1].tolist(), arrays.neuron_start[1:].tolist(), strict=True)
    return SettledLight(light.T, [differences[begin:end].T for begin, end in bounds], fields.T)
