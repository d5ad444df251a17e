"""Settings that every test shares, and which tests ``make test``, ``make full`` and ``make quick`` run."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")

# The same examples on every run: a failure in one place is a failure everywhere.
settings.register_profile("optinc", derandomize=True, deadline=None)
settings.load_profile("optinc")


SCOPES = {
    "quick": "the first test of every file that `make test` runs",
    "test": "the tests that `make test` runs: one for each property",
    "full": "the others, which `make full` runs: repetitions over devices, sizes, processes and applications",
    "all": "every test",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    help_of_scopes = "; ".join(f"{name}: {text}" for name, text in SCOPES.items())
    parser.addoption("--scope", choices=SCOPES, default="all", help=help_of_scopes)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    scope = config.getoption("--scope")
    if scope == "all":
        return
    full = set(_left_to_full(items))
    chosen = [item for item in items if (item in full) == (scope == "full")]
    if scope == "quick":
        chosen = list({item.nodeid.partition("::")[0]: item for item in reversed(chosen)}.values())
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _left_to_full(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the tests that are marked `full`; of those marked `full(every=n)`, each n-th parameter set is left out."""
    count: Counter[str] = Counter()
    for item in items:
        if (mark := item.get_closest_marker("full")) is not None:
            name, every = item.nodeid.partition("[")[0], mark.kwargs.get("every")
            if every is None or count[name] % every:
                yield item
            count[name] += 1


@pytest.fixture(scope="session")
def tiny_chip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layout of a small chip, the average of four words of two bits, in the folder of its build; tests only read it."""
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.networks import carry_chain
    from optinc_pdk.options import BuildOptions
    from optinc_pdk.pipeline.building import build

    folder = tmp_path_factory.mktemp("tiny_chip")
    network = carry_chain(Averaging(2, 4, 1))
    network.save(folder / "tiny.npz")
    assert build(network, folder, BuildOptions(name="tiny")).passed
    return folder / "tiny.gds"
