"""`evaluate`: rows, bands, verdicts and sizes on held-out items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.evaluation import evaluate
from credalset.evaluation.tested import read_tested

DATA = cs.datasets.make_synthetic(900, n_classes=3, n_votes=20, random_state=0)
TRAIN, CALIB, TEST = slice(0, 300), slice(300, 600), slice(600, 900)


def calibrated(score: Any = "tv", X: Any = DATA.X, **options: Any) -> Any:
    clf = cs.ConformalCredalClassifier(LogisticRegression(), score)
    return clf.fit(X[TRAIN], DATA.counts[TRAIN]).conformalize(
        X[CALIB], DATA.counts[CALIB], **options
    )


def test_one_honest_split_in_a_hundred_falls_outside_the_band() -> None:
    """The binomial interval, which ignores the calibration draw,
    leaves out 1 − α far more often.
    """
    rng, runs, n = np.random.default_rng(0), 200, 250
    outside = excluded = 0
    for _ in range(runs):
        p = rng.dirichlet(np.ones(4), 2 * n)
        y = rng.standard_gamma(20 * p + 0.1)  # Dirichlet, once divided by its sum
        y /= y.sum(axis=1, keepdims=True)
        row = evaluate(cs.conformalize(p[:n], y[:n], "tv"), p[n:], y[n:], 0.1, volume=False)[0]
        assert (row["verdict"] == "valid") == (
            row["band_low"] <= row["coverage"] <= row["band_high"]
        )
        outside += row["verdict"] in ("undercovers", "overcovers")
        excluded += not row["coverage_low"] <= 0.9 <= row["coverage_high"]
    high = binom(runs, 0.01).ppf(0.999)
    assert outside <= high
    assert excluded > high


def test_votes_that_belong_to_others_are_noticed() -> None:
    clf = calibrated()
    order = np.random.default_rng(0).permutation(300)
    right, wrong = (
        evaluate(clf, DATA.X[TEST], counts, 0.1)
        for counts in (DATA.counts[TEST], DATA.counts[TEST][order])
    )
    assert (right[0]["verdict"], right.passed) == ("valid", True)
    assert (wrong[0]["verdict"], wrong.passed) == ("undercovers", False)
    assert clf.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.1) == right


def test_where_no_distribution_is_known_there_is_no_band() -> None:
    rows = calibrated(weights=np.ones(300)).evaluate(
        DATA.X[TEST], DATA.counts[TEST], 0.1, weights=np.ones(300)
    )
    assert (rows[0]["band_low"], rows[0]["verdict"]) == (None, "valid")
    assert "Without a band" in str(rows)


def test_groups_have_a_band_of_their_own() -> None:
    keys = np.where(DATA.X[:, 0] > 0, "a", "b")
    clf = calibrated(groups=keys[CALIB])
    rows = clf.evaluate(DATA.X[TEST], DATA.counts[TEST], [0.1, 0.2], groups=keys[TEST])
    tested = read_tested(clf, DATA.X[TEST], DATA.counts[TEST], keys[TEST])
    assert (rows[0]["band_low"], rows[0]["band_high"]) == tested.band(0.1, tested.rows)
    assert [(row["alpha"], row["group"]) for row in rows.groups] == [
        (0.1, "a"),
        (0.1, "b"),
        (0.2, "a"),
        (0.2, "b"),
    ]
    sets = clf.predict_set(DATA.X[TEST], alpha=0.2, groups=keys[TEST])
    found = cs.metrics.coverage_by_group(sets, DATA.counts[TEST], keys[TEST])
    assert {row["group"]: row["coverage"] for row in rows.groups[2:]} == found
    assert all(row["verdict"] in ("valid", "overcovers") for row in rows.groups)
    predicted = calibrated(groups="predicted").evaluate(DATA.X[TEST], DATA.counts[TEST], 0.2)
    assert predicted[0]["band_low"] is not None


def test_groups_that_the_calibration_does_not_have_are_only_described() -> None:
    keys = np.where(DATA.X[:, 0] > 0, "a", "b")
    rows = calibrated().evaluate(DATA.X[TEST], DATA.counts[TEST], 0.1, groups=keys[TEST])
    assert [row["verdict"] for row in rows.groups] == [None, None]
    assert "95% interval" in str(rows)


def test_sizes_are_those_of_the_metrics() -> None:
    clf = calibrated("kl")
    row = clf.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.2)[0]
    sets = clf.predict_set(DATA.X[TEST], 0.2)
    assert row["volume"] is None
    for name in ("width", "epistemic", "labels"):
        expected = getattr(cs.metrics, f"mean_{name}")(sets)
        assert (row[name], row[name].low, row[name].high) == (
            expected,
            expected.low,
            expected.high,
        ), name
    assert row["decided"] == cs.metrics.decided(sets)
    frame = pd.DataFrame(clf.evaluate(DATA.X[TEST], DATA.counts[TEST]))
    assert (np.diff(frame["width"].astype(float)) < 0).all(), "sets shrink as alpha grows"


def test_many_sets_are_measured_by_a_selection_and_volumes_where_they_are_asked_for() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(40), 600)
    calibration = cs.conformalize(p[:300], p[:300], "tv")
    row = evaluate(calibration, p, p, 0.2)[0]
    assert row["n"] == row["coverage"].n == 600
    assert row["width"].n <= 250
    measured = evaluate(calibration, p[:5], p[:5], 0.2, volume=True)
    assert 0 <= measured[0]["volume"] <= 1
    assert "volume" in str(measured)


def test_votes_in_hand_that_are_left_out_are_covered_like_later_ones() -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([1, 1, 1], 2000)
    prediction, votes = (truth + 0.1) / 1.3, rng.multinomial(10, truth)
    crowd = cs.DirichletCrowd().fit(prediction[:300], votes[:300])
    calibration = crowd.conformalize(prediction[300:1000], votes[300:1000], "tv", in_hand=0)
    hand = np.array([rng.multivariate_hypergeometric(row, 8) for row in votes[1000:]])
    row = evaluate(calibration, prediction[1000:], votes[1000:] - hand, 0.1, votes_in_hand=hand)[0]
    assert row["coverage"] == cs.metrics.coverage(
        calibration.predict_set(prediction[1000:], 0.1), votes[1000:]
    )
    later = votes[1000:] - hand
    later[:200] = np.minimum(later[:200], 1)  # nine votes in all or fewer, where ten are needed
    few = (hand + later).sum(axis=1) < 10
    row = evaluate(calibration, prediction[1000:], later, 0.1, votes_in_hand=hand)[0]
    assert row["n"] == row["coverage"].n == row["width"].n == 1000 - few.sum() < 1000


def test_votes_cannot_be_in_hand_and_to_be_covered() -> None:
    data = cs.datasets.make_judge_panel(300, n_votes=20, random_state=0)
    table = pd.DataFrame(data.votes())
    votes, p = (
        cs.Annotations.from_table(table),
        pd.DataFrame(data.prediction, data.items, data.classes),
    )
    crowd = cs.DirichletCrowd().fit(p[:100], votes)
    calibration, first = (
        crowd.conformalize(p[100:200], votes, in_hand=(0, 3)),
        table.groupby("task").cumcount() < 3,
    )
    in_hand, later = (
        cs.Annotations.from_table(table[first]),
        cs.Annotations.from_table(table[~first]),
    )
    assert evaluate(calibration, p[200:], later, 0.1, votes_in_hand=in_hand)[0]["n"] == 100
    with pytest.raises(ValueError, match="votes holds 900 votes that votes_in_hand holds"):
        evaluate(calibration, p[200:], votes, 0.1, votes_in_hand=in_hand)
    with pytest.raises(ValueError, match="votes holds 900 votes that votes_in_hand holds"):
        cs.report(calibration, p[200:], votes, None, votes_in_hand=in_hand)


def test_label_sets_are_not_evaluated_as_credal_sets() -> None:
    calibration = cs.labels.conformalize(DATA.distributions[:100], DATA.counts[:100])
    with pytest.raises(TypeError, match="LabelCalibration"):
        evaluate(calibration, DATA.distributions[100:], DATA.counts[100:])


def test_a_model_that_knows_nothing_is_told_so() -> None:
    blind = calibrated("tv", X=np.zeros((900, 2))).evaluate(
        np.zeros((300, 2)), DATA.counts[TEST], [0.1, 0.2]
    )
    assert [row["informative"] for row in blind] == [False, False]
    assert blind[0]["width"] == pytest.approx(blind[0]["constant_width"], rel=0.05)
    assert "too-large" in str(blind).split("\n\n")[0], "it heads the table"
    assert str(blind).startswith("The tv sets at alpha = 0.1, 0.2 ")
    sighted = calibrated("tv").evaluate(DATA.X[TEST], DATA.counts[TEST], [0.1, 0.2])
    assert [row["informative"] for row in sighted] == [True, True]
    assert sighted[0]["width"] < 0.5 * sighted[0]["constant_width"]
    assert "too-large" not in str(sighted)


def test_items_with_few_votes_do_not_test_a_panel() -> None:
    """The guarantee is about items with many votes; shares of few votes gave a false alarm."""
    rng, p, many = np.random.default_rng(0), DATA.distributions, DATA.counts
    crowd = cs.DirichletCrowd(max_iter=20).fit(p[TRAIN], many[TRAIN])
    calibration = crowd.conformalize(
        p[CALIB], many[CALIB], in_hand=(0, 3)
    )  # items of 20 votes, at least 13
    few = np.array(
        [rng.multivariate_hypergeometric(row, rng.integers(5, 10)) for row in many[TEST]]
    )
    alone = evaluate(calibration, p[TEST], few, 0.1)
    assert (alone[0]["verdict"], alone.passed, alone[0]["coverage"].n) == ("not tested", False, 0)
    assert "300 items with fewer than 13 votes" in str(alone)
    three = np.array([rng.multivariate_hypergeometric(row, 3) for row in few])
    mixed = np.where(np.arange(300)[:, None] < 250, many[TEST] - three, few - three)
    keys = np.arange(300) % 2
    for hand in (
        three,
        three + np.eye(3, dtype=int)[many[TEST].argmax(axis=1)],
    ):  # four are thinned to three
        rows = evaluate(calibration, p[TEST], mixed, 0.1, votes_in_hand=hand, groups=keys)
        assert (rows[0]["coverage"].n, rows[0]["constant_width"], rows.passed) == (250, None, True)
        assert rows[0]["band_low"] is not None
        assert "50 items" in rows.verdicts[0].sentence
        assert [row["n"] for row in rows.groups] == [125, 125]
        assert "constant" not in str(rows)
    ten = np.array([rng.multivariate_hypergeometric(row, 10) for row in (many[TEST] - three)])
    assert evaluate(calibration, p[TEST], ten, 0.1, votes_in_hand=three)[0]["coverage"].n == 300


def test_groups_that_are_not_tested_have_a_reason() -> None:
    keys = np.where(np.arange(900) % 30 == 0, "few", "many")
    clf = calibrated(groups=keys[CALIB])
    rows = clf.evaluate(DATA.X[TEST], DATA.counts[TEST], 0.4, groups=keys[TEST])
    assert {row["group"]: bool(row["untested"]) for row in rows.groups} == {
        "few": True,
        "many": False,
    }
    assert "Not tested in group few: there are too few" in str(rows)


def test_several_calibrations_in_one_table() -> None:
    prediction, counts = DATA.distributions, DATA.counts
    tv, kl = (cs.conformalize(prediction[CALIB], counts[CALIB], score) for score in ("tv", "kl"))
    rows = evaluate({"mine": tv, "yours": kl}, prediction[TEST], counts[TEST], 0.1)
    assert [row["score"] for row in rows] == ["mine", "yours"]
    assert len(rows.verdicts) == 2
    assert [
        row["score"] for row in evaluate([tv, tv, kl], prediction[TEST], counts[TEST], 0.1)
    ] == [
        "tv (1)",
        "tv (2)",
        "kl",
    ]


def test_cross_conformal_calibrations_are_evaluated() -> None:
    folds = np.arange(300) % 3
    made = cs.cross_conformalize(DATA.distributions[CALIB], DATA.counts[CALIB], folds, score="tv")
    row = evaluate(made, np.stack([DATA.distributions[TEST]] * 3), DATA.counts[TEST], 0.1)[0]
    assert (row["band_low"], row["verdict"]) == (None, "valid")


def test_the_table_fits_a_screen() -> None:
    rows = calibrated("kl").evaluate(DATA.X[TEST], DATA.counts[TEST])
    lines = str(rows).splitlines()
    expected = [
        "score",
        "alpha",
        "coverage",
        "99%",
        "band",
        "verdict",
        "width",
        "constant",
        "epistemic",
        "labels",
    ]
    assert lines[0].split() == [*expected, "decided", "n"]
    assert lines[2].split()[:2] == ["kl", "0.05"]
    assert all(len(line) <= 100 for line in lines)


def test_what_cannot_be_evaluated() -> None:
    with pytest.raises(TypeError, match="calibration"):
        evaluate(object(), DATA.distributions, DATA.counts)
    made = cs.conformalize(DATA.distributions[CALIB], DATA.counts[CALIB], "tv")
    with pytest.raises(ValueError, match="votes"):
        evaluate(made, DATA.distributions[TEST], DATA.counts[TEST][:, :2])
    with pytest.raises(ValueError, match="alpha"):
        evaluate(made, DATA.distributions[TEST], DATA.counts[TEST], 1.5)


def test_coverage_by_quartile_of_difficulty():
    data = cs.datasets.make_synthetic(800, n_classes=3, n_votes=50, random_state=0)
    p, votes = data.distributions, data.counts
    made = cs.conformalize(p[:400], votes[:400], "tv")
    found = cs.evaluate(made, p[400:], votes[400:], alpha=0.1)
    covered = made.predict_set(p[400:]).contains(votes[400:])
    entropy = -(p[400:] * np.log(p[400:])).sum(axis=1)
    quarters = np.array_split(np.argsort(entropy), 4)
    shown = [float(found[0][name]) for name in ("easiest", "second", "third", "hardest")]
    np.testing.assert_allclose(shown, [covered[rows].mean() for rows in quarters])
    assert "difficulty" in str(found)
    few = cs.evaluate(made, p[400:430], votes[400:430], alpha=0.2)
    assert few[0]["easiest"] is None
    assert "difficulty" not in str(few)
    constant = np.full_like(p, 1 / 3)  # one entropy: no quartiles to tell apart
    same = cs.evaluate(cs.conformalize(constant, votes), constant, votes, alpha=0.1)[0]
    assert float(same["easiest"]) == float(same["coverage"])
    assert same["hardest"] is None
