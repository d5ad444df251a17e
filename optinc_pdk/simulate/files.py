"""S-matrices of a chip's linear blocks, in and out of files."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Circuit
from optinc_pdk.drive import Ground
from optinc_pdk.files import InputError, write_atomic
from optinc_pdk.models.touchstone import port_count, touchstone_text
from optinc_pdk.simulate.scatter import Progress, Scattering, scattering

SCHEMA = 1
MAX_WAVELENGTHS = 10_001
_LAYER = re.compile(r"(?:lo_|carrier_)?l(\d+)(?:b\d+)?(?:_|$)")


def parse_wavelengths(text: str | None, default_nm: float) -> NDArray[np.float64]:
    """Wavelengths in nm, ascending, from ``"1550"``, ``"1549,1550"`` or ``"1540:1560:5"`` (first, last, step).

    Raises:
        InputError: Not of that form, not positive, or too many.
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
    # files of S-parameters have each of them once
    return np.unique(np.asarray(values, dtype=np.float64))


def parse_ports(text: str) -> tuple[str, ...]:
    """Labels from ``"in_r0,out_r0"``.

    Raises:
        InputError: None, an empty one, or one twice.
    """
    ports = tuple(part.strip() for part in text.split(","))
    if not all(ports) or len(set(ports)) < len(ports):
        raise InputError(f"ports {text!r}: give labels of fibres separated by commas, each once")
    return ports


def port_scattering(
    circuit: Circuit,
    bias: Bias,
    wavelengths_nm: NDArray[np.float64],
    process: Process,
    ports: Sequence[str],
    ground: Ground | None = None,
    progress: Progress | None = None,
) -> Scattering:
    """S between some labels, in this order; no other port's light is calculated.

    Raises:
        NetlistError: The circuit has no such label, or circuit and bias do not belong together.
        ModelError: A device without model, or a wavelength outside its range.
    """
    found = scattering(circuit, bias, wavelengths_nm, process, ground=ground, labels=ports, progress=progress)
    return Scattering(found.wavelengths_nm, tuple(ports), found.between(ports, ports), found.modulators)


def block_scattering(
    circuit: Circuit,
    bias: Bias,
    wavelengths_nm: NDArray[np.float64],
    process: Process,
    ground: Ground | None = None,
    progress: Progress | None = None,
) -> list[Scattering]:
    """S of every layer's linear block: its own fibres and the carrier's.

    Layers are known by their labels (``l<i>_…``, ``l<i>b<j>_…``, ``in_…``, ``out_…``); a circuit without such labels
    is one block of all its fibres. ``progress`` is called with the wavelengths done and their number.

    Raises:
        NetlistError: Circuit and bias do not belong together.
        ModelError: A device without model, or a wavelength outside its range.
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
        blocks.append(Scattering(whole.wavelengths_nm, tuple(labels), whole.between(labels, labels), modulators))
    return blocks


def refuse_name(path: str | Path) -> None:
    """Refuse a file whose name says of a format that :func:`write_scattering` does not write."""
    if Path(path).suffix not in ("", ".npz") and port_count(Path(path)) is None:
        raise InputError(f"{path}: S-matrices are written as .npz, or as Touchstone .sNp of N ports; call it so")


def write_scattering(wavelengths_nm: NDArray[np.float64], blocks: list[Scattering], path: str | Path) -> None:
    """Write ``wavelengths_nm`` and per block i ``blocks.<i>.s[wavelength, out, in]`` and ``blocks.<i>.ports``.

    A file called ``.sNp`` is written as Touchstone instead, which holds one block of N ports.

    Raises:
        InputError: Several blocks, or another number of ports, for a Touchstone file; a name that is neither's.
    """
    ports = port_count(Path(path))
    if ports is not None:
        sizes = [len(block.labels) for block in blocks]
        if sizes != [ports]:
            mend = f"or call it .s{sizes[0]}p" if len(sizes) == 1 else f"or ask for {ports} of the ports alone"
            raise InputError(
                f"{path}: a Touchstone file holds one block of {ports} ports, these have "
                f"{', '.join(map(str, sizes))}; write .npz, {mend}"
            )
        text = touchstone_text(wavelengths_nm, blocks[0].s, blocks[0].labels)
        write_atomic(Path(path), text.encode("utf-8"))
        return
    refuse_name(path)
    arrays: dict[str, NDArray[np.generic]] = {"schema": np.array(SCHEMA), "wavelengths_nm": wavelengths_nm}
    for i, block in enumerate(blocks):
        arrays[f"blocks.{i}.s"] = block.s
        arrays[f"blocks.{i}.ports"] = np.array(block.labels)
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    write_atomic(Path(path), stream.getvalue())
