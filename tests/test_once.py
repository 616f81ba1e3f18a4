"""On the main paths, each argument is read once and each score, set and membership computed once.

Calls are counted by their code, so that it does not matter where a function was imported.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset import _batch
from credalset.calibration.thresholds import Thresholds
from credalset.crowd.posterior import Posterior
from credalset.predictors.protocol import predict_array
from credalset.scores import Score
from credalset.sets import membership

N = 240
DATA = cs.datasets.make_synthetic(3 * N, n_votes=20, random_state=0)
ITEMS = [f"item {i}" for i in range(3 * N)]
P = pd.DataFrame(DATA.distributions, ITEMS, ["a", "b", "c"])
VOTES = pd.DataFrame(DATA.counts, ITEMS, ["a", "b", "c"])
GROUPS = pd.Series(np.where(DATA.X[:, 0] > 0, "left", "right"), ITEMS)
CALIB, TEST = slice(N, 2 * N), slice(2 * N, 3 * N)
ALPHAS = (0.1, 0.2, 0.3)

#: what is counted, and by which argument the count is divided
COUNTED: dict[Any, tuple[str, str | None]] = {
    _batch.read.__code__: ("read", "name"),
    _batch.read_votes.__code__: ("read", "name"),
    _batch.Batch.per_item.__code__: ("read", "name"),
    predict_array.__code__: ("predictions of the model", None),
    Score.evaluate_rows.__code__: ("scores", None),
    Score._region.__code__: ("sets", None),
    Thresholds.thresholds.__code__: ("thresholds", None),
    membership.contains_rows.__code__: ("memberships", None),
    vars(Posterior)["given"].__func__.__code__: ("posteriors", None),
}


def count(call: Callable[[], Any]) -> dict[str, int]:
    """Count the calls of the functions above; of arguments only those that were given."""
    found: Counter[str] = Counter()

    def note(frame: Any, event: str, _: Any) -> None:
        if event != "call" or frame.f_code not in COUNTED:
            return
        what, name = COUNTED[frame.f_code]
        if name is not None:
            given = frame.f_locals.get("values", frame.f_locals.get("votes", ""))
            if given is None or isinstance(given, _batch.Labels):
                return  # not given, or read already
            what = f"{what} {frame.f_locals[name]}"
        found[what] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(None)
    return dict(found)


def test_conformalize_and_predict() -> None:
    made: list[Any] = []
    assert count(
        lambda: made.append(cs.conformalize(P[CALIB], VOTES[CALIB], "tv", groups=GROUPS[CALIB]))
    ) == {"read predictions": 1, "read votes": 1, "read groups": 1, "scores": 1}
    assert count(lambda: made[0].predict_set(P[TEST], 0.1, groups=GROUPS[TEST])) == {
        "read predictions": 1,
        "read groups": 1,
        "thresholds": 1,
        "sets": 1,
    }


def test_evaluate_with_groups() -> None:
    made = cs.conformalize(P[CALIB], VOTES[CALIB], "tv", groups=GROUPS[CALIB])
    found = count(lambda: cs.evaluate(made, P[TEST], VOTES[TEST], ALPHAS, GROUPS[TEST]))
    assert found == {
        "read predictions": 1,
        "read votes": 1,
        "read groups": 1,
        "scores": 1,  # of the votes, for all levels and groups
        "thresholds": len(ALPHAS),
        "sets": 2 * len(ALPHAS),  # and those of a constant prediction
    }


def test_report() -> None:
    pytest.importorskip("jinja2")
    made = cs.conformalize(P[CALIB], VOTES[CALIB], "tv")
    found = count(lambda: cs.report(made, P[TEST], VOTES[TEST], None, groups=GROUPS[TEST]))
    n_levels = 50  # of the slider, among which are those of the page and of the table
    assert found == {
        "read predictions": 1,
        "read votes": 1,
        "read groups": 1,
        "scores": 1,
        "thresholds": n_levels,
        "sets": 3 + 3,  # and those of a constant prediction, for the rows of the table
    }


def test_crowd() -> None:
    crowd = cs.DirichletCrowd(n_consensus=1, max_iter=10).fit(P[:N], VOTES[:N])
    made = crowd.conformalize(P[CALIB], VOTES[CALIB], "tv", in_hand=(0, 3))
    hand = VOTES[TEST].clip(upper=1)
    found = count(lambda: made.predict_set(P[TEST], 0.1, votes=hand))
    assert found == {
        "read predictions": 1,
        "read votes": 1,
        "posteriors": 1,
        "thresholds": 2,
        "sets": 1,
    }
    found = count(
        lambda: cs.evaluate(made, P[TEST], VOTES[TEST] - hand, ALPHAS, votes_in_hand=hand)
    )
    assert found == {
        "read predictions": 1,
        "read votes": 2,  # those in hand, and the others
        "posteriors": 1,
        "scores": 1,
        "thresholds": 2 * len(ALPHAS),
        "sets": len(ALPHAS),
    }


def test_classifier() -> None:
    X = pd.DataFrame(DATA.X, ITEMS)
    clf = cs.ConformalCredalClassifier(LogisticRegression(), "tv").fit(X[:N], VOTES[:N])
    found = count(lambda: clf.conformalize(X[CALIB], VOTES[CALIB], GROUPS[CALIB]))
    assert found == {"read Y": 1, "read groups": 1, "predictions of the model": 1, "scores": 1}
    found = count(lambda: clf.evaluate(X[TEST], VOTES[TEST], ALPHAS, GROUPS[TEST]))
    assert found == {
        "predictions of the model": 1,
        "read Y": 1,
        "read groups": 1,
        "scores": 1,
        "thresholds": len(ALPHAS),
        "sets": 2 * len(ALPHAS),
    }
