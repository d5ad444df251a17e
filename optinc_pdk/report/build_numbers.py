"""The numbers of a build's report, from the results of its stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Board, Circuit, flatten, label_tuple
from optinc_pdk.factor.counts import svd_mzis
from optinc_pdk.networks import Activation, AveragingNetwork, LayerFactor, Network
from optinc_pdk.networks.noise_tolerance import tolerated_field_noise
from optinc_pdk.report.formatting import error_numbers, format_errors
from optinc_pdk.report.light_budget import light_budget, light_numbers
from optinc_pdk.report.schema import LimitNumbers
from optinc_pdk.report.size_limits import DieSize, area_mm2, chip_limits, loss_limit, rate_limit
from optinc_pdk.signoff.function import Certificate, FunctionResult
from optinc_pdk.simulate import Programming
from optinc_pdk.studies.highest_rates import RateLimits
from optinc_pdk.studies.link_energy import LinkEnergy
from optinc_pdk.studies.oscillator_power import oscillator_light

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout


def task_numbers(task: Averaging) -> dict[str, Any]:
    """Return the ``task`` section of `report.json`; the keys are the fields of `TaskNumbers`."""
    return {key: getattr(task, key) for key in ("bits", "servers", "groups", "remainder", "finer_input")}


def factor_numbers(onn: Network, factors: Sequence[LayerFactor]) -> dict[str, Any]:
    """Return the ``factor`` section of `report.json`; the keys are the fields of `FactorNumbers`.

    Args:
        onn: Network.
        factors: Factorisation of each of its layers.

    Returns:
        Number of MZIs of the factors and of a full SVD, by the convention of arXiv 2603.28290, their ratio, and
        ``max_error``, the largest error of an entry of any factored matrix over the matrix's 2-norm.
    """
    mzis = sum(factor.factor.mzis for factor in factors)
    full = sum(svd_mzis(layer.outputs, layer.inputs) for layer in onn.layers)
    worst = max(factor.max_error for factor in factors)
    return {"mzis": mzis, "mzis_full_svd": full, "ratio": mzis / full, "max_error": worst}


def chip_numbers(
    circuit: Circuit,
    chip: ChipLayout,
    onn: AveragingNetwork,
    process: Process,
    programming: Programming | None,
    function: FunctionResult | None,
    speed: Mapping[str, Any] | None,
) -> dict[str, Any] | None:
    """Return the ``chip`` section of `report.json`; the keys are the fields of `ChipNumbers`.

    Args:
        circuit: Netlist of the chip with its board.
        chip: Layout of the chip.
        onn: Network.
        process: Process card.
        programming: Bias of the chip; None if it was not programmed.
        function: Result of the function check; None if it did not run.
        speed: Section ``speed`` of the report; None if the rate was not estimated.

    Returns:
        Parts on and off the chip, power, loss and size limits; None if `programming`, `function` or the board is
        missing.
    """
    if programming is None or function is None or circuit.board is None:
        return None
    parts = network_parts(circuit, circuit.board, chip, process, programming, ("server modulators", "server receivers"))
    limits = chip_limits(process, chip_dies(chip), parts["pads"], parts["power_w"])
    return {
        **parts,
        "loss_db": function.loss_db,
        **budget_numbers(onn, process, limits, function, speed),
        "oscillators": oscillator_numbers(process, circuit.board, function.oscillator_powers),
    }


def chip_dies(chip: ChipLayout) -> list[DieSize]:
    """Return width and height of each die of a layout in µm."""
    return [(right - left, top - bottom) for left, bottom, right, top in chip.dies]


def network_parts(
    circuit: Circuit, board: Board, chip: ChipLayout, process: Process, programming: Programming, ends: tuple[str, str]
) -> dict[str, Any]:
    """Return the fields of `ChipNumbers` about the parts of a network's chip, and about what is off the chip.

    Args:
        circuit: Netlist of the chip.
        board: Its board.
        chip: Layout of the chip.
        process: Process card.
        programming: Bias of the chip.
        ends: What the modulators of the inputs and the receivers of the outputs are called.
    """
    flat, neurons = flatten(circuit), board.neurons
    detectors = {label for n in neurons for label in label_tuple(n.plus)}
    # photodiodes and modulators on the chip have pads and count as devices
    offchip = not len(flat.instances_of("photodiode"))
    modulators, receivers = ends
    return {
        "mzis": sum(
            len(circuit.instances_of(kind)) for kind in ("mzi_unit", "mzi_dummy", "mzi_narrow_dummy", "attenuator")
        ),
        "phase_shifters": len(flat.instances_of("phase_shifter")),
        "pads": len(flat.instances_of("pad")),
        "fibres": len(flat.instances_of(process.fibres.coupler)),
        "width_um": chip.width_um,
        "height_um": chip.height_um,
        "area_mm2": area_mm2(chip_dies(chip)),
        "power_w": float(programming.bias.power_w.sum()),
        "fit": chip.fit,
        "offchip": {
            "laser": 1,
            "balanced detector pairs": len(detectors) if offchip else 0,
            "neuron electronics": len(neurons),
            "neuron modulators": sum(len(label_tuple(n.to)) for n in neurons) if offchip else 0,
            modulators: sum(len(row) for row in board.inputs),
            receivers: sum(len(row) for row in board.outputs),
            "heater DAC channels": len(programming.bias.labels),
        },
        "crosstalk": crosstalk_numbers(process),
    }


def crosstalk_numbers(process: Process) -> dict[str, float] | None:
    """Return the thermal crosstalk of the process card, which the bias and the function check include.

    Returns:
        ``share`` and ``distance_um``, the fields of `CrosstalkNumbers`; None if the card has no imperfections.
    """
    if process.imperfections is None:
        return None
    card = process.imperfections.crosstalk
    return {"share": float(card.share), "distance_um": float(card.distance_um)}


def budget_numbers(
    onn: AveragingNetwork,
    process: Process,
    limits: Mapping[str, LimitNumbers],
    function: FunctionResult,
    speed: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the budgets of a chip that averages words, and its light budget.

    Args:
        onn: Network; its margins determine the field noise that it tolerates.
        process: Process card.
        limits: Limits on size, pads and power.
        function: Result of the function check, for losses and local oscillators.
        speed: Section ``speed`` of the report; None if the rate was not estimated, which is then no budget.

    Returns:
        ``limits``: budgets by name; and ``light``: `LightNumbers` as a dict, None if the network
        tolerates no noise or the card has no budget.
    """
    noise = 0.0 if process.budget is None else tolerated_field_noise(onn, float(process.budget.margin_sigmas))
    limits = {**limits, "loss": loss_limit(process, function.hop_loss_db, noise)}
    if speed is not None:
        limits["rate"] = rate_limit(process, speed)
    light = (function.hop_loss_db, function.oscillator_powers)
    budget = light_budget(process, noise, *light) if noise > 0.0 else None
    return {"limits": limits, "light": None if budget is None else light_numbers(budget)}


def accept_limits(limits: dict[str, LimitNumbers], accept: Collection[str]) -> list[str]:
    """State in each budget whether it is accepted, and list those that are missed without being accepted, as text.

    Args:
        limits: Budgets by name; replaced by budgets that state whether they are accepted.
        accept: Names of the budgets that may be missed.
    """
    lines = []
    for name, limit in limits.items():
        missed = limit.holds is False
        limits[name] = limit.model_copy(update={"accepted": missed and name in accept})
        if missed and name not in accept:
            remedy = f"change the chip or the process, or accept it by name (--accept {name})"
            lines.append(f"budget {limit.text(name)}: {limit.assumption}; {remedy}")
    return lines


def oscillator_numbers(process: Process, board: Board, powers: Sequence[Floats]) -> dict[str, Any] | None:
    """Return the light of the local oscillators; the keys are the fields of `OscillatorNumbers`.

    Args:
        process: Process card, which states the power launched into every guide.
        board: Board of the chip.
        powers: For each hidden layer, (mixers,) powers at the mixers, relative to that of a field of amplitude 1.

    Returns:
        The numbers; None if the card has no budget or no neuron has detectors.
    """
    if process.budget is None or not sum(each.size for each in powers):
        return None
    return asdict(oscillator_light(board, powers, float(process.budget.laser_w)))


def function_numbers(function: FunctionResult | None) -> dict[str, Any] | None:
    """Return the ``function`` section of `report.json`; None if the check did not run.

    Returns:
        The fields of `FunctionNumbers`: numbers of inputs and words, exact inputs, margins and errors of words.
    """
    if function is None:
        return None
    return {
        "inputs": function.inputs,
        "exact": function.exact,
        "accuracy": function.accuracy,
        "margin": function.margin,
        "words": function.word_count,
        "margins": function.symbol_margins.tolist(),
        "errors": error_numbers(function.errors),
        "coverage": function.coverage,
        "corners": function.corners,
        "certificate": certificate_numbers(function.certificate),
        "no_certificate": function.no_certificate or None,
        "basis": function_basis(function),
    }


def speed_numbers(
    limits: RateLimits, without: Mapping[str, float | None] | None, energy: LinkEnergy | None, words: int
) -> dict[str, Any]:
    """Return the ``speed`` section of `report.json`; the keys are the fields of `SpeedNumbers`.

    Args:
        limits: Highest symbol rate and what limits it.
        without: Highest rate without each limit, by its name; None if they were not searched.
        energy: Energy at this rate; None if no rate is acceptable.
        words: Number of words that the estimate rests on.
    """
    numbers = {
        "word_error_rate": limits.word_error_rate,
        "words": words,
        "symbol_rate_bd": limits.symbol_rate_bd,
        "highest_bd": limits.highest_bd,
        "main_limit": limits.main_limit,
        "without": None if without is None else dict(without),
    }
    if energy is None:
        return numbers
    keys = ("latency_s", "power_w", "missing", "word_j", "bit_j")
    return numbers | {key: value for key, value in energy.to_json().items() if key in keys}


def certificate_numbers(certificate: Certificate | None) -> dict[str, Any] | None:
    """Return the ``certificate`` of the ``function`` section; the keys are the fields of `CertificateNumbers`."""
    if certificate is None:
        return None
    return {
        "margin": certificate.margin,
        "margins": certificate.symbol_margins.tolist(),
        "layer_errors": list(certificate.layer_errors),
        "layer_reserves": [reserve if np.isfinite(reserve) else None for reserve in certificate.layer_reserves],
        "signal_errors": list(certificate.signal_errors),
    }


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

    Args:
        function: Result of the function check.
        activation: Activation of the network; modulators of clipped networks clip on purpose, which is no finding.
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
    if function.saturated and activation == "relu":
        lines.append(f"function: {function.saturated} modulator amplitudes were clipped to full scale")
    return lines
