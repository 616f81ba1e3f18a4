"""The review queue: every item gets the action that the stated rules give it,
computed here by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

from credalset import QueueRules
from credalset.scores import InnerProduct, KullbackLeibler, TotalVariation
from credalset.sets import CredalSet
from credalset.sets.queue import ACTIONS, REASONS

RULES = [
    QueueRules(),
    QueueRules(ambiguous=0.3, unknown=0.2),
    QueueRules(decision="maximal", unknown=0.7),
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
            found.append("settled")
        elif sets.is_empty()[i]:
            found.append("escalate")
        elif lower[i] > rules.ambiguous:
            found.append("ambiguous")
        elif upper[i] - lower[i] > rules.unknown:
            found.append("re-annotate")
        else:
            found.append("escalate")
    return found


@pytest.mark.parametrize("rules", RULES, ids=repr)
def test_the_first_rule_that_fits_decides(rules: QueueRules) -> None:
    sets = some_sets()
    queue = sets.queue(rules)
    assert queue.action.tolist() == by_hand(sets, rules)
    assert queue.counts() == {action: by_hand(sets, rules).count(action) for action in ACTIONS}
    assert sum(queue.counts().values()) == len(queue) == len(sets)


def test_all_four_actions_occur_and_each_has_its_reason() -> None:
    queue = some_sets().queue()
    assert set(queue.action) == set(ACTIONS)
    for action, reason in zip(queue.action, queue.reason, strict=True):
        assert reason == REASONS[action].format(choice="label")


def test_empty_sets_are_escalated_first() -> None:
    sets = InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.05, 0.05], [0.55, 0.45, 0.0]], 0.5)
    assert sets.is_empty().tolist() == [True, False, False]
    queue = sets.queue()
    assert queue.action[0] == "escalate"
    assert queue.reason[0] == REASONS["empty"]
    assert queue.labels(0) == ()
    assert queue.order("escalate")[0] == 0
    assert np.isnan(queue.aleatoric[0])


def test_the_order_of_work() -> None:
    queue = some_sets().queue()
    order = queue.order()
    assert sorted(order) == list(range(len(queue)))
    assert [ACTIONS.index(a) for a in queue.action[order]] == sorted(
        ACTIONS.index(a) for a in queue.action
    )
    assert (np.diff(queue.epistemic[queue.order("re-annotate")]) <= 0).all()
    assert (np.diff(queue.aleatoric[queue.order("ambiguous")]) <= 0).all()
    total = queue.aleatoric + queue.epistemic
    assert (np.diff(total[queue.order("escalate")]) <= 0).all()


def test_a_utility_decides_between_actions() -> None:
    sets = TotalVariation().region([[0.5, 0.45, 0.05]], 0.1)
    assert sets.queue().action[0] != "settled"
    either = sets.queue(utility=[[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], actions=["keep", "remove"])
    assert either.action[0] == "settled"
    assert either.labels(0) == ("keep",)
    assert "One action is best" in either.reason[0]


def test_columns_for_a_data_frame() -> None:
    sets = TotalVariation().region([[0.9, 0.1], [0.5, 0.5]], 0.2)
    columns = sets.queue(items=["a", "b"]).to_dict()
    assert columns["item"] == ["b", "a"]
    assert columns["action"] == ["ambiguous", "settled"]
    assert columns["possible"] == ["0 or 1", "0"]
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
    assert queue.counts() == dict.fromkeys(ACTIONS, 0)
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
    with pytest.raises(
        ValueError, match="unknown must be a finite number of at least 0, but is -1"
    ):
        QueueRules(unknown=-1)
    with pytest.raises(ValueError, match="action must be one of re-annotate"):
        some_sets(3).queue().order("sleep")
