"""The numbers of the report of a matrix's chip, from the results of its stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.factor import MeshShape
from optinc_pdk.factor.counts import svd_mzis
from optinc_pdk.matrices import MatrixComparison, MatrixFactor, MatrixTarget
from optinc_pdk.report.build_numbers import chip_dies, crosstalk_numbers
from optinc_pdk.report.size_limits import area_mm2, chip_limits
from optinc_pdk.simulate import MatrixProgramming

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout


def matrix_task_numbers(target: MatrixTarget, shape: MeshShape) -> dict[str, Any]:
    """Return the ``task`` section of `report.json`; the keys are the fields of `MatrixTaskNumbers`."""
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


def matrix_factor_numbers(target: MatrixTarget, factor: MatrixFactor) -> dict[str, Any]:
    """Return the ``factor`` section of `report.json`; the keys are the fields of `FactorNumbers`."""
    full = svd_mzis(target.outputs, target.inputs)
    error = float(abs(factor.matrix() - target.matrix).max()) / target.norm
    return {"mzis": factor.mzis, "mzis_full_svd": full, "ratio": factor.mzis / full, "max_error": error}


def matrix_chip_numbers(
    reference: Circuit,
    chip: ChipLayout,
    target: MatrixTarget,
    process: Process,
    programming: MatrixProgramming | None,
    result: MatrixComparison | None,
) -> dict[str, Any] | None:
    """Return the ``chip`` section of `report.json`; the keys are the fields of `ChipNumbers`.

    Args:
        reference: Netlist of the chip.
        chip: Layout of the chip.
        target: The matrix.
        process: Process card.
        programming: Bias of the chip; None if it was not programmed.
        result: Matrix of the extracted chip; None if it was not simulated.

    Returns:
        Parts on and off the chip, power, loss and size limits; None if `programming` or `result` is missing.
    """
    if programming is None or result is None:
        return None
    flat = flatten(reference)
    pads, power = len(flat.instances_of("pad")), float(programming.bias.power_w.sum())
    dies = chip_dies(chip)
    detectors = {"field": "receivers of fields", "real": "homodyne receivers", "power": "photodiodes"}[target.read]
    return {
        "mzis": sum(
            len(reference.instances_of(kind)) for kind in ("mzi_unit", "mzi_dummy", "mzi_narrow_dummy", "attenuator")
        ),
        "phase_shifters": len(flat.instances_of("phase_shifter")),
        "pads": pads,
        "fibres": len(flat.instances_of(process.fibres.coupler)),
        "width_um": chip.width_um,
        "height_um": chip.height_um,
        "area_mm2": area_mm2(dies),
        "power_w": power,
        "loss_db": max(result.insertion_loss_db, 0.0),
        "fit": chip.fit,
        "offchip": {
            "coherent inputs": target.inputs,
            detectors: target.outputs,
            "heater DAC channels": len(programming.bias.labels),
        },
        "limits": chip_limits(process, dies, pads, power),
        "crosstalk": crosstalk_numbers(process),
    }


def matrix_numbers(
    factor: MatrixFactor, programming: MatrixProgramming | None, result: MatrixComparison | None
) -> dict[str, Any] | None:
    """Return the ``matrix`` section of `report.json`; the keys are the fields of `MatrixNumbers`.

    Args:
        factor: Factors of the matrix.
        programming: Bias of the chip; None if it was not programmed.
        result: Matrix of the extracted chip; None if it was not simulated.
    """
    if programming is None or result is None:
        return None
    return {
        "form": factor.form,
        "fidelity": min(result.fidelity, 1.0),
        "rms_error": result.rms,
        "worst_error": result.worst,
        "worst_output": result.worst_entry[0],
        "worst_input": result.worst_entry[1],
        "scale": result.scale,
        "insertion_loss_db": result.insertion_loss_db,
        "start_error": programming.start.worst,
        "fitted_error": programming.fitted.worst,
        "clipped": programming.clipped,
    }
