"""The benchmark of decompositions runs and prints all rows; no time is checked."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

PATH = Path(__file__).parents[2] / "benchmarks" / "bench_factor.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_factor", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_numpy_variant_nulls_the_same_entries(bench: ModuleType, haar: Callable[[int, int], np.ndarray]) -> None:
    remainder = bench.numpy_slices(haar(9, 0))
    np.testing.assert_allclose(np.abs(remainder), np.eye(9), atol=1e-14)


def test_every_table_has_its_rows(bench: ModuleType) -> None:
    app = typer.Typer()
    app.command()(bench.main)
    ran = CliRunner().invoke(app, ["--sizes", "4,8", "--vectors", "3", "--runs", "1"])
    assert ran.exit_code == 0, ran.output
    for what in ("scipy.linalg.qr", "numpy slices", *bench.PEERS, "apply to 3 vectors", "one batch"):
        assert what in ran.output


@pytest.mark.parametrize("sizes", ["0", "", "a", "4,,8", "1"])
def test_bad_sizes_are_a_usage_error(bench: ModuleType, sizes: str) -> None:
    app = typer.Typer()
    app.command()(bench.main)
    ran = CliRunner().invoke(app, ["--sizes", sizes])
    assert ran.exit_code == 2
    assert repr(sizes) in " ".join(ran.output.replace("│", " ").split())


def test_peers_above_their_size_limit_are_reported(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def peer(_: np.ndarray) -> None:
        raise AssertionError("too large for a peer")

    monkeypatch.setattr(bench, "PEER_MODES", 4)
    monkeypatch.setattr(bench, "load_peers", lambda: {"slow": peer})
    table = bench.bench_decompositions([8], 1)
    assert "left out above N = 4" in list(table.columns[2].cells)
