"""An object of annotators, each with an object of labels by item: ``{annotator: {item: label}}``.

The data of the alternative annotator test have this form, for people and for language models:
https://github.com/nitaytech/AltTest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.votes.exports.export import Export, Record

__all__ = ["NAME", "recognise", "votes"]

NAME = "id"  # the field under which the reader of JSON keeps the key of an object
FEWEST_ITEMS = 5
MORE_ITEMS = 2  # times as many items as annotators: otherwise items may be outside


def recognise(records: list[Record]) -> bool:
    """Few objects with many fields, all of them plain values."""
    items = {name for record in records for name in record if name != NAME}
    are_plain = all(
        not isinstance(value, list | dict) for record in records for value in record.values()
    )
    enough = len(items) >= max(FEWEST_ITEMS, MORE_ITEMS * len(records))
    return are_plain and enough and len(records) > 1 and all(NAME in record for record in records)


def votes(export: Export) -> Iterator[tuple[Any, ...]]:
    """Yield a vote per annotator and item."""
    for _, records in export.files:
        for record in records:
            for item, label in record.items():
                if item != NAME:
                    export.items[item] = None
                    yield item, record.get(NAME), label
