"""The numbers of the report of a general network's chip, and what they mean if it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit
from optinc_pdk.factor import BlockFactor
from optinc_pdk.networks import GeneralNetwork, LayerFactor, NetworkComparison, NetworkData, NetworkLimits
from optinc_pdk.report.build_numbers import chip_dies, network_parts, oscillator_numbers
from optinc_pdk.report.size_limits import chip_limits
from optinc_pdk.signoff.function import ChipLight
from optinc_pdk.simulate import Programming

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout

LISTED = 5
"""Number of samples that a finding lists."""
LARGE_ERROR_SHARE = 0.5
"""Share of the errors of the most frequent label alone, from which on a network's accuracy is mentioned where none is
required. Our choice."""
APPROXIMATION = 1e-3
"""Error of a layer of blocks, relative to its norm, from which it is mentioned."""
LARGE_LOSS = 0.05
"""Accuracy by which a network is below its card's, from which on it is mentioned although it passes. Our choice."""


def general_task_numbers(network: GeneralNetwork, data: NetworkData, limits: NetworkLimits) -> dict[str, Any]:
    """Return the ``task`` section of `report.json`; the keys are the fields of `GeneralTaskNumbers`."""
    return {
        "kind": "network",
        "inputs": network.task.inputs,
        "outputs": network.task.outputs,
        "data": data.kind if network.task.data is not None else "random",
        "data_sha256": data.digest,
        **asdict(limits),
    }


def general_chip_numbers(
    circuit: Circuit, chip: ChipLayout, process: Process, programming: Programming | None, light: ChipLight | None
) -> dict[str, Any] | None:
    """Return the ``chip`` section of `report.json`; the keys are the fields of `ChipNumbers`.

    Args:
        circuit: Netlist of the chip with its board.
        chip: Layout of the chip.
        process: Process card.
        programming: Bias of the chip; None if it was not programmed.
        light: Losses and local oscillators of the extracted chip; None if it was not simulated.

    Returns:
        Parts on and off the chip, power, loss and size limits; None if `programming`, `light` or the board is missing.
    """
    if programming is None or light is None or circuit.board is None:
        return None
    ends = ("input modulators", "receivers of fields")
    parts = network_parts(circuit, circuit.board, chip, process, programming, ends)
    return {
        **parts,
        "loss_db": light.loss_db,
        "limits": chip_limits(process, chip_dies(chip), parts["pads"], parts["power_w"]),
        "oscillators": oscillator_numbers(process, circuit.board, light.oscillator_powers),
    }


def network_numbers(network: GeneralNetwork, found: NetworkComparison, saturated: int) -> dict[str, Any]:
    """Return the ``network`` section of `report.json`; the keys are the fields of `NetworkNumbers`."""
    confusion = found.confusion
    return {
        "structure": list(network.structure),
        "activation": network.activation,
        "sha256": network.digest,
        "samples": len(found.outputs),
        "agreeing": int(found.agreeing.sum()),
        "agreement": found.agreement,
        "worst_deviation": found.worst,
        "rms_deviation": found.rms,
        "network_accuracy": found.network_accuracy,
        "chip_accuracy": found.chip_accuracy,
        "confusion": None if confusion is None else confusion.tolist(),
        "network_rms_error": found.rms_error(found.expected),
        "chip_rms_error": found.rms_error(found.outputs),
        "saturated": saturated,
    }


def network_findings(
    found: NetworkComparison, saturated: int, network: GeneralNetwork, factors: Sequence[LayerFactor]
) -> list[str]:
    """List why a chip fails, what the data says of its network, and clipped amplitudes, one line each.

    Args:
        found: Outputs of chip and network.
        saturated: Number of modulator amplitudes above 1.
        network: The network. Its card may state an accuracy. Modulators of clipped networks clip on purpose, which is
            no finding.
        factors: Factorisation of its layers.
    """
    approximations = _approximations(factors)
    cause = "the factorisation of the network is the cause, or the chip" if approximations else "the chip is the cause"
    lines = [*approximations, *_disagreement(found), *_accuracy(found, network.card.get("accuracy"), cause)]
    lines += _error(found, network.card.get("rms_error"), cause) or _fit(found)
    if saturated and network.activation == "relu":
        lines.append(f"network: {saturated:,} modulator amplitudes were clipped to full scale")
    return lines


def _approximations(factors: Sequence[LayerFactor]) -> list[str]:
    """Layers that blocks of diagonal × orthogonal matrices do not realise."""
    return [
        f"factor: blocks of {layer.factor.block} × {layer.factor.block} realise layer {number} but for "
        f"{layer.relative_error:.2%} (Frobenius norm); train with project_blocks, give all inputs of the first layer "
        'one range (input_range), or factor the layer by "svd"'
        for number, layer in enumerate(factors)
        if isinstance(layer.factor, BlockFactor) and layer.relative_error > APPROXIMATION
    ]


def _disagreement(found: NetworkComparison) -> list[str]:
    """Samples on which chip and network disagree, if they are too many."""
    if found.agreement >= found.limits.agreement:
        return []
    wrong = np.flatnonzero(~found.agreeing)
    samples = ", ".join(map(str, wrong[:LISTED].tolist())) + (", …" if wrong.size > LISTED else "")
    what, ties = "outputs beyond the tolerance", ""
    if found.data.labels is not None:
        what = "another class"
        ties = f"; the network decides these by {found.decision_margins[wrong].max():.2%} at most"
    return [
        f"network: the chip gives {what} for {wrong.size:,} of {found.agreeing.size:,} samples ({samples}), so they "
        f"agree on {found.agreement:.3%}, required are {found.limits.agreement:.3%}; an output deviates by up to "
        f"{found.worst:.2%} of the largest{ties}"
    ]


def _accuracy(found: NetworkComparison, stated: float | None, other: str) -> list[str]:
    """Accuracy below its limit, with the network or something else as its cause; and a network of low accuracy.

    Args:
        found: Outputs of chip and network.
        stated: Accuracy that the network's card states; None if it states none.
        other: The cause if it is not the network.
    """
    limit, network, chip, constant = (
        found.limits.accuracy,
        found.network_accuracy,
        found.chip_accuracy,
        found.constant_accuracy,
    )
    if network is None or chip is None or constant is None:
        return []
    without = f"without any error, in floating point, the network classifies {network:.2%} of the samples correctly"
    card = "" if stated is None else f", and its card states {stated:.2%}"
    remedy = "check its weights, its activation and the scale of the data"
    if limit is not None and chip < limit:
        cause = (
            f"the network itself is the cause: {without}{card}; {remedy}" if network < limit else f"{other}: {without}"
        )
        return [f"network: the chip classifies {chip:.2%} of the samples correctly, required are {limit:.2%}; {cause}"]
    # without a limit nobody says what the network should reach
    least = 1.0 - LARGE_ERROR_SHARE * (1.0 - constant) if limit is None else constant
    if (network <= least and constant < 1.0) or (stated is not None and network < stated - LARGE_LOSS):
        return [
            f"network: {without}{card}, and the most frequent label alone would reach {constant:.2%}; if this is not "
            f"wanted, {remedy}"
        ]
    return []


def _error(found: NetworkComparison, stated: float | None, other: str) -> list[str]:
    """Error of the outputs beyond its limit, with the network or something else as its cause.

    Args:
        found: Outputs of chip and network.
        stated: Error that the network's card states; None if it states none.
        other: The cause if it is not the network.
    """
    limit, network, chip = found.limits.rms_error, found.rms_error(found.expected), found.rms_error(found.outputs)
    if limit is None or network is None or chip is None or chip <= limit:
        return []
    without = f"without any error, in floating point, the outputs of the network differ from y by {network:.4g} rms"
    card = "" if stated is None else f", and its card states {stated:.4g}"
    cause = (
        f"the network itself is the cause: {without}{card}; check its weights, its activation and the scale of the data"
        if network > limit
        else f"{other}: {without}"
    )
    return [f"network: the outputs of the chip differ from y by {chip:.4g} rms, allowed are {limit:.4g}; {cause}"]


def _fit(found: NetworkComparison) -> list[str]:
    """A network whose outputs are no better than the mean of those of the data."""
    error = found.rms_error(found.expected)
    if error is None or found.data.outputs is None:
        return []
    spread = float(np.sqrt(np.mean((found.data.outputs - found.data.outputs.mean(axis=0)) ** 2)))
    if error < spread or spread == 0.0:
        return []
    return [
        f"network: without any error, in floating point, its outputs differ from y by {error:.4g} rms, and the mean of "
        f"y alone by {spread:.4g}; if this is not wanted, check its weights, its activation and the scale of the data"
    ]
