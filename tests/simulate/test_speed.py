"""The benchmark compares what it says; times decide nothing here."""

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
    # where dataclasses look for their annotations
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("whole", [False, True])
def test_sax_does_the_same_work(bench, whole):
    jax.config.update("jax_enable_x64", True)
    mine, theirs = bench.ours(3, False, 2), bench.by_sax(3, False, whole)
    assert theirs.s == pytest.approx(mine.s, abs=1e-12)
    assert min(mine.first, mine.wavelength, mine.bias, theirs.first, theirs.wavelength, mine.peak_mb) > 0.0


@pytest.mark.parametrize("arguments", [["--modes", "a"], ["--modes", "1"], ["--wavelengths", "0"], ["--large", "-1"]])
def test_bad_sizes_are_a_usage_error(bench, arguments):
    app = typer.Typer()
    app.command()(bench.main)
    assert CliRunner().invoke(app, arguments).exit_code == 2
