"""A row of a matrix as a chain of MZIs that adds its columns into one mode, folded towards the middle mode.

From both ends inwards, the light so far joins the next mode; the other output of each MZI is dumped. The last MZI joins
both halves. N modes take N - 1 MZIs in half as many columns, where a mesh of N modes has N(N - 1)/2 in N columns.
N = 6 (x: dumped)::

    column  0   1   2
    row 0  -##x
    row 1  -##-##x
    row 2  -----##-##---
    row 3  -----##-##x
    row 4  -##-##x
    row 5  -##x
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Ints
from optinc_pdk.factor.checks import as_numbers, check_finite
from optinc_pdk.factor.mesh import Mesh, mzi_transfer, wrap


def chain_output(modes: int) -> int:
    """Return the mode at which light leaves the chain of a row: the middle one, the upper of two."""
    return (modes - 1) // 2


def chain_depth(modes: int) -> int:
    """Return the number of columns of the chain of a row."""
    return chain_output(modes) + 1 if modes > 1 else 0


def chain_positions(modes: int) -> tuple[Ints, Ints]:
    """Return upper mode and column of each MZI of the chain of a row, two times (modes - 1,)."""
    row = np.arange(modes - 1)
    return row, chain_output(modes) - np.abs(row - chain_output(modes))


@dataclass(frozen=True, eq=False)
class RowFactor:
    """Factors of one row w = attenuation · (row ``chain_output(n)`` of a mesh): a chain of MZIs, then an attenuator.

    Attributes:
        chain: Mesh of n modes with the MZIs of :func:`chain_positions`.
        attenuation: Norm of w, the field transmission of the attenuator, 0 to 1.
    """

    chain: Mesh
    attenuation: float

    @property
    def mzis(self) -> int:
        """Number of MZIs, the attenuator included: one for each column of the row."""
        return self.chain.modes

    def matrix(self) -> Complexes:
        """Return the (1, n) complex row that chain and attenuator realise."""
        output = chain_output(self.chain.modes)
        return np.asarray(self.attenuation * self.chain.matrix()[output : output + 1])


@dataclass(frozen=True, eq=False)
class RowsFactor:
    """Factors of an (out, in) matrix row by row.

    Attributes:
        rows: Factors of the rows.
        columns: For each row, the columns that enter its chain; the entries of all others are 0.
        inputs: Number of columns of the matrix.
    """

    rows: tuple[RowFactor, ...]
    columns: tuple[tuple[int, ...], ...]
    inputs: int

    @property
    def mzis(self) -> int:
        """Number of MZIs of all rows, attenuators included."""
        return sum(row.mzis for row in self.rows)

    def matrix(self) -> Complexes:
        """Return the (out, in) complex matrix that chains and attenuators realise."""
        total = np.zeros((len(self.rows), self.inputs), dtype=np.complex128)
        for values, row, columns in zip(total, self.rows, self.columns, strict=True):
            values[list(columns)] = row.matrix()[0]
        return total


def row_factor(w: ArrayLike) -> RowFactor:
    """Factor a row w (n,), real or complex, of a norm up to 1; a row of zeros gets a chain for equal entries.

    Raises:
        ValueError: w is no row of finite numbers, or its norm is above 1.
    """
    values = as_numbers("w", w)
    check_finite("w", values)
    norm = float(np.linalg.norm(values))
    if values.ndim != 1 or not values.size or norm > 1.0 + 1e-9:
        raise ValueError(f"w has shape {values.shape} and norm {norm:g}; give a row (n,) of a norm up to 1")
    modes, output = values.size, chain_output(values.size)
    rest = values / norm if norm > 0.0 else np.full(modes, modes**-0.5)
    rest = rest.astype(np.complex128)
    row, column = chain_positions(modes)
    theta, phi, output_phase = np.zeros(modes - 1), np.zeros(modes - 1), np.zeros(modes)
    for at in np.argsort(column, kind="stable").tolist():
        pair = slice(row[at], row[at] + 2)
        upper, lower = rest[pair]
        # light continues on the mode that is nearer to the middle
        down = row[at] < output
        kept, dumped = (lower, upper) if down else (upper, lower)
        theta[at] = 2.0 * np.arctan2(abs(kept), abs(dumped))
        phi[at] = np.angle(upper) - np.angle(lower) + np.pi * down
        rest[pair] = rest[pair] @ mzi_transfer(theta[at], phi[at]).conj().T
    output_phase[output] = np.angle(rest[output])
    return RowFactor(Mesh(modes, row, column, wrap(theta), wrap(phi), wrap(output_phase)), min(norm, 1.0))
