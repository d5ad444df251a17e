"""Compiled loops of the adjoint method: forward propagation of fields, and derivatives by every MZI's transfer.

Import this module inside functions only (:mod:`optinc_pdk.compilation`). Fields are two planes of float64. The
backward pass inverts the light MZI by MZI instead of storing it, so that memory is that of two matrices. The 2×2
transfers must therefore be invertible, as those of MZIs with losses of a few dB are.
"""

from __future__ import annotations

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.compilation import compiled, compiled_sums

# Vectors propagated together: fields and rows of 128 modes then stay in a second-level cache.
_TILE = 64


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
    """Computes the fields behind a sequence of MZIs and writes them to ``light``.

    Args:
        row: (MZIs,) upper mode of each MZI, in the order in which light passes them.
        transfer: (MZIs, 2, 2) transfer matrix of each MZI, indexed [output, input].
        fields: (N, vectors) fields at the inputs.
        light: (N, vectors) fields at the outputs; overwritten.
    """
    for start in range(0, fields.shape[1], _TILE):
        stop = min(start + _TILE, fields.shape[1])
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
    """Computes the derivatives of sum_kv rows[k, v] light[k, v] by the entries of every MZI's transfer matrix.

    Args:
        row: (MZIs,) upper mode of each MZI, in the order in which light passes them.
        transfer: (MZIs, 2, 2) transfer matrix of each MZI, indexed [output, input], invertible.
        light: (N, vectors) fields at the outputs, as written by :func:`propagate_forward`.
        rows: (N, vectors) weights of the output fields.
        derivative: (MZIs, 2, 2) derivative by each entry of ``transfer``; overwritten.
    """
    derivative[:] = 0.0
    for start in range(0, light.shape[1], _TILE):
        stop = min(start + _TILE, light.shape[1])
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
