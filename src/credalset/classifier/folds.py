"""One estimator per fold, and what each predicts for the items that it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from credalset._predictions import joined, row_shapes
from credalset._typing import IntArray
from credalset._validation import Checked
from credalset.annotations.labels import Labels
from credalset.predictors.protocol import fit_learner, name_classes, predict_for, prepare
from credalset.scores import Score


def fit_folds(base: Any, score: Score, X: Any, labels: Labels, folds: IntArray) -> tuple[list[Any], Checked]:
    """Fit an estimator without each fold; return them, and what they predict for the items of their folds."""
    estimators, blocks = [], []
    for fold in range(int(folds.max()) + 1):
        train, held_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        estimator = prepare(base, score)
        estimators.append(fit_learner(estimator, _safe_indexing(X, train), labels[train]))
        name_classes(estimators[-1], labels.class_names())
        blocks.append(predict_for(score, estimators[-1], _safe_indexing(X, held_out)).prediction)
    shapes = {row_shapes(block) for block in blocks}
    if len(shapes) > 1 or score.n_classes(blocks[0]) != labels.n_classes:
        seen = sorted(shape for arrays in shapes for shape in arrays)
        raise ValueError(
            f"the folds' estimators must predict the {labels.n_classes} classes of Y each, but predict items "
            f"of shapes {seen}. Check that the estimator knows classes that a fold may lack."
        )
    in_order = np.argsort(np.argsort(folds, kind="stable"), kind="stable")
    return estimators, Checked(joined(blocks)[in_order])
