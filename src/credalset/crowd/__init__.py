"""Votes in hand.

Predict and calibrate with the votes that items have, and decide which items need another vote.
"""

from credalset.crowd.cascades import Cascade, cascade
from credalset.crowd.estimator import DirichletCrowd
from credalset.crowd.in_hand import CrowdCalibration
from credalset.crowd.policy import VotingPolicy
from credalset.crowd.posterior import Posterior

__all__ = [
    "Cascade",
    "CrowdCalibration",
    "DirichletCrowd",
    "Posterior",
    "VotingPolicy",
    "cascade",
]


def __dir__() -> list[str]:
    return list(__all__)
