"""What commands on an existing chip begin with: its files, its process, and what it computes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from optinc_pdk.cli.app import print_table
from optinc_pdk.cli.fault_output import exit_code, faults_json, print_faults
from optinc_pdk.cli.paths import output_path, warn_of_changed_cards, warn_of_changes
from optinc_pdk.cli.records import named_file
from optinc_pdk.errors import ArgumentError, InputError
from optinc_pdk.io.chip_files import ChipFiles, chip_files, chip_paths
from optinc_pdk.options import DEFAULT_PROCESS, MATRIX_FILES, PROCESS, CheckOptions, SampleOptions, option, record

if TYPE_CHECKING:
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.cards import Process
    from optinc_pdk.options import Activation
    from optinc_pdk.signoff.layout_faults import LayoutFault
    from optinc_pdk.tasks.chip_task import ChipTask, Findings


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
        text=f"What the chip computes: weight file, or matrix ({MATRIX_FILES}). Default: the words of the report "
        "beside the layout.",
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

    def task(self, options: SampleOptions, process: Process) -> ChipTask[Any, Any, Any]:
        """Find out what the chip is for: from its weight file or matrix, or else from the report beside its layout.

        A network or matrix that is not that of the report is warned of on stderr.

        Raises:
            InputError: A file cannot be used, what the chip is for is not known, or an option has no effect on it.
        """
        from optinc_pdk.networks.layers import UnstatedActivationError
        from optinc_pdk.report.build_files import stated_activation, stated_matrix, stated_network
        from optinc_pdk.tasks.averaging_task import AveragingTask
        from optinc_pdk.tasks.reading import read_task

        checks = CheckOptions(**vars(options))
        try:
            if self.weights is None:
                averaging, activation = stated_words(self.gds)
                AveragingTask.refuse(**vars(checks))
                return AveragingTask(process, averaging, activation, None)
            matrix = stated_matrix(self.gds)
            try:
                task, _ = read_task(self.weights, process, checks, matrix)
            except UnstatedActivationError:
                # that of the chip, if the report states one
                found = stated_activation(self.gds)
                if found is None:
                    raise
                task, _ = read_task(self.weights, process, checks, matrix, found)
        except ArgumentError as fault:
            raise InputError(f"{self.weights or self.gds}: {fault.option_message}") from fault
        task.check_report(self.gds)
        stated = stated_network(self.gds) or matrix
        if stated is not None and stated[-1] != task.digest:
            print(
                f"optinc: {self.weights}: is not what {stated[0]} describes (another task, activation, "
                "reading or values); use the file that the chip was programmed for",
                file=sys.stderr,
            )
        return task


def print_findings(found: Findings, files: Sequence[Path], faults: Sequence[LayoutFault], as_json: bool) -> NoReturn:
    """Print what a command found, and its files, and end with the exit code."""
    written = [str(path) for path in files]
    if as_json:
        print(json.dumps({"schema": 1, "files": written} | dict(found.numbers) | faults_json(faults), indent=2))
    else:
        for line in found.lines:
            print(line) if isinstance(line, str) else print_table(line)
        print(", ".join(written))
        print_faults(faults)
    raise typer.Exit(exit_code(found.passed, faults))


def stated_words(gds: Path) -> tuple[Averaging, Activation]:
    """Return task and activation of a chip that averages words, as the report beside its layout states them.

    Raises:
        InputError: There is no report of the layout, it cannot be used, or the chip does not average words.
    """
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.report.build_files import REPLACE_REPORT, parse_report, report_path
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
            f"the matrix, {MATRIX_FILES}, with --weights"
        )
    if isinstance(task, GeneralTaskNumbers) or report.onn is None:
        raise InputError(f"{path}: the chip computes a general network, which no report contains: {remedy}")
    try:
        return Averaging(**task.model_dump()), report.onn.activation
    except ValueError as fault:
        raise InputError(f"{path}: task: {fault}; {REPLACE_REPORT}") from None
