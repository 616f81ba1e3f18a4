"""Mend what is read from docstrings.

That is: citations, parameters that share an entry, and constructors that users never call.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import griffe

CITATION = re.compile(r"\[(\d+)\]_|\.\. \[(\d+)\]")
CONSTANT = re.compile(r"(\w+\.)*[A-Z][A-Z_]+")
FACTORY = re.compile(r"^\(lambda: (.*)\)\(\)$")  # of a field whose default is made anew


def tidy(obj: griffe.Object) -> None:
    """Mend one function or class, and what it holds."""
    for member in obj.members.values():
        if not member.is_alias:
            tidy(member)
    obj.labels -= {"dataclass", "cached"}
    if not isinstance(obj, griffe.Function | griffe.Class):
        return
    if obj.docstring is not None:  # before anything is parsed
        obj.docstring.value = CITATION.sub(
            lambda match: f"[{match[1] or match[2]}]", obj.docstring.value
        )
        obj.docstring.value = obj.docstring.value.replace("::\n", ":\n")
    if isinstance(obj, griffe.Class) and is_result(obj):
        for owner in (obj, *obj.mro()):
            owner.members.pop("__init__", None)
    if isinstance(obj, griffe.Function):
        for parameter in [one for one in obj.parameters if one.name.startswith("_")]:
            del obj.parameters[parameter.name]
    known = {one.name: one for one in obj.parameters}
    for one in known.values():
        if match := FACTORY.match(str(one.default)):
            one.default = match[1]
        if CONSTANT.fullmatch(str(one.default)):
            one.default = value_of(obj, str(one.default))
    for section in filter(is_parameters, parsed(obj)):
        for entry in section.value:
            if isinstance(entry.annotation, str) or str(entry.annotation) == "array - like":
                entry.annotation = str(entry.annotation).replace("`", "").replace(" - ", "-")
            if isinstance(entry.annotation, griffe.ExprTuple):
                entry.annotation.implicit = (
                    True  # "int or str, optional", not "(int or str, optional)"
                )
            if (real := known.get(entry.name.lstrip("*"))) is not None:
                entry.value = (
                    None if entry.name != real.name or real.default is None else str(real.default)
                )
                if any(
                    entry.annotation is one.annotation for one in known.values()
                ):  # the docstring has no type
                    entry.annotation = None
        section.value = [join(list(same)) for _, same in groupby(section.value, key=what_is_said)]


def value_of(obj: griffe.Object, constant: str) -> str:
    """Return a constant such as ``style.GREY`` as its definition has it, if it is ours."""
    module, _, name = constant.rpartition(".")
    try:
        path = f"{obj.resolve(module)}.{name}" if module else obj.resolve(name)
        return str(obj.modules_collection[path].value)
    except (griffe.NameResolutionError, KeyError):
        return constant


def parsed(obj: griffe.Object) -> list[griffe.DocstringSection]:
    """Return the sections of a docstring."""
    return obj.docstring.parsed if obj.docstring is not None else []


def is_result(obj: griffe.Class) -> bool:
    """Tell whether users get such an object from a function and never make one.

    It has attributes, no parameters.
    """
    kinds = {section.kind for section in parsed(obj)}
    return griffe.DocstringSectionKind.attributes in kinds and not any(
        map(is_parameters, parsed(obj))
    )


def is_parameters(section: griffe.DocstringSection) -> bool:
    """Tell whether a section describes parameters."""
    return section.kind is griffe.DocstringSectionKind.parameters


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
