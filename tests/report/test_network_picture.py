"""Pictures of general networks are PNG files that depend on the outputs, with a confusion matrix for labels."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.networks import NetworkComparison, NetworkData, NetworkLimits
from optinc_pdk.report.network_picture import network_png

LIMITS = NetworkLimits(0.999, 0.01, None)


def size(png: bytes) -> tuple[int, int]:
    """Width and height in the header of a PNG file."""
    assert png.startswith(b"\x89PNG")
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


@pytest.mark.parametrize(("samples", "outputs"), [(1, 1), (40, 3), (30_000, 25)])
def test_pictures_show_outputs_and_with_labels_the_confusion_matrix(samples: int, outputs: int) -> None:
    rng = np.random.default_rng(0)
    x, expected = rng.normal(size=(samples, 2)), rng.normal(size=(samples, outputs))
    labels = NetworkData(x, labels=rng.integers(0, max(outputs, 2), samples))
    plain, named = (
        network_png(NetworkComparison(data, LIMITS, expected, expected)) for data in (NetworkData(x), labels)
    )
    assert size(named)[0] == 2 * size(plain)[0] and size(named)[1] == size(plain)[1]
    assert plain == network_png(NetworkComparison(NetworkData(x), LIMITS, expected, expected))
    assert plain != network_png(NetworkComparison(NetworkData(x), LIMITS, expected, expected + 0.1))
