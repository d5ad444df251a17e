"""Result of the function check, and its accumulation over batches of inputs with bounded memory."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.averaging import Averaging, error_counts
from optinc_pdk.averaging.score import accuracy, output_margins
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.signoff.function._certificate import Certificate
from optinc_pdk.signoff.function._word_inputs import Coverage, FunctionInputs

TABLE_VALUES = 2**25
"""Largest number of output values, over assignments, inputs, servers and symbols, that are all kept."""
WORST_ROWS = 2**10
"""Inputs with the smallest margins that are kept of a larger table."""
SAMPLED_ROWS = 2**13
"""Inputs at equal distances that are kept of a larger table besides."""
SCHEMA = 1


@dataclass(frozen=True, eq=False)
class FunctionResult:
    """Words that the servers read, for inputs with A assignments of symbols to servers each.

    All inputs are counted. Their rows are kept for R of them: for all, if the table is small; otherwise for the inputs
    with the smallest margins, and for inputs at equal distances.

    Attributes:
        coverage: Which inputs were tried, see `FunctionInputs`.
        inputs: Number of inputs.
        exact: Number of inputs for which every server reads the ideal word under every assignment.
        word_count: Number of words read: inputs × assignments × servers.
        errors: Number of wrong words with each error (word read minus ideal word).
        margin: Smallest 0.5 - |output - ideal level|, in levels; negative if a symbol is wrong. An output that carries
            a remainder counts in its steps.
        symbol_margins: (M,) smallest margin of every symbol.
        saturated: Number of modulator amplitudes that were clipped to full scale.
        loss_db: Loss in dB from the worst source fibre to the detector that receives most of its light.
        hop_loss_db: Loss in dB of each layer from its modulators to its detectors, at full scale.
        oscillator_powers: For each hidden layer, (mixers,) power of the local oscillator at each mixer, relative to
            that of a field of amplitude 1.
        rows: (R,) numbers of the inputs whose rows are kept, ascending.
        symbols: (A, R, servers, M) symbols at the fibres, uint8; floats for level 2 of a cascade.
        ideal: (R,) words of the ideal average.
        levels: (R, M) symbols of these words.
        words: (A, R, receivers) words that the receivers of the servers read; a level 1 of a cascade has one receiver.
        outputs: (A, R, receivers, M) output levels before the decision.
        margins: (R, M) smallest margin of every symbol over assignments and servers, in levels.
        corners: Number of corner cases among the inputs of a sample.
        certificate: Bounds on the chip's errors for all words; None if the network admits none.
        no_certificate: Why there is no certificate; empty if there is one, or if none was asked for.
    """

    coverage: Coverage
    inputs: int
    exact: int
    word_count: int
    errors: dict[int, int]
    margin: float
    symbol_margins: Floats
    saturated: int
    loss_db: float
    hop_loss_db: tuple[float, ...]
    rows: Ints
    symbols: NDArray[np.uint8] | NDArray[np.float32]
    ideal: Ints
    levels: Ints | Floats
    words: Ints
    outputs: Floats
    margins: Floats
    corners: int = 0
    oscillator_powers: tuple[Floats, ...] = ()
    certificate: Certificate | None = None
    no_certificate: str = ""

    @property
    def certified(self) -> bool:
        """Whether the certificate proves that every server reads the ideal average of all words."""
        return self.certificate is not None and self.certificate.holds

    @property
    def accuracy(self) -> float:
        """Fraction of inputs that are exact."""
        return accuracy(self.exact, self.inputs)

    @property
    def passed(self) -> bool:
        """Whether every server reads the ideal average of every input that was tried."""
        return self.exact == self.inputs


@dataclass(frozen=True, eq=False)
class Readings:
    """What the servers read of a batch of I inputs with A assignments of symbols to servers each.

    Attributes:
        inputs: The batch.
        symbols: (A, I, servers, M) symbols at the fibres.
        words: (A, I, receivers) words read.
        outputs: (A, I, receivers, M) output levels before the decision.
        saturated: Number of modulator amplitudes that were clipped to full scale.
    """

    inputs: FunctionInputs
    symbols: Ints | Floats
    words: Ints
    outputs: Floats
    saturated: int


@dataclass(eq=False)
class _Rows:
    """Rows of inputs that are kept."""

    numbers: Ints
    symbols: NDArray[Any]
    ideal: Ints
    levels: Ints | Floats
    words: Ints
    outputs: Floats
    margins: Floats

    def select(self, chosen: Ints | Bools) -> _Rows:
        return _Rows(
            self.numbers[chosen],
            self.symbols[:, chosen],
            self.ideal[chosen],
            self.levels[chosen],
            self.words[:, chosen],
            self.outputs[:, chosen],
            self.margins[chosen],
        )

    @staticmethod
    def join(parts: list[_Rows]) -> _Rows:
        return _Rows(
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.symbols for part in parts], axis=1),
            np.concatenate([part.ideal for part in parts]),
            np.concatenate([part.levels for part in parts]),
            np.concatenate([part.words for part in parts], axis=1),
            np.concatenate([part.outputs for part in parts], axis=1),
            np.concatenate([part.margins for part in parts]),
        )


@dataclass(eq=False)
class FunctionTally:
    """Counts and kept rows of a function check, accumulated batch by batch.

    Attributes:
        task: Average that the chip computes.
        total: Number of inputs that will be added.
        inputs: Number of inputs that were added.
    """

    task: Averaging
    total: int
    inputs: int = 0
    _exact: int = 0
    _word_count: int = 0
    _saturated: int = 0
    _errors: Counter[int] = field(default_factory=Counter)
    _symbol_margins: Floats = field(init=False)
    _kept: list[_Rows] = field(default_factory=list)
    _worst: _Rows | None = None

    def __post_init__(self) -> None:
        """Start with no inputs."""
        self._symbol_margins = np.full(self.task.symbols, np.inf)

    def add(self, readings: Readings) -> None:
        """Count a batch of inputs."""
        task, inputs = self.task, readings.inputs
        words, outputs = readings.words, readings.outputs
        margins = output_margins(outputs, inputs.levels[:, np.newaxis], task.output_resolution).min(axis=(0, 2))
        rows = _Rows(
            self.inputs + np.arange(len(inputs.ideal)),
            readings.symbols.astype(np.float32 if task.finer_input else np.uint8),
            inputs.ideal,
            inputs.levels,
            words,
            outputs,
            margins,
        )
        self.inputs += len(inputs.ideal)
        self._exact += int((words == inputs.ideal[:, np.newaxis]).all(axis=(0, 2)).sum())
        self._word_count += words.size
        self._saturated += readings.saturated
        self._errors.update(error_counts(words - inputs.ideal[:, np.newaxis]))
        self._symbol_margins = np.minimum(self._symbol_margins, margins.min(axis=0, initial=np.inf))
        self._keep(rows)

    def _keep(self, rows: _Rows) -> None:
        if self.total * (rows.outputs.size // len(rows.numbers)) <= TABLE_VALUES:
            self._kept.append(rows)
            return
        distance = -(-self.total // SAMPLED_ROWS)
        self._kept.append(rows.select(rows.numbers % distance == 0))
        worst = rows if self._worst is None else _Rows.join([self._worst, rows.select(_smallest(rows.margins))])
        self._worst = worst.select(_smallest(worst.margins))

    def result(
        self,
        *,
        coverage: Coverage,
        corners: int,
        loss_db: float,
        hop_loss_db: tuple[float, ...],
        oscillator_powers: tuple[Floats, ...] = (),
        certificate: Certificate | None,
        no_certificate: str,
    ) -> FunctionResult:
        """Return the result for all inputs that were added; the arguments are attributes of `FunctionResult`."""
        rows = _Rows.join([*self._kept, *([] if self._worst is None else [self._worst])])
        if self._worst is not None:
            rows = rows.select(np.unique(rows.numbers, return_index=True)[1])
        return FunctionResult(
            coverage=coverage,
            inputs=self.inputs,
            exact=self._exact,
            word_count=self._word_count,
            errors=dict(sorted(self._errors.items())),
            margin=float(self._symbol_margins.min()),
            symbol_margins=self._symbol_margins,
            saturated=self._saturated,
            loss_db=loss_db,
            hop_loss_db=hop_loss_db,
            oscillator_powers=oscillator_powers,
            rows=rows.numbers,
            symbols=rows.symbols,
            ideal=rows.ideal,
            levels=rows.levels,
            words=rows.words,
            outputs=rows.outputs,
            margins=rows.margins,
            corners=corners,
            certificate=certificate,
            no_certificate=no_certificate,
        )


def _smallest(margins: Floats) -> Ints:
    """Places of the `WORST_ROWS` rows with the smallest margins, in ascending order of place."""
    least = margins.min(axis=1)
    order = np.argsort(least, kind="stable")[:WORST_ROWS]
    return np.sort(order)


def write_function(result: FunctionResult, path: str | Path) -> None:
    """Write inputs, words, outputs and margins of a function check as ``.function.npz``, atomically.

    ``inputs`` is the number of inputs that were tried, ``exact`` how many of them are exact, ``coverage`` which ones
    they are, and ``rows`` the numbers of those in the table. Equal results give equal bytes.
    """
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        schema=np.array(SCHEMA),
        symbols=result.symbols,
        ideal=result.ideal,
        words=result.words,
        # rounded, because the last bits of a sparse solution vary
        outputs=np.round(result.outputs, 6).astype(np.float32),
        margins=np.round(result.margins, 6).astype(np.float32),
        error_values=np.array(list(result.errors), dtype=np.int64),
        error_counts=np.array(list(result.errors.values()), dtype=np.int64),
        inputs=np.array(result.inputs),
        exact=np.array(result.exact),
        coverage=np.array(result.coverage),
        rows=result.rows,
        symbol_margins=np.round(result.symbol_margins, 6).astype(np.float32),
    )
    write_atomic(Path(path), stream.getvalue())
