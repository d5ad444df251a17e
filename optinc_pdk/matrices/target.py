"""The matrix that a chip has to realise, how its outputs are read, its files, and the comparison of a chip with it.

A passive chip with loss realises M = c e^{i φ} T for a target T, with a common scale c > 0 that says how much light is
left. The phase φ is common to all outputs; where powers are read, every output has a phase φ of its own, and where real
parts are read, that of its receiver's oscillator. The scale and the phases that fit best are

    φ = arg <T, M>,   c = |<T, M>| / <T, T>,   with <T, M> = Σ conj(T_jk) M_jk,

by output first, where powers or real parts are read. Errors are those of M / (c e^{i φ}) against T, or of its real
part. Loss is no error: it is stated apart.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Complexes
from optinc_pdk.errors import ArgumentError, InputError
from optinc_pdk.factor.checks import as_matrix
from optinc_pdk.io.mat_files import SAVE_AGAIN, mat_variables
from optinc_pdk.io.npz_files import member_names, parse_npy, parse_npz
from optinc_pdk.io.reading import TEXT_MATRIX, WEIGHTS, read_bytes
from optinc_pdk.io.text_matrices import parse_text_matrix
from optinc_pdk.options import MATRIX_FILES, MatrixReading

READINGS: tuple[MatrixReading, ...] = get_args(MatrixReading)
TOLERANCE = 0.01
"""Largest accepted error of an entry, relative to the largest entry of the target."""
LARGEST_TOLERANCE = 1.0
SMALLEST = 1e-150
"""Smallest accepted 2-norm of a matrix; the largest accepted one is its reciprocal. Squares stay in double range."""
NETWORK_KEY = "layers."
"""Beginning of the names of a network's arrays in a .npz file."""
NETWORK_NAMES = ("task", "activation", "factor", "card")
"""Names of a network's other arrays."""
TEXT_ENDINGS = (".csv", ".txt")
"""Endings of matrices as text."""


@dataclass(frozen=True, eq=False)
class MatrixTarget:
    """A matrix that a chip has to realise up to a common positive factor.

    Examples:
        >>> import numpy as np
        >>> from optinc_pdk.matrices import MatrixTarget
        >>> MatrixTarget(np.eye(4)[::-1], read="power").matrix.shape
        (4, 4)

    Attributes:
        matrix: (m, n) complex, for m outputs and n inputs.
        read: ``field``: the fields at the outputs are compared, up to one phase of all of them. ``power``: photodiodes
            read the powers, so that the phase of every output is free. ``real``: homodyne receivers read the part of
            each field that is in phase with their oscillator, whose phase is free; for a real matrix.
        tolerance: Largest accepted error of an entry, relative to the largest entry.

    Raises:
        InputError: The matrix is all zero, out of range or a single number, is complex and to be read as ``real``, or
            another value is out of range.
    """

    matrix: Complexes
    read: MatrixReading = "field"
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        """Check the values, and store the matrix as complex numbers."""
        try:
            matrix = as_matrix("the matrix", self.matrix).astype(np.complex128)
        except ValueError as fault:
            raise InputError(str(fault)) from fault
        object.__setattr__(self, "matrix", matrix)
        if matrix.size == 1:
            raise InputError("the matrix has one entry; a mesh joins at least 2 guides: give a matrix with 2 or more")
        if not matrix.any():
            raise InputError(f"the matrix, shape {matrix.shape}, is all zero; a chip can only scale what is there")
        if not SMALLEST < self.norm < 1.0 / SMALLEST:
            raise InputError(
                f"the matrix has the largest singular value {self.norm:g}, the limits are {SMALLEST:g} and "
                f"{1.0 / SMALLEST:g}; rescale it"
            )
        if self.read not in READINGS:
            raise InputError(f"read is {self.read!r}; give one of {', '.join(READINGS)}")
        if self.read == "real" and np.any(matrix.imag):
            row, column = np.unravel_index(int(np.argmax(np.abs(matrix.imag))), matrix.shape)
            raise InputError(
                f"the matrix is complex, such as {matrix[row, column]:.4g} of output {row} and input {column}; "
                "homodyne receivers (read = 'real') see real entries only: give a real matrix, or read = 'field'"
            )
        if not 0.0 < self.tolerance <= LARGEST_TOLERANCE:
            raise ArgumentError(
                "tolerance",
                f"is {self.tolerance:g}; give a share of the largest entry above 0 and at most {LARGEST_TOLERANCE:g}, "
                f"such as {TOLERANCE:g}",
            )

    @property
    def outputs(self) -> int:
        """Number of outputs m."""
        return int(self.matrix.shape[0])

    @property
    def inputs(self) -> int:
        """Number of inputs n."""
        return int(self.matrix.shape[1])

    @cached_property
    def norm(self) -> float:
        """Largest singular value: a passive chip realises at most the matrix divided by it."""
        return float(np.linalg.norm(self.matrix, 2))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the matrix and its reading, in hexadecimal."""
        content = f"{self.read} {self.outputs} {self.inputs} ".encode() + np.ascontiguousarray(self.matrix).tobytes()
        return hashlib.sha256(content).hexdigest()

    @staticmethod
    def load(path: str | Path, read: MatrixReading = "field", tolerance: float = TOLERANCE) -> MatrixTarget:
        """Read a matrix from a .npy file, from a .npz or .mat file with exactly one, or from text (.csv, .txt).

        A row of text is a line of numbers, separated by commas, semicolons, tabs or blanks, such as ``0.5, 1+2j``.
        ``#`` and ``%`` begin comments. Files of MATLAB are of version 5 (``-v6``, ``-v7``).

        Raises:
            InputError: The file cannot be read, or its content is no usable matrix; the message names the file.
        """
        where, array = _read_array(Path(path))
        try:
            return MatrixTarget(array, read, tolerance)
        except ArgumentError:
            raise
        except InputError as fault:
            raise InputError(f"{where}: {fault}") from fault


def is_matrix_file(path: Path) -> bool:
    """Return whether a file is that of a matrix: by its ending, or a .npz archive without a network's layers and task.

    Raises:
        InputError: The file cannot be read.
    """
    if path.suffix.lower() != ".npz":
        return path.suffix.lower() in (".npy", ".mat", *TEXT_ENDINGS)
    names = member_names(read_bytes(path, WEIGHTS))
    return bool(names) and not any(name.startswith(NETWORK_KEY) or name in NETWORK_NAMES for name in names)


def _read_array(path: Path) -> tuple[str, NDArray[Any]]:
    ending = path.suffix.lower()
    if ending in TEXT_ENDINGS:
        return str(path), parse_text_matrix(path, read_bytes(path, TEXT_MATRIX))
    data = read_bytes(path, WEIGHTS)
    if ending == ".mat":
        return _read_mat(path, data)
    if ending == ".npy":
        return str(path), parse_npy(path, data)
    if ending != ".npz":
        raise InputError(f"{path}: files ending in {path.suffix!r} hold no matrix; give {MATRIX_FILES}")
    arrays = parse_npz(path, data, WEIGHTS, InputError, None)
    if len(arrays) != 1:
        names = ", ".join(list(arrays)[:5]) or "none"
        raise InputError(
            f"{path}: contains {len(arrays)} arrays ({names}); a matrix file contains exactly one: save it alone with "
            "numpy.save"
        )
    name, array = next(iter(arrays.items()))
    return f"{path}: {name}", array


def _read_mat(path: Path, data: bytes) -> tuple[str, NDArray[Any]]:
    # what MATLAB keeps about functions has no name
    variables = [variable for variable in mat_variables(path, data, WEIGHTS) if variable.name]
    matrices = [each for each in variables if each.kind in ("numbers", "sparse") and len(each.shape) == 2]
    if len(variables) != 1 or not matrices:
        found = ", ".join(map(str, variables[:5])) or "none"
        raise InputError(
            f"{path}: contains {len(variables)} variables ({found}); a matrix file contains exactly one, a matrix of "
            f"numbers: {SAVE_AGAIN}"
        )
    where = f"{path}: {matrices[0].name[:40]}"
    return where, matrices[0].array(where, WEIGHTS)


class NoLightError(ValueError):
    """No light of a chip is like its target, so that they have no common scale."""


@dataclass(frozen=True, eq=False)
class MatrixComparison:
    """Differences of a chip's matrix from its target.

    Attributes:
        target: The target.
        fields: (m, n) fields of the chip, without its common or its outputs' phases; their real parts, if these are
            read.
        scale: Common scale c: the chip's fields are those of the target, in the target's units, times c.
        fidelity: |<T, M>|² / (<T, T> <M, M>) with these phases, 0 … 1; for a unitary T of n modes
            |tr(T^H M)|² / (n tr(M^H M)).
        rms: Root mean square of the errors of the entries, over the largest entry of the target.
        worst: Largest error of an entry, over the largest entry of the target.
        worst_entry: Output and input of this entry, from 0.
        insertion_loss_db: Loss in dB beyond that of an ideal passive chip, -20 log10(c ‖T‖₂).
    """

    target: MatrixTarget
    fields: Complexes
    scale: float
    fidelity: float
    rms: float
    worst: float
    worst_entry: tuple[int, int]
    insertion_loss_db: float

    @property
    def passed(self) -> bool:
        """Whether the largest error is within the tolerance of the target."""
        return self.worst <= self.target.tolerance

    @property
    def matrix(self) -> Complexes:
        """(m, n) matrix of the chip in units of the target: its fields divided by the scale."""
        return np.asarray(self.fields / self.scale)


def compare_matrices(matrix: Complexes, target: MatrixTarget) -> MatrixComparison:
    """Compare the (m, n) matrix of a chip, its output fields for a field of 1 at each input, with its target.

    Raises:
        NoLightError: No light of the matrix is like the target.
        ValueError: The matrix has another shape than the target.
    """
    wanted = target.matrix
    if matrix.shape != wanted.shape:
        raise ValueError(f"the chip has a matrix of shape {matrix.shape}, the target {wanted.shape}")
    overlap = np.sum(wanted.conj() * matrix, axis=1, keepdims=True)
    if target.read == "field":
        overlap = np.full_like(overlap, overlap.sum())
    turned = matrix * np.exp(-1j * np.angle(overlap))
    if target.read == "real":
        turned = turned.real.astype(np.complex128)
    power, shared = float(np.linalg.norm(wanted) ** 2), float(np.vdot(wanted, turned).real)
    if shared <= 0.0:
        raise NoLightError("the chip transmits no light that is like the target")
    scale = shared / power
    error = np.abs(turned / scale - wanted) / float(np.abs(wanted).max())
    row, column = np.unravel_index(int(np.argmax(error)), error.shape)
    return MatrixComparison(
        target=target,
        fields=turned,
        scale=scale,
        fidelity=shared**2 / (power * float(np.linalg.norm(turned) ** 2)),
        rms=float(np.sqrt(np.mean(error**2))),
        worst=float(error.max()),
        worst_entry=(int(row), int(column)),
        insertion_loss_db=-20.0 * math.log10(scale * target.norm),
    )
