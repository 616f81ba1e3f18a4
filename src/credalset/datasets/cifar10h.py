"""CIFAR-10H: human votes on the 10 000 CIFAR-10 test images (Peterson et al., ICCV 2019, CC BY-NC-SA 4.0)."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import softmax

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset.datasets.download import UNREADABLE, data_folder, fetch, reading
from credalset.exceptions import FileFormatError

URL = "https://raw.githubusercontent.com/jcpeterson/cifar-10h/master/data/cifar10h-counts.npy"
COUNTS, MODEL = "cifar10h-counts.npy", "cifar10h_model_a.npz"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_LARGEST_FILE = 2_000_000
N_ITEMS, VOTES_PER_ITEM, VOTES = 10_000, (47, 63), (510_500, 512_000)


@dataclass(frozen=True, eq=False, repr=False)
class CIFAR10H:
    """Votes on the CIFAR-10 test images, in the order of the test set.

    Attributes
    ----------
    counts : ndarray of shape (10000, 10)
        Votes per class, 47 to 63 in a row.
    logits : ndarray of shape (10000, 10) or None
        What a CIFAR-10 classifier says about the images, if the data folder has it.
    features : ndarray of shape (10000, d) or None
        Input of that classifier's last layer.
    labels : ndarray of shape (10000,) or None
        CIFAR-10 labels.
    classes : tuple of str
        Names of the columns.
    """

    counts: IntArray
    logits: FloatArray | None = None
    features: FloatArray | None = None
    labels: IntArray | None = None
    classes: tuple[str, ...] = CLASSES

    @property
    def distributions(self) -> FloatArray:
        """Shares of the votes, (10000, 10)."""
        return self.counts / self.counts.sum(axis=1, keepdims=True)

    @property
    def probabilities(self) -> FloatArray | None:
        """Softmax of the logits."""
        return None if self.logits is None else softmax(self.logits, axis=1)

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        what = "votes only" if self.logits is None else "votes and a classifier's logits"
        return f"CIFAR10H: {len(self)} images, 10 classes, {what}"


def load_cifar10h(data_dir: str | Path | None = None, *, download: bool = True) -> CIFAR10H:
    """Load CIFAR-10H, from a folder or (the votes) from its public source.

    Parameters
    ----------
    data_dir : path, optional
        Folder with ``cifar10h_model_a.npz`` (votes, logits, features and labels) or ``cifar10h-counts.npy`` (votes, as
        published); by default ``CREDALSET_DATA``, or a cache in the home folder.
    download : bool
        Whether to fetch the votes (about 0.8 MB) when the folder has neither.

    Examples
    --------
    >>> load_cifar10h()  # doctest: +SKIP
    CIFAR10H: 10000 images, 10 classes, votes and a classifier's logits
    """
    folder = data_folder(data_dir)
    if (folder / MODEL).is_file():
        return _read_model(folder / MODEL)
    return CIFAR10H(_counts(folder, download))


def _read_model(path: Path) -> CIFAR10H:
    with reading(path, "counts, logits, features and labels") as arrays:
        counts, logits, features, labels = (arrays[name] for name in ("counts", "logits", "features", "labels"))
    checked = _check(counts, str(path))
    if logits.shape != checked.shape or len(features) != len(checked) or labels.shape != (len(checked),):
        raise FileFormatError(f"{path} does not hold one row of logits, features and labels per image; make it again.")
    if logits.dtype.kind not in "iuf" or not np.isfinite(logits).all():
        raise FileFormatError(f"{path} holds logits that are not finite numbers; make it again.")
    return CIFAR10H(checked, logits.astype(np.float64), features.astype(np.float64), labels.astype(np.int64))


def _counts(folder: Path, may_download: bool) -> IntArray:
    path = folder / COUNTS
    if path.is_file():
        return _parse(path.read_bytes(), str(path))
    files = fetch(
        "CIFAR-10H",
        URL,
        folder,
        largest=_LARGEST_FILE,
        missing=f"neither {MODEL} nor {COUNTS} is there",
        put=f" and put it into {folder} as {COUNTS}",
        unpack=_as_file,
        may_download=may_download,
    )
    return _parse(files[COUNTS], URL)


def _as_file(data: bytes) -> dict[str, bytes]:
    _parse(data, f"what {URL} sent")
    return {COUNTS: data}


def _parse(data: bytes, name: str) -> IntArray:
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except UNREADABLE as error:
        raise FileFormatError(f"{name} is not a NumPy array: {error}. Fetch it again.") from None
    return _check(np.asarray(array), name)


def _check(counts: AnyArray, name: str) -> IntArray:
    """Check the contents: the published file states no checksum, but these numbers are known."""
    if counts.shape != (N_ITEMS, len(CLASSES)) or counts.dtype.kind not in "iuf":
        found = f"{counts.dtype} of shape {counts.shape}"
        raise FileFormatError(f"{name} is not CIFAR-10H: it holds {found} instead of 10000 rows of 10 counts.")
    if not np.isfinite(counts).all() or (counts < 0).any() or (counts != np.rint(counts)).any():
        raise FileFormatError(f"{name} is not CIFAR-10H: some counts are not whole numbers of votes. Fetch it again.")
    votes = counts.sum(axis=1)
    low, high = VOTES_PER_ITEM
    if votes.min() < low or votes.max() > high or not VOTES[0] <= votes.sum() <= VOTES[1]:
        raise FileFormatError(
            f"{name} is not CIFAR-10H: rows hold {votes.min():.0f} to {votes.max():.0f} votes and {votes.sum():.0f} in "
            f"all, where {low} to {high} and about 511 000 are known. Fetch it again."
        )
    return counts.astype(np.int64)
