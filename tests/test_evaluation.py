"""What `evaluate` says: a band that holds what chance does, a verdict, and what could be had without a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset._text import Rows
from credalset.annotations.labels import Labels
from credalset.evaluation import Constant, evaluate
from credalset.predictors import SoftLabelClassifier

DATA = cs.datasets.make_synthetic(900, n_classes=3, n_votes=20, random_state=0)
TRAIN, CALIB, TEST = slice(0, 300), slice(300, 600), slice(600, 900)


class SecondOrder(SoftLabelClassifier):
    def predict_concentration(self, X: Any) -> Any:
        return 1.0 + 30.0 * self.predict_proba(X)


def calibrated(score: Any = "tv", X: Any = DATA.X, estimator: Any = None, **options: Any) -> Any:
    clf = cs.ConformalCredalClassifier(LogisticRegression() if estimator is None else estimator, score)
    return clf.fit(X[TRAIN], DATA.counts[TRAIN]).conformalize(X[CALIB], DATA.counts[CALIB], **options)


# --- the band ---


def test_one_honest_split_in_twenty_falls_outside_the_band() -> None:
    """The binomial interval, which ignores the calibration draw, leaves out 1 − α far more often."""
    rng, runs, n = np.random.default_rng(0), 300, 250
    outside = excluded = 0
    for _ in range(runs):
        p = rng.dirichlet(np.ones(4), 2 * n)
        y = rng.standard_gamma(20 * p + 0.1)  # Dirichlet, once divided by its sum
        y /= y.sum(axis=1, keepdims=True)
        row = evaluate(cs.conformalize(p[:n], y[:n]), p[n:], y[n:], 0.1, volume=False)[0]
        assert (row["verdict"] == "kept") == (row["band_low"] <= row["coverage"] <= row["band_high"])
        outside += row["verdict"] in ("short", "generous")
        excluded += not row["coverage_low"] <= 0.9 <= row["coverage_high"]
    low, high = binom(runs, 0.05).ppf([0.001, 0.999])
    assert low <= outside <= high
    assert excluded > high


def test_votes_that_belong_to_others_are_noticed() -> None:
    clf = calibrated()
    order = np.random.default_rng(0).permutation(300)
    assert clf.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.1)[0]["verdict"] == "kept"
    assert clf.evaluate(DATA.X[TEST], DATA.counts[TEST][order], 0.1)[0]["verdict"] == "short"


def test_where_no_law_is_known_there_is_no_band() -> None:
    weighted = calibrated(weights=np.ones(300))
    row = weighted.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.1, weights=np.ones(300))[0]
    assert (row["band_low"], row["band_high"], row["verdict"]) == (None, None, "kept")
    noisy = cs.ConformalCredalClassifier(LogisticRegression(), "tv", cs.UnbiasedVotes())
    noisy.fit(DATA.X[TRAIN], DATA.counts[TRAIN]).conformalize(DATA.X[CALIB], DATA.counts[CALIB])
    row = noisy.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.1)[0]
    assert (row["band_low"], row["verdict"]) == (None, "unseen"), "votes do not show what was promised"


def test_groups_have_a_band_of_their_own() -> None:
    keys = np.where(DATA.X[:, 0] > 0, "a", "b")
    clf = calibrated(groups=keys[CALIB])
    row = clf.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.1, groups=keys[TEST])[0]
    expected = cs.verdict.coverage_band(clf.calibration_, 0.1, 300, groups=keys[TEST].tolist())
    assert (row["band_low"], row["band_high"]) == expected
    predicted = calibrated(groups="predicted").evaluate(DATA.X[TEST], DATA.counts[TEST], 0.2)[0]
    assert predicted["band_low"] is not None


# --- sizes ---


def test_sizes_are_those_of_the_metrics_and_carry_intervals() -> None:
    clf = calibrated("kl")
    row = clf.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.2)[0]
    sets = clf.predict_set(DATA.X[TEST], 0.2)
    for name, measure in (
        ("width", cs.metrics.mean_width),
        ("epistemic", cs.metrics.mean_epistemic),
        ("labels", cs.metrics.mean_labels),
        ("decided", cs.metrics.decided),
        ("volume", cs.metrics.mean_volume),
    ):
        expected = measure(sets)
        assert (row[name], row[name].low, row[name].high) == (expected, expected.low, expected.high), name
    frame = pd.DataFrame(clf.evaluate(DATA.X[TEST], DATA.counts[TEST]))
    assert frame["width"].dtype == float
    assert (np.diff(frame["width"]) < 0).all(), "sets shrink as alpha grows"


def test_volume_where_it_is_cheap_or_asked_for() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(21), 60)
    calibration = cs.conformalize(p[:30], p[30:], "tv")
    assert evaluate(calibration, p[:5], p[:5], 0.2)[0]["volume"] is None
    assert 0 < evaluate(calibration, p[:5], p[:5], 0.2, volume=True)[0]["volume"] <= 1
    few = cs.conformalize(p[:30, :3] / p[:30, :3].sum(axis=1, keepdims=True), np.eye(3)[np.arange(30) % 3], "tv")
    assert evaluate(few, np.eye(3), np.eye(3), 0.2, volume=False)[0]["volume"] is None


def test_many_sets_are_measured_by_a_selection() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(40), 600)
    row = evaluate(cs.conformalize(p[:300], p[:300], "tv"), p, p, 0.2)[0]
    assert row["n"] == row["coverage"].n == 600
    assert row["width"].n <= 250


# --- the constant prediction ---


def test_a_model_that_knows_nothing_is_told_so() -> None:
    blind = calibrated("tv", X=np.zeros((900, 2)))
    rows = blind.evaluate(np.zeros((300, 2)), DATA.counts[TEST], [0.1, 0.2])
    assert [row["score"] for row in rows] == ["tv", "tv"]
    assert [row["score"] for row in rows.constant] == ["tv, constant"] * 2
    assert rows[0]["width"] == pytest.approx(rows.constant[0]["width"], rel=0.02)
    assert "tv: sets are about as wide as those of a constant prediction at alpha = 0.1 (" in str(rows)
    sighted = calibrated("tv").evaluate(DATA.X[TEST], DATA.counts[TEST], [0.1, 0.2])
    assert sighted[0]["width"] < 0.5 * sighted.constant[0]["width"]
    assert "constant prediction" not in str(sighted)
    assert sighted.constant[0] == rows.constant[0], "it sees labels only"


def test_the_constant_prediction_is_the_mean_of_the_calibration_labels() -> None:
    clf = calibrated("tv")
    shares = DATA.counts / 20
    mean = shares[CALIB].mean(axis=0)
    scores = np.sort(0.5 * np.abs(shares[CALIB] - mean).sum(axis=1))
    row = clf.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.1).constant[0]
    assert row["threshold"] == pytest.approx(scores[271 - 1], rel=1e-12)
    assert row["coverage"] == (0.5 * np.abs(shares[TEST] - mean).sum(axis=1) <= scores[271 - 1] + 1e-12).mean()
    assert (row["band_low"], row["verdict"]) == (None, None), "nothing is promised of it"
    assert clf.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.1, constant=False).constant == []


@pytest.mark.parametrize("score", ["so", "density"])
def test_second_order_constants_have_the_moments_of_the_labels(score: str) -> None:
    y = np.random.default_rng(0).dirichlet([4.0, 3.0, 2.0], 4000)
    constant = Constant.from_labels(cs.get_score(score), Labels.read(y))
    assert constant is not None
    assert constant.prediction == pytest.approx(np.array([[4.0, 3.0, 2.0]]), rel=0.1)
    clf = calibrated(score, estimator=SecondOrder())
    assert 0 < clf.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.1).constant[0]["width"] <= 1.5


@pytest.mark.parametrize("kind", ["plain", "cross", "groups", "weights"])
def test_the_constant_prediction_is_saved_too(kind: str, tmp_path: Path) -> None:
    keys, weights = np.where(DATA.X[:, 0] > 0, "a", "b"), np.linspace(1, 2, 900)
    option = {"groups": keys} if kind == "groups" else {"weights": weights} if kind == "weights" else {}
    if kind == "cross":
        clf: Any = cs.ConformalCredalClassifier(LogisticRegression(), "tv")
        clf.cross_conformalize(DATA.X[:200], DATA.counts[:200], 3, random_state=0)
    else:
        clf = calibrated("tv", **{name: values[CALIB] for name, values in option.items()})
    clf.save(tmp_path / "model")
    own = {name: values[TEST] for name, values in option.items()}
    rows = clf.evaluate(DATA.X[TEST], DATA.counts[TEST], [0.1, 0.2], **own)
    again: Any = cs.load(tmp_path / "model").evaluate(DATA.X[TEST], DATA.counts[TEST], [0.1, 0.2], **own)
    assert len(rows.constant) == 2
    assert (again, again.constant) == (rows, rows.constant)


def test_a_score_with_predictions_of_another_kind_has_no_constant() -> None:
    class Odd(cs.scores.TotalVariation):
        def check_prediction(self, prediction: Any, name: str = "prediction", n_classes: int | None = None) -> Any:
            raise ValueError("takes something else")

    assert Constant.from_labels(Odd(), Labels.read(DATA.counts)) is None


# --- the table ---


def test_lists_of_rows_print_as_tables() -> None:
    """What is a list of rows is one kind of thing wherever it comes from."""
    votes = cs.Annotations.from_table([(t, w, "ab"[(t + w) % 3 == 0]) for t in range(60) for w in range(3)])
    clf = calibrated("kl")
    sets = clf.predict_set(DATA.X[TEST])
    agreement = votes.agreement(n_resamples=20)
    listed = [agreement.workers, agreement.classes]
    listed += [cs.metrics.coverage_by_entropy(sets, DATA.counts[TEST])]
    for rows in listed:
        lines = repr(rows).splitlines()
        assert lines[0].split() == list(rows[0])
        assert len(lines) == 2 + len(rows)
        assert list(rows.to_frame().columns) == list(rows.to_dict()) == list(rows[0])
        assert json.loads(json.dumps(rows)) == rows
    assert f"{agreement.workers[0]['agreement']!r}" in repr(agreement.workers), "with its interval"
    assert repr(Rows([{"i": i} for i in range(1000)])).endswith("… and 950 more")
    assert repr(Rows()) == "no rows"


def test_the_table_fits_a_screen() -> None:
    lines = str(calibrated("kl").evaluate(DATA.X[TEST], DATA.counts[TEST])).splitlines()
    expected = ["score", "alpha", "coverage", "99%", "band", "verdict", "width", "epistemic", "labels", "decided"]
    assert lines[0].split() == [*expected, "volume", "threshold", "n"]
    assert lines[2].split()[:2] == ["kl", "0.05"]
    assert lines[5].startswith("kl, constant")
    assert len(lines) == 8
    assert all(len(line) <= 120 for line in lines)


def test_empty_sets_get_a_column() -> None:
    half_spaces = calibrated("inner").evaluate(DATA.X[TEST], DATA.counts[TEST], [0.1, 0.9])
    assert half_spaces[1]["empty"] > 0
    assert "empty" in str(half_spaces).splitlines()[0]


@pytest.mark.parametrize("cross", [False, True])
def test_groups_have_a_table_of_their_own(cross: bool) -> None:
    data = cs.datasets.make_synthetic(500, random_state=0)
    groups = np.array(["de", "en"])[np.arange(500) % 2]
    clf = cs.ConformalCredalClassifier(LogisticRegression())
    if cross:
        clf.cross_conformalize(data.X[:300], data.counts[:300], groups=groups[:300], random_state=0)
    else:
        clf.fit(data.X[:100], data.counts[:100]).conformalize(data.X[100:300], data.counts[100:300], groups[100:300])
    rows = clf.evaluate(data.X[300:], data.counts[300:], alpha=[0.1, 0.2], groups=groups[300:])
    sets = clf.predict_set(data.X[300:], alpha=0.2, groups=groups[300:])
    expected = cs.metrics.coverage_by_group(sets, data.counts[300:], groups[300:])
    assert [(row["alpha"], row["group"]) for row in rows.groups] == [(0.1, "de"), (0.1, "en"), (0.2, "de"), (0.2, "en")]
    assert {row["group"]: row["coverage"] for row in rows.groups[2:]} == expected
    printed = str(rows).split("\n\n")[1].splitlines()
    assert printed[0].split() == [
        "score",
        "alpha",
        "group",
        "coverage",
        "95%",
        "interval",
        "99%",
        "band",
        "verdict",
        "n",
    ]
    assert len(printed) == 2 + len(rows.groups)
    assert [row["verdict"] for row in rows.groups[:2]] == ["kept", "kept"]
    if not cross:
        named = cs.evaluate(
            {"mine": clf.calibration_}, clf.predict_proba(data.X[300:]), data.counts[300:], 0.1, groups[300:]
        )
        assert [row["score"] for row in named.groups] == ["mine", "mine"]
        twice = cs.evaluate(
            [clf.calibration_] * 2, clf.predict_proba(data.X[300:]), data.counts[300:], 0.1, groups[300:]
        )
        assert [row["score"] for row in twice] == ["tv (1)", "tv (2)"]
