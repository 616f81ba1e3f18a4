from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import credalset as cs
from tests.crowd.simulated import hold_back, make_crowd, nearly_exact, on_faces, shares


@pytest.fixture(scope="module")
def data():
    return make_crowd(900, 3, 30, np.random.default_rng(0))


@pytest.fixture(scope="module")
def crowd(data):
    return cs.DirichletCrowd().fit(data[0][:400], data[1][:400])


def frames(data, rows):
    names = [f"item {i}" for i in range(900)][rows]
    p = pd.DataFrame(data[0][rows], index=names, columns=["no", "maybe", "yes"])
    return p, pd.DataFrame(data[1][rows], index=names, columns=["no", "maybe", "yes"])


def test_it_is_an_estimator(crowd):
    assert clone(crowd).get_params() == crowd.get_params()
    assert set(crowd.get_params()) == {
        "class_bias",
        "max_iter",
        "n_components",
        "n_consensus",
        "random_state",
    }
    with pytest.raises(NotFittedError):
        cs.DirichletCrowd().predict([[0.5, 0.5]])


@pytest.mark.parametrize(
    "params", [{"n_components": 0}, {"n_consensus": -1}, {"max_iter": 0}, {"n_components": 1.5}]
)
def test_parameters_are_validated_when_fitting(params, data):
    with pytest.raises((ValueError, TypeError), match=next(iter(params))):
        cs.DirichletCrowd(**params).fit(data[0], data[1])


def test_votes_move_the_prediction_towards_the_crowd(crowd, data):
    p, counts, truth = (part[400:] for part in data)
    rng = np.random.default_rng(1)
    errors = []
    for h in (0, 1, 3, 10):
        hand, _ = hold_back(counts, h, rng)
        errors.append(np.abs(crowd.predict(p, hand) - truth).sum(axis=1).mean())
        if h:
            assert errors[-1] < np.abs(shares(hand) - truth).sum(axis=1).mean()
    assert errors == sorted(errors, reverse=True)
    np.testing.assert_array_equal(crowd.predict(p), crowd.predict(p, np.zeros_like(counts)))


def test_layers_of_consensus_are_chosen_by_the_votes():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 1500)
    first = (p.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1)
    strength = np.where(rng.random(1500) < 0.5, 200.0, 3.0)[
        :, None
    ]  # nearly unanimous, or a mere tendency
    truth = np.stack([rng.dirichlet(row) for row in strength * np.eye(4)[first] + 0.5])
    for n_votes, layers in ((1, 1), (40, 2)):
        counts = np.stack([rng.multinomial(n_votes, row) for row in truth])
        assert len(cs.DirichletCrowd().fit(p, counts).law_.consensus) == layers
    assert len(cs.DirichletCrowd(n_consensus=0).fit(p, counts).law_.consensus) == 0


def test_single_votes_are_enough_to_fit(data):
    p, counts, truth = data
    one, _ = hold_back(counts, 1, np.random.default_rng(0))
    crowd = cs.DirichletCrowd().fit(p[:600], one[:600])
    after = np.abs(crowd.predict(p[600:], one[600:]) - truth[600:]).sum(axis=1).mean()
    assert after < np.abs(p[600:] - truth[600:]).sum(axis=1).mean()


def test_predictions_unlike_those_fitted_do_not_overflow():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(5, [0.5, 0.3, 0.2], 50)
    alike = np.tile([0.5, 0.3, 0.2], (50, 1))
    nearly = np.vstack([alike[1:], [[0.501, 0.299, 0.2]]])
    for p in (alike, nearly):
        found = (
            cs.DirichletCrowd()
            .fit(p, counts)
            .predict([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]], [[0, 100, 0], [0, 0, 0]])
        )
        assert np.isfinite(found).all()
        assert found[0, 1] > 0.5


def test_names_are_matched_and_absent_items_have_no_votes(crowd, data):
    p, votes = frames(data, slice(400, 500))
    named = cs.DirichletCrowd().fit(*frames(data, slice(0, 400)))
    assert named.classes_ == ("no", "maybe", "yes")
    assert named.items_[0] == "item 0"
    expected = named.predict(p.to_numpy(), votes.to_numpy())
    shuffled = votes.sample(frac=1, random_state=0)[["yes", "no", "maybe"]]
    np.testing.assert_allclose(named.predict(p[["maybe", "yes", "no"]], shuffled), expected)
    some = named.predict(p, shuffled.loc[["item 450"]])
    np.testing.assert_allclose(some[50], expected[50])
    np.testing.assert_allclose(some[:50], named.predict(p)[:50])
    without = named.predict(p, votes[["no", "yes"]])  # nobody chose "maybe"
    np.testing.assert_allclose(without, named.predict(p.to_numpy(), votes.to_numpy() * [1, 0, 1]))


@pytest.mark.parametrize(("rows", "columns"), [(-1, 1), (1, -1)])
def test_votes_numbered_in_another_order_are_refused(crowd, data, rows, columns):
    prediction, votes = data[:2]
    with pytest.raises(ValueError, match="votes names its"):
        crowd.predict(prediction, pd.DataFrame(votes).iloc[::rows, ::columns])


def test_one_table_of_votes_serves_all_items(data):
    """Votes on further items are not used; to learn from items, all need votes."""
    p, votes = frames(data, slice(0, 900))
    crowd, alone = (
        cs.DirichletCrowd(max_iter=20).fit(p[:300], each) for each in (votes, votes[:300])
    )
    np.testing.assert_array_equal(crowd.law_.theta, alone.law_.theta)
    policy = cs.VotingPolicy(crowd, max_votes=5)
    for made in (crowd.conformalize, policy.conformalize):
        assert made(p[300:600], votes).items == tuple(p.index[300:600])
    np.testing.assert_array_equal(
        crowd.predict(p[600:], votes), crowd.predict(p[600:], votes[600:])
    )
    assert len(policy.forecast(p[600:], votes).votes) == 300
    for use in (
        crowd.fit,
        crowd.check,
        crowd.conformalize,
        policy.replay,
        policy.compare,
        policy.conformalize,
    ):
        with pytest.raises(ValueError, match="item 899"):
            use(p[300:], votes[:899])


def test_the_text_says_whether_it_is_fitted(crowd):
    assert "not fitted" in repr(cs.DirichletCrowd(3))
    assert "3 classes" in repr(crowd)


def test_annotations_are_votes(data):
    rows = [(f"item {i}", w, "ab"[w % 2]) for i in range(20) for w in range(1 + i % 3)]
    votes = cs.Annotations.from_table(pd.DataFrame(rows, columns=["task", "worker", "label"]))
    p = pd.DataFrame(
        np.full((20, 2), 0.5), index=[f"item {i}" for i in range(20)], columns=["a", "b"]
    )
    crowd = cs.DirichletCrowd().fit(p, votes)
    assert crowd.predict(p, votes)[0, 0] > 0.5
    assert set(crowd.items_) == set(p.index)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, v: (p, v - 100), "votes"),
        (lambda p, v: (p, v + 0.5), "votes"),
        (lambda p, v: (p * 2, v), "predictions"),
        (lambda p, v: (p, v.rename(columns={"no": "never"})), "never"),
        (lambda p, v: (p, v.rename(index=lambda name: name + "x")), "items"),
        (lambda p, v: (p, v.to_numpy()[:5]), "one row for each item"),
        (lambda p, v: (p, v.to_numpy()[:, :2]), "classes"),
        (lambda p, v: (p.to_numpy()[:, :2], v), "predictions"),
        (lambda p, v: (p, v.rename(index={"item 3": "item 4"})), "twice"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, message, data):
    crowd = cs.DirichletCrowd(max_iter=5).fit(*frames(data, slice(0, 60)))
    predictions, votes = change(*frames(data, slice(0, 10)))
    with pytest.raises(ValueError, match=message):
        crowd.predict(predictions, votes)


def test_fitting_needs_votes(data):
    with pytest.raises(ValueError, match="votes"):
        cs.DirichletCrowd().fit(data[0], np.zeros_like(data[1]))


def test_distributions_are_no_votes(crowd, data):
    with pytest.raises(ValueError, match="votes"):
        crowd.predict(data[0], shares(data[1]))


def test_draws_follow_the_posterior(crowd, data):
    p, counts = data[0][400:430], data[1][400:430]
    draws = crowd.posterior(p, counts).sample(4000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), crowd.predict(p, counts), atol=0.015)
    np.testing.assert_array_equal(draws, crowd.posterior(p, counts).sample(4000, random_state=0))


def test_the_check_accepts_a_crowd_that_fits():
    rng = np.random.default_rng(3)
    p, counts, _ = make_crowd(4000, 3, rng.integers(1, 8, 4000), rng)
    crowd = cs.DirichletCrowd().fit(p[:2000], counts[:2000])
    values = [
        crowd.check(p[2000:], counts[2000:], n_simulations=99, random_state=s) for s in range(10)
    ]
    assert np.median([found.p_value for found in values]) > 0.05
    predicted, observed = values[0].agreement
    assert abs(predicted - observed) < 0.04
    assert values[0].votes[:, 2].sum() == 2000 * 3
    assert f"p-value {values[0].p_value:.3f}" in str(values[0])


@pytest.mark.parametrize("make", [on_faces])
def test_the_check_refuses_a_crowd_that_does_not(make):
    rng = np.random.default_rng(0)
    p, counts, _ = make(3000, 3, 6, rng)
    crowd = cs.DirichletCrowd(n_components=1, n_consensus=0).fit(p[:1000], counts[:1000])
    assert crowd.check(p[1000:], counts[1000:], n_simulations=199).p_value < 0.05


def test_the_check_of_single_votes_has_no_pairs():
    p, counts, _ = nearly_exact(300, 3, 1, np.random.default_rng(0))
    found = cs.DirichletCrowd().fit(p, counts).check(p, counts, n_simulations=19)
    assert np.isnan(found.pair_p_value)
    assert 0 < found.p_value <= 1


def test_auto_takes_all_numbers_of_votes_with_enough_items(data):
    p, votes = frames(data, slice(0, 300))
    crowd = cs.DirichletCrowd(max_iter=5).fit(p[:100], votes[:100])
    counts = votes.to_numpy()
    options = {"scale": None, "random_state": 0}
    few = np.array([draw_votes(row, 3 + number % 3) for number, row in enumerate(counts)])
    made = crowd.conformalize(p[100:], few[100:], method="imputed", **options)
    assert made.in_hand == (0, 1, 2, 3, 4, 5)
    # A panel keeps ten votes: with 14 votes on nine items of ten, up to four are in hand.
    panel = np.array(
        [draw_votes(row, 11 if number % 12 == 0 else 14) for number, row in enumerate(counts)]
    )
    made = crowd.conformalize(p[100:], panel[100:], **options)
    assert made.in_hand == (0, 1, 2, 3, 4)
    assert crowd.conformalize(p[100:], panel[100:], min_votes=12, **options).in_hand == (0, 1, 2)


def draw_votes(row, size):
    """Return some of the votes of one item."""
    return np.random.default_rng(0).multivariate_hypergeometric(row.astype(int), size)
