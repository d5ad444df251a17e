"""Placement of labels: least distances, limits, and free places."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.report._label_placement import OccupiedPlaces, boxes_around, leader_points, spread_positions

numbers = st.floats(-50.0, 50.0)


@given(st.lists(numbers, max_size=12), st.floats(0.0, 8.0))
def test_spread_positions_keep_order_distance_and_limits(values: list[float], spacing: float) -> None:
    wanted = np.sort(np.array(values))
    found = spread_positions(wanted, spacing, -60.0, 60.0)
    assert np.all(np.diff(found) >= spacing - 1e-9)
    assert np.all((found >= -60.0 - 1e-9) & (found <= 60.0 + 1e-9))
    # what is far apart already stays
    if np.all(np.diff(wanted) >= spacing + 1e-6):
        assert np.allclose(found, wanted)


def test_spread_positions_move_a_cluster_by_its_mean() -> None:
    assert np.allclose(spread_positions(np.array([0.0, 0.0, 0.0]), 2.0, -10.0, 10.0), [-2.0, 0.0, 2.0])
    assert np.allclose(spread_positions(np.array([-10.0, -10.0]), 2.0, -10.0, 10.0), [-10.0, -8.0])


def test_the_first_free_box_overlaps_nothing_and_lies_in_the_region() -> None:
    places = OccupiedPlaces((0.0, 0.0, 20.0, 20.0), [(9.0, 9.0, 11.0, 11.0)])
    found = []
    # around the middle there is room for a text on each side and off each corner
    while (box := places.first_free(boxes_around((10.0, 10.0), 1.5, 4.0, 2.0, "top"))) is not None:
        found.append(box)
        places.add([box])
    assert len(found) >= 4 and found[0][1] >= 11.0
    boxes = [places[i] for i in range(len(places))]
    for i, (left, bottom, right, top) in enumerate(boxes):
        assert left >= 0.0 and bottom >= 0.0 and right <= 20.0 and top <= 20.0
        for other in boxes[:i]:
            assert left >= other[2] or right <= other[0] or bottom >= other[3] or top <= other[1]


def test_a_box_behind_another_has_no_free_line() -> None:
    places, box = OccupiedPlaces((0.0, 0.0, 40.0, 10.0), [(10.0, 2.0, 14.0, 8.0)]), (20.0, 4.0, 28.0, 6.0)
    assert places.first_free([box]) == box
    assert places.first_free([box], start=(5.0, 5.0)) is None
    assert places.first_free([box], start=(35.0, 5.0)) == box
    # nor has one whose line would run along the side of the other
    assert places.first_free([(20.0, 7.0, 28.0, 9.0)], start=(5.0, 8.0)) is None
    points = leader_points((35.0, 5.0), box)
    assert np.allclose(points[[0, -1]], [(33.5, 5.0), (28.0, 5.0)])
