"""Loops of decomposition and propagation that are too slow in numpy, compiled by numba at their first call.

Import this module inside functions only, see :mod:`optinc_pdk.compilation`.

Matrices are two planes of float64, real and imaginary parts, which vectorise well. A rotation (c, s), c complex and
s >= 0 real with |c|^2 + s^2 = 1, maps the pair (x, y) to (c x - s y, s x + c* y); as s is real, consecutive rotations
of a chain depend on each other through one multiplication only.
"""

from __future__ import annotations

import math

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.compilation import compiled, compiled_sums

# Vectors propagated together, so that the fields of all modes stay in a second-level cache.
_TILE = 128
# Amplitudes below this are rounding errors of a unitary's entries: no phase is taken from them, or phases of one matrix
# would differ from processor to processor.
_ROUNDING = 4e-15
# |x|^2 against a partner of order 1: no rotation in double precision is sensitive to less.
_NEGLIGIBLE = 1e-200


@compiled
def _rotation(xr: float, xi: float, yr: float, yi: float) -> tuple[float, float, float]:
    """Rotation (Re c, Im c, s) that nulls x; a swap where both are zero to rounding already."""
    scale = max(max(abs(xr), abs(xi)), max(abs(yr), abs(yi)))
    if scale < _ROUNDING:
        return 0.0, 0.0, 1.0
    xr, xi, yr, yi = xr / scale, xi / scale, yr / scale, yi / scale
    x_squared, y_squared = xr * xr + xi * xi, yr * yr + yi * yi
    if x_squared < _NEGLIGIBLE:
        y = math.sqrt(y_squared)
        return yr / y, yi / y, 0.0
    x, whole = math.sqrt(x_squared), math.sqrt(x_squared + y_squared)
    factor = 1.0 / (x * whole)
    cr, ci, s = (xr * yr + xi * yi) * factor, (xr * yi - xi * yr) * factor, x / whole
    # One Newton step to unit norm, rounded near 0 and not near 1: otherwise the errors of N rotations accumulate.
    excess = 0.5 * (((cr * cr - 0.5) + (ci * ci - 0.5)) + s * s)
    return cr - excess * cr, ci - excess * ci, s - excess * s


@compiled
def _rotate_rows(real: Floats, imag: Floats, upper: int, column: int, rotation: tuple[float, float, float]) -> None:
    """Rotates two rows in place, from a column on; x is the lower row, y the upper."""
    xr, xi = real[upper + 1, column:], imag[upper + 1, column:]
    yr, yi = real[upper, column:], imag[upper, column:]
    cr, ci, s = rotation
    for k in range(len(xr)):
        a, b, p, q = xr[k], xi[k], yr[k], yi[k]
        xr[k] = cr * a - ci * b - s * p
        xi[k] = cr * b + ci * a - s * q
        yr[k] = s * a + (cr * p + ci * q)
        yi[k] = s * b + (cr * q - ci * p)


@compiled
def _rotate_along_row(real: Floats, imag: Floats, rotations: Floats) -> None:
    """Rotates neighbouring entries of one row in place, the last pair (x, y) first, then the pair to its left."""
    last = len(real) - 1
    p, q = real[last], imag[last]
    for step in range(len(rotations)):
        k = last - 1 - step
        a, b = real[k], imag[k]
        cr, ci, s = rotations[step, 0], rotations[step, 1], rotations[step, 2]
        real[k + 1] = s * a + (cr * p + ci * q)
        imag[k + 1] = s * b + (cr * q - ci * p)
        p, q = (cr * a - ci * b) - s * p, (cr * b + ci * a) - s * q
    real[last - len(rotations)] = p
    imag[last - len(rotations)] = q


@compiled
def _null_row_pair(real: Floats, imag: Floats, upper: int, column: int, rotation: Floats) -> None:
    """Nulls [upper + 1, column] by a rotation with the row above; both rows are zero to the left."""
    lower = upper + 1
    cr, ci, s = _rotation(real[lower, column], imag[lower, column], real[upper, column], imag[upper, column])
    _rotate_rows(real, imag, upper, column, (cr, ci, s))
    # Inverted on the left, with x the lower guide, c and c* are exchanged compared with a pair of columns.
    rotation[0], rotation[1], rotation[2] = cr, -ci, s
    real[lower, column] = 0.0
    imag[lower, column] = 0.0


@compiled
def _null_from_right(real: Floats, imag: Floats, diagonal: int, chain: Floats) -> None:
    """Nulls antidiagonal ``diagonal`` by rotating columns, from the bottom row up.

    All earlier rotations are applied to a row first; its entry then defines the next rotation.
    """
    modes = len(real)
    for row in range(modes - 1, -1, -1):
        count = min(modes - 1 - row, diagonal)
        re, im = real[row, : diagonal + 1], imag[row, : diagonal + 1]
        _rotate_along_row(re, im, chain[:count])
        if count < diagonal:
            x = diagonal - 1 - count
            chain[count, 0], chain[count, 1], chain[count, 2] = _rotation(re[x], im[x], re[x + 1], im[x + 1])
            _rotate_along_row(re[: x + 2], im[: x + 2], chain[count : count + 1])
            re[x] = 0.0
            im[x] = 0.0


@compiled
def null_rectangular(real: Floats, imag: Floats, order: Ints, rotations: Floats) -> None:
    """Diagonalise unitaries by rotating columns and rows alternately (Clements et al.).

    ``real`` and ``imag`` (batch, N, N) are overwritten by the remaining diagonal, ``rotations`` (batch, MZIs, 3) by the
    rotation (Re c, Im c, s) of each slot. ``order`` has the indices of slots in the order in which light passes them;
    those of rotations of columns come first.
    """
    batch, modes, _ = real.shape
    chain = np.empty((modes, 3))
    for index in range(batch):
        first, last = 0, len(order)
        for diagonal in range(1, modes):
            if diagonal % 2:
                _null_from_right(real[index], imag[index], diagonal, chain)
                # number by number: to assign rows would compile for seconds longer
                for step in range(diagonal):
                    for part in range(3):
                        rotations[index, order[first + step], part] = chain[step, part]
                first += diagonal
                continue
            for step in range(diagonal):
                last -= 1
                upper = modes - 1 - diagonal + step
                _null_row_pair(real[index], imag[index], upper, step, rotations[index, order[last]])


@compiled
def null_triangular(real: Floats, imag: Floats, order: Ints, rotations: Floats) -> None:
    """Diagonalises unitaries by rotating rows only (Reck et al.); arguments as for :func:`null_rectangular`."""
    batch, modes, _ = real.shape
    for index in range(batch):
        last = len(order)
        for column in range(modes - 1):
            for upper in range(modes - 2, column - 1, -1):
                last -= 1
                _null_row_pair(real[index], imag[index], upper, column, rotations[index, order[last]])


@compiled
def _wrap_phase(phase: float) -> float:
    """A phase above -2 pi wrapped into [0, 2 pi)."""
    wrapped = phase + 2.0 * math.pi if phase < 0.0 else phase
    # A tiny negative phase rounds up to 2 pi; adding 0.0 converts -0.0 to 0.0.
    return 0.0 if wrapped >= 2.0 * math.pi else wrapped + 0.0


@compiled
def _field_transfer(theta: float, phi: float) -> tuple[float, float, complex, complex]:
    """An MZI's transfer: sin(theta/2), cos(theta/2), and the factors of the upper and the lower input."""
    sine, cosine = math.sin(0.5 * theta), math.cos(0.5 * theta)
    lower = complex(-sine, cosine)
    return sine, cosine, lower * complex(math.cos(phi), math.sin(phi)), lower


@compiled
def _unit(phasor: complex) -> complex:
    """A phasor of modulus near 1, normalised to modulus 1."""
    return phasor * (1.0 / math.sqrt(phasor.real * phasor.real + phasor.imag * phasor.imag))


@compiled
def phases_from_rotations(
    rotations: Floats,
    row: Ints,
    order: Ints,
    inner: int,
    diagonal: Complexes,
    free_phi: float,
    theta: Floats,
    phi: Floats,
    output_phase: Floats,
) -> None:
    """Convert rotations (batch, MZIs, 3) to MZI phases in the order of the light; move the remaining phases to the
    outputs.

    An MZI is a rotation up to a phase at each output. The phase that moves on is computed from the transfer of the
    *rounded* theta and phi, so that later phases compensate the rounding; otherwise a mesh entirely in the bar or cross
    state accumulates N equal errors. ``row``, ``order`` and ``inner`` are those of
    :class:`optinc_pdk.factor._decomposition.Arrangement`, ``diagonal`` (batch, N) has the unit phasors that remain, and
    ``theta``, ``phi`` (batch, MZIs) and ``output_phase`` (batch, N) are overwritten by phases in rad, in [0, 2 pi).
    """
    for index in range(len(rotations)):
        pending = np.empty(diagonal.shape[1], dtype=np.complex128)
        for mode in range(len(pending)):
            pending[mode] = 1.0
        for place in range(len(order) + 1):
            if place == inner:
                for mode in range(len(pending)):
                    pending[mode] *= diagonal[index, mode]
            if place == len(order):
                break
            slot = order[place]
            mode = row[slot]
            c, s = complex(rotations[index, slot, 0], rotations[index, slot, 1]), rotations[index, slot, 2]
            upper, lower = pending[mode], pending[mode + 1]
            modulus = math.sqrt(c.real * c.real + c.imag * c.imag)
            theta[index, slot] = 2.0 * math.atan2(modulus, s)
            # In the bar or cross state phi shifts one output only.
            if modulus * s > _ROUNDING:
                between = c.conjugate() * upper * lower.conjugate()
                phi[index, slot] = _wrap_phase(math.atan2(-between.imag, -between.real))
            else:
                phi[index, slot] = free_phi
            sine, cosine, from_upper, from_lower = _field_transfer(theta[index, slot], phi[index, slot])
            upper *= from_upper.conjugate()
            lower *= from_lower.conjugate()
            upper_output = sine * c.conjugate() * upper - cosine * s * lower
            lower_output = cosine * s * upper - sine * c * lower
            pending[mode] = _unit(upper_output)
            pending[mode + 1] = _unit(lower_output)
        for mode in range(len(pending)):
            output_phase[index, mode] = _wrap_phase(math.atan2(pending[mode].imag, pending[mode].real))


@compiled
def _pass_mzi(tr: Floats, ti: Floats, br: Floats, bi: Floats, transfer: tuple[float, float, complex, complex]) -> None:
    """Propagates the fields of an MZI's upper (t) and lower (b) guide through it, in place."""
    sine, cosine, upper, lower = transfer
    g, gi, h, hi = upper.real, upper.imag, lower.real, lower.imag
    for v in range(len(tr)):
        ar, ai = g * tr[v] - gi * ti[v], g * ti[v] + gi * tr[v]
        cr, ci = h * br[v] - hi * bi[v], h * bi[v] + hi * br[v]
        tr[v] = sine * ar + cosine * cr
        ti[v] = sine * ai + cosine * ci
        br[v] = cosine * ar - sine * cr
        bi[v] = cosine * ai - sine * ci


@compiled
def propagate(
    row: Ints,
    theta: Floats,
    phi: Floats,
    output_phase: Floats,
    fields: Complexes,
    light: Complexes,
) -> None:
    """Compute the output fields of a batch of meshes, a few vectors at a time so that they stay in the cache.

    ``row`` is sorted by column, phases are in rad, ``fields`` (batch or 1, N, vectors), ``light`` (batch, N, vectors)
    is overwritten.
    """
    batch, modes, vectors = light.shape
    for index in range(batch):
        source = fields[index if len(fields) > 1 else 0]
        transfers = [(0.0, 0.0, 0j, 0j)] * len(row)
        for slot in range(len(row)):
            transfers[slot] = _field_transfer(theta[index, slot], phi[index, slot])
        for start in range(0, vectors, _TILE):
            stop = min(start + _TILE, vectors)
            real, imag = source[:, start:stop].real.copy(), source[:, start:stop].imag.copy()
            for slot in range(len(row)):
                upper = row[slot]
                _pass_mzi(real[upper], imag[upper], real[upper + 1], imag[upper + 1], transfers[slot])
            for mode in range(modes):
                end = complex(math.cos(output_phase[index, mode]), math.sin(output_phase[index, mode]))
                for v in range(stop - start):
                    light[index, mode, start + v] = end * complex(real[mode, v], imag[mode, v])


# Vectors propagated together: fields and rows of 128 modes then stay in a second-level cache.
_ADJOINT_TILE = 64


@compiled
def _multiply_pair(
    ar: Floats, ai: Floats, br: Floats, bi: Floats, m00: complex, m01: complex, m10: complex, m11: complex
) -> None:
    """Multiplies the pair (a, b) by [[m00, m01], [m10, m11]] in place."""
    p, q, r, s = m00.real, m00.imag, m01.real, m01.imag
    t, u, v, w = m10.real, m10.imag, m11.real, m11.imag
    for k in range(len(ar)):
        x, xi, y, yi = ar[k], ai[k], br[k], bi[k]
        ar[k] = p * x - q * xi + r * y - s * yi
        ai[k] = p * xi + q * x + r * yi + s * y
        br[k] = t * x - u * xi + v * y - w * yi
        bi[k] = t * xi + u * x + v * yi + w * y


@compiled_sums
def _overlaps(
    ar: Floats, ai: Floats, br: Floats, bi: Floats, xr: Floats, xi: Floats, yr: Floats, yi: Floats
) -> tuple[complex, complex, complex, complex]:
    """Sums over the vectors of a x, a y, b x and b y: rows (a, b) times fields (x, y)."""
    axr = axi = ayr = ayi = bxr = bxi = byr = byi = 0.0
    for k in range(len(ar)):
        a, c, b, d = ar[k], ai[k], br[k], bi[k]
        x, z, y, w = xr[k], xi[k], yr[k], yi[k]
        axr += a * x - c * z
        axi += a * z + c * x
        ayr += a * y - c * w
        ayi += a * w + c * y
        bxr += b * x - d * z
        bxi += b * z + d * x
        byr += b * y - d * w
        byi += b * w + d * y
    return complex(axr, axi), complex(ayr, ayi), complex(bxr, bxi), complex(byr, byi)


@compiled
def propagate_forward(row: Ints, transfer: Complexes, fields: Complexes, light: Complexes) -> None:
    """Compute the fields (N, vectors) behind MZIs with transfer matrices (MZIs, 2, 2), in the order of light, into
    ``light``.
    """
    for start in range(0, fields.shape[1], _ADJOINT_TILE):
        stop = min(start + _ADJOINT_TILE, fields.shape[1])
        real, imag = fields[:, start:stop].real.copy(), fields[:, start:stop].imag.copy()
        for slot in range(len(row)):
            upper, m = row[slot], transfer[slot]
            _multiply_pair(
                real[upper], imag[upper], real[upper + 1], imag[upper + 1], m[0, 0], m[0, 1], m[1, 0], m[1, 1]
            )
        for mode in range(len(real)):
            for k in range(stop - start):
                light[mode, start + k] = complex(real[mode, k], imag[mode, k])


@compiled
def transfer_derivatives(
    row: Ints, transfer: Complexes, light: Complexes, rows: Complexes, derivative: Complexes
) -> None:
    """Compute the derivatives of sum_kv rows[k, v] light[k, v] by the entries of every MZI's invertible transfer
    matrix.

    ``row`` and ``transfer`` (MZIs, 2, 2) are in the order of light, ``light`` (N, vectors) is that of
    :func:`propagate_forward`; ``derivative`` (MZIs, 2, 2) is overwritten.
    """
    derivative[:] = 0.0
    for start in range(0, light.shape[1], _ADJOINT_TILE):
        stop = min(start + _ADJOINT_TILE, light.shape[1])
        fr, fi = light[:, start:stop].real.copy(), light[:, start:stop].imag.copy()
        cr, ci = rows[:, start:stop].real.copy(), rows[:, start:stop].imag.copy()
        for slot in range(len(row) - 1, -1, -1):
            top, m = row[slot], transfer[slot]
            low = top + 1
            inverse = 1.0 / (m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0])
            _multiply_pair(
                fr[top],
                fi[top],
                fr[low],
                fi[low],
                inverse * m[1, 1],
                -inverse * m[0, 1],
                -inverse * m[1, 0],
                inverse * m[0, 0],
            )
            ax, ay, bx, by = _overlaps(cr[top], ci[top], cr[low], ci[low], fr[top], fi[top], fr[low], fi[low])
            derivative[slot, 0, 0] += ax
            derivative[slot, 0, 1] += ay
            derivative[slot, 1, 0] += bx
            derivative[slot, 1, 1] += by
            _multiply_pair(cr[top], ci[top], cr[low], ci[low], m[0, 0], m[1, 0], m[0, 1], m[1, 1])
