"""Put the example page on the site: written anew at every build, so that it is what the code writes."""

from __future__ import annotations

from typing import Any

from mkdocs.structure.files import File

from credalset.reporting import example_report

NAME = "example-report.html"


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the page to what is copied to the site."""
    files.append(File.generated(config, NAME, content=example_report(None, n_items=150).html))
    return files
