"""A pipeline for tables of numbers, categories and texts, and what it saw in training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from credalset.exceptions import need
from credalset.predictors.labels import accepts_sparse


def table_pipeline(columns: Sequence[str], kinds: Sequence[str], learner: Any) -> Pipeline:
    """Return a learner behind TF-IDF weights, scaled numbers and one-hot categories.

    Missing numbers become the median of the training items. Values of categories that were not in
    training, and missing ones if there were none, are zeros in all columns of the category.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns of the frames that the pipeline will read.
    kinds : sequence of str
        What each column is: number, category or text; missing categories and texts are empty texts.
    learner : estimator
        The last step.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = pd.DataFrame({"says": ["good day", "bad day"], "age": [7.0, None]})
    >>> pipeline = table_pipeline(["says", "age"], ["text", "number"], LogisticRegression())
    >>> pipeline.fit(X, [1, 0])[:-1].get_feature_names_out().tolist()
    ['numbers__age', 'text1__bad', 'text1__day', 'text1__good']
    """
    by_kind: dict[str, list[str]] = {"number": [], "category": [], "text": []}
    for name, kind in zip(columns, kinds, strict=True):
        by_kind[kind].append(name)
    parts: list[tuple[str, Any, Any]] = []
    if by_kind["number"]:
        scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
        parts.append(("numbers", scaled, by_kind["number"]))
    if by_kind["category"]:
        one_hot = OneHotEncoder(handle_unknown="ignore")
        parts.append(("categories", one_hot, by_kind["category"]))
    # Names of parts are numbered, as those of columns may be words that scikit-learn refuses.
    for number, name in enumerate(by_kind["text"], 1):
        parts.append((f"text{number}", TfidfVectorizer(), name))
    threshold = 1.0 if accepts_sparse(learner) else 0.0
    return make_pipeline(ColumnTransformer(parts, sparse_threshold=threshold), learner)


def frame_of_nothing(names: Sequence[Any], kinds: Sequence[str] | None = None) -> Any:
    """Return a frame of one row in which every value is missing.

    Examples
    --------
    >>> frame_of_nothing(["age", "says"], ["number", "text"]).to_dict("list")
    {'age': [nan], 'says': ['']}
    """
    pandas = need("pandas", "A model of named features")
    cells = [np.nan if kind == "number" else "" for kind in kinds or ["number"] * len(names)]
    columns = [pandas.Series([cell]) for cell in cells]
    return pandas.concat(columns, axis=1).set_axis(list(names), axis=1)


def known_categories(estimator: Any) -> dict[str, set[Any]]:
    """Return the values of categories that an estimator was trained on, by column.

    They are those of encoders within a `ColumnTransformer`, wherever it stands.
    """
    found: dict[str, set[Any]] = {}
    for part in _parts(estimator):
        if not isinstance(part, ColumnTransformer):
            continue
        for _, transformer, columns in part.transformers_:
            names = [columns] if isinstance(columns, str) else list(columns)
            for inner in _parts(transformer):
                categories = getattr(inner, "categories_", ())
                if len(categories) == len(names):
                    found |= {
                        name: set(values)
                        for name, values in zip(names, categories, strict=True)
                        if isinstance(name, str)
                    }
    return found


def _parts(estimator: Any) -> Iterator[Any]:
    """Yield an estimator and those within: steps of pipelines, bases, the best of a search."""
    yield estimator
    inner = [getattr(estimator, name, None) for name in ("base_", "best_estimator_")]
    if isinstance(estimator, Pipeline):
        inner = [step for _, step in estimator.steps]
    for each in inner:
        if hasattr(each, "get_params"):
            yield from _parts(each)
