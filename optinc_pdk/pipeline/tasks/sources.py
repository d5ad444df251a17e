"""What a chip can be built from: files, networks, matrices, and the options of the check of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from optinc_pdk.assemble import check_buildable
from optinc_pdk.errors import ArgumentError, InputError
from optinc_pdk.matrices import TOLERANCE, MatrixTarget
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
from optinc_pdk.options import CheckOptions, MatrixReading

if TYPE_CHECKING:
    from optinc_pdk.options import Data

Source = str | Path | AveragingNetwork | GeneralNetwork | MatrixTarget | NDArray[Any]
"""What a chip can be built from: a file, a network or a matrix."""


@dataclass(frozen=True, eq=False)
class CheckedNetwork:
    """A general network with what its chip is checked with.

    Attributes:
        network: The network; its signals are scaled over the samples.
        data: The samples.
        limits: What the chip must reach.
    """

    network: GeneralNetwork
    data: NetworkData
    limits: NetworkLimits


def read_source(
    weights: Source | None, options: CheckOptions
) -> tuple[AveragingNetwork | CheckedNetwork | MatrixTarget, str, str]:
    """Read the network or matrix, and check that a chip can be built from it.

    Args:
        weights: What the chip is built from; None for the bundled network.
        options: Options of the check.

    Returns:
        The network or matrix, the stem of the chip's name, and the beginning of messages about it.

    Raises:
        InputError: It cannot be used, or an option has no effect on it.
    """
    if isinstance(weights, MatrixTarget):
        refuse_options("an array or file", read=options.read, tolerance=options.tolerance)
        refuse_sample_options(options)
        return weights, "chip", ""
    if weights is not None and not isinstance(weights, str | Path | AveragingNetwork | GeneralNetwork):
        refuse_sample_options(options)
        return MatrixTarget(weights, *_matrix_options(options)), "chip", ""
    if isinstance(weights, AveragingNetwork | GeneralNetwork):
        network, stem, prefix = weights, "chip", ""
    else:
        path = bundled_weights() if weights is None else Path(weights)
        stem, prefix = path.stem, f"{path}: "
        if is_matrix_file(path):
            refuse_sample_options(options)
            return MatrixTarget.load(path, *_matrix_options(options)), stem, prefix
        network = load_network(path)
    refuse_options("a matrix", read=options.read)
    try:
        check_buildable(network)
    except InputError as fault:
        raise InputError(f"{prefix}{fault}") from fault
    if isinstance(network, GeneralNetwork):
        return checked_network(network, options, prefix), stem, prefix
    refuse_network_options(options)
    try:
        # refuses a hidden layer that is zero for every input
        normalise(network)
    except InputError as fault:
        raise InputError(f"{prefix}{fault}") from fault
    return network, stem, prefix


def checked_network(network: GeneralNetwork, options: CheckOptions, prefix: str = "") -> CheckedNetwork:
    """Return a general network with its data and its limits.

    Its signals are scaled over this data, unless the network has data for that.

    Args:
        network: The network.
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
    return CheckedNetwork(network, data, NetworkLimits(agreement, tolerance, accuracy, error))


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


def _matrix_options(options: CheckOptions) -> tuple[MatrixReading, float]:
    return options.read or "field", TOLERANCE if options.tolerance is None else options.tolerance


def refuse_network_options(options: CheckOptions) -> None:
    """Refuse the options of the check of a general network or a matrix.

    Raises:
        InputError: One of them is given.
    """
    refuse_sample_options(options)
    refuse_options("a general network or a matrix", tolerance=options.tolerance)


def refuse_sample_options(options: CheckOptions) -> None:
    """Refuse the options of the check of a general network alone.

    Raises:
        InputError: One of them is given.
    """
    data = options.data if options.data is None or isinstance(options.data, str | Path) else "of arrays"
    of = "a general network, which has no averaging task"
    refuse_options(of, data=data, agreement=options.agreement, accuracy=options.accuracy)


def refuse_options(of: str, **options: object) -> None:
    """Refuse options that have no effect on this input; None stands for an option that is not given."""
    for name, value in options.items():
        if value is not None:
            shown = value if isinstance(value, str | Path) else repr(value)
            raise ArgumentError(name, f"{shown} has no effect here: it is an option of {of}; drop it")
