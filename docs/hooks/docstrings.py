"""Mend what is read from docstrings: citations, and parameters that share an entry but not their types and defaults."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import griffe

CITATION = re.compile(r"\[(\d+)\]_|\.\. \[(\d+)\]")
FACTORY = re.compile(r"^\(lambda: (.*)\)\(\)$")  # of a field whose default is made anew


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
        obj.docstring.value = obj.docstring.value.replace("::\n", ":\n")
    known = {one.name: one for one in obj.parameters}
    for one in known.values():
        if match := FACTORY.match(str(one.default)):
            one.default = match[1]
    sections = obj.docstring.parsed if obj.docstring is not None else []
    for section in sections:
        if section.kind is not griffe.DocstringSectionKind.parameters:
            continue
        for entry in section.value:
            if isinstance(entry.annotation, str) or str(entry.annotation) == "array - like":
                entry.annotation = str(entry.annotation).replace("`", "").replace(" - ", "-")
            if (real := known.get(entry.name)) is not None:
                entry.value = None if real.default is None else str(real.default)
                if any(entry.annotation is one.annotation for one in known.values()):  # of the first name in the entry
                    entry.annotation = real.annotation
        section.value = [join(list(same)) for _, same in groupby(section.value, key=what_is_said)]


def what_is_said(entry: griffe.DocstringParameter) -> tuple[str, str, str]:
    """Return type, default and description."""
    return str(entry.annotation), str(entry.value), entry.description


def join(entries: list[griffe.DocstringParameter]) -> griffe.DocstringParameter:
    """Give one entry to parameters of which the same is said."""
    entries[0].name = ", ".join(entry.name for entry in entries)
    return entries[0]


class Docstrings(griffe.Extension):
    """Apply `tidy` to the package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Mend every docstring once all of the package is known."""
        tidy(pkg)
