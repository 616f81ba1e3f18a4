"""The queue of plain sets: every item gets the one step that the stated rules give it,
computed here by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

from credalset import QueueRules
from credalset.acting.steps import STEPS, Findings, next_steps
from credalset.scores import InnerProduct, KullbackLeibler, TotalVariation
from credalset.sets import CredalSet

RULES = [
    QueueRules(),
    QueueRules(divided=0.3, ask=0.2),
    QueueRules(decision="maximal", ask=0.7),
]


def some_sets(n: int = 300) -> CredalSet:
    predictions = np.random.default_rng(0).dirichlet([0.5, 0.5, 0.5], n)
    return TotalVariation().region(predictions, np.linspace(0.0, 0.6, n))


def by_hand(sets: CredalSet, rules: QueueRules) -> list[str]:
    """The rules as the documentation states them, one item at a time."""
    lower, upper = sets.entropy_bounds("K")
    kept = sets.decide(rules.decision).sum(axis=1)
    found = []
    for i in range(len(sets)):
        if kept[i] == 1:
            found.append("accept")
        elif sets.is_empty()[i]:
            found.append("expert")
        elif lower[i] > rules.divided:
            found.append("divided")
        elif upper[i] - lower[i] > rules.ask:
            found.append("ask")
        else:
            found.append("expert")
    return found


@pytest.mark.parametrize("rules", RULES, ids=repr)
def test_the_first_rule_that_fits_decides(rules: QueueRules) -> None:
    sets = some_sets()
    queue = sets.queue(rules)
    assert queue.step.tolist() == by_hand(sets, rules)
    assert queue.counts() == {step: by_hand(sets, rules).count(step) for step in STEPS}
    assert sum(queue.counts().values()) == len(queue) == len(sets)


def test_all_four_steps_occur_and_each_has_its_reason() -> None:
    queue = some_sets().queue()
    assert set(queue.step) == set(STEPS)
    reasons = {step: set(queue.why[queue.step == step]) for step in STEPS}
    assert all(len(sentences) == 1 for sentences in reasons.values())
    assert reasons["accept"] == {"One label is best for every distribution in the set."}
    assert len(set.union(*reasons.values())) == 4
    assert "not certified" in repr(queue)


def test_empty_sets_come_first_and_go_to_an_expert() -> None:
    sets = InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.05, 0.05], [0.55, 0.45, 0.0]], 0.5)
    assert sets.is_empty().tolist() == [True, False, False]
    queue = sets.queue()
    assert queue.step[0] == "expert"
    assert queue.why[0].startswith("The set is empty")
    assert queue.labels(0) == ()
    assert queue.order("expert")[0] == 0
    assert np.isnan(queue.aleatoric[0])


def test_the_order_of_work() -> None:
    queue = some_sets().queue()
    order = queue.order()
    assert sorted(order) == list(range(len(queue)))
    assert [STEPS.index(a) for a in queue.step[order]] == sorted(STEPS.index(a) for a in queue.step)
    assert (np.diff(queue.epistemic[queue.order("ask")]) <= 0).all()
    assert (np.diff(queue.aleatoric[queue.order("divided")]) <= 0).all()
    total = queue.aleatoric + queue.epistemic
    assert (np.diff(total[queue.order("expert")]) <= 0).all()


def test_a_utility_decides_between_actions() -> None:
    sets = TotalVariation().region([[0.5, 0.45, 0.05]], 0.1)
    assert sets.queue().step[0] != "accept"
    either = sets.queue(utility=[[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], actions=["keep", "remove"])
    assert either.step[0] == "accept"
    assert either.labels(0) == ("keep",)
    assert "One action is best" in either.why[0]


def test_columns_for_a_data_frame() -> None:
    sets = TotalVariation().region([[0.9, 0.1], [0.5, 0.5]], 0.2)
    columns = sets.queue(items=["a", "b"]).to_dict()
    assert columns["item"] == ["a", "b"]
    assert columns["step"] == ["accept", "divided"]
    assert columns["label"] == ["0", "0"]
    assert columns["possible"] == ["0", "0 or 1"]
    assert len({len(values) for values in columns.values()}) == 1


def test_names_of_classes_are_the_choices() -> None:
    import credalset as cs

    data = cs.datasets.make_synthetic(60, random_state=0)
    calibration = cs.conformalize(data.distributions, data.counts, classes=["x", "y", "z"])
    queue = calibration.predict_set(data.distributions, 0.1).queue()
    assert queue.choices == ("x", "y", "z")
    assert set("".join(queue.labels(0))) <= set("xyz")


def test_no_items() -> None:
    queue = KullbackLeibler().region(np.empty((0, 3)), 0.1).queue()
    assert len(queue) == 0
    assert queue.counts() == dict.fromkeys(STEPS, 0)
    assert len(queue.order()) == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rules": 0.5}, TypeError, "rules must be QueueRules or None, but is a float"),
        ({"items": ["a"]}, ValueError, "items must name each of the 2 sets, but holds 1 names"),
        (
            {"actions": ["a"]},
            ValueError,
            "actions must name each of the 2 rows of utility, but holds 1 names",
        ),
        ({"rules": QueueRules(decision="guess")}, ValueError, "rule must be one of"),
    ],
)
def test_messages(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TotalVariation().region([[0.9, 0.1], [0.5, 0.5]], 0.2).queue(**options)


def test_rules_are_checked() -> None:
    with pytest.raises(ValueError, match="ask must be a finite number of at least 0, but is -1"):
        QueueRules(ask=-1)
    with pytest.raises(ValueError, match="step must be one of accept"):
        some_sets(3).queue().order("sleep")


# --- with votes ---

BIRD_OR_HORSE = TotalVariation().region([[0.55, 0.45]] * 7, 0.3)
VOTES = np.array([[1, 51], [0, 3], [3, 0], [0, 0], [9, 11], [40, 5], [2, 3]])


def test_votes_decide_before_the_sets_do() -> None:
    queue = BIRD_OR_HORSE.queue(QueueRules(ask=0.05, divided=0.99), votes=VOTES)
    assert queue.step.tolist() == ["accept", "ask", "ask", "ask", "divided", "accept", "ask"]
    assert queue.label[[0, 5]].tolist() == [1, 0]
    assert queue.model_errors.tolist() == [True] + 6 * [False]
    assert queue.votes.tolist() == VOTES.sum(axis=1).tolist()
    assert "51 of 52 people say 1; the model says 0: likely an error of the model." in queue.why[0]
    assert not any("nother vote" in why for why in queue.why[[0, 4, 5]])
    assert queue.order("ask")[0] == 3  # items without a vote come first


def test_votes_against_a_sure_model_are_looked_into() -> None:
    sure = TotalVariation().region([[0.9, 0.1]] * 7, 0.1)
    assert set(sure.queue().step) == {"accept"}
    queue = sure.queue(votes=VOTES)
    assert queue.step.tolist() == ["accept", "ask", "accept", "accept", "divided", "accept", "ask"]
    assert queue.label[0] == 1


def test_a_policy_replaces_the_rule_about_wide_sets() -> None:
    asks = np.array([True, False] * 3 + [True])
    queue = BIRD_OR_HORSE.queue(QueueRules(divided=0.99), votes=VOTES, asked=asks)
    assert queue.step.tolist() == [
        "accept", "expert", "ask", "expert", "ask", "accept", "ask"
    ]  # fmt: skip


def test_every_item_has_exactly_one_step() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        flags = generator.random((3, 50)) < 0.5
        label = generator.integers(0, 3, 50)
        votes = generator.integers(0, 3, (50, 3)).astype(float)
        found = Findings(*flags, label, label, ["a", "b", "c"], votes)
        step, why = next_steps(found)
        rank = np.array([STEPS.index(name) for name in step])
        expected = np.where(flags[0], 0, np.where(flags[1], 1, np.where(flags[2], 2, 3)))
        assert rank.tolist() == expected.tolist()
        assert all(sentence.endswith(".") for sentence in why)
