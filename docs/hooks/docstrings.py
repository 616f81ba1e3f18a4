"""Mend what is read from docstrings: citations, and parameters that share an entry but not their types and defaults."""

from __future__ import annotations

import re
from typing import Any

import griffe

CITATION = re.compile(r"\[(\d+)\]_|\.\. \[(\d+)\]")


def tidy(obj: griffe.Object) -> None:
    """Mend one function or class, and what it holds."""
    for member in obj.members.values():
        if not member.is_alias:
            tidy(member)
    if not isinstance(obj, griffe.Function | griffe.Class):
        return
    if isinstance(obj, griffe.Function):
        for parameter in [one for one in obj.parameters if one.name.startswith("_")]:
            del obj.parameters[parameter.name]
    if obj.docstring is not None:
        obj.docstring.value = CITATION.sub(lambda match: f"[{match[1] or match[2]}]", obj.docstring.value)
    known = {one.name: one for one in obj.parameters}
    sections = obj.docstring.parsed if obj.docstring is not None else []
    for section in sections:
        if section.kind is not griffe.DocstringSectionKind.parameters:
            continue
        for entry in section.value:
            if isinstance(entry.annotation, str):
                entry.annotation = entry.annotation.replace("`", "")
            if (real := known.get(entry.name)) is not None:
                entry.value = None if real.default is None else str(real.default)
                if any(entry.annotation is one.annotation for one in known.values()):  # of the first name in the entry
                    entry.annotation = real.annotation


class Docstrings(griffe.Extension):
    """Apply `tidy` to the package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Mend every docstring once all of the package is known."""
        tidy(pkg)
