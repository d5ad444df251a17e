"""Estimate of the size of a matrix's chip before any layout; see :mod:`optinc_pdk.report.chip_size`."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.factor import MeshShape
from optinc_pdk.matrices import RECTANGLE, MatrixTarget, factor_matrix
from optinc_pdk.report.chip_size import LayerSize, NetworkSize, beside_mm2, cells_mm2, mzi_loss_db, size_of_layers


def matrix_size(name: str, target: MatrixTarget, process: Process, shape: MeshShape = RECTANGLE) -> NetworkSize:
    """Estimate the size of a matrix's chip: one layer between input and output fibres.

    The factors are those of a build, so that the values of the matrix determine whether there are one or two meshes.
    Which noise a matrix tolerates depends on its use, so that loss is stated and not judged.

    Args:
        name: Name of the matrix, for tables.
        target: The matrix. If fields are read, every output has a phase shifter.
        process: Process card.
        shape: Shape of the meshes.
    """
    factors = factor_matrix(target, process, shape)
    meshes = [(mesh.modes, int(mesh.column.max(initial=-1)) + 1) for mesh in factors.meshes]
    attenuators, shifters = factors.attenuators, target.outputs * (target.read == "field")
    columns = sum(count for _, count in meshes) + (attenuators > 0)
    heaters = 2 * sum(int(mesh.row.size) for mesh in factors.meshes) + attenuators + shifters
    fibres = target.inputs + target.outputs
    fibre_db = process.device(process.fibres.coupler).parameter("loss_db")
    shifter_db = process.device("phase_shifter").parameter("loss_db") if shifters else 0.0
    layer = LayerSize(
        strips=1,
        mzis=factors.mzis,
        heaters=heaters,
        fibres=fibres,
        columns=columns,
        loss_db=columns * mzi_loss_db(process) + 2.0 * fibre_db + shifter_db,
        area_mm2=cells_mm2(sum(modes * count for modes, count in meshes), attenuators, process)
        + beside_mm2(fibres, heaters, process),
    )
    return size_of_layers(name, (target.inputs, target.outputs), [layer], process, None)
