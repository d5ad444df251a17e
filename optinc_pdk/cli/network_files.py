"""Networks and tasks for commands: the task comes from the weight file, from options, or from a build's report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.networks import Activation, AveragingNetwork, GeneralNetwork
    from optinc_pdk.report.schema import Report


_GIVE_WEIGHTS = "give the weight file with --weights"
REBUILD = "build the chip again, or move the report away"
"""Remedy for a report that cannot be used and is not needed, for messages."""
REPLACE_REPORT = f"{REBUILD} and {_GIVE_WEIGHTS}"
"""Remedy for a report that cannot be used and states the task."""


def read_task(
    gds: Path,
    weights: Path | None,
    bits: int | None,
    servers: int | None,
    groups: int | None,
    activation: Activation | None,
) -> tuple[Averaging, AveragingNetwork | None]:
    """Find out what a chip computes: from its weight file, or else from the report beside its layout.

    Args:
        gds: Layout of the chip.
        weights: Weight file, or None.
        bits: Value of ``--bits``, or None.
        servers: Value of ``--servers``, or None.
        groups: Value of ``--groups``, or None.
        activation: Value of ``--activation``, or None.

    Returns:
        The task, and the network if there is a weight file.

    Raises:
        InputError: There is neither a weight file nor the report of the layout, or one of them cannot be used.
    """
    check_weight_options(weights, bits, servers, groups, activation)
    if weights is not None:
        onn = read_network(weights, bits, servers, groups, activation, gds)
        return onn.task, onn
    path = report_path(gds)
    if not path.exists():
        raise InputError(f"{path}: no report beside the layout, so the task is not known; {_GIVE_WEIGHTS}")
    report, task = read_report(path, REPLACE_REPORT)
    if gds.name not in report.files:
        raise InputError(f"{path}: is not the report of {gds}, so the task is not known; {_GIVE_WEIGHTS}")
    return task, None


def check_weight_options(weights: Path | None, *options: object) -> None:
    """Check that options which describe a weight file come with one.

    Args:
        weights: Weight file, or None.
        options: Values of ``--bits``, ``--servers``, ``--groups`` and ``--activation``, each possibly None.

    Raises:
        InputError: There is an option, but no weight file.
    """
    if weights is None and any(option is not None for option in options):
        raise InputError(
            "--bits, --servers, --groups and --activation describe a weight file: give it with --weights, "
            "or leave them out"
        )


def read_network(
    weights: Path,
    bits: int | None,
    servers: int | None,
    groups: int | None,
    activation: Activation | None,
    gds: Path | None = None,
) -> AveragingNetwork:
    """Read the network of a weight file, which averages words; see :func:`read_any_network`.

    Raises:
        InputError: The weight file or the report cannot be used, or the task is not known.
    """
    from optinc_pdk.networks import GeneralNetwork
    from optinc_pdk.networks.weight_files import missing_task

    network = read_any_network(weights, bits, servers, groups, activation, gds)
    if isinstance(network, GeneralNetwork):
        raise missing_task(weights, {"bits": bits, "servers": servers, "groups": groups})
    return network


def read_any_network(
    weights: Path,
    bits: int | None,
    servers: int | None,
    groups: int | None,
    activation: Activation | None,
    gds: Path | None = None,
) -> AveragingNetwork | GeneralNetwork:
    """Read the network of a weight file; without a task, it is a general network.

    Args:
        weights: Weight file.
        bits: Value of ``--bits``, or None.
        servers: Value of ``--servers``, or None.
        groups: Value of ``--groups``, or None.
        activation: Value of ``--activation``, or None.
        gds: Layout of the network. If the weight file contains no task, and the report of a build beside the layout
            lists the layout, the report's task is used unless an option contradicts it. The report's activation is used
            unless the file or the option states one. A network that is not that of the report is warned of on stderr.

    Raises:
        InputError: The weight file or the report cannot be used, or some of ``--bits``, ``--servers`` and ``--groups``
            are missing.
    """
    from optinc_pdk.report.build_files import stated_network

    network = _read(weights, bits, servers, groups, activation, gds)
    stated = None if gds is None else stated_network(gds)
    if stated is not None and stated[1] != network.digest:
        print(
            f"optinc: {weights}: is not the network that {stated[0]} describes (another task, activation or "
            "weights); use the weights that the chip was built from",
            file=sys.stderr,
        )
    return network


def _read(
    weights: Path,
    bits: int | None,
    servers: int | None,
    groups: int | None,
    activation: Activation | None,
    gds: Path | None,
) -> AveragingNetwork | GeneralNetwork:
    from optinc_pdk.networks.weight_files import load_for_task, load_network, states_task

    path = None if gds is None else report_path(gds)
    if gds is not None and path is not None and path.exists() and not states_task(weights):
        report = parse_report(path, REBUILD)
        given = {"bits": bits, "servers": servers, "groups": groups}
        listed = gds.name in report.files
        if listed and report.network is not None and set(given.values()) == {None}:
            return load_network(weights, activation=activation, default=report.network.activation)
        if listed and report.onn is not None and report.averaging is not None:
            task = averaging_task(report, path, REBUILD)
            if all(value in (None, getattr(task, name)) for name, value in given.items()):
                return load_for_task(weights, task, activation, report.onn.activation)
    return load_network(weights, bits, servers, groups, activation)


def report_path(gds: Path) -> Path:
    """Return the path that the report of a build has beside its layout."""
    from optinc_pdk.report.build_files import BUILD_ENDING

    return gds.with_name(f"{gds.stem}{BUILD_ENDING}")


def read_report(path: Path, remedy: str) -> tuple[Report, Averaging]:
    """Read the report of a build and the averaging task that it states.

    Args:
        path: The report.
        remedy: What to do if it cannot be used, for the message.

    Raises:
        InputError: The file is not the report of a build, or that of a chip that does not average words.
    """
    report = parse_report(path, remedy)
    return report, averaging_task(report, path, remedy)


def parse_report(path: Path, remedy: str) -> Report:
    """Read the report of a build; arguments are those of :func:`read_report`.

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


def averaging_task(report: Report, path: Path, remedy: str) -> Averaging:
    """Return the averaging task that the report of a build states.

    Raises:
        InputError: The chip does not average words.
    """
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.report.formatting import count_text
    from optinc_pdk.report.schema import GeneralTaskNumbers, MatrixTaskNumbers

    task = report.task
    if isinstance(task, MatrixTaskNumbers):
        raise InputError(
            f"{path}: the chip realises a matrix of {task.outputs} × {task.inputs}, and this command is "
            "about chips that average words; use 'optinc simulate', 'lvs' or 'drc' for it"
        )
    if isinstance(task, GeneralTaskNumbers):
        raise InputError(
            f"{path}: the chip computes a general network of {count_text(task.inputs, 'input')} and "
            f"{count_text(task.outputs, 'output')}, and this command is about chips that average words; use "
            "'optinc check', 'simulate', 'lvs' or 'drc' for it"
        )
    try:
        return Averaging(**task.model_dump())
    except ValueError as fault:
        raise InputError(f"{path}: task: {fault}; {remedy}") from None
