"""The command ``eye``: eye diagrams of hidden signals and outputs at a symbol rate."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from optinc_pdk.cli import arguments as opt
from optinc_pdk.cli.app import app, print_table, stage_progress
from optinc_pdk.cli.chip_inputs import ChipInputs, LightRun, WordTarget, process_of, read_target_chip
from optinc_pdk.cli.fault_output import exit_code, faults_explaining_errors, faults_json, print_faults
from optinc_pdk.cli.records import with_records
from optinc_pdk.cli.symbol_rates import warn_of_rates
from optinc_pdk.errors import InputError
from optinc_pdk.options import SampleOptions

if TYPE_CHECKING:
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.simulate.transmission.noise import Noise
    from optinc_pdk.studies.eyes import Eye


@app.command()
@with_records
def eye(
    *,
    chip: ChipInputs,
    symbol_rate: Annotated[float, typer.Option(help="Symbols per second.")],
    checks: SampleOptions,
    laser_w: opt.LaserW = None,
    oscillator_w: opt.OscillatorW = None,
    seed: opt.Seed = 0,
    output: opt.Out = None,
    as_json: opt.Json = False,
) -> None:
    """Draw eye diagrams of the extracted layout at a symbol rate; writes .eye.png.

    For every hidden layer the row with the smallest opening, and the first server's outputs, with the noise and the
    bandwidths of the cards. An eye of an opening below 0 is closed; a signal of one level has no eye. Exit code 1 if
    the layout has faults that can affect the function and that the simulation does not include.

    For a classifier with labelled data, by how much each output exceeds the largest of the others: open where the
    receivers read the network's class for the share of the samples that --agreement states. Outputs of regressors and
    of matrices have no levels and no eye: use optinc noise.
    """
    picture = chip.output(output or chip.gds.with_suffix(".eye.png"), checks.data)
    if picture.suffix.lower() != ".png":
        raise InputError(f"{picture}: the picture is a PNG file; give it the ending .png")

    from optinc_pdk.simulate.transmission.noise import missing_bandwidths, noise_choices, relative_oscillator_power

    files, card = chip.read()
    target = chip.target(checks)
    if not isinstance(target, WordTarget):
        target = _with_levels(chip.weights or chip.gds, target)
    # refuses powers and rates that the card does not allow
    noise_choices(card, laser_w, symbol_rate)
    warn_of_rates(card, [symbol_rate])
    ratio = None if oscillator_w is None else relative_oscillator_power(card, laser_w, oscillator_w)
    if missing := missing_bandwidths(card):
        raise InputError(
            f"process {card.name!r} states no bandwidth of its {missing[0]}, without which symbols have no shape: add "
            f"model.parameters.bandwidth_hz to devices/{missing[0]}.yml"
        )
    run = EyeRun(files, process_of(target, card), chip.weights, laser_w, ratio, seed, picture, as_json, symbol_rate)
    run.draw(target)


def _with_levels(weights: Path, target: CheckedNetwork | MatrixTarget) -> CheckedNetwork:
    """Return a classifier.

    Raises:
        InputError: It is a matrix, or a network without labelled data, whose outputs have no levels.
    """
    from optinc_pdk.matrices import MatrixTarget

    remedy = "use optinc noise, which compares outputs against the symbol rate"
    if isinstance(target, MatrixTarget):
        raise InputError(
            f"{weights}: contains a matrix, whose outputs are sums of all inputs and have no levels, so that there is "
            f"no eye: {remedy}"
        )
    if target.data.labels is None:
        given = "the data has no labels" if target.data.outputs is None else "the data has outputs instead of labels"
        raise InputError(
            f"{weights}: is a general network, and {given}: only the classes of a classifier are levels with an eye; "
            f"give --data with labels y, whole numbers; for other networks {remedy}"
        )
    return target


@dataclass(frozen=True)
class EyeRun(LightRun):
    """Inputs and output of eye diagrams.

    Attributes:
        symbol_rate: Symbols per second.
    """

    symbol_rate: float

    def draw(self, target: WordTarget | CheckedNetwork) -> NoReturn:
        """Draw the eyes of a chip, print their openings, and end with the exit code."""
        from optinc_pdk.io.formatting import format_si
        from optinc_pdk.io.writing import write_atomic
        from optinc_pdk.report.eye_diagrams import eyes_png, eyes_table
        from optinc_pdk.studies.eyes import eyes_json

        words = isinstance(target, WordTarget)
        names = ("extract", "light", "words" if words else "samples", "picture")
        with faults_explaining_errors(self.as_json) as faults, stage_progress(names) as stage:
            stage("extract")
            chip = read_target_chip(self.files, target, self.card, self.weights)
            faults += chip.faults
            if isinstance(target, WordTarget):
                found = _word_eyes(self, target, chip, stage)
            else:
                found = _class_eyes(self, target, chip, stage)
            stage("picture")
            drawn = eyes_png(found.eyes, found.noise, found.fibre_w, self.files.gds.stem)
        write_atomic(self.picture, drawn)
        if self.as_json:
            numbers = {"schema": 1, "files": [str(self.picture)], found.key: found.value}
            numbers |= eyes_json(found.eyes, found.noise, found.fibre_w)
            print(json.dumps(numbers | faults_json(faults), indent=2))
        else:
            print(f"{format_si(self.symbol_rate, 'Bd')}: {found.text}")
            print_table(eyes_table(found.eyes))
            print("opening:", found.opening)
            print("deviation:", found.deviation)
            print(self.picture)
            print_faults(faults)
        raise typer.Exit(exit_code(True, faults))


@dataclass(frozen=True, eq=False)
class _FoundEyes:
    """Eyes of a chip.

    Attributes:
        eyes: The eye diagrams.
        noise: Their noise.
        fibre_w: Power launched into each fibre that leads to local oscillators, in W.
        key: Name of the share of errors, or of right readings, in JSON.
        value: This share.
        text: The share as text.
        opening: What an opening is, as text.
        deviation: What a deviation is, as text.
    """

    eyes: list[Eye]
    noise: Noise
    fibre_w: float
    key: str
    value: float
    text: str
    opening: str
    deviation: str


_WORD_OPENING = (
    "smallest gap between readings of adjacent levels; 1 without noise at low rates, below 0 if the eye is closed"
)
_WORD_DEVIATION = "largest standard deviation of the readings of a level"
_CLASS_OPENING = (
    "twice the smallest distance of a reading from 0, above which the class is read; below 0 if the eye is closed"
)
_CLASS_DEVIATION = "standard deviation of the readings from those without noise"


def _word_eyes(run: EyeRun, target: WordTarget, chip: ExtractedChip, stage: Callable[[str], None]) -> _FoundEyes:
    """Return the eyes of hidden rows and of the first server's outputs."""
    from optinc_pdk.signoff.function import check_board, function_inputs
    from optinc_pdk.simulate.transmission.noise import noise_choices
    from optinc_pdk.studies.error_estimate import error_margins, estimate_errors
    from optinc_pdk.studies.eyes import eye_diagrams
    from optinc_pdk.studies.highest_rates import best_noise

    check_board(chip.board, target.task)
    stage("light")
    s, board, bias = run.light(chip)
    stage("words")
    inputs = function_inputs(target.task)
    margins = error_margins(s, inputs, board, bias)
    noise = best_noise(margins, noise_choices(run.card, run.laser_w, run.symbol_rate))
    estimate = estimate_errors(margins, noise).rate
    eyes = eye_diagrams(s, inputs, board, bias, noise, run.seed)
    text = f"estimated word-error rate {estimate:.2g}; relative to the distance of adjacent levels:"
    fibre_w = board.oscillator_power * noise.laser_w
    return _FoundEyes(eyes, noise, fibre_w, "word_error_rate", estimate, text, _WORD_OPENING, _WORD_DEVIATION)


def _class_eyes(run: EyeRun, target: CheckedNetwork, chip: ExtractedChip, stage: Callable[[str], None]) -> _FoundEyes:
    """Return the eyes of the classes of a general network."""
    from optinc_pdk.studies.eyes import WORDS, class_eyes
    from optinc_pdk.studies.noisy_outputs import NoisyNetwork, operating_noise

    stage("light")
    s, board, bias = run.light(chip)
    stage("samples")
    noise = operating_noise(run.card, run.laser_w, run.symbol_rate)
    found = class_eyes(NoisyNetwork(s, board, bias, target.network, target.data, target.limits), noise, run.seed)
    text = (
        f"the class of the network is read for {found.agreement:.2%} of {WORDS:,} samples; lead of each output over "
        "the others, relative to the distance of its two levels:"
    )
    fibre_w = board.oscillator_power * noise.laser_w
    return _FoundEyes(found.eyes, noise, fibre_w, "agreement", found.agreement, text, _CLASS_OPENING, _CLASS_DEVIATION)
