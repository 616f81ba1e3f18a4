"""A real Chromium for the page: from the system, or Playwright's own;
never skipped where ``CI`` is set.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from credalset.reporting import Report

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def no_browser(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and CI must look at the page in a browser.")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests of a process."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        no_browser("Playwright is not installed: pip install playwright")
    own = os.environ.get("CREDALSET_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=own, args=ARGUMENTS)
        except Error as error:
            no_browser(
                "there is no Chromium that starts (apt-get install chromium): "
                f"{str(error).splitlines()[0]}"
            )
        yield started
        started.close()


class Visit:
    """A page that is open in a browser, with everything it complained about or asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | options
        )
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.page.on(
            "console", lambda message: self.complaints.append(f"{message.type}: {message.text}")
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._refuse)
        self.address = path.as_uri()
        self.page.goto(self.address)

    def _refuse(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def check(self) -> None:
        """Nothing went wrong, nothing was asked of anyone, nobody called alert."""
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(("data:", "blob:"))] == [
            self.address
        ]
        assert self.dialogs == []

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """Open a report in the browser; every visit is checked for errors and requests at the end."""
    visits: list[Visit] = []

    def opened(report: Report, **options: Any) -> Visit:
        path = tmp_path / f"page-{len(visits)}.html"
        path.write_text(report.html, encoding="utf-8")
        visits.append(Visit(browser, path, **options))
        return visits[-1]

    yield opened
    for one in visits:
        one.check()
        one.close()
