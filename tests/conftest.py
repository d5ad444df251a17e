"""Settings that every test shares, and the selection of ``make quick``."""

from pathlib import Path

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")

# The same examples on every run: a failure in one place is a failure everywhere.
settings.register_profile("optinc", derandomize=True, deadline=None)
settings.load_profile("optinc")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run the first test of every file, without slow ones")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    chosen: dict[str, pytest.Item] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            chosen.setdefault(item.nodeid.partition("::")[0], item)
    quick = set(chosen.values())
    config.hook.pytest_deselected(items=[item for item in items if item not in quick])
    items[:] = [item for item in items if item in quick]


@pytest.fixture(scope="session")
def tiny_chip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layout of a small chip, the average of four words of two bits, in the folder of its build; tests only read it."""
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.flow import build
    from optinc_pdk.onn import carry_chain

    folder = tmp_path_factory.mktemp("tiny_chip")
    network = carry_chain(Averaging(2, 4, 1))
    network.save(folder / "tiny.npz")
    assert build(network, folder, "tiny").passed
    return folder / "tiny.gds"
