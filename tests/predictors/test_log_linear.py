"""Log-linear fits against scikit-learn, a numeric gradient and laws that generated the votes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad, minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from credalset.predictors.log_linear import (
    NEARLY_FREE,
    Features,
    bias_features,
    cross_entropy,
    fit_class_bias,
    fit_cross_validated,
    fit_log_linear,
    random_folds,
    vote_weights,
)


def make_features(n: int, seed: int = 0, n_classes: int = 4) -> tuple[Features, np.ndarray]:
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(3, n, n_classes))
    own = np.column_stack([np.ones(n), rng.normal(size=(n, 2)), rng.random((n, 2)) < 0.2])
    features = Features(
        shared,
        own.astype(float),
        np.array([NEARLY_FREE, 1.0, 1.0]),
        np.array([NEARLY_FREE, 1.0, 1.0, 1.0, 1.0]),
        np.array([1.0, 0.0, 0.5]),
    )
    truth = softmax(1.2 * shared[0] - 0.5 * shared[2] + own @ rng.normal(size=(5, 4)), axis=1)
    return features, rng.multinomial(3, truth).astype(float)


def test_own_features_alone_are_a_multinomial_logistic_regression() -> None:
    features, counts = make_features(300)
    alone = Features(np.zeros((1, 300, 4)), features.own, np.ones(1), np.ones(5), np.zeros(1))
    ours = fit_log_linear(alone, counts, 2.0, tolerance=1e-10)
    items, labels = np.nonzero(counts)
    theirs = LogisticRegression(C=1 / 2.0, fit_intercept=False, tol=1e-10, max_iter=5000).fit(
        features.own[items], labels, sample_weight=counts[items, labels]
    )
    np.testing.assert_allclose(ours.own, theirs.coef_.T, atol=1e-5)
    np.testing.assert_allclose(ours.predict(alone), theirs.predict_proba(features.own), rtol=1e-4)


def test_the_fit_is_the_minimum_of_the_penalised_cross_entropy() -> None:
    features, counts = make_features(60)
    ridge = 3.0

    def objective(theta: np.ndarray) -> float:
        shared, own = theta[:3], theta[3:].reshape(5, 4)
        logits = np.einsum("r,rnk->nk", shared, features.shared) + features.own @ own
        loss = -np.sum(counts * log_softmax(logits, axis=1))
        rho = ridge * np.array([NEARLY_FREE, 1.0, 1.0])
        rho_own = ridge * np.array([NEARLY_FREE, 1.0, 1.0, 1.0, 1.0])
        return loss + 0.5 * (
            np.sum(rho * (shared - features.centre) ** 2) + np.sum(rho_own[:, None] * own**2)
        )

    law = fit_log_linear(features, counts, ridge, tolerance=1e-9)
    theta = np.concatenate([law.shared, law.own.ravel()])
    oracle = minimize(objective, theta + 0.3, method="BFGS", options={"gtol": 1e-4})
    np.testing.assert_allclose(theta, oracle.x, atol=2e-4)
    assert objective(theta) <= oracle.fun + 1e-9
    slope = check_grad(objective, lambda _: np.zeros(23), theta)
    assert slope < 1e-3 * counts.sum()


def test_sparse_features_give_the_same_law() -> None:
    features, counts = make_features(200)
    thin = Features(
        features.shared,
        sparse.csr_array(features.own),
        features.ridge_shared,
        features.ridge_own,
        features.centre,
    )
    dense = fit_log_linear(features, counts, 2.0, tolerance=1e-9)
    other = fit_log_linear(thin, counts, 2.0, tolerance=1e-9)
    np.testing.assert_allclose(dense.own, other.own, atol=1e-6)
    np.testing.assert_allclose(dense.predict(features[5:9]), other.predict(thin[5:9]), rtol=1e-6)


def test_items_without_votes_change_nothing() -> None:
    features, counts = make_features(200)
    counts[100:] = 0.0
    law = fit_log_linear(features, counts, 2.0, tolerance=1e-9)
    less = fit_log_linear(features[:100], counts[:100], 2.0, tolerance=1e-9)
    np.testing.assert_allclose(law.own, less.own, atol=1e-5)


def test_predictions_out_of_fold_do_not_see_the_votes_of_the_item() -> None:
    features, counts = make_features(100)
    folds = random_folds(100, np.random.default_rng(0))
    before = fit_cross_validated(features, counts, folds, ridges=(8.0,)).out_of_fold
    counts[folds == 2] = counts[folds == 2][:, ::-1]
    after = fit_cross_validated(features, counts, folds, ridges=(8.0,)).out_of_fold
    np.testing.assert_array_equal(before[folds == 2], after[folds == 2])
    assert not np.allclose(before[folds == 1], after[folds == 1])


def test_the_ridge_is_small_where_features_matter_and_large_where_they_do_not() -> None:
    features, counts = make_features(500)
    folds = random_folds(500, np.random.default_rng(0))
    useful = fit_cross_validated(features, counts, folds)
    rng = np.random.default_rng(1)
    useless = fit_cross_validated(features, rng.multinomial(3, np.full(4, 0.25), 500) * 1.0, folds)
    assert useful.law.ridge <= 8.0
    assert useless.law.ridge >= 128.0
    assert min(useful.losses.values()) < 0.8 * useful.losses[512.0]


def test_folds_keep_clusters_together() -> None:
    clusters = np.repeat(np.arange(30), 7)
    folds = random_folds(210, np.random.default_rng(0), clusters)
    assert all(len(set(folds[clusters == c])) == 1 for c in range(30))
    assert len(set(folds.tolist())) == 5


def test_class_bias_is_found() -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(4, 0.7), 3000)
    bias = np.array([1.5, 0.0, -1.0, 0.0])
    prediction = softmax(2.0 * np.log(truth) + bias, axis=1)
    counts = rng.multinomial(2, truth).astype(float)
    found = fit_class_bias(prediction[:1500], counts[:1500], rng)
    corrected = found.law.predict(bias_features(prediction[1500:]))
    loss = cross_entropy(truth[1500:], np.log(corrected)).mean()
    floor = cross_entropy(truth[1500:], np.log(truth[1500:])).mean()
    assert loss < 1.01 * floor
    np.testing.assert_allclose(found.law.shared, [0.5], atol=0.05)


@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("n_classes", [3, 10])
def test_a_classifier_without_bias_loses_less_than_one_per_cent(n: int, n_classes: int) -> None:
    losses = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth = rng.dirichlet(np.ones(n_classes), n + 2000)
        counts = rng.multinomial(1, truth[:n]).astype(float)
        law = fit_class_bias(truth[:n], counts, rng).law
        corrected = np.log(law.predict(bias_features(truth[n:])))
        floor = cross_entropy(truth[n:], np.log(truth[n:])).mean()
        losses.append(cross_entropy(truth[n:], corrected).mean() / floor - 1)
    assert np.mean(losses) < 0.01


def test_weights_of_votes() -> None:
    counts = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0], [60.0, 40.0]])
    totals = vote_weights(counts).sum(axis=1)
    np.testing.assert_allclose(totals[:3], [0.0, 1.0, 2.0])
    assert 3.5 < totals[3] < 4.0


def test_a_thousand_classes() -> None:
    rng = np.random.default_rng(0)
    prediction = rng.dirichlet(np.full(1000, 0.02), 400)
    counts = rng.multinomial(2, prediction).astype(float)
    found = fit_class_bias(prediction, counts, rng)
    assert found.out_of_fold.shape == (400, 1000)
    np.testing.assert_allclose(found.out_of_fold.sum(axis=1), 1.0)
