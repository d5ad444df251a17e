"""Examples in docstrings of what the packages export: every one runs, or, where it takes long, could be called."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import optinc_pdk
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import write_netlist
from optinc_pdk.networks import carry_chain

METHODS = (FunctionType, classmethod, staticmethod, property)
PARSER = doctest.DocTestParser()
SOURCES = sorted(Path(optinc_pdk.__file__).parent.rglob("*.py"))


def public_docstrings() -> Iterator[tuple[str, str]]:
    """Name and docstring of every function and class of ``__all__`` of every package, and of the classes' methods."""
    packages = [one.name for one in pkgutil.walk_packages(optinc_pdk.__path__, "optinc_pdk.") if ".cli" not in one.name]
    for package in ("optinc_pdk", *packages):
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            item = getattr(module, name)
            if not (inspect.isfunction(item) or inspect.isclass(item)) or not item.__module__.startswith("optinc_pdk."):
                continue
            members = list(vars(item).items()) if inspect.isclass(item) else []
            methods = ((f".{key}", each) for key, each in members if key[0] != "_" and isinstance(each, METHODS))
            for suffix, each in (("", item), *methods):
                if ">>> " in (each.__doc__ or ""):
                    yield f"{item.__module__}.{item.__qualname__}{suffix}", inspect.cleandoc(each.__doc__)


EXAMPLES = dict(public_docstrings())


@pytest.fixture(scope="module")
def drawn_chip(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Layout and netlist of a small chip, which examples read as ``out/mine.gds`` and ``out/mine.pic.yml``."""
    from optinc_pdk.layout import lay_out_network, to_layout, write_gds

    folder, process = tmp_path_factory.mktemp("drawn_chip"), load_process()
    circuit, chip = lay_out_network(carry_chain(Averaging(2, 2, 1)), process, "mine")
    write_gds(to_layout(chip, process, "mine"), folder / "mine.gds")
    write_netlist(circuit, folder / "mine.pic.yml")
    return folder / "mine.gds", folder / "mine.pic.yml"


def run(name: str, text: str) -> str:
    """Run the statements of an example that are not marked as slow, and return what differs from their output."""
    examples = PARSER.get_examples(text)
    quick = [each for each in examples if doctest.SKIP not in each.options]
    test = doctest.DocTest(quick, {"__name__": "__main__"}, name, None, None, text)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
    if not report:
        for each in examples:
            if doctest.SKIP in each.options:
                bind(each.source, test.globs)
    return "".join(report)


def bind(source: str, names: dict[str, Any]) -> None:
    """Check that a call, whose result a statement may name, has the arguments of its function; the call is not made.

    Names that slow statements before it give to their results stand for any value.

    Raises:
        TypeError: The function does not have these arguments.
        NameError: A name is not defined.
    """
    (statement,) = ast.parse(source).body
    assert isinstance(statement, ast.Assign | ast.Expr), f"{source.strip()}: a slow example is one call"
    call = statement.value
    assert isinstance(call, ast.Call), f"{source.strip()}: a slow example is one call"

    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "<example>", "eval"), names)

    arguments = {each.arg: value(each.value) for each in call.keywords if each.arg is not None}
    inspect.signature(value(call.func)).bind(*map(value, call.args), **arguments)
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        assert isinstance(target, ast.Name)
        names[target.id] = None


def test_the_functions_used_most_have_examples() -> None:
    assert len(EXAMPLES) >= 40
    assert {
        "optinc_pdk.pipeline.building.build",
        "optinc_pdk.networks.network.AveragingNetwork.load",
    } <= EXAMPLES.keys()


def test_every_example_of_the_sources_is_run() -> None:
    written = sum(path.read_text(encoding="utf-8").count(">>> ") for path in SOURCES)
    assert written == sum(text.count(">>> ") for text in EXAMPLES.values())


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, drawn_chip: tuple[Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    for path in drawn_chip:
        (tmp_path / "out" / path.name).write_bytes(path.read_bytes())
    assert not (report := run(name, EXAMPLES[name])), f"{name}: its example gives another output\n{report}"


@pytest.mark.parametrize(
    ("source", "fault"),
    [("x = op.build(None, nowhere=1)", TypeError), ("op.build(weights)", NameError), ("op.no_such()", AttributeError)],
)
def test_a_slow_example_with_a_wrong_call_is_refused(source: str, fault: type[Exception]) -> None:
    with pytest.raises(fault):
        bind(source, {"op": optinc_pdk})


def test_another_output_is_reported() -> None:
    assert "Expected" in run("sum", "Add.\n\n    Examples:\n        >>> 1 + 1\n        3\n")
