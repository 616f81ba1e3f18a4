"""Plan, report and queue of one calibration ask the same items."""

from __future__ import annotations

import numpy as np

import credalset as cs
from credalset.acting.asking import items_to_ask


def test_plan_and_report_ask_the_same_items() -> None:
    data = cs.datasets.make_synthetic(700, n_classes=3, n_votes=40, random_state=0)
    p = 0.5 * data.distributions + 0.5 / 3
    crowd = cs.DirichletCrowd(n_components=1, n_consensus=1).fit(p[:200], data.counts[:200])
    calibration = crowd.conformalize(p[200:500], data.counts[200:500], in_hand=(0, 3))
    generator = np.random.default_rng(0)
    few = np.array([generator.multivariate_hypergeometric(row, 3) for row in data.counts[500:]])
    policy = cs.VotingPolicy(crowd)
    asked = items_to_ask(calibration, policy, p[500:], few)
    page = cs.report(calibration, p[500:], data.counts[500:] - few, None, votes_in_hand=few)
    assert page.queue.step[asked].tolist() == ["ask"] * int(asked.sum())
    assert (asked == (page.queue.step == "ask")).all()
    sets = calibration.predict_set(p[500:], 0.1, votes=few)
    queue = sets.queue(votes=few, asked=policy.ask(p[500:], few))
    assert queue.step.tolist() == page.queue.step.tolist()
    assert queue.why.tolist() == page.queue.why.tolist()
    assert 0 < asked.sum() < len(asked)
