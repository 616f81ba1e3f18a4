"""Labels read off credal sets, with the guarantee that they inherit."""

from __future__ import annotations

import numpy as np

from credalset._validation import as_probability
from credalset.labels.label_sets import LabelSets
from credalset.sets.credal_set import CredalSet
from credalset.sets.region import TIE


def majority_labels(sets: CredalSet) -> LabelSets:
    r"""Return the labels that some member of each set makes the most probable one (E-admissible labels).

    If the set contains λ with probability 1 − α, then with at least that probability its labels contain *every* most
    probable label of λ: each is optimal under the member λ itself. Nothing follows for a label that an annotator gives:
    a set that is sure of (0.6, 0.4) keeps one label, and four annotators in ten give the other.

    Parameters
    ----------
    sets : CredalSet
        Predicted sets. Made by plain calibration they promise the majority of recorded votes; made with a noise model,
        the majority behind the votes.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> majority_labels(TotalVariation().region([[0.6, 0.4, 0.0], [0.5, 0.4, 0.1]], 0.08)).names()
    [[0], [0, 1]]
    """
    return LabelSets(sets.decide("e-admissible"), sets.classes, sets.items)


def annotator_labels(sets: CredalSet, share: float = 0.9) -> LabelSets:
    r"""Return few labels that together hold at least a share of the votes under *every* member of each set.

    If the set contains λ with probability 1 − α, then with at least that probability *this item's* annotators give a
    label of the set with probability ``share`` or more, and so for every share at once: one credal set answers them
    all. Where one share is enough, and that of recorded votes, ``labels.conformalize(..., target=share)`` has smaller
    sets. An annotator asked at random gives a label of the set with probability at least
    $(1 - \alpha) \cdot \text{share}$.

    Labels are added from the largest mean of lower and upper probability on, until the lower probability of all
    together reaches the share. That gives the fewest labels for balls of total variation, and few for others.

    Parameters
    ----------
    sets : CredalSet
        Predicted sets. An empty one has no labels.
    share : float
        Share of the annotators, in (0, 1).

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> annotator_labels(TotalVariation().region([[0.6, 0.4, 0.0], [0.95, 0.05, 0.0]], 0.03)).names()
    [[0, 1], [0]]
    """
    wanted = as_probability(share, "share") - TIE
    members = np.zeros((len(sets), sets.n_classes), dtype=bool)
    asked = np.flatnonzero(~sets.is_empty())
    lower, upper = sets[asked].envelope()
    order = np.argsort(-(lower + upper), axis=1, kind="stable")
    for place in range(sets.n_classes):
        if not len(asked):
            break
        members[asked, order[:, place]] = True
        short = sets[asked].lower_expectation(members[asked].astype(float)) < wanted
        asked, order = asked[short], order[short]
    return LabelSets(members, sets.classes, sets.items)
