"""S-parameters from files, measured or of a foundry, which replace a compact model; and Touchstone files of version 1.

Touchstone files assume fields exp(+j ω t), this package exp(-i ω t): the S-parameters are complex conjugates.

Source:
    Touchstone File Format Specification, version 1.1, EIA/IBIS Open Forum (2002).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from pathlib import Path

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.errors import InputError
from optinc_pdk.io.npz_files import read_npz
from optinc_pdk.io.reading import S_PARAMETERS, read_bytes

MAX_PORTS = 100
"""Largest number of ports: a singular value decomposition takes a time proportional to its cube."""
LIGHT_NM_PER_S = 299_792_458e9
_SUFFIX = re.compile(r"\.s(\d+)p", re.IGNORECASE)
_PORT = re.compile(r"!\s*Port\[(\d+)\]\s*=\s*(\S+)", re.IGNORECASE)
_UNITS_HZ = {"HZ": 1.0, "KHZ": 1e3, "MHZ": 1e6, "GHZ": 1e9, "THZ": 1e12}
_FORMATS = ("MA", "DB", "RI")
_TWO_PORTS = 2


class TouchstoneError(InputError):
    """Error: a Touchstone file cannot be used. The message states the file, the fault and the remedy."""


def port_count(path: Path) -> int | None:
    """Return the number of ports N of a file whose name ends in ``.sNp``; None for any other file name."""
    found = _SUFFIX.fullmatch(path.suffix)
    return int(found[1]) if found else None


def parse_touchstone(text: str, path: Path) -> tuple[Floats, Complexes, tuple[str, ...] | None]:
    """Parse a Touchstone file; its path states the number of ports N.

    Returns:
        (W,) ascending wavelengths in nm; (W, N, N) S-parameters for fields exp(-i ω t); names of the ports if comments
        ``! Port[i] = name`` give them, else None.

    Raises:
        TouchstoneError: The file is not of version 1, has parameters other than S, or does not hold N² values for each
            of its ascending frequencies.
    """
    ports = port_count(path)
    if not ports:
        raise TouchstoneError(f"{path}: the name of a Touchstone file of N ports ends in .sNp; rename it")
    if ports > MAX_PORTS:
        raise TouchstoneError(f"{path}: has {ports} ports, the limit is {MAX_PORTS}; give those of one device")
    unit, form = _options(text, path)
    numbers = _numbers(text, path)
    width = 1 + 2 * ports**2
    if not numbers.size or numbers.size % width:
        raise TouchstoneError(
            f"{path}: {numbers.size} numbers; {ports} ports need {width} per frequency: itself and {ports**2} pairs"
        )
    rows = numbers.reshape(-1, width)
    for number, place in np.argwhere(~np.isfinite(rows))[:1].tolist():
        at = f"S of ports {_pair((place - 1) // 2, ports)} at {rows[number, 0]:g}" if place else "a frequency"
        raise TouchstoneError(f"{path}: {at} is {rows[number, place]}; correct it")
    if np.any(rows[:, 0] <= 0.0) or np.any(np.diff(rows[:, 0]) <= 0.0):
        raise TouchstoneError(f"{path}: frequencies must be positive and ascending; correct them")
    first, second = rows[:, 1::2], rows[:, 2::2]
    # numbers beyond double precision become infinite, and are refused
    with np.errstate(over="ignore", invalid="ignore"):
        if form == "RI":
            s = first + 1j * second
        else:
            s = (10.0 ** (first / 20.0) if form == "DB" else first) * np.exp(1j * np.deg2rad(second))
        wavelengths = LIGHT_NM_PER_S / (rows[::-1, 0] * unit)
    for number, place in np.argwhere(~np.isfinite(s))[:1].tolist():
        raise TouchstoneError(
            f"{path}: S of ports {_pair(place, ports)} at {rows[number, 0]:g} exceeds the range of numbers; correct it"
        )
    if not np.all(wavelengths > 0.0):
        raise TouchstoneError(f"{path}: frequency {rows[-1, 0]:g} exceeds the range of numbers; correct it")
    s = s.reshape(-1, ports, ports)
    if ports == _TWO_PORTS:
        # for two ports the format has the order S11 S21 S12 S22
        s = s.swapaxes(1, 2)
    return wavelengths, s[::-1].conj(), _port_names(text, ports, path)


def _options(text: str, path: Path) -> tuple[float, str]:
    """Return the unit of the frequency in Hz and the number format from the option line."""
    lines = [line for line in StringIO(text) if line.lstrip().startswith(("#", "["))]
    if any(line.strip().startswith("[") for line in lines):
        raise TouchstoneError(f"{path}: {lines[0].strip()} is of Touchstone version 2; save it as version 1")
    words = lines[0].strip()[1:].upper().split() if lines else []
    if "R" in words:
        place = words.index("R")
        words = words[:place] + words[place + 2 :]
    unit, form = _UNITS_HZ["GHZ"], _FORMATS[0]
    for word in words:
        if word in _UNITS_HZ:
            unit = _UNITS_HZ[word]
        elif word in _FORMATS:
            form = word
        elif word != "S":
            raise TouchstoneError(
                f"{path}: option {word!r}; write '# unit S format R 50' with a unit of {', '.join(_UNITS_HZ)} and a "
                f"format of {', '.join(_FORMATS)}"
            )
    return unit, form


def _pair(number: int, ports: int) -> str:
    """Return the output and input port of a pair of numbers."""
    out, into = divmod(number, ports)
    return f"{into + 1}, {out + 1}" if ports == _TWO_PORTS else f"{out + 1}, {into + 1}"


def _numbers(text: str, path: Path) -> Floats:
    numbers = array("d")
    try:
        for line in StringIO(text):
            if not line.lstrip().startswith("#"):
                numbers.extend(map(float, line.split("!", 1)[0].split()))
        return np.array(numbers, dtype=np.float64)
    except ValueError as fault:
        raise TouchstoneError(f"{path}: {fault}; give numbers, and comments after '!'") from None


def _port_names(text: str, ports: int, path: Path) -> tuple[str, ...] | None:
    names = {int(number): name for number, name in _PORT.findall(text)}
    if not names:
        return None
    if sorted(names) != list(range(1, ports + 1)):
        raise TouchstoneError(f"{path}: comments name the ports {sorted(names)}; name 1 to {ports}, or none")
    return tuple(names[number] for number in range(1, ports + 1))


def touchstone_text(wavelengths_nm: Floats, s: Complexes, ports: Sequence[str]) -> str:
    """Return S-parameters as the text of a Touchstone file of version 1.

    The text has the complex conjugates of ``s``, because Touchstone files assume fields exp(+j ω t). Its frequencies
    are in Hz and ascend. Its reference impedance is 50 Ω. Names of ports are comments.

    Args:
        wavelengths_nm: (W,) vacuum wavelengths in nm, in any order. They must differ, which is not checked.
        s: (W, N, N) S-parameters s[wavelength, out, in] for fields exp(-i ω t).
        ports: N names of ports, in the order of ``s``.
    """
    lines = [f"! Port[{number}] = {name}" for number, name in enumerate(ports, start=1)]
    lines += ["! fields go as exp(+j w t)", "# HZ S RI R 50"]
    for place in np.argsort(wavelengths_nm)[::-1].tolist():
        matrix = s[place].conj()
        rows = matrix if len(ports) != _TWO_PORTS else matrix.T.reshape(1, -1)
        text = [" ".join(f"{value.real:.17g} {value.imag:.17g}" for value in row) for row in rows.tolist()]
        text[0] = f"{LIGHT_NM_PER_S / wavelengths_nm[place]:.17g} {text[0]}"
        lines += text
    return "\n".join(lines) + "\n"


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
        """Return the S-parameters (L, ports, ports) at wavelengths (L,) in nm within the range of the file.

        The common phase between neighbouring samples is interpolated linearly, the remaining difference as complex
        numbers. So the delay of a guide is exact, and data that are passive and reciprocal at the samples are also so
        between them, since a mean of contractions is a contraction.
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
