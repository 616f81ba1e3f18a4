"""Ask `probly` about credal sets and write down its answers and its time.

Started by ``benchmarks/answers.py``.

``python probly_worker.py IN.npz OUT.npz``, with a Python that has probly and torch but not
credalset. Keys of the input read ``region/K/array``; of the output ``region/K/question/answer`` and
``region/K/question/rate`` (sets per second). Distance-based sets are (prediction, radius),
Dirichlet sets (prediction, likelihood), convex hulls (vertices).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

BATCHES = (1000, 10_000, 100_000)
REPEATS = 3

try:
    import probly  # noqa: F401 - before torch, which takes seconds
    import torch
    from probly.quantification.measure.credal_set import (
        generalized_hartley,
        lower_entropy,
        upper_entropy,
    )
    from probly.representation.credal_set.array import ArrayDistanceBasedCredalSet
    from probly.representation.credal_set.torch import (
        TorchConvexCredalSet,
        TorchDirichletLevelSetCredalSet,
        TorchDistanceBasedCredalSet,
    )
except ImportError as error:  # an older probly, or no torch
    MISSING = str(error)
else:
    MISSING = ""


def main(source: str, target: str) -> None:
    results: dict[str, Any] = {
        "version": version("probly"),
        "python": sys.version.split()[0],
        "missing": MISSING,
    }
    if not MISSING:
        torch.manual_seed(0)
        with np.load(source) as arrays:
            groups = sorted({key.rsplit("/", 1)[0] for key in arrays.files})
            for group in groups:
                part = {
                    key.rsplit("/", 1)[1]: arrays[key]
                    for key in arrays.files
                    if key.rsplit("/", 1)[0] == group
                }
                results |= {f"{group}/{name}": value for name, value in answers(part).items()}
    np.savez(target, **results)


def answers(part: Mapping[str, np.ndarray]) -> dict[str, Any]:
    if "vertices" in part:
        hulls = torch.as_tensor(part["vertices"])
        return timed(
            "hartley",
            len(hulls),
            lambda rows: (generalized_hartley(TorchConvexCredalSet(hulls[rows]), 2),),
        )
    prediction = torch.as_tensor(part["prediction"])
    if "likelihood" in part:
        likelihood = torch.as_tensor(part["likelihood"])

        def level_sets(rows: slice) -> Any:
            return TorchDirichletLevelSetCredalSet(prediction[rows], likelihood[rows])

        return timed("entropy", len(prediction), lambda rows: entropies(level_sets(rows))) | timed(
            "envelope", len(prediction), lambda rows: envelope(level_sets(rows))
        )
    radius = torch.as_tensor(part["radius"])

    def torch_balls(rows: slice) -> Any:
        return TorchDistanceBasedCredalSet(prediction[rows], radius[rows])

    def numpy_balls(rows: slice) -> Any:
        return ArrayDistanceBasedCredalSet(part["prediction"][rows], part["radius"][rows])

    envelopes = [
        timed("envelope", len(radius), lambda rows, make=make: envelope(make(rows)))
        for make in (torch_balls, numpy_balls)
    ]
    faster = max(envelopes, key=lambda one: float(one["envelope/rate"]))
    return timed("entropy", len(radius), lambda rows: entropies(torch_balls(rows))) | faster


def entropies(sets: Any) -> tuple[Any, Any]:
    return lower_entropy(sets), upper_entropy(sets)


def envelope(sets: Any) -> tuple[Any, Any]:
    return sets.lower(), sets.upper()


def timed(question: str, n: int, ask: Callable[[slice], tuple[Any, ...]]) -> dict[str, Any]:
    """Answer all n sets, and the best rate over a few batch sizes."""
    rate = 0.0
    for size in {min(size, n) for size in BATCHES}:
        for _ in range(REPEATS):
            start = time.perf_counter()
            result = ask(slice(size))
            rate = max(rate, size / (time.perf_counter() - start))
    if len(result[0]) < n:
        result = ask(slice(n))
    return {
        f"{question}/rate": rate,
        f"{question}/answer": np.stack([np.asarray(one) for one in result]),
    }


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
