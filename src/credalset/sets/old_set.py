"""The batch of credal sets a user holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from credalset._parallel import gather_blocks
from credalset._typing import AnyArray, BoolArray, FloatArray, Prediction
from credalset._validation import as_numbers, refuse_texts
from credalset.sets.questions import Questions
from credalset.simplex import grid
from credalset.votes.names import find_rows, read_labels

if TYPE_CHECKING:
    from credalset.scores.base import Score

PAIRS_PER_BLOCK = 1 << 17  # (set, distribution) pairs evaluated at a time


@dataclass(frozen=True, eq=False, repr=False)
class CredalSet(Questions):
    """A batch of N credal sets over K classes: {λ : score(prediction, λ) ≤ threshold}, one per prediction.

    Built by `Calibration.predict_set` or by a score's ``region(prediction, threshold)``. Membership is decided in the
    units of the score, to the last bit; the geometry uses the ``center`` and ``radius`` of the region.

    Attributes
    ----------
    score : Score
        The nonconformity score that defines membership.
    prediction : ndarray of shape (N, K), or a `DirichletMixture`
        What the model predicted: distributions, or Dirichlet concentrations for second-order scores.
    threshold : ndarray of shape (N,)
        Largest score a member may have; ``+inf`` makes the set the whole simplex.
    center : ndarray of shape (N, K)
        Centre of the region: the predicted distribution, or the mode of the predicted Dirichlet.
    radius : ndarray of shape (N,)
        Size of the region in its own units, negative when it is empty.
    classes : tuple or None
        Names of the classes, when they are known.
    items : ndarray of shape (N,) or None
        Names of the items, when they are known: the index of a frame that was predicted for.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], threshold=0.2)
    >>> sets
    CredalSet: 2 total-variation balls over 3 classes, threshold 0.2 (score tv)
    >>> sets.contains([[0.6, 0.2, 0.2], [0.6, 0.2, 0.2]])
    array([ True, False])
    """

    _known_as: ClassVar[str | None] = "CredalSet"  # whatever its shape
    _hints: ClassVar[dict[str, str]] = {
        "alpha": "Sets do not keep the level they were predicted at; to_frame(alpha=...) adds it to a table.",
        "bounds": "Ask lower() and upper(), or envelope() for both.",
        "coverage": "Ask credalset.metrics.coverage(sets, Y).",
        "describe": "Ask to_frame(), labels() or uncertainty().",
        "entropy": "A set has a range of entropies: entropy_bounds().",
        "aleatoric": "Ask uncertainty().aleatoric.",
        "epistemic": "Ask uncertainty().epistemic.",
        "expectation": "Ask lower_expectation(utility) and upper_expectation(utility).",
        "intervals": "Ask lower() and upper(), or envelope() for both.",
        "loc": "Take items by name with select(names).",
        "mean": "What the model predicted is .prediction, the centre of the set .center.",
        "plot": "Pictures are in credalset.plotting: ternary(sets) for three classes, envelopes(sets) for more.",
        "predict": "Ask labels(), which could be the most probable one.",
        "size": "Ask width() or volume().",
        "summary": "Print the sets, or ask to_frame().",
        "upper_probability": "Ask upper_expectation(event), with 1 for the classes of the event and 0 for the others.",
    }

    score: Score
    prediction: Prediction
    threshold: FloatArray
    center: FloatArray = field(kw_only=True)
    radius: FloatArray = field(kw_only=True)
    classes: tuple[Any, ...] | None = field(default=None, kw_only=True)
    items: AnyArray | None = field(default=None, kw_only=True)

    def __getitem__(self, rows: Any) -> Self:
        """Select sets by index, slice, index array or mask, or by names that are texts; the result is a batch again."""
        if isinstance(rows, str) or (isinstance(rows, list) and rows and all(isinstance(row, str) for row in rows)):
            return self.select([rows] if isinstance(rows, str) else rows)
        if rows is None or isinstance(rows, tuple | bool | float):
            raise TypeError(
                f"a batch of sets has one axis and takes an index, a slice, a list or a mask, not {rows!r}."
            )
        if not isinstance(rows, slice) and np.ndim(rows) > 1:
            raise TypeError(f"a batch of sets has one axis, but was indexed with an array of shape {np.shape(rows)}.")
        if isinstance(rows, int | np.integer) or (isinstance(rows, np.ndarray) and rows.ndim == 0):
            index = int(rows)
            if not -len(self) <= index < len(self):
                named = self.items is not None and index in self.items.tolist()
                advice = f" Numbers are positions; the set of item {index} is select([{index}])." if named else ""
                raise IndexError(f"set {index} is out of range: the batch holds {len(self)} sets.{advice}")
            rows = [index]
        return self._take(rows)

    def _take(self, rows: Any) -> Self:
        """Take sets by a slice, a list or a mask; whoever holds more per set takes that along."""
        changed = {name: getattr(self, name)[rows] for name in ("prediction", "threshold", "center", "radius")}
        return dataclasses.replace(self, **changed, items=None if self.items is None else self.items[rows])

    def select(self, items: Iterable[Any]) -> Self:
        """Take sets by the names of their items, in the order given; ``sets[...]`` takes them by position.

        Examples
        --------
        >>> import pandas as pd, credalset as cs
        >>> votes = pd.DataFrame([[3, 1], [0, 4], [2, 2]], index=["a", "b", "c"])
        >>> calibration = cs.conformalize([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]], votes)
        >>> calibration.predict_set(votes / 4, alpha=0.5).select(["c", "a"]).items
        array(['c', 'a'], dtype=object)
        """
        if self.items is None:
            raise ValueError(
                "items have no names here: predict for a frame whose index names them. Take positions: sets[...]."
            )
        return self[find_rows(items, tuple(self.items))]

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def rescored(self, score: Score, threshold: FloatArray, prediction: Prediction | None = None) -> Self:
        """Return the same sets with membership decided by another score, whose level sets they also are."""
        read = self.prediction if prediction is None else prediction
        return dataclasses.replace(self, score=score, threshold=threshold, prediction=read)

    def contains(self, distribution: Any, broadcast: bool = False) -> BoolArray:
        """Tell which distributions belong to which sets.

        Parameters
        ----------
        distribution : array or Annotations
            Distributions or annotation counts. (N, K): one candidate per set, matched by name where sets and candidates
            have names. (M, K) with ``broadcast=True``: every candidate against every set. (N, M, K): M candidates for
            each set.
        broadcast : bool
            Whether to compare every row of an (M, K) array with every set.

        Returns
        -------
        ndarray of bool
            (N,) for one candidate per set, otherwise (N, M).

        Examples
        --------
        >>> from credalset.scores import KullbackLeibler
        >>> sets = KullbackLeibler().region([[0.5, 0.5], [0.9, 0.1]], threshold=0.2)
        >>> sets.contains([[0.6, 0.4], [1.0, 0.0], [0.5, 0.5]], broadcast=True)
        array([[ True, False,  True],
               [False,  True, False]])
        """
        if not hasattr(distribution, "shape") and not hasattr(distribution, "distributions"):
            # Arrays and frames keep their dtype, which says how exact they are.
            refuse_texts(distribution, "distribution")
            distribution = as_numbers(
                distribution,
                "distribution",
                f"Pass rows of {self.n_classes} probabilities, in the order of the classes.",
            )
        shape: tuple[int, ...] = np.shape(distribution) if hasattr(distribution, "shape") else ()
        if len(shape) == 3 and not broadcast:
            if shape[0] != len(self):
                raise ValueError(
                    f"distribution of shape {shape} must hold candidates for each of the {len(self)} sets: "
                    f"({len(self)}, M, {self.n_classes})."
                )
            flat = np.reshape(np.asarray(distribution), (-1, shape[2]))
            return self._contains_pairs(self._candidates(flat).reshape(shape))
        candidates = self._candidates(distribution, None if broadcast else self.items)
        if broadcast:
            return self._contains_pairs(candidates[None])
        if len(candidates) != len(self):
            raise ValueError(
                f"distribution has {len(candidates)} rows, but there are {len(self)} sets. "
                "Pass broadcast=True to compare every row with every set."
            )
        return self._contains_rows(candidates)

    def _candidates(self, distribution: Any, items: AnyArray | None = None) -> FloatArray:
        name, like = "distribution", "the sets"
        known: dict[str, Any] = {"items": items, "classes": self.classes, "n_classes": self.n_classes}
        return read_labels(distribution, **known, name=name, like=like).distributions

    def _contains_rows(self, candidates: FloatArray) -> BoolArray:
        """Membership of one valid candidate per set."""
        return np.asarray(self.score.evaluate_rows(self.prediction, candidates) <= self.threshold)

    def _contains_pairs(self, candidates: FloatArray) -> BoolArray:
        """Membership of (N or 1, M, K) candidates, a bounded number of pairs at a time."""

        def one_block(rows: slice) -> BoolArray:
            return self._membership(rows, candidates if len(candidates) == 1 else candidates[rows])

        return gather_blocks(one_block, len(self), candidates.shape[1], PAIRS_PER_BLOCK)

    def _membership(self, rows: slice, candidates: FloatArray) -> BoolArray:
        scores = self.score.evaluate_pairs(self.prediction[rows], candidates)
        return np.asarray(scores <= self.threshold[rows, None])

    def efficiency(self, resolution: float = 0.005) -> FloatArray:
        """Return the fraction of the simplex grid that lies in each set, the paper's measure of set size.

        Parameters
        ----------
        resolution : float
            Grid step; 0.005 as in the paper (20 301 points for three classes). The number of points grows with the
            number of classes as C(1/resolution + K − 1, K − 1): use a coarser grid beyond three classes.

        Returns
        -------
        ndarray of shape (N,)

        Examples
        --------
        >>> from credalset.scores import TotalVariation
        >>> TotalVariation().region([[1.0, 0.0, 0.0]], threshold=0.5).efficiency().round(4)
        array([0.2537])
        """
        points = grid(self.n_classes, resolution)[None]

        def one_block(rows: slice) -> FloatArray:
            return self._membership(rows, points).mean(axis=1)

        return gather_blocks(one_block, len(self), points.shape[1], PAIRS_PER_BLOCK)

    def __repr__(self) -> str:
        noun = self.shape if len(self) == 1 else f"{self.shape}s"
        text = f"CredalSet: {len(self)} {noun} over {self.n_classes} classes"
        if len(self) == 0:
            return f"{text} (score {self.score.name})"
        low, high = float(self.threshold.min()), float(self.threshold.max())
        span = f"threshold {low:.4g}" if low == high else f"thresholds {low:.4g} to {high:.4g}"
        n_empty = int(self.is_empty().sum())
        empty = f", {n_empty} empty" if n_empty else ""
        return f"{text}, {span}{empty} (score {self.score.name})"
