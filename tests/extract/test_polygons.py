"""Point and box queries of polygons, compared with brute force."""

import klayout.db as kdb
import numpy as np

from optinc_pdk.extract.polygons import PolygonIndex, box_array


def nested() -> list[kdb.Polygon]:
    """Return wires with corners inside each other's bounding boxes, a box, an octagon and a triangle."""
    wires = [
        kdb.Path([kdb.Point(20 * k, 0), kdb.Point(20 * k, 900 - 20 * k), kdb.Point(900, 900 - 20 * k)], 8).polygon()
        for k in range(20)
    ]
    octagon = kdb.Polygon.ellipse(kdb.Box(600, 100, 660, 160), 8)
    corner = kdb.Polygon([kdb.Point(500, 0), kdb.Point(500, 83), kdb.Point(577, 0)])
    return [*wires, kdb.Polygon(kdb.Box(380, 0, 384, 40)), octagon, corner]


def test_the_polygon_at_a_point_is_the_first_that_contains_it() -> None:
    polygons = nested()
    points = np.random.default_rng(1).integers(-20, 950, (3000, 2))
    points = np.concatenate([points, [(p.x, p.y) for polygon in polygons for p in polygon.each_point_hull()]])
    expected = [
        next((n for n, polygon in enumerate(polygons) if polygon.inside(kdb.Point(int(x), int(y)))), -1)
        for x, y in points
    ]
    assert PolygonIndex(polygons).at(points).tolist() == expected
    assert {-1, 0, 10, 21, 22} <= set(expected)


def test_polygons_that_share_only_an_edge_with_a_box_do_not_overlap_it() -> None:
    polygons = [kdb.Polygon(kdb.Box(0, 0, 10, 10)), kdb.Polygon(kdb.Box(10, 0, 20, 10))]
    queries = box_array([kdb.Box(5, 5, 10, 8), kdb.Box(9, 9, 11, 30), kdb.Box(40, 0, 50, 10)])
    assert PolygonIndex(polygons).overlapping(queries) == [polygons[:1], polygons, []]
