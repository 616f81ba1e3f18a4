"""ChaosNLI: 3113 sentence pairs with 100 votes each (Nie, Zhou and Bansal, EMNLP 2020, CC BY-NC 4.0)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._validation import check_choice
from credalset.datasets._files import data_file, read_arrays
from credalset.exceptions import FileFormatError

SOURCE = "The votes are in chaosNLI_v1.0.zip (https://github.com/easonnie/ChaosNLI); unpack it into the data folder."
PARTS = ("snli", "mnli_m")
CLASSES = ("entailment", "neutral", "contradiction")
#: features that are known by name: file in the data folder, array in it
FEATURES = {
    "roberta": ("chaosnli_snli_mnli_roberta.npz", "roberta_logits"),
    "minilm": ("chaosnli_snli_mnli.npz", "features"),
}


@dataclass(frozen=True, eq=False, repr=False)
class ChaosNLI:
    """Sentence pairs and the votes on them.

    Attributes
    ----------
    features : ndarray of shape (n, d) or None
        What a learner sees of each pair, if features were asked for.
    counts : ndarray of shape (n, 3)
        Votes for entailment, neutral and contradiction; 100 in every row.
    source, uid : ndarray of n texts
        ``"snli"`` or ``"mnli_m"``, and the name of the pair.
    premises, hypotheses : tuple of n texts
        The sentences.
    classes : tuple of str
        Names of the columns.
    """

    features: FloatArray | None
    counts: IntArray
    source: AnyArray
    uid: AnyArray
    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    classes: tuple[str, ...] = CLASSES

    @property
    def distributions(self) -> FloatArray:
        """Shares of the votes, (n, 3)."""
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
    features : {"roberta", "minilm"} or None
        ``"roberta"``: nine logits per pair, of three fine-tuned RoBERTa models (3083 pairs have them). ``"minilm"``:
        1536 features of sentence embeddings. None: texts and votes only.
    data_dir : path, optional
        Folder with ``chaosNLI_v1.0/`` and the files of features; by default what ``CREDALSET_DATA`` names.

    Returns
    -------
    ChaosNLI
        In the order of the files, snli first. Pairs without features are left out.

    Examples
    --------
    >>> data = load_chaosnli()  # doctest: +SKIP
    >>> data.features.shape, data.counts[0]  # doctest: +SKIP
    ((3083, 9), array([30, 70,  0]))
    """
    check_choice(features, "features", (*FEATURES, None))
    items: list[dict[str, Any]] = []
    for part in PARTS:
        path = data_file(f"chaosNLI_v1.0/chaosNLI_{part}.jsonl", data_dir, SOURCE)
        try:
            items += [json.loads(line) | {"part": part} for line in path.read_text(encoding="utf-8").splitlines()]
        except ValueError as error:
            raise FileFormatError(f"{path} is not a file of ChaosNLI 1.0: {error}") from None
    counts = np.array([[item["label_counter"].get(k, 0) for k in "enc"] for item in items], dtype=np.int64)
    if (counts.sum(axis=1) != 100).any():
        raise FileFormatError(f"{path.parent} is not ChaosNLI 1.0: some pairs do not have 100 votes.")
    uid = np.array([item["uid"] for item in items])
    found, kept = None, np.arange(len(items))
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


def _features(features: str, uid: AnyArray, data_dir: str | Path | None) -> tuple[FloatArray, IntArray]:
    """Return the features of the pairs that have them, and which pairs these are."""
    name, array = FEATURES[features]
    path = data_file(name, data_dir, f"Put it there, or pass features=None for texts and votes ({array}, uid).")
    values, own = read_arrays(path, array, "uid")
    rows = values.reshape(len(values), -1).astype(np.float64)
    row_of = {key: row for row, key in enumerate(own.tolist()) if np.isfinite(rows[row]).all()}
    kept = np.array([i for i, key in enumerate(uid.tolist()) if key in row_of], dtype=np.int64)
    if not len(kept):
        raise FileFormatError(f"{path} has finite features for none of the pairs.")
    return rows[[row_of[uid[i]] for i in kept]], kept
