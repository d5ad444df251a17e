"""Matrices for tests."""

import numpy as np
import pytest
import scipy.stats


@pytest.fixture
def unitary() -> np.ndarray:
    return np.asarray(scipy.stats.unitary_group(4, seed=1).rvs())
