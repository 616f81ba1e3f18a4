"""Show the files of the repository's root on the site as well; their links start at the root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NAMES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add a page for each of them."""
    from mkdocs.structure.files import File

    root = Path(config["config_file_path"]).parent
    for name in NAMES:
        text = (root / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name.lower(), content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links to these files, which work in a clone, to their pages."""
    for name in NAMES:
        for link in (name, f"../{name}"):
            markdown = markdown.replace(f"]({link}", f"]({name.lower()}")
    return markdown
