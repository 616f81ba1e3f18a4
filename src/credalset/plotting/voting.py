"""Votes against what they buy: decided items and widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from credalset.plotting.style import BLUE, DOUBLE, GREEN

PANELS = {"decided": "Decided share", "width": "Mean width"}


def voting(rows: Sequence[Mapping[str, Any]], axes: Sequence[Axes] | None = None) -> list[Axes]:
    """Draw decided share and mean width against the mean number of votes, a policy and the same number for all.

    Parameters
    ----------
    rows : sequence of dict
        What `credalset.VotingPolicy.compare` returns.
    axes : sequence of two Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    list of Axes

    Examples
    --------
    >>> import credalset as cs
    >>> rows = [{"policy": "2 votes", "votes": 2.0, "width": 0.5, "decided": 0.7}]
    >>> rows += [{"policy": "policy", "votes": 1.2, "width": 0.4, "decided": 0.8}]
    >>> [ax.get_ylabel() for ax in cs.plotting.voting(rows)]
    ['Decided share', 'Mean width']
    """
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(1, 2, figsize=(DOUBLE, 2.6), layout="constrained")[1]
    uniform = sorted((row for row in rows if row["policy"] != "policy"), key=lambda row: row["votes"])
    chosen = [row for row in rows if row["policy"] == "policy"]
    for ax, (measure, label) in zip(axes, PANELS.items(), strict=True):
        for part, look, name in ((uniform, "o-", "same number for all"), (chosen, "D", "policy")):
            color = BLUE if part is uniform else GREEN
            ax.plot([r["votes"] for r in part], [r[measure] for r in part], look, color=color, label=name)
        ax.set(xlabel="Mean votes per item", ylabel=label)
    axes[0].legend(frameon=False)
    return list(axes)
