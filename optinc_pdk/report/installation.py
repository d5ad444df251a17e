"""The installation: what is there, what is missing or of an unsuitable version, and how to get it.

Packages and their versions are those that the metadata of optinc-pdk states.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from optinc_pdk.errors import InputError
from optinc_pdk.memory_limit import machine_memory_gb

PACKAGE = "optinc-pdk"
STEPS = ("packages", "extras", "programs", "machine")
EXTRAS = {"train": "optinc train and search", "sax": "SAX models in Python", "scale": "optinc yield --scheduler"}
"""What each extra of the package is for; those of developers are left out."""
OPTIONAL = {"scikit-learn": "networks of scikit-learn, examples and tutorials"}
"""What optional packages are for that have no extra of their own."""
MODULES = {"dask": "distributed", "klayout": "klayout.lay", "pyyaml": "yaml", "scikit-learn": "sklearn"}
"""Modules to import for packages that have another name."""
FONTS = ("DejaVu Sans", "DejaVu Sans Mono")
"""Fonts of pictures and drawings; matplotlib brings them."""
KLAYOUT_REMEDY = {
    "Linux": "apt install klayout, or https://www.klayout.de/build.html",
    "Darwin": "brew install --cask klayout",
}
CACHE_REMEDY = "set NUMBA_CACHE_DIR to a folder that can be written"
_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Part:
    """A part of the installation.

    Attributes:
        name: Name, such as that of a package.
        status: ``ok``, ``missing``, or ``unsuitable`` for another version or an import that fails.
        found: What was found, or what the part is for if it is missing.
        required: Whether commands need it; what is not required has a purpose in ``found``.
        remedy: How to get it, or None if it is there.
    """

    name: str
    status: Literal["ok", "missing", "unsuitable"]
    found: str
    required: bool = True
    remedy: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the part is required and cannot be used."""
        return self.required and self.status != "ok"


def installation_parts(on_step: Callable[[str], None] = lambda _: None) -> dict[str, tuple[Part, ...]]:
    """Examine the installation; imports every package, which takes seconds. Returns the parts by step.

    ``on_step`` is called with each of ``STEPS`` before it.
    """
    examined: dict[str, Callable[[], tuple[Part, ...]]] = {
        "packages": _packages,
        "extras": _extras,
        "programs": lambda: (klayout_part(os.environ), *_fonts()),
        "machine": lambda: (_process_cards(), _compiled_loops(), _memory(), _cores()),
    }
    parts = {}
    for step in STEPS:
        on_step(step)
        parts[step] = examined[step]()
    return parts


def _packages() -> tuple[Part, ...]:
    python = platform.python_version()
    needed = SpecifierSet(metadata(PACKAGE)["Requires-Python"] or "")
    suits = needed.contains(python)
    interpreter = Part(
        "Python",
        "ok" if suits else "unsuitable",
        f"{python}, {sys.executable}" + ("" if suits else f"; needs {needed}"),
        remedy=None if suits else f"an environment with Python {needed}",
    )
    own = Part(PACKAGE, "ok", version(PACKAGE))
    required = [Requirement(text) for text in requires(PACKAGE) or () if "extra ==" not in text]
    # gdsfactory brings kfactory, and decides on its version
    kfactory = [Requirement(text) for text in _requires("gdsfactory") if Requirement(text).name == "kfactory"]
    return (interpreter, own, *(package_part(each) for each in (*required, *kfactory)))


def _requires(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def _extras() -> tuple[Part, ...]:
    needed = [Requirement(text) for text in requires(PACKAGE) or () if "extra ==" in text]
    parts = [
        package_part(each, extra)
        for extra in EXTRAS
        for each in needed
        if each.marker is not None and each.marker.evaluate({"extra": extra})
    ]
    # several extras of developers bring them, with the same versions
    others = {each.name: each for each in needed if each.name in OPTIONAL}
    return (*parts, *(package_part(each) for each in others.values()))


def package_part(needed: Requirement, extra: str | None = None) -> Part:
    """Examine a package: whether it is installed, of a suitable version, and can be imported.

    ``extra`` is the extra of optinc-pdk that brings the package; None for a package that every installation has, or
    that is one of ``OPTIONAL``.
    """
    use = EXTRAS[extra] if extra else OPTIONAL.get(needed.name)
    purpose = f" ({use})" if use else ""
    required = use is None
    remedy = f"pip install '{PACKAGE}[{extra}]'" if extra else f"pip install '{needed.name}{needed.specifier}'"
    try:
        installed = version(needed.name)
    except PackageNotFoundError:
        return Part(needed.name, "missing", f"needs {needed.specifier}{purpose}", required, remedy)
    if not needed.specifier.contains(installed, prereleases=True):
        found = f"{installed}; needs {needed.specifier}{purpose}"
        return Part(needed.name, "unsuitable", found, required, remedy)
    try:
        import_module(MODULES.get(needed.name, needed.name))
    except Exception as fault:
        reinstalled = remedy.replace("pip install", "pip install --force-reinstall", 1)
        found = f"{installed}, but its import fails: {fault}{purpose}"
        return Part(needed.name, "unsuitable", found, required, reinstalled)
    return Part(needed.name, "ok", f"{installed}{purpose}", required)


def klayout_part(environment: Mapping[str, str]) -> Part:
    """Find KLayout's application: ``optinc view`` opens it, and it runs the scripts of ``optinc process deck``."""
    name = "KLayout application"
    path = shutil.which("klayout", path=environment.get("PATH"))
    if path is None:
        remedy = KLAYOUT_REMEDY.get(platform.system(), "https://www.klayout.de/build.html")
        return Part(name, "missing", "without it, optinc view opens report pages or writes pictures", False, remedy)
    try:
        ended = subprocess.run(
            [path, "-zz", "-v"], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as fault:
        return Part(name, "unsuitable", f"{path}, but it does not start: {fault}", False, "install it again")
    display = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    note = "" if display or platform.system() != "Linux" else "; no display: optinc view writes pictures"
    return Part(name, "ok", f"{ended.stdout.strip().removeprefix('KLayout ')}, {path}{note}", False)


def _fonts() -> tuple[Part, ...]:
    try:
        from matplotlib.font_manager import findfont
    except ImportError:  # a part of its own
        return ()
    parts = []
    for font in FONTS:
        try:
            parts.append(Part(font, "ok", Path(findfont(font, fallback_to_default=False)).name, False))
        except ValueError:
            remedy = "pip install --force-reinstall matplotlib"
            parts.append(Part(font, "missing", "the font of pictures and drawings", False, remedy))
    return tuple(parts)


def _process_cards() -> Part:
    name = "process cards"
    try:
        from optinc_pdk.cards.loader import components_folder, load_process, process_names

        load_process()
        return Part(name, "ok", f"{len(process_names())} processes, {components_folder()}")
    except (ImportError, InputError) as fault:
        return Part(name, "unsuitable", str(fault), remedy=f"pip install --force-reinstall {PACKAGE}")


def _compiled_loops() -> Part:
    """Where numba keeps compiled loops: beside their files, or in the user's cache folder."""
    name = "compiled loops"
    try:
        from optinc_pdk.factor.kernels import propagate
    except ImportError as fault:  # numba is a part of its own
        return Part(name, "unsuitable", str(fault), False, CACHE_REMEDY)
    if not hasattr(propagate, "stats"):
        return Part(name, "unsuitable", "numba does not compile, which is slow", False, "unset NUMBA_DISABLE_JIT")
    folder = propagate.stats.cache_path
    if folder is None or not os.access(folder, os.W_OK):
        return Part(name, "missing", "no cache: every process compiles them, within seconds", False, CACHE_REMEDY)
    count = sum(entry.name.endswith(".nbc") for entry in os.scandir(folder))
    return Part(name, "ok", f"{count} in the cache {folder}", False)


def _memory() -> Part:
    return Part("memory", "ok", f"{machine_memory_gb():.1f} GB for a process", False)


def _cores() -> Part:
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    cores = len(affinity(0)) if affinity else os.cpu_count()
    threads = os.environ.get("OMP_NUM_THREADS")
    return Part("cores", "ok", f"{cores}" + (f", OMP_NUM_THREADS={threads}" if threads else ""), False)
