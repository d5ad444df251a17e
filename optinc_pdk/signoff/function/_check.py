"""Function check: words that the extracted chip and its board compute, against the ideal average."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from optinc_pdk.averaging import Averaging, decide_steps
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.signoff.function._certificate import NoCertificateError, certify_closed_form
from optinc_pdk.signoff.function._optical_response import (
    hop_losses_db,
    oscillator_powers,
    path_loss_db,
    symbol_assignments,
)
from optinc_pdk.signoff.function._result import FunctionResult, FunctionTally, Readings
from optinc_pdk.signoff.function._word_inputs import FunctionInputs, plan_inputs
from optinc_pdk.simulate import Scattering, scattering, transmit

Progress = Callable[[int, int], None]
Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = min(os.cpu_count() or 1, 4)
"""Batches of inputs that are evaluated at the same time."""


def check_function(
    circuit: Circuit,
    board: Board,
    bias: Bias,
    task: Averaging,
    process: Process,
    ground: SharedGround | None = None,
    *,
    onn: AveragingNetwork | None = None,
    on_progress: Progress | None = None,
) -> FunctionResult:
    """Simulate the extracted circuit, driven by the DAC codes of a bias, and read the words of every input.

    The inputs are all combinations of symbols at the fibres, all points of the lattice, or random words and corner
    cases, see `plan_inputs`. Unless they are all combinations, each input is tried with two assignments of symbols to
    servers: a random one, and the one that the imbalance of the preprocessing unit affects most.

    Args:
        bias: DAC codes, and settings of neurons and receivers.
        ground: Ground rise that results from the heaters' currents; None for no ground rise.
        onn: Network that the chip realises, for the certificate; None for none.
        on_progress: Called with the number of inputs that were tried, and their total.

    Raises:
        InputError: Circuit, board, bias and task do not belong together.
        ValueError: The circuit cannot be solved.
    """
    check_board(board, task)
    s = scattering(circuit, bias, float(process.guide.wavelength_nm), process, ground=ground)
    return check_scattering(s, board, bias, task, onn=onn, on_progress=on_progress)


def check_board(board: Board, task: Averaging) -> None:
    """Raise an error if a board does not have the servers and symbols of a task.

    Raises:
        InputError: The board has another number of servers or of symbols per server.
    """
    board_task = (len(board.inputs), len(board.inputs[0]) if board.inputs else 0)
    if board_task != (task.servers, task.symbols):
        raise InputError(
            f"the board has {board_task[0]} servers of {board_task[1]} symbols, the network {task.servers} of "
            f"{task.symbols}; give weights and netlist of one chip"
        )


def check_scattering(
    s: Scattering,
    board: Board,
    bias: Bias,
    task: Averaging,
    *,
    onn: AveragingNetwork | None = None,
    inputs: FunctionInputs | None = None,
    on_progress: Progress | None = None,
) -> FunctionResult:
    """Read the words of every input, as :func:`check_function`, for a chip with known S-parameters.

    Args:
        s: S-parameters of the whole chip at one wavelength.
        bias: Settings of neurons and receivers; DAC codes are not used.
        onn: Network that the chip realises, for the certificate; None for none.
        inputs: Inputs to try; by default those of a complete check.
        on_progress: Called with the number of inputs that were tried, and their total.
    """
    certificate, missing = None, ""
    if onn is not None:
        try:
            certificate = certify_closed_form(s, board, bias, onn)
        except NoCertificateError as fault:
            missing = str(fault)
    plan = plan_inputs(task, certified=certificate is not None and certificate.holds)
    batches = plan.batches() if inputs is None else iter([inputs])
    tally = FunctionTally(task, plan.total if inputs is None else len(inputs.ideal))
    for readings in _in_threads(lambda batch: _read(batch, s, board, bias), batches):
        tally.add(readings)
        if on_progress is not None:
            on_progress(tally.inputs, tally.total)
    return tally.result(
        coverage=plan.coverage if inputs is None else inputs.coverage,
        corners=len(plan.corners) if inputs is None else 0,
        loss_db=path_loss_db(s, board),
        hop_loss_db=hop_losses_db(s, board, task.group_symbols),
        oscillator_powers=oscillator_powers(s, board),
        certificate=certificate,
        no_certificate=missing,
    )


def _read(inputs: FunctionInputs, s: Scattering, board: Board, bias: Bias) -> Readings:
    """Send a batch of inputs through the chip."""
    task = inputs.task
    symbols = symbol_assignments(inputs, s, board, bias)
    received = [transmit(assignment, s, board, bias) for assignment in symbols]
    outputs = np.stack([reception.outputs for reception in received])
    words = task.combine_steps(decide_steps(outputs, task.output_resolution))
    return Readings(inputs, symbols, words, outputs, sum(reception.saturated for reception in received))


def _in_threads(function: Callable[[Item], Result], items: Iterator[Item]) -> Iterator[Result]:
    """Results of a function for all items, in their order; at most `THREADS` + 1 items are in memory."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
