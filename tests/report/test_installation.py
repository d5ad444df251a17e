"""The parts of an installation: what is missing or unsuitable is reported with a remedy, and nothing else is."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from optinc_pdk.report import installation
from optinc_pdk.report.installation import STEPS, installation_parts, klayout_part, package_part


def test_this_installation_has_everything_that_is_required() -> None:
    steps: list[str] = []
    parts = installation_parts(steps.append)
    assert tuple(steps) == STEPS == tuple(parts)
    assert [part for each in parts.values() for part in each if part.failed] == []
    packages = {part.name: part.found for part in parts["packages"]}
    assert packages["numpy"] == importlib.metadata.version("numpy")
    assert packages["kfactory"] == importlib.metadata.version("kfactory")
    assert {part.name for part in parts["extras"]} == {"torch", "sax", "dask", "scikit-learn"}
    assert all((part.remedy is None) == (part.status == "ok") for each in parts.values() for part in each)


@pytest.mark.parametrize(
    ("needed", "status"),
    [
        ("numpy>=1", "ok"),
        ("numpy>=99", "unsuitable"),
        ("no-such-package>=1", "missing"),
    ],
)
def test_a_package_is_compared_with_the_versions_needed(needed: str, status: str) -> None:
    part = package_part(Requirement(needed))
    assert (part.status, part.failed) == (status, status != "ok")
    assert part.remedy == (None if status == "ok" else f"pip install '{needed}'")
    optional = package_part(Requirement(needed), "train")
    assert (optional.status, optional.failed) == (status, False)
    assert optional.remedy == (None if status == "ok" else "pip install 'optinc-pdk[train]'")


@pytest.mark.parametrize(("needed", "status"), [("scikit-learn>=1", "ok"), ("scikit-learn>=99", "unsuitable")])
def test_an_optional_package_without_an_extra_is_not_required(needed: str, status: str) -> None:
    part = package_part(Requirement(needed))
    assert (part.status, part.required) == (status, False)
    assert part.remedy == (None if status == "ok" else f"pip install '{needed}'")
    assert "networks of scikit-learn" in part.found


def test_a_package_whose_import_fails_is_unsuitable(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise OSError(f"lib{name}.so: cannot open shared object file")

    monkeypatch.setattr(installation, "import_module", broken)
    part = package_part(Requirement("numpy>=1"))
    assert part.failed and "libnumpy.so" in part.found and "--force-reinstall" in (part.remedy or "")


def test_a_required_package_that_is_missing_does_not_end_the_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = importlib.metadata.version

    def without_scipy(name: str) -> str:
        if name == "scipy":
            raise importlib.metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(installation, "version", without_scipy)
    parts = installation_parts()
    assert [part.name for each in parts.values() for part in each if part.failed] == ["scipy"]


def program(folder: Path, script: str) -> dict[str, str]:
    path = folder / "klayout"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.skipif(sys.platform != "linux", reason="the program is a shell script, and displays are those of Linux")
def test_klayouts_application_is_optional(tmp_path: Path) -> None:
    missing = klayout_part({"PATH": str(tmp_path)})
    assert (missing.status, missing.failed) == ("missing", False) and "klayout" in (missing.remedy or "")
    environment = program(tmp_path, "echo KLayout 0.30.1")
    found = klayout_part(environment)
    assert (found.status, found.remedy) == ("ok", None)
    assert found.found.startswith(f"0.30.1, {tmp_path / 'klayout'}; no display")
    assert klayout_part({**environment, "DISPLAY": ":0"}).found == f"0.30.1, {tmp_path / 'klayout'}"
    broken = klayout_part(program(tmp_path, "exit 1"))
    assert broken.status == "unsuitable" and str(tmp_path) in broken.found


def loops(environment: dict[str, str]) -> str:
    code = (
        "from optinc_pdk.report.installation import _compiled_loops as f; p = f(); print(p.status, p.found, p.remedy)"
    )
    kept = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA")}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True, check=True
    )
    return ended.stdout


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (lambda folder: {"NUMBA_CACHE_DIR": str(folder)}, ("ok 0 in the cache", "{folder}")),
        (lambda folder: {"NUMBA_DISABLE_JIT": "1"}, ("unsuitable", "unset NUMBA_DISABLE_JIT")),
    ],
)
def test_the_cache_of_compiled_loops_is_named(
    environment: Callable[[Path], dict[str, str]], expected: tuple[str, ...], tmp_path: Path
) -> None:
    text = loops(environment(tmp_path))
    assert all(words.format(folder=tmp_path) in text for words in expected)
