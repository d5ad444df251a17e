"""Measures the layout in report pages in a headless Chromium: time to the first picture, and frames while it is moved.

python benchmarks/report_page.py gds_out/average_4bit_4servers.report.html
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from chromium_driver import CHROMIUM, Browser, chromium

WIDTHS = (1440, 390)
STEPS, ZOOMS = 60, 8
DRAWN = "document.getElementById('layout-view').dataset.drawn === 'true'"
SECOND = "new Promise((done) => setTimeout(done, 1000))"


def main() -> None:
    """Print a row of a Markdown table for each page and width."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path, help="pages that `optinc build` wrote")
    pages = parser.parse_args().pages
    if CHROMIUM is None:
        sys.exit("report_page.py: no Chromium on this machine; install chromium")
    print("| page | size, kB | window, px | first picture, ms | median frame, ms | 95 % of frames within, ms |")
    print("|---|---|---|---|---|---|")
    with chromium() as browser:
        for page in pages:
            for width in WIDTHS:
                first, frames = measure(browser, page, width)
                row = [f"{page.stat().st_size / 1e3:.0f}", str(width), f"{first:.0f}"]
                row += [f"{np.median(frames):.1f}", f"{np.percentile(frames, 95):.1f}"]
                print(f"| {page.name.partition('.')[0]} | {' | '.join(row)} |")


def measure(browser: Browser, page: Path, width: int) -> tuple[float, list[float]]:
    """Return the time to the first picture, and the time between frames while the layout is dragged at each zoom."""
    browser.open(page, width, 900)
    browser.wait(DRAWN)
    first = float(browser.evaluate("performance.getEntriesByName('layout-drawn')[0].startTime"))
    left, top, wide, high = browser.evaluate(
        "(() => { const map = document.getElementById('layout-map'); map.scrollIntoView({block: 'center'});"
        "map.focus(); const box = map.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; })()"
    )
    x, y = left + wide / 2, top + high / 2
    frames: list[float] = []
    for zoom in range(ZOOMS):
        sign = 1 if zoom % 2 else -1
        browser.mouse("mousePressed", x, y)
        browser.evaluate(
            "void (window.times = [], window.timing = true,"
            "(function next(at) { times.push(at); if (timing) requestAnimationFrame(next); })(performance.now()))"
        )
        for step in range(STEPS):
            browser.mouse("mouseMoved", x + 2 * step * sign, y + step)
        browser.mouse("mouseReleased", x + 2 * STEPS * sign, y + STEPS)
        browser.evaluate(SECOND)
        frames += browser.evaluate("(timing = false, times.slice(2).map((at, i) => at - times[i + 1]))")
        browser.press("+", 187)
        browser.evaluate(SECOND)
    return first, frames


if __name__ == "__main__":
    main()
