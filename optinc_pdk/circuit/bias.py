"""The ``.bias.yml`` file: DAC code of each heater by pad label, and settings of the electronics by label."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.circuit.yaml_reader import read_object
from optinc_pdk.yaml_io import dump_yaml

SCHEMA = 1
_CHANNEL = ("phase_rad", "power_w", "voltage_v", "code")
_ACTIVATION = ("gain", "offset", "balance")
_FILE = ("schema", "process", "circuit", "dac_bits", "channels", "activations", "outputs")
MAX_DAC_BITS = 32
_REMEDY = "correct it or build again"
_ADD = "add it or build again"


@dataclass(frozen=True)
class Activation:
    """Settings of one neuron's electronics.

    They drive its modulator with ``gain * max(plus - balance * minus + offset, 0)``, where ``plus`` and ``minus`` are
    the signals of the positive and the negative detector.

    Attributes:
        gain: Modulator amplitude per unit of the detected difference.
        offset: Value added to the detected difference before the rectifier. It realises the layer's bias vector.
        balance: Gain of the negative detector relative to the positive one, which compensates the imbalance of the
            mixer's coupler.
    """

    gain: float
    offset: float
    balance: float


@dataclass(frozen=True)
class Bias:
    """The bias of one chip with C heater channels: everything that its electronics drive.

    Attributes:
        process: Process name.
        circuit: Circuit name.
        dac_bits: Resolution of the DACs.
        labels: (C,) pad labels.
        phase_rad: (C,) target phases of the guides under the heaters, in [0, 2π), thermal crosstalk included.
        power_w: (C,) heater powers that produce these phases. They compensate thermal crosstalk, so that a phase is not
            π times the heater's own power over its power for π.
        voltage_v: (C,) pad voltages for these powers.
        code: (C,) DAC codes nearest to the voltages. Only the codes drive the chip.
        activations: Settings of the electronics by neuron label.
        outputs: Receiver scale by output fibre label: level = scale · |field|.
        inputs: Amplitude of the highest level, 0 … 1, by input fibre label. Servers that are missing send full scale.
    """

    process: str
    circuit: str
    dac_bits: int
    labels: tuple[str, ...]
    phase_rad: NDArray[np.float64]
    power_w: NDArray[np.float64]
    voltage_v: NDArray[np.float64]
    code: NDArray[np.int64]
    activations: Mapping[str, Activation] = field(default_factory=dict)
    outputs: Mapping[str, float] = field(default_factory=dict)
    inputs: Mapping[str, float] = field(default_factory=dict)


def write_bias(bias: Bias, path: str | Path) -> None:
    """Write a bias to a ``.bias.yml`` file atomically.

    Args:
        bias: Bias.
        path: File to write.
    """
    columns = zip(bias.labels, bias.phase_rad, bias.power_w, bias.voltage_v, bias.code, strict=True)
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "process": bias.process,
        "circuit": bias.circuit,
        "dac_bits": bias.dac_bits,
        "channels": {
            label: {"phase_rad": _rounded(p), "power_w": _rounded(w), "voltage_v": _rounded(v), "code": int(c)}
            for label, p, w, v, c in columns
        },
        "activations": {
            label: {key: float(getattr(a, key)) for key in _ACTIVATION} for label, a in bias.activations.items()
        },
        "outputs": {label: {"scale": float(scale)} for label, scale in bias.outputs.items()},
    }
    if bias.inputs:
        data["inputs"] = {label: {"amplitude": float(amplitude)} for label, amplitude in bias.inputs.items()}
    dump_yaml(Path(path), data)


def _rounded(value: float) -> float:
    """Round to nine digits, so that rounding errors do not change the file; the codes alone drive the chip."""
    return float(f"{value:.9g}")


def read_bias(path: str | Path, process: str | None = None) -> Bias:
    """Read a ``.bias.yml`` file.

    Args:
        path: File.
        process: Required process name, or None to accept any process.

    Returns:
        The bias.

    Raises:
        NetlistError: The file is not a valid bias file, or is for another process; the message names the file and the
            fault.
    """
    bias = read_object(path, _bias, f"a bias file of schema {SCHEMA}")
    if process not in (None, bias.process):
        raise NetlistError(
            f"{path}: it is for process {bias.process!r}, not {process!r}; give its process with --process"
        )
    return bias


def _bias(data: Mapping[str, Any]) -> Bias:
    if "instances" in data:
        raise NetlistError("is a netlist, not a bias; give a .bias.yml file")
    if data.get("schema", SCHEMA) != SCHEMA:
        raise NetlistError(f"schema {data['schema']}, this version reads {SCHEMA}; build the chip again")
    _check_keys("", {key: data[key] for key in data if key != "inputs"}, _FILE)
    for section in ("channels", "activations", "outputs", "inputs"):
        _check_mapping(section, data.get(section, {}))
    channels, bits = data["channels"], data["dac_bits"]
    if type(bits) is not int or not 1 <= bits <= MAX_DAC_BITS:
        raise NetlistError(f"dac_bits is {bits!r}, expected an integer in 1…{MAX_DAC_BITS}; correct it")
    for label, channel in channels.items():
        _check_keys(f"channel {label!r}", channel, _CHANNEL)
        if type(channel["code"]) is not int or not 0 <= channel["code"] < 2**bits:
            raise NetlistError(
                f"channel {label!r}: code {channel['code']!r} is not an integer in 0…{2**bits - 1}; {_REMEDY}"
            )
    for label, activation in data["activations"].items():
        _check_keys(f"activation {label!r}", activation, _ACTIVATION)
    for label, output in data["outputs"].items():
        _check_keys(f"output {label!r}", output, ("scale",))
    inputs = {str(label): _amplitude(label, entry) for label, entry in data.get("inputs", {}).items()}
    columns = {key: np.array([_number(k, c[key]) for k, c in channels.items()], dtype=float) for key in _CHANNEL[:3]}
    return Bias(
        process=str(data["process"]),
        circuit=str(data["circuit"]),
        dac_bits=bits,
        labels=tuple(map(str, channels)),
        code=np.array([c["code"] for c in channels.values()], dtype=np.int64),
        activations={
            str(label): Activation(**{key: _number(label, a[key]) for key in _ACTIVATION})
            for label, a in data["activations"].items()
        },
        outputs={str(label): _number(label, out["scale"]) for label, out in data["outputs"].items()},
        inputs=inputs,
        **columns,
    )


def _amplitude(label: str, entry: Mapping[str, Any]) -> float:
    _check_keys(f"input {label!r}", entry, ("amplitude",))
    amplitude = _number(label, entry["amplitude"])
    if not 0.0 <= amplitude <= 1.0:
        raise NetlistError(
            f"input {label!r}: amplitude {amplitude:g} is outside 0 … 1, the range of a modulator; {_REMEDY}"
        )
    return amplitude


def _check_keys(where: str, data: Mapping[str, Any], expected: tuple[str, ...]) -> None:
    prefix = f"{where}: " if where else ""
    _check_mapping(where, data)
    if missing := [key for key in expected if key not in data]:
        raise NetlistError(f"{prefix}{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing; {_ADD}")
    if unknown := sorted(map(str, set(data) - set(expected))):
        raise NetlistError(f"{prefix}unknown key {unknown[0]!r}; remove it, known are {', '.join(expected)}")


def _check_mapping(where: str, data: Any) -> None:
    if not isinstance(data, Mapping):
        raise NetlistError(f"{where} is {reprlib.repr(data)}, expected key: value pairs; {_REMEDY}")


def _number(label: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NetlistError(f"{label!r}: {reprlib.repr(value)} is not a finite number; {_REMEDY}")
    return float(value)
