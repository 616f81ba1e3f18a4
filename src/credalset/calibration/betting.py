r"""Is a mean below a level? A bet that is hard to lose if it is, and that nobody can expect to win if it is not.

A gambler starts with one unit and, before each value X of a bounded variable is seen, puts λ ≥ 0 on it lying below r:
the fortune is multiplied by 1 + λ (r − X). While λ (largest − r) ≤ 1 it stays positive, and if E X ≥ r it is not
expected to grow, whatever the law of X. By Ville's inequality it then ever reaches 1 / δ with probability at most δ. So
a fortune of 1 / δ rejects "E X ≥ r" at level δ, exactly, for any number of values (Waudby-Smith and Ramdas, *Estimating
means of bounded random variables by betting*, 2024).

The bet decides only how soon. With n values to come there is a best one: it copies the option that pays 1 / δ if the
mean of a normal sample ends up below r − z σ / √n, and needs about as much evidence as the normal approximation does, z
= 2.33 standard errors at δ = 0.01, where a constant bet needs √(2 log 1/δ) = 3.03.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from credalset._typing import BoolArray, FloatArray

BOLDNESS = 0.9  # of the largest legal bet, so that no single value ruins the gambler
PRIOR = 30.0  # values that the first guess of the spread counts for


def mean_is_below(
    values: FloatArray, level: FloatArray, delta: FloatArray, largest: FloatArray, spread: FloatArray
) -> BoolArray:
    r"""Tell for which variables and levels "the mean is at least the level" can be rejected.

    Parameters
    ----------
    values : array of shape (L, n)
        n independent values of each of L variables; they may be as dependent on each other as they like.
    level, delta : arrays of shape (R,)
        Levels r, and how often a test may err if the mean is at least r.
    largest : array of shape (L,)
        A number that the variable cannot exceed, known without the values. Levels above it are below the mean for sure.
    spread : array of shape (L,)
        A guess of the standard deviations, made without the values. A bad one costs power, never validity.

    Returns
    -------
    ndarray of bool of shape (L, R)

    Examples
    --------
    >>> coin = np.random.default_rng(1).random((1, 1000)) < 0.4
    >>> one = np.ones(1)
    >>> mean_is_below(coin.astype(float), np.array([0.40, 0.46]), 0.01 * np.ones(2), one, 0.5 * one)
    array([[False,  True]])
    """
    n = values.shape[1]
    room = largest[:, None] - level
    bound = BOLDNESS / np.where(room > 0, room, np.inf)
    won = np.broadcast_to(room <= 0, room.shape).copy()
    fortune = np.broadcast_to(delta, won.shape).copy()  # in units of 1 / δ: rejected at one
    squares = np.broadcast_to(PRIOR * spread[:, None] ** 2, won.shape).copy()
    for i in range(n):
        gain = level - values[:, i, None]
        deviation = np.sqrt(squares / (PRIOR + i))
        goal = -ndtri(fortune)  # how many standard errors the option is from paying
        with np.errstate(divide="ignore", over="ignore"):
            hedge = np.exp(-0.5 * goal**2) / (fortune * deviation * np.sqrt(2.0 * np.pi * (n - i)))
        bet = np.where(won, 0.0, np.minimum(hedge, bound))
        fortune = np.clip(fortune * (1.0 + bet * gain), 1e-200, 1.0)
        won |= fortune >= 1.0
        squares += gain**2
    return won
