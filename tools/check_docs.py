"""Visit every page of the built documentation in a browser.

``python tools/check_docs.py site`` visits pages on a wide screen and on a phone, in the light and
in the dark palette. It lists findings of axe, pages that scroll sideways, requests that leave the
site, and examples whose copies hold prompts. It exits with 1 if there are any. Needs Playwright
(extra ``test``) and a Chromium.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SIZES = {"wide": {"width": 1280, "height": 900}, "phone": {"width": 375, "height": 800}}
SCHEMES = ("light", "dark")
#: of the theme: it marks up its own header, navigation and buttons of code
LEFT_OUT = [".md-header", ".md-tabs", ".md-sidebar", ".md-footer", ".md-search", ".md-code__nav"]


class Quiet(SimpleHTTPRequestHandler):
    """Serve files without a line for each."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def findings(site: Path, names: list[str], base: str) -> Iterator[str]:
    """Visit pages, and yield a line for everything that is found."""
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CREDALSET_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for size, viewport in SIZES.items():
            for scheme in SCHEMES:
                context = browser.new_context(viewport=viewport, color_scheme=scheme)
                page = context.new_page()
                elsewhere: list[str] = []
                page.on(
                    "request",
                    lambda request, seen=elsewhere: (
                        None
                        if request.url.startswith((base, "data:"))
                        else seen.append(request.url)
                    ),
                )
                for name in names:
                    page.goto(f"{base}/{name}")
                    where = f"{name} ({size}, {scheme})"
                    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                    if wide > 0:
                        yield f"{where}: scrolls sideways by {wide} pixels"
                    if size == "wide":
                        yield from accessibility(Axe(), page, where)
                    if size == "wide" and scheme == "light":
                        yield from prompts(page, where)
                for url in sorted(set(elsewhere)):
                    if not url.startswith((base, "data:")):
                        yield f"{size}, {scheme}: requests {url}"
                context.close()
        browser.close()


def accessibility(axe: Any, page: Any, where: str) -> Iterator[str]:
    """Run axe on the content of a page."""
    found = axe.run(page, context={"exclude": [[each] for each in LEFT_OUT]})
    for rule in found.response["violations"]:
        places = ", ".join(node["target"][0] for node in rule["nodes"][:3])
        yield f"{where}: {rule['id']} at {len(rule['nodes'])} places ({places})"


def prompts(page: Any, where: str) -> Iterator[str]:
    """Look for prompts in what the button of a block of code would copy."""
    copies = page.evaluate(
        """[...document.querySelectorAll(".highlight code")].map(code => {
            code.setAttribute("data-md-copying", "");
            const text = code.innerText;
            code.removeAttribute("data-md-copying");
            return text;
        })"""
    )
    for text in copies:
        if ">>>" in text:
            yield f"{where}: a copy would hold a prompt: {text[:60]!r}"


def main() -> int:
    """Serve the site, visit its pages, print what is found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("pages", nargs="*", help="pages to visit; by default all")
    options = parser.parse_args()
    names = options.pages or sorted(
        str(path.relative_to(options.site).parent) for path in options.site.rglob("index.html")
    )
    handler = functools.partial(Quiet, directory=str(options.site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    count = 0
    for line in findings(options.site, names, f"http://127.0.0.1:{server.server_port}"):
        print(line, flush=True)
        count += 1
    server.shutdown()
    print(f"{len(names)} pages, {count} findings")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
