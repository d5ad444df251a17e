"""Trimming of thresholds, gains and scales to words whose ideal signals are known."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.studies.calibration._word_transmission import (
    ElectronicsSettings,
    WordSample,
    WordTransmission,
    trim_electronics,
)

STEPS = np.arange(160) % 8
"""Values that a comparator and a linear unit read."""


def passage_of(gain, offset, scale):
    """Return electronics and passage of a comparator of STEPS >= 4 and of a unit that passes STEPS / 7 on."""
    detected = np.column_stack([STEPS / 50.0 - 0.03, STEPS / 30.0 - 0.01])
    ideal = np.column_stack([4.0 * (STEPS - 3.5) + 0.5, STEPS / 7.0])
    electronics = ElectronicsSettings(
        gain=(np.array(gain),),
        offset=(np.array(offset),),
        balance=(np.ones(2),),
        scale=np.array([scale]),
        sent=np.ones(1),
    )
    signal = np.clip(ideal, 0.0, 1.0)
    level = 3.0 * signal[:, :1]
    words = WordSample(STEPS[:, np.newaxis] / 7.0, level.astype(np.int64), (ideal,), level)
    driven = np.clip(electronics.gain[0] * (detected + electronics.offset[0]), 0.0, 1.0)
    output = scale * 2.0 * driven[:, np.newaxis, :1]
    return electronics, WordTransmission((words.amplitude, driven), (detected,), output, words)


def test_a_threshold_is_in_the_middle_and_a_linear_unit_passes_its_value_on(process):
    electronics, passage = passage_of([150.0, 4.0], [-0.03, 0.02], 1.2)
    trimmed = trim_electronics(electronics, passage, process)
    # between step 3, which is off, and step 4, which is on
    threshold = 0.5 / trimmed.gain[0][0] - trimmed.offset[0][0]
    assert threshold == pytest.approx(3.5 / 50.0 - 0.03, abs=1e-4)
    assert trimmed.gain[0][0] == pytest.approx(200.0, rel=1e-3)
    assert (trimmed.gain[0][1], trimmed.offset[0][1]) == pytest.approx((30.0 / 7.0, 0.01), rel=1e-3)
    right = passage.source[1][:, 0] == np.clip(passage.words.network_signal[0][:, 0], 0.0, 1.0)
    assert trimmed.scale[0] == pytest.approx(1.5, rel=1e-3) and right.all()


def test_neurons_that_words_do_not_determine_keep_their_settings(process):
    electronics, passage = passage_of([150.0, 4.0], [-0.03, 0.02], 1.2)
    inverted = WordTransmission(passage.source, (-passage.detected[0],), passage.output, passage.words)
    trimmed = trim_electronics(electronics, inverted, process)
    assert np.array_equal(trimmed.gain[0], electronics.gain[0])
    assert np.array_equal(trimmed.offset[0], electronics.offset[0])
