"""Checks of a network before assembly: whether its circuit can be built, and whether its weights are in range."""

from __future__ import annotations

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.networks import Network

MAX_INPUT_FIBRES = 2**14
"""Largest number of input fibres, servers times symbols; one die has some hundreds."""
SMALLEST = 1e-30
"""Lower limit of a weight matrix's largest entry; the upper limit is its reciprocal."""


def check_buildable(onn: Network) -> None:
    """Check that this package can assemble a circuit for a network.

    The network must have at most one cascade option, at most ``MAX_INPUT_FIBRES`` inputs of servers, weights in range,
    and two or more layers.

    Args:
        onn: Network.

    Raises:
        InputError: A condition is not met; the message states the value and what can be built.
    """
    task = onn.task
    averaging = isinstance(task, Averaging)
    if isinstance(task, Averaging) and task.remainder and task.finer_input:
        raise InputError(
            "remainder and finer_input are both true, which is a middle level of three; a cascade has two levels: "
            "level 1 has remainder = true, level 2 has finer_input = true"
        )
    if task.servers * task.symbols > MAX_INPUT_FIBRES:
        raise InputError(
            f"{task.servers} servers of {task.symbols} symbols need {task.servers * task.symbols} input fibres; the "
            f"limit is {MAX_INPUT_FIBRES}: use fewer servers, or a cascade"
            if averaging
            else f"the network has {task.symbols} inputs, the limit is {MAX_INPUT_FIBRES} input fibres: use fewer"
        )
    check_weights(onn)
    if len(onn.layers) < 2:
        remedy = "add a hidden layer" if task.servers > 1 else "average over 2 or more servers (--servers)"
        if not averaging:
            remedy = "add a hidden layer, or build the chip of its matrix (.npy), without a bias"
        raise InputError(f"the network has one layer; a chip has at least two, joined by activations; {remedy}")


def check_fan_out(onn: Network, process: Process) -> None:
    """Check that no pair of detectors drives more neurons than the electronics of a process allow.

    Args:
        onn: Network.
        process: Process with the limit ``activation.fan_out_max``; it may have none.

    Raises:
        InputError: A row of detectors has too many neurons; the message names the layer, their number and the limit.
    """
    if process.activation.fan_out_max is None:
        return
    limit = int(process.activation.fan_out_max)
    for index in range(len(onn.layers) - 1):
        rows = onn.detector_rows(index)
        most = int(np.bincount(rows[rows >= 0], minlength=1).max())
        if most > limit:
            raise InputError(
                f"layers.{index} has {most} units with proportional weights, which share one pair of detectors; "
                f"activation.fan_out_max of process {process.name!r} is {limit}: raise it, or use a network whose rows "
                "differ"
            )


def check_weights(onn: Network) -> None:
    """Check that the largest absolute entry of every weight matrix is above 1e-30 and below 1e30.

    Args:
        onn: Network.

    Raises:
        InputError: An entry is out of range; the message names the layer, its largest entry and the limits.
    """
    for index, layer in enumerate(onn.layers):
        largest = float(abs(layer.weight).max())
        if not SMALLEST < largest < 1 / SMALLEST:
            raise InputError(
                f"layers.{index}.weight has {largest:g} as its largest entry; fields can represent {SMALLEST:g} to "
                f"{1 / SMALLEST:g}: train again, or scale the layers"
            )
