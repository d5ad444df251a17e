"""Light of a chip without noise: settled for many words by a compiled loop, and at every port for a few inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.simulate.circuit_optics import CircuitOptics
from optinc_pdk.simulate.heater_drive import heater_phases
from optinc_pdk.simulate.s_parameters._sparse_solver import solve
from optinc_pdk.simulate.s_parameters.scattering import Scattering
from optinc_pdk.simulate.transmission.detection import ChipNetwork, DetectionMatrix, network_of, source_labels

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
    """The hidden layers of a chip as arrays, see :func:`optinc_pdk.simulate.transmission._light_kernels.settle`."""

    first: int
    leak: float
    transfer: Floats
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
    """Return the hidden layers of a chip, of which there is at least one, as arrays."""
    layers = network.layers
    fields = [_dense_fields(layer.detection, network.sources) for layer in layers]
    receivers = _dense_fields(network.receivers, network.sources)
    return SettlingArrays(
        first=layers[0].source.start,
        leak=layers[0].detection.modulator.leak,
        transfer=np.array(layers[0].detection.modulator.transfer),
        field_re=np.hstack([real for real, _ in fields]),
        field_im=np.hstack([imaginary for _, imaginary in fields]),
        detector_start=_starts([layer.detection.feed.detectors for layer in layers]),
        row_of_pair=np.concatenate([layer.row_of_pair for layer in layers]),
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
    """Calculate the light of a chip after it has settled, for (B, inputs) amplitudes of the servers, without noise.

    Raises:
        UnsettledError: Amplitudes do not converge.
    """
    light = np.empty((network.sources, inputs.shape[0]))
    light[0] = 1.0
    light[1 : 1 + inputs.shape[1]] = inputs.T
    if not network.layers:
        return SettledLight(light.T, [], network.receivers.fields(light.T))
    from optinc_pdk.simulate.transmission._light_kernels import settle

    arrays = settling_arrays(network)
    differences = np.empty((arrays.gain.size, inputs.shape[0]))
    fields = np.empty((2 * arrays.receiver_re.shape[1], inputs.shape[0]))
    passes = 1 if network.forward else MAX_PASSES
    change = settle(light, *arrays, passes, SETTLED_CHANGE, differences, fields)
    if change > 0.0:
        raise UnsettledError(change)
    bounds = zip(arrays.neuron_start[:-1].tolist(), arrays.neuron_start[1:].tolist(), strict=True)
    return SettledLight(light.T, [differences[begin:end].T for begin, end in bounds], fields.T)


@dataclass(frozen=True, eq=False)
class LightSamples:
    """Light that enters a chip for B inputs, with the modulators' amplitudes that these inputs cause.

    Attributes:
        titles: What each input is.
        labels: Labels of the L fibres and modulators that launch light.
        fields: (B, L) fields that they launch; 1 is an input of full scale.
    """

    titles: tuple[str, ...]
    labels: tuple[str, ...]
    fields: Complexes


def sample_network(
    titles: tuple[str, ...], inputs: ArrayLike, scattering: Scattering, board: Board, bias: Bias
) -> LightSamples:
    """Return the light that (B, inputs) amplitudes launch: the carrier, the inputs, and the neurons' modulators.

    Raises:
        NetlistError: The bias lacks a neuron or a receiver.
        UnsettledError: Amplitudes do not converge, because reflections couple the layers.
    """
    groups = source_labels(board)
    labels = tuple(label for group in groups for label in group)
    amplitudes = settle_light(np.asarray(inputs, dtype=np.float64), network_of(scattering, board, bias, 0)).amplitudes
    leaking = scattering.modulator.leak * np.sqrt(np.maximum(1.0 - amplitudes**2, 0.0))
    # the carrier passes no modulator
    leaking[:, 0] = 0.0
    fields = np.repeat(amplitudes + 1j * leaking, [len(group) for group in groups], axis=1)
    return LightSamples(titles, labels, fields * scattering.strength(labels, board.launched)[0])


def port_powers(
    structure: CircuitOptics, samples: LightSamples, bias: Bias, process: Process, ground: SharedGround | None
) -> Floats:
    """Compute the (B, ports) powers that enter the devices, over that of an input of full scale, with reflected light.

    The circuit is driven by the DAC codes of the bias.

    Raises:
        InputError: The circuit is singular.
    """
    phases = heater_phases(structure, bias, process, ground=ground)
    solution = solve(structure, phases, float(process.guide.wavelength_nm), process)
    ports = np.arange(structure.ports)
    powers = np.empty((len(samples.titles), structure.ports))
    for number, fields in enumerate(samples.fields):
        strength = dict(zip(samples.labels, fields.tolist(), strict=True))
        powers[number] = np.abs(solution.fields_at(ports, [samples.labels], strength)[:, 0]) ** 2
    return powers


def spread_rows(count: int, most: int, *, also: int | None = None) -> Ints:
    """Return at most ``most``, 2 or more, of ``count`` rows, ascending: first, last, others between, and ``also``."""
    free = most - (also is not None)
    rows = np.unique(np.linspace(0, count - 1, min(free, count)).round().astype(np.int64))
    return rows if also is None else np.union1d(rows, [also])
