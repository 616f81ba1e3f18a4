"""Photograph two pages for the documentation: the review of the demo, and the example of a panel.

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
from typing import Any

import numpy as np

import credalset as cs

sys.path.insert(0, str(Path(__file__).parent / "hooks"))

from example_report import example_report

IMAGES = Path(__file__).parent / "img"
CHROMIUM = os.environ.get("CREDALSET_CHROMIUM") or shutil.which("chromium")
DESKTOP: dict[str, Any] = {"viewport": {"width": 1200, "height": 780}, "reduced_motion": "reduce"}
SCHEMES = {"light": "", "dark": "-dark"}  # by palette: what the names of the pictures end with
IN_HAND = 3  # votes on each message, as in the demo
ERRORS = (0.15, 0.1)


def review_page(path: Path) -> None:
    """Write the page of the demo's review: a thousand messages with three votes each."""
    data = cs.datasets.make_messages(1000, n_votes=30, random_state=0)
    labels = data.labels[:, :IN_HAND]
    counts = np.stack([(labels == name).sum(axis=1) for name in data.classes], axis=1)
    votes = cs.Annotations.from_counts(counts, classes=data.classes, items=data.items)
    found = cs.review(None, votes, texts=data.texts, error=ERRORS)
    found.report(path, texts=data.texts, title="Praise, question or complaint?")


def main() -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "review.html"
        review_page(path)
        panel = Path(folder) / "panel.html"
        example_report(panel)
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        for scheme, ending in SCHEMES.items():
            page = browser.new_page(**DESKTOP, color_scheme=scheme)
            page.goto(path.as_uri())
            page.screenshot(path=IMAGES / f"report{ending}.png")
            page.locator(".tile.divided a").click()
            page.locator("#table tbody button").nth(1).click()
            page.locator("#items").evaluate("section => window.scrollTo(0, section.offsetTop - 50)")
            page.screenshot(path=IMAGES / f"report-items{ending}.png")
            page.goto(panel.as_uri())
            page.locator("#wrong").evaluate("section => window.scrollTo(0, section.offsetTop - 50)")
            page.screenshot(path=IMAGES / f"report-wrong{ending}.png")
        browser.close()


if __name__ == "__main__":
    main()
