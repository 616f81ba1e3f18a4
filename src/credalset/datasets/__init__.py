"""Data sets for examples, tests and experiments.

Third-party data are looked for in a folder (an argument, or the environment variable ``CREDALSET_DATA``), then fetched
from their public source where there is one; otherwise the error says what to put where.
"""

from __future__ import annotations

from credalset.datasets.chaosnli import ChaosNLI, load_chaosnli
from credalset.datasets.cifar10h import CIFAR10H, load_cifar10h
from credalset.datasets.download import DataNotFoundError
from credalset.datasets.messages import Messages, make_messages
from credalset.datasets.synthetic import SyntheticData, load_synthetic, make_synthetic

__all__ = [
    "CIFAR10H",
    "ChaosNLI",
    "DataNotFoundError",
    "Messages",
    "SyntheticData",
    "load_chaosnli",
    "load_cifar10h",
    "load_synthetic",
    "make_messages",
    "make_synthetic",
]
