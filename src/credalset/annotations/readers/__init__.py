"""Readers of annotation exports and vote tables: every kind gives task, worker, label and, where known, time.

A reader is one file of this folder: it recognises its kind of file and yields votes. ``READERS`` holds them all,
`sniff` says which one fits a file, `open_votes` reads any of them piece by piece, `Annotations.read` counts.
"""

from __future__ import annotations

from credalset.annotations.readers.common import Reader
from credalset.annotations.readers.reading import VoteFile, open_votes, sniff
from credalset.annotations.readers.registry import READERS, Recognition

__all__ = ["READERS", "Reader", "Recognition", "VoteFile", "open_votes", "sniff"]
