"""What documents and docstrings name by a dotted path is there, so that a move of a module cannot leave them behind."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(path for folder in ("", "benchmarks", "docs", "netlists") for path in (ROOT / folder).glob("*.md"))
SOURCES = sorted((ROOT / "optinc_pdk").rglob("*.py"))
DOTTED = re.compile(r"\boptinc_pdk(?:\.[A-Za-z_]\w*)+")
ROLE = re.compile(r":(?:class|data|func|meth|mod):`~?([\w.]+)`")


def is_there(path: str) -> bool:
    try:
        pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return False
    return True


def missing(text: str, module: str | None = None) -> Iterator[str]:
    """Names in a text that lead nowhere; those of a module's docstrings may be short."""
    if module is None:
        yield from (path for path in DOTTED.findall(text) if not is_there(path))
        return
    for name in ROLE.findall(text):
        if name.startswith("optinc_pdk."):
            near = [name]
        else:
            classes = [key for key, value in vars(import_module(module)).items() if isinstance(value, type)]
            owners = [module, module.rpartition(".")[0], *(f"{module}.{one}" for one in classes)]
            near = [f"{owner}.{name}" for owner in owners]
        if not any(map(is_there, near)):
            yield name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_page_names_is_there(page: Path) -> None:
    assert list(missing(page.read_text(encoding="utf-8"))) == []


def test_what_docstrings_name_is_there() -> None:
    lost = {}
    for source in SOURCES:
        text = source.read_text(encoding="utf-8")
        if ROLE.search(text):
            parts = source.relative_to(ROOT).with_suffix("").parts
            found = list(missing(text, ".".join(parts).removesuffix(".__init__")))
            lost |= {source.name: found} if found else {}
    assert lost == {}


def test_what_is_gone_is_told() -> None:
    assert list(missing("`optinc_pdk.tolerance.chip` and optinc_pdk.tolerance.read_chip.")) == [
        "optinc_pdk.tolerance.chip"
    ]
    module = "optinc_pdk.tolerance.meshes.blocks"
    assert list(missing(":func:`fitted`, :meth:`like`, :func:`sites`, :mod:`made`", module)) == ["sites"]
    assert list(missing(":func:`optinc_pdk.nowhere.lost`", module)) == ["optinc_pdk.nowhere.lost"]
