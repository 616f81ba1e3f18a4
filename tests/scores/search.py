"""A local search for members by SciPy's SLSQP, from many starts:
it shares nothing with the closed forms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from credalset.scores import Score


def smallest(
    value: Callable[[np.ndarray], float],
    score: Score,
    prediction: np.ndarray,
    threshold: float,
    n_starts: int = 8,
) -> float:
    """The smallest value found among members of one set;
    starts lie between the best fit and random points.
    """
    rng, k = np.random.default_rng(0), prediction.shape[-1]
    best_fit = score.best_fit(score.check_prediction(prediction[None]))[0]

    def excess(point: np.ndarray) -> float:
        point = np.maximum(point, 1e-15)
        return threshold - float(
            score.evaluate_rows(prediction[None], (point / point.sum())[None])[0]
        )

    best = value(best_fit)
    for start in rng.dirichlet(np.full(k, 0.5), n_starts):
        share = next(
            s
            for s in (1.0, 0.5, 0.2, 0.05, 0.0)
            if s == 0 or excess(best_fit + s * (start - best_fit)) >= 0
        )
        found = minimize(
            lambda x: value(np.maximum(x, 1e-15)),
            best_fit + share * (start - best_fit),
            bounds=[(1e-15, 1.0)] * k,
            constraints=[
                {"type": "eq", "fun": lambda x: x.sum() - 1.0},
                {"type": "ineq", "fun": excess},
            ],
            options={"maxiter": 300, "ftol": 1e-13},
        )
        point = np.maximum(found.x, 1e-15) / np.maximum(found.x, 1e-15).sum()
        if excess(point) >= -1e-9:
            best = min(best, value(point))
    return float(best)


def spread_centers(n: int, k: int, seed: int = 0) -> np.ndarray:
    """Flat, ordinary, sharp and one-hot distributions, some with zeros, some tied: (n, k)."""
    rng = np.random.default_rng(seed)
    centers = np.concatenate([rng.dirichlet(np.full(k, c), -(-n // 3)) for c in (0.2, 1.0, 10.0)])[
        :n
    ]
    centers[0], centers[1] = np.eye(k)[0], np.full(k, 1.0 / k)
    centers[2] = np.r_[0.5, 0.5, np.zeros(k - 2)]
    centers[3:5, 1] = 0.0
    return centers / centers.sum(axis=1, keepdims=True)
