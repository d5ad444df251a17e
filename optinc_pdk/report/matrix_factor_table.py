"""Factors of a matrix as a table for the terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.table import Table

from optinc_pdk.assemble import mesh_slots
from optinc_pdk.matrices import MatrixFactor, MatrixTarget


def matrix_factor_row(target: MatrixTarget, factor: MatrixFactor) -> dict[str, Any]:
    """Return counts, scale, attenuations and error of the factors of a matrix.

    Args:
        target: The matrix.
        factor: Its factors.

    Returns:
        ``shape`` (outputs, inputs), ``form``, ``mzis`` of meshes and attenuators, ``mzis_on_chip`` with dummies,
        ``phase_shifters`` with those of the outputs, ``scale``, the largest singular value, by which an ideal passive
        chip divides the matrix, ``attenuations`` of the field, and ``error``, the largest error of an entry over the
        matrix's 2-norm.
    """
    slots = sum(len(mesh_slots(mesh.modes, mesh.row.tolist(), mesh.column.tolist())) for mesh in factor.meshes)
    outputs = target.outputs if target.read == "field" else 0
    active = sum(int(mesh.row.size) for mesh in factor.meshes)
    return {
        "shape": [target.outputs, target.inputs],
        "form": factor.form,
        "mzis": factor.mzis,
        "mzis_on_chip": slots + factor.attenuators,
        "phase_shifters": 2 * active + factor.attenuators + outputs,
        "scale": factor.scale,
        "attenuations": [] if factor.attenuation is None else factor.attenuation.tolist(),
        "error": float(np.abs(factor.matrix() - target.matrix).max()) / target.norm,
    }


def matrix_factor_table(row: Mapping[str, Any]) -> Table:
    """Return the numbers of ``matrix_factor_row`` as a table with one row for each."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    outputs, inputs = row["shape"]
    table.add_row("matrix", f"{outputs} × {inputs}")
    table.add_row("form", row["form"])
    table.add_row("MZIs", f"{row['mzis']:,}; {row['mzis_on_chip']:,} on the chip, with dummies")
    table.add_row("phase shifters", f"{row['phase_shifters']:,}")
    table.add_row("scale", f"{row['scale']:.6g}, the largest singular value")
    if row["attenuations"]:
        least, most = min(row["attenuations"]), max(row["attenuations"])
        table.add_row("attenuators", f"{len(row['attenuations'])}, field transmissions {least:.3g} to {most:.3g}")
    table.add_row("error", f"{row['error']:.1e} of the 2-norm")
    return table
