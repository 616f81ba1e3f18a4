"""Sets of labels, for systems that hand out labels rather than distributions.

From the same predictions and votes as credal sets: `conformalize` promises the label of an annotator asked at random,
or the majority label, with probability 1 − α; `majority_labels` and `annotator_labels` read labels off credal sets, and
inherit what those promise.
"""

from __future__ import annotations

from credalset.labels.calibration import LabelCalibration, conformalize
from credalset.labels.from_credal_sets import annotator_labels, majority_labels
from credalset.labels.label_sets import LabelSets

__all__ = ["LabelCalibration", "LabelSets", "annotator_labels", "conformalize", "majority_labels"]
