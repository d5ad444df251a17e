"""What a build says about itself: the numbers, the pictures, and the page that shows both."""

from optinc_pdk.report.numbers import Report
from optinc_pdk.report.page import page, write_report
from optinc_pdk.report.plots import detail_window, layout_png, outputs_plot

__all__ = ["Report", "detail_window", "layout_png", "outputs_plot", "page", "write_report"]
