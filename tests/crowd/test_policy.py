from __future__ import annotations

import numpy as np
import pytest

import credalset as cs
from credalset.crowd.posterior import Posterior
from credalset.crowd.promise import DEPTH, acceptance_per_vote
from tests.crowd.simulated import (
    assert_in_bands,
    load_chaosnli,
    load_cifar10h,
    make_crowd,
    needs_data,
    shares,
)


@pytest.fixture(scope="module")
def crowd():
    p, counts, _ = make_crowd(500, 3, 40, np.random.default_rng(9))
    return cs.DirichletCrowd().fit(p, counts)


def run(policy, p, counts, rng):
    """Ask one by one in a random order, as a user would;
    return the votes then in hand and the others.
    """
    orders = [rng.permutation(np.repeat(np.arange(len(row)), row)) for row in counts]
    hand = np.zeros_like(counts)
    for step in range(policy.max_votes):
        again = policy.ask(p, hand)
        for i in np.flatnonzero(again & (hand.sum(axis=1) == step)):
            hand[i, orders[i][step]] += 1
    return hand, counts - hand


def covered(policy, calibration, p, counts, rng):
    hand, back = run(policy, p, counts, rng)
    return int(calibration.predict_set(p, votes=hand).contains(shares(back)).sum())


def two_alike(predictions, votes):
    """Ask until two votes agree: depends on nothing but the votes."""
    return votes.max(axis=1) < 2


def contrary(predictions, votes):
    """Ask until a vote contradicts the prediction, a rule that makes sets as bad as it can."""
    return votes[np.arange(len(votes)), predictions.argmax(axis=1)] == votes.sum(axis=1)


RULES = {
    "lead": {"lead": 1.5},
    "width": {"lead": None, "width": 0.7},
    "either": {"lead": 2.0, "width": 0.8, "futility": 0.1},
    "two alike": {"rule": two_alike},
    "contrary": {"rule": contrary},
    "after two": {"lead": 1.5, "initial_votes": 2},
}


def policy_hits(name, n_classes, n_splits):
    rng = np.random.default_rng(n_classes)
    p, counts, _ = make_crowd(300, n_classes, 20, rng)
    crowd = cs.DirichletCrowd(max_iter=20).fit(p, counts)
    policy = cs.VotingPolicy(crowd, max_votes=5, **RULES[name])
    hits = []
    for split in range(n_splits):
        p, counts, _ = make_crowd(199, n_classes, rng.integers(8, 30, 199), rng)
        calibration = policy.conformalize(p[:99], counts[:99], min_votes=6, random_state=split)
        hits.append(covered(policy, calibration, p[99:], counts[99:], rng))
    return hits


@pytest.mark.parametrize(
    ("name", "n_classes"), [*((name, 3) for name in RULES), ("lead", 2), ("lead", 10)]
)
def test_policies_are_covered_exactly(name, n_classes):
    assert_in_bands(policy_hits(name, n_classes, 30), 99, 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_policies_are_covered_exactly_over_many_splits(name, n_classes):
    assert_in_bands(policy_hits(name, n_classes, 200), 99, 100)


def test_a_rule_that_looks_at_held_back_votes_breaks_coverage(crowd):
    """In replay it stops when the prediction is near votes that it should not know;
    of new items it knows none.
    """
    rng = np.random.default_rng(0)
    p, counts, _ = make_crowd(600, 3, 40, rng)
    known = {tuple(row): all_votes for row, all_votes in zip(p[:300], counts[:300], strict=True)}

    def peeking(predictions, votes):
        found = Posterior.given(crowd.law_, predictions, votes).mean
        rest = [known.get(tuple(row)) for row in predictions]
        errors = [
            0 if row is None else np.abs(g - row / row.sum()).max()
            for g, row in zip(found, rest, strict=True)
        ]
        return np.array(errors) > 0.05

    policy = cs.VotingPolicy(crowd, rule=peeking, max_votes=5)
    honest = cs.VotingPolicy(
        crowd, rule=lambda predictions, votes: votes.sum(axis=1) < 3, max_votes=5
    )
    rates = []
    for each in (policy, honest):
        calibration = each.conformalize(p[:300], counts[:300], scale=None, min_votes=6)
        rates.append(covered(each, calibration, p[300:], counts[300:], rng) / 300)
    assert rates[0] < 0.8
    assert rates[1] > 0.85


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("load", [load_cifar10h, load_chaosnli])
def test_policies_are_covered_on_real_crowds(load):
    p, counts = load()
    order = np.random.default_rng(0).permutation(len(p))[:2500]
    p, counts = p[order], counts[order]
    policy = cs.VotingPolicy(cs.DirichletCrowd().fit(p[:500], counts[:500]))
    hits = []
    for split in range(200):
        rows = 500 + np.random.default_rng(split).permutation(len(p) - 500)[:600]
        one, two = rows[:300], rows[300:]
        calibration = policy.conformalize(p[one], counts[one], random_state=split)
        replay = policy.replay(p[two], counts[two], random_state=10_000 + split)
        hits.append(
            calibration.predict_set(p[two], votes=replay.votes).contains(replay.shares).sum()
        )
    assert_in_bands(hits, 300, 300)


@needs_data
@pytest.mark.parametrize(
    ("load", "most", "uniform"), [(load_cifar10h, 2.0, 10), (load_chaosnli, 13.0, 20)]
)
def test_policies_decide_more_with_fewer_votes(load, most, uniform):
    p, counts = load()
    order = np.random.default_rng(0).permutation(len(p))[:2400]
    p, counts = p[order], counts[order]
    crowd = cs.DirichletCrowd().fit(p[:800], counts[:800])
    policies = [
        cs.VotingPolicy(crowd, lead=2.5),
        cs.VotingPolicy(crowd, rule=lambda p, votes: votes.sum(axis=1) < uniform),
    ]
    decided = []
    for policy in policies:
        calibration = policy.conformalize(p[800:1600], counts[800:1600])
        replay = policy.replay(p[1600:], counts[1600:])
        sets = calibration.predict_set(p[1600:], votes=replay.votes)
        decided.append((sets.decide("e-admissible").sum(axis=1) <= 1).mean())
        if policy is policies[0]:
            assert replay.n_votes.mean() <= most
    assert decided[0] >= decided[1] - 0.02


def test_clear_items_are_not_asked(crowd):
    policy = cs.VotingPolicy(crowd, lead=2.0, max_votes=20)
    p = np.tile([0.8, 0.1, 0.1], (3, 1))
    np.testing.assert_array_equal(
        policy.ask(p, [[9, 0, 0], [1, 1, 0], [10, 10, 0]]), [False, True, False]
    )
    assert policy.ask(p)[0] == policy.ask(p, np.zeros((3, 3)))[0]


def test_leads_widths_and_futility_stop_earlier(crowd):
    p, counts, _ = make_crowd(400, 3, 40, np.random.default_rng(1))

    def used(**params):
        return cs.VotingPolicy(crowd, **params).replay(p, counts).n_votes.mean()

    assert used(lead=1.0) < used(lead=2.0) < used(lead=3.0)
    assert used(lead=2.0, futility=0.1) < used(lead=2.0)
    assert used(lead=None, width=0.9) < used(lead=None, width=0.6)
    assert used(lead=2.0, width=0.6) <= used(lead=2.0)
    assert used(lead=None) == 20


def test_replay_uses_each_vote_once(crowd):
    p, counts, _ = make_crowd(60, 3, np.arange(60), np.random.default_rng(1))
    with pytest.warns(cs.CredalSetWarning, match="19 of 60"):
        replay = cs.VotingPolicy(crowd, max_votes=9).replay(p, counts)
    assert replay.rows.tolist() == list(range(19, 60))
    np.testing.assert_array_equal(replay.votes + replay.held_back, counts[19:])
    assert replay.votes.min() >= 0
    assert replay.held_back.sum(axis=1).min() >= 10
    np.testing.assert_allclose(replay.predictions, crowd.predict(p[19:], replay.votes))
    for use in (cs.VotingPolicy.replay, cs.VotingPolicy.conformalize, cs.VotingPolicy.compare):
        with pytest.raises(ValueError, match="max_votes to at most 49"):
            use(cs.VotingPolicy(crowd, max_votes=50), p, counts)


def test_forecasts_come_true_in_a_dirichlet_crowd(crowd):
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(3), 400)
    truth = crowd.posterior(p).sample(random_state=0)[:, 0]
    counts = np.stack([rng.multinomial(40, row) for row in truth])
    policy = cs.VotingPolicy(crowd, lead=2.0, max_votes=10)
    used = policy.replay(p, counts).n_votes
    forecast = policy.forecast(p, level=0.99)
    assert forecast.total_interval[0] <= used.sum() <= forecast.total_interval[1]
    np.testing.assert_array_equal(forecast.to_ask, policy.ask(p))
    assert policy.forecast(p, np.tile([10, 0, 0], (400, 1))).total == 0
    for wrong in ({"level": 90}, {"n_draws": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            policy.forecast(p, **wrong)
    assert f"{policy.ask(p).sum()} of 400 items to ask" in repr(forecast)


def test_policies_are_compared_with_equal_numbers(crowd):
    p, counts, _ = make_crowd(300, 3, 40, np.random.default_rng(3))
    rows = cs.VotingPolicy(crowd, max_votes=10).compare(p, counts, uniform=(0, 2, 10))
    assert [row["policy"] for row in rows] == ["0 votes", "2 votes", "10 votes", "policy"]
    assert [row["votes"] for row in rows[:3]] == [0, 2, 10]
    assert rows[0]["width"] > rows[1]["width"] > rows[2]["width"]
    assert all(row["coverage"] > 0.75 for row in rows)
    assert [
        row["policy"] for row in cs.VotingPolicy(crowd, max_votes=10).compare(p, counts, ())
    ] == ["policy"]
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot as plt

    from credalset.plotting import voting

    accepted, width = voting(rows)
    assert accepted.get_ylabel() == "accepted share"
    np.testing.assert_allclose(accepted.lines[0].get_ydata(), [row["accepted"] for row in rows[:3]])
    np.testing.assert_allclose(width.lines[1].get_ydata(), [rows[3]["width"]])
    both = [{**rows[3], "policy": name} for name in ("lead 1", "lead 2")]
    assert [line.get_label() for line in voting([*rows[:3], *both])[0].lines[1:]] == [
        "lead 1",
        "lead 2",
    ]
    plt.close("all")


def test_compared_policies_are_scored_against_the_same_votes(crowd, monkeypatch):
    p, counts, _ = make_crowd(100, 3, 25, np.random.default_rng(3))
    seen = []
    monkeypatch.setattr(
        "credalset.crowd.policy.calibrate_in_hand",
        lambda score, law, voted, hand, truth, scale: seen.append(truth[:, 0]) or 1 / 0,
    )
    for uniform in ((0,), (15,), (5,)):
        with pytest.raises(ZeroDivisionError):
            cs.VotingPolicy(crowd, max_votes=15).compare(p, counts, uniform)
    assert (seen[0].sum(axis=1) == 10).all()
    for labels in seen[1:]:
        np.testing.assert_array_equal(labels, seen[0])


def test_unfinished_items_are_refused(crowd):
    p, counts, _ = make_crowd(200, 3, 40, np.random.default_rng(3))
    policy = cs.VotingPolicy(crowd, lead=2.0, max_votes=10)
    calibration = policy.conformalize(p, counts)
    assert "policy" in str(calibration.guarantee)
    assert calibration.threshold(0.1) > 0
    with pytest.raises(ValueError, match="again"):
        calibration.predict_set([[0.4, 0.3, 0.3]], votes=[[1, 1, 0]])
    for clear, votes in (
        ([0.4, 0.3, 0.3], [11, 0, 0]),
        ([0.4, 0.3, 0.3], [9, 1, 0]),
        ([0.98, 0.01, 0.01], [3, 0, 0]),
    ):
        with pytest.raises(ValueError, match="would not have asked for"):
            calibration.predict_set([clear], votes=[votes])


def test_every_item_gets_the_initial_votes(crowd):
    p, counts, _ = make_crowd(200, 3, 40, np.random.default_rng(3))
    policy = cs.VotingPolicy(crowd, lead=1.0, max_votes=10, initial_votes=3)
    plain = cs.VotingPolicy(crowd, lead=1.0, max_votes=10).replay(p, counts)
    replay = policy.replay(p, counts)
    assert policy.ask(p).all()
    assert plain.n_votes.min() == 0
    assert replay.n_votes.min() == 3
    np.testing.assert_array_equal(replay.votes[plain.n_votes > 3], plain.votes[plain.n_votes > 3])
    assert len(policy.conformalize(p, counts).predict_set(p, votes=replay.votes)) == 200
    with pytest.raises(ValueError, match="would not have asked for"):
        cs.VotingPolicy(crowd, lead=1.0, max_votes=10).conformalize(p, counts).predict_set(
            p, votes=replay.votes
        )


def test_the_order_of_votes_depends_on_no_other_item(crowd):
    """One item that takes more votes must not change the votes of the others."""
    p, counts, _ = make_crowd(50, 3, 40, np.random.default_rng(3))
    other = (
        np.concatenate([[[0.34, 0.33, 0.33]], p[1:]]),
        np.concatenate([[[14, 13, 13]], counts[1:]]),
    )
    policy = cs.VotingPolicy(crowd, max_votes=10)
    np.testing.assert_array_equal(
        policy.replay(p, counts).votes[1:], policy.replay(*other).votes[1:]
    )
    rows = [policy.compare(p, counts, uniform)[-1] for uniform in ((), (0, 3))]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    "wrong",
    [{"max_votes": 0}, {"lead": -1.0}, {"width": np.inf}, {"rule": 3}, {"initial_votes": 21}],
)
def test_wrong_policies_are_refused(crowd, wrong):
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        cs.VotingPolicy(crowd, **wrong)


def test_rules_must_answer_for_each_item(crowd):
    policy = cs.VotingPolicy(crowd, rule=lambda p, votes: True)
    with pytest.raises(ValueError, match="rule"):
        policy.ask([[0.4, 0.3, 0.3], [0.4, 0.3, 0.3]])


# --- rules of the user's own decide on each row by itself ---


def least_certain(predictions, votes):
    """Ask all but the most certain of the batch, which depends on the other items."""
    certain = predictions.max(axis=1)
    return certain < np.quantile(certain, 0.95)


def test_a_rule_that_looks_at_other_rows_is_refused(crowd):
    p, counts, _ = make_crowd(200, 3, 40, np.random.default_rng(0))
    policy = cs.VotingPolicy(crowd, rule=least_certain, max_votes=5)
    for call in (
        lambda: policy.ask(p),
        lambda: policy.replay(p, counts),
        lambda: policy.conformalize(p, counts),
        lambda: policy.compare(p, counts, ()),
        lambda: policy.forecast(p),
    ):
        with pytest.raises(ValueError, match="rule"):
            call()
    random = np.random.default_rng(0)
    by_chance = cs.VotingPolicy(crowd, rule=lambda p, votes: random.random(len(votes)) < 0.5)
    with pytest.raises(ValueError, match="rule"):
        by_chance.ask(p)

    def late(predictions, votes):
        """Look at other rows only after the first vote."""
        if votes.sum() == 0:
            return np.ones(len(votes), dtype=bool)
        return least_certain(predictions, votes) & (votes.sum(axis=1) < 2)

    with pytest.raises(ValueError, match="rule"):
        cs.VotingPolicy(crowd, rule=late, max_votes=5).conformalize(p, counts)


def test_the_refused_rule_would_undercover(crowd, monkeypatch):
    """On the panel it asks the uncertain; of new items that come one by one it asks none."""
    monkeypatch.setattr(cs.VotingPolicy, "_check_rule", lambda *args: None)
    rng = np.random.default_rng(0)
    p, counts, _ = make_crowd(1000, 3, 40, rng)
    policy = cs.VotingPolicy(crowd, rule=least_certain, max_votes=8)
    made = policy.conformalize(p[:700], counts[:700], scale=None)
    covered = [made.predict_set(p[[i]]).contains(shares(counts[[i]]))[0] for i in range(700, 1000)]
    assert np.mean(covered) < 0.85


# --- where a vote most likely leads to acceptance ---


@pytest.mark.parametrize("most", [2, DEPTH])
def test_a_vote_is_worth_its_chance_of_acceptance(crowd, most):
    p, counts, _ = make_crowd(200, 3, 4, np.random.default_rng(1))
    votes = counts.astype(float)
    law = crowd.law_
    left = np.where(np.arange(len(p)) % 2, most, 1)
    found = acceptance_per_vote(law, p, votes, 0.2, left)
    expected = np.zeros(len(p))
    for row in range(len(p)):
        for n in range(1, left[row] + 1):
            chance = 0.0
            for k in range(3):
                now, path = votes[[row]].copy(), 1.0
                for _ in range(n):
                    path *= Posterior.given(law, p[[row]], now).mean[0, k]
                    now[0, k] += 1
                mean = Posterior.given(law, p[[row]], now).mean
                chance += path * (1 - mean.max() <= 0.2)
            expected[row] = max(expected[row], chance / n)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_policies_ask_where_acceptance_is_likely(crowd, tmp_path):
    p, counts, _ = make_crowd(600, 3, 40, np.random.default_rng(2))
    policy = cs.VotingPolicy(crowd, accept=0.2, worth=0.1, max_votes=10)
    asked = policy.ask(p)
    risk = 1 - crowd.predict(p).max(axis=1)
    assert not asked[risk <= 0.2].any()
    worth = acceptance_per_vote(crowd.law_, p, np.zeros_like(p), 0.2, np.full(len(p), 10))
    np.testing.assert_array_equal(asked, (risk > 0.2) & (worth >= 0.1))
    made = policy.conformalize(p[:300], counts[:300])
    used = policy.replay(p[300:], counts[300:], random_state=1)
    covered = made.predict_set(p[300:], votes=used.votes).contains(used.shares)
    assert 0.83 < covered.mean() <= 0.96
    made.save(tmp_path / "made")
    assert cs.load(tmp_path / "made").policy.accept == 0.2
    for bad in ({"accept": 1.5}, {"worth": 0.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            cs.VotingPolicy(crowd, **bad)


def test_comparisons_show_what_is_accepted_and_how_often_that_is_wrong():
    rng = np.random.default_rng(0)
    p, counts, _ = make_crowd(2000, 3, 40, rng, strength=12.0, wrong=0.05)
    crowd = cs.DirichletCrowd().fit(p[:400], counts[:400])
    rows = cs.VotingPolicy(crowd, accept=0.25, max_votes=10).compare(
        p[400:], counts[400:], (0, 3, 10), error=0.3
    )
    accepted = {row["policy"]: row["accepted"] for row in rows}
    assert 0 < accepted["0 votes"] < accepted["3 votes"] < accepted["10 votes"] <= 1
    assert all(row["error"] <= 0.33 for row in rows)
    assert "accepted" in str(rows)
    nothing = cs.VotingPolicy(crowd, max_votes=10).compare(p[400:], counts[400:], (), error=0.001)
    assert nothing[0]["accepted"] == 0
    assert np.isnan(nothing[0]["error"])
