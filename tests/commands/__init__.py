"""Tests of the commands, and the table of votes that many of them start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def vote_rows(tasks: Sequence[Any], counts: np.ndarray, classes: Sequence[str]) -> list[tuple[Any, str, str]]:
    """Write counts out as one row per vote: task, worker, label."""
    return [
        (task, f"w{j}", classes[k])
        for task, row in zip(tasks, counts.astype(int), strict=True)
        for j, k in enumerate(np.repeat(np.arange(len(classes)), row))
    ]
