"""Results of a command's computations, recorded once, so that only its writing runs again."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

COMPUTATIONS = (
    ("optinc_pdk.tasks.averaging_task", "lattice_score"),
    ("optinc_pdk.tasks.averaging_task", "factorise"),
    ("optinc_pdk.tasks.averaging_task", "draft_circuit"),
    ("optinc_pdk.tasks.averaging_task", "estimated_memory_gb"),
    ("optinc_pdk.tasks.averaging_task", "_speed"),
    ("optinc_pdk.pipeline.sign_off", "_pictures"),
    ("optinc_pdk.report.pinout", "read_pinout"),
    ("optinc_pdk.report.pinout_drawing", "pinout_svg"),
    ("optinc_pdk.extract.golden_devices", "check_golden"),
    ("optinc_pdk.layout", "lay_out"),
    ("optinc_pdk.layout", "to_layout"),
    ("optinc_pdk.signoff.drc.design_rule_check", "run_drc"),
    ("optinc_pdk.extract", "extract"),
    ("optinc_pdk.signoff.lvs.comparison", "compare"),
    ("optinc_pdk.signoff.electrical.wiring", "wiring_of"),
    ("optinc_pdk.simulate", "program"),
    ("optinc_pdk.signoff.electrical.electrical_check", "check_electrical"),
    ("optinc_pdk.simulate", "scattering"),
    ("optinc_pdk.signoff.function", "check_function"),
    ("optinc_pdk.signoff.function", "check_scattering"),
    ("optinc_pdk.report.build_numbers", "chip_numbers"),
    ("optinc_pdk.signoff.extracted_chip", "read_extracted_chip"),
    ("optinc_pdk.signoff.cascade_words", "link_extracted"),
    ("optinc_pdk.signoff.cascade_words", "check_cascade"),
    ("optinc_pdk.report.plots", "outputs_png"),
    ("optinc_pdk.studies.montecarlo.yield_plots", "yield_png"),
    ("optinc_pdk.studies.montecarlo.yield_plots", "errors_png"),
    ("optinc_pdk.studies.montecarlo.yield_plots", "waterfall_png"),
    ("optinc_pdk.studies.montecarlo.yield_plots", "tolerance_png"),
)
"""Functions of a build and of a yield run that compute; reading and writing of files is not among them."""


class Recording:
    """Results of the calls of each function, in their order."""

    def __init__(self) -> None:
        self._results: dict[str, list[Any]] = {}

    @contextmanager
    def record(self) -> Iterator[None]:
        """Within the ``with`` block, compute and keep the results."""

        def recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            results = self._results.setdefault(name, [])

            def call(*arguments: Any, **options: Any) -> Any:
                results.append(function(*arguments, **options))
                return results[-1]

            return call

        with _patched(recorded):
            yield

    @contextmanager
    def replay(self) -> Iterator[None]:
        """Within the ``with`` block, return the results again instead of computing."""
        position = dict.fromkeys(self._results, 0)

        def replayed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                position[name] += 1
                return self._results[name][position[name] - 1]

            return call

        with _patched(replayed):
            yield


@contextmanager
def _patched(wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    originals = []
    for module_name, name in COMPUTATIONS:
        module = importlib.import_module(module_name)
        originals.append((module, name, getattr(module, name)))
    for module, name, function in originals:
        setattr(module, name, wrap(f"{module.__name__}.{name}", function))
    try:
        yield
    finally:
        for module, name, function in originals:
            setattr(module, name, function)
