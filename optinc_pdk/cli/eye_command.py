"""The command ``eye``: eye diagrams of hidden signals and outputs at a symbol rate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optinc_pdk.cli import options as opt
from optinc_pdk.cli.app import app
from optinc_pdk.cli.chip_inputs import ChipInputs, WordTarget, process_of
from optinc_pdk.cli.eye_drawing import EyeRun
from optinc_pdk.cli.records import with_records
from optinc_pdk.cli.symbol_rates import warn_of_rates
from optinc_pdk.errors import InputError
from optinc_pdk.options import SampleOptions

if TYPE_CHECKING:
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork


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
