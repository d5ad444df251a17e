"""Light everywhere on a chip for a few inputs: what all sources launch, and the power that enters every port."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.drive import SharedGround
from optinc_pdk.simulate.circuit_optics import CircuitOptics
from optinc_pdk.simulate.heater_drive.phases import heater_phases
from optinc_pdk.simulate.s_parameters.scattering import Scattering
from optinc_pdk.simulate.s_parameters.sparse_solver import solve
from optinc_pdk.simulate.transmission.detection import network_of, source_labels
from optinc_pdk.simulate.transmission.settling import settle_light


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
    """Return the light that inputs of a network launch: the carrier, the inputs, and the neurons' modulators.

    Args:
        titles: What each input is.
        inputs: (B, inputs) amplitudes of the inputs.
        scattering: S-parameters of the whole chip at one wavelength.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of the neurons.

    Raises:
        NetlistError: The bias lacks a neuron or a receiver.
        UnsettledError: Amplitudes do not converge, because reflections couple the layers.
    """
    groups = source_labels(board)
    labels = tuple(label for group in groups for label in group)
    amplitudes = settle_light(np.asarray(inputs, dtype=np.float64), network_of(scattering, board, bias, 0)).amplitudes
    leaking = scattering.leak * np.sqrt(np.maximum(1.0 - amplitudes**2, 0.0))
    # the carrier passes no modulator
    leaking[:, 0] = 0.0
    fields = np.repeat(amplitudes + 1j * leaking, [len(group) for group in groups], axis=1)
    return LightSamples(titles, labels, fields * scattering.strength(labels, board.launched)[0])


def port_powers(
    structure: CircuitOptics, samples: LightSamples, bias: Bias, process: Process, ground: SharedGround | None
) -> Floats:
    """Compute the optical power that enters the devices at every port, with reflected light.

    Args:
        structure: The circuit, driven by the DAC codes of the bias.
        samples: Light that enters it.
        bias: Bias of its heaters.
        process: Process of the cards.
        ground: Ground rise that results from the heaters' currents; None for no ground rise.

    Returns:
        (B, ports) powers over that of an input of full scale.

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
    """Return at most `most` of `count` rows, ascending: first, last, one that must be among them, others between.

    Args:
        count: Number of rows.
        most: Number of rows that are chosen at most, 2 or more.
        also: A row that must be among them; None for none.
    """
    free = most - (also is not None)
    rows = np.unique(np.linspace(0, count - 1, min(free, count)).round().astype(np.int64))
    return rows if also is None else np.union1d(rows, [also])
