"""Certified thresholds: the evidence by brute force, and how often the bound is exceeded."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from credalset.acceptance.cases import Cases, Seen, evaluate_cases, leave_out
from credalset.acceptance.certify import BETS, LARGEST_BET, certify, grid_of, log_evidence
from credalset.acceptance.losses import LOSSES, Annotator, Beliefs, Cost, pair_agreement

DELTA = 0.1


def believe(prediction: np.ndarray, counts: np.ndarray) -> Beliefs:
    """Beliefs of somebody for whom a prediction is worth two votes: wrong, and so it may be."""
    total = 2.0 * prediction + counts
    mean = total / total.sum(axis=1, keepdims=True)
    spread = mean * (1 - mean) / (3.0 + counts.sum(axis=1, keepdims=True))
    return Beliefs(mean, (spread + mean**2).sum(axis=1), 1 - mean.max(axis=1))


# --- leaving votes out ---


def test_each_vote_and_each_pair_is_left_out_as_often_as_it_occurs() -> None:
    counts = np.array([[2, 1, 0], [0, 3, 0], [1, 1, 2], [0, 1, 0]], float)
    for n_held in (1, 2):
        seen = leave_out(counts, n_held)
        for item, row in enumerate(counts.astype(int)):
            votes = np.repeat(np.arange(3), row)
            expected: dict[tuple[int, ...], float] = {}
            ways = [w for w in product(range(len(votes)), repeat=n_held) if len(set(w)) == n_held]
            for way in ways:
                held = tuple(np.bincount(votes[list(way)], minlength=3))
                expected[held] = expected.get(held, 0.0) + 1.0 / len(ways)
            rows = np.flatnonzero(seen.item == item)
            found = {tuple(seen.held[r].astype(int)): seen.weight[r] for r in rows}
            assert found == pytest.approx(expected)
            np.testing.assert_array_equal(
                seen.hand[rows] + seen.held[rows], np.tile(row, (len(rows), 1))
            )


def test_losses_are_averages_over_votes_and_pairs() -> None:
    rng = np.random.default_rng(0)
    held = rng.integers(0, 4, (30, 3)).astype(float)
    held[:, 0] += 2
    labels = rng.integers(0, 3, 30)
    costs = rng.random((3, 3))
    for row, label in zip(held.astype(int), labels, strict=True):
        votes = np.repeat(np.arange(3), row)
        pairs = [(a, b) for i, a in enumerate(votes) for j, b in enumerate(votes) if i != j]
        one = (row[None].astype(float), np.array([label]))
        expected = {
            "annotator": np.mean(votes != label),
            "person": np.mean([(label != a) - float(b != a) for a, b in pairs]),
            "divided": np.mean([a == b for a, b in pairs]),
        }
        for name, value in expected.items():
            assert LOSSES[name].of(one[1], one[0])[0] == pytest.approx(value)
        assert Cost(costs).of(one[1], one[0])[0] == pytest.approx(costs[label, votes].mean())
    top = LOSSES["majority"].of(np.array([0, 1, 2]), np.array([[3.0, 3, 1]] * 3))
    np.testing.assert_allclose(top, [0.5, 0.5, 1.0])
    np.testing.assert_allclose(pair_agreement(np.array([[2.0, 1, 0]])), 1 / 3)


def test_predicted_losses_are_expectations() -> None:
    """Of votes drawn from λ, if beliefs are certain; the first label has the smallest."""
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(3), 20)
    costs = rng.random((3, 3))
    for loss in (LOSSES["annotator"], LOSSES["person"], LOSSES["divided"], Cost(costs)):
        verdicts = loss.decide(Beliefs.certain(shares))
        expected = np.zeros((20, 3))
        for a, b in product(range(3), repeat=2):
            held = np.tile(np.eye(3)[a] + np.eye(3)[b], (20, 1))
            weight = shares[:, a] * shares[:, b]
            for label in range(3):
                expected[:, label] += weight * loss.of(np.full(20, label), held)
        chosen = expected[np.arange(20), verdicts.labels]
        np.testing.assert_allclose(verdicts.risk, chosen, atol=1e-12)
        assert (chosen <= expected.min(axis=1) + 1e-12).all()


# --- evidence ---


def test_evidence_is_the_mean_over_bets_of_products() -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 3, (40, 3)).astype(float)
    counts[:, 0] += 1
    prediction = rng.dirichlet(np.ones(3), 40)
    cases = evaluate_cases(believe, Annotator(), prediction, leave_out(counts, 1), 40)
    for error, threshold in ((0.1, 0.3), (0.4, 0.5), (0.6, 2.0)):
        products = []
        for step in range(1, BETS + 1):
            bet = LARGEST_BET / (1 - error) * step / BETS
            value = 1.0
            for item in range(40):
                votes = np.repeat(np.arange(3), counts[item].astype(int))
                z = 0.0
                for v in votes:
                    hand = counts[item] - np.eye(3)[v]
                    mean = believe(prediction[[item]], hand[None]).mean[0]
                    if 1 - mean.max() <= threshold:
                        z += (error - float(mean.argmax() != v)) / len(votes)
                value *= 1 + bet * z
            products.append(value)
        inside = cases.risk <= threshold
        z = np.bincount(
            cases.item[inside], (cases.weight * (error - cases.loss))[inside], minlength=40
        )
        found = log_evidence(z, np.ones(40), error - 1.0)
        assert found == pytest.approx(np.log(np.mean(products)), rel=1e-9)


def brute_force(
    cases: Cases, fitted: Cases, error: float, needed: float, units: np.ndarray
) -> float:
    """Go through the grid and compute all of each threshold anew."""
    found = -np.inf
    largest = np.bincount(units).max()
    for threshold in grid_of(fitted, Annotator(), error):
        inside = cases.risk <= threshold
        z = np.zeros(units.max() + 1)
        np.add.at(
            z,
            units[cases.item[inside]],
            (cases.weight * (error - cases.loss))[inside] / largest,
        )
        bets = LARGEST_BET / (1 - error) * np.arange(1, BETS + 1) / BETS
        if np.mean(np.prod(1 + bets[:, None] * z, axis=1)) < needed:
            break
        found = threshold
    return float(found)


def test_thresholds_agree_with_brute_force_also_with_clusters_and_several_errors() -> None:
    rng = np.random.default_rng(3)
    shares = rng.dirichlet([8.0, 1.0, 1.0], 300)
    counts = np.array([rng.multinomial(m, s) for m, s in zip([1, 2, 3] * 100, shares, strict=True)])
    prediction = 0.7 * shares + 0.1
    cases = evaluate_cases(believe, Annotator(), prediction, leave_out(counts * 1.0, 1), 300)
    first, second = cases.take(np.arange(100)), cases.take(np.arange(100, 300))
    for units in (np.arange(200), np.arange(200) // 3):
        errors = (0.15, 0.2, 0.3)
        clusters = None if units.max() == 199 else units
        found = certify(second, first, Annotator(), errors, DELTA, clusters=clusters)
        expected = [brute_force(second, first, e, 3 / DELTA, units) for e in errors]
        np.testing.assert_array_equal(found, np.maximum.accumulate(expected))
    assert np.isfinite(found[-1])


# --- exactness: the bound is exceeded by the true loss, not by the one that was seen ---


def true_losses(
    prediction: np.ndarray, shares: np.ndarray, n_hand: np.ndarray, thresholds: np.ndarray
) -> np.ndarray:
    """Return L(τ) for so many votes in hand, over everything that may be voted."""
    n_classes = prediction.shape[1]
    wrong, taken = np.zeros(len(thresholds)), np.zeros(len(thresholds))
    for h in np.unique(n_hand):
        rows = np.flatnonzero(n_hand == h)
        for counts in product(range(h + 1), repeat=n_classes):
            if sum(counts) != h:
                continue
            hand = np.tile(np.array(counts, float), (len(rows), 1))
            chance = multinomial.pmf(hand, h, shares[rows]) if h else np.ones(len(rows))
            verdicts = Annotator().decide(believe(prediction[rows], hand))
            loss = 1 - shares[rows, verdicts.labels]
            inside = chance * (verdicts.risk <= thresholds[:, None])
            taken += inside.sum(axis=1)
            wrong += inside @ loss
    return np.asarray(wrong / np.maximum(taken, 1e-12))


def draw(shares: np.ndarray, n_votes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.multinomial(n_votes, shares).astype(float)


def exceeded(
    prediction: np.ndarray,
    shares: np.ndarray,
    n_votes: np.ndarray,
    error: float,
    repetitions: int,
    rng: np.random.Generator,
    **broken: bool,
) -> float:
    """Return how often the true loss exceeds the error, for fixed items and redrawn votes."""
    part = len(shares) // 4
    fit, rest = np.arange(part), np.arange(part, len(shares))
    count = 0
    for _ in range(repetitions):
        counts = draw(shares, n_votes, rng)
        if broken.get("peeks"):
            seen = leave_out(counts, 1)
            seen = Seen(seen.item, seen.weight, counts[seen.item], seen.held)
        else:
            seen = leave_out(counts, 1)
        cases = evaluate_cases(believe, Annotator(), prediction, seen, len(counts))
        found = certify(cases.take(rest), cases.take(fit), Annotator(), (error,), DELTA)
        if np.isfinite(found[0]):
            in_hand = n_votes[rest] - (0 if broken.get("peeks") else 1)
            count += true_losses(prediction[rest], shares[rest], in_hand, found)[0] > error
    return count / repetitions


def at_most(repetitions: int) -> float:
    """Largest frequency that a probability of δ explains, but once in ten thousand tests."""
    return float(binom.ppf(0.9999, repetitions, DELTA) / repetitions)


def world(name: str, n_classes: int, n: int, rng: np.random.Generator):
    """Predictions, shares, numbers of votes and an error that is hard to prove."""
    others = np.ones(n_classes)
    n_votes = rng.integers(1, 4, n)
    if name == "dirichlet":
        shares = rng.dirichlet(others / 2, n)
        prediction = 0.5 * shares + 0.5 * rng.dirichlet(others, n)
        return prediction, shares, n_votes, 0.2
    if name == "just above":
        # Whatever is accepted has a loss a little above the error.
        shares = np.full((n, n_classes), 0.205 / (n_classes - 1))
        shares[:, 0] = 0.795
        return rng.dirichlet(4 * shares[0], n), shares, n_votes, 0.2
    if name == "risk against loss":
        # The surest predictions are the worst.
        sure = rng.random(n)
        prediction = np.full((n, n_classes), 1 / n_classes)
        prediction = (1 - sure[:, None]) * prediction
        prediction[:, 0] += sure
        shares = np.full((n, n_classes), 1.0)
        shares *= (0.4 * sure / (n_classes - 1))[:, None]
        shares[:, 0] = 1 - 0.4 * sure
        return prediction, shares, n_votes, 0.2
    shares = rng.dirichlet(others / 2, n)
    ambiguous = 1 - shares.max(axis=1) > 0.2
    return 0.5 * shares + 0.5 / n_classes, shares, np.where(ambiguous, 3, 1), 0.2


WORLDS = ["dirichlet", "just above", "risk against loss", "votes follow ambiguity"]


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_bound_is_exceeded_in_at_most_a_share_delta(name: str, n_classes: int) -> None:
    rng = np.random.default_rng(4)
    items = world(name, n_classes, 160, rng)
    assert exceeded(*items, 500, rng) <= at_most(500)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("n", [100, 600])
def test_the_bound_is_exceeded_in_at_most_a_share_delta_long(
    name: str, n_classes: int, n: int
) -> None:
    rng = np.random.default_rng(5)
    items = world(name, n_classes, n, rng)
    assert exceeded(*items, 2000, rng) <= at_most(2000)


def test_a_rule_that_sees_the_vote_exceeds_the_bound() -> None:
    """One vote each, and a crowd of which two fifths disagree."""
    rng = np.random.default_rng(6)
    shares = np.tile([0.6, 0.4], (300, 1))
    prediction = np.tile([0.55, 0.45], (300, 1))
    items = (prediction, shares, np.ones(300, dtype=int), 0.3)
    assert exceeded(*items, 60, rng, peeks=True) > 0.8
    assert exceeded(*items, 60, rng) <= at_most(60)


def one_threshold(losses: np.ndarray, error: float, clusters: np.ndarray | None = None) -> bool:
    """Certify all items, whose labels are fixed, from one loss of each."""
    n = len(losses)
    ones, zeros = np.ones(n), np.zeros(n)
    cases = Cases(np.arange(n), ones, zeros, losses, zeros, zeros, n)
    fitted = cases.take(np.arange(1))
    found = certify(cases, fitted, Annotator(), (error,), DELTA, clusters=clusters)
    return bool(np.isfinite(found[0]))


def test_a_number_of_votes_chosen_by_how_they_came_out_exceeds_the_bound() -> None:
    """A third vote where two disagree: what is left out then was seen before."""
    rng = np.random.default_rng(7)
    n, repetitions, error = 1200, 60, 0.37
    broken = 0
    for _ in range(repetitions):
        counts = rng.multinomial(2, [0.6, 0.4], n).astype(float)
        third = rng.multinomial(1, [0.6, 0.4], n) * (counts.max(axis=1) == 1)[:, None]
        prediction = np.tile([0.55, 0.45], (n, 1))
        cases = evaluate_cases(believe, Annotator(), prediction, leave_out(counts + third, 1), n)
        fitted, rest = cases.take(np.arange(200)), cases.take(np.arange(200, n))
        # With any votes, the next one disagrees with probability 0.4 or more.
        broken += np.isfinite(certify(rest, fitted, Annotator(), (error,), DELTA)[0])
    assert broken / repetitions > 2 * DELTA


def rates(simulate, repetitions: int = 300) -> list[float]:
    """Return how often each of several certificates passes whose loss exceeds the error."""
    return list(np.mean([simulate(np.random.default_rng(s)) for s in range(repetitions)], axis=0))


def test_duplicates_raise_the_rate_and_clusters_repair_it() -> None:
    error = 0.2

    def simulate(rng: np.random.Generator) -> list[bool]:
        losses = (rng.random(90) < error + 0.002).astype(float)
        same = np.repeat(losses, 12)
        return [
            one_threshold((rng.random(1080) < error + 0.002).astype(float), error),
            one_threshold(same, error),
            one_threshold(same, error, np.repeat(np.arange(90), 12)),
        ]

    single, duplicated, clustered = rates(simulate)
    assert max(single, clustered) <= at_most(300)
    assert duplicated > max(2 * single, DELTA)


def test_blocks_of_the_same_workers_raise_the_rate_and_clusters_repair_it() -> None:
    """Blocks of 40 items, each done by workers of its own, who are good or bad."""
    error = 0.2

    def simulate(rng: np.random.Generator) -> list[bool]:
        bad = rng.choice([0.0, 0.41], 20)
        block = np.repeat(np.arange(20), 40)
        losses = (rng.random(800) < bad[block]).astype(float)
        return [one_threshold(losses, error), one_threshold(losses, error, block)]

    items, clustered = rates(simulate)
    assert items > DELTA + 0.03
    assert clustered <= at_most(300)


def test_votes_of_new_workers_are_not_covered() -> None:
    """Twenty unequal workers certify; their like, not they, do the new items."""
    error = 0.2

    def simulate(rng: np.random.Generator) -> list[bool]:
        workers = rng.beta(0.6, 2.3, 20)  # 0.207 of the votes of all such workers disagree
        losses = (rng.random(600) < rng.choice(workers, 600)).astype(float)
        passed = one_threshold(losses, error)
        return [passed, passed and workers.mean() > error]

    new, same = rates(simulate)
    assert new > DELTA
    assert same <= at_most(300)


def test_all_votes_in_hand_are_not_certified() -> None:
    """One vote each: the certificate is about the prediction, the decision follows the vote."""
    rng = np.random.default_rng(8)
    n, error = 2000, 0.45
    shares = np.tile([0.6, 0.4], (n, 1))
    prediction = np.tile([0.62, 0.38], (n, 1))
    counts = draw(shares, np.ones(n, dtype=int), rng)
    cases = evaluate_cases(believe, Annotator(), prediction, leave_out(counts, 1), n)
    fitted, rest = cases.take(np.arange(500)), cases.take(np.arange(500, n))
    assert certify(rest, fitted, Annotator(), (error,), DELTA)[0] > 0
    after = Annotator().decide(believe(prediction, counts))
    assert (1 - shares[np.arange(n), after.labels]).mean() > error


def test_enough_items_without_a_loss_are_certified_and_fewer_are_not() -> None:
    """Exactly where the mean over bets of (1 + b ε)^n reaches 1/δ."""
    error = 0.05
    bets = LARGEST_BET / (1 - error) * np.arange(1, BETS + 1) / BETS
    enough = next(n for n in range(1, 500) if np.mean((1 + bets * error) ** n) >= 1 / DELTA)
    assert one_threshold(np.zeros(enough), error)
    assert not one_threshold(np.zeros(enough - 1), error)
    assert 45 < enough < 100
