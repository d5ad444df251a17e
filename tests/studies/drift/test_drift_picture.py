"""Picture of a drift run: what it shows, and where its legend is."""

from __future__ import annotations

from matplotlib.backends.backend_agg import FigureCanvasAgg

from optinc_pdk.studies.drift.drift_picture import DriftPanel, DriftTrack, drift_figure, drift_png

PANELS = (DriftPanel("words exact / %", factor=100.0, limits=(0.0, 105.0)), DriftPanel("margin / levels"))
TRACKS = [
    DriftTrack(name, tracked, (0.0, 0.5, 1.0), ((1.0, 0.5, 0.1), (0.4, 0.2, -0.1)))
    for name in ("walk", "10 K")
    for tracked in (False, True)
]


def test_the_legend_is_outside_all_axes() -> None:
    figure = drift_figure(TRACKS, PANELS, "tracking", 24.0, "chip")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["without tracking", "with tracking"]
    box = legend.get_window_extent()
    for axes in figure.axes:
        assert axes.get_legend() is None
        assert not box.overlaps(axes.get_tightbbox())
    assert [axes.get_title() for axes in figure.axes[:2]] == ["walk", "10 K"]


def test_the_picture_is_a_png_and_equal_runs_give_equal_bytes() -> None:
    first = drift_png(TRACKS, PANELS, "tracking", 24.0, "chip")
    assert first.startswith(b"\x89PNG") and first == drift_png(TRACKS, PANELS, "tracking", 24.0, "chip")
