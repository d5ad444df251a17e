"""Function check of a cascade: words of N² servers through two levels of extracted chips, against their average."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging import Averaging, cascade_words, decide_steps, error_counts
from optinc_pdk.averaging.score import output_margins
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.signoff.extracted_chip import ExtractedChip
from optinc_pdk.simulate import scattering
from optinc_pdk.simulate.transmission.detection import ChipNetwork, network_of
from optinc_pdk.simulate.transmission.reception import (
    TOP_LEVEL,
    LinkedChips,
    link_chips,
    server_amplitudes,
    transmit_cascade,
)

KEPT_SETS = 1 << 14
"""Number of word sets whose outputs are kept for a picture."""


@dataclass(frozen=True, eq=False)
class CascadeResult:
    """Words that the receivers of a cascade read for S word sets of N² servers.

    Attributes:
        sets: Number of word sets.
        exact: Number of sets for which every receiver of level 2 reads the average of all N² words.
        words: Number of words read: sets times receivers.
        errors: Word read minus ideal word, to the number of words with this error; without correct words.
        margins: (M,) smallest 0.5 - |output - ideal level| of each output symbol of level 2, in levels.
        level1_margin: Smallest margin of the fields between the levels, in decision steps of level 1.
        quadrature: Largest component of a field between the levels in quadrature with the locked phase, in levels.
        outputs: (P, M) output levels of the first receiver for the first P sets.
        levels: (P, M) ideal levels of these sets.
    """

    sets: int
    exact: int
    words: int
    errors: dict[int, int]
    margins: Floats
    level1_margin: float
    quadrature: float
    outputs: Floats
    levels: Ints

    @property
    def margin(self) -> float:
        """Smallest margin of any output symbol, in levels."""
        return float(self.margins.min())

    @property
    def passed(self) -> bool:
        """Whether every receiver reads the average of every word set."""
        return self.exact == self.sets


def link_amplitudes(board: Board, bias: Bias, loss_db: float) -> list[float]:
    """Return the amplitude of level 3 of each symbol at the inputs of level 2.

    Args:
        board: Board of the chip of level 1, with one output for each symbol.
        bias: Bias of this chip; its receiver scales state the field of a level.
        loss_db: Loss of the fibre between the levels in dB.
    """
    transmission = 10.0 ** (-loss_db / 20.0)
    return [transmission * TOP_LEVEL / bias.outputs[label] for label in board.outputs[0]]


def link_extracted(first: ExtractedChip, second: ExtractedChip, process: Process, loss_db: float) -> LinkedChips:
    """Simulate the extracted chips of both levels under their biases and connect them.

    Args:
        first: Chip of level 1.
        second: Chip of level 2.
        loss_db: Loss of the fibre between the levels in dB.
    """
    ones = np.full((1, len(first.board.inputs), len(first.board.inputs[0])), TOP_LEVEL)
    send = server_amplitudes(ones, first.board, first.bias).reshape(ones.shape[1:])
    return link_chips(_network(first, process), _network(second, process), send, loss_db)


def _network(chip: ExtractedChip, process: Process) -> ChipNetwork:
    wavelength = float(process.guide.wavelength_nm)
    s = scattering(chip.circuit, chip.bias, wavelength, process, ground=chip.ground)
    return network_of(s, chip.board, chip.bias, 0)


def check_cascade(chips: LinkedChips, tasks: Sequence[Averaging], random_sets: int, seed: int) -> CascadeResult:
    """Send all corner cases and random words through a cascade and compare the words read with the average.

    Args:
        chips: The linked chips.
        tasks: Tasks of level 1 and of level 2.
        random_sets: Number of random word sets beside the corner cases, see
            :func:`optinc_pdk.averaging.words`.
        seed: Seed of the random words.
        on_sets: Called after each batch with the number of word sets that were checked, and the number of random ones,
            which come last.

    Raises:
        UnsettledError: Amplitudes do not converge, because reflections couple the layers.
    """
    first, second = tasks
    sets = exact = words = 0
    errors: Counter[int] = Counter()
    margins, level1, quadrature = np.full(second.symbols, 0.5), 0.5, 0.0
    kept: list[tuple[Floats, Ints]] = []
    for sent in cascade_words(second, random_sets, seed):
        symbols = first.encode(sent)
        received = transmit_cascade(symbols, chips)
        read = second.decode(decide_steps(received.outputs))
        ideal = sent.sum(axis=(1, 2)) // second.servers**2
        levels = second.encode(ideal)
        if sets < KEPT_SETS:
            kept.append((received.outputs[:, 0], levels))
        sets, words = sets + len(sent), words + read.size
        exact += int((read == ideal[:, np.newaxis]).all(axis=1).sum())
        errors.update(error_counts(read - ideal[:, np.newaxis]))
        margins = np.minimum(margins, output_margins(received.outputs, levels[:, np.newaxis]).min(axis=(0, 1)))
        between = first.targets(first.preprocess(symbols))
        level1 = min(level1, float(output_margins(received.between, between, first.output_resolution).min()))
        quadrature = max(quadrature, float(np.abs(received.quadrature).max()))
    outputs, ideals = (np.concatenate(part)[:KEPT_SETS] for part in zip(*kept, strict=True))
    return CascadeResult(sets, exact, words, dict(sorted(errors.items())), margins, level1, quadrature, outputs, ideals)
