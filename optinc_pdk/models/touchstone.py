"""Touchstone files of version 1, ``.sNp``: S-parameters of N ports by frequency.

Touchstone files assume fields exp(+j ω t), this package exp(-i ω t): the S-parameters are complex conjugates.

Source:
    Touchstone File Format Specification, version 1.1, EIA/IBIS Open Forum (2002).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.errors import InputError

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
    """Parse a Touchstone file.

    Args:
        text: The file's text.
        path: Path of the file, whose name states the number of ports.

    Returns:
        (W,) ascending wavelengths in nm; (W, N, N) S-parameters for fields exp(-i ω t); names of the ports if
        comments ``! Port[i] = name`` give them, else None.

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
    """Return S-parameters as the text of a Touchstone file.

    Args:
        wavelengths_nm: (W,) distinct wavelengths in nm.
        s: (W, N, N) S-parameters for fields exp(-i ω t).
        ports: Names of the N ports.
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
