"""Sets whose size adapts to the item, and the class bias in front of the crowd."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import credalset as cs
from credalset.crowd.bias import ClassBias, fit_bias
from credalset.crowd.posterior import Posterior
from credalset.crowd.scaling import (
    QUANTILE,
    base_variates,
    draw_alike,
    posterior_scale,
    predict_for,
)
from credalset.scores import Normalized, ScaledPrediction, get_score
from tests.crowd.simulated import assert_in_bands, hold_back, make_crowd, shares

FIRST_NORMAL = [0.35034922725656387, -0.6134581787035279, -1.7394988867659331]
LAST_EXPONENTIAL = [1.7292722788921835, 0.7338186256581049, 2.0304029420965715]
SCALED = ("kl", "tv", "brier", "ws")


@pytest.fixture(scope="module")
def crowd():
    p, counts, _ = make_crowd(500, 4, 30, np.random.default_rng(9))
    return cs.DirichletCrowd().fit(p, counts)


def easy_and_hard(n, rng):
    """Items that are predicted well or badly, which the prediction shows."""
    hard = rng.random(n) < 0.3
    p = np.where(hard[:, None], rng.dirichlet(np.full(4, 5.0), n), rng.dirichlet([60, 1, 1, 1], n))
    truth = np.stack(
        [
            rng.dirichlet(np.where(h, 3.0, 200.0) * row + 0.02)
            for h, row in zip(hard, p, strict=True)
        ]
    )
    counts = np.stack([rng.multinomial(30, row) for row in truth])
    return p, counts, hard


def test_base_variates_are_standard_and_never_change():
    normal, exponential = base_variates(200, 1000)
    assert abs(normal.mean()) < 0.01
    assert abs(normal.std() - 1) < 0.01
    assert abs(exponential.mean() - 1) < 0.01
    # A calibration that was saved elsewhere must scale alike: these numbers are part of the format.
    normal, exponential = base_variates(200, 3)
    np.testing.assert_allclose(normal[0], FIRST_NORMAL, rtol=1e-12)
    np.testing.assert_allclose(exponential[-1], LAST_EXPONENTIAL, rtol=1e-12)


def test_draws_follow_the_posterior(crowd):
    p, counts, _ = make_crowd(40, 4, 5, np.random.default_rng(0))
    posterior = Posterior.given(crowd.law_, p, counts.astype(float))
    draws = draw_alike(posterior, 4000)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0)
    mean, variance = posterior.moments
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.02)
    np.testing.assert_allclose(draws.std(axis=1), np.sqrt(variance), atol=0.03)
    score = get_score("tv")
    center = posterior.center("first")
    exact = score.evaluate_pairs(center, posterior.sample(4000, 0))
    ratio = np.quantile(score.evaluate_pairs(center, draws), QUANTILE, axis=1)
    ratio /= np.quantile(exact, QUANTILE, axis=1)
    assert abs(np.log(ratio)).max() < 0.15


@pytest.mark.parametrize("score", SCALED)
def test_the_scale_belongs_to_the_item_alone(crowd, score):
    p, counts, _ = make_crowd(300, 4, 3, np.random.default_rng(1))
    counts = counts.astype(float)
    adaptive = Normalized(score, scale="predicted")
    together = predict_for(adaptive, crowd.law_, p, counts)
    turned = predict_for(adaptive, crowd.law_, p[::-1].copy(), counts[::-1].copy())
    np.testing.assert_array_equal(turned.scale[::-1], together.scale)
    for row in (0, 17, 299):
        alone = predict_for(adaptive, crowd.law_, p[[row]], counts[[row]])
        np.testing.assert_allclose(alone.scale[0], together.scale[row], rtol=1e-12)


@pytest.mark.parametrize("score", SCALED)
def test_offsets_have_the_units_of_the_score(score):
    small = {
        "kl": cs.scores.KullbackLeibler(base=4.0),
        "tv": get_score("tv"),
        "brier": cs.scores.Brier(weights=(0.5,) * 4),
        "ws": cs.scores.Wasserstein(positions=(0, 0.5, 1, 1.5)),
    }[score]
    p, counts, _ = make_crowd(2, 4, 3, np.random.default_rng(1))
    ratio = small(p, shares(counts + 1.0)) / get_score(score)(p, shares(counts + 1.0))
    expected = small.scale_offset(4) / get_score(score).scale_offset(4)
    np.testing.assert_allclose(ratio, expected)


def test_coverage_is_even_with_the_scale_and_uneven_without():
    rng = np.random.default_rng(0)
    p, counts, _ = easy_and_hard(600, rng)
    crowd = cs.DirichletCrowd().fit(p, counts)
    rates = {}
    for score in SCALED:
        for scale in ("posterior", None):
            hits = []
            for _ in range(6):
                p, counts, hard = easy_and_hard(1200, rng)
                made = crowd.conformalize(p[:600], counts[:600], score, in_hand=(0,), scale=scale)
                covered = made.predict_set(p[600:]).contains(shares(counts[600:]))
                hits.append([covered.mean(), covered[hard[600:]].mean()])
            rates[score, scale] = np.mean(hits, axis=0)
    for score in SCALED:
        assert abs(rates[score, "posterior"][0] - 0.9) < 0.02
        assert rates[score, "posterior"][1] > 0.85
        assert rates[score, None][1] < rates[score, "posterior"][1] - 0.05


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("score", ["brier", "ws"])
def test_scaled_coverage_is_exact(n_classes, score):
    rng = np.random.default_rng(n_classes)
    p, counts, _ = make_crowd(300, n_classes, 20, rng)
    crowd = cs.DirichletCrowd(max_iter=20).fit(p, counts)
    hits = []
    for split in range(40):
        p, counts, _ = make_crowd(199, n_classes, 20, rng)
        made = crowd.conformalize(p[:99], counts[:99], score, in_hand=(2,), random_state=split)
        hand, back = hold_back(counts[99:], 2, rng)
        hits.append(int(made.predict_set(p[99:], votes=hand).contains(shares(back)).sum()))
    assert_in_bands(hits, 99, 100)


def test_scores_without_an_offset_are_calibrated_as_they_are(crowd):
    p, counts, _ = make_crowd(100, 4, 30, np.random.default_rng(2))
    assert crowd.conformalize(p, counts, "inner", in_hand=(0,)).score.name == "inner"
    assert crowd.conformalize(p, counts, "tv", in_hand=(0,), scale=None).score.name == "tv"
    own = Normalized("tv", offset=0.3, scale="predicted")
    assert crowd.conformalize(p, counts, own, in_hand=(0,)).score == own
    with pytest.raises(ValueError, match="scale"):
        crowd.conformalize(p, counts, in_hand=(0,), scale="entropy")
    with pytest.raises(ValueError, match="scale"):
        cs.VotingPolicy(crowd).conformalize(p, counts, scale="entropy")


def test_infinite_scores_have_a_finite_scale(crowd):
    p, counts, _ = make_crowd(5, 4, 30, np.random.default_rng(2))
    posterior = Posterior.given(crowd.law_, p, counts.astype(float))
    corner = np.tile([1.0, 0.0, 0.0, 0.0], (5, 1))
    assert np.isfinite(posterior_scale(get_score("kl"), posterior, corner)).all()


def test_scaled_sets_are_the_same_after_loading(crowd, tmp_path):
    p, counts, _ = make_crowd(100, 4, 30, np.random.default_rng(2))
    made = crowd.conformalize(p, counts, "brier", in_hand=(0, 3))
    made.save(tmp_path / "made")
    loaded = cs.load(tmp_path / "made")
    before, after = (each.predict_set(p, 0.2) for each in (made, loaded))
    assert isinstance(after.prediction, ScaledPrediction)
    np.testing.assert_array_equal(after.prediction.scale, before.prediction.scale)
    np.testing.assert_array_equal(after.upper(), before.upper())


# --- class bias ---


def biased(n, rng, amount=1.5):
    """A model that sees too little of the first class."""
    truth = rng.dirichlet(np.full(3, 0.7), n)
    logits = np.log(truth + 0.01) + rng.normal(0, 0.5, truth.shape) - [amount, 0, 0]
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return p, np.stack([rng.multinomial(20, row) for row in truth])


def test_a_class_bias_is_found_and_removed():
    p, counts = biased(800, np.random.default_rng(0))
    bias, corrected = fit_bias(p[:400], counts[:400].astype(float))
    assert bias is not None
    np.testing.assert_allclose(bias.bias, bias.power * np.array([1.0, -0.5, -0.5]), atol=0.3)
    new = bias.correct(p[400:])
    np.testing.assert_allclose(new.sum(axis=1), 1.0)
    np.testing.assert_array_equal(bias.correct(p[400:401]), new[:1])
    for made, votes in ((corrected, counts[:400]), (new, counts[400:])):
        assert abs((made - shares(votes)).mean(axis=0)).max() < 0.03
    assert abs((p - shares(counts)).mean(axis=0)).max() > 0.1


def test_without_a_class_bias_predictions_stay_as_they_are():
    p, counts = biased(400, np.random.default_rng(1), amount=0.0)
    crowd = cs.DirichletCrowd(max_iter=10).fit(p, counts)
    assert crowd.bias_ is None
    assert fit_bias(p[:20], counts[:20].astype(float))[0] is None  # too few items


def test_the_bias_makes_sets_narrower_and_is_saved(tmp_path):
    p, counts = biased(1200, np.random.default_rng(0), amount=2.5)
    widths = []
    for class_bias in (True, False):
        crowd = cs.DirichletCrowd(class_bias=class_bias).fit(p[:400], counts[:400])
        made = crowd.conformalize(p[400:800], counts[400:800], in_hand=(0,))
        made.save(tmp_path / "made")
        sets = cs.load(tmp_path / "made").predict_set(p[800:])
        np.testing.assert_array_equal(sets.upper(), made.predict_set(p[800:]).upper())
        assert abs(sets.contains(shares(counts[800:])).mean() - 0.9) < 0.06
        widths.append(sets.width().mean())
    assert widths[0] < 0.97 * widths[1]


def test_the_bias_depends_on_no_order():
    p, counts = biased(300, np.random.default_rng(3))
    frame = pd.DataFrame(p, [f"i{i}" for i in range(300)], ["a", "b", "c"])
    bias, _ = fit_bias(p, counts.astype(float))
    order = np.random.default_rng(0).permutation(300)
    turned, _ = fit_bias(p[order][:, [2, 0, 1]], counts[order][:, [2, 0, 1]].astype(float))
    np.testing.assert_allclose(turned.bias, bias.bias[[2, 0, 1]], atol=1e-4)
    votes = pd.DataFrame(counts, frame.index, frame.columns)
    crowd = cs.DirichletCrowd(max_iter=5).fit(frame, votes)
    np.testing.assert_allclose(crowd.predict(frame[["c", "a", "b"]]), crowd.predict(frame))


def test_a_broken_bias_is_refused():
    with pytest.raises(ValueError, match="class bias"):
        ClassBias(np.nan, np.zeros(3))
