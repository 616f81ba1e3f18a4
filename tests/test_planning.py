"""The plan: the crowd's model is what it says, budgets are spent best, certificates hold, files are whole."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import asdict
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

import credalset as cs
from credalset.planning import Plan, outlook
from credalset.planning.allocation import Widths, best_lots, by_rank, sizes, uniformly
from credalset.planning.crowd import LAWS, Beliefs, Crowd, learn_weights, log_likelihoods

RNG = np.random.default_rng(0)
CENTER = RNG.dirichlet(np.ones(3), 500)
TRUTH = 0.7 * CENTER + 0.3 * RNG.dirichlet(np.full(3, 0.5), 500)
CALIBRATION = cs.conformalize(CENTER[:300], TRUTH[:300], "kl")
POOL, THREE = CENTER[300:], RNG.multinomial(3, TRUTH[300:])


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """What most tests look at does not depend on how long intervals are simulated, nor on curves."""
    monkeypatch.setattr(outlook, "REPETITIONS", 4)
    monkeypatch.setattr(outlook, "BUDGETS", (1.0,))


def planned(budget: float = 400, **options: Any) -> Plan:
    return cs.plan(CALIBRATION, POOL, THREE, budget=budget, **{"most": 40, **options})


@cache
def plain(goal: str = "label") -> Plan:
    """A plan as users get it, made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outlook, "REPETITIONS", 16)
        patch.setattr(outlook, "BUDGETS", (0.5, 1.0, 2.0))
        return planned(goal=goal, items=[f"i{i}" for i in range(200)])


# --- the crowd ---


def test_likelihoods_are_integrals() -> None:
    g, counts = np.array([[0.7, 0.3]]), np.array([[3.0, 1.0]])
    found = log_likelihoods(g, counts)[:, 0]
    for j, (strength, mixed) in enumerate(LAWS):
        a, b = strength * ((1 - mixed) * g[0] + mixed / 2)
        if min(a, b) >= 1 and strength < 30:  # elsewhere the integrand has poles or is a needle
            exact = quad(lambda x, a=a, b=b: x**3 * (1 - x) * beta.pdf(x, a, b), 0, 1, epsabs=1e-12)[0]
            assert found[j] == pytest.approx(np.log(exact), rel=1e-7)


def test_em_climbs_to_where_no_law_would_gain() -> None:
    """At the maximum of a concave likelihood, the mean of (law over mixture) is at most one for every law."""
    logs = log_likelihoods(CENTER[:200], np.random.default_rng(0).multinomial(8, TRUTH[:200]).astype(float))
    weights = learn_weights(logs, np.ones(200))
    mixture = np.log(weights @ np.exp(logs - logs.max(axis=0)))
    gains = np.exp(logs - logs.max(axis=0) - mixture).mean(axis=1)
    assert gains.max() < 1.05
    assert (weights @ gains) == pytest.approx(1.0)


def test_beliefs_are_those_of_bayes() -> None:
    """Draws of the mixture, weighted by the likelihood of the votes, have the mean that is believed."""
    weights = np.zeros((len(LAWS), 1))
    weights[[8, 15], 0] = 0.4, 0.6
    g, counts = np.array([[0.6, 0.3, 0.1]]), np.array([[1.0, 2.0, 0.0]])
    rng = np.random.default_rng(0)
    draws = []
    for j, weight in ((8, 0.4), (15, 0.6)):
        strength, mixed = LAWS[j]
        draws.append(rng.dirichlet(strength * ((1 - mixed) * g[0] + mixed / 3), int(200_000 * weight)))
    points = np.concatenate(draws)
    likelihood = np.prod(points ** counts[0], axis=1)
    wanted = (likelihood[:, None] * points).sum(axis=0) / likelihood.sum()
    beliefs = Beliefs.given(weights, g, counts)
    np.testing.assert_allclose(beliefs.mean()[0], wanted, atol=3e-3)
    many = Beliefs.given(weights, np.repeat(g, 40_000, axis=0), np.repeat(counts, 40_000, axis=0))
    np.testing.assert_allclose(many.draw(rng).mean(axis=0), wanted, atol=5e-3)


def test_sure_and_unsure_predictions_have_crowds_of_their_own() -> None:
    rng = np.random.default_rng(0)
    sure = np.tile([0.96, 0.02, 0.02], (400, 1))
    unsure = np.tile([0.4, 0.3, 0.3], (400, 1))
    votes = np.concatenate([rng.multinomial(10, sure), rng.multinomial(10, np.eye(3)[rng.integers(3, size=400)])])
    crowd = Crowd(np.concatenate([sure, unsure]), votes.astype(float), rng)
    first, second = (crowd.beliefs(g[:1], np.array([[2.0, 0.0, 0.0]])).mean()[0, 0] for g in (sure, unsure))
    assert first < 0.99  # these disagree now and then
    assert second > 0.95  # and these never do, so two votes tell all


# --- spending ---


def test_widths_are_those_of_updated_sets() -> None:
    sets = CALIBRATION.predict_set(POOL)
    after = sets.update(THREE)
    wanted = 0.5 * np.nan_to_num(after.upper() - after.lower()).sum(axis=1)
    np.testing.assert_allclose(Widths.of(sets, 0.01)(THREE.astype(float)), wanted, atol=1e-9)


def test_lots_are_spent_as_well_as_can_be() -> None:
    """Against every allocation of a small budget, at budgets at which no lot is cut in two."""
    rng = np.random.default_rng(2)
    numbers = np.array([0, 1, 2, 3])
    for _ in range(20):
        table = np.sort(rng.random((4, 4)), axis=1)[:, ::-1]
        lots = best_lots(table, numbers, np.ones(4))
        for spent in np.cumsum(lots.cost):
            votes = lots.spend(spent, 4)
            assert votes.sum() == spent
            own = table[np.arange(4), votes].sum()
            others = [
                table[np.arange(4), list(choice)].sum()
                for choice in product(range(4), repeat=4)
                if sum(choice) <= spent
            ]
            assert own <= min(others) + 1e-12


def test_gains_fall_and_costs_count() -> None:
    table = np.array([[1.0, 0.9, 0.5], [1.0, 0.9, 0.5]])
    lots = best_lots(table, np.array([0, 1, 4]), np.array([1.0, 3.0]))
    assert (np.diff(lots.gain / lots.cost) <= 1e-12).all()
    assert lots.item[0] == 0
    assert lots.spend(4, 2).tolist() == [4, 0]
    assert lots.spend(5.9, 2).tolist() == [4, 0]  # not enough for one vote on the dear item
    assert lots.spend(7, 2).tolist() == [4, 1]


def test_simpler_ways_stay_within_the_budget() -> None:
    rng = np.random.default_rng(0)
    cost = rng.uniform(1, 2, 50)
    table = np.linspace(1, 0, 6) * np.ones((50, 1))
    for budget in (0, 7, 60, 1000):
        uniform = uniformly(50, cost, budget, 5, rng)
        assert (uniform * cost).sum() <= budget + 1e-9
        assert np.ptp(uniform) <= 1
        ranked = by_rank(table, np.arange(6), cost, budget, rng.permutation(50))
        assert (ranked * cost).sum() <= budget + 1e-9


@pytest.mark.parametrize("most", [1, 2, 5, 50, 1000])
def test_sizes_reach_the_most(most: int) -> None:
    numbers = sizes(most)
    assert numbers[0] == 0
    assert numbers[-1] == most
    assert (np.diff(numbers) > 0).all()


# --- the plan ---


def test_every_item_gets_advice_within_the_budget() -> None:
    made = plain()
    assert sum(made.counts().values()) == len(made) == 200
    assert made.ask.sum() == 400
    assert ((made.action == "ask") == (made.ask > 0)).all()
    assert (made.expected_width <= made.width).all()
    assert made.outlook.expected == pytest.approx(made.expected_width.mean(), abs=2e-3)
    assert made.outlook.low < made.outlook.expected < made.outlook.high < made.outlook.now
    assert (made.labels[made.action == "stop"].sum(axis=1) == 1).all()
    assert all(made.reason)
    assert repr(made).startswith("Plan: 200 items, ")


def test_a_promise_is_kept_when_votes_are_collected() -> None:
    made = plain("width")
    inside = []
    for seed in range(10):
        more = np.random.default_rng(seed).multinomial(made.ask, TRUTH[300:])
        after = made.sets.update(more)
        width = 0.5 * np.nan_to_num(after.upper() - after.lower()).sum(axis=1).mean()
        inside.append(made.outlook.low <= width <= made.outlook.high)
    assert np.mean(inside) >= 0.9


def test_certificates_hold() -> None:
    """Of all items, at most α + δ have a label that is certified and wrong."""
    wrong = []
    for seed in range(2):
        more = np.random.default_rng(seed).multinomial(30, TRUTH[300:])
        made = cs.plan(CALIBRATION, POOL, THREE + more, budget=0, most=5)
        stops = made.action == "stop"
        assert stops.sum() > 30
        wrong.append((stops & (made.labels.argmax(axis=1) != TRUTH[300:].argmax(axis=1))).mean())
        assert (made.ask == 0).all()
        assert made.outlook.low == made.outlook.high == made.outlook.now
    assert np.mean(wrong) <= 0.11


def test_settled_items_are_asked_about_only_for_their_width() -> None:
    votes = np.random.default_rng(0).multinomial(25, TRUTH[300:])
    label = cs.plan(CALIBRATION, POOL, votes, budget=2000)
    width = cs.plan(CALIBRATION, POOL, votes, budget=2000, goal="width")
    settled = label.sets.decide().sum(axis=1) == 1
    assert (label.action[settled] == "stop").all()
    assert (width.ask[settled] > 0).any()


def test_contradictions_go_to_a_person_and_mixed_items_stay() -> None:
    calibration = cs.conformalize(CENTER[:300], TRUTH[:300], "tv")
    g = np.array([[0.98, 0.01, 0.01], [0.34, 0.33, 0.33], [0.55, 0.45, 0.0]])
    rules = cs.QueueRules(ambiguous=0.9)
    made = cs.plan(calibration, g, [[0, 90, 0], [200, 190, 210], [0, 0, 0]], budget=0, most=1, rules=rules)
    assert made.action[0] == "escalate"
    assert "contradict" in made.reason[0]
    assert made.action[1] == "ambiguous"
    assert made.action[2] == "escalate"
    assert made.reason[2] == "Even 1 more votes would hardly narrow it: a person decides."


def test_a_dear_item_is_asked_about_less() -> None:
    cheap = plain()
    cost = np.ones(200)
    cost[cheap.ask.argmax()] = 50.0
    assert planned(cost=cost).ask[cheap.ask.argmax()] < cheap.ask.max()


def test_more_budget_buys_narrower_sets_and_the_plan_is_not_beaten() -> None:
    made = plain("width")
    by = {(row["budget"], row["method"]): row["expected"] for row in made.curve}
    own = next(row for row in made.curve if (row["budget"], row["method"]) == (made.budget, "plan"))
    assert asdict(made.outlook).items() <= own.items(), "the same plan has one outlook"
    assert asdict(made.outlook).items() <= made.purchases[0].items()
    budgets = sorted({row["budget"] for row in made.curve})
    own = [by[budget, "plan"] for budget in budgets]
    assert own == sorted(own, reverse=True)
    assert all(by[b, "plan"] <= by[b, m] + 0.01 for b in budgets for m in ("uniform", "random", "entropy"))
    bought = {row["buy"] for row in made.purchases}
    assert bought == {"votes as planned", "the same for all items", "more calibration items", "new items like these"}
    assert made.allocate(100).sum() <= 100
    assert made.allocate(200, "uniform").max() == 1


def test_more_calibration_is_known_for_plain_calibrations_only() -> None:
    noisy = cs.conformalize(
        CENTER[:300], np.random.default_rng(0).multinomial(50, TRUTH[:300]), "kl", noise=cs.AnnotatorSampling(0.5)
    )
    made = cs.plan(noisy, POOL[:50], THREE[:50], budget=20)
    assert "more calibration items" not in {row["buy"] for row in made.purchases}


def test_without_votes_it_is_a_guess_and_says_so() -> None:
    made = cs.plan(CALIBRATION, POOL[:60], budget=100)
    assert "no votes to learn from" in made.notes[0]
    assert made.ask.sum() > 0


def test_a_pilot_teaches_the_crowd() -> None:
    pilot = CENTER[:300], np.random.default_rng(0).multinomial(50, TRUTH[:300])
    assert planned(pilot=pilot).market.crowd.n == 500


def test_groups_reach_the_calibration() -> None:
    kinds = np.where(CENTER[:300, 0] > 0.3, "a", "b")
    grouped = cs.conformalize(CENTER[:300], TRUTH[:300], "kl", groups=kinds)
    own = np.where(POOL[:, 0] > 0.3, "a", "b")
    made = cs.plan(grouped, POOL, THREE, budget=50, groups=own, most=10)
    np.testing.assert_array_equal(made.sets.threshold, grouped.predict_set(POOL, 0.1, groups=own).threshold)
    with pytest.raises(ValueError, match="pilot is for calibrations without groups"):
        cs.plan(grouped, POOL, THREE, budget=50, groups=own, pilot=(POOL, THREE))


def test_a_promise_about_shares_of_votes_is_not_one_about_the_truth() -> None:
    """Certificates were said to hold whatever the calibration was about."""
    assert any("calibrate with a noise model" in note for note in planned().notes)
    g = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    votes = np.random.default_rng(1).multinomial(10, g)
    made = cs.conformalize(g[:150], votes[:150], "tv", noise=cs.UnbiasedVotes())
    assert not any("noise model" in note for note in cs.plan(made, g[150:], votes[150:], budget=20).notes)


def test_active_lab_is_asked_of_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    made = planned(compare=["uniform", "activelab"])
    assert made.notes[0] == "ActiveLab is left out: it needs cleanlab (pip install 'credalset[activelab]')."
    seen = SimpleNamespace()

    def scores(labels: np.ndarray, own: np.ndarray, others: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        seen.labels = labels
        return np.arange(len(own))[::-1], np.arange(0 if others is None else len(others))

    package = ModuleType("cleanlab")
    package.multiannotator = ModuleType("cleanlab.multiannotator")  # type: ignore[attr-defined]
    package.multiannotator.get_active_learning_scores = scores
    monkeypatch.setitem(sys.modules, "cleanlab", package)
    monkeypatch.setitem(sys.modules, "cleanlab.multiannotator", package.multiannotator)
    made = planned(compare=["activelab"])
    assert {row["method"] for row in made.curve} == {"plan", "activelab"}
    np.testing.assert_array_equal(np.stack([(seen.labels == k).sum(axis=1) for k in range(3)], axis=1), THREE)
    assert made.allocate(20, "activelab")[-1] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": -1}, "budget must be a finite number of at least 0"),
        ({"budget": 5, "goal": "fame"}, "goal must be 'label' or 'width', but is 'fame'"),
        ({"budget": 5, "compare": ["luck"]}, "compare names 'luck', which is no method"),
        ({"budget": 5, "cost": 0.0}, "cost must be positive"),
        ({"budget": 5, "items": ["a"]}, "items must name each of the 200 items, but holds 1 names"),
        ({"budget": 5, "most": 0}, "most must be at least 1"),
        ({"budget": 5, "delta": 1.5}, "delta must lie strictly between 0 and 1"),
    ],
    ids=["budget", "goal", "compare", "cost", "items", "most", "delta"],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cs.plan(CALIBRATION, POOL, THREE, **options)


# --- lists to hand on ---


def test_tasks_are_written_whole(tmp_path: Path) -> None:
    made = plain()
    made.write_tasks(tmp_path / "tasks.csv")
    made.write_tasks(tmp_path / "tasks.jsonl")
    with (tmp_path / "tasks.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    lines = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["item"] for row in rows] == [line["item"] for line in lines]
    assert sum(int(row["ask"]) for row in rows) == made.ask.sum()
    falls = [line["width"] - line["expected_width"] for line in lines]
    assert falls == sorted(falls, reverse=True)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["tasks.csv", "tasks.jsonl"]
    with pytest.raises(ValueError, match=r"must end in .csv or .jsonl"):
        made.write_tasks(tmp_path / "tasks.xlsx")


def test_frames_hold_a_row_per_item() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    made = plain()
    frame = made.to_frame()
    assert list(frame["ask"]) == made.ask.tolist()
    assert frame.loc[frame["action"] == "stop", "label"].notna().all()
    assert made.to_frame("pyarrow").num_rows == 200
    with pytest.raises(ValueError, match="kind must be"):
        made.to_frame("xlsx")


def test_the_summary_says_what_matters() -> None:
    text = plain().summary()
    assert "alpha + delta = 0.11" in text
    assert "votes as planned" in text
    assert "uniform" in text
    json.dumps(plain().describe(), allow_nan=False)
