"""Pages for the tests, and a reader that looks at them as a browser's parser would."""

from __future__ import annotations

import json
import runpy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import numpy as np

import credalset as cs
from credalset.reporting import Report

HOSTILE = "<script>alert(1)</script>"
NASTY = [
    HOSTILE,
    "</script><img src=x onerror=alert(2)>",
    "\"><svg onload=alert(3)>'",
    "<!--<script>",
    "]]>&amp;&lt;",
    "=HYPERLINK(1)",
    "\ud800 half a character, \u2028 and \x00 nothing",
    "long" * 100,
]


def example_report(**options: Any) -> Report:
    """The example page of the documentation."""
    path = Path(__file__).parents[2] / "docs" / "hooks" / "example_report.py"
    return cast("Report", runpy.run_path(str(path))["example_report"](None, **options))


def make(
    n_classes: int = 3, n: int = 200, n_votes: int = 30, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and counts: 300 items to calibrate on, then n for the page."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(n_classes, 0.6), 300 + n)
    return 0.9 * truth + 0.1 / n_classes, rng.multinomial(n_votes, truth)


def page(n_classes: int = 3, n: int = 200, score: str = "tv", **options: Any) -> Report:
    """A page about made-up items."""
    g, counts = make(n_classes, n)
    calibration = cs.conformalize(g[:300], counts[:300], score)
    votes = options.pop("votes", counts[300:])
    return cs.report(calibration, g[300:], votes, options.pop("path", None), **options)


class Reader(HTMLParser):
    """Collects elements with their attributes, and the text that a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.code: list[str] = []
        self._inside: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.code[-1] += data
        elif data.strip():
            self.words.append(data.strip())

    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def data_of(html: str) -> dict[str, Any]:
    """The columns that a page holds for its script."""
    start = html.index('id="data">') + len('id="data">')
    return json.loads(html[start : html.index("</script>", start)])
