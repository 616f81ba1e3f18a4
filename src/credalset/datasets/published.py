"""Loaders of ChaosNLI and CIFAR-10H, published votes of real annotators."""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._validation import as_counts, check_choice
from credalset.exceptions import FileFormatError

ENVIRONMENT = "CREDALSET_DATA"
#: what NumPy raises on damaged files
UNREADABLE = (
    *(ValueError, KeyError, EOFError, OSError, RuntimeError, MemoryError, SyntaxError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)


class DataNotFoundError(FileNotFoundError):
    """A file is missing in the data folder; the message says where to get and put it."""


def data_file(name: str, data_dir: str | Path | None, source: str) -> Path:
    """Return the path of a file in the data folder, by default the one in ``CREDALSET_DATA``."""
    named = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT)
    if not named:
        raise DataNotFoundError(
            f"data_dir is missing: name the folder that has {name} with data_dir or the "
            f"environment variable {ENVIRONMENT}. {source}"
        )
    path = Path(named) / name
    if not path.is_file():
        raise DataNotFoundError(f"there is no {path}. {source}")
    return path


def read_arrays(path: Path, *names: str) -> list[AnyArray]:
    """Read arrays from an ``.npz`` file."""
    try:
        with path.open("rb") as stream:  # opened here: NumPy leaves a damaged archive open
            loaded = np.load(stream, allow_pickle=False)
            return [loaded[name] for name in names]
    except UNREADABLE as error:
        raise FileFormatError(
            f"{path} cannot be read ({error or type(error).__name__}): it needs the arrays "
            f"{', '.join(names)}."
        ) from None


NLI_SOURCE = (
    "The votes are in chaosNLI_v1.0.zip (https://github.com/easonnie/ChaosNLI); "
    "unpack it into the data folder."
)
PARTS = ("snli", "mnli_m")
NLI_CLASSES = ("entailment", "neutral", "contradiction")
#: files in the data folder, and the arrays in them
FEATURES = {
    "roberta": ("chaosnli_snli_mnli_roberta.npz", "roberta_logits"),
    "minilm": ("chaosnli_snli_mnli.npz", "features"),
    "deberta": ("chaosnli_snli_mnli_deberta.npz", "deberta"),
}


@dataclass(frozen=True, eq=False, repr=False)
class ChaosNLI:
    """Sentence pairs and the votes on them.

    Attributes
    ----------
    features : ndarray of shape (n, d) or None
        Features of each pair, if they were loaded.
    counts : ndarray of shape (n, 3)
        Votes for entailment, neutral and contradiction; 100 in every row.
    source : ndarray of n str
        Part of the data, ``"snli"`` or ``"mnli_m"``.
    uid : ndarray of n str
        Name of each pair.
    premises : tuple of n str
        The first sentences.
    hypotheses : tuple of n str
        The second sentences.
    classes : tuple of str
        Names of the columns.
    """

    features: FloatArray | None
    counts: IntArray
    source: AnyArray
    uid: AnyArray
    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    classes: tuple[str, ...] = NLI_CLASSES

    @property
    def distributions(self) -> FloatArray:
        """Recorded label distributions (shares of the votes), (n, 3)."""
        return self.counts / self.counts.sum(axis=1, keepdims=True)

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        width = "no features" if self.features is None else f"{self.features.shape[1]} features"
        return f"ChaosNLI: {len(self)} pairs, {width}, 3 classes, 100 votes each"


def load_chaosnli(features: str | None = "roberta", data_dir: str | Path | None = None) -> ChaosNLI:
    """Load the SNLI and MNLI parts of ChaosNLI from a folder.

    Parameters
    ----------
    features : {"roberta", "minilm", "deberta"} or None
        ``"roberta"``: nine logits of three fine-tuned RoBERTa models, for 3083 pairs. ``"minilm"``:
        1536 features of sentence embeddings. ``"deberta"``: the 768 features of the paper. None:
        texts and votes only.
    data_dir : str or Path, optional
        Folder with ``chaosNLI_v1.0/`` and the files of features; by default that of the environment
        variable ``CREDALSET_DATA``.

    Returns
    -------
    ChaosNLI
        Pairs in the order of the files, snli first, without those that have no features.

    Examples
    --------
    >>> data = load_chaosnli()  # doctest: +SKIP
    >>> data.features.shape, data.counts[0]  # doctest: +SKIP
    ((3083, 9), array([30, 70,  0]))
    """
    check_choice(features, "features", (*FEATURES, None))
    items: list[dict[str, Any]] = []
    for part in PARTS:
        path = data_file(f"chaosNLI_v1.0/chaosNLI_{part}.jsonl", data_dir, NLI_SOURCE)
        try:
            items += [
                json.loads(line) | {"part": part}
                for line in path.read_text(encoding="utf-8").splitlines()
            ]
        except ValueError as error:
            raise FileFormatError(f"{path} is not a file of ChaosNLI 1.0: {error}") from None
    counts = np.array(
        [[item["label_counter"].get(k, 0) for k in "enc"] for item in items], dtype=np.int64
    )
    if (counts.sum(axis=1) != 100).any():
        raise FileFormatError(
            f"{path.parent} is not ChaosNLI 1.0: some pairs do not have 100 votes."
        )
    uid = np.array([item["uid"] for item in items])
    found = None
    kept = np.arange(len(items))
    if features is not None:
        found, kept = _features(features, uid, data_dir)
    texts = [items[i]["example"] for i in kept]
    return ChaosNLI(
        found,
        counts[kept],
        np.array([items[i]["part"] for i in kept]),
        uid[kept],
        tuple(text["premise"] for text in texts),
        tuple(text["hypothesis"] for text in texts),
    )


def _features(
    features: str, uid: AnyArray, data_dir: str | Path | None
) -> tuple[FloatArray, IntArray]:
    """Return the features of the pairs that have them, and the positions of these pairs."""
    name, array = FEATURES[features]
    path = data_file(
        name, data_dir, f"Put it there, or pass features=None for texts and votes ({array}, uid)."
    )
    values, own = read_arrays(path, array, "uid")
    rows = values.reshape(len(values), -1).astype(np.float64)
    row_of = {key: row for row, key in enumerate(own.tolist()) if np.isfinite(rows[row]).all()}
    kept = np.array([i for i, key in enumerate(uid.tolist()) if key in row_of], dtype=np.int64)
    if not len(kept):
        raise FileFormatError(f"{path} has finite features for none of the pairs.")
    return rows[[row_of[uid[i]] for i in kept]], kept


COUNTS = "cifar10h-counts.npy"  # as published
#: files with outputs of models for the test images, in their order
MODELS = {"a": "cifar10h_model_a.npz", "clip": "cifar10h_clip.npz"}
CIFAR_SOURCE = (
    "Votes are in cifar10h-counts.npy of https://github.com/jcpeterson/cifar-10h; files of models "
    "hold the array logits, maybe features, labels and counts, for the test images in their order."
)
CIFAR_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


@dataclass(frozen=True, eq=False, repr=False)
class CIFAR10H:
    """Votes on the CIFAR-10 test images and outputs of a classifier, in the order of the test set.

    Attributes
    ----------
    counts : ndarray of shape (10000, 10)
        Votes per class, 47 to 63 in a row.
    logits : ndarray of shape (10000, 10) or None
        Outputs of a classifier, if they were loaded.
    features : ndarray of shape (10000, d) or None
        Input of that classifier's last layer, if its file has them.
    labels : ndarray of shape (10000,) or None
        CIFAR-10 labels, if the file of the classifier has them.
    classes : tuple of str
        Names of the columns.
    """

    counts: IntArray
    logits: FloatArray | None = None
    features: FloatArray | None = None
    labels: IntArray | None = None
    classes: tuple[str, ...] = CIFAR_CLASSES

    @property
    def distributions(self) -> FloatArray:
        """Recorded label distributions (shares of the votes), (10000, 10)."""
        return self.counts / self.counts.sum(axis=1, keepdims=True)

    @property
    def probabilities(self) -> FloatArray:
        """Softmax of the logits, (10000, 10)."""
        if self.logits is None:
            raise ValueError("there are no logits: load them with model='a' or 'clip'.")
        return np.asarray(softmax(self.logits, axis=1))

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        outputs = "" if self.logits is None else " and a classifier's logits"
        return f"CIFAR10H: {len(self)} images, 10 classes, votes{outputs}"


def load_cifar10h(data_dir: str | Path | None = None, *, model: str | None = "a") -> CIFAR10H:
    """Load CIFAR-10H from a folder.

    Votes are read from ``cifar10h-counts.npy``, as published, if the folder has it, and otherwise
    from the file of the model.

    Parameters
    ----------
    data_dir : str or Path, optional
        Folder with the files; by default that of the environment variable ``CREDALSET_DATA``.
    model : {"a", "clip"} or None
        Classifier whose outputs are loaded, from ``cifar10h_model_a.npz`` or ``cifar10h_clip.npz``;
        None for the votes alone.

    Returns
    -------
    CIFAR10H

    Examples
    --------
    >>> load_cifar10h()  # doctest: +SKIP
    CIFAR10H: 10000 images, 10 classes, votes and a classifier's logits
    """
    check_choice(model, "model", (*MODELS, None))
    named = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT)
    has_counts = bool(named) and (Path(str(named)) / COUNTS).is_file()
    path = data_file(COUNTS if model is None else MODELS[model], data_dir, CIFAR_SOURCE)
    found = {} if model is None else read_file(path, ("logits", "features", "labels", "counts"))
    if has_counts or model is None:
        counts: Any = _read_array(data_file(COUNTS, data_dir, CIFAR_SOURCE))
    else:
        counts = found.get("counts")
    logits, features, labels = (found.get(name) for name in ("logits", "features", "labels"))
    n = 0 if counts is None else len(counts)
    known = [array for array in (logits, features, labels) if array is not None]
    if (
        counts is None
        or np.shape(counts) != (n, len(CIFAR_CLASSES))
        or (model is not None and (logits is None or logits.shape != counts.shape))
        or any(len(array) != n for array in known)
    ):
        raise FileFormatError(
            f"{path} does not hold 10 counts and 10 logits per image, and features or a label for "
            "each if there are any."
        )
    return CIFAR10H(
        as_counts(counts, str(path)).astype(np.int64),
        None if logits is None else logits.astype(np.float64),
        None if features is None else features.astype(np.float64),
        None if labels is None else labels.astype(np.int64),
    )


def read_file(path: Path, names: Sequence[str]) -> dict[str, AnyArray]:
    """Read the arrays of these names that an ``.npz`` file has."""
    try:
        with path.open("rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            return {name: loaded[name] for name in names if name in loaded}
    except UNREADABLE as error:
        raise FileFormatError(
            f"{path} cannot be read ({error or type(error).__name__}) as an .npz file."
        ) from None


def _read_array(path: Path) -> AnyArray:
    """Read an ``.npy`` file."""
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except UNREADABLE as error:
        raise FileFormatError(
            f"{path} cannot be read ({error or type(error).__name__}) as an .npy file."
        ) from None
