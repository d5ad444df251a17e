"""The package as a whole: exports, imports at start, contents of wheels, and import contracts."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest

import optinc_pdk

ROOT = Path(__file__).parent.parent

MATHEMATICS = ("cards", "circuit", "averaging", "factor", "models", "drive", "networks", "assemble", "simulate")
LAYOUT_TOOLS = {"gdsfactory", "kfactory", "klayout", "sax", "jax", "torch", "matplotlib"}


def python(code: str) -> str:
    """Run `code` in an interpreter of its own and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def modules_loaded_by(statement: str) -> set[str]:
    return set(python(f"import sys\n{statement}\nprint(*sys.modules)").split())


@pytest.mark.parametrize("name", optinc_pdk.__all__)
def test_every_exported_name_resolves(name: str) -> None:
    value = getattr(optinc_pdk, name)
    assert value is not None
    assert name in dir(optinc_pdk)
    assert getattr(optinc_pdk, name) is value


def test_pdk_is_that_of_the_default_process() -> None:
    assert optinc_pdk.PDK is optinc_pdk.get_pdk()
    assert callable(optinc_pdk.PDK.activate)


def test_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert optinc_pdk.__version__ == project["version"]


def test_an_unknown_name_is_reported_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"'nonsense'.*Averaging"):
        getattr(optinc_pdk, "nonsense")  # noqa: B009 - a plain attribute would not pass the type checker


def test_import_of_the_package_loads_no_module_of_it() -> None:
    modules = {name for name in modules_loaded_by("import optinc_pdk") if name.startswith("optinc_pdk.")}
    assert modules == set()


@pytest.mark.full(every=3)
@pytest.mark.parametrize("package", MATHEMATICS)
def test_mathematics_starts_without_layout_tools(package: str) -> None:
    loaded = {name.partition(".")[0] for name in modules_loaded_by(f"import optinc_pdk.{package}")}
    assert not loaded & LAYOUT_TOOLS


@pytest.mark.parametrize("package", ["extract", "signoff.lvs"])
def test_extraction_and_lvs_start_without_the_generator(package: str) -> None:
    loaded = modules_loaded_by(f"import optinc_pdk.{package}")
    generator = {f"optinc_pdk.{name}" for name in ("assemble", "cells", "layout", "pdk", "tech")}
    assert not loaded & (generator | {"gdsfactory", "kfactory"})


def test_factor_starts_without_slow_imports() -> None:
    loaded = modules_loaded_by("import optinc_pdk.factor")
    assert not loaded & {"numba", "pydantic", "scipy.linalg", "scipy.optimize", "scipy.sparse", "yaml"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package for a test to modify."""
    copytree(ROOT / "optinc_pdk", tmp_path / "optinc_pdk", ignore=ignore_patterns("__pycache__", "*.npz"))
    copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(checkout: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([linter, "--no-cache"], cwd=checkout, capture_output=True, text=True, check=False)


def test_import_contracts_hold(checkout: Path) -> None:
    done = lint_imports(checkout)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "imported", "contract"),
    [
        ("extract/mutant.py", "gdsfactory", "Extraction and sign-off"),
        ("extract/mutant.py", "optinc_pdk.tech", "Extraction and sign-off"),
        ("factor/mutant.py", "klayout.db", "The mathematics"),
        ("cards/mutant.py", "optinc_pdk.circuit", "Packages"),
        ("attic.py", "numpy", "Packages"),
    ],
)
def test_import_contracts_detect_violations(checkout: Path, module: str, imported: str, contract: str) -> None:
    (checkout / "optinc_pdk" / module).write_text(f"import {imported}\n")
    done = lint_imports(checkout)
    assert done.returncode == 1, done.stdout
    broken = [line for line in done.stdout.splitlines() if re.search(r" BROKEN\b", line)]
    assert any(line.startswith(contract) for line in broken), done.stdout


def build_wheel(tmp_path: Path, version: str) -> set[str]:
    """The names in the wheel that `hatchling` builds of the checkout."""
    build = (
        "from hatchling.builders.wheel import WheelBuilder\n"
        f"print(*WheelBuilder({str(ROOT)!r}).build(directory={str(tmp_path)!r}, versions=[{version!r}]))"
    )
    with zipfile.ZipFile(python(build).splitlines()[-1]) as wheel:
        return set(wheel.namelist())


def files_of(folder: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_carries_the_data(tmp_path: Path) -> None:
    names = build_wheel(tmp_path, "standard")
    data = {f"optinc_pdk/{name}" for folder in ("components", "netlists") for name in files_of(folder)}
    assert data
    assert data | files_of("optinc_pdk") <= names


def test_editable_install_carries_no_copy_of_the_data(tmp_path: Path) -> None:
    names = build_wheel(tmp_path, "editable")
    assert not {name for name in names if name.startswith(("optinc_pdk/components", "components"))}


def test_the_files_and_tests_that_make_and_ci_name_are_there() -> None:
    scripts = (ROOT / "Makefile", *(each for each in (ROOT / ".ci").iterdir() if each.is_file()))
    named = {
        name
        for each in scripts
        for name in re.findall(r"\b(?:tests|benchmarks|examples)/[\w./]+(?:::\w+)?", each.read_text())
    }
    assert len(named) > 15
    for name in named:
        path, _, test = name.rstrip(".").partition("::")
        assert (ROOT / path).exists(), name
        assert not test or re.search(rf"^def {test}\(", (ROOT / path).read_text(), re.MULTILINE), name
