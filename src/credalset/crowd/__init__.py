"""Votes in hand: combine predictions with the votes that items have, calibrate that, and decide whom to ask next."""

from credalset.crowd.estimator import DirichletCrowd
from credalset.crowd.in_hand import CrowdCalibration
from credalset.crowd.policy import VotingPolicy
from credalset.crowd.posterior import Posterior

__all__ = ["CrowdCalibration", "DirichletCrowd", "Posterior", "VotingPolicy"]
