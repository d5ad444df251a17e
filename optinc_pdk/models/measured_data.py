"""S-parameters from files (measured data or data of a foundry), which replace a compact model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.errors import InputError
from optinc_pdk.io.npz_files import read_npz
from optinc_pdk.io.reading import S_PARAMETERS, read_bytes
from optinc_pdk.models.touchstone import MAX_PORTS, parse_touchstone, port_count

PASSIVE = 1.0 + 1e-6
"""Largest singular value accepted as passive; files commonly have six decimals."""


class MeasuredError(InputError):
    """Error: measured data cannot be used. The message states file, port, value, limit and remedy."""


@dataclass(frozen=True, eq=False)
class MeasuredSParameters:
    """S-parameters of a file.

    Attributes:
        path: The file.
        wavelengths_nm: (W,) ascending wavelengths.
        s: (W, ports, ports) complex S-parameters, indexed [wavelength, output, input]; passive, with the time
            dependence exp(-i ω t).
        ports: Names of the ports; None if the file has none.
    """

    path: Path
    wavelengths_nm: Floats
    s: Complexes
    ports: tuple[str, ...] | None

    def interpolate(self, wavelengths_nm: Floats) -> Complexes:
        """Interpolate the S-parameters between the wavelengths of the file.

        The common phase between neighbouring samples is interpolated linearly, the remaining difference as complex
        numbers. So the delay of a guide is exact, and data that are passive and reciprocal at the samples are also so
        between them, since a mean of contractions is a contraction.

        Args:
            wavelengths_nm: (L,) wavelengths in nm within the range of the file.

        Returns:
            (L, ports, ports) complex S-parameters.
        """
        high = np.clip(np.searchsorted(self.wavelengths_nm, wavelengths_nm), 1, None)
        high = np.minimum(high, self.wavelengths_nm.size - 1)
        low = np.maximum(high - 1, 0)
        step = self.wavelengths_nm[high] - self.wavelengths_nm[low]
        share = np.divide(wavelengths_nm - self.wavelengths_nm[low], step, out=np.zeros_like(step), where=step > 0.0)
        share = share[:, np.newaxis, np.newaxis]
        turn = np.angle((self.s[low].conj() * self.s[high]).sum(axis=(1, 2)))[:, np.newaxis, np.newaxis]
        interpolated: Complexes = np.exp(1j * share * turn) * (
            (1.0 - share) * self.s[low] + share * np.exp(-1j * turn) * self.s[high]
        )
        return interpolated


def read_measured(path: Path) -> MeasuredSParameters:
    """Read S-parameters from a Touchstone ``.sNp`` file, or from an ``.npz`` file of ``optinc simulate`` of one block.

    Raises:
        MeasuredError: The file is unreadable or of another kind, or its data are not passive.
        TouchstoneError: The Touchstone file is unusable.
    """
    try:
        state = path.stat()
    except OSError as fault:
        raise MeasuredError(f"{path}: cannot be read ({fault.strerror}); check the path") from fault
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _read(path: Path, changed_ns: int, size: int) -> MeasuredSParameters:
    if port_count(path) is not None:
        text = read_bytes(path, S_PARAMETERS, MeasuredError).decode("utf-8", errors="replace")
        wavelengths, s, ports = parse_touchstone(text, path)
    elif path.suffix.lower() == ".npz":
        wavelengths, s, ports = _read_npz(path)
    else:
        raise MeasuredError(f"{path}: unknown file type for S-parameters; give .sNp (Touchstone) or .npz")
    measured = MeasuredSParameters(path, wavelengths, s, ports)
    _refuse_gain(measured)
    return measured


def _read_npz(path: Path) -> tuple[Floats, Complexes, tuple[str, ...] | None]:
    arrays = read_npz(path, S_PARAMETERS, MeasuredError)
    if not {"wavelengths_nm", "blocks.0.s", "blocks.0.ports"} <= set(arrays) or "blocks.1.s" in arrays:
        raise MeasuredError(
            f"{path}: needs wavelengths_nm, blocks.0.s and blocks.0.ports, and no second block; "
            f"it has {', '.join(sorted(arrays))}"
        )
    for name, kinds, word in (
        ("wavelengths_nm", "fiu", "real numbers"),
        ("blocks.0.s", "fc", "complex numbers"),
        ("blocks.0.ports", "U", "text"),
    ):
        if arrays[name].dtype.kind not in kinds:
            raise MeasuredError(f"{path}: {name} holds {arrays[name].dtype}, not {word}; write it again")
    # extended precision may exceed the range of double precision, or hold bits that are no number
    with np.errstate(over="ignore", invalid="ignore"):
        wavelengths = np.atleast_1d(arrays["wavelengths_nm"].astype(np.float64))
        s = arrays["blocks.0.s"].astype(np.complex128)
    ports = tuple(str(name) for name in arrays["blocks.0.ports"].reshape(-1))
    if wavelengths.ndim != 1:
        raise MeasuredError(f"{path}: wavelengths_nm has shape {wavelengths.shape}; give a 1-D array")
    if s.shape != (wavelengths.size, len(ports), len(ports)) or not s.size:
        raise MeasuredError(
            f"{path}: S-parameters have shape {s.shape}; {wavelengths.size} wavelengths and {len(ports)} ports need "
            f"({wavelengths.size}, {len(ports)}, {len(ports)})"
        )
    if len(ports) > MAX_PORTS:
        raise MeasuredError(f"{path}: has {len(ports)} ports, the limit is {MAX_PORTS}; give those of one device")
    for number, out, into in np.argwhere(~np.isfinite(s))[:1].tolist():
        raise MeasuredError(
            f"{path}: S from port {ports[into]} to port {ports[out]} at {wavelengths[number]:g} nm is "
            f"{s[number, out, into]}; correct it"
        )
    if not np.all(np.isfinite(wavelengths) & (wavelengths > 0.0)) or not np.all(np.diff(wavelengths) > 0.0):
        raise MeasuredError(f"{path}: wavelengths must be finite, positive and ascend; correct them")
    return wavelengths, s, ports


def _refuse_gain(measured: MeasuredSParameters) -> None:
    _, value, into = np.linalg.svd(measured.s)
    worst = int(np.argmax(value[:, 0]))
    if not value[worst, 0] <= PASSIVE:
        number = int(np.argmax(np.abs(into[worst, 0])))
        port = measured.ports[number] if measured.ports else f"{number + 1}"
        raise MeasuredError(
            f"{measured.path}: not passive: the largest singular value at {measured.wavelengths_nm[worst]:g} nm is "
            f"{value[worst, 0]:.6g}, mostly for light into port {port}; the limit is {PASSIVE:.6f}: "
            "calibrate the measurement again or scale it down"
        )
