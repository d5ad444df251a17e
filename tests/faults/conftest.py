"""A small run of every command, on one chip for all tests."""

from collections.abc import Sequence

import pytest
from test_terminals import small_runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Sequence[object], int]]:
    return small_runs(tmp_path_factory.mktemp("runs"))
