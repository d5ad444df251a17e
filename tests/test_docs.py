"""Every dotted name in documents and docstrings exists, so that a moved module cannot leave a stale name behind."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [path for folder in ("", "benchmarks", "netlists") for path in (ROOT / folder).glob("*.md")]
    + list((ROOT / "docs").rglob("*.md"))
)
SOURCES = sorted(path for name in ("optinc_pdk", "optinc_collective") for path in (ROOT / name).rglob("*.py"))
DOTTED = re.compile(r"\boptinc_(?:pdk|collective)(?:\.[A-Za-z_]\w*)+")
LINK = re.compile(r"\]\(([^)\s]+)\)")
ROLE = re.compile(r":(?:class|data|func|meth|mod):`~?([\w.]+)`")


def exists(path: str) -> bool:
    try:
        pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return False
    return True


def missing(text: str, module: str | None = None) -> Iterator[str]:
    """Names in a text that do not exist; names in the docstrings of ``module`` may be relative to it."""
    if module is None:
        yield from (path for path in DOTTED.findall(text) if not exists(path))
        return
    for name in ROLE.findall(text):
        if name.startswith(("optinc_pdk.", "optinc_collective.")):
            near = [name]
        else:
            classes = [key for key, value in vars(import_module(module)).items() if isinstance(value, type)]
            owners = [module, module.rpartition(".")[0], *(f"{module}.{one}" for one in classes)]
            near = [f"{owner}.{name}" for owner in owners]
        if not any(map(exists, near)):
            yield name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_in_a_page_exist(page: Path) -> None:
    assert list(missing(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_a_page_links_to_exist(page: Path) -> None:
    links = (link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8")))
    assert [link for link in links if link and "://" not in link and not (page.parent / link).exists()] == []


def test_names_in_docstrings_exist() -> None:
    lost = {}
    for source in SOURCES:
        text = source.read_text(encoding="utf-8")
        if ROLE.search(text):
            parts = source.relative_to(ROOT).with_suffix("").parts
            found = list(missing(text, ".".join(parts).removesuffix(".__init__")))
            lost |= {source.name: found} if found else {}
    assert lost == {}


def test_a_missing_name_is_reported() -> None:
    assert list(missing("`optinc_pdk.studies.chip` and optinc_pdk.studies.read_chip.")) == ["optinc_pdk.studies.chip"]
    module = "optinc_pdk.factor.correction"
    assert list(missing(":func:`fit_chain`, :meth:`ChainPhases.joined`, :func:`sites`, :mod:`mesh_shape`", module)) == [
        "sites"
    ]
    assert list(missing(":func:`optinc_pdk.nowhere.lost`", module)) == ["optinc_pdk.nowhere.lost"]


def test_the_tests_of_formats_are_there() -> None:
    page = (ROOT / "docs" / "formats.md").read_text()
    named = set(re.findall(r"`(?:(test_\w+\.py)(?:::(test_\w+))?|(test_\w+))`", page))
    assert len(named) > 10
    sources = {
        path.name: path.read_text()
        for folder in ("networks", "matrices")
        for path in (ROOT / "tests" / folder).glob("*.py")
    }
    for file, test, alone in named:
        assert not file or file in sources, file
        assert not (test or alone) or any(f"def {test or alone}(" in text for text in sources.values()), test or alone
