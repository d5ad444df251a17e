"""Biasing a chip by its twin: fit the twin to readings, program it as a build does the extracted circuit, and measure.

First at settings at random, which tell what the chip is like; then around where it is to work, where errors of a few
mrad that the twin has no number for, as from every pair of heaters' own crosstalk, pass for static phases.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.simulate.fit import MAX_ITERATIONS, Problem, fit_phases, illuminate
from optinc_pdk.simulate.program import aligned_phases
from optinc_pdk.tolerance.calibration.measure import Laboratory, Layer
from optinc_pdk.tolerance.calibration.model import Heaters
from optinc_pdk.tolerance.calibration.steps import State, look
from optinc_pdk.tolerance.calibration.twin import Twin, twin_of
from optinc_pdk.tolerance.calibration.twin_fit import Known, adjust, designed, gather, learnt, misfits
from optinc_pdk.tolerance.calibration.twin_start import in_phase

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

READINGS = 10
"""Readings at random settings for each unknown of a layer, as many again where they lead nowhere."""
LOOKED = 3
"""Settings that tell which unknowns belong to a layer."""
COARSE, FINE = 0.1, 0.01
"""What readings may differ from the twin's by, over their rms, while it is far off and when it is near."""
LOST, TRIES = 0.1, 5
"""A layer whose readings differ more after a coarse fit is in a local minimum, which more settings may level out."""
ROUNDS, GAIN = 3, 0.7
"""Times that readings around a measured setting are fitted; one that leaves more of every layer's error is the last."""
STEPS = 3
"""Of programming after the first, which goes where many ways lead to equal errors: not far from what was measured."""
NEAR, NEAR_RAD, NEARER = 8, 0.2, 0.3
"""Settings around a measured one, how far they are, and by what factor nearer in every round."""
UPRIGHT = 0.01
"""Weight of signals a quarter turn from their oscillators while the twin is programmed: of many biases with errors that
small it is then one that wastes no light, which noise would find out."""
DOUBT = 0.3
"""What near readings may differ by after they are fitted, over what they did before."""


def rebias(
    laboratory: Laboratory, problem: Problem, layers: tuple[Layer, ...], heaters: Heaters, efficiency: Floats
) -> tuple[State, Heaters]:
    """The best setting by a twin of the chip, and the heaters with the crosstalk that the twin found.

    Args:
        laboratory: The bench.
        problem: The chip as designed and its targets.
        layers: The layers.
        heaters: The heaters as designed.
        efficiency: (H,) real over designed phase of each heater, NaN where it has no effect.
    """
    random = np.random.default_rng(0)
    twin = twin_of(problem, layers, heaters, efficiency)
    unknown, known, found = fitted(laboratory, twin, random)
    state = best = _programmed(laboratory, twin, unknown, aligned_phases(twin.chip(unknown)), MAX_ITERATIONS)
    for number in range(ROUNDS):
        around = _around(heaters, state.voltage_v, NEAR_RAD * NEARER**number, random)
        near = gather(laboratory, twin, around)
        trust = DOUBT * misfits(twin, unknown, near)
        unknown = adjust(twin, unknown, known, near, trust, found)
        known = learnt(twin, unknown, known, near, trust, found)
        before = state.sizes
        state = _programmed(laboratory, twin, unknown, twin.phases(unknown, state.voltage_v), STEPS)
        best = state if state.sizes[found].max(initial=0.0) < best.sizes[found].max(initial=0.0) else best
        if np.all(state.sizes[found] > GAIN * before[found]):
            break
    return best, twin.warmed(unknown)


def _programmed(laboratory: Laboratory, twin: Twin, unknown: Floats, start: Floats, steps: int) -> State:
    """What is measured with the phases that make the twin compute its network, from (H,) others in so many steps."""
    chip = replace(twin.chip(unknown), upright=UPRIGHT)
    start = np.where(twin.efficiency > 0.0, start, twin.phases(unknown, np.zeros_like(start)))
    phases = fit_phases(chip, start, illuminate(chip, start), iterations=steps).phases
    return look(laboratory, twin.layers, twin.warmed(unknown), twin.voltages(unknown, phases))


def fitted(laboratory: Laboratory, twin: Twin, random: np.random.Generator) -> tuple[Floats, list[Known], Ints]:
    """(N,) unknowns of a twin that suit readings at random settings, what is then known, and which layers were found.

    Layers that stay lost are left to tuning in the loop.
    """
    top = 2.0 * np.pi / np.where(twin.efficiency > 0.0, twin.efficiency, 1.0)

    def settings(count: int) -> Floats:
        return np.array([twin.heaters.voltages(top * random.uniform(size=top.size)) for _ in range(count)])

    card = designed(twin, settings(LOOKED))
    sizes = [len(layer.patterns) * (layer.plus.size + layer.minus.size) for layer in twin.layers]
    count = int(np.ceil(max(READINGS * one.chosen.size / size for one, size in zip(card, sizes, strict=True))))
    unknown, lost = np.zeros(twin.spread.size), np.arange(len(twin.layers))
    evidence = gather(laboratory, twin, settings(count))
    for number in range(TRIES):
        if number:
            evidence = evidence.and_more(gather(laboratory, twin, settings(count)))
        for i in lost.tolist():
            unknown[card[i].chosen] = 0.0
            unknown = in_phase(twin, unknown, twin.layers[i], evidence.made, evidence.seen(twin.layers, i))
        unknown = adjust(twin, unknown, card, evidence, np.full(len(card), COARSE), lost)
        lost = np.flatnonzero(misfits(twin, unknown, evidence) > LOST)
        if not lost.size:
            break
    # what was read to get out of local minima would only make the rest slow
    evidence = evidence.first(count)
    found = np.setdiff1d(np.arange(len(card)), lost)
    unknown = adjust(twin, unknown, card, evidence, np.full(len(card), FINE), found)
    trust = np.maximum(misfits(twin, unknown, evidence), FINE)
    return unknown, learnt(twin, unknown, card, evidence, trust, found), found


def _around(heaters: Heaters, voltage_v: Floats, far_rad: float, random: np.random.Generator) -> Floats:
    """(NEAR, H) a setting and others around it."""
    phase = heaters.phases(voltage_v)
    moved = [heaters.voltages(np.abs(phase + far_rad * random.standard_normal(phase.size))) for _ in range(NEAR - 1)]
    return np.array([voltage_v, *moved])
