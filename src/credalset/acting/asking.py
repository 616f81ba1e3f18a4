"""Which items a calibration with votes in hand would ask again: one rule for plan and report."""

from __future__ import annotations

from typing import Any

import numpy as np

from credalset._typing import BoolArray
from credalset.calibration.base import Calibration, Inputs, as_level
from credalset.crowd import CrowdCalibration, VotingPolicy
from credalset.sets.queue import plan_steps, read_rules


def asked_again(
    calibration: Calibration | None, inputs: Inputs | None, policy: VotingPolicy | None = None
) -> BoolArray | None:
    """Return which items a policy asks again, (N,); None for a calibration without a crowd.

    The policy is that of the calibration, or else the given one, or `VotingPolicy` as it is.
    """
    if not isinstance(calibration, CrowdCalibration) or inputs is None:
        return None
    assert inputs.in_hand is not None
    assert inputs.set_aside is not None
    own = calibration.policy or policy or VotingPolicy(calibration.crowd)
    return own._ask(inputs.batch.values, inputs.in_hand + inputs.set_aside)


def items_to_ask(
    calibration: CrowdCalibration,
    policy: VotingPolicy,
    predictions: Any,
    votes: Any,
    alpha: float = 0.1,
    groups: Any = None,
) -> BoolArray:
    """Return the items whose next step is *ask*, (N,), as the report shows them.

    A calibrated policy decides alone, as its sets hold only where it stops.
    """
    if calibration.policy is not None:
        return policy.ask(predictions, votes)
    inputs = calibration._read_inputs(predictions, votes, groups, None)
    sets = calibration._predict(inputs, as_level(alpha))
    assert inputs.in_hand is not None
    assert inputs.set_aside is not None
    counts = inputs.in_hand + inputs.set_aside
    asked = asked_again(calibration, inputs, policy)
    rules = read_rules(None)
    names = tuple(map(str, range(sets.n_classes)))
    items = tuple(range(len(sets)))
    known = counts if counts.any() else None
    queue = plan_steps(sets, rules, sets.decide(rules.decision), names, items, known, asked)
    return np.asarray(queue.step == "ask")
