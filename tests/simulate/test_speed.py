"""The benchmark's solvers give the same S-parameters; times are not tested."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import jax
import pytest
import typer
from typer.testing import CliRunner

PATH = Path(__file__).parents[2] / "benchmarks" / "bench_simulate.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_simulate", PATH)
    module = importlib.util.module_from_spec(spec)
    # dataclasses look up their annotations here
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("whole", [False, True])
def test_sax_gives_the_same_s_parameters(bench, whole):
    jax.config.update("jax_enable_x64", True)
    ours, theirs = bench.ours(3, False, 2), bench.by_sax(3, False, whole)
    assert theirs.s == pytest.approx(ours.s, abs=1e-12)
    assert min(ours.first, ours.wavelength, ours.bias, theirs.first, theirs.wavelength, ours.peak_mb) > 0.0


@pytest.mark.parametrize("arguments", [["--modes", "a"], ["--modes", "1"], ["--wavelengths", "0"], ["--large", "-1"]])
def test_bad_sizes_are_a_usage_error(bench, arguments):
    app = typer.Typer()
    app.command()(bench.main)
    assert CliRunner().invoke(app, arguments).exit_code == 2
