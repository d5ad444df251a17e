"""Calculation of the S-matrices of a chip's linear blocks for the command line, and their output to files."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.errors import InputError
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.models.measured_data import port_count, touchstone_text
from optinc_pdk.simulate.s_parameters.scattering import Progress, Scattering, scattering

SCHEMA = 1
MAX_WAVELENGTHS = 10_001
_LAYER = re.compile(r"(?:lo_|carrier_)?l(\d+)(?:[bc]\d+)?(?:_|$)")


def parse_wavelengths(text: str | None, default_nm: float) -> Floats:
    """Parse wavelengths in nm, and return them, (W,), ascending and without duplicates.

    Args:
        text: ``"1550"``, ``"1549,1550"`` or ``"1540:1560:5"`` (first, last, step); None for the default.
        default_nm: Default wavelength.

    Raises:
        InputError: The text has another form, or the wavelengths are not positive or more than ``MAX_WAVELENGTHS``.
    """
    if text is None:
        return np.array([default_nm])
    try:
        if ":" in text:
            first, last, step = (float(part) for part in text.split(":"))
            count = int((last - first) / step + 1e-9) + 1 if step > 0 and last >= first else 0
            values = first + step * np.arange(min(count, MAX_WAVELENGTHS + 1))
        else:
            values = np.array([float(part) for part in text.split(",")])
    except (ValueError, OverflowError):
        values = np.zeros(0)
    if not 0 < len(values) <= MAX_WAVELENGTHS or not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise InputError(
            f"wavelengths {text!r}: give nm as 1550, as 1549,1550 or as 1540:1560:5, at most {MAX_WAVELENGTHS} of them"
        )
    # readers of S-parameter files require ascending wavelengths, each once
    return np.unique(np.asarray(values, dtype=np.float64))


def parse_ports(text: str) -> tuple[str, ...]:
    """Parse labels separated by commas, such as ``"in_r0,out_r0"``; InputError if one is empty or occurs twice."""
    ports = tuple(part.strip() for part in text.split(","))
    if not all(ports) or len(set(ports)) < len(ports):
        raise InputError(f"ports {text!r}: give labels of fibres separated by commas, each once")
    return ports


def port_scattering(
    circuit: Circuit,
    bias: Bias,
    wavelengths_nm: Floats,
    process: Process,
    ports: Sequence[str],
    ground: SharedGround | None = None,
    progress: Progress | None = None,
) -> Scattering:
    """Calculate the S-parameters between given labels, in this order; other arguments as for `scattering`."""
    found = scattering(circuit, bias, wavelengths_nm, process, ground=ground, labels=ports, progress=progress)
    return Scattering(
        found.wavelengths_nm, tuple(ports), found.between(ports, ports), found.modulators, found.modulator
    )


def block_scattering(
    circuit: Circuit,
    bias: Bias,
    wavelengths_nm: Floats,
    process: Process,
    ground: SharedGround | None = None,
    progress: Progress | None = None,
) -> list[Scattering]:
    """Calculate the S-parameters of every layer's linear block, between the labels of the layer and the carrier.

    Labels determine the layer (``l<i>_…``, ``l<i>b<j>_…``, ``in_…``, ``out_…``). A circuit without such labels is one
    block with all its labels. Arguments and errors are those of `scattering`.
    """
    whole = scattering(circuit, bias, wavelengths_nm, process, ground=ground, progress=progress)
    layers = {label: int(found[1]) for label in whole.labels if (found := _LAYER.match(label))}
    if not layers:
        return [whole]
    last = max(layers.values())
    layers |= {label: 0 for label in whole.labels if label.startswith("in_")}
    layers |= {label: last for label in whole.labels if label.startswith("out_")}
    blocks = []
    for index in range(last + 1):
        labels = [label for label in whole.labels if layers.get(label) == index]
        labels += [label for label in whole.labels if label == "carrier"]
        modulators = tuple(label for label in labels if label in whole.modulators)
        s = whole.between(labels, labels)
        blocks.append(Scattering(whole.wavelengths_nm, tuple(labels), s, modulators, whole.modulator))
    return blocks


def refuse_unknown_ending(path: str | Path) -> None:
    """Raise InputError if the ending of a file name is not one that :func:`write_scattering` supports."""
    if Path(path).suffix.lower() not in ("", ".npz") and port_count(Path(path)) is None:
        raise InputError(f"{path}: S-matrices are written as .npz, or as Touchstone .sNp of N ports; use one of these")


def check_port_count(path: str | Path, sizes: Sequence[int]) -> None:
    """Raise InputError unless a file can hold blocks of these numbers of ports: a .sNp holds one block of N ports."""
    ports = port_count(Path(path))
    if ports is None or list(sizes) == [ports]:
        return
    remedy = f"or call it .s{sizes[0]}p" if len(sizes) == 1 else f"or ask for {ports} of the ports alone"
    raise InputError(
        f"{path}: a Touchstone file holds one block of {ports} ports, these have {', '.join(map(str, sizes))}; "
        f"write .npz, {remedy}"
    )


def write_scattering(wavelengths_nm: Floats, blocks: list[Scattering], path: str | Path) -> None:
    """Write the S-matrices of blocks at (W,) wavelengths to a .npz or, if the name ends in ``.sNp``, a Touchstone file.

    A .npz file has ``wavelengths_nm`` and, for each block i, ``blocks.<i>.s[wavelength, out, in]`` and
    ``blocks.<i>.ports``.

    Raises:
        InputError: The ending is unknown, or a Touchstone file would need several blocks or another number of ports.
    """
    ports = port_count(Path(path))
    if ports is not None:
        check_port_count(path, [len(block.labels) for block in blocks])
        text = touchstone_text(wavelengths_nm, blocks[0].s, blocks[0].labels)
        write_atomic(Path(path), text.encode("utf-8"))
        return
    refuse_unknown_ending(path)
    arrays: dict[str, NDArray[np.generic]] = {"schema": np.array(SCHEMA), "wavelengths_nm": wavelengths_nm}
    for i, block in enumerate(blocks):
        arrays[f"blocks.{i}.s"] = block.s
        arrays[f"blocks.{i}.ports"] = np.array(block.labels)
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    write_atomic(Path(path), stream.getvalue())
