"""Odd arguments of everything that the packages export: refused by our own validation, with the argument's name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optinc_collective
import optinc_pdk
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.errors import InputError
from optinc_pdk.networks import carry_chain
from optinc_pdk.validation import annotations_of, validate_type

SELF_CHECKED = ("optinc_pdk.cells", "optinc_pdk.cards.consistency", "optinc_collective.schemes")
"""Cells check their parameters themselves, see tests/cells; consistency is a part of the cards' loader. Schemes of
averaging refuse arguments on all ranks together: one rank that refused alone would leave the others waiting."""

NAN = ("__init__", "averaging.score", "simulate.heater_phases", "simulate.s_matrices")
"""Endings of the names of callables that accept NaN in results and words that were not read, or name its heater."""


RECORDS: tuple[type, ...] = (optinc_pdk.BuildOptions, optinc_pdk.CascadeOptions, optinc_pdk.ProgramOptions)


class Odd:
    """An object that no function takes."""


ODD = {
    "None": None,
    "bytes": b"x",
    "object": Odd(),
    "empty text": "",
    "NUL": "a\0b",
    "text": "no such thing",
    "number": 3,
    "huge": 10**400,
    "nan": float("nan"),
    "list": [None, "x"],
    "dictionary": {Odd(): Odd()},
    "array of NaN": np.full((2, 3), np.nan),
    "array of objects": np.array([Odd()]),
    "type": int,
}


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function of ``__all__`` of every package, and constructors and public methods of its classes."""
    packages = (optinc_pdk, optinc_collective)
    modules = [package.__name__ for package in packages]
    for package in packages:
        found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        modules += [one.name for one in found if ".cli" not in one.name]
    seen: set[int] = set()
    for module in modules:
        if module in SELF_CHECKED:
            continue
        namespace = importlib.import_module(module)
        for name in getattr(namespace, "__all__", ()):
            item = getattr(namespace, name)
            if id(item) in seen or inspect.ismodule(item):
                continue
            seen.add(id(item))
            if inspect.isfunction(item):
                yield f"{module}.{name}", item
            elif inspect.isclass(item) and not issubclass(item, BaseException | tuple) and is_ours(item):
                for method, member in vars(item).items():
                    if inspect.isfunction(getattr(member, "__func__", member)) and (
                        method == "__init__" or not method.startswith("_")
                    ):
                        yield f"{module}.{name}.{method}", getattr(item, method)


def is_ours(item: type) -> bool:
    """Whether a class is a plain one of this project; pydantic's models check themselves, protocols have no code."""
    plain = not hasattr(item, "model_fields") and not getattr(item, "_is_protocol", False)
    return plain and item.__module__.startswith("optinc_")


CALLABLES = dict(public_callables())


def accepts(hint: Any, value: Any, nan: bool) -> bool:
    try:
        validate_type("value", value, hint, nan)
    except InputError:
        return False
    return True


def test_there_are_hundreds_of_public_callables() -> None:
    assert len(CALLABLES) > 250
    names = {
        "optinc_pdk.build",
        "optinc_pdk.Circuit.read",
        "optinc_pdk.AveragingNetwork.load",
        "optinc_pdk.factor.rectangular",
    }
    assert names <= CALLABLES.keys()


@pytest.mark.parametrize("name", CALLABLES)
def test_odd_arguments_are_refused_by_name(name: str) -> None:
    function = CALLABLES[name]
    parameters = inspect.signature(function).parameters
    hints = annotations_of(getattr(function, "__func__", function))
    # records of options check themselves; arguments of others are checked before their subject is touched
    record = {f"optinc_pdk.{each.__name__}.__init__": each for each in RECORDS}.get(name, object)
    subject = (object.__new__(record),) if next(iter(parameters), "") == "self" else ()
    for parameter, hint in hints.items():
        if parameter == "return" or hint in (object, Any):
            continue
        variadic = parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL
        wrong = [value for value in ODD.values() if not accepts(hint, value, name.endswith(NAN))]
        assert wrong, f"{parameter}: {hint} takes anything"
        for value in wrong:
            with pytest.raises(InputError, match=rf"\b{parameter}\b"):
                function(*subject, value) if variadic else function(*subject, **{parameter: value})


def _calls(folder: Path) -> list[tuple[Callable[[], object], str]]:
    """Calls of the documented interface with one odd argument, and words of the message."""
    op, task = optinc_pdk, Averaging(2, 2, 1)
    onn, circuit_file = carry_chain(task), folder / "x.pic.yml"
    return [
        (lambda: op.build(folder / "missing.npz", folder), "missing.npz"),
        (lambda: op.build(str(folder), folder), "not read"),
        (lambda: op.build(onn, folder, op.BuildOptions(name="ä" * 40)), "name"),
        (lambda: op.build(onn, folder, op.BuildOptions(process="nix")), "process"),
        (lambda: op.build(onn, folder, op.BuildOptions(accept=["loss", "area"])), "area"),
        (lambda: op.build(onn, folder, op.BuildOptions(accept="loss")), "accept"),
        (lambda: op.build_cascade(folder, op.CascadeOptions(bits=2, servers=2, accept=["area"])), "area"),
        (lambda: op.build(onn, folder, op.BuildOptions(input_amplitudes=[float("nan")])), "amplitudes"),
        (lambda: op.build(onn, folder, op.BuildOptions(input_amplitudes=["x"])), "amplitudes"),
        (lambda: op.build(onn, folder, op.BuildOptions(input_amplitudes=[1.0] * 99)), "amplitudes"),
        (lambda: op.AveragingNetwork.load(circuit_file), "x.pic.yml"),
        (lambda: op.Circuit.read(circuit_file), "x.pic.yml"),
        (lambda: op.Averaging(10**20, 4, 2), "bits"),
        (lambda: op.Averaging(4, -1, 2), "servers"),
        (lambda: op.Averaging(4, 10**20, 2), "servers"),
        (lambda: op.Averaging(4, 4, 0), "groups"),
        (lambda: op.factor.rectangular(np.ones((2, 3))), "square|shape"),
        (lambda: op.factor.rectangular(np.ones((0, 0))), "empty"),
        (lambda: op.factor.rectangular(np.full((2, 2), np.inf)), "finite"),
        (lambda: op.factor.svd(np.ones(3)), "shape"),
        (lambda: op.factor.unitary_mzis(-1), "-1"),
        (lambda: carry_chain(3), "task"),  # type: ignore[arg-type]
    ]


def test_the_documented_interface_names_what_is_wrong(tmp_path: Path) -> None:
    for number, (call, words) in enumerate(_calls(tmp_path)):
        with pytest.raises(ValueError, match=words) as caught:
            call()
        assert caught.traceback[-1].path.is_relative_to(Path(optinc_pdk.__file__).parent), number


def test_paths_may_be_text_or_paths(tmp_path: Path) -> None:
    onn = carry_chain(Averaging(2, 2, 1))
    for path in (tmp_path / "a.npz", str(tmp_path / "b.npz")):
        onn.save(path)
        assert optinc_pdk.AveragingNetwork.load(path).task == onn.task
        assert optinc_pdk.AveragingNetwork.load(str(path)).task == onn.task
    for process in ("soi220", load_process().folder, str(load_process().folder)):
        assert load_process(process).name == "soi220"
        assert optinc_pdk.get_pdk(process) is optinc_pdk.PDK
