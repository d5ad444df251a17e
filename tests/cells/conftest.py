"""The default process is active before and after each test of cells."""

from collections.abc import Iterator

import pytest

from optinc_pdk.pdk import get_pdk


@pytest.fixture(autouse=True)
def _default_process() -> Iterator[None]:
    get_pdk().activate()
    yield
    get_pdk().activate()
