"""Measures the layout in report pages in a headless Chromium: first picture, reactions, and frames while it is moved.

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
    for page in pages:
        if not page.is_file():
            sys.exit(f"report_page.py: {page}: no such file; give pages that optinc build wrote")
    if given.pictures is not None:
        with chromium() as browser:
            draw(browser, pages[0], given.pictures)
        return
    columns = ["page", "size, kB", "window, px", "first picture, ms", "slowest reaction, ms", "overlay"]
    columns += ["median frame, ms", "95 % of frames within, ms"]
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|")
    with chromium() as browser:
        for page in pages:
            for width in WIDTHS:
                for overlay in ("none", "light"):
                    first, slowest, frames = measure(browser, page, width, overlay == "light")
                    row = [f"{page.stat().st_size / 1e3:.0f}", str(width), f"{first:.0f}", f"{slowest:.0f}", overlay]
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


def react(browser: Browser, what: str, expression: str, until: str) -> float:
    """Run an expression, and return the time in ms until a condition holds and a frame is drawn; exit if it fails."""
    taken, holds = browser.evaluate(
        f"(async () => {{ const start = performance.now(); {expression};"
        "await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));"
        f"return [performance.now() - start, Boolean({until})]; }})()"
    )
    if not holds:
        sys.exit(f"report_page.py: {what}: the page does not show it")
    return float(taken)


def use(browser: Browser) -> float:
    """Find a heater, click it, and show every overlay, colouring and light of a page; return the slowest in ms."""
    get = "const view = document.getElementById('layout-view'); const find = document.getElementById('layout-find');"
    chosen = "document.getElementById('layout-chosen').textContent.startsWith('heater ')"
    search = f"{get} find.value = 'heater '; document.getElementById('layout-search').requestSubmit()"
    times = [react(browser, "a heater", search, chosen)]
    react(browser, "no part", f"{get} find.value = 'no such part'; view.querySelector('form').requestSubmit()", "true")
    x, y = browser.evaluate(
        "(() => { const map = document.getElementById('layout-map'); map.scrollIntoView({block: 'center'});"
        "const box = map.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    browser.click(x, y)
    react(browser, "a click on the heater", "", chosen)
    # an overlay paints on a canvas of its own, which is otherwise empty
    drawn = (
        "((canvas, empty = document.createElement('canvas')) => {"
        "[empty.width, empty.height] = [canvas.width, canvas.height];"
        "return canvas.toDataURL() !== empty.toDataURL(); })"
        "(document.querySelector('#layout-map canvas.leaflet-zoom-animated'))"
    )
    whole = "document.getElementById('layout-whole').click()"
    times.append(react(browser, "the whole layout", whole, "true"))
    boxes = browser.evaluate("document.querySelectorAll('#layout-overlays input').length")
    for number in range(boxes):
        click = f"document.querySelectorAll('#layout-overlays input')[{number}].click()"
        times += [react(browser, "an overlay", click, drawn), react(browser, "no overlay", click, "true")]
    for name, legend in (("heaters", "legend"), ("light", "light-legend")):
        options = f"[...document.getElementById('layout-{name}')?.options ?? []]"
        enabled = browser.evaluate(f"{options}.flatMap((each, i) => each.disabled ? [] : [i])")
        for option in enabled:
            shown = f"document.getElementById('layout-{legend}').hidden === ({option} === 0)"
            change = f"const select = document.getElementById('layout-{name}'); select.selectedIndex = {option};"
            times.append(react(browser, name, f"{change} select.dispatchEvent(new Event('change'))", shown))
        if enabled:
            select(browser, name, 0)
    return max(times)


def measure(browser: Browser, page: Path, width: int, lit: bool) -> tuple[float, float, list[float]]:
    """Return the times to the first picture and of the slowest reaction, and those between frames while it is dragged.

    The layout is dragged at each zoom. Exits if the page logs anything or is wider than the window.

    Args:
        browser: Browser.
        page: Page of a build.
        width: Width of the window in pixels.
        lit: Whether frames are measured with the light of the last input.
    """
    browser.open(page, width, 900)
    browser.wait(DRAWN)
    first = float(browser.evaluate("performance.getEntriesByName('layout-drawn')[0].startTime"))
    slowest = use(browser)
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
    wide = browser.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if browser.console or wide > 0:
        sys.exit(f"report_page.py: {page}: {wide} px wider than {width} px; console: {browser.console}")
    return first, slowest, frames


if __name__ == "__main__":
    main()
