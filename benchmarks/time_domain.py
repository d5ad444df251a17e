"""Words of an extracted chip in time domain, against counts and readings of the package, into results/time_domain.json.

    python benchmarks/time_domain.py [STEM of a built chip's files]

SAX calculates the S-matrix of the default 4-bit chip. The rest follows docs/noise.md and shares no code with the
package's noise model: light at 64 instants of a symbol, filters, white noise of detectors in front of the filters,
noise of the laser as sequences in time, electronics. All layers work at once, each on a later word than the next one, so
that reflections between layers are included.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.progress import track
from scipy.constants import c, e
from scipy.stats import beta
from studies import blocks, write_study

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.io.formatting import format_si
from optinc_pdk.models import sax_models, sax_netlist
from optinc_pdk.pipeline.building import build
from optinc_pdk.signoff.extracted_chip import ExtractedChip, read_extracted_chip
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import Noise, analyse, heater_phases, noise_of, scattering
from optinc_pdk.studies.chip_checks import read_words
from optinc_pdk.studies.eyes import eye_diagrams

RATES_BD = (1.75e9, 2.0e9, 2.25e9)
TASK = Averaging(4, 4, 2)
PASSES, EYES = 16, 64
"""Passes of the package through all 65,536 inputs, and its eye diagrams of 1,024 words."""
STREAMS, WORDS, INSTANTS, WARM_UP = 2048, 512, 64, 6
"""Sequences that are simulated side by side, their words, instants of a symbol, and first words that do not count."""
EYE_NAMES = ("layer 0, row 1", "layer 1, row 0", "out_s0_m0")
SEED = 41


def s_matrix(chip: ExtractedChip, process: Process) -> tuple[tuple[str, ...], Complexes]:
    """Fibre labels, and the S-matrix between them by SAX's klu backend, indexed [out, in]."""
    import jax
    import sax

    jax.config.update("jax_enable_x64", True)
    structure = analyse(chip.circuit)
    phases = heater_phases(structure, chip.bias, process, ground=chip.ground)
    names = [structure.circuit.instances[heater].replace(".", "_") for heater in structure.heater.tolist()]
    model, _ = sax.circuit(netlist=sax_netlist(chip.circuit), models=sax_models(process), backend="klu")
    s = sax.sdict(model(**{name: {"phase": float(phase)} for name, phase in zip(names, phases, strict=True)}))
    labels = tuple(sorted({a for a, _ in s}))
    return labels, np.array([[complex(s.get((a, b), 0.0)) for a in labels] for b in labels])


def time_constants(bandwidths_hz: Sequence[float], merged: bool) -> Floats:
    """Time constants of filters of first order in series; merged: of one in their place, of equal sum of 1 / f²."""
    hz = np.array(bandwidths_hz)
    return np.asarray(1.0 / (2.0 * np.pi * (np.array([np.sum(hz**-2.0) ** -0.5]) if merged else hz)))


def side_by_side(tau: Floats) -> Floats:
    """Weights with which filters of different time constants, fed by one signal, add up to those in series."""
    return np.array([np.prod([one / (one - other) for other in tau if other != one]) for one in tau])


@dataclass(frozen=True)
class Wiring:
    """What the board connects: D detectors; sources are I inputs, M modulators of neurons, and the carrier.

    Attributes:
        sight: (I + M + 1, D) field at a detector for a field of 1 of a source.
        inputs: Number of inputs.
        plus, minus: (M,) detectors of the neurons.
        gain, offset, balance: (M,) settings of the neurons.
        outputs: (R,) detectors of the servers.
        scale, dark: (R,) settings of the servers.
    """

    sight: Complexes
    inputs: int
    plus: Ints
    minus: Ints
    gain: Floats
    offset: Floats
    balance: Floats
    outputs: Ints
    scale: Floats
    dark: Floats

    @staticmethod
    def of(chip: ExtractedChip, process: Process) -> Wiring:
        """Look up everything; every neuron has one pair of detectors and one modulator here."""
        board, bias = chip.board, chip.bias
        labels, s = s_matrix(chip, process)
        inputs = [label for row in board.inputs for label in row]
        outputs = [label for row in board.outputs for label in row]
        detectors = sorted({str(label) for each in board.neurons for label in (each.plus, each.minus)}) + outputs
        sources = [*inputs, *(str(each.to) for each in board.neurons), board.carrier]
        settings = [bias.activations[each.label] for each in board.neurons]
        return Wiring(
            s[np.ix_([labels.index(each) for each in detectors], [labels.index(each) for each in sources])].T,
            len(inputs),
            np.array([detectors.index(str(each.plus)) for each in board.neurons]),
            np.array([detectors.index(str(each.minus)) for each in board.neurons]),
            np.array([each.gain for each in settings]),
            np.array([each.offset for each in settings]),
            np.array([each.balance for each in settings]),
            np.array([detectors.index(label) for label in outputs]),
            np.array([bias.outputs[label] for label in outputs]),
            np.array([bias.dark.get(label, 0.0) for label in outputs]),
        )

    def drives(self, power: Floats) -> Floats:
        """Return the drives (…, M) of the neurons' modulators for readings (…, D)."""
        difference = power[..., self.plus] - self.balance * power[..., self.minus]
        return np.minimum(self.gain * np.maximum(difference + self.offset, 0.0), 1.0)

    def levels(self, power: Floats) -> Floats:
        """Return the levels (…, R) that the servers read, not rounded."""
        return self.scale * np.sqrt(np.maximum(power[..., self.outputs] - self.dark, 0.0))

    def observed(self, power: Floats) -> Floats:
        """Return the signals (…, 3) of `EYE_NAMES`, before they are scaled."""
        rows = [power[..., self.plus[i]] - self.balance[i] * power[..., self.minus[i]] for i in (1, 4)]
        return np.stack([*rows, self.levels(power)[..., 0]], axis=-1)


def fields(amplitude: Floats, leak: float) -> Complexes:
    """Fields behind modulators: what two unequal arms leave at the null is in quadrature, and vanishes at 1."""
    return amplitude + 1j * leak * np.sqrt(np.maximum(1.0 - amplitude**2, 0.0))


def settled(wiring: Wiring, symbols: Floats, leak: float) -> Floats:
    """Return the readings (B, D) of slow symbols (B, I) without noise."""
    drives = np.zeros((len(symbols), len(wiring.gain)))
    power = np.zeros(0)
    for _ in range(12):
        light = fields(np.hstack([symbols / 3.0, drives]), leak) @ wiring.sight[:-1] + wiring.sight[-1]
        power = np.abs(light) ** 2
        drives = wiring.drives(power)
    return power


@dataclass(frozen=True)
class Counted:
    """Words that were counted, and signals of `EYE_NAMES`: (W, 3) readings, and values of slow symbols."""

    inputs: int
    inputs_wrong: int
    words_wrong: int
    readings: Floats
    slow: Floats


def simulate(wiring: Wiring, process: Process, noise: Noise, merged: bool, seed: int) -> Counted:
    """Send random words; of ``noise``, only rate, laser, amplifier and window are used."""
    card = process.noise
    if card is None:
        raise ValueError("the process has no noise")
    rng = np.random.default_rng(seed)
    modulator, diode = process.devices["modulator"], process.devices["photodiode"]
    leak = 10.0 ** (-modulator.parameter("extinction_db") / 20.0)
    amplifier = next(each for each in card.amplifiers if float(each.a_per_sqrt_hz) == noise.receiver_a_per_sqrt_hz)
    dt = 1.0 / (noise.symbol_rate_bd * INSTANTS)
    current = diode.parameter("responsivity_a_per_w") * noise.laser_w
    instant = np.arange(INSTANTS)

    # share of the drive before that a modulator still sends in the middle of an instant, and at the end of a symbol
    tau = time_constants([float(process.activation.bandwidth_hz or 0.0), modulator.parameter("bandwidth_hz")], merged)
    tx_weight, tx_left = side_by_side(tau), np.exp(-np.outer((instant + 0.5) * dt, 1.0 / tau))
    tx_end = np.exp(-INSTANTS * dt / tau)
    # weight of the current at every instant, and of the state before, in the mean over the window and in the next state
    tau = time_constants([float(amplifier.bandwidth_hz), diode.parameter("bandwidth_hz")], merged)
    rx_weight, keep = side_by_side(tau), np.exp(-dt / tau)
    window = np.where(instant >= INSTANTS - round(noise.shape.window * INSTANTS), 1.0, 0.0)
    window /= window.sum()
    mean_of_state = (1.0 - keep) * tau / dt
    rx_state = (window[:, None] * mean_of_state * keep ** instant[:, None]).sum(axis=0)
    rx_end, into_end = keep**INSTANTS, (1.0 - keep) * keep ** (INSTANTS - 1 - instant[:, None])
    later = np.tril(np.ones((INSTANTS, INSTANTS)), -1).astype(bool)
    age = np.subtract.outer(instant, instant)
    into_mean = np.stack(
        [window * (1.0 - m) + (np.where(later, (1.0 - k) * k ** np.maximum(age - 1, 0), 0.0).T @ (window * m))
         for k, m in zip(keep, mean_of_state, strict=True)], axis=1)

    sources, ends = len(wiring.sight), wiring.sight.shape[1]
    moved = sources - 1
    intensity = np.sqrt(10.0 ** (float(card.intensity_db_per_hz) / 10.0) / (2.0 * dt)) / 2.0
    delay_s = float(card.fibres.mismatch_m) * float(card.fibres.index) / c
    steps = max(round(delay_s / dt), 1)
    step_rad = np.sqrt(2.0 * np.pi * float(card.linewidth_hz) * delay_s / steps)
    other = 10.0 ** (-float(card.fibres.extinction_db) / 10.0)
    receiver = amplifier.a_per_sqrt_hz**2 / (2.0 * dt)

    def normal(*shape: int) -> Floats:
        return rng.standard_normal(shape, dtype=np.float32)

    sight = wiring.sight.astype(np.complex64)
    walk = np.cumsum(step_rad * normal(STREAMS, steps, moved), axis=1)
    sent = [np.zeros((STREAMS, moved)) for _ in tx_weight]
    state = np.zeros((len(tau), STREAMS, ends))
    drives = np.zeros((STREAMS, len(wiring.gain)))
    words: list[Ints] = []
    seen: list[Floats] = []
    power = np.zeros(0)
    wrong = np.zeros(2, dtype=int)
    readings, slow = [], []
    for slot in range(WORDS + WARM_UP + 3):
        words.append(rng.integers(4, size=(STREAMS, wiring.inputs)))
        target = np.hstack([words[-1] / 3.0, drives])
        amplitude = target[:, None, :] * np.ones((1, INSTANTS, 1))
        for weight, left, old in zip(tx_weight, tx_left.T, sent, strict=True):
            amplitude += weight * left[:, None] * (old - target)[:, None, :]
        sent = [target + end * (old - target) for end, old in zip(tx_end, sent, strict=True)]
        light = fields(amplitude.astype(np.float32), leak)
        walk = np.concatenate(
            [walk[:, -steps:], walk[:, -1:] + np.cumsum(step_rad * normal(STREAMS, INSTANTS, moved), axis=1)], axis=1)
        lock = float(card.fibres.phase_rad) * normal(STREAMS, 1, moved)
        returned = other * np.sqrt(0.5) * (normal(STREAMS, 1, moved) + 1j * normal(STREAMS, 1, moved))
        light = light * (np.exp(1j * (walk[:, steps:] - walk[:, :-steps] + lock)) + returned).astype(np.complex64)
        light = np.concatenate([light, np.ones((STREAMS, INSTANTS, 1), dtype=np.complex64)], axis=2)
        light *= 1.0 + np.float32(intensity) * normal(STREAMS, INSTANTS, sources)
        detected = np.abs(light @ sight) ** 2
        variance = (e * current * detected / dt + receiver) / current**2
        detected = detected + np.sqrt(variance) * normal(STREAMS, INSTANTS, ends)
        power = sum(
            w * (np.einsum("bid,i->bd", detected, m) + r * old)
            for w, m, r, old in zip(rx_weight, into_mean.T, rx_state, state, strict=True)
        )
        state = np.stack([
            np.einsum("bid,i->bd", detected, m) + r * old
            for m, r, old in zip(into_end.T, rx_end, state, strict=True)
        ])
        drives = wiring.drives(power)
        seen.append(wiring.observed(power))
        if slot >= WARM_UP + 3:
            word = words[-4]
            read = np.clip(np.rint(wiring.levels(power)), 0, 3).astype(int).reshape(STREAMS, 4, 2) @ [4, 1]
            faults = read != ((word.reshape(STREAMS, 4, 2) @ [4, 1]).sum(axis=1) // 4)[:, None]
            wrong += [int(faults.any(axis=1).sum()), int(faults.sum())]
            if slot % 8 == 0:
                # layer i works on the word of a slot i slots later
                readings.append(np.stack([seen[-4][:, 0], seen[-3][:, 1], seen[-1][:, 2]], axis=1))
                slow.append(wiring.observed(settled(wiring, word, leak)))
        words, seen = words[-4:], seen[-4:]
    return Counted(STREAMS * WORDS, *wrong.tolist(), np.vstack(readings), np.vstack(slow))
