"""CIFAR-10H: human votes on the 10 000 CIFAR-10 test images (Peterson et al., ICCV 2019, CC BY-NC-SA 4.0)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import softmax

from credalset._typing import FloatArray, IntArray
from credalset._validation import as_counts
from credalset.datasets._files import data_file, read_arrays
from credalset.exceptions import FileFormatError

MODEL = "cifar10h_model_a.npz"
SOURCE = (
    "It holds the arrays counts (cifar10h-counts.npy of https://github.com/jcpeterson/cifar-10h), and logits, features "
    "and labels of a CIFAR-10 classifier for the test images, in their order."
)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True, eq=False, repr=False)
class CIFAR10H:
    """Votes on the CIFAR-10 test images and the outputs of a classifier, in the order of the test set.

    Attributes
    ----------
    counts : ndarray of shape (10000, 10)
        Votes per class, 47 to 63 in a row.
    logits : ndarray of shape (10000, 10)
        Outputs of a CIFAR-10 classifier.
    features : ndarray of shape (10000, d)
        Input of that classifier's last layer.
    labels : ndarray of shape (10000,)
        CIFAR-10 labels.
    classes : tuple of str
        Names of the columns.
    """

    counts: IntArray
    logits: FloatArray
    features: FloatArray
    labels: IntArray
    classes: tuple[str, ...] = CLASSES

    @property
    def distributions(self) -> FloatArray:
        """Shares of the votes, (10000, 10)."""
        return self.counts / self.counts.sum(axis=1, keepdims=True)

    @property
    def probabilities(self) -> FloatArray:
        """Softmax of the logits."""
        return np.asarray(softmax(self.logits, axis=1))

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        return f"CIFAR10H: {len(self)} images, 10 classes, votes and a classifier's logits"


def load_cifar10h(data_dir: str | Path | None = None) -> CIFAR10H:
    """Load CIFAR-10H from a folder.

    Parameters
    ----------
    data_dir : path, optional
        Folder with ``cifar10h_model_a.npz``; by default what ``CREDALSET_DATA`` names.

    Examples
    --------
    >>> load_cifar10h()  # doctest: +SKIP
    CIFAR10H: 10000 images, 10 classes, votes and a classifier's logits
    """
    path = data_file(MODEL, data_dir, SOURCE)
    counts, logits, features, labels = read_arrays(path, "counts", "logits", "features", "labels")
    n = len(counts)
    if counts.shape != (n, len(CLASSES)) or logits.shape != counts.shape or len(features) != n or labels.shape != (n,):
        raise FileFormatError(f"{path} does not hold 10 counts, 10 logits, features and a label per image.")
    votes = as_counts(counts, str(path)).astype(np.int64)
    return CIFAR10H(votes, logits.astype(np.float64), features.astype(np.float64), labels.astype(np.int64))
