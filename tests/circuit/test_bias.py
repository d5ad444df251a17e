"""The ``.bias.yml`` file: round trip, and errors for invalid files."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optinc_pdk.circuit import Activation, Bias, NetlistError, read_bias, write_bias

from .conftest import drop, put

LABELS = st.text("abc_019éß'\"#:-", min_size=1, max_size=8)
NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)
NINE_DIGITS = 1e-8


@st.composite
def biases(draw: st.DrawFn) -> Bias:
    labels = draw(st.lists(LABELS, max_size=6, unique=True))
    bits = draw(st.integers(1, 32))
    # a phase within a turn; a power and a voltage of the same sign
    phase, power, voltage = (
        st.lists(st.floats(low, 6.28), min_size=len(labels), max_size=len(labels)).map(
            lambda v: np.array(v, dtype=float)
        )
        for low in (0.0, 1e-9, 1e-9)
    )
    code = draw(st.lists(st.integers(0, 2**bits - 1), min_size=len(labels), max_size=len(labels)))
    return Bias(
        process=draw(LABELS),
        circuit=draw(LABELS),
        dac_bits=bits,
        labels=tuple(labels),
        phase_rad=draw(phase),
        power_w=draw(power),
        voltage_v=draw(voltage),
        code=np.array(code, dtype=np.int64),
        activations=draw(st.dictionaries(LABELS, st.builds(Activation, NUMBERS, NUMBERS, NUMBERS), max_size=3)),
        outputs=draw(st.dictionaries(LABELS, NUMBERS, max_size=3)),
    )


@given(bias=biases())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bias_is_read_as_written(bias: Bias, tmp_path: Path) -> None:
    path = tmp_path / "c.bias.yml"
    write_bias(bias, path)
    back = read_bias(path)
    for f in fields(Bias):
        one, other = getattr(back, f.name), getattr(bias, f.name)
        if f.name in ("phase_rad", "power_w", "voltage_v"):
            np.testing.assert_allclose(one, other, rtol=NINE_DIGITS)
        elif f.name == "code":
            assert one.dtype == np.int64
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other, f.name
    first = path.read_bytes()
    write_bias(back, path)
    assert path.read_bytes() == first


def test_rounding_errors_of_a_phase_do_not_change_the_file(tmp_path: Path) -> None:
    def text(phase: float) -> bytes:
        one = np.array([phase])
        bias = Bias("p", "c", 8, ("a",), one, one, one, np.array([3]))
        write_bias(bias, tmp_path / "c.bias.yml")
        return (tmp_path / "c.bias.yml").read_bytes()

    assert text(1.2345678901) == text(np.nextafter(1.2345678901, 2))


def written(folder: Path) -> dict[str, Any]:
    one = np.array([1.0, 2.0])
    bias = Bias(
        "p", "c", 8, ("a", "b"), one, one, one, np.array([0, 255]), {"n": Activation(1.0, 0.5, 1.1)}, {"out": 3.0}
    )
    write_bias(bias, folder / "c.bias.yml")
    return dict(yaml.safe_load((folder / "c.bias.yml").read_text()))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("channels", "a", "code", 256), "channel 'a': code is 256, .* 0…255; "),
        (put("channels", "a", "code", -1), "code is -1, .* 0…255"),
        (put("channels", "a", "code", 1.0), r"code is 1\.0, expected an integer"),
        (put("channels", "a", "code", True), "code is True, expected an integer"),
        (put("channels", "a", "code", "7"), "code is '7', expected an integer"),
        (put("channels", "a", "phase_rad", float("nan")), "'a': phase_rad is nan, expected a finite"),
        (put("channels", "b", "power_w", float("inf")), "'b': power_w is inf, expected a finite"),
        (put("channels", "b", "voltage_v", "1"), "'b': voltage_v is '1', expected a finite"),
        (put("channels", "b", "voltage_v", True), "'b': voltage_v is True, expected a finite"),
        (put("channels", "b", "voltage_v", 10**60), "'b': voltage_v is 10+\\.\\.\\.0+, expected a finite"),
        (put("channels", "b", "voltage_v", 10**400), "expected a finite number"),
        (put("channels", "a", "colour", 1), "channel 'a': unknown key 'colour'"),
        (drop("channels", "a", "code"), "channel 'a': code is missing"),
        (put("channels", "a", 7), "channel 'a' is 7"),
        (put("channels", [1]), r"channels is \[1\]"),
        (put("dac_bits", 0), "dac_bits is 0, expected an integer in 1…32"),
        (put("dac_bits", 10**9), "dac_bits is 1000000000"),
        (put("dac_bits", "8"), "dac_bits is '8'"),
        (put("dac_bits", 8.5), r"dac_bits is 8\.5"),
        (put("dac_bits", True), "dac_bits is True"),
        (put("schema", 2), "schema 2, this version reads 1; "),
        (drop("schema"), "schema None, this version reads 1"),
        (put("extra", 1), "unknown key 'extra'"),
        (drop("outputs"), "outputs is missing"),
        (put("instances", {}), r"is a netlist.*\.bias\.yml"),
        (put("activations", "n", "gain", float("nan")), "'n': gain is nan, expected a finite"),
        (put("activations", "n", "colour", 1.0), "activation 'n': unknown key 'colour'"),
        (drop("activations", "n", "balance"), "activation 'n': balance is missing"),
        (put("outputs", "out", "scale", float("inf")), "'out': scale is inf, expected a finite"),
        (put("outputs", "out", "colour", 1.0), "output 'out': unknown key 'colour'"),
        (put("outputs", "out", 3.0), "output 'out' is 3.0"),
        (put("schema", True), "schema True, this version reads 1"),
        (put("process", float("nan")), "process: the name nan is not text"),
        (put("circuit", 7), "circuit: the name 7 is not text"),
        (put("circuit", ""), "circuit: the name '' of 0 characters"),
        (put("channels", "x" * 10_000, {}), "the name 'x+\\.\\.\\.x+' of 10000 characters must have 1 to 256"),
        (put("outputs", "a\nb", {"scale": 1.0}), r"outputs: the name 'a\\nb' of 3 characters .* printable"),
        (put("channels", "a", "phase_rad", -0.1), "channel 'a': phase_rad is -0.1, .* below 0"),
        (put("channels", "a", "power_w", -1.0), "channel 'a': power_w is -1, .* below 0"),
        (put("channels", "a", "voltage_v", -1.0), "channel 'a': voltage_v is -1, .* below 0"),
        (put("channels", "a", "phase_rad", 6.3), r"channel 'a': phase_rad is 6\.3, beyond 2π"),
        (put("channels", "a", "power_w", 0.0), "'a': power_w is 0 and voltage_v 1, of which only one is 0"),
        (put("activations", "n", "offset", 1e40), r"offset is 1e\+40, expected a finite number up to ±1e\+30"),
    ],
)
def test_invalid_files_are_refused_with_file_and_fault(
    change: Callable[[dict[str, Any]], None], reason: str, tmp_path: Path
) -> None:
    data = written(tmp_path)
    change(data)
    path = tmp_path / "damaged.bias.yml"
    path.write_text(yaml.dump(data, sort_keys=False))
    with pytest.raises(NetlistError, match=reason) as caught:
        read_bias(path)
    assert str(caught.value).startswith(str(path))


def test_text_other_than_a_bias_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.bias.yml"
    for text in ("schema: 1\nschema: 1\n", "a: &x []\nb: *x\n", "- 1\n", "a: [", "\x00"):
        path.write_text(text)
        with pytest.raises(NetlistError, match=r"c\.bias\.yml"):
            read_bias(path)
    with pytest.raises(NetlistError, match=r"missing\.bias\.yml"):
        read_bias(tmp_path / "missing.bias.yml")


def test_server_amplitudes_are_read_as_written(tmp_path):
    none = np.zeros(0)
    bias = Bias("p", "c", 16, (), none, none, none, none.astype(np.int64), {}, {}, {"in_s0_m0": 0.97})
    write_bias(bias, tmp_path / "a.bias.yml")
    assert read_bias(tmp_path / "a.bias.yml").inputs == {"in_s0_m0": 0.97}
    text = (tmp_path / "a.bias.yml").read_text().replace("0.97", "1.2")
    (tmp_path / "a.bias.yml").write_text(text)
    with pytest.raises(NetlistError, match=r"in_s0_m0.*1\.2"):
        read_bias(tmp_path / "a.bias.yml")
