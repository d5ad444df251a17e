"""What the checks of words and of general networks found, as text with causes and remedies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optinc_pdk.factor import BlockFactor
from optinc_pdk.io.formatting import error_numbers, format_errors
from optinc_pdk.networks import Activation, GeneralNetwork, LayerFactor, NetworkComparison
from optinc_pdk.options import UPPER_LIMIT
from optinc_pdk.signoff.function import FunctionResult

LISTED = 5
"""Number of samples that a finding lists."""


LARGE_ERROR_SHARE = 0.5
"""Share of the errors of the most frequent label alone, from which on a network's accuracy is mentioned where none is
required. Our choice."""


APPROXIMATION = 1e-3
"""Error of a layer of blocks, relative to its norm, from which it is mentioned."""


LARGE_LOSS = 0.05
"""Accuracy by which a network is below its card's, from which on it is mentioned although it passes. Our choice."""


def function_basis(function: FunctionResult) -> str:
    """Format what the verdict on the function rests on: enumeration, a certificate, or a sample only."""
    certificate = function.certificate
    bounds = "" if certificate is None else f"certified margin {certificate.margin:.3f} levels"
    if function.coverage == "combinations":
        return "enumerated: every combination of symbols at the fibres"
    if function.coverage == "lattice":
        more = f"; certified for all assignments by interval bounds, {bounds}" if function.certified else ""
        return f"enumerated: every input, with 2 assignments of symbols to servers each{more}"
    sample = (
        f"{function.inputs - 2 * function.corners:,} random inputs and {function.corners:,} corner cases with 2 "
        "assignments of symbols to servers each"
    )
    if function.certified:
        return f"certified for all words by interval bounds, {bounds}, and {sample}"
    reason = function.no_certificate
    if certificate is not None:
        worst = int(np.argmin(certificate.layer_reserves))
        reserve = certificate.layer_reserves[worst]
        reason = f"the bounds are too wide, {bounds}"
        if reserve < 0.0:
            reason += (
                f"; layer {worst} may pass errors of {certificate.layer_errors[worst]:.3g} on, {-reserve:.3g} too much"
            )
    return f"sampled only: {sample}; not a proof, because {reason or 'no certificate was computed'}"


def function_findings(function: FunctionResult, activation: Activation) -> list[str]:
    """List wrong words, with an example, and clipped modulator amplitudes as text; empty if there are none.

    Modulators of networks with clipped activations clip on purpose, which is no finding.
    """
    lines: list[str] = []
    if not function.passed:
        wrong = np.flatnonzero(np.any(function.words != function.ideal[:, np.newaxis], axis=(0, 2)))
        first = int(wrong[0])
        read = sorted(set(function.words[:, first].ravel().tolist()))
        lines.append(
            f"function: {function.inputs - function.exact:,} inputs give a wrong word; one has symbols "
            f"{function.symbols[0, first].tolist()}, ideal word {function.ideal[first]}, read {read}"
        )
        lines.append(f"function: errors of words by value: {format_errors(error_numbers(function.errors))}")
    if function.saturated and UPPER_LIMIT[activation] is None:
        lines.append(f"function: {function.saturated} modulator amplitudes were clipped to full scale")
    return lines


def network_findings(
    found: NetworkComparison, saturated: int, network: GeneralNetwork, factors: Sequence[LayerFactor]
) -> list[str]:
    """List why a chip fails, what the data says of its network, and clipped amplitudes, one line each.

    Args:
        found: Outputs of chip and network.
        saturated: Number of modulator amplitudes above 1.
        network: The network. Its card may state an accuracy. Modulators of clipped networks clip on purpose, which is
            no finding.
        factors: Factorisation of its layers; those that are exact may be missing.
    """
    approximations = _approximations(factors)
    cause = "the factorisation of the network is the cause, or the chip" if approximations else "the chip is the cause"
    lines = [*approximations, *_disagreement(found), *_accuracy(found, network.card.get("accuracy"), cause)]
    lines += _error(found, network.card.get("rms_error"), cause) or _fit(found)
    if saturated and UPPER_LIMIT[network.activation] is None:
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
    """Accuracy below its limit, with its cause: the network, or ``other``; and a network of low accuracy.

    ``stated`` is what the network's card states, if anything.
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
    """Error of the outputs beyond its limit, with its cause; arguments as for `_accuracy`."""
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
