"""Photograph the example page for the documentation.

``python docs/screenshots.py`` writes ``docs/img/report*.png``.

Needs Playwright (extra ``test``) and a Chromium, that of the system by default. Look at the result
before you commit.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "hooks"))

from example_report import example_report

IMAGES = Path(__file__).parent / "img"
CHROMIUM = os.environ.get("CREDALSET_CHROMIUM") or shutil.which("chromium")
DESKTOP = {"viewport": {"width": 1200, "height": 790}}
SCHEMES = {"light": "", "dark": "-dark"}  # by palette: what the names of the pictures end with
WITH_BUTTON = {"width": 1200, "height": 830}  # of the map
PHONE = {"viewport": {"width": 390, "height": 1200}, "device_scale_factor": 1.5}


def main() -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "report.html"
        example_report(path)
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        for scheme, ending in SCHEMES.items():
            page = browser.new_page(**DESKTOP, color_scheme=scheme)
            page.goto(path.as_uri())
            page.screenshot(path=IMAGES / f"report{ending}.png")
            page.set_viewport_size(WITH_BUTTON)
            for name, value in (("aleatoric", "0.5"), ("epistemic", "0.5")):
                page.fill(f"#{name}-to", value)
            page.fill("#aleatoric-from", "0.3")
            page.locator("#map").evaluate("section => window.scrollTo(0, section.offsetTop - 50)")
            page.mouse.move(5, 5)
            page.wait_for_timeout(800)  # the page scrolls smoothly
            page.screenshot(path=IMAGES / f"report-map{ending}.png")
            phone = browser.new_page(**PHONE, color_scheme=scheme)
            phone.goto(path.as_uri())
            phone.locator("#table tbody tr").nth(2).click()
            phone.locator("main").evaluate(
                "main => main.style.visibility = 'hidden'"
            )  # shines through at the rim
            phone.locator("dialog").screenshot(path=IMAGES / f"report-item{ending}.png")
        browser.close()


if __name__ == "__main__":
    main()
