"""Tables in and out: Arrow batches from files, sets as tables, scoring of streams and folders (extra ``tables``)."""

from __future__ import annotations

from credalset.tables.matching import match, read_numbers
from credalset.tables.scorer import Scorer

__all__ = ["Scorer", "match", "read_numbers"]
