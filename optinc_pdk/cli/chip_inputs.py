"""What commands on an existing chip begin with: its files, its process, and what it computes."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optinc_pdk.cli.arguments import named_file
from optinc_pdk.cli.paths import errors_naming, output_path, warn_of_changed_cards, warn_of_changes
from optinc_pdk.errors import InputError
from optinc_pdk.io.chip_files import ChipFiles, chip_files, chip_paths
from optinc_pdk.options import DEFAULT_PROCESS, PROCESS, CheckOptions, SampleOptions, option, record

if TYPE_CHECKING:
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.cards import Process
    from optinc_pdk.circuit import Bias, Board
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.networks import AveragingNetwork, GeneralNetwork
    from optinc_pdk.options import Activation
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork
    from optinc_pdk.report.schema import Report
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.simulate import Scattering
    from optinc_pdk.studies import NominalChip
    from optinc_pdk.studies.chip_checks import MatrixCheck, NetworkCheck

REBUILD = "build the chip again, or move the report away"
"""Remedy for a report that cannot be used and is not needed, for messages."""
REPLACE_REPORT = f"{REBUILD} and give the weight file with --weights"
"""Remedy for a report that cannot be used and states the task."""


@record
class ChipInputs:
    """The files of a chip, its process, and what it computes."""

    gds: Path = option(text="Layout file, GDS2 or OASIS.", argument=True, dir_okay=False, callback=named_file)
    netlist: Path | None = option(
        default=None, text="Netlist file, .pic.yml. Default: beside the layout.", argument=True, dir_okay=False
    )
    bias: Path | None = option(
        default=None, text="Bias file, .bias.yml: the DAC code of every heater. Default: beside the layout."
    )
    weights: Path | None = option(
        default=None,
        text="What the chip computes: weight file, or matrix (.npy, or .npz with one array). Default: the words of the "
        "report beside the layout.",
    )
    process: str = option(default=DEFAULT_PROCESS, text=PROCESS)

    @property
    def paths(self) -> ChipFiles:
        """Paths of the chip's files, which may be missing."""
        return chip_paths(self.gds, self.netlist, self.bias)

    def output(self, path: Path, data: object = None, in_place: bool = False) -> Path:
        """Return the path of an output file after checking that it can be written and replaces no input.

        Raises:
            InputError: It cannot, or it does.
        """
        files, samples = self.paths, data if isinstance(data, Path) else None
        return output_path(path, self.gds, files.netlist, files.bias, self.weights, samples, in_place=in_place)

    def read(self, warn: bool = True) -> tuple[ChipFiles, Process]:
        """Find the files of the chip and read its process; warn of files and cards that are not those of the report.

        Args:
            warn: Whether to warn of files, for commands that do not refuse them.

        Raises:
            InputError: A file is missing, or a card cannot be used.
        """
        from optinc_pdk.cards import load_process

        files = chip_files(self.gds, self.netlist, self.bias)
        if warn:
            warn_of_changes(files.gds, files.netlist, files.bias)
        process = load_process(self.process)
        warn_of_changed_cards(self.gds, process)
        return files, process

    def target(self, options: SampleOptions) -> WordTarget | CheckedNetwork | MatrixTarget:
        """Find out what the chip computes: from its weight file or matrix, or else from the report beside its layout.

        A network or matrix that is not that of the report is warned of on stderr.

        Raises:
            InputError: A file cannot be used, what the chip computes is not known, or an option has no effect on it.
        """
        from optinc_pdk.matrices.target import is_matrix_file
        from optinc_pdk.networks import AveragingNetwork
        from optinc_pdk.pipeline.tasks.sources import (
            checked_network,
            refuse_network_options,
            refuse_options,
            refuse_sample_options,
        )

        checks = options if isinstance(options, CheckOptions) else CheckOptions(**vars(options))
        if self.weights is not None and is_matrix_file(self.weights):
            with errors_naming(self.weights):
                refuse_sample_options(checks)
            return _matrix(self.gds, self.weights, checks)
        with errors_naming(self.weights or self.gds):
            refuse_options("a matrix", read=checks.read)
        if self.weights is None:
            words = stated_words(self.gds)
        else:
            network = read_network(self.weights, self.gds)
            if not isinstance(network, AveragingNetwork):
                return checked_network(network, checks, f"{self.weights}: ")
            words = WordTarget(network.task, network.activation, network)
        with errors_naming(self.weights or self.gds):
            refuse_network_options(checks)
        return words


@dataclass(frozen=True, eq=False)
class WordTarget:
    """Words that a chip averages.

    Attributes:
        task: The averaging task.
        activation: Activation of its hidden layers.
        onn: The network; None if the task comes from a report.
    """

    task: Averaging
    activation: Activation
    onn: AveragingNetwork | None

    @property
    def network(self) -> AveragingNetwork:
        """The network.

        Raises:
            InputError: It is not known.
        """
        if self.onn is None:
            raise InputError("this command needs the network, which no report contains: give the file with --weights")
        return self.onn


def read_network(weights: Path, gds: Path) -> AveragingNetwork | GeneralNetwork:
    """Read the network of a weight file; warn on stderr if it is not that of the report beside a layout.

    Raises:
        InputError: The weight file or the report cannot be used.
    """
    from optinc_pdk.networks import GeneralNetwork
    from optinc_pdk.networks.network import load_network
    from optinc_pdk.report.build_files import stated_network

    network = load_network(weights)
    if isinstance(network, GeneralNetwork):
        _refuse_without_task(weights, network, gds)
    stated = stated_network(gds)
    if stated is not None and stated[1] != network.digest:
        print(
            f"optinc: {weights}: is not the network that {stated[0]} describes (another task, activation or weights); "
            "use the weights that the chip was built from",
            file=sys.stderr,
        )
    return network


def _refuse_without_task(weights: Path, network: GeneralNetwork, gds: Path) -> None:
    """Refuse weights without a task if the report beside the layout states that the chip averages words.

    Raises:
        InputError: It does; for weights of its shape, the message has the command that states the task.
    """
    path = report_path(gds)
    report = parse_report(path, REBUILD) if path.exists() else None
    if report is None or gds.name not in report.files or report.averaging is None or report.onn is None:
        return
    task, structure = report.averaging, tuple(report.onn.structure)
    says = f"{weights}: states no averaging task, and {path} says that the chip averages words"
    if network.structure != structure:
        shapes = ["-".join(map(str, sizes)) for sizes in (structure, network.structure)]
        raise InputError(f"{says} with a network of {shapes[0]} units, not {shapes[1]}; give the chip's weights")
    words = ["optinc", "task", str(weights), "--bits", task.bits, "--servers", task.servers, "--groups", task.groups]
    words += [f"--{name.replace('_', '-')}" for name in ("remainder", "finer_input") if getattr(task, name)]
    if weights.suffix.lower() == ".safetensors":
        words += ["--activation", report.onn.activation]
    words += ["-o", f"{weights.stem}_{task.bits}bit_{task.servers}servers.npz"]
    raise InputError(f"{says}: {shlex.join(map(str, words))}")


def stated_words(gds: Path) -> WordTarget:
    """Return the words that a chip averages as the report beside a layout states.

    Raises:
        InputError: There is no report of the layout, it cannot be used, or the chip does not average words.
    """
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.report.schema import GeneralTaskNumbers, MatrixTaskNumbers

    path, remedy = report_path(gds), "give the weight file with --weights"
    if not gds.is_file():
        raise InputError(f"{gds}: there is no such file; give the layout of a chip")
    if not path.exists():
        raise InputError(f"{path}: no report beside the layout, so the task is not known; {remedy}")
    report = parse_report(path, REPLACE_REPORT)
    if gds.name not in report.files:
        raise InputError(f"{path}: is not the report of {gds}, so the task is not known; {remedy}")
    task = report.task
    if isinstance(task, MatrixTaskNumbers):
        raise InputError(
            f"{path}: the chip realises a matrix of {task.outputs} × {task.inputs}, which no report contains: give "
            "the matrix, .npy or .npz with one array, with --weights"
        )
    if isinstance(task, GeneralTaskNumbers) or report.onn is None:
        raise InputError(f"{path}: the chip computes a general network, which no report contains: {remedy}")
    try:
        return WordTarget(Averaging(**task.model_dump()), report.onn.activation, None)
    except ValueError as fault:
        raise InputError(f"{path}: task: {fault}; {REPLACE_REPORT}") from None


def report_path(gds: Path) -> Path:
    """Return the path that the report of a build has beside its layout."""
    from optinc_pdk.report.build_files import BUILD_ENDING

    return gds.with_name(f"{gds.stem}{BUILD_ENDING}")


def parse_report(path: Path, remedy: str) -> Report:
    """Read the report of a build.

    Args:
        path: The report.
        remedy: What to do if it cannot be used, for the message.

    Raises:
        InputError: The file is not the report of a build.
    """
    from pydantic import ValidationError

    from optinc_pdk.io.json_files import parse_json
    from optinc_pdk.io.reading import REPORT, read_bytes
    from optinc_pdk.report.schema import Report

    text = read_bytes(path, REPORT)
    try:
        parse_json(text)  # refuses duplicate keys, of which pydantic takes the last one
    except ValueError as fault:
        raise InputError(f"{path}: {fault}; {remedy}") from None
    try:
        return Report.model_validate_json(text)
    except ValidationError as fault:
        raise InputError(
            f"{path}: not the report of a build ({fault.error_count()} faults, the first: {fault.errors()[0]['msg']}); "
            f"{remedy}"
        ) from None


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
        from optinc_pdk.studies.oscillators import with_oscillator_power

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
