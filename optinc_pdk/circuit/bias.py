"""The ``.bias.yml`` file: DAC code of each heater by pad label, and settings of the electronics by label."""

from __future__ import annotations

import math
from collections.abc import ItemsView, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.circuit.checked_values import (
    REMEDY,
    NetlistError,
    check_schema,
    entries_of,
    index_of,
    mapping_of,
    name_of,
    number_of,
    read_object,
)
from optinc_pdk.io.yaml_files import dump_yaml

SCHEMA = 1
_CHANNEL = ("phase_rad", "power_w", "voltage_v", "code")
_ACTIVATION = ("gain", "offset", "balance")
_FILE = ("schema", "process", "circuit", "dac_bits", "channels", "activations", "outputs")
MAX_DAC_BITS = 32
# Files have nine digits, so that 2π itself may be rounded up.
PHASE_ROUNDING_RAD = 1e-8


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
        outputs: Receiver scale by output fibre label: level = scale · √(power - dark power).
        inputs: Amplitude of the highest level, 0 … 1, by input fibre label. Servers that are missing send full scale.
        input_scales: Value that an input sends with amplitude 1, by input fibre label: value = scale · amplitude. Only
            chips whose inputs are values and not levels have them.
        output_offsets: Value that a receiver of fields adds, by output fibre label: value = scale · field + offset.
            Only chips whose outputs are values and not levels have them.
        phases: Phase in rad of the local oscillator by output fibre label, for coherent receivers.
        dark: Dark power by output fibre label, relative to a field of amplitude 1: what the modulator of an output
            sends at level 0. Receivers that are missing have none.
    """

    process: str
    circuit: str
    dac_bits: int
    labels: tuple[str, ...]
    phase_rad: Floats
    power_w: Floats
    voltage_v: Floats
    code: Ints
    activations: Mapping[str, Activation] = field(default_factory=dict)
    outputs: Mapping[str, float] = field(default_factory=dict)
    inputs: Mapping[str, float] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)
    dark: Mapping[str, float] = field(default_factory=dict)
    input_scales: Mapping[str, float] = field(default_factory=dict)
    output_offsets: Mapping[str, float] = field(default_factory=dict)


def write_bias(bias: Bias, path: str | Path) -> None:
    """Write a bias to a ``.bias.yml`` file atomically."""
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
        "outputs": {
            label: {"scale": float(scale)}
            | {
                key: float(held[label])
                for key, held in (("phase_rad", bias.phases), ("dark", bias.dark), ("offset", bias.output_offsets))
                if label in held
            }
            for label, scale in bias.outputs.items()
        },
    }
    inputs = {label: {"amplitude": float(amplitude)} for label, amplitude in bias.inputs.items()}
    for label, scale in bias.input_scales.items():
        inputs.setdefault(label, {})["scale"] = float(scale)
    if inputs:
        data["inputs"] = inputs
    dump_yaml(Path(path), data)


def _rounded(value: float) -> float:
    """Round to nine digits, so that rounding errors do not change the file; the codes alone drive the chip."""
    return float(f"{value:.9g}")


def read_bias(path: str | Path, process: str | None = None) -> Bias:
    """Read a ``.bias.yml`` file of a process; None accepts any process.

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
    check_schema(data.get("schema"), SCHEMA)
    entries_of("", data, _FILE, ("inputs",))
    bits = data["dac_bits"]
    if type(bits) is not int or not 1 <= bits <= MAX_DAC_BITS:
        raise NetlistError(f"dac_bits is {bits!r}, expected an integer in 1…{MAX_DAC_BITS}; {REMEDY}")
    channels = {label: _channel(f"channel {label!r}", each, bits) for label, each in _section(data, "channels")}
    activations = {
        label: _numbers(f"activation {label!r}", each, _ACTIVATION) for label, each in _section(data, "activations")
    }
    outputs = {
        label: _numbers(f"output {label!r}", each, ("scale",), ("phase_rad", "dark", "offset"))
        for label, each in _section(data, "outputs")
    }
    inputs = {label: _input(label, each) for label, each in _section(data, "inputs")}
    columns = {key: np.array([each[key] for each in channels.values()], dtype=np.float64) for key in _CHANNEL[:3]}
    return Bias(
        process=name_of("process", data["process"]),
        circuit=name_of("circuit", data["circuit"]),
        dac_bits=bits,
        labels=tuple(channels),
        code=np.array([each["code"] for each in channels.values()], dtype=np.int64),
        activations={label: Activation(**each) for label, each in activations.items()},
        outputs={label: each["scale"] for label, each in outputs.items()},
        phases={label: each["phase_rad"] for label, each in outputs.items() if "phase_rad" in each},
        dark={label: _dark(label, each["dark"]) for label, each in outputs.items() if "dark" in each},
        output_offsets={label: each["offset"] for label, each in outputs.items() if "offset" in each},
        inputs={label: each["amplitude"] for label, each in inputs.items() if "amplitude" in each},
        input_scales={label: each["scale"] for label, each in inputs.items() if "scale" in each},
        **columns,
    )


def _section(data: Mapping[str, Any], key: str) -> ItemsView[str, Any]:
    """Labels and entries of a section."""
    return mapping_of(key, data.get(key, {})).items()


def _numbers(where: str, entry: Any, keys: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, float]:
    values = entries_of(where, entry, keys, optional)
    return {key: number_of(f"{where}: {key}", value) for key, value in values.items()}


def _channel(where: str, entry: Any, bits: int) -> dict[str, float]:
    """Values of a channel, each in the range that it has whatever the chip."""
    code = index_of(f"{where}: code", entries_of(where, entry, _CHANNEL)["code"], 2**bits)
    values = _numbers(where, {key: entry[key] for key in _CHANNEL[:3]}, _CHANNEL[:3])
    for key, value in values.items():
        if value < 0.0:
            raise NetlistError(f"{where}: {key} is {value:g}, which must not be below 0; {REMEDY}")
    if values["phase_rad"] > 2.0 * math.pi + PHASE_ROUNDING_RAD:
        raise NetlistError(f"{where}: phase_rad is {values['phase_rad']:.9g}, beyond 2π; {REMEDY}")
    if (values["power_w"] > 0.0) != (values["voltage_v"] > 0.0):
        raise NetlistError(
            f"{where}: power_w is {values['power_w']:g} and voltage_v {values['voltage_v']:g}, of which only one is 0; "
            f"{REMEDY}"
        )
    return values | {"code": code}


def _dark(label: str, power: float) -> float:
    if not 0.0 <= power <= 1.0:
        raise NetlistError(f"output {label!r}: dark {power:g} is outside 0 … 1, the power of a modulator; {REMEDY}")
    return power


def _input(label: str, entry: Any) -> dict[str, float]:
    """Amplitude of the highest level of an input, or value at amplitude 1."""
    keys = ("scale",) if isinstance(entry, Mapping) and "scale" in entry else ("amplitude",)
    values = _numbers(f"input {label!r}", entry, keys)
    amplitude, scale = values.get("amplitude", 1.0), values.get("scale", 1.0)
    if not 0.0 <= amplitude <= 1.0:
        raise NetlistError(
            f"input {label!r}: amplitude {amplitude:g} is outside 0 … 1, the range of a modulator; {REMEDY}"
        )
    if not 0.0 < scale < math.inf:
        raise NetlistError(f"input {label!r}: scale {scale:g} must be a number above 0; {REMEDY}")
    return values
