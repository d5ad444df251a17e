"""Words of an extracted chip in time domain, against counts and readings of the package, into results/time_domain.json.

    python benchmarks/time_domain.py [STEM of a built chip's files]

SAX calculates the S-matrix of the default 4-bit chip. The rest follows docs/noise.md and shares no code with the
package's noise model: light at 64 instants of a symbol, filters, white noise of detectors in front of the filters,
noise of the laser as sequences in time, electronics. All layers work at once, each on a later word than the next one,
so that reflections between layers are included. Amplifier and window are those of `noise_of`. It takes 10 minutes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from scipy.constants import c, e
from scipy.stats import beta
from studies import blocks, write_study

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.io.formatting import format_si
from optinc_pdk.models import sax_models, sax_netlist
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.signoff.extracted_chip import ExtractedChip, read_extracted_chip
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import Noise, Scattering, analyse, heater_phases, noise_of, scattering
from optinc_pdk.studies.chip_checks import read_words
from optinc_pdk.studies.eyes import eye_diagrams

RATES_BD = (1.75e9, 2.0e9, 2.25e9)
TASK = Averaging(4, 4, 2)
PASSES, EYES = 16, 96
"""Passes of the package through all 65,536 inputs, and its eye diagrams of 1,024 words."""
STREAMS, WORDS, FEWER_WORDS, INSTANTS, WARM_UP = 2048, 320, 96, 64, 6
"""Sequences that are simulated side by side, their words, instants of a symbol, and first words that do not count."""
SIGNALS = {"layer 0, row 1": (2, 10), "layer 1, row 0": (2, 10), "out_s0_m0": (0, 2)}
"""Signals whose readings are compared, and at which levels: in rows, multiples of the distance of adjacent ones."""
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
        """Return the signals (…, 3) of `SIGNALS`: differences, and a level."""
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
    """Words that were counted, and signals of `SIGNALS`: (W, 3) readings, and values of slow symbols."""

    inputs: int
    inputs_wrong: int
    words_wrong: int
    readings: Floats
    slow: Floats

    def in_distances(self) -> tuple[Floats, Floats]:
        """Return readings and values with differences in distances of adjacent levels."""
        unit = [*(distance_of(self.slow[:, place]) for place in range(2)), 1.0]
        return self.readings / unit, self.slow / unit


def simulate(
    wiring: Wiring, process: Process, noise: Noise, words: int, merged: bool = True, laser: bool = True
) -> Counted:
    """Send random words through the chip.

    Args:
        wiring: The chip on its board.
        process: Its process.
        noise: Of it, only rate, power of the laser, amplifier and window are used.
        words: Words of each of `STREAMS` sequences.
        merged: Whether modulator and electronics are one filter, and photodiode and amplifier too.
        laser: Whether laser and fibres have noise.
    """
    card = process.noise
    if card is None:
        raise ValueError("the process has no noise")
    rng = np.random.default_rng((SEED, words, merged, laser))
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
        [
            window * (1.0 - m) + (np.where(later, (1.0 - k) * k ** np.maximum(age - 1, 0), 0.0).T @ (window * m))
            for k, m in zip(keep, mean_of_state, strict=True)
        ],
        axis=1,
    )

    sources, ends = len(wiring.sight), wiring.sight.shape[1]
    moved = sources - 1
    intensity = np.sqrt(10.0 ** (float(card.intensity_db_per_hz) / 10.0) / (2.0 * dt)) / 2.0
    delay_s = float(card.fibres.mismatch_m) * float(card.fibres.index) / c
    steps = max(round(delay_s / dt), 1)
    step_rad = np.sqrt(2.0 * np.pi * float(card.linewidth_hz) * delay_s / steps)
    other = 10.0 ** (-float(card.fibres.extinction_db) / 10.0)
    phase_rad = float(card.fibres.phase_rad)
    if not laser:
        intensity = step_rad = other = phase_rad = 0.0
    receiver = amplifier.a_per_sqrt_hz**2 / (2.0 * dt)

    def normal(*shape: int) -> NDArray[np.float32]:
        return rng.standard_normal(shape, dtype=np.float32)

    sight = wiring.sight.astype(np.complex64)
    walk = np.cumsum(step_rad * normal(STREAMS, steps, moved), axis=1)
    sent = [np.zeros((STREAMS, moved)) for _ in tx_weight]
    state = np.zeros((len(tau), STREAMS, ends))
    drives = np.zeros((STREAMS, len(wiring.gain)))
    sending: list[Ints] = []
    seen: list[Floats] = []
    power = np.zeros(0)
    wrong = np.zeros(2, dtype=int)
    readings, slow = [], []
    for slot in range(words + WARM_UP + 3):
        sending.append(rng.integers(4, size=(STREAMS, wiring.inputs)))
        target = np.hstack([sending[-1] / 3.0, drives]).astype(np.float32)
        amplitude = target[:, None, :] * np.ones((1, INSTANTS, 1), dtype=np.float32)
        for weight, left, old in zip(tx_weight, tx_left.T, sent, strict=True):
            amplitude += weight * left[:, None] * (old - target)[:, None, :]
        sent = [target + end * (old - target) for end, old in zip(tx_end, sent, strict=True)]
        light = fields(amplitude.astype(np.float32), leak)
        walk = np.concatenate(
            [walk[:, -steps:], walk[:, -1:] + np.cumsum(step_rad * normal(STREAMS, INSTANTS, moved), axis=1)], axis=1
        )
        lock = phase_rad * normal(STREAMS, 1, moved)
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
        state = np.stack(
            [np.einsum("bid,i->bd", detected, m) + r * old for m, r, old in zip(into_end.T, rx_end, state, strict=True)]
        )
        drives = wiring.drives(power)
        seen.append(wiring.observed(power))
        if slot >= WARM_UP + 3:
            word = sending[-4]
            read = np.clip(np.rint(wiring.levels(power)), 0, 3).astype(int).reshape(STREAMS, 4, 2) @ [4, 1]
            faults = read != ((word.reshape(STREAMS, 4, 2) @ [4, 1]).sum(axis=1) // 4)[:, None]
            wrong += [int(faults.any(axis=1).sum()), int(faults.sum())]
            if slot % 8 == 0:
                # layer i works on the word of a slot i slots later
                readings.append(np.stack([seen[-4][:, 0], seen[-3][:, 1], seen[-1][:, 2]], axis=1))
                slow.append(wiring.observed(settled(wiring, word.astype(np.float64), leak)))
        sending, seen = sending[-4:], seen[-4:]
    return Counted(STREAMS * words, int(wrong[0]), int(wrong[1]), np.vstack(readings), np.vstack(slow))


def interval(wrong: int, inputs: int) -> tuple[float, float]:
    """Interval of 95 % by Clopper and Pearson of the share of inputs of which a server reads a wrong word."""
    low = float(beta.ppf(0.025, wrong, inputs - wrong + 1)) if wrong else 0.0
    return low, float(beta.ppf(0.975, wrong + 1, inputs - wrong))


def distance_of(levels: Floats) -> float:
    """Distance of adjacent levels of a row."""
    gaps = np.diff(np.sort(levels))
    return float(np.median(gaps[gaps > 0.25 * gaps.max()]))


def spread(readings: Floats, slow: Floats, level: int) -> str:
    """Mean and standard deviation, with their standard errors, of readings less values of slow symbols, at a level."""
    error = 100.0 * (readings - slow)[np.rint(slow) == level]
    root, deviation = np.sqrt(error.size), error.std()
    fourth = np.mean((error - error.mean()) ** 4) / deviation**4
    mean = f"{error.mean():.2f} ± {deviation / root:.2f}"
    return f"{mean}; {deviation:.2f} ± {deviation * np.sqrt((fourth - 1.0) / 4.0) / root:.2f}"


def package_eyes(s: Scattering, chip: ExtractedChip, noise: Noise) -> tuple[Floats, Floats]:
    """(W, 3) readings of `SIGNALS` by the package, and values of slow symbols, for other words in every diagram."""
    inputs, rng = function_inputs(TASK), np.random.default_rng(SEED)
    readings, slow = [], []
    for seed in range(EYES):
        mixed = replace(inputs, symbols=rng.permutation(inputs.symbols))
        eyes = {each.name: each for each in eye_diagrams(s, mixed, chip.board, chip.bias, noise, seed)}
        unit = [1.0 if name.startswith("out") else distance_of(eyes[name].levels) for name in SIGNALS]
        readings.append(np.stack([eyes[name].readings for name in SIGNALS], axis=1) / unit)
        slow.append(np.stack([eyes[name].levels for name in SIGNALS], axis=1) / unit)
    return np.vstack(readings), np.vstack(slow)


def default_chip(process: Process) -> ExtractedChip:
    """Extract the default chip, from files that the command line names, or from a build."""
    with tempfile.TemporaryDirectory() as folder:
        stem = sys.argv[1] if len(sys.argv) > 1 else f"{folder}/chip"
        if len(sys.argv) == 1:
            build(None, folder, BuildOptions(name="chip"))
        return read_extracted_chip(f"{stem}.gds", f"{stem}.pic.yml", f"{stem}.bias.yml", process)


def count_text(wrong: int, inputs: int) -> str:
    """Return a count with its share and interval."""
    low, high = interval(wrong, inputs)
    return f"{wrong:,} of {inputs:,}: {wrong / inputs:.3g} ({low:.3g} … {high:.3g})"


def main() -> None:
    """Print and write the tables."""
    process = load_process("soi220")
    chip = default_chip(process)
    wiring, inputs = Wiring.of(chip, process), function_inputs(TASK)
    s = scattering(chip.circuit, chip.bias, float(process.guide.wavelength_nm), process, ground=chip.ground)
    counts, eyes, overlaps = [], [], 0
    for rate in track(RATES_BD, "rates"):
        noise = noise_of(process, symbol_rate_bd=rate)
        found = simulate(wiring, process, noise, WORDS)
        apart = simulate(wiring, process, noise, FEWER_WORDS, merged=False)
        without = simulate(wiring, process, noise, FEWER_WORDS, laser=False)
        package = [read_words(s, inputs, chip.board, chip.bias, noise, 2 * number) for number in range(PASSES)]
        sent, wrong = sum(each.inputs for each in package), sum(each.inputs - each.exact for each in package)
        (low, high), (lower, upper) = interval(found.inputs_wrong, found.inputs), interval(wrong, sent)
        overlap = low <= upper and lower <= high
        overlaps += overlap
        cells = (
            format_si(rate, "Bd"),
            count_text(found.inputs_wrong, found.inputs),
            count_text(wrong, sent),
            "yes" if overlap else "no",
            count_text(apart.inputs_wrong, apart.inputs),
        )
        counts.append(f"| {' | '.join(cells)} |")
        pairs = [found.in_distances(), without.in_distances(), package_eyes(s, chip, noise)]
        for place, (name, levels) in enumerate(SIGNALS.items()):
            for level in levels:
                texts = [spread(readings[:, place], slow[:, place], level) for readings, slow in pairs]
                eyes.append(f"| {' | '.join((format_si(rate, 'Bd'), name, str(level), *texts))} |")
    lines = [
        f"Inputs of which a server reads a wrong word, with intervals of 95 %; those of both overlap at {overlaps} of "
        f"{len(RATES_BD)} rates. *Own filters*: every device is a filter of its own in time domain.",
        "",
        "| symbol rate | time domain | `optinc noise` | overlap | time domain, own filters |",
        "|---|---|---|---|---|",
        *counts,
        "",
        "Readings less the values of slow symbols, in % of the distance of adjacent levels: mean; standard deviation, "
        "each with its standard error.",
        "",
        "| symbol rate | signal | level | time domain | without noise of laser and fibres | `optinc eye` |",
        "|---|---|---|---|---|---|",
        *eyes,
    ]
    print(*lines, sep="\n")
    write_study("time_domain", blocks(lines), "python benchmarks/time_domain.py", ["soi220"])


if __name__ == "__main__":
    main()
