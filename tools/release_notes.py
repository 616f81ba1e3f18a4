"""Print the section of the changelog that belongs to a tag, for the notes of the release.

``python tools/release_notes.py v0.2.0`` refuses a tag that is not the version of the package, or
that ``CHANGELOG.md`` or ``CITATION.cff`` do not know: nothing is published under a wrong number.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def section(changelog: str, version: str) -> str:
    """Return the text below the heading of this version, up to the next heading of its level."""
    below = re.search(rf"^## {re.escape(version)}(?: .*)?$", changelog, re.MULTILINE)
    if below is None:
        raise SystemExit(f"CHANGELOG.md has no section '## {version} - <date>'. Write it first.")
    text = re.split(r"^## ", changelog[below.end() :], maxsplit=1, flags=re.MULTILINE)[0].strip()
    if not text:
        raise SystemExit(f"The section {version} of CHANGELOG.md is empty. Say what has changed.")
    return text


def check_version(root: Path, version: str) -> None:
    """Refuse a version that the package or its citation do not have."""
    places = {
        "src/credalset/_version.py": rf'^__version__ = "{re.escape(version)}"$',
        "CITATION.cff": rf"^version: {re.escape(version)}$",
    }
    for name, line in places.items():
        if not re.search(line, (root / name).read_text(encoding="utf-8"), re.MULTILINE):
            raise SystemExit(f"{name} does not have the version {version}. Change it, or the tag.")


def main(tag: str, root: Path = ROOT) -> str:
    """Return the notes for a tag such as v0.2.0."""
    if not tag.startswith("v"):
        raise SystemExit(f"A tag of a release is a v and the version, such as v0.2.0, not {tag!r}.")
    version = tag.removeprefix("v")
    check_version(root, version)
    return section((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/release_notes.py v0.2.0")
    print(main(sys.argv[1]))
