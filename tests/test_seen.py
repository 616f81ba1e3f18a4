"""Items that trained or calibrated are noticed where they are to show how well sets cover."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.annotations import seen
from credalset.annotations.seen import digests, reused
from credalset.exceptions import CredalSetWarning

DATA = cs.datasets.make_synthetic(400, random_state=0)
NAMES = [f"item {i}" for i in range(400)]
X = pd.DataFrame(DATA.X, index=NAMES).rename(columns=str)
VOTES = cs.Annotations.from_counts(DATA.counts, items=NAMES)
PREDICTIONS = pd.DataFrame(DATA.distributions, index=NAMES)


def said(call: Callable[[], Any]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CredalSetWarning)
        call()
    return "\n".join(str(each.message) for each in caught)


def classifier() -> Any:
    return cs.ConformalCredalClassifier(LogisticRegression())


def test_calibrating_on_what_was_trained_on() -> None:
    clf = classifier().fit(X[:200], VOTES[:200])
    found = said(lambda: clf.conformalize(X[150:300], VOTES[150:300]))
    assert "50 of 150 items (first: 'item 150', 'item 151', 'item 152', …) were used in fit: " in found
    assert "fit_conformalize(X, Y)" in found
    assert said(lambda: clf.conformalize(X[200:300], VOTES[200:300])) == ""


@pytest.mark.parametrize("features", [DATA.X, DATA.X.tolist(), pd.DataFrame(DATA.X)], ids=["array", "list", "frame"])
def test_without_names_the_same_rows_are_known_again(features: Any) -> None:
    clf = classifier().fit(features, DATA.counts)
    assert "These very items were used in fit" in said(lambda: clf.conformalize(features, DATA.counts))
    assert said(lambda: clf.conformalize(features[:200], DATA.counts[:200])) == ""
    assert said(lambda: classifier().cross_conformalize(features, DATA.counts, random_state=0)) == ""
    assert said(lambda: classifier().fit_conformalize(features, DATA.counts, random_state=0)) == ""


def test_row_numbers_of_two_tables_say_nothing() -> None:
    frame = X.reset_index(drop=True)
    clf = classifier().fit(frame[:200], DATA.counts[:200])
    other = frame[200:].reset_index(drop=True)
    assert said(lambda: clf.conformalize(other, DATA.counts[200:])) == ""
    assert not len(digests(frame.index))
    assert not len(digests([4, 2]))


def test_coverage_on_items_that_were_used(tmp_path: Path) -> None:
    clf = classifier().fit(X[:100], VOTES[:100]).conformalize(X[100:200], VOTES[100:200])
    clf.save(tmp_path / "model")
    for model in (clf, cs.load(tmp_path / "model")):
        for first in (90, 190):  # trained on, and calibrated on
            found = said(lambda model=model, first=first: model.evaluate(X[first:], VOTES[first:], alpha=0.1))
            assert f"{200 - first} of {400 - first} items (first: 'item {first}'" in found
            assert "were used in fit or conformalize" in found
        assert said(lambda model=model: model.evaluate(X[200:], VOTES[200:], alpha=0.1)) == ""


def test_calibrations_of_predictions_know_their_items(tmp_path: Path) -> None:
    made = cs.conformalize(PREDICTIONS[:200], VOTES[:200].counts)  # names of the predictions alone
    made.save(tmp_path / "calibration")
    loaded = cs.load(tmp_path / "calibration")
    np.testing.assert_array_equal(loaded.seen, made.seen)
    assert "10 of 210 items" in said(lambda: cs.evaluate(loaded, PREDICTIONS[190:], VOTES[190:], alpha=0.1))
    plain = cs.conformalize(DATA.distributions[:200], DATA.counts[:200])
    again = said(lambda: cs.evaluate(plain, DATA.distributions[:200], DATA.counts[:200], alpha=0.1))
    assert "These very items were used" in again
    assert said(lambda: cs.evaluate(plain, DATA.distributions[200:], DATA.counts[200:], alpha=0.1)) == ""


def test_the_page_and_the_plan_say_so() -> None:
    made = cs.conformalize(PREDICTIONS[:200], VOTES[:200])
    with pytest.warns(CredalSetWarning, match="100 of 200 items"):
        page = cs.report(made, PREDICTIONS[100:300], VOTES[100:300], path=None)
    assert "100 of 200 items (first: &#39;item 100&#39;" in page.html
    assert "were used in fit" not in cs.report(made, PREDICTIONS[200:], VOTES[200:], path=None).html
    notes = cs.plan(made, PREDICTIONS[100:300], VOTES[100:300], budget=10).notes
    assert any("100 of 200 items" in note for note in notes)


def test_no_name_is_kept_and_orders_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "LARGEST", 1000)
    many = [f"item {i}" for i in range(3000)]
    known = digests(many)
    assert known.dtype == np.uint64
    assert len(known) == 1000
    assert reused(known, many[::-1]).startswith("1000 of 3000 items")
    assert reused(known, ["a", "b"]) == ""


@pytest.mark.parametrize(
    "names",
    [
        range(450),
        [str(i) for i in range(450)],
        [float(i) for i in range(450)],
        [(i // 9, i % 9) for i in range(450)],
        [float("nan")] * 450,
        [None] * 450,
    ],
    ids=["range", "texts", "fractions", "pairs", "nan", "none"],
)
def test_numbers_that_count_rows_are_no_names(names: Any) -> None:
    assert not len(digests(list(names)))
    assert len(digests([90_000_000 + i for i in range(450)])) == 450


@pytest.mark.parametrize(
    "features",
    [
        coo_matrix(DATA.X),
        deque(["a text", "another"] * 200),
        [[1, 2], [3]] * 200,
        iter(range(400)),
        np.zeros((400, 20_000)),
        csr_matrix((400, 2**20)),
        np.array([{"a": 1}] * 400, dtype=object),
    ],
    ids=["coo", "deque", "ragged", "iterator", "wide", "wider", "objects"],
)
def test_whatever_features_are_nothing_is_refused_and_little_is_read(features: Any) -> None:
    start = time.process_time()
    digests(None, features)
    assert time.process_time() - start < 1.0


def test_features_that_are_alike_are_not_the_same() -> None:
    constant = np.full((200, 3), 1 / 3)
    made = cs.conformalize(constant, DATA.counts[:200])
    assert said(lambda: cs.evaluate(made, constant, DATA.counts[200:], alpha=0.1)) == ""
    assert "These very items" in said(lambda: cs.evaluate(made, constant, DATA.counts[:200], alpha=0.1))


def test_a_loaded_classifier_still_knows_what_it_was_trained_on(tmp_path: Path) -> None:
    classifier().fit(X[:200], VOTES[:200]).save(tmp_path / "fitted")
    clf = cs.load(tmp_path / "fitted")
    assert "100 of 100 items" in said(lambda: clf.conformalize(X[100:200], VOTES[100:200]))
    clf.conformalize(X[200:300], VOTES[200:300])
    assert "were used in fit or conformalize" in said(lambda: clf.evaluate(X[:50], VOTES[:50], alpha=0.1))


def test_features_without_names_are_known_again_by_evaluate() -> None:
    clf = classifier().fit(DATA.X[:200], DATA.counts[:200]).conformalize(DATA.X[200:300], DATA.counts[200:300])
    for rows in (slice(200), slice(200, 300)):
        found = said(lambda rows=rows: clf.evaluate(DATA.X[rows], DATA.counts[rows], alpha=0.1))
        assert found.count("These very items") == 1
    assert said(lambda: clf.evaluate(DATA.X[300:], DATA.counts[300:], alpha=0.1)) == ""
    assert "used in fit:" in said(lambda: clf.compare(DATA.X[:200], DATA.counts[:200], ["tv"]))


def test_names_of_features_are_enough_for_folds() -> None:
    clf = classifier().cross_conformalize(X[:200], DATA.counts[:200], random_state=0)
    assert "200 of 200 items" in said(lambda: clf.evaluate(X[:200], DATA.counts[:200], alpha=0.1))
    assert said(lambda: clf.evaluate(X[200:], DATA.counts[200:], alpha=0.1)) == ""
