"""One label per vote: lists of several are refused, or turned into a yes-or-no question about one of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from credalset.annotations.table import SEVERAL, is_missing

Where = Callable[[int], str]


class SingleLabels:
    """Turn labels, some of which may be lists of labels, into one label per vote.

    Without ``one_vs_rest`` a list of one label is that label, an empty list is no label, and a longer one is refused:
    shares of votes over classes mean that every vote is for one class. With it, every vote answers one question: is
    the label among those chosen?

    Examples
    --------
    >>> SingleLabels("sport")([["sport", "politics"], ["politics"], []], lambda row: f"row {row}")
    ['sport', 'not sport', 'not sport']
    """

    def __init__(self, one_vs_rest: Hashable | None = None, classes: Any = None) -> None:
        if one_vs_rest is not None and classes is not None:
            raise ValueError("one_vs_rest sets the two classes itself: leave classes out.")
        self.wanted = one_vs_rest
        self.seen: dict[Any, None] = {}

    @property
    def classes(self) -> tuple[Hashable, Hashable] | None:
        """Return the two answers, the negative one first; None if nothing is asked."""
        return None if self.wanted is None else (f"not {self.wanted}", self.wanted)

    def __call__(self, labels: list[Any], where: Where) -> list[Any]:
        """Return one label per vote, None where there is none; ``where`` names a row in messages."""
        if self.wanted is not None:
            return [self._answer(label) for label in labels]
        if not any(issubclass(kind, SEVERAL) for kind in set(map(type, labels))):
            return labels
        return [_only(label, row, where) if isinstance(label, SEVERAL) else label for row, label in enumerate(labels)]

    def check(self) -> None:
        """Refuse a question about a label that nobody ever chose: most likely it is misspelt."""
        if self.wanted is not None and self.wanted not in self.seen:
            raise ValueError(
                f"one_vs_rest={self.wanted!r} is not among the labels, which are {list(self.seen)[:10]}. "
                "Name one of them."
            )

    def _answer(self, label: Any) -> Any:
        if isinstance(label, SEVERAL):
            chosen = list(label)
        elif is_missing(label):
            return None
        else:
            chosen = [label]
        self.seen.update(dict.fromkeys(chosen))
        return self.wanted if self.wanted in chosen else f"not {self.wanted}"


def _only(label: Any, row: int, where: Where) -> Any:
    chosen = label.tolist() if isinstance(label, np.ndarray) else list(label)
    if len(chosen) > 1:
        raise ValueError(
            f"{where(row)} holds {len(chosen)} labels for one vote: {chosen!r}. A label distribution needs one label "
            f"per vote. Ask one question per label instead: one_vs_rest={chosen[0]!r} gives votes for and against it."
        )
    return chosen[0] if chosen else None
