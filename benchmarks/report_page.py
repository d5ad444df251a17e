"""Measures the layout in report pages in a headless Chromium: time to the first picture, and frames while it is moved.

python benchmarks/report_page.py gds_out/average_4bit_4servers.report.html

With --pictures FOLDER, it writes the pictures of the layout in docs/report.md instead, of the first page.
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
    """Print two rows of a Markdown table for each page and width, without and with light."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path, help="pages that `optinc build` wrote")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write pictures for the documentation instead")
    given = parser.parse_args()
    pages = given.pages
    if CHROMIUM is None:
        sys.exit("report_page.py: no Chromium on this machine; install chromium")
    if given.pictures is not None:
        with chromium() as browser:
            draw(browser, pages[0], given.pictures)
        return
    print(
        "| page | size, kB | window, px | first picture, ms | overlay | median frame, ms | 95 % of frames within, ms |"
    )
    print("|---|---|---|---|---|---|---|")
    with chromium() as browser:
        for page in pages:
            for width in WIDTHS:
                for overlay in ("none", "light"):
                    first, frames = measure(browser, page, width, overlay == "light")
                    row = [f"{page.stat().st_size / 1e3:.0f}", str(width), f"{first:.0f}", overlay]
                    row += [f"{np.median(frames):.1f}", f"{np.percentile(frames, 95):.1f}"]
                    print(f"| {page.name.partition('.')[0]} | {' | '.join(row)} |")


def select(browser: Browser, selector: str, option: int) -> None:
    """Choose an option of a selector by its number, -1 for the last."""
    browser.evaluate(
        f"(() => {{ const s = document.getElementById('layout-{selector}'); s.value = [...s.options].at({option})"
        ".value; s.dispatchEvent(new Event('change')); })()"
    )


def draw(browser: Browser, page: Path, folder: Path) -> None:
    """Write pictures of the layout with a heater chosen: heaters by power, and the light of the last word."""
    heater = "heater l1_v_c1_r1.phi"
    for name, selector, option in (("layout", "heaters", 1), ("light", "light", -1)):
        browser.open(page, 1060, 900)
        browser.wait(DRAWN)
        select(browser, selector, option)
        browser.evaluate(f"(document.getElementById('layout-find').value = '{heater}', 0)")
        browser.evaluate("document.getElementById('layout-search').requestSubmit()")
        # two steps out, to see what is around it
        browser.evaluate("document.querySelector('.leaflet-control-zoom-out').click()")
        browser.evaluate(SECOND)
        browser.evaluate("document.querySelector('.leaflet-control-zoom-out').click()")
        browser.evaluate(SECOND)
        (folder / f"report_{name}.png").write_bytes(browser.picture("#layout-view"))


def measure(browser: Browser, page: Path, width: int, lit: bool) -> tuple[float, list[float]]:
    """Return the time to the first picture, and the time between frames while the layout is dragged at each zoom.

    Args:
        browser: Browser.
        page: Page of a build.
        width: Width of the window in pixels.
        lit: Whether frames are measured with the light of the last input.
    """
    browser.open(page, width, 900)
    browser.wait(DRAWN)
    first = float(browser.evaluate("performance.getEntriesByName('layout-drawn')[0].startTime"))
    if lit:
        select(browser, "light", -1)
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
