"""Label sets: what they promise, by counting every case, and what they read off credal sets."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import credalset as cs
from credalset.labels import LabelSets, annotator_labels, majority_labels
from credalset.scores import KullbackLeibler, TotalVariation


def crowd(n: int, seed: int, n_classes: int = 3, n_votes: int = 10) -> tuple[Any, Any, Any]:
    """Predictions that know a part of the truth, votes, and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(n_classes, 0.5), n)
    prediction = 0.7 * truth + 0.3 * rng.dirichlet(np.ones(n_classes), n)
    return prediction, rng.multinomial(n_votes, truth), truth


def shares_of(calibration: Any) -> Any:
    """What each label counts, (n, K)."""
    return calibration.fitted.fits[0].weights.reshape(-1, calibration.n_classes)


# --- the promise, by counting ---


@pytest.mark.parametrize("target", ["annotator", "majority", 0.7])
@pytest.mark.parametrize("seed", range(6))
def test_no_population_of_five_items_breaks_the_promise(target, seed):
    """Each item is as likely as any other to be the new one:
    the coverage of its label is a mean over five cases.
    """
    rng = np.random.default_rng(seed)
    prediction = rng.dirichlet(np.ones(3), 5)
    prediction[4] = prediction[3]  # ties
    counts = rng.multinomial(4, rng.dirichlet(np.full(3, 0.6), 5))
    covered = dict.fromkeys((0.2, 0.3, 0.4, 0.5), 0.0)
    for last in range(5):
        items = np.delete(np.arange(5), last)  # their order changes nothing
        calibration = cs.labels.conformalize(prediction[items], counts[items], target=target)
        for alpha in covered:
            covered[alpha] += reached(
                calibration.predict_set(prediction[[last]], alpha), counts[[last]], target
            )
    assert all(total / 5 >= 1 - alpha - 1e-12 for alpha, total in covered.items())
    if target == "annotator":
        assert covered[0.5] / 5 < 0.8  # and little beyond


def reached(sets: LabelSets, counts: Any, target: Any) -> float:
    """How much of what is promised the set of one item holds."""
    if target == "majority":
        counts = counts == counts.max()
    share = float((sets.members * counts).sum() / counts.sum())
    return share if isinstance(target, str) else float(share >= target)


def test_drawn_labels_keep_the_promise_in_every_case_too():
    """Three items with two labels each, two draws per item: all 2⁶ draws, all orders,
    no chance left.
    """
    prediction = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    shares = np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])
    alphas = (0.34, 0.45, 0.5)
    missed = dict.fromkeys(alphas, 0.0)
    for a, b, new in permutations(range(3)):
        for draws in product(range(2), repeat=4):
            chance = math.prod(shares[[a, a, b, b], draws])
            drawn = np.stack(
                [np.bincount(draws[:2], minlength=2), np.bincount(draws[2:], minlength=2)]
            )
            calibration = cs.labels.conformalize(prediction[[a, b]], drawn)
            for alpha in alphas:
                members = calibration.predict_set(prediction[[new]], alpha).members[0]
                missed[alpha] += chance * float(shares[new][~members].sum()) / 6
    assert all(0 < missed[alpha] <= alpha + 1e-12 for alpha in alphas)


def test_p_values_and_thresholds_are_those_of_the_definition():
    prediction, counts, _ = crowd(40, 0)
    new = crowd(15, 1)[0]
    calibration = cs.labels.conformalize(prediction, counts, "kl")
    scores = -np.log2(prediction)
    mine = -np.log2(new)
    shares = counts / counts.sum(axis=1, keepdims=True)
    expected = [[(1 + shares[scores >= s].sum()) / 41 for s in row] for row in mine]
    np.testing.assert_allclose(calibration.p_values(new), expected, rtol=1e-12)
    for alpha in (0.05, 0.1, 0.25):
        members = calibration.predict_set(new, alpha).members
        np.testing.assert_array_equal(members, np.array(expected) > alpha + 1e-12)
        levels = np.unique(scores[counts > 0])
        smallest = next(q for q in levels if shares[scores <= q].sum() >= (1 - alpha) * 41 - 1e-9)
        assert calibration.thresholds(new[:1], alpha)[0] == pytest.approx(smallest, rel=1e-12)


@pytest.mark.parametrize(("alpha", "n", "n_samples"), [(0.1, 50, 5), (0.05, 99, 10), (0.25, 31, 3)])
def test_the_threshold_of_drawn_labels_is_the_one_the_authors_publish(alpha, n, n_samples):
    """Their code keeps conformities from the (⌊αM(n + 1)⌋ − M + 1)-th smallest of the
    nM drawn ones on.
    """
    prediction, counts, _ = crowd(n, n)
    drawn = np.random.default_rng(1).multinomial(
        n_samples, counts / counts.sum(axis=1, keepdims=True)
    )
    calibration = cs.labels.conformalize(prediction, drawn, "tv")
    conformity = np.sort(np.repeat(prediction.ravel(), drawn.ravel()))
    rank = math.floor(Fraction(str(alpha)) * n_samples * (n + 1)) - n_samples + 1
    assert calibration.thresholds(prediction[:1], alpha)[0] == pytest.approx(
        1 - conformity[rank - 1], abs=1e-12
    )


def test_one_vote_per_item_is_plain_calibration():
    prediction, counts, _ = crowd(60, 3, n_votes=1)
    labels, plain = cs.labels.conformalize(prediction, counts), cs.conformalize(prediction, counts)
    new = crowd(30, 4)[0]
    for alpha in (0.1, 0.2):
        assert labels.thresholds(new, alpha)[0] == pytest.approx(plain.threshold(alpha), rel=1e-12)
        corners = plain.predict_set(new, alpha).contains(np.eye(3), broadcast=True)
        np.testing.assert_array_equal(labels.predict_set(new, alpha).members, corners)


def test_correcting_averaged_p_values_leaves_one_label_per_item():
    """The published correction ranks the new p-value among those of other items, one label each.

    These are a second half of the items, with one drawn label.

    Averaged p-values fall as scores grow, so these ranks are those of the scores, but for ties
    among the p-values.
    """
    prediction, counts, _ = crowd(400, 5)
    first, second, new = slice(0, 150), slice(150, 300), slice(300, 400)
    averaged = cs.labels.conformalize(prediction[first], counts[first], "tv")
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(1, counts[second] / 10).argmax(axis=1)
    held = averaged.p_values(prediction[second])[np.arange(150), drawn]
    corrected = (held <= averaged.p_values(prediction[new])[..., None]).mean(axis=-1)
    scores = 1 - prediction[second][np.arange(150), drawn]
    plain = (scores >= (1 - prediction[new])[..., None]).mean(axis=-1)
    assert (corrected >= plain).all()
    assert np.abs(corrected - plain).max() <= 0.05


# --- the promise, by repetition ---


def repeated_coverage(
    n_repetitions: int, n: int, n_new: int, alpha: float, **options: Any
) -> tuple[float, float]:
    """Mean coverage of a label drawn from the truth, and its standard error."""
    found = []
    for seed in range(n_repetitions):
        prediction, counts, truth = crowd(n + n_new, seed, n_votes=3)
        calibration = cs.labels.conformalize(prediction[:n], counts[:n], **options)
        found.append(calibration.predict_set(prediction[n:], alpha).share(truth[n:]).mean())
    return float(np.mean(found)), float(np.std(found, ddof=1) / math.sqrt(n_repetitions))


@pytest.mark.parametrize("options", [{}, {"score": "brier"}], ids=["kl", "brier"])
def test_three_fair_votes_cover_a_label_drawn_from_the_truth(options):
    mean, error = repeated_coverage(200, 60, 150, 0.1, **options)
    assert mean >= 0.9 - 3 * error
    assert mean <= 0.9 + 1.5 / 61 + 3 * error  # the new item counts as one that is missed


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("options", [{"score": "tv"}, {"score": "kl"}, {"score": "ws"}], ids=str)
def test_promised_coverage_over_many_repetitions(options, alpha):
    mean, error = repeated_coverage(1000, 100, 300, alpha, **options)
    assert 1 - alpha - 3.5 * error <= mean <= 1 - alpha + 1.5 / 101 + 3.5 * error


def test_sets_for_the_majority_fall_short_for_annotators():
    prediction, counts, truth = crowd(4000, 0, n_votes=50)
    calibrated = {
        target: cs.labels.conformalize(prediction[:2000], counts[:2000], target=target).predict_set(
            prediction[2000:]
        )
        for target in ("annotator", "majority")
    }
    shares = {target: sets.share(truth[2000:]).mean() for target, sets in calibrated.items()}
    assert shares["annotator"] > 0.88
    assert shares["majority"] < 0.8
    assert calibrated["majority"].contains(truth[2000:].argmax(axis=1)).mean() > 0.88


def test_most_of_the_annotators_of_most_items():
    prediction, counts, _ = crowd(4000, 0)
    calibration = cs.labels.conformalize(prediction[:2000], counts[:2000], target=0.8)
    assert repr(calibration).endswith("for the labels of a share 0.8 of the item's annotators")
    by_share = calibration.predict_set(prediction[2000:], 0.1)
    by_vote = cs.labels.conformalize(prediction[:2000], counts[:2000]).predict_set(
        prediction[2000:], 0.1
    )
    assert (
        0.87 < (by_share.share(counts[2000:]) >= 0.8).mean() < 0.94
    )  # four standard errors of both halves
    assert (by_vote.share(counts[2000:]) >= 0.8).mean() < 0.85


def test_groups_and_weights():
    prediction, counts, _ = crowd(500, 0)
    keys = np.where(prediction[:, 0] > 0.4, "a", "b")
    grouped = cs.labels.conformalize(prediction, counts, groups=keys)
    for key in "ab":
        alone = cs.labels.conformalize(prediction[keys == key], counts[keys == key])
        expected = alone.predict_set(prediction[:20]).members
        np.testing.assert_array_equal(
            grouped.predict_set(prediction[:20], groups=[key] * 20).members, expected
        )
    tripled = cs.labels.conformalize(prediction, counts, weights=np.where(keys == "a", 3.0, 1.0))
    rows = np.concatenate([np.arange(500), *[np.flatnonzero(keys == "a")] * 2])
    threshold = tripled.thresholds(prediction[:1], 0.1, weights=[1.0])
    assert threshold == cs.labels.conformalize(prediction[rows], counts[rows]).thresholds(
        prediction[:1], 0.1
    )
    with pytest.raises(ValueError, match="weights is missing"):
        tripled.predict_set(prediction)


def test_too_few_items_keep_every_label():
    prediction, counts, _ = crowd(5, 0)
    with pytest.warns(cs.CredalSetWarning, match="5 calibration items"):
        assert cs.labels.conformalize(prediction, counts).predict_set(prediction, 0.1).members.all()


# --- labels of credal sets ---


@pytest.mark.parametrize("score", ["tv", "kl", "brier"])
def test_majority_labels_hold_the_top_of_every_member(score):
    prediction, counts, _ = crowd(400, 1, 4)
    sets = cs.conformalize(prediction[:200], counts[:200], score).predict_set(prediction[200:], 0.2)
    votes = counts[200:]
    inside, labels = sets.contains(votes / 10), majority_labels(sets)
    assert 100 < inside.sum() < 200
    assert labels.members[inside][votes[inside] == votes[inside].max(axis=1, keepdims=True)].all()
    members = sets.sample(30, random_state=0)
    for row, points in zip(labels.members, members, strict=True):
        assert row[points.argmax(axis=1)].all()
    assert labels.sizes().mean() < 4


@pytest.mark.parametrize(
    "score", [TotalVariation(), KullbackLeibler()], ids=lambda score: score.name
)
def test_every_member_gives_the_labels_their_share(score):
    prediction = crowd(40, 2, 4)[0]
    sets = score.region(prediction, 0.1)
    labels = annotator_labels(sets, 0.8)
    points = sets.sample(50, random_state=0)
    assert ((points * labels.members[:, None]).sum(axis=-1) >= 0.8 - 1e-9).all()
    subsets = np.array(list(product([False, True], repeat=4)))
    lower = np.stack([sets.lower_expectation(subset.astype(float)) for subset in subsets], axis=1)
    fewest = np.where(lower >= 0.8 - 1e-9, subsets.sum(axis=1), 9).min(axis=1)
    assert (labels.sizes() >= fewest).all()
    if score.name == "tv":
        np.testing.assert_array_equal(labels.sizes(), fewest)
    assert 1 < labels.sizes().mean() < 4


def test_empty_sets_have_no_labels():
    sets = cs.get_score("inner").region([[0.5, 0.3, 0.2], [0.8, 0.1, 0.1]], [0.4, 0.4])
    assert sets.is_empty().tolist() == [True, False]
    assert majority_labels(sets).names() == [[], [0]]
    assert annotator_labels(sets, 0.5).names() == [[], [0]]


# --- names, files, messages ---


def test_names_decide():
    prediction, counts, _ = crowd(60, 0)
    names = ["fine", "rude", "hateful"]
    items = [f"item {i}" for i in range(60)]
    frame = pd.DataFrame(prediction, items, names)
    shuffled = pd.DataFrame(counts, items, names).sample(frac=1, random_state=0)[
        ["hateful", "fine", "rude"]
    ]
    calibration = cs.labels.conformalize(frame, shuffled)
    np.testing.assert_array_equal(shares_of(calibration), counts / 10)
    sets = calibration.predict_set(frame[["rude", "hateful", "fine"]])
    np.testing.assert_array_equal(
        sets.members, cs.labels.conformalize(prediction, counts).predict_set(prediction).members
    )
    np.testing.assert_allclose(sets.share(shuffled), (sets.members * counts / 10).sum(axis=1))
    table = sets[:2].to_frame()
    assert table["item"].tolist() == items[:2]
    assert table["labels"][0] == [names[k] for k in np.flatnonzero(sets.members[0])]
    assert len(sets[3]) == 1
    assert sets[3].names() == [sets.names()[3]]


def test_annotations_are_read_too():
    votes = cs.Annotations.from_table(
        pd.DataFrame({"task": [1, 1, 2], "worker": [1, 2, 1], "label": ["a", "b", "b"]})
    )
    frame = pd.DataFrame([[0.5, 0.5], [0.2, 0.8]], index=[1, 2], columns=["a", "b"])
    with pytest.warns(cs.CredalSetWarning, match="infinite"):
        sets = cs.labels.conformalize(frame, votes).predict_set([[0.5, 0.5]])
    assert sets.names() == [["a", "b"]]


def test_refusals():
    prediction, counts, _ = crowd(20, 0)
    for options, name in (
        ({"target": "all"}, "target"),
        ({"target": 1.0}, "target"),
    ):
        with pytest.raises(ValueError, match=name):
            cs.labels.conformalize(prediction, counts, **options)
    sets = LabelSets(np.ones((2, 3), dtype=bool), ("a", "b", "c"))
    for labels in (["a", "z"], ["a"]):
        with pytest.raises(ValueError, match="labels"):
            sets.contains(labels)
    with pytest.raises(ValueError, match="votes"):
        sets.share(np.ones((3, 3), dtype=int))
    with pytest.raises(ValueError, match="share"):
        annotator_labels(TotalVariation().region([[0.5, 0.5]], 0.1), 1.0)
    assert repr(sets[:0]) == "LabelSets: 0 sets over 3 classes"
    assert repr(LabelSets(np.array([[True, False], [False, False]]))) == (
        "LabelSets: 2 sets over 2 classes, 0.5 labels on average, 1 empty"
    )


def test_label_sets_as_a_table() -> None:
    frame = LabelSets(
        np.array([[True, True], [False, True]]), ("bad", "good"), ("a", "b")
    ).to_frame()
    assert frame.to_dict("list") == {
        "item": ["a", "b"],
        "labels": [["bad", "good"], ["good"]],
        "n_labels": [2, 1],
    }
