"""Assembly of a matrix's circuit: fibres, meshes with attenuators, output phase shifters, fibres. It has no board."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from optinc_pdk.assemble._component_library import (
    NETWORK_DEVICES,
    component_types,
    composite_circuits,
)
from optinc_pdk.assemble._layer_parts import BlockBuilder, add_fibre
from optinc_pdk.assemble._weight_blocks import MeshSlot, mesh_slots
from optinc_pdk.assemble.die_plan import (
    DiePlan,
    add_pad,
    begun_circuit,
    finished_circuit,
)
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit, CircuitBuilder
from optinc_pdk.factor import Mesh, MeshShape, shape_of
from optinc_pdk.matrices import MatrixFactor, MatrixTarget, one_mesh, two_meshes

SECTION = "l0"
"""Section of the meshes; prefix of their labels."""
U, V, ATTENUATORS, OUTPUT = f"{SECTION}_u", f"{SECTION}_v", f"{SECTION}_att", f"{SECTION}_out"
"""Prefixes of the pad labels of the last mesh, the first one, the attenuators and the output phase shifters."""


@dataclass(frozen=True)
class MatrixDraft:
    """A matrix's circuit without ground pads. Every ground end is joined to ``die_plan.HUB``.

    Attributes:
        builder: Instances and nets.
    """

    builder: CircuitBuilder

    @property
    def strips(self) -> tuple[str, ...]:
        """Name of the only strip of the floorplan."""
        return (SECTION,)

    @property
    def shares_one_die(self) -> bool:
        """Whether all strips may share one die and its ground."""
        return True

    def complete(self, plan: DiePlan) -> Circuit:
        """Return the circuit with ground pads; the draft is not changed."""
        return finished_circuit(begun_circuit(self.builder, plan), plan)


@dataclass(frozen=True)
class MatrixForm:
    """What kind of matrix a chip can realise, as the labels of its fibres and pads tell.

    Attributes:
        outputs: Number of outputs.
        inputs: Number of inputs.
        has_phases: Whether every output has a phase shifter.
        attenuators: Number of attenuators between two meshes; 0 for one mesh.
        shape: Shape of the meshes.
    """

    outputs: int
    inputs: int
    has_phases: bool
    attenuators: int
    shape: MeshShape


def matrix_form(labels: Iterable[str]) -> MatrixForm:
    """Return what kind of matrix a chip with these labels of fibres and pads, as of :func:`draft_matrix`, can realise.

    Raises:
        ValueError: The labels of the last mesh are those of no mesh.
    """
    known = set(labels)

    def count(pattern: str) -> int:
        return sum(bool(re.fullmatch(pattern, label)) for label in known)

    found = [re.fullmatch(rf"{U}_c(\d+)_r(\d+)_theta", label) for label in known]
    places = np.array([(int(match[2]), int(match[1])) for match in found if match], dtype=np.int64).reshape(-1, 2)
    outputs = count(r"out_r\d+")
    return MatrixForm(
        outputs=outputs,
        inputs=count(r"in_r\d+"),
        has_phases=f"{OUTPUT}_r0" in known,
        attenuators=count(rf"{ATTENUATORS}_r\d+"),
        shape=shape_of(max(outputs, 1), places[:, 0], places[:, 1]),
    )


def factor_for_chip(target: MatrixTarget, form: MatrixForm, process: Process) -> MatrixFactor:
    """Factor a matrix into the meshes and attenuators that an existing chip has.

    Args:
        target: The matrix, of the shape of the chip.

    Raises:
        InputError: The chip has one mesh, and the matrix is not unitary; or it has too few attenuators.
    """
    if form.attenuators:
        return two_meshes(target, process, form.shape, attenuators=form.attenuators)
    return one_mesh(target, form.shape)


def matrix_labels(target: MatrixTarget) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels of the input fibres, such as ``in_r0``, and of the output fibres, such as ``out_r0``."""
    return tuple(f"in_r{i}" for i in range(target.inputs)), tuple(f"out_r{i}" for i in range(target.outputs))


def draft_matrix(target: MatrixTarget, factor: MatrixFactor, process: Process, name: str) -> MatrixDraft:
    """Assemble the parts of a matrix's circuit that do not depend on the die.

    Shape and form of the factors and the reading determine the circuit; the values of the matrix determine the bias.

    Args:
        target: The matrix. If fields are read, every output has a phase shifter.

    Raises:
        CardError: The process lacks devices.
    """
    coupler = process.fibres.coupler
    process.require_devices((*NETWORK_DEVICES, coupler))
    cells = composite_circuits(process, any(slot.narrow for mesh in factor.meshes for slot in _slots(mesh)))
    b = CircuitBuilder(name, component_types(process, cells), cells)
    inputs, outputs = matrix_labels(target)
    light = {row: add_fibre(b, coupler, label, SECTION, row)[0] for row, label in enumerate(inputs)}
    modes = BlockBuilder(b, SECTION, light)
    if factor.v is not None:
        modes.mesh(V, target.inputs, _slots(factor.v))
        modes.attenuators(ATTENUATORS, factor.attenuators)
    modes.mesh(U, target.outputs, _slots(factor.u))
    for row, label in enumerate(outputs):
        end = modes.ends[row]
        fibre, _ = add_fibre(b, coupler, label, "t", row)
        if target.read == "field":
            shifter = b.add(f"{OUTPUT}_r{row}", "phase_shifter", ("t", 0, row))
            add_pad(b, shifter, f"{shifter},e1", f"{shifter},e2")
            b.connect(end, f"{shifter},o1")
            end = f"{shifter},o2"
        b.connect(end, fibre)
    return MatrixDraft(b)


def _slots(mesh: Mesh) -> list[MeshSlot]:
    return mesh_slots(mesh.modes, mesh.row.tolist(), mesh.column.tolist())
