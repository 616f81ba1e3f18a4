"""From facts to HTML: the only module that knows the template engine."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from credalset._text import number_text
from credalset.exceptions import need
from credalset.verdict import percent

TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = ("data.js", "pictures.js", "item.js", "table.js", "map.js", "start.js")


def render(facts: dict[str, Any]) -> str:
    """Fill the template. Everything is escaped unless it is marked as safe by the module that made it."""
    script = "".join(_read(name) for name in SCRIPTS)
    style = _read("page.css")
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    )
    page = str(_template().render(**facts, script=script, style=style, policy=policy))
    return page.encode("utf-8", "replace").decode("utf-8")  # half characters, which no file can hold


@cache
def _template() -> Any:
    jinja2 = need("jinja2", "The page", extra="cli")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "tenths": tenths, "number": number}
    return environment.get_template("page.html")


def tenths(share: float) -> str:
    """Write a share as a percentage with one decimal, for columns of a table."""
    words = percent(share)
    return words if "." in words or not words.endswith("%") else f"{words[:-1]}.0%"


def number(value: float, digits: int = 2) -> str:
    """Write a number with a fixed number of decimals, a dash where there is none."""
    return number_text(float(value), digits, missing="–")


@cache
def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
