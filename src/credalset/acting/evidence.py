"""What a review knows item by item beside its queue: for the page, and for other errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset.acting.rules import Certified
from credalset.acting.sentences import votes_depend
from credalset.acting.standing import Standing
from credalset.acting.table import Table, Terms
from credalset.calibration.base import Inputs
from credalset.crowd import CrowdCalibration
from credalset.crowd.accept import contradiction
from credalset.sets import Queue


@dataclass(frozen=True, eq=False)
class AtError:
    """Where all items stand for one of the errors that were tested.

    Attributes
    ----------
    error : float
        Largest mean error of accepted labels.
    queue : Queue
        The next step of each item.
    certified : ndarray of shape (N,)
        Items whose accepted labels are proved.
    votes_to_come : tuple of float
        Expected further votes where it is asked, and the ends of an interval of 90 %.
    by_votes : ndarray of shape (A, 2)
        Votes bought where it is asked, and the share of items that is accepted then: a forecast.
    by_even_votes : ndarray of shape (A, 2)
        The same if every item got as many further votes.
    """

    error: float
    queue: Queue
    certified: BoolArray
    votes_to_come: tuple[float, float, float]
    by_votes: FloatArray
    by_even_votes: FloatArray


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the decisions rest on, item by item.

    Attributes
    ----------
    prediction : ndarray of shape (N, K)
        What is predicted without votes, by the rule that treats the item.
    p_values : ndarray of shape (N,)
        How well the votes on an item agree with the label that is predicted; see
        `credalset.crowd.accept.contradiction`.
    calibration : CrowdCalibration
        What predicts the sets.
    inputs : Inputs
        What they are predicted from.
    alpha : float
        Their level.
    scale : tuple or None
        Position of each class on an ordinal scale.
    checks : tuple of tuples
        Status, claim and evidence of everything that the result rests on.
    """

    prediction: FloatArray
    p_values: FloatArray
    calibration: CrowdCalibration
    inputs: Inputs
    alpha: float
    scale: tuple[float, ...] | None
    checks: tuple[tuple[str, str, str], ...]


def collect_evidence(
    table: Table,
    rules: Certified,
    terms: Terms,
    standing: Standing,
    calibration: CrowdCalibration,
    inputs: Inputs,
    alpha: float,
) -> Evidence:
    """Collect what the decisions rest on."""
    prediction = np.empty_like(table.counts)
    p_values = np.ones(len(table))
    for number, fit in enumerate(rules.table.fits):
        rows = np.flatnonzero(rules.table.rule == number)
        own = fit.given[rows]
        prediction[rows] = own
        p_values[rows] = contradiction(
            fit.law, fit.prediction[rows], table.counts[rows], own.argmax(axis=1)
        )
    checks = _checks(table, terms, standing)
    return Evidence(prediction, p_values, calibration, inputs, alpha, table.scale, checks)


def _checks(table: Table, terms: Terms, standing: Standing) -> tuple[tuple[str, str, str], ...]:
    """Return what accepting rests on: status, claim, and evidence."""
    what = "cost" if terms.claim.loss.name == "cost" else "disagreement"
    bound = (
        f"The mean {what} of accepted labels with another annotator is at most "
        f"{terms.shown_error:g}."
    )
    status = "testable" if standing.proof == "none" else "tested"
    found = [(status, bound, standing.sentence)]
    number = table.counts.sum(axis=1)
    numbers = "The number of votes on an item was not chosen by how they came out."
    if len(np.unique(number[number > 0])) > 1:
        seen = votes_depend(table.counts)
        seen = seen or "Annotators agree about equally often on items with few and many votes."
        found.append(("tested", numbers, seen))
    else:
        found.append(("assumed", numbers, "All items with votes have equally many."))
    if table.units is None:
        found.append(("assumed", "Items are independent.", "Else name clusters of items."))
    else:
        found.append(("assumed", "Clusters of items are independent.", ""))
    pool = "Votes on an item are interchangeable draws from one pool, and so are further votes."
    found.append(("assumed", pool, ""))
    if table.source.given:
        made = "Predictions were made without the votes of these items."
        found.append(("assumed", made, "Only you know."))
    each = "A single label, or labels of another step: the claim is a mean over accepted labels."
    found.append(("not claimed", each, ""))
    return tuple(found)
