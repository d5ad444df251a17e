"""What an existing chip computes, for commands that take chips of words, of general networks and of matrices."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optinc_pdk.cli.matrix_options import is_matrix, refuse_for_matrix, refuse_for_network
from optinc_pdk.cli.network_files import REBUILD, parse_report, read_any_network, read_task, report_path
from optinc_pdk.cli.paths import errors_naming
from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.cards import Process
    from optinc_pdk.circuit import Bias, Board
    from optinc_pdk.io.chip_files import ChipFiles
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.networks import Activation, AveragingNetwork
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork, CheckOptions
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.simulate import Scattering
    from optinc_pdk.studies import NominalChip
    from optinc_pdk.studies.chip_checks import MatrixCheck, NetworkCheck


@dataclass(frozen=True)
class TaskOptions:
    """Options that describe a weight file; None stands for an option that is not given.

    Attributes:
        bits: Value of ``--bits``.
        servers: Value of ``--servers``.
        groups: Value of ``--groups``.
        activation: Value of ``--activation``.
    """

    bits: int | None
    servers: int | None
    groups: int | None
    activation: Activation | None

    @property
    def named(self) -> dict[str, object]:
        """The values by name of the option."""
        values = (self.bits, self.servers, self.groups, self.activation)
        return dict(zip(("--bits", "--servers", "--groups", "--activation"), values, strict=True))


@dataclass(frozen=True, eq=False)
class WordTarget:
    """Words that a chip averages.

    Attributes:
        task: The averaging task.
        onn: The network; None if the task comes from a report.
    """

    task: Averaging
    onn: AveragingNetwork | None

    @property
    def network(self) -> AveragingNetwork:
        """The network.

        Raises:
            ValueError: It is not known.
        """
        if self.onn is None:
            raise ValueError("only the task is known; give the weight file")
        return self.onn


def read_target(
    gds: Path, weights: Path | None, described: TaskOptions, options: CheckOptions
) -> WordTarget | CheckedNetwork | MatrixTarget:
    """Find out what a chip computes: from its weight file or matrix, or else from the report beside its layout.

    Args:
        gds: Layout of the chip.
        weights: Weight file or matrix, or None.
        described: Options that describe a weight file.
        options: Options of the check of a matrix or a general network.

    Raises:
        InputError: A file cannot be used, what the chip computes is not known, or an option has no effect on it.
    """
    from optinc_pdk.networks import AveragingNetwork
    from optinc_pdk.pipeline.tasks.sources import checked_network, refuse_network_options

    checks = {"--data": options.data, "--agreement": options.agreement, "--accuracy": options.accuracy}
    if weights is not None and is_matrix(weights):
        refuse_for_matrix(weights, described.named | checks)
        return _matrix(gds, weights, options)
    refuse_for_network(weights or gds, {"--read": options.read})
    task = (described.bits, described.servers, described.groups, described.activation)
    if weights is None:
        _refuse_unknown(gds)
        words = WordTarget(*read_task(gds, None, *task))
    else:
        network = read_any_network(weights, *task, gds)
        if not isinstance(network, AveragingNetwork):
            return checked_network(network, options, f"{weights}: ")
        words = WordTarget(network.task, network)
    refuse_network_options(options)
    return words


def _refuse_unknown(gds: Path) -> None:
    """Refuse a chip whose report states another task than averaging: weights or matrix are then needed.

    Raises:
        InputError: The report is that of such a chip, or cannot be used.
    """
    from optinc_pdk.report.formatting import count_text
    from optinc_pdk.report.schema import GeneralTaskNumbers, MatrixTaskNumbers

    path = report_path(gds)
    if not path.exists():
        return
    task = parse_report(path, REBUILD).task
    if isinstance(task, MatrixTaskNumbers):
        raise InputError(
            f"{path}: the chip realises a matrix of {task.outputs} × {task.inputs}, which no report contains: give "
            "the matrix, .npy or .npz with one array, with --weights"
        )
    if isinstance(task, GeneralTaskNumbers):
        raise InputError(
            f"{path}: the chip computes a general network of {count_text(task.inputs, 'input')} and "
            f"{count_text(task.outputs, 'output')}, which no report contains: give the weight file with --weights"
        )


def _matrix(gds: Path, weights: Path, options: CheckOptions) -> MatrixTarget:
    """Read a matrix; without ``--read`` it is read as the report beside the layout states, or as fields.

    A matrix that is not that of the report is warned of on stderr.
    """
    from optinc_pdk.matrices import READINGS, TOLERANCE, MatrixTarget
    from optinc_pdk.report.build_files import stated_matrix

    tolerance = TOLERANCE if options.tolerance is None else options.tolerance
    stated = stated_matrix(gds)
    of_report = next((each for each in READINGS if stated is not None and each == stated[1]), READINGS[0])
    target = MatrixTarget.load(weights, of_report if options.read is None else options.read, tolerance)
    if stated is not None and stated[2] != target.digest:
        print(
            f"optinc: {weights}: is not the matrix that {stated[0]} describes (another matrix or reading); use the one "
            "that the chip was programmed for",
            file=sys.stderr,
        )
    return target


def read_target_chip(
    files: ChipFiles, target: WordTarget | CheckedNetwork | MatrixTarget, process: Process, weights: Path | None
) -> ExtractedChip:
    """Read a chip from its layout, and check that it is one for the target.

    Args:
        files: Files of the chip.
        target: What the chip computes.
        process: Process of the chip.
        weights: File of the target, for messages.

    Raises:
        InputError: A file cannot be used, or the target is for another chip.
    """
    from optinc_pdk.assemble import matrix_form
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.signoff.extracted_chip import read_extracted_chip, read_extracted_matrix_chip
    from optinc_pdk.simulate.programming.matrix_program import check_matrix_chip
    from optinc_pdk.simulate.transmission.reception import check_vector_board

    paths = (files.gds, files.netlist, files.bias)
    if isinstance(target, MatrixTarget):
        chip = read_extracted_matrix_chip(*paths, process)
        with errors_naming(weights or files.gds):
            check_matrix_chip(chip.circuit.name, matrix_form([*chip.circuit.ports, *chip.bias.labels]), target)
        return chip
    chip = read_extracted_chip(*paths, process)
    if not isinstance(target, WordTarget):
        with errors_naming(weights or files.gds):
            check_vector_board(chip.board, target.network.task)
    return chip


@dataclass(frozen=True)
class LightRun:
    """Inputs of a command that sends light of given powers through an extracted chip, and the picture that it writes.

    Attributes:
        files: Files of the chip.
        card: Process as the target uses it.
        weights: File of the target, or None.
        laser_w: Power launched into every guide, in W; None for the card's.
        ratio: Power of the local oscillators relative to that of a guide; None for that of the netlist.
        seed: Seed of the noise.
        picture: The picture to write.
        as_json: Whether JSON is printed.
    """

    files: ChipFiles
    card: Process
    weights: Path | None
    laser_w: float | None
    ratio: float | None
    seed: int
    picture: Path
    as_json: bool

    def light(self, chip: ExtractedChip) -> tuple[Scattering, Board, Bias]:
        """Return S-parameters, board and electronics of a network's chip, with the power of its local oscillators.

        Raises:
            InputError: The power is out of range.
        """
        from optinc_pdk.simulate import scattering
        from optinc_pdk.simulate.transmission.noise import check_oscillator_power
        from optinc_pdk.studies.oscillator_power import with_oscillator_power

        card, ratio = self.card, self.ratio
        check_oscillator_power(card, self.laser_w, chip.board.oscillator_power if ratio is None else ratio)
        s = scattering(chip.circuit, chip.bias, float(card.guide.wavelength_nm), card, ground=chip.ground)
        if ratio is None:
            return s, chip.board, chip.bias
        return s, *with_oscillator_power(s, chip.board, chip.bias, card, ratio)


def process_of(target: WordTarget | CheckedNetwork | MatrixTarget, card: Process) -> Process:
    """Return the process as a build uses it for a target: the outputs of a general network are read as fields."""
    from optinc_pdk.cards import with_field_outputs
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork

    return with_field_outputs(card) if isinstance(target, CheckedNetwork) else card


def check_of(target: CheckedNetwork | MatrixTarget, chip: NominalChip) -> MatrixCheck | NetworkCheck:
    """Return what is measured on a chip, and its target."""
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.studies.chip_checks import MatrixCheck, NetworkCheck

    if isinstance(target, MatrixTarget):
        return MatrixCheck(chip, target)
    return NetworkCheck.of(chip, target.network, target.data, target.limits)
