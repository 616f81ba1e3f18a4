"""Data sets for examples, tests and experiments: generators, and loaders of published data.

Loaders read a local folder.
"""

from __future__ import annotations

from credalset.datasets.judges import JudgePanel, make_judge_panel
from credalset.datasets.messages import Messages, make_messages
from credalset.datasets.published import (
    CIFAR10H,
    ChaosNLI,
    DataNotFoundError,
    load_chaosnli,
    load_cifar10h,
)
from credalset.datasets.synthetic import SyntheticData, load_synthetic, make_synthetic

__all__ = [
    "CIFAR10H",
    "ChaosNLI",
    "DataNotFoundError",
    "JudgePanel",
    "Messages",
    "SyntheticData",
    "load_chaosnli",
    "load_cifar10h",
    "load_synthetic",
    "make_judge_panel",
    "make_messages",
    "make_synthetic",
]


def __dir__() -> list[str]:
    return list(__all__)
