"""Where predictions come from: the user, texts, or nothing but the shares of the classes.

Whatever is learned from votes is learned from the votes of the items it is given, and of no others:
a model of texts, and the law of the crowd. Predictions for the items that it learned from are out
of fold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from credalset._typing import FloatArray, IntArray
from credalset.crowd import DirichletCrowd
from credalset.crowd.accept import Fitted
from credalset.predictors import SoftLabelClassifier
from credalset.predictors.pipeline import table_pipeline

FOLDS = 5
LEAST = 5  # items with votes that a law can be fitted to


class Source(ABC):
    """What predicts for all items of a table, and learns from the votes of some of them."""

    #: whether so much is learned that half of the items are needed
    halves = False
    #: whether predictions came without the votes of these items, which only the user knows
    given = False

    def __init__(self, counts: FloatArray, seed: int, max_iter: int = 200) -> None:
        self.counts = counts
        self.seed = seed
        self.max_iter = max_iter
        self._fits: dict[bytes, Fitted] = {}

    def __call__(self, rows: IntArray) -> Fitted:
        """Learn from the votes of some items; the same rows are learned from once."""
        key = rows.tobytes()
        if key not in self._fits:
            voted = rows[self.counts[rows].any(axis=1)]
            if len(voted) < LEAST:
                raise ValueError(
                    f"votes has only {len(voted)} items with votes to learn from, but {LEAST} are "
                    "needed. Collect votes on more items."
                )
            prediction = self.predict(voted)
            crowd = DirichletCrowd(max_iter=self.max_iter, random_state=self.seed)
            crowd.fit(prediction[voted], self.counts[voted])
            self._fits[key] = Fitted(prediction, crowd)
        return self._fits[key]

    @abstractmethod
    def predict(self, rows: IntArray) -> FloatArray:
        """Return predictions for all items, (n, K), from the votes of some of them."""

    def model(self) -> Any:
        """Return what predicts for new items, or None if the user does."""
        return None


class GivenPredictions(Source):
    """Predictions of the user, which were made without the votes of these items."""

    given = True

    def __init__(self, prediction: FloatArray, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.prediction = prediction

    def predict(self, rows: IntArray) -> FloatArray:
        """Return the predictions that were given."""
        return self.prediction


class ClassShares(Source):
    """No model: every item is predicted to have the shares of the classes."""

    def predict(self, rows: IntArray) -> FloatArray:
        """Return the mean share of each class among some items, a little smoothed, for all."""
        voted = self.counts[rows]
        shares = (voted / voted.sum(axis=1, keepdims=True)).sum(axis=0) + 1.0 / voted.shape[1]
        return np.tile(shares / shares.sum(), (len(self.counts), 1))


class LearnedModel(Source):
    """A pipeline of TF-IDF weights, scaled numbers and categories, and logistic regression.

    It is trained on shares of votes. ``frame`` has a column for each feature, and ``kinds`` says
    what each is: number, category or text.
    """

    halves = True

    def __init__(self, frame: Any, kinds: Sequence[str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.frame = frame
        self.kinds = tuple(kinds)
        self._models: list[Any] = []

    def predict(self, rows: IntArray) -> FloatArray:
        """Train on some items and predict for the others; out of fold for the items themselves."""
        found = np.empty_like(self.counts)
        fold = np.random.default_rng(self.seed).permutation(len(rows)) % FOLDS
        for number in range(FOLDS):
            inside = rows[fold == number]
            found[inside] = self._train(rows[fold != number]).predict_proba(self._take(inside))
        model = self._train(rows)
        self._models.append(model)
        others = np.setdiff1d(np.arange(len(found)), rows)
        if len(others):
            found[others] = model.predict_proba(self._take(others))
        return found

    def _take(self, rows: IntArray) -> Any:
        return self.frame.iloc[rows]

    def _train(self, rows: IntArray) -> Any:
        learner = SoftLabelClassifier(LogisticRegression(C=10.0, max_iter=500))
        model = table_pipeline(list(self.frame.columns), self.kinds, learner)
        return model.fit(self._take(rows), self.counts[rows])

    def model(self) -> Any:
        """Return the model of the first rule."""
        return self._models[0]
