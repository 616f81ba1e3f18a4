"""Rules that accept labels: the public face, two rules for one table, and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import credalset as cs
from credalset.acceptance.losses import LOSSES
from credalset.acceptance.rule import Claim
from credalset.crowd.accept import Fitted, believe, hold_back, two_rules
from credalset.crowd.posterior import Posterior
from credalset.exceptions import CredalSetWarning

RNG = np.random.default_rng(0)
DATA = cs.datasets.make_synthetic(1200, n_classes=3, n_votes=3, random_state=0)
P, VOTES = DATA.distributions, DATA.counts.astype(float)
CROWD = cs.DirichletCrowd(n_consensus=1, max_iter=60).fit(P[:300], VOTES[:300])
NEW, NEW_VOTES = P[300:], VOTES[300:]
HAND = NEW_VOTES - np.eye(3)[NEW_VOTES.argmax(axis=1)]  # two votes of three


def test_a_rule_predicts_one_item_as_it_does_all() -> None:
    rule = CROWD.accept(NEW, NEW_VOTES, error=0.1)
    all_of_them = rule.predict(NEW, HAND)
    assert 0.3 < rule.share < 1
    assert all_of_them.accepted.mean() == pytest.approx(rule.share, abs=0.2)
    np.testing.assert_array_equal(all_of_them.accepted, all_of_them.risk <= rule.thresholds[0, 0])
    for row in (0, 7, 100):
        one = rule.predict(NEW[[row]], HAND[[row]])
        assert one.labels == [all_of_them.labels[row]]
        assert one.risk[0] == pytest.approx(all_of_them.risk[row], abs=1e-12)
    frame = all_of_them.to_frame()
    assert list(frame.columns) == ["item", "label", "risk", "accepted", "certified"]


def test_fewer_votes_than_certified_are_not_accepted_and_more_are_not_certified() -> None:
    rule = CROWD.accept(NEW, NEW_VOTES, error=0.3)
    assert rule.predict(NEW, HAND).accepted.mean() > 0.9
    fewer = HAND - np.eye(3)[HAND.argmax(axis=1)]
    for hand in (None, fewer):
        with pytest.warns(CredalSetWarning, match="fewer votes in hand than the 2"):
            found = rule.predict(NEW, hand)
        assert not found.accepted.any()
        assert not found.certified.any()
    mixed = np.vstack([fewer[:300], HAND[300:600], NEW_VOTES[600:]])
    with pytest.warns(CredalSetWarning):
        found = rule.predict(NEW, mixed)
    expected = (found.risk <= rule.thresholds[0, 0]) & (np.arange(900) >= 300)
    np.testing.assert_array_equal(found.accepted, expected)
    np.testing.assert_array_equal(found.certified, expected & (np.arange(900) < 600))
    assert found.accepted[600:].any()
    # With another loss as many are held back, and a fixed number counts as it is.
    person = CROWD.accept(NEW, NEW_VOTES, loss="person", error=0.3)
    assert person.predict(NEW, fewer).certified.any()
    fixed = CROWD.accept(NEW, NEW_VOTES, in_hand=1, error=0.3)
    assert fixed.predict(NEW, fewer).certified.any()


def test_saved_rules_decide_as_before(tmp_path: Path) -> None:
    cost = np.array([[0.0, 1, 4], [1, 0, 1], [2, 1, 0]])
    for number, options in enumerate(
        (
            {"error": (0.1, 0.2)},
            {"loss": "person", "error": 0.1},
            {"loss": cost, "error": 0.8},
            {"in_hand": 1, "error": 0.15},
            {"groups": ["a", "b"] * 450, "error": 0.2},
        )
    ):
        rule = CROWD.accept(NEW, NEW_VOTES, **options)
        rule.save(tmp_path / str(number))
        again = cs.load(tmp_path / str(number))
        assert again.guarantee == rule.guarantee
        assert str(again.curve()) == str(rule.curve())
        hand = hold_back(NEW_VOTES, LOSSES["annotator"], 1, np.random.default_rng(0)).hand[:900]
        groups = {"groups": ["a", "b"] * 450} if "groups" in options else {}
        first, second = (r.predict(NEW, hand, **groups) for r in (rule, again))
        np.testing.assert_array_equal(first.accepted, second.accepted)
        assert first.labels == second.labels


def test_smaller_errors_accept_less_and_share_the_confidence() -> None:
    both = CROWD.accept(NEW, NEW_VOTES, error=(0.2, 0.08))
    assert both.errors == (0.08, 0.2)
    assert both.shares[0, 0] < both.shares[0, 1]
    alone = CROWD.accept(NEW, NEW_VOTES, error=0.2)
    assert both.shares[0, 1] <= alone.shares[0, 0]
    less = both.predict(NEW, HAND).accepted
    more = both.predict(NEW, HAND, error=0.2).accepted
    assert not (less & ~more).any()
    assert less.sum() < more.sum()
    with pytest.raises(ValueError, match="error"):
        both.predict(NEW, None, error=0.1)


def test_costs_are_matched_by_class_and_in_their_own_unit() -> None:
    classes = ["a", "b", "c"]
    items = [f"t{i}" for i in range(900)]
    p = pd.DataFrame(NEW, items, classes)
    votes = pd.DataFrame(NEW_VOTES, items, classes)
    crowd = cs.DirichletCrowd(n_consensus=1, max_iter=30).fit(
        pd.DataFrame(P[:300], columns=classes), pd.DataFrame(VOTES[:300], columns=classes)
    )
    cost = pd.DataFrame([[0.0, 10, 40], [10, 0, 10], [20, 10, 0]], classes, classes)
    turned = cost.loc[["c", "a", "b"], ["b", "c", "a"]]
    rules = [crowd.accept(p, votes, loss=each, error=4.0) for each in (cost, turned, cost.values)]
    for rule in rules:
        assert rule.error == 4.0
        np.testing.assert_allclose(rule.costs, cost.to_numpy() / 40)
        assert rule.thresholds[0, 0] == rules[0].thresholds[0, 0]
    found = rules[0].predict(p, None)
    expected = crowd.predict(p, None) @ cost.to_numpy().T
    np.testing.assert_allclose(found.risk, expected.min(axis=1), atol=1e-9)
    assert found.labels == [classes[k] for k in expected.argmin(axis=1)]


def test_the_cost_of_a_wrong_label_is_the_loss_annotator() -> None:
    plain = CROWD.accept(NEW, NEW_VOTES, error=0.1)
    costs = CROWD.accept(NEW, NEW_VOTES, error=0.1, loss=1 - np.eye(3))
    np.testing.assert_allclose(plain.thresholds, costs.thresholds, atol=1e-12)


def test_a_claim_of_division_is_made_where_disagreement_is_expected() -> None:
    rule = CROWD.divided(NEW, NEW_VOTES, disagreement=0.4)
    hand = HAND - np.eye(3)[HAND.argmax(axis=1)]
    found = rule.predict(NEW, hand)
    mean, variance = CROWD.posterior(NEW, hand).moments
    np.testing.assert_allclose(found.risk, (variance + mean**2).sum(axis=1), atol=1e-12)
    assert found.accepted.any()
    assert found.risk[found.accepted].max() <= 0.6
    assert "two annotators disagree" in rule.guarantee


def test_a_majority_needs_a_number_in_hand_and_votes_to_find_it() -> None:
    data = cs.datasets.make_synthetic(900, n_classes=3, n_votes=30, random_state=1)
    rule = CROWD.accept(data.distributions, data.counts, loss="majority", in_hand=2, error=0.1)
    assert rule.share > 0.5
    with pytest.raises(ValueError, match="in_hand"):
        CROWD.accept(NEW, NEW_VOTES, loss="majority")


def test_labels_accept_needs_no_crowd() -> None:
    rule = cs.labels.accept(P, VOTES, error=0.1)
    found = rule.predict(P)
    np.testing.assert_allclose(found.risk, 1 - P.max(axis=1))
    assert rule.crowd is None
    assert rule.share > 0.2
    with pytest.raises(ValueError, match="votes"):
        rule.predict(P, VOTES)


def test_beliefs_are_those_of_the_posterior_in_any_block() -> None:
    hand = VOTES[:50]
    posterior = Posterior.given(CROWD.law_, P[:50], hand)
    found = believe(CROWD.law_, P[:50], hand)
    mean, variance = posterior.moments
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.agreement, (variance + mean**2).sum(axis=1))


def test_the_risk_of_an_item_has_the_same_bits_in_any_batch() -> None:
    """Or of items that are alike, some would be accepted and some not."""
    generator = np.random.default_rng(0)
    shares = generator.dirichlet([0.3, 0.3], 3000)
    counts = generator.multinomial(3, shares).astype(float)
    p = 0.6 * shares + 0.2
    crowd = cs.DirichletCrowd(max_iter=10).fit(p[:500], counts[:500])

    def risk(rows: np.ndarray) -> np.ndarray:
        return LOSSES["annotator"].decide(believe(crowd.law_, p[rows], counts[rows])).risk

    together = risk(np.arange(3000))
    for size in (1, 2, 3, 7, 64, 999):
        for start in (0, 5, 1234):
            rows = np.arange(start, start + size)
            np.testing.assert_array_equal(risk(rows), together[rows])


# --- two rules for one table ---


def table_rule(halves: bool, units: Any = None) -> tuple[Any, list[np.ndarray]]:
    seen = []

    def fit(rows: np.ndarray) -> Fitted:
        seen.append(rows)
        crowd = cs.DirichletCrowd(1, n_consensus=0, max_iter=20).fit(P[rows], VOTES[rows])
        return Fitted(P, crowd)

    claim = Claim(LOSSES["annotator"], (0.1, 0.2), 0.9)
    made = two_rules(fit, VOTES, claim, np.random.default_rng(0), halves=halves, units=units)
    return made, seen


@pytest.mark.parametrize("halves", [False, True])
def test_no_item_is_treated_or_certified_by_a_fit_that_has_seen_it(halves: bool) -> None:
    made, seen = table_rule(halves)
    for number in (0, 1):
        learned = set(seen[number])
        assert not learned & set(np.flatnonzero(made.rule == number))
        assert made.cases[number].n_items == len(P) - len(learned)
        assert made.fitted[number].n_items == len(learned)
    assert set(made.learned_from[0]) == set(np.flatnonzero(made.rule == 1))
    beliefs = made.beliefs(np.zeros_like(P))
    verdicts = LOSSES["annotator"].decide(beliefs)
    accepted = made.accepted(verdicts.risk, 1)
    assert accepted.mean() > 0.3
    assert not (made.accepted(verdicts.risk, 0) & ~accepted).any()


def test_clusters_are_not_divided_between_fit_and_certificate() -> None:
    units = np.repeat(np.arange(300), 4)
    _, seen = table_rule(False, units)
    for rows in seen:
        assert not set(units[rows]) & set(units[np.setdiff1d(np.arange(1200), rows)])


def test_the_certificate_of_a_table_ignores_the_votes_of_its_fit_and_theirs_alone() -> None:
    """Other votes outside a1 change nothing that rule 1 predicts."""
    made, seen = table_rule(False)
    turned = VOTES.copy()
    outside = np.setdiff1d(np.arange(1200), seen[0])
    turned[outside] = VOTES[outside][:, ::-1]
    before = made.beliefs(np.zeros_like(P)).mean

    def fit(rows: np.ndarray) -> Fitted:
        crowd = cs.DirichletCrowd(1, n_consensus=0, max_iter=20).fit(P[rows], turned[rows])
        return Fitted(P, crowd)

    claim = Claim(LOSSES["annotator"], (0.1, 0.2), 0.9)
    other = two_rules(fit, turned, claim, np.random.default_rng(0))
    np.testing.assert_array_equal(other.rule, made.rule)
    after = other.beliefs(np.zeros_like(P)).mean
    np.testing.assert_array_equal(before[made.rule == 0], after[made.rule == 0])


# --- bad input ---


def test_items_without_enough_votes_are_left_out_with_a_warning() -> None:
    votes = NEW_VOTES.copy()
    votes[:50] = 0
    with pytest.warns(CredalSetWarning, match="50 of 900 items have fewer than 1"):
        rule = CROWD.accept(NEW, votes, error=0.1)
    assert rule.sizes.sum() == 850
    with pytest.raises(ValueError, match="at most 0 votes"):
        CROWD.accept(NEW, np.zeros_like(votes), error=0.1)
    with pytest.raises(ValueError, match="at most 3 votes"):
        CROWD.divided(NEW, NEW_VOTES, in_hand=3)


def test_nothing_certified_says_how_many_items_or_which_error_would_do() -> None:
    with pytest.warns(CredalSetWarning, match=r"error of 0.05 with these 60 items.*items, or an"):
        rule = CROWD.accept(NEW[:60], NEW_VOTES[:60], error=0.05)
    assert rule.share == 0
    assert not rule.predict(NEW[:60]).accepted.any()
    assert rule.needed[0] > 60


@pytest.mark.parametrize("error", [0.0, 1.0, -0.1, 1.5, "0.1", None, (), (0.1, 2.0)])
def test_errors_outside_zero_and_one_are_refused(error: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="error"):
        CROWD.accept(NEW, NEW_VOTES, error=error)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"loss": "mean"}, "loss"),
        ({"loss": "divided"}, "loss"),
        ({"loss": np.eye(4)}, "loss"),
        ({"loss": -np.eye(3)}, "loss"),
        ({"loss": 5 * np.eye(3), "error": 5.0}, "error"),
        ({"confidence": 1.0}, "confidence"),
        ({"in_hand": -1}, "in_hand"),
        ({"in_hand": 1.5}, "in_hand"),
        ({"groups": ["a"]}, "groups"),
        ({"clusters": "text"}, "clusters"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises((ValueError, TypeError), match=named):
        CROWD.accept(NEW, NEW_VOTES, **options)


def test_fitted_items_other_items_and_unknown_classes_are_refused() -> None:
    names = [f"t{i}" for i in range(1200)]
    p = pd.DataFrame(P, names, ["a", "b", "c"])
    votes = pd.DataFrame(VOTES, names, ["a", "b", "c"])
    crowd = cs.DirichletCrowd(1, n_consensus=0, max_iter=5).fit(p[:300], votes[:300])
    with pytest.raises(ValueError, match="fitted"):
        crowd.accept(p, votes)
    with pytest.raises(ValueError, match="votes"):
        crowd.accept(p[300:], votes[:300])
    with pytest.raises(ValueError, match="classes"):
        crowd.accept(p[300:], votes[300:].rename(columns={"c": "d"}))
    twice = p[300:].rename(index={"t400": "t401"})
    with pytest.raises(ValueError, match="twice"):
        crowd.accept(twice, votes[300:].set_axis(twice.index))


def test_votes_in_hand_other_than_certified_are_refused_or_warned_of() -> None:
    fixed = CROWD.accept(NEW, NEW_VOTES, in_hand=1, error=0.2)
    with pytest.raises(ValueError, match="in hand"):
        fixed.predict(NEW, NEW_VOTES)
    rule = CROWD.accept(NEW, NEW_VOTES, error=0.1)
    with pytest.warns(CredalSetWarning, match="at most 2"):
        rule.predict(NEW, NEW_VOTES)


def test_groups_have_thresholds_of_their_own() -> None:
    groups = np.where(NEW.max(axis=1) > 0.7, "sure", "open")
    rule = CROWD.accept(NEW, NEW_VOTES, error=0.3, groups=groups)
    assert sorted(rule.groups or ()) == ["open", "sure"]
    assert rule.sizes.sum() == 900
    found = rule.predict(NEW, HAND, groups=groups)
    codes = [(rule.groups or ()).index(g) for g in groups]
    np.testing.assert_array_equal(found.accepted, found.risk <= rule.thresholds[codes, 0])
    for wrong in (None, ["other"] * 900):
        with pytest.raises(ValueError, match="groups"):
            rule.predict(NEW, None, groups=wrong)


def test_all_votes_equal_two_classes_and_many() -> None:
    same = np.zeros((400, 2))
    same[:, 1] = 2
    p = np.tile([0.3, 0.7], (400, 1))
    crowd = cs.DirichletCrowd(1, n_consensus=0).fit(p[:100], same[:100])
    rule = crowd.accept(p[100:], same[100:])
    assert rule.share == 1
    assert rule.predict(p[:3], None).labels == [1, 1, 1]
    rng = np.random.default_rng(0)
    many = rng.dirichlet(np.full(1000, 0.005), 120) + 1e-6
    many /= many.sum(axis=1, keepdims=True)
    votes = rng.multinomial(2, many).astype(float)
    law = cs.DirichletCrowd(1, n_consensus=0, max_iter=3).fit(many[:40], votes[:40])
    assert law.accept(many[40:], votes[40:], error=0.4).thresholds.shape == (1, 1)


def test_numbers_of_votes_that_follow_disagreement_are_seen() -> None:
    rng = np.random.default_rng(3)
    shares = DATA.distributions[300:]
    two = np.array([rng.multinomial(2, s) for s in shares])
    third = np.array([rng.multinomial(1, s) for s in shares])
    asked = (two.max(axis=1) == 1)[:, None]
    with pytest.warns(CredalSetWarning, match="nothing is certified"):
        CROWD.accept(NEW, two + third * asked, error=0.15)
    CROWD.accept(NEW, two + third * (rng.random((900, 1)) < 0.5), error=0.15)
