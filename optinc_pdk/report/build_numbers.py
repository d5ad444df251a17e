"""The numbers of a build's report, from the results of its stages.

A function for a section of `report.json` returns the fields of its model in :mod:`optinc_pdk.report.schema`, which
checks them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.budgets import LimitNumbers
from optinc_pdk.budgets.light_budget import light_budget
from optinc_pdk.budgets.limits import area_mm2, chip_limits, loss_limit, rate_limit
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board, Circuit, flatten, label_tuple
from optinc_pdk.factor import MeshShape
from optinc_pdk.factor.counts import svd_mzis
from optinc_pdk.io.formatting import error_numbers
from optinc_pdk.matrices import MatrixComparison, MatrixFactor, MatrixTarget
from optinc_pdk.networks import (
    AveragingNetwork,
    GeneralNetwork,
    LayerFactor,
    Network,
    NetworkComparison,
    NetworkData,
    NetworkLimits,
)
from optinc_pdk.networks.error_tolerance import tolerated_field_noise
from optinc_pdk.report.findings import function_basis
from optinc_pdk.signoff.function import Certificate, ChipLight, FunctionResult
from optinc_pdk.simulate import MatrixProgramming, Programming
from optinc_pdk.studies.highest_rates import RateLimits
from optinc_pdk.studies.latency import Latency
from optinc_pdk.studies.link_energy import LinkEnergy
from optinc_pdk.studies.oscillators import oscillator_light
from optinc_pdk.studies.system_budget import SystemEffect

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout


def task_numbers(task: Averaging) -> dict[str, Any]:
    """Return the ``task`` section of an averaging chip."""
    return {key: getattr(task, key) for key in ("bits", "servers", "groups", "remainder", "finer_input")}


def general_task_numbers(network: GeneralNetwork, data: NetworkData, limits: NetworkLimits) -> dict[str, Any]:
    """Return the ``task`` section of the chip of a general network."""
    return {
        "kind": "network",
        "inputs": network.task.inputs,
        "outputs": network.task.outputs,
        "data": data.kind if network.task.data is not None else "random",
        "data_sha256": data.digest,
        **asdict(limits),
    }


def matrix_task_numbers(target: MatrixTarget, shape: MeshShape) -> dict[str, Any]:
    """Return the section ``task`` of `report.json` for the chip of a matrix.

    It states the number of outputs and inputs, how the outputs are read, the shape of the meshes, the tolerance and the
    digest of the matrix.
    """
    return {
        "kind": "matrix",
        "outputs": target.outputs,
        "inputs": target.inputs,
        "read": target.read,
        "extra_columns": shape.extra_columns,
        "mesh": shape.kind,
        "tolerance": target.tolerance,
        "sha256": target.digest,
    }


def factor_numbers(onn: Network, factors: Sequence[LayerFactor]) -> dict[str, Any]:
    """Return the ``factor`` section of a network, whose factors count by the convention of arXiv 2603.28290."""
    full = sum(svd_mzis(layer.outputs, layer.inputs) for layer in onn.layers)
    return _factor_section(
        sum(factor.factor.mzis for factor in factors), full, max(factor.max_error for factor in factors)
    )


def matrix_factor_numbers(target: MatrixTarget, factor: MatrixFactor) -> dict[str, Any]:
    """Return the ``factor`` section of a matrix."""
    error = float(abs(factor.matrix() - target.matrix).max()) / target.norm
    return _factor_section(factor.mzis, svd_mzis(target.outputs, target.inputs), error)


def _factor_section(mzis: int, full: int, max_error: float) -> dict[str, Any]:
    return {"mzis": mzis, "mzis_full_svd": full, "ratio": mzis / full, "max_error": max_error}


def chip_numbers(
    circuit: Circuit,
    chip: ChipLayout,
    onn: AveragingNetwork,
    process: Process,
    programming: Programming | None,
    function: FunctionResult | None,
    speed: Mapping[str, Any] | None,
) -> dict[str, Any] | None:
    """Return the ``chip`` section of an averaging chip; None if its bias, function check or board is missing.

    ``speed`` is the section of the report; None if the rate was not estimated, which is then no budget.
    """
    if programming is None or function is None or circuit.board is None:
        return None
    parts = _network_parts(
        circuit, circuit.board, chip, process, programming, ("server modulators", "server receivers")
    )
    noise = 0.0 if process.budget is None else tolerated_field_noise(onn, float(process.budget.margin_sigmas))
    limits = {**parts["limits"], "loss": loss_limit(process, function.hop_loss_db, noise)}
    if speed is not None:
        limits["rate"] = rate_limit(process, speed)
    light = (function.hop_loss_db, function.oscillator_powers)
    return {
        **parts,
        "loss_db": function.loss_db,
        "limits": limits,
        "light": light_budget(process, noise, *light) if noise > 0.0 else None,
        "oscillators": _oscillator_numbers(process, circuit.board, function.oscillator_powers),
    }


def general_chip_numbers(
    circuit: Circuit, chip: ChipLayout, process: Process, programming: Programming | None, light: ChipLight | None
) -> dict[str, Any] | None:
    """Return the ``chip`` section of a general network; None if its bias, its light or its board is missing."""
    if programming is None or light is None or circuit.board is None:
        return None
    return {
        **_network_parts(
            circuit, circuit.board, chip, process, programming, ("input modulators", "receivers of fields")
        ),
        "loss_db": light.loss_db,
        "oscillators": _oscillator_numbers(process, circuit.board, light.oscillator_powers),
    }


def matrix_chip_numbers(
    circuit: Circuit,
    chip: ChipLayout,
    target: MatrixTarget,
    process: Process,
    programming: MatrixProgramming | None,
    result: MatrixComparison | None,
) -> dict[str, Any] | None:
    """Return the ``chip`` section of a matrix; None if its bias or the result of its simulation is missing."""
    if programming is None or result is None:
        return None
    detectors = {"field": "receivers of fields", "real": "homodyne receivers", "power": "photodiodes"}[target.read]
    offchip = {
        "coherent inputs": target.inputs,
        detectors: target.outputs,
        "heater DAC channels": len(programming.bias.labels),
    }
    parts = _parts(circuit, flatten(circuit), chip, process, programming.bias)
    return {**parts, "loss_db": max(result.insertion_loss_db, 0.0), "offchip": offchip}


def _network_parts(
    circuit: Circuit, board: Board, chip: ChipLayout, process: Process, programming: Programming, ends: tuple[str, str]
) -> dict[str, Any]:
    """Fields of a network's chip and what is off it; ``ends`` name modulators of inputs and receivers of outputs."""
    flat = flatten(circuit)
    detectors = {label for n in board.neurons for label in label_tuple(n.plus)}
    # photodiodes and modulators on the chip have pads and count as devices
    offchip = not len(flat.instances_of("photodiode"))
    modulators, receivers = ends
    return {
        **_parts(circuit, flat, chip, process, programming.bias),
        "offchip": {
            "laser": 1,
            "balanced detector pairs": len(detectors) if offchip else 0,
            "neuron electronics": len(board.neurons),
            "neuron modulators": sum(len(label_tuple(n.to)) for n in board.neurons) if offchip else 0,
            modulators: sum(len(row) for row in board.inputs),
            receivers: sum(len(row) for row in board.outputs),
            "heater DAC channels": len(programming.bias.labels),
        },
    }


def _parts(circuit: Circuit, flat: Circuit, chip: ChipLayout, process: Process, bias: Bias) -> dict[str, Any]:
    """Fields of every chip: its parts, dimensions, power, and the limits on size, pads and power."""
    dies = [(right - left, top - bottom) for left, bottom, right, top in chip.dies]
    pads, power_w = len(flat.instances_of("pad")), float(bias.power_w.sum())
    crosstalk = None if process.imperfections is None else process.imperfections.crosstalk
    return {
        "mzis": sum(
            len(circuit.instances_of(kind)) for kind in ("mzi_unit", "mzi_dummy", "mzi_narrow_dummy", "attenuator")
        ),
        "phase_shifters": len(flat.instances_of("phase_shifter")),
        "pads": pads,
        "fibres": len(flat.instances_of(process.fibres.coupler)),
        "width_um": chip.width_um,
        "height_um": chip.height_um,
        "area_mm2": area_mm2(dies),
        "power_w": power_w,
        "fit": chip.fit,
        "limits": chip_limits(process, dies, pads, power_w),
        "crosstalk": None
        if crosstalk is None
        else {"share": float(crosstalk.share), "distance_um": float(crosstalk.distance_um)},
    }


def accept_limits(limits: dict[str, LimitNumbers], accept: Collection[str]) -> list[str]:
    """State in each budget whether it is accepted, and list those that are missed without being accepted, as text.

    The budgets are replaced by ones that state it; ``accept`` are the names of those that may be missed.
    """
    lines = []
    for name, limit in limits.items():
        missed = limit.holds is False
        limits[name] = limit.model_copy(update={"accepted": missed and name in accept})
        if missed and name not in accept:
            remedy = f"change the chip or the process, or accept it by name (--accept {name})"
            lines.append(f"budget {limit.text(name)}: {limit.assumption}; {remedy}")
    return lines


def _oscillator_numbers(process: Process, board: Board, powers: Sequence[Floats]) -> dict[str, Any] | None:
    """Light of the local oscillators; None if the card has no budget or no neuron has detectors.

    ``powers`` are, for each hidden layer, the (mixers,) powers at the mixers, relative to that of a field of
    amplitude 1.
    """
    if process.budget is None or not sum(each.size for each in powers):
        return None
    return asdict(oscillator_light(board, powers, float(process.budget.laser_w)))


def function_numbers(function: FunctionResult | None) -> dict[str, Any] | None:
    """Return the ``function`` section; None if the check did not run."""
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
        "certificate": None if function.certificate is None else _certificate_numbers(function.certificate),
        "no_certificate": function.no_certificate or None,
        "basis": function_basis(function),
    }


def _certificate_numbers(certificate: Certificate) -> dict[str, Any]:
    return {
        "margin": certificate.margin,
        "margins": certificate.symbol_margins.tolist(),
        "layer_errors": list(certificate.layer_errors),
        "layer_reserves": [reserve if np.isfinite(reserve) else None for reserve in certificate.layer_reserves],
        "signal_errors": list(certificate.signal_errors),
    }


def speed_numbers(
    limits: RateLimits,
    without: Mapping[str, float | None] | None,
    energy: LinkEnergy | None,
    latency: Latency | None,
    effects: Sequence[SystemEffect] | None,
    words: int,
) -> dict[str, Any]:
    """Return the ``speed`` section of `report.json`.

    Args:
        limits: Highest symbol rate and what limits it.
        without: Highest rate without each limit, by its name; None if they were not searched.
        energy: Energy at this rate; None if no rate is acceptable.
        latency: Latency at this rate; None if no rate is acceptable.
        effects: What the chip tolerates at this rate; None if no rate is acceptable.
        words: Number of words that the estimate rests on.
    """
    numbers: dict[str, Any] = {
        "word_error_rate": limits.word_error_rate,
        "words": words,
        "symbol_rate_bd": limits.symbol_rate_bd,
        "counted": None if limits.counted is None else asdict(limits.counted),
        "highest_bd": limits.highest_bd,
        "main_limit": limits.main_limit,
        "without": None if without is None else dict(without),
    }
    if energy is None or latency is None or effects is None:
        return numbers
    numbers["system"] = [asdict(effect) | {"ratio": effect.ratio} for effect in effects]
    keys = ("power_w", "missing", "word_j", "bit_j")
    numbers |= {key: value for key, value in energy.to_json().items() if key in keys}
    return numbers | {"delays_s": dict(latency.parts_s), "delays_missing": list(latency.missing)}


def matrix_numbers(
    factor: MatrixFactor, programming: MatrixProgramming | None, result: MatrixComparison | None
) -> dict[str, Any] | None:
    """Return the ``matrix`` section; None if the bias of the chip or the result of its simulation is missing."""
    if programming is None or result is None:
        return None
    return {
        "form": factor.form,
        **comparison_numbers(result),
        "start_error": programming.start.worst,
        "fitted_error": programming.fitted.worst,
        "clipped": programming.clipped,
    }


def comparison_numbers(result: MatrixComparison) -> dict[str, Any]:
    """Return the numbers of a comparison with a matrix."""
    return {
        "fidelity": min(result.fidelity, 1.0),
        "rms_error": result.rms,
        "worst_error": result.worst,
        "worst_output": result.worst_entry[0],
        "worst_input": result.worst_entry[1],
        "scale": result.scale,
        "insertion_loss_db": result.insertion_loss_db,
    }


def network_numbers(network: GeneralNetwork, found: NetworkComparison, saturated: int) -> dict[str, Any]:
    """Return the ``network`` section; ``saturated`` modulator amplitudes were clipped to full scale."""
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
