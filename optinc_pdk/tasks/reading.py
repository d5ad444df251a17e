"""What a chip can be built from: files, networks, matrices, and the options of the check of each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from optinc_pdk.assemble import check_buildable
from optinc_pdk.cards import Process, with_field_outputs, with_link
from optinc_pdk.errors import ArgumentError, InputError
from optinc_pdk.matrices import TOLERANCE, MatrixTarget
from optinc_pdk.matrices.matrix_factor import mesh_shape
from optinc_pdk.matrices.target import is_matrix_file
from optinc_pdk.networks import (
    AveragingNetwork,
    GeneralNetwork,
    NetworkData,
    NetworkLimits,
    bundled_weights,
    check_data,
    normalise,
    read_data,
)
from optinc_pdk.networks.network import load_network
from optinc_pdk.networks.network_data import AGREEMENT
from optinc_pdk.options import BuildOptions, CheckOptions, ProgramOptions
from optinc_pdk.tasks.averaging_task import AveragingTask
from optinc_pdk.tasks.chip_task import ChipTask, refuse_options
from optinc_pdk.tasks.general_task import GeneralTask
from optinc_pdk.tasks.matrix_task import MatrixTask

if TYPE_CHECKING:
    from optinc_pdk.options import Activation, Data

Source = str | Path | AveragingNetwork | GeneralNetwork | MatrixTarget | NDArray[Any]
"""What a chip can be built from: a file, a network or a matrix."""


def read_task(
    given: Source | None,
    process: Process,
    options: CheckOptions,
    stated: tuple[Path, str, str] | None = None,
    activation: Activation | None = None,
) -> tuple[ChipTask[Any, Any, Any], str]:
    """Read a network or matrix, and return the task of its chip.

    Args:
        given: What the chip is built from; None for the bundled network.
        process: Process as its cards state it.
        options: Options of the check, and those of a build.
        stated: Report of an existing chip, how it states that its outputs are read, and the digest of the matrix, see
            :func:`optinc_pdk.report.build_files.stated_matrix`; None if it states none.
        activation: Activation of a weight file that does not state it; by default that of the options of a build.

    Returns:
        The task, and the stem of the chip's name.

    Raises:
        InputError: The network or matrix cannot be used, or an option has no effect on it.
    """
    if isinstance(given, MatrixTarget):
        refuse_options("an array or file", read=options.read, tolerance=options.tolerance)
    if isinstance(options, ProgramOptions):
        activation = options.activation
        if activation is not None and not isinstance(given, str | Path):
            refuse_options("a weight file", activation=activation)
    network, stem, prefix = _read_source(given, options, activation)
    if isinstance(network, MatrixTarget):
        MatrixTask.refuse(**vars(options))
        build = options if isinstance(options, BuildOptions) else BuildOptions()
        read_given = options.read is not None or isinstance(given, MatrixTarget)
        shape = mesh_shape(build.mesh, build.extra_columns)
        return MatrixTask(process, network, shape, prefix, None, read_given, stated), stem
    if isinstance(network, GeneralNetwork):
        GeneralTask.refuse(**vars(options))
        return general_task(network, process, options, prefix), stem
    AveragingTask.refuse(**vars(options))
    amplitudes = options.input_amplitudes if isinstance(options, BuildOptions) else None
    if isinstance(options, ProgramOptions):
        process = with_link(process, options.link, options.receivers)
    return AveragingTask.of(network, process, amplitudes, prefix), stem


def _read_source(
    given: Source | None, options: CheckOptions, activation: Activation | None
) -> tuple[AveragingNetwork | GeneralNetwork | MatrixTarget, str, str]:
    """Return the network or matrix, the stem of its chip's name, and the beginning of messages about it."""
    if isinstance(given, MatrixTarget):
        return given, "chip", ""
    tolerance = TOLERANCE if options.tolerance is None else options.tolerance
    network: AveragingNetwork | GeneralNetwork
    if given is None or isinstance(given, str | Path):
        path = bundled_weights() if given is None else Path(given)
        stem, prefix = path.stem, f"{path}: "
        if is_matrix_file(path):
            return MatrixTarget.load(path, options.read or "field", tolerance), stem, prefix
        network = load_network(path, activation=activation)
    elif isinstance(given, AveragingNetwork | GeneralNetwork):
        network, stem, prefix = given, "chip", ""
    else:
        return MatrixTarget(given, options.read or "field", tolerance), "chip", ""
    try:
        check_buildable(network)
        if isinstance(network, AveragingNetwork):
            # refuses a hidden layer that is zero for every input
            normalise(network)
    except InputError as fault:
        raise InputError(f"{prefix}{fault}") from fault
    return network, stem, prefix


def general_task(network: GeneralNetwork, process: Process, options: CheckOptions, prefix: str = "") -> GeneralTask:
    """Return the task of a general network with its data and its limits.

    Its signals are scaled over this data, unless the network has data for that. Its outputs are read as signed fields.

    Args:
        network: The network.
        process: Process as its cards state it.
        options: Options of the check.
        prefix: Beginning of messages about the network.

    Raises:
        InputError: Data or limits cannot be used.
    """
    agreement = AGREEMENT if options.agreement is None else options.agreement
    tolerance = TOLERANCE if options.tolerance is None else options.tolerance
    try:
        # a card that cannot be used is no fault of the data
        _ = network.classes
    except InputError as fault:
        raise InputError(f"{prefix}{fault}") from fault
    data = _data(network, options.data)
    if data.labels is None and options.accuracy is not None:
        raise ArgumentError(
            "accuracy",
            f"is {options.accuracy:g}, and the data has no labels; give data with y, a whole number for each "
            "sample, or drop it",
        )
    if data.labels is not None and options.tolerance is not None:
        raise ArgumentError(
            "tolerance", f"is {options.tolerance:g}, and the data has labels, so that classes are compared; drop it"
        )
    accuracy = options.accuracy
    stated = None if data.labels is None else _stated_accuracy(network, prefix)
    if accuracy is None and stated is not None:
        accuracy = max(0.0, stated - (1.0 - agreement))
    error = None if data.outputs is None else _stated_error(network, prefix)
    if error is not None and data.outputs is not None:
        # relative to y, which weights that were changed do not enlarge
        error += tolerance * float(abs(data.outputs).max())
    if options.data is not None:
        where = f"{options.data}: " if isinstance(options.data, str | Path) else ""
        try:
            scaled = network.with_data(data.x)
        except InputError as fault:
            raise InputError(f"{where}{fault}") from fault
        if network.task.data is None:
            network = scaled
    limits = NetworkLimits(agreement, tolerance, accuracy, error)
    return GeneralTask(with_field_outputs(process), network, data, limits, prefix)


def _data(network: GeneralNetwork, data: Data | None) -> NetworkData:
    """Samples that are given, or random inputs within the range of the network."""
    if data is None:
        return NetworkData(network.task.points)
    if isinstance(data, str | Path):
        return read_data(data, network)
    if not isinstance(data, tuple):
        return check_data(data, None, network)
    if len(data) != 2:
        raise InputError(f"data has {len(data)} entries; give inputs and labels, or inputs and outputs")
    return check_data(data[0], data[1], network)


def _stated_accuracy(network: GeneralNetwork, prefix: str) -> float | None:
    """Accuracy that a network's card states; None if it states none."""
    stated = network.card.get("accuracy")
    if stated is None:
        return None
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not 0.0 <= stated <= 1.0:
        raise InputError(f"{prefix}card: accuracy is {stated!r}; give a share of 0 to 1, or drop it")
    return float(stated)


def _stated_error(network: GeneralNetwork, prefix: str) -> float | None:
    """Root-mean-square error of the outputs that a network's card states; None if it states none."""
    stated = network.card.get("rms_error")
    if stated is None:
        return None
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not 0.0 <= stated < math.inf:
        raise InputError(f"{prefix}card: rms_error is {stated!r}; give a number from 0, or drop it")
    return float(stated)
