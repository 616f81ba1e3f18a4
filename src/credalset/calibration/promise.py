"""What a calibration promises, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Covered = Literal["votes", "truth", "annotator", "majority", "share"]
COVERED: dict[Covered, str] = {
    "votes": "the distribution of the recorded votes",
    "truth": "the true distribution",
    "annotator": "the label of an annotator asked at random",
    "majority": "the label with most votes",
    "share": "the labels of the wanted share of the item's annotators",
}


@dataclass(frozen=True)
class Promise:
    """What sets at level α contain, how surely, and what is assumed for it.

    Attributes
    ----------
    covers : {"votes", "truth", "annotator", "majority", "share"}
        The distribution of the votes that would be recorded for a new item, or the one they are drawn from; for label
        sets, the label of an annotator asked at random, the one with most votes, or those of a share of the annotators.
    delta : float or None
        None: coverage is at least 1 − α on average over calibration sets. A number: it is so on average, and moreover
        for all but a share δ of calibration sets.
    items : str
        How new items and calibration items must be alike: ``"exchangeable"``, or more than that.
    votes : str
        What is assumed of votes; empty if nothing is.
    within : str
        For whom it holds beside everyone: ``"each group"``, or nobody.

    Examples
    --------
    >>> print(Promise("truth", 0.01, "independent", "votes are independent draws"))
    the true distribution, with probability at least 1 - alpha on average over calibration sets and, for all but a \
share 0.01 of them, for the set at hand; if items are independent, votes are independent draws
    """

    covers: Covered = "votes"
    delta: float | None = None
    items: str = "exchangeable"
    votes: str = ""
    within: str = ""

    def __str__(self) -> str:
        what = COVERED[self.covers]
        sure = "with probability at least 1 - alpha on average over calibration sets"
        if self.delta is not None:
            sure += f" and, for all but a share {self.delta:g} of them, for the set at hand"
        where = f", within {self.within}" if self.within else ""
        return f"{what}, {sure}{where}; if items are {self.items}" + (f", {self.votes}" if self.votes else "")
