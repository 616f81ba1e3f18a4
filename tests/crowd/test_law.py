from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import dirichlet, dirichlet_multinomial, multinomial

import credalset as cs
from credalset.crowd.fitting import fit_law, initial_law, maximise, prior_of
from credalset.crowd.law import CrowdLaw, Items, log_likelihood
from credalset.crowd.posterior import Posterior, sample_dirichlet
from tests.crowd.simulated import make_crowd


def law_and_items(n_classes=4, n=40, n_around=2, n_consensus=2, seed=0, n_votes=6):
    rng = np.random.default_rng(seed)
    p, counts, _ = make_crowd(n, n_classes, n_votes, rng)
    p[0] = np.eye(n_classes)[0]  # predictions of exactly zero
    counts[1] = 0  # no votes
    start = initial_law(p, counts.astype(float), n_around, n_consensus)
    law = start.at(start.theta + 0.3 * rng.normal(size=len(start.theta)))
    return law, Items(law, p, counts.astype(float))


@pytest.mark.parametrize(("n_around", "n_consensus"), [(1, 0), (2, 1), (0, 1), (2, 2)])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_gradient_is_that_of_finite_differences(n_around, n_consensus, n_classes):
    law, items = law_and_items(n_classes, n_around=n_around, n_consensus=n_consensus)
    _, gradient = log_likelihood(law, items)
    theta, step = law.theta, 1e-5
    for i, unit in enumerate(np.eye(len(theta))):
        above, below = (
            log_likelihood(law.at(theta + sign * step * unit), items)[0] for sign in (1, -1)
        )
        np.testing.assert_allclose(
            gradient[:, i], (above - below) / (2 * step), atol=1e-6, rtol=1e-5
        )


def test_the_likelihood_is_that_of_dirichlet_multinomials():
    law, items = law_and_items()
    blank = Posterior.given(law, items.prediction, np.zeros_like(items.counts))
    value, _ = log_likelihood(law, items)
    for i in range(2, 12):
        counts = items.counts[i].astype(int)
        pmf = [
            dirichlet_multinomial.pmf(counts, row, counts.sum()) for row in blank.concentration[i]
        ]
        orders = (
            np.exp(value[i])
            * multinomial.pmf(counts, counts.sum(), np.full(4, 0.25))
            * 4.0 ** counts.sum()
        )
        np.testing.assert_allclose(orders, blank.weights[i] @ pmf, rtol=1e-9)
    np.testing.assert_allclose(value[1], 0.0, atol=1e-12)


def test_the_posterior_is_that_of_bayes():
    law, items = law_and_items()
    prior = Posterior.given(law, items.prediction, np.zeros_like(items.counts))
    posterior = Posterior.given(law, items.prediction, items.counts)
    np.testing.assert_allclose(
        posterior.concentration, prior.concentration + items.counts[:, None, :]
    )
    likelihood = np.array(
        [
            [dirichlet_multinomial.pmf(c.astype(int), a, c.sum()) if c.any() else 1.0 for a in rows]
            for c, rows in zip(items.counts, prior.concentration, strict=True)
        ]
    )
    weights = prior.weights * likelihood
    np.testing.assert_allclose(
        posterior.weights, weights / weights.sum(axis=1, keepdims=True), rtol=1e-8, atol=1e-12
    )
    components = posterior.concentration / posterior.concentration.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(
        posterior.mean, np.einsum("nc,nck->nk", posterior.weights, components), rtol=1e-9
    )


def test_moments_and_leads_are_those_of_draws():
    law, items = law_and_items(n=6, n_votes=3)
    posterior = Posterior.given(law, items.prediction, items.counts)
    draws = posterior.sample(20_000, random_state=0)
    mean, variance = posterior.moments
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.012)
    np.testing.assert_allclose(draws.var(axis=1), variance, atol=0.01)
    lead, deviation = posterior.lead()
    top = np.argsort(-mean, axis=1)
    for i in range(len(mean)):
        difference = draws[i, :, top[i, 0]] - draws[i, :, top[i, 1]]
        assert abs(difference.mean() - lead[i]) < 0.03
        assert abs(difference.std() - deviation[i]) < 0.03
    total = posterior.strength
    np.testing.assert_allclose(
        (mean * (1 - mean)).sum(axis=1) / (total + 1), variance.sum(axis=1), rtol=1e-6
    )


def test_small_concentrations_do_not_underflow():
    rng = np.random.default_rng(0)
    draws = sample_dirichlet(np.full((20_000, 3), 1e-4), rng)
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws.mean(axis=0), 1 / 3, atol=0.02)
    one = sample_dirichlet(np.tile([3.0, 1.0, 0.5], (20_000, 1)), rng)
    np.testing.assert_allclose(one.var(axis=0), dirichlet([3.0, 1.0, 0.5]).var(), atol=0.002)


def test_the_fit_is_a_maximum_and_finds_a_crowd_again():
    rng = np.random.default_rng(1)
    law, _ = law_and_items(3, n_around=1, n_consensus=1)
    p = rng.dirichlet(np.ones(3), 4000)
    blank = Posterior.given(law, p, np.zeros((4000, 3)))
    counts = np.stack([rng.multinomial(5, row) for row in blank.sample(1, rng)[:, 0]]).astype(float)
    found, _ = fit_law(p, counts, 1, 1, 200)
    items = Items(found, p, counts)
    value, gradient = log_likelihood(found, items)
    mean, deviation = prior_of(found)
    slope = gradient.sum(axis=0) - (found.theta - mean) / deviation**2
    assert np.abs(slope).max() < 0.02 * np.sqrt(4000)
    assert (
        value.mean() >= log_likelihood(law, Items(law, p, counts))[0].mean() - 1e-3
    )  # its confusion is another
    again, _ = maximise(found, items, 200)
    assert log_likelihood(again, items)[0].sum() <= value.sum() + 1.0
    truth, guess = blank.mean, Posterior.given(found, p, np.zeros((4000, 3))).mean
    assert np.abs(truth - guess).mean() < 0.02


@pytest.mark.parametrize("field", ["around", "consensus", "gate", "confusion", "entropy"])
def test_a_law_refuses_numbers_that_are_none(field):
    law, _ = law_and_items()
    values = {
        name: getattr(law, name) for name in ("around", "consensus", "gate", "confusion", "entropy")
    }
    with pytest.raises(ValueError, match=field):
        CrowdLaw(**{**values, field: np.full_like(values[field], np.nan)})


def test_a_thousand_classes():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(1000, 0.02), 60)
    counts = np.stack([rng.multinomial(3, row) for row in p])
    crowd = cs.DirichletCrowd(max_iter=5).fit(p, counts)
    found = crowd.predict(p, counts)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found[np.arange(60), counts.argmax(axis=1)] > 0.01).all()
