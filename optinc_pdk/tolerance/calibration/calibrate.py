"""Calibration of one chip on a bench: measure, fit its twin, bias it by that, tune it in the loop, set its electronics.

Nothing here knows what the chip is made of: the layout as designed, the network and the bench's readings are all there
is. Three biases come out, for before, between and after: the design's, that by the fitted twin, and the tuned one, each
with electronics for what was measured with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias
from optinc_pdk.drive import RangeError
from optinc_pdk.files import InputError
from optinc_pdk.onn import Onn
from optinc_pdk.simulate.electronics import neurons, significant
from optinc_pdk.simulate.fit import Problem
from optinc_pdk.simulate.response import Linear
from optinc_pdk.simulate.target import Target, targets
from optinc_pdk.tolerance.calibration.even import even_layers, even_problem
from optinc_pdk.tolerance.calibration.measure import (
    Laboratory,
    Layer,
    Seen,
    coefficients,
    layers_of,
    levels,
    measure,
    receiver_gains,
)
from optinc_pdk.tolerance.calibration.model import Heaters, efficiencies, heaters_of
from optinc_pdk.tolerance.calibration.rebias import rebias
from optinc_pdk.tolerance.calibration.rounding import settle
from optinc_pdk.tolerance.calibration.steps import State, look
from optinc_pdk.tolerance.calibration.through import Words, electronics_of, sample_words, with_electronics
from optinc_pdk.tolerance.calibration.tune import RESTARTS, tune
from optinc_pdk.tolerance.calibration.words import Place, finish
from optinc_pdk.tolerance.variation.chip import Chip

Floats = NDArray[np.float64]
Progress = Callable[[str, float], None]

ENOUGH = 0.6
"""Share of the network's margin that leaves room for words which were not tried."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What drives a chip.

    Attributes:
        voltage_v: (H,) voltages of the heaters, in the order of the chip's, as the bench's drive can make them.
        bias: The same by pad label, with electronics, receivers and servers' levels.
        error: (layers,) rms matrix error over the 2-norm, as measured; of receivers' rows at equal norms.
    """

    voltage_v: Floats
    bias: Bias
    error: Floats


@dataclass(frozen=True, eq=False)
class Calibration:
    """A calibrated chip.

    Attributes:
        fitted: Biased by the chip's twin; with the design's electronics where what was measured asks for too much.
        settled: After tuning in the loop, layer by layer, and rounding.
        tuned: The same tuned against the words.
        missed: Symbols of a sample of the lattice that were missed with the last two.
        efficiency: (H,) real over designed phase of each heater; NaN where it has no effect.
        broken: Pad labels of heaters without effect.
        history: (rounds + 1, layers) rms errors while tuning, of all starts.
        settings: Settings of the heaters that were made.
        readings: Readings of single photodiodes that were taken.
    """

    fitted: Setting
    settled: Setting
    tuned: Setting
    missed: tuple[int, int]
    efficiency: Floats
    broken: tuple[str, ...]
    history: Floats
    settings: int
    readings: int


def calibrate(
    laboratory: Laboratory, chip: Chip, onn: Onn, process: Process, progress: Progress | None = None
) -> Calibration:
    """Make a chip on a bench compute its network.

    Args:
        laboratory: The bench.
        chip: The chip as designed.
        onn: The network.
        process: Process of the cards.
        progress: Called with what was done last, ``fit``, ``tune``, ``round`` or ``words``, and the worst
            layer's error.

    Raises:
        RangeError: No heater has any effect, or drive or electronics lack range.
        InputError: The cards are not the chip's.
        ValueError: Chip, bench and network do not belong together.
    """
    if process.name != chip.process.name:
        raise InputError(f"the chip is of process {chip.process.name!r}, not {process.name!r}; give its cards")
    problem = Problem(chip.structure, chip.board, targets(onn, chip.board), float(process.guide.wavelength_nm), process)
    heaters = heaters_of(chip, laboratory)
    layers = layers_of(problem, laboratory)
    start = heaters.rounded(chip.voltage_v)
    tell = progress if progress is not None else _silent
    efficiency = efficiencies(laboratory, layers, heaters, start)
    turn = 2.0 * np.pi / efficiency
    fitted, heaters = rebias(laboratory, even_problem(problem), even_layers(layers), heaters, efficiency)
    tell("fit", float(fitted.sizes.max()))
    place = Workplace(laboratory, chip, problem, heaters, layers)
    found, history = place.tuned(fitted.voltage_v, turn, sample_words(onn.task, layers), tell)
    return Calibration(
        fitted=place.early(fitted),
        settled=found.settled,
        tuned=found.tuned,
        missed=found.missed,
        efficiency=efficiency,
        broken=tuple(chip.structure.channel[i] for i in np.flatnonzero(np.isnan(efficiency)).tolist()),
        history=history,
        settings=laboratory.settings,
        readings=laboratory.readings,
    )


def _silent(what: str, error: float) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, eq=False)
class Found:
    """Where one start ended: before and after tuning against the words, symbols missed then, and how good it is."""

    settled: Setting
    tuned: Setting
    missed: tuple[int, int]
    rank: tuple[int, float]


@dataclass(frozen=True, eq=False)
class Workplace:
    """Who sets the electronics: what they belong to, and what it is measured with."""

    laboratory: Laboratory
    chip: Chip
    problem: Problem
    heaters: Heaters
    layers: tuple[Layer, ...]

    def setting(self, state: State) -> Setting:
        """Electronics for what is measured at a setting.

        Raises:
            RangeError: A neuron needs a gain or offset beyond the card's range.
        """
        process, found = self.problem.process, self.problem.targets
        bits = int(process.activation.resolution_bits)
        (seen,) = measure(self.laboratory, self.layers, state.voltage_v[np.newaxis])
        sent = _sent(self.layers[0], seen[0], bits)

        def detect(target: Target, balance: Floats | None) -> Linear:
            measured = coefficients(self.layers[target.index], seen[target.index], balance)
            return replace(measured, coefficient=measured.coefficient * sent) if target.index == 0 else measured

        gains = receiver_gains(self.layers[-1], seen[-1])
        scale = significant(1.0 / np.sqrt(np.maximum(gains, np.finfo(np.float64).tiny)), bits)
        bias = replace(
            self._bias(state.voltage_v),
            activations=neurons(detect, found, self.chip.board, process),
            outputs=dict(zip(found[-1].plus, scale.tolist(), strict=True)),
            inputs={labels[0]: level for labels, level in zip(found[0].inputs, sent.tolist(), strict=True)},
        )
        return Setting(state.voltage_v, bias, state.sizes)

    def tuned(self, voltage_v: Floats, turn_rad: Floats, words: Words, tell: Progress) -> tuple[Found, Floats]:
        """What comes of tuning layer by layer and then against the words, and the layers' errors on the way.

        Layers that are stuck are tried from other places only where symbols are missed or nearly so: not every matrix
        error is one that words see.

        Raises:
            RangeError: A neuron needs a gain or offset beyond the card's range.
        """
        found, lacking, history = list[Found](), list[RangeError](), list[Floats]()
        bright = even_layers(self.layers)
        enough = ENOUGH * float(0.5 - np.abs(words.wanted - words.level).max())
        for restarts in (0, RESTARTS):
            tuning = tune(self.laboratory, bright, self.heaters, turn_rad, voltage_v, tell, restarts)
            history.append(tuning.history)
            settled = settle(self.laboratory, self.heaters, turn_rad, tuning.state)
            tell("round", float(settled.sizes.max()))
            voltage_v = settled.voltage_v
            try:
                found.append(self._against(words, settled))
            except RangeError as fault:
                lacking.append(fault)
                continue
            tell("words", float(found[-1].tuned.error.max()))
            if found[-1].rank <= (0, -enough):
                break
        if not found:
            raise lacking[-1]
        return min(found, key=lambda one: one.rank), np.concatenate(history)

    def _against(self, words: Words, settled: State) -> Found:
        """Tunes against the words from what is settled."""
        place = Place(self.laboratory, self.heaters, self.layers, self.problem.process, words)
        start = self.setting(settled)
        electronics = electronics_of(start.bias, self.chip.board, self.layers)
        before = place.driven(settled.voltage_v, electronics).passage.wrong
        best = finish(place, settled.voltage_v, electronics)
        state = look(self.laboratory, settled.layers, self.heaters, best.voltage_v)
        bias = with_electronics(self._bias(best.voltage_v), self.chip.board, self.layers, best.electronics)
        return Found(start, Setting(best.voltage_v, bias, state.sizes), (before, best.passage.wrong), best.rank)

    def early(self, state: State) -> Setting:
        """The same before tuning, when a neuron may see so little that no gain is enough: then as designed."""
        try:
            return self.setting(state)
        except RangeError:
            designed = self.chip.bias
            bias = replace(self._bias(state.voltage_v), activations=designed.activations, outputs=designed.outputs)
            return Setting(state.voltage_v, bias, state.sizes)

    def _bias(self, voltage_v: Floats) -> Bias:
        """A bias without electronics; its codes are the nearest of the drive's full number of bits."""
        order = np.argsort(np.array(self.chip.structure.channel))
        bits = int(self.problem.process.drive.dac_bits)
        phase = self.heaters.phases(voltage_v)
        step = self.heaters.full_scale_v / (2**bits - 1)
        return Bias(
            process=self.problem.process.name,
            circuit=self.chip.name,
            dac_bits=bits,
            labels=tuple(self.chip.structure.channel[i] for i in order),
            phase_rad=phase[order],
            power_w=(phase * self.heaters.power_pi_w / np.pi)[order],
            voltage_v=voltage_v[order],
            code=np.rint(voltage_v / step).astype(np.int64)[order],
        )


def _sent(layer: Layer, seen: Seen, bits: int) -> Floats:
    """(J,) levels of the servers, rounded to what their converters can make, which have as many bits as neurons'."""
    if layer.target.last:
        return np.ones(layer.sources.size)
    return np.minimum(significant(levels(layer, coefficients(layer, seen).coefficient), bits), 1.0)
