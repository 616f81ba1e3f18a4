"""Networks that are trained on label distributions or on counts, one or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from sklearn.base import clone
from torch import nn

from credalset._typing import FloatArray
from credalset._validation import as_generator, as_positive_int
from credalset.annotations.labels import Labels
from credalset.predictors.torch.base import Job
from credalset.predictors.torch.estimators import NetworkEstimator
from credalset.predictors.torch.networks import Committee


@dataclass(eq=False, repr=False)
class CommitteeEstimator(NetworkEstimator):
    """Base of the estimators that may train several networks from different seeds, and may learn from counts."""

    #: tells `ConformalCredalClassifier` to pass on counts where it has them
    accepts_counts = True

    hidden: Sequence[int] = (64, 64)
    _: KW_ONLY
    likelihood: str = "distributions"
    n_networks: int = 1
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    batch_size: int = 32
    epochs: int = 40

    def _targets(self, labels: Labels) -> FloatArray:
        if self.likelihood != "counts":
            return labels.distributions
        if labels.counts is None:
            raise ValueError(
                "Y holds label distributions, but likelihood='counts' needs annotation counts (whole numbers). "
                "Pass the counts, or another likelihood."
            )
        return labels.counts

    def _empty_module(self, n_features: int, n_classes: int) -> nn.Module:
        return self._join([self._empty_network(n_features, n_classes) for _ in range(self._committee_size())])

    def _committee_size(self) -> int:
        return as_positive_int(self.n_networks, "n_networks")

    def _jobs(self, X: Any, Y: Any) -> list[Job]:
        goes_on = self._goes_on
        if goes_on:
            self._check_continues(len(self.classes_))
        if self._committee_size() == 1:
            return super()._jobs(X, Y)
        self._features(X, reset=not goes_on)
        seeds = as_generator(self.random_state).integers(2**63, size=self.n_networks)
        members = [clone(self).set_params(n_networks=1, random_state=int(seed)) for seed in seeds]
        if goes_on:
            for member, network in zip(members, self.module_.children(), strict=True):
                member.__dict__.update(self.__dict__ | member.get_params() | {"module_": network})
        return [member._prepare(X, Y) for member in members]

    def _join(self, modules: Sequence[nn.Module]) -> nn.Module:
        return modules[0] if len(modules) == 1 else Committee(modules)
