"""Train many networks at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from credalset.predictors.torch.base import Job, TorchEstimator

MAX_STACK = 64  # runs per stack: beyond it memory grows and speed does not

Estimator = TypeVar("Estimator", bound=TorchEstimator)


def fit_many(estimators: Sequence[Estimator], data: Iterable[tuple[Any, Any]]) -> list[Estimator]:
    """Fit estimator i to data set i, training those of the same shape together.

    Networks of a few thousand weights spend most of their training time between the operations. Stacking the weights
    of R runs turns R small matrix products into one batched product, which takes a fraction of the time. Each run
    keeps its own data, seed, order of items and dropout, and ends where ``fit`` alone would have ended, up to rounding.

    Estimators are trained together if their type, their parameters except ``random_state``, and the shapes of their
    data agree; the others form stacks of their own, or are trained alone. A `TorchPredictor` is always trained alone.

    Parameters
    ----------
    estimators : sequence of estimators
        `FirstOrderNetwork`, `SecondOrderNetwork` or `TorchPredictor` objects, each a different one.
    data : iterable of pairs (X, Y)
        One data set per estimator, as ``fit`` takes it. The same arrays may appear many times.

    Returns
    -------
    list
        The estimators, fitted.

    Examples
    --------
    >>> import credalset as cs
    >>> from credalset.predictors import FirstOrderNetwork
    >>> data = cs.datasets.make_synthetic(100, random_state=0)
    >>> networks = [FirstOrderNetwork(hidden=(8,), epochs=2, random_state=seed) for seed in range(5)]
    >>> [network.n_iter_ for network in fit_many(networks, [(data.X, data.counts)] * 5)]
    [2, 2, 2, 2, 2]
    """
    estimators = list(estimators)
    pairs = list(data)
    if len(estimators) != len(pairs):
        raise ValueError(
            f"there are {len(estimators)} estimators, but {len(pairs)} data sets. Pass one (X, Y) for each."
        )
    if len({id(estimator) for estimator in estimators}) < len(estimators):
        raise ValueError("the same estimator appears twice. Pass sklearn.base.clone(estimator) for each run.")
    groups: dict[Hashable, list[tuple[Estimator, Job]]] = defaultdict(list)
    shared: dict[Hashable, Tensor] = {}
    own_jobs = []
    for estimator, (X, Y) in zip(estimators, pairs, strict=True):
        own_jobs.append(estimator._jobs(X, Y))
        for job in own_jobs[-1]:
            # Runs on the same features share one tensor, which none of them changes.
            job.run.x = shared.setdefault((type(estimator), id(X)), job.run.x)
            groups[job.key].append((estimator, job))
    for group in groups.values():
        for start in range(0, len(group), MAX_STACK):
            stack = group[start : start + MAX_STACK]
            stack[0][0]._train([job for _, job in stack])
    for estimator, jobs in zip(estimators, own_jobs, strict=True):
        estimator._finish(jobs)
    return estimators
