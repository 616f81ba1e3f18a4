"""The page without a browser: what it says is what the library says, for every kind of input."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.acting.steps import STEPS
from credalset.crowd.accept import contradiction
from credalset.crowd.posterior import Posterior
from credalset.evaluation.verdict import percent
from credalset.reporting import Report, compose
from credalset.reporting import items as items_module
from credalset.reporting import page as page_module
from credalset.reporting.model import Standing
from credalset.scores import TotalVariation
from tests.report.pages import HOSTILE, NASTY, Reader, data_of, example_report, make, page

# --- what it says ---


def test_the_verdict_is_the_library_s() -> None:
    g, counts = make()
    calibration = cs.conformalize(g[:300], counts[:300], "tv")
    report = cs.report(calibration, g[300:], counts[300:], None)
    sets = calibration.predict_set(g[300:], 0.1)
    seen = cs.metrics.coverage(sets, counts[300:])
    assert report.verdict.observed == seen
    text = Reader(report.html).text()
    assert f"Sets valid: {percent(seen)} of 200 items covered" in text
    assert report.verdict.detail.split(" On average")[0] in text
    assert "exchangeable" in text
    assert "as it would be recorded" in text
    assert 'class="verdict good"' in report.html
    evaluation = cs.evaluate(calibration, g[300:], counts[300:], 0.1)
    assert evaluation.verdicts == [report.verdict]


@pytest.mark.parametrize("score", ["tv", "kl", "inner"])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_items_hold_what_the_sets_say(score: str, n_classes: int) -> None:
    g, counts = make(n_classes)
    calibration = cs.conformalize(g[:300], counts[:300], score)
    sets = calibration.predict_set(g[300:], 0.1)
    report = cs.report(calibration, g[300:], counts[300:], None)
    data, rows = data_of(report.html), report.shown
    queue = sets.queue(votes=counts[300:])
    np.testing.assert_array_equal(rows, queue.order())
    lower, upper = sets.envelope()
    filled = np.isfinite(lower).all(axis=1)[rows]
    for name, matrix in (("lower", lower), ("upper", upper), ("center", sets.center)):
        found = np.array(data[name]).reshape(-1, n_classes) / data["coarse"]
        np.testing.assert_allclose(found[filled], matrix[rows][filled], atol=5.1e-4)
        if name != "center":
            assert (found[~filled] < 0).all()
    ends = np.array(data["entropy"])[:, filled] / data["coarse"]
    bounds = np.array(list(queue.entropies))[:, rows][:, filled]
    np.testing.assert_allclose(ends, bounds, atol=5.1e-4)
    width = 0.5 * (upper - lower).sum(axis=1)
    np.testing.assert_allclose(
        np.array(data["width"])[filled] / data["coarse"], width[rows][filled], atol=5.1e-4
    )
    np.testing.assert_array_equal(
        np.array(data["later"]["cells"]).reshape(-1, n_classes), counts[300:][rows]
    )
    (now,) = data["errors"]
    assert [STEPS[code] for code in now["step"]] == queue.step[rows].tolist()
    reasons = [" ".join(data["reasons"][code] for code in codes) for codes in now["reason"]]
    assert reasons == queue.why[rows].tolist()
    assert data["open"] == [np.flatnonzero(row).tolist() for row in queue.possible[rows]]
    covered = sets.contains(counts[300:] / counts[300:].sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(data["hit"], covered[rows])
    assert data["label"] == queue.label[rows].tolist()
    by_bound = lower[np.arange(len(sets)), queue.label][rows][data["strip"]]
    assert (np.diff(np.nan_to_num(by_bound, nan=-1.0)) >= -1e-3).all()


def test_an_outline_on_paper_is_the_outline_of_the_set() -> None:
    report = page(3, 30, "kl")
    g, counts = make(3, 30)
    sets = cs.conformalize(g[:300], counts[:300], "kl").predict_set(g[300:], 0.1)
    for row, path in zip(report.shown, data_of(report.html)["outlines"], strict=True):
        numbers = [int(n) for n in re.findall(r"-?\d+", path)]
        corners = np.cumsum(np.array(numbers).reshape(-1, 2), axis=0) / 4
        x, y = corners.T
        share = abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2 / (300 * 300 * np.sqrt(0.75) / 2)
        assert share == pytest.approx(float(sets[int(row)].volume()[0]), rel=0.04)


def test_slices_and_sizes_are_on_the_page() -> None:
    groups = ["north", "south"] * 100
    report = page(groups=groups, slices=pd.DataFrame({"length": np.arange(200.0)}), alpha=0.3)
    text = Reader(report.html).text()
    assert {s.feature for s in report.slices} == {
        "group",
        "predicted class",
        "difficulty (predicted entropy)",
        "width of the set",
        "length",
    }
    for part in report.slices:
        assert part.value in text
        assert f"{100 * part.coverage:.1f}%" in text
    assert [size["alpha"] for size in report.sizes] == [0.05, 0.1, 0.2, 0.3]
    for size in report.sizes:
        assert f"{size['width']:.2f}" in text
    assert report.worst is not None
    assert report.worst.conditions[0][1] in text


def test_small_slices_are_not_shown() -> None:
    report = page(groups=["rare"] * 19 + ["small"] * 20 + ["large"] * 161)
    assert [part.value for part in report.slices if part.feature == "group"] == ["large", "small"]


def test_names_of_statistical_methods_are_only_in_tooltips() -> None:
    reader = Reader(page(groups=["a", "b"] * 100).html + turned().html)
    titles = " ".join(each.get("title") or "" for each in reader.all("span"))
    for name in ("e-admissible", "Clopper", "beta-binomial", "Bonferroni"):
        assert name not in reader.text()
        assert name in titles


def test_several_scores_are_compared() -> None:
    g, counts = make()
    own, other = (cs.conformalize(g[:300], counts[:300], score) for score in ("tv", "kl"))
    rows = cs.evaluate(other, g[300:], counts[300:], 0.1)
    report = cs.report(own, g[300:], counts[300:], None, compare=rows)
    assert [size["score"] for size in report.sizes] == ["tv", "tv", "tv", "kl"]
    assert f"{rows[0]['width']:.2f}" in Reader(report.html).text()


def turned() -> Report:
    """A page on which people of one kind say the opposite."""
    g, counts = make(3, 600)
    bad = np.arange(600) % 4 == 0
    counts[300:][bad] = counts[300:][bad][:, ::-1]
    calibration = cs.conformalize(g[:300], counts[:300], "tv")
    kinds = np.where(bad, "turned", "fine").tolist()
    return cs.report(calibration, g[300:], counts[300:], None, groups=kinds)


def test_a_slice_that_falls_short_is_flagged() -> None:
    report = turned()
    assert report.verdict.status == "undercovers"
    assert 'class="verdict bad"' in report.html
    text = Reader(report.html).text()
    assert "turned below" in text
    assert "fine below" not in text
    assert report.worst is not None
    assert ("group", "turned") in report.worst.conditions
    assert "are covered (" in text
    assert "): below the guarantee" in text


@pytest.mark.parametrize("kind", ["plain", "groups", "crowd", "folds", "weights"])
def test_the_slider_has_the_coverage_of_evaluate_at_every_level(kind: str) -> None:
    """And an item is covered at a level as long as the page says so."""
    g, counts = make(3, 200)
    keys = np.where(np.arange(500) % 3 == 0, "p", "q").tolist()
    new: Any = g[300:]
    options: dict[str, Any] = {}
    if kind == "crowd":
        crowd = cs.DirichletCrowd(n_components=1, n_consensus=1, max_iter=20)
        calibration: Any = crowd.fit(g[:100], counts[:100]).conformalize(
            g[100:300], counts[100:300], in_hand=(0, 3)
        )
        rng = np.random.default_rng(0)
        hand = np.array([rng.multivariate_hypergeometric(row, 3) for row in counts[300:]])
        options = {"votes_in_hand": hand}
    elif kind == "groups":
        calibration = cs.conformalize(g[:300], counts[:300], "kl", groups=keys[:300])
        options = {"groups": keys[300:]}
    elif kind == "folds":
        calibration = cs.cross_conformalize(g[:300], counts[:300], np.arange(300) % 3, score="tv")
        new = np.stack([g[300:]] * 3)
    elif kind == "weights":
        calibration = cs.conformalize(g[:300], counts[:300], "tv", weights=np.ones(300))
        options = {"weights": np.ones(200)}
    else:
        calibration = cs.conformalize(g[:300], counts[:300], "tv")
    votes = counts[300:] - options.get("votes_in_hand", 0)
    report = cs.report(calibration, new, votes, None, **options)
    levels = data_of(report.html)["levels"]
    alphas = [0.02, 0.1, 0.25, 0.5]
    rows = cs.evaluate(calibration, new, votes, alphas, **options)
    for alpha, row, verdict in zip(alphas, rows, rows.verdicts, strict=True):
        place = levels["alpha"].index(alpha)
        assert levels["hits"][place] == round(float(row["coverage"]) * len(votes))
        assert levels["observed"][place] == percent(float(row["coverage"]))
        by_item = np.array(levels["missed"]) > place
        assert by_item.sum() == levels["hits"][place]
        tones = {"valid": "good", "undercovers": "bad", "overcovers": "warn"}
        assert levels["statement"][place][0] == tones.get(verdict.status, "untested")


def test_slices_at_every_level_are_those_of_the_library() -> None:
    g, counts = make(3, 200)
    calibration = cs.conformalize(g[:300], counts[:300], "tv")
    keys = np.array(["north", "south"] * 100)
    report = cs.report(calibration, g[300:], counts[300:], None, groups=keys.tolist())
    data = data_of(report.html)
    covered = calibration.predict_set(g[300:], 0.3).contains(counts[300:])
    parts = cs.evaluation.slice_coverage(covered, {"group": keys})
    place = data["levels"]["alpha"].index(0.3)
    assert data["features"][0]["values"] == [part.value for part in parts]
    for part, (hits, n, low, high) in zip(parts, data["levels"]["slices"], strict=False):
        assert (hits[place], n) == (round(part.coverage * part.coverage.n), part.coverage.n)
        assert low[place] / 1e3 == pytest.approx(part.coverage.low, abs=6e-4)
        assert high[place] / 1e3 == pytest.approx(part.coverage.high, abs=6e-4)


def test_what_differs_most_comes_first() -> None:
    """Items whose votes are turned round have the smallest p-values, and are named with shares."""
    g, counts = make(3, 200)
    turned = [20, 120]
    g[300:][turned] = [0.98, 0.01, 0.01]
    counts[300:][turned] = [0, 2, 28]
    calibration = cs.conformalize(g[:300], counts[:300], "tv", classes=["cat", "dog", "truck"])
    report = cs.report(calibration, g[300:], counts[300:], None)
    data = data_of(report.html)
    first = [int(report.shown[place]) for place in data["wrong"][:2]]
    assert set(first) == set(turned)
    p_values = calibration.p_values(g[300:], counts[300:])[report.shown]
    np.testing.assert_allclose(np.array(data["p"]) / data["fine"], p_values, atol=1e-5)
    assert "model cat 0.98 people truck 28 , dog 2 of 30" in Reader(report.html).text()


def test_slices_keep_their_order_and_tell_narrow_bins_apart() -> None:
    g, counts = make(5, 400)
    levels = ["very poor", "poor", "fair", "good", "very good"]
    votes = cs.Annotations.from_counts(counts[300:], classes=levels, scale=levels)
    calibration = cs.conformalize(g[:300], counts[:300], "ws", classes=levels)
    length = 3.08 + np.arange(400) * 1e-5
    report = cs.report(calibration, g[300:], votes, None, slices={"length": length})
    data = data_of(report.html)
    values = {feature["name"]: feature["values"] for feature in data["features"]}
    assert values["predicted class"] == levels
    assert values["difficulty (predicted entropy)"][0] == "easiest quarter"
    assert len(set(values["length"])) == 4
    sets = calibration.predict_set(g[300:], 0.1)
    at = np.arange(5.0)
    np.testing.assert_allclose(
        data["mean"]["lower"], sets.lower_expectation(at)[report.shown], atol=6e-4
    )
    np.testing.assert_allclose(
        data["mean"]["upper"], sets.upper_expectation(at)[report.shown], atol=6e-4
    )


def test_ribbons_are_the_sets_at_these_numbers_of_votes() -> None:
    made = cs.datasets.make_synthetic(700, n_votes=40, random_state=0)
    p = 0.8 * made.distributions + 0.2 / 3
    crowd = cs.DirichletCrowd(n_components=1, n_consensus=1).fit(p[:200], made.counts[:200])
    calibration = crowd.conformalize(p[200:500], made.counts[200:500], in_hand=(0, 1, 3, 10))
    rng = np.random.default_rng(0)
    few = np.array([rng.multivariate_hypergeometric(row, 3) for row in made.counts[500:]])
    rest = made.counts[500:] - few
    report = cs.report(calibration, p[500:], rest, None, votes_in_hand=few)
    data = data_of(report.html)
    for place, ribbon in list(data["ribbons"].items())[:20]:
        row = report.shown[int(place)]
        assert ribbon["numbers"] == [0, 1, 3, 10]
        assert ribbon["in_hand"] == 3
        assert np.bincount(ribbon["votes"][:3], minlength=3).tolist() == few[row].tolist()
        for number, votes in enumerate(ribbon["numbers"]):
            hand = np.bincount(ribbon["votes"][:votes], minlength=3)
            one = calibration.predict_set(p[500 + row][None], 0.1, votes=hand[None])
            lower, upper = (end[0, ribbon["shown"]] for end in one.envelope())
            n_shown = len(ribbon["shown"])
            cells = slice(number * n_shown, (number + 1) * n_shown)
            np.testing.assert_allclose(np.array(ribbon["lower"][cells]) / 1e3, lower, atol=6e-4)
            np.testing.assert_allclose(np.array(ribbon["upper"][cells]) / 1e3, upper, atol=6e-4)


# --- the page of a review ---


TABLE = cs.datasets.make_synthetic(700, n_classes=3, n_votes=4, random_state=0)


@cache
def reviewed() -> tuple[Any, Report]:
    """A review for two errors, and its page."""
    found = cs.review(TABLE.distributions, TABLE.counts, error=(0.2, 0.3))
    return found, found.report(None, texts=[f"text {i}" for i in range(700)])


def test_the_page_of_a_review_has_its_queue_for_each_error() -> None:
    """The steps are those of the review, for exactly the errors that the rule was tested for."""
    found, report = reviewed()
    turned_round = cs.review(TABLE.distributions, TABLE.counts, error=(0.3, 0.2))
    each = data_of(report.html)["errors"]
    assert [part["error"] for part in each] == [0.2, 0.3]
    for part, queue in zip(each, (found.queue, turned_round.queue), strict=True):
        assert [STEPS[code] for code in part["step"]] == queue.step[report.shown].tolist()
        assert [tile[0] for tile in part["tiles"]] == list(queue.counts().values())
        assert f"{queue.counts()['accept']:,} of 700" in part["headline"]
    assert each[0]["step"] != each[1]["step"]
    assert "Certified with 90% confidence: " in each[0]["statement"][1]
    text = Reader(report.html).text()
    assert found.queue.why[report.shown[0]] in text
    assert "credalset plan review -o tasks.csv" in text


def test_the_page_of_a_review_shows_what_the_held_back_votes_say() -> None:
    found, report = reviewed()
    data = data_of(report.html)
    held_back = found.record.last.held_back
    accepted = found.queue.step == "accept"
    expected = np.where(accepted, held_back == found.queue.label, 2)
    np.testing.assert_array_equal(data["hit"], expected[report.shown])
    assert data["levels"] is None
    p_values = found.evidence.p_values[report.shown]
    np.testing.assert_allclose(
        np.array(data["p"])[data["wrong"]] / 1e5, p_values[data["wrong"]], atol=1e-5
    )
    assert (np.diff(p_values[data["wrong"]]) >= 0).all()
    statuses = {check[0] for check in found.evidence.checks}
    assert statuses == {"tested", "assumed", "not claimed"}


def test_a_cost_is_not_called_an_error() -> None:
    costs = 2.0 * (1.0 - np.eye(3))
    found = cs.review(TABLE.distributions, TABLE.counts, error=0.5, costs=costs)
    text = Reader(found.report(None).html).text()
    assert found.certified.any()
    assert "the mean cost of the accepted labels, for another annotator, is at most 0.5" in text
    assert "mean cost at most 0.5, certified" in text
    assert "50%" not in text.split("Do next")[2].split("queue.csv")[0]


def test_a_review_that_proves_nothing_says_so_first() -> None:
    few = cs.review(TABLE.distributions[:60], TABLE.counts[:60], error=0.02)
    text = Reader(few.report(None).html).text()
    assert not few.certified.any()
    assert few.sentences[0] in text.split("Do next")[1]
    for sentence in reviewed()[0].sentences:
        assert sentence in Reader(reviewed()[1].html).text()


def test_p_values_of_votes_against_the_model_are_valid() -> None:
    """If votes follow the law, at most a share p of the items has a p-value of at most p."""
    rng = np.random.default_rng(0)
    made = cs.datasets.make_synthetic(4000, n_classes=3, n_votes=6, random_state=1)
    p = made.distributions
    law = cs.DirichletCrowd(n_components=1, n_consensus=1).fit(p[:1000], made.counts[:1000]).law_
    drawn = Posterior.given(law, p, np.zeros_like(p)).sample(1, rng)[:, 0]
    votes = rng.multinomial(6, drawn).astype(float)
    found = contradiction(law, p, votes, p.argmax(axis=1))
    for level in (0.01, 0.05, 0.2):
        assert (found <= level).mean() <= level + 3 * np.sqrt(level / 4000)
    assert (found <= 0.2).mean() > 0.02


# --- inputs ---


def test_votes_are_matched_by_name_and_classes_put_in_order() -> None:
    g, counts = make(3, 50)
    calibration = cs.conformalize(g[:300], counts[:300], "tv", classes=["a", "b", "c"])
    plain = cs.report(calibration, g[300:], counts[300:], None)
    names = [f"item {i}" for i in range(50)]
    frame = pd.DataFrame(g[300:], columns=["a", "b", "c"], index=names)
    shares = pd.DataFrame(counts[300:] / 30, columns=["a", "b", "c"], index=names)
    channel = pd.Series(["web", "mail"] * 25, index=names, name="channel").iloc[::-1]
    framed = cs.report(
        calibration,
        frame[["c", "a", "b"]],
        shares[["b", "c", "a"]].iloc[::-1],
        None,
        groups=channel,
    )
    assert framed.verdict.observed == plain.verdict.observed
    assert data_of(framed.html)["later"]["counted"] is False
    assert "<caption>By channel</caption>" in framed.html
    feature = data_of(framed.html)["features"][0]
    channels = [feature["values"][code] for code in feature["code"]]
    assert channels == [["web", "mail"][row % 2] for row in framed.shown]
    with pytest.raises(ValueError, match="votes"):
        cs.report(calibration, frame, shares.set_axis([f"x{i}" for i in range(50)]), None)
    votes = cs.Annotations.from_counts(counts[300:], classes=["a", "b", "c"], items=names)
    turned = votes[::-1].reorder(["c", "a", "b"])
    report = cs.report(calibration, g[300:], turned, None, items=names)
    assert report.verdict.observed == plain.verdict.observed
    assert data_of(report.html)["later"] == data_of(plain.html)["later"]


def test_items_without_votes_and_votes_without_items() -> None:
    g, counts = make(3, 50)
    calibration = cs.conformalize(g[:300], counts[:300], "tv")
    votes = cs.Annotations.from_counts(counts[310:], items=[f"i{i}" for i in range(10, 50)])
    report = cs.report(calibration, g[300:345], votes, None, items=[f"i{i}" for i in range(45)])
    assert report.verdict.observed.n == 35
    text = Reader(report.html).text()
    assert "10 of 45 items have no votes" in text
    assert "5 items with votes are not among the predictions" in text
    codes = dict(zip(report.shown.tolist(), data_of(report.html)["hit"], strict=True))
    assert [row for row, code in sorted(codes.items()) if code == 2] == list(range(10))


@pytest.mark.parametrize("gap", [0.0, np.nan])
def test_rows_of_zeros_or_nan_are_items_without_votes(gap: float) -> None:
    g, counts = make(3, 50)
    calibration = cs.conformalize(g[:300], counts[:300], "tv")
    votes = counts[300:].astype(float)
    votes[::5] = gap
    report = cs.report(calibration, g[300:], votes, None)
    kept = np.arange(50) % 5 != 0
    expected = cs.metrics.coverage(calibration.predict_set(g[300:][kept], 0.1), counts[300:][kept])
    assert report.verdict.observed == expected


def test_sets_alone() -> None:
    g, counts = make(3, 50)
    sets = cs.conformalize(g[:300], counts[:300], "tv").predict_set(g[300:], 0.1)
    report = cs.report(sets, votes=counts[300:], path=None)
    assert report.verdict.status == "not tested"
    assert len(report.sizes) == 1
    assert "Coverage by level" not in report.html


def test_a_classifier_and_its_features() -> None:
    data = cs.datasets.make_synthetic(450, n_votes=20, random_state=0)
    clf = cs.ConformalCredalClassifier(cs.SoftLabelClassifier(LogisticRegression()), "kl")
    clf.fit(data.X[:150], data.counts[:150]).conformalize(data.X[150:300], data.counts[150:300])
    report = cs.report(clf, data.X[300:], data.counts[300:], None)
    expected = cs.metrics.coverage(clf.predict_set(data.X[300:], 0.1), data.counts[300:])
    assert report.verdict.observed == expected
    assert report.verdict.band is not None


def test_groups_weights_noise_and_folds() -> None:
    g, counts = make(3, 200)
    keys = np.where(np.arange(500) % 3 == 0, "p", "q").tolist()
    grouped = cs.conformalize(g[:300], counts[:300], "tv", groups=keys[:300])
    report = cs.report(grouped, g[300:], counts[300:], None, groups=keys[300:])
    assert report.verdict.band is not None
    assert "within each group" in Reader(report.html).text()
    predicted = cs.conformalize(g[:300], counts[:300], "tv", groups="predicted")
    assert (
        cs.report(predicted, g[300:], counts[300:], None, groups=keys[300:]).verdict.band
        is not None
    )
    weighted = cs.conformalize(g[:300], counts[:300], "tv", weights=np.ones(300))
    assert (
        cs.report(weighted, g[300:], counts[300:], None, weights=np.ones(200)).verdict.band is None
    )
    noisy = cs.conformalize(g[:300], counts[:300], "tv", noise=cs.AnnotatorSampling())
    found = cs.report(noisy, g[300:], counts[300:], None)
    assert found.verdict.status == "not tested"
    assert "true label distribution" in Reader(found.html).text()
    folds = cs.cross_conformalize(g[:300], counts[:300], np.arange(300) % 3, score="tv")
    crossed = cs.report(folds, np.stack([g[300:]] * 3), counts[300:], None)
    assert crossed.verdict.guaranteed == folds.guaranteed_coverage(0.1)


def test_second_order_predictions() -> None:
    g, counts = make(3, 60)
    theta = 1 + 20 * g
    report = cs.report(
        cs.conformalize(theta[:300], counts[:300], "so"), theta[300:], counts[300:], None
    )
    assert all(data_of(report.html)["outlines"])


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("n_classes", [2, 3, 50])
@pytest.mark.parametrize("with_votes", [True, False])
def test_hardly_anything(n: int, n_classes: int, with_votes: bool) -> None:
    g, counts = make(n_classes, n)
    calibration = cs.conformalize(g[:300], counts[:300], "tv")
    report = cs.report(calibration, g[300:], counts[300:] if with_votes else None, None)
    text = Reader(report.html).text()
    assert "nan" not in text.lower().split()
    assert len(data_of(report.html)["name"]) == n
    if n == 0:
        assert "There are no items to report on" in text
    elif not with_votes:
        assert report.verdict.status == "not tested"
        assert "Sets not tested" in text
        assert 'id="wrong"' not in report.html


def test_empty_and_infinite_sets_are_told() -> None:
    g = np.tile([0.4, 0.3, 0.3], (40, 1))
    counts = np.tile([20, 0, 0], (40, 1))
    empty = cs.report(cs.get_score("inner").region(g, 0.5), votes=counts, path=None)
    assert "40 sets are empty" in Reader(empty.html).text()
    whole = cs.report(cs.conformalize(g[:5], counts[:5], "tv"), g, counts, None)
    text = Reader(whole.html).text()
    assert "40 sets are the whole simplex" in text
    assert "too few calibration items for this level" in text


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"source": object()}, TypeError, "calibration"),
        ({"predictions": None}, ValueError, "predictions"),
        ({"votes": np.ones((3, 3))}, ValueError, "votes"),
        ({"votes": np.ones((20, 4))}, ValueError, "votes"),
        ({"votes_in_hand": np.ones((3, 3))}, ValueError, "votes in hand"),
        ({"texts": ["a"]}, ValueError, "texts"),
        ({"groups": "predicted"}, TypeError, "groups"),
        ({"classes": ["a", "b"]}, ValueError, "classes"),
        ({"alpha": 1.5}, ValueError, "alpha"),
        ({"rules": "strict"}, TypeError, "rules"),
    ],
)
def test_messages(change: dict[str, Any], error: type[Exception], message: str) -> None:
    g, counts = make(3, 20)
    options: dict[str, Any] = {
        "source": cs.conformalize(g[:300], counts[:300], "tv"),
        "predictions": g[300:],
        "votes": counts[300:],
        "path": None,
    }
    with pytest.raises(error, match=message):
        cs.report(**options | change)


# --- samples and sizes ---


def test_a_sample_is_stratified_and_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "MAX_ITEMS", 600)
    report = page(3, 3000)
    assert len(report.shown) == 600
    text = Reader(report.html).text()
    assert "Shown are 600 of 3,000 items" in text
    queue = report.queue
    shown = set(report.shown.tolist())
    for step in STEPS[1:]:
        assert set(queue.order(step)[:75].tolist()) <= shown
    first = np.concatenate([queue.order(step)[:75] for step in STEPS[1:]])
    drawn = np.array(sorted(shown - set(first.tolist())))
    rest = np.setdiff1d(np.arange(3000), first)
    for step in STEPS:
        expected = len(drawn) * (queue.step[rest] == step).mean()
        assert abs((queue.step[drawn] == step).sum() - expected) <= 2
    assert report.verdict.observed.n == 3000
    np.testing.assert_array_equal(page(3, 3000).shown, report.shown)


def test_a_page_never_outgrows_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "MAX_BYTES", 400_000)
    report = page(10, 2000, texts=["word " * 50] * 2000)
    assert len(report.html.encode()) <= 400_000
    assert 0 < len(report.shown) < 2000
    assert f"of {2000:,} items" in report.html


# --- the file ---


def test_nothing_in_the_page_can_run_but_its_own_script() -> None:
    n = 40
    names = NASTY + [f"i{i}" for i in range(n - len(NASTY))]
    links = [
        "javascript:alert(1)",
        " java\nscript:alert(2)",
        "data:text/html,<script>",
        "vbscript:x",
        "JAVASCRIPT:x",
    ]
    g, counts = make(3, n)
    calibration = cs.conformalize(g[:300], counts[:300], "tv", classes=[HOSTILE, 'b"<b>', "c'"])
    report = cs.report(
        calibration, g[300:], counts[300:], None, items=names, texts=(NASTY * 5)[:n],
        images=links + ["https://example.org/x.png"] * (n - 5),
        groups=(NASTY * 5)[:n], title=HOSTILE, _command=HOSTILE,
        slices={HOSTILE: (NASTY * 5)[:n]},
    )  # fmt: skip
    reader = Reader(report.html)
    assert len(reader.all("script")) == 2
    assert not reader.all("img")
    for tag, attributes in reader.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert "style" not in attributes, "the policy would drop it"
        for name in ("href", "src"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or value == "data:,"
    text = reader.text()
    assert text.count(HOSTILE) > 5
    data = data_of(report.html)
    by_row = dict(zip(report.shown.tolist(), data["link"], strict=True))
    assert [by_row[i] for i in range(5)] == [""] * 5
    assert by_row[5] == "https://example.org/x.png"
    block = reader.code[1]
    assert not set(block) & set("<>&\u2028\u2029")


def test_the_policy_allows_exactly_this_script_and_style() -> None:
    reader = Reader(page(2, 10).html)
    (policy,) = [
        m["content"] for m in reader.all("meta") if m.get("http-equiv") == "Content-Security-Policy"
    ]
    style, _, script = reader.code
    for kind, code in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "eval(",
        "fetch(",
        "XMLHttpRequest",
        "import(",
    ):
        assert word not in script
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.parametrize(
    ("link", "kept"),
    [
        ("https://a.b/c", True),
        ("img/1.jpg", True),
        ("../x:y.png", True),
        ("file:///a.png", True),
        ("data:image/png;base64,AAAA", True),
        ("data:image/svg+xml;base64,AAAA", False),
        ("DATA:text/html,x", False),
        ("javascript:alert(1)", False),
        ("jAvAsCrIpT\t:alert(1)", False),
        ("\x01javascript:alert(1)", False),
        ("vbscript:x", False),
        ("", False),
    ],
)
def test_links(link: str, kept: bool) -> None:
    assert bool(items_module.safe_link(link)) is kept


def test_the_same_data_give_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first, second = page().html, page().html
    assert first == second
    assert "2023-11-14 22:13 UTC" in first


def test_the_page_names_its_command_and_no_folders(tmp_path: Path) -> None:
    assert "private" not in page(3, 20, path=tmp_path / "private" / "out.html").html
    assert "credalset report x" in Reader(page(3, 20, _command="credalset report x").html).text()


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "new" / "page.html"
    report = page(3, 20, path=target)
    assert report.path == target
    assert target.read_text(encoding="utf-8") == report.html
    assert repr(report).startswith(f"Report: {target}, ")

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        page(3, 20, path=target, title="other")
    assert target.read_text(encoding="utf-8") == report.html
    assert [p.name for p in target.parent.iterdir()] == ["page.html"]


def test_without_the_template_engine_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    page_module._template.cache_clear()
    with pytest.raises(cs.MissingExtraError, match="jinja2"):
        page(3, 20)


def test_no_drawing_library_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["matplotlib", *sys.modules]:
        if name.split(".")[0] == "matplotlib" or name.startswith("credalset.plotting"):
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(vars(cs), "plotting", raising=False)
    assert all(data_of(page(3, 20).html)["outlines"])


def test_the_example_is_worth_looking_at() -> None:
    report = example_report()
    assert report.verdict.status == "valid"
    counts = report.queue.counts()
    assert min(counts["accept"], counts["divided"]) >= 5  # each item has a hundred votes
    assert len(report.html.encode()) < 400_000


def test_texts_go_by_name() -> None:
    """A series of texts in another order went to the wrong items."""
    prediction, counts = make(n=120)
    names = [f"m{i}" for i in range(60)]
    calibration = cs.conformalize(prediction[:60], counts[:60], "tv")
    frame = pd.DataFrame(prediction[60:120], index=names)
    texts = pd.Series([f"text of {name}" for name in names], index=names).sample(
        frac=1.0, random_state=0
    )
    data = data_of(cs.report(calibration, frame, counts[60:120], path=None, texts=texts).html)
    assert data["text"] == [f"text of {name}" for name in data["name"]]
    with pytest.raises(ValueError, match="texts"):
        cs.report(
            calibration, frame, counts[60:120], path=None, texts=texts.rename(index={"m0": "other"})
        )


# --- verdicts that cannot mislead ---


def named(n: int = 300) -> tuple[pd.DataFrame, pd.DataFrame]:
    g, counts = make(3, n - 300)
    names = [f"m{i}" for i in range(n)]
    return pd.DataFrame(g[:n], names), pd.DataFrame(counts[:n], names)


def test_items_of_the_calibration_test_nothing_and_are_not_green() -> None:
    """The page used to say that the promise was kept."""
    prediction, votes = named(500)
    calibration = cs.conformalize(prediction[:300], votes[:300], "tv")
    with pytest.warns(cs.CredalSetWarning, match="used for calibration"):
        report = cs.report(calibration, prediction[250:], votes[250:], None)
    assert report.verdict.status == "not tested"
    assert (
        "Sets not tested: these items were used for calibration (50 of 250)"
        in Reader(report.html).text()
    )
    assert 'class="verdict untested"' in report.html
    assert (
        'class="verdict good"' in cs.report(calibration, prediction[300:], votes[300:], None).html
    )


def test_sets_that_leave_everything_open_are_headed_so_and_lead_to_the_guide() -> None:
    g, counts = make(3, 200)
    g = np.tile(g.mean(axis=0), (500, 1))
    report = cs.report(cs.conformalize(g[:300], counts[:300], "kl"), g[300:], counts[300:], None)
    assert report.verdict.informative is False
    text = Reader(report.html).text()
    assert "labels remain possible for an item" in text
    assert "Sets help little: " in text
    assert "too-large.md" in text
    assert 'href="#too-large"' in report.html
    assert 'class="verdict warn"' in report.html
    assert 'id="too-large"' not in page().html


def test_votes_in_hand_are_shown_and_test_nothing() -> None:
    g, counts = make(3, 50)
    calibration = cs.conformalize(g[:300], counts[:300], "tv")
    few = np.random.default_rng(0).multinomial(3, [0.5, 0.3, 0.2], 50)
    few[0] = 0
    sets = calibration.predict_set(g[300:], 0.1)
    alone = cs.report(sets, path=None, votes_in_hand=few, alpha=0.1)
    assert (alone.verdict.status, alone.verdict.observed.n) == ("not tested", 0)
    data = data_of(alone.html)
    expected = np.where(few.sum(axis=1, keepdims=True) > 0, few, -1)
    np.testing.assert_array_equal(
        np.array(data["hand"]["cells"]).reshape(-1, 3), expected[alone.shown]
    )
    assert data["later"] is None
    assert "votes in hand" in Reader(alone.html).text()
    both = cs.report(sets, votes=counts[300:], path=None, votes_in_hand=few)
    assert both.verdict.observed == cs.metrics.coverage(sets, counts[300:])
    assert data_of(both.html)["hand"] == data["hand"]
    np.testing.assert_array_equal(
        np.array(data_of(both.html)["later"]["cells"]).reshape(-1, 3), counts[300:][both.shown]
    )
    counts[300:325] *= 2
    unequal = Reader(cs.report(sets, votes=counts[300:], path=None, votes_in_hand=few).html).text()
    assert "By number of later votes" in unequal


def test_a_calibration_with_votes_in_hand_predicts_from_them() -> None:
    made = cs.datasets.make_synthetic(700, n_votes=40, random_state=0)
    p, rng = 0.8 * made.distributions + 0.2 / 3, np.random.default_rng(0)
    crowd = cs.DirichletCrowd(n_components=1).fit(p[:200], made.counts[:200])
    calibration = crowd.conformalize(
        p[200:500], made.counts[200:500], in_hand=(0, 3), random_state=0
    )
    few = np.array([rng.multivariate_hypergeometric(row, 3) for row in made.counts[500:]])
    rest = made.counts[500:] - few
    report = cs.report(calibration, p[500:], rest, None, votes_in_hand=few)
    short = cs.report(calibration, p[500:], few, None)
    assert short.verdict.status == "not tested"
    assert short.verdict.untested in short.html
    sets = calibration.predict_set(p[500:], 0.1, votes=few)
    assert report.verdict.observed == cs.metrics.coverage(sets, rest)
    assert (
        report.verdict
        == cs.evaluate(calibration, p[500:], rest, 0.1, votes_in_hand=few).verdicts[0]
    )
    data = data_of(report.html)
    np.testing.assert_array_equal(np.array(data["hand"]["cells"]).reshape(-1, 3), few[report.shown])
    assert "votes of a new item that are not in hand" in Reader(report.html).text()


def test_sets_are_predicted_once_per_level(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    predict_set = cs.Calibration.predict_set

    def counting(self: Any, *args: Any, alpha: float = 0.1, **options: Any) -> Any:
        asked.append(alpha)
        return predict_set(self, *args, alpha=alpha, **options)

    monkeypatch.setattr(cs.Calibration, "predict_set", counting)
    page(3, 100)
    assert len(asked) == len(set(asked)) <= 12


def test_very_long_names_do_not_outgrow_the_page() -> None:
    n, long = 40, "x" * 300_000
    g, counts = make(3, n)
    calibration = cs.conformalize(
        g[:300], counts[:300], "tv", classes=[f"{i}{long}" for i in range(3)]
    )
    report = cs.report(
        calibration, g[300:], counts[300:], None,
        items=[f"{i}{long}" for i in range(n)], texts=[long] * n,
        groups=[f"{i % 3}{long}" for i in range(n)],
        slices={long: [long] * n}, title=long, _command=long,
        images=["https://example.org/" + long] * n,
    )  # fmt: skip
    assert len(report.html.encode()) < 500_000
    assert len(report.shown) == n


def test_labels_that_nothing_proves_are_not_called_acceptable() -> None:
    predictions = [[0.98, 0.01, 0.01], [0.4, 0.4, 0.2]]
    queue = TotalVariation().region(predictions, threshold=0.05).queue()
    assert queue.counts()["accept"] == 1
    assert Standing(queue, 0.1).headline == "1 of 2 labels accepted, not certified"
    assert Standing(queue, 0.1, n_certified=1).headline == "1 of 2 labels can be accepted"
