"""Ground potentials by channel label."""

import numpy as np

from optinc_pdk.drive import SharedGround

RISE_OHM = np.array([[20.0, 10.0, 5.0], [10.0, 30.0, 15.0], [5.0, 15.0, 40.0]])


def test_a_ground_is_evaluated_for_channels_in_any_order() -> None:
    ground = SharedGround(("a", "b", "c"), RISE_OHM.dot)
    current = np.array([1.0, 2.0, 4.0])
    expected = (RISE_OHM @ [4.0, 0.0, 1.0])[[2, 0, 0]] * [1, 0, 1]
    np.testing.assert_allclose(ground.for_channels(["c", "x", "a"])(current), expected)
