"""The import loads numpy only; compiled kernels are cached in the package's folder, the user's cache folder, or not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import optinc_pdk.factor


def run(code: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_import_loads_nothing_heavy() -> None:
    code = """
        import sys
        import optinc_pdk.factor
        print(*{name.partition(".")[0] for name in sys.modules})
    """
    assert not {"scipy", "numba", "gdsfactory", "klayout", "torch", "sax", "jax"} & set(run(code).split())


CALL = "from optinc_pdk.factor import kernels; print(kernels._wrap_phase(-1.0)); print(kernels.__file__)"


def call_from(folder: Path, home: Path) -> None:
    """Calls the smallest kernel of a copy of the package whose cache folder cannot be created."""
    package = folder / "optinc_pdk"
    source = Path(optinc_pdk.factor.__file__).parent
    shutil.copytree(source, package / "factor", ignore=shutil.ignore_patterns("__pycache__"))
    for module in ("validation.py", "errors.py", "compilation.py", "arrays.py", "options.py"):
        shutil.copy(source.parent / module, package)
    (package / "__init__.py").touch()
    # A file instead of the folder: permissions would not stop a superuser.
    (package / "factor" / "__pycache__").touch()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA", "XDG"))}
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment |= {"PYTHONPATH": path, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error", "-c", CALL]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    value, module = ran.stdout.split()
    assert 5.28 < float(value) < 5.29
    assert Path(module).is_relative_to(folder)


def test_a_read_only_installation_uses_the_users_cache(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    call_from(tmp_path, home)
    assert list(home.rglob("*_wrap_phase*.nbc"))


def test_kernels_compile_without_a_writable_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.touch()
    call_from(tmp_path, home)
