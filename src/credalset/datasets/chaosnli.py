"""ChaosNLI: 3113 sentence pairs with 100 votes each (Nie, Zhou and Bansal, EMNLP 2020, CC BY-NC 4.0)."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset.datasets.download import DataNotFoundError, data_folder, fetch, reading
from credalset.exceptions import FileFormatError

URL = "https://www.dropbox.com/s/h4j7dqszmpt2679/chaosNLI_v1.0.zip?dl=1"
FOLDER = "chaosNLI_v1.0"
CLASSES = ("entailment", "neutral", "contradiction")
#: SHA-256 of the two files of version 1.0 that hold three-class items
SHA256 = {
    "chaosNLI_snli.jsonl": "99f9015ddda7d85f66a087452bc30d53974314fe27e7d589e2f41ad44bd509c1",
    "chaosNLI_mnli_m.jsonl": "8eb49b589488e7b1a9ec95fb8a864bd50f0509b4f808eed0aed3f8167617664d",
}
_LARGEST_ARCHIVE, _LARGEST_FILE = 50_000_000, 2_000_000
#: feature sets that are known by name: file in the data folder, array in it
FEATURE_FILES = {
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


def load_chaosnli(
    features: str | Path | None = None,
    data_dir: str | Path | None = None,
    *,
    encoder: str | None = None,
    download: bool = True,
) -> ChaosNLI:
    """Load the SNLI and MNLI parts of ChaosNLI, from a folder or from their public source.

    Parameters
    ----------
    features : {"roberta", "minilm"}, path or None
        ``"roberta"``: nine logits per pair of three fine-tuned RoBERTa models (3083 pairs have them); ``"minilm"``:
        1536 sentence-embedding features. Both are files that have to be in the data folder. A path: an ``.npy``
        array with a row per pair in file order (snli, then mnli_m), or an ``.npz`` with ``features`` and ``uid``.
        None: texts and votes only.
    data_dir : path, optional
        Folder with the data; by default ``CREDALSET_DATA``, or a cache in the home folder.
    encoder : str, optional
        Instead of ``features``: a model of the Hugging Face hub that reads the pairs (extra ``nli``), such as the
        paper's ``"cross-encoder/nli-deberta-base"``. Its features are kept in the data folder.
    download : bool
        Whether to fetch the votes (about 4 MB) when the folder does not have them.

    Returns
    -------
    ChaosNLI
        In the order of the files, snli first. Pairs without features are left out.

    Examples
    --------
    >>> data = load_chaosnli("roberta")  # doctest: +SKIP
    >>> data.features.shape, data.counts[0]  # doctest: +SKIP
    ((3083, 9), array([30, 70,  0]))
    """
    if features is not None and encoder is not None:
        raise ValueError(f"features ({str(features)!r}) and encoder ({encoder!r}) were both given. Pass one of them.")
    if features is not None and str(features) not in FEATURE_FILES and Path(features).is_dir():
        raise ValueError(
            f"features must be a name or a file, but {str(features)!r} is a folder. Pass a folder with the data as "
            f"data_dir={str(features)!r}."
        )
    folder = data_folder(data_dir)
    data = _parse(_files(folder, download))
    if encoder is not None:
        from credalset.datasets.encoding import encode_pairs

        return _with_features(data, encode_pairs(data.premises, data.hypotheses, encoder, folder / "encoded"), None)
    if features is None:
        return data
    return _with_features(data, *_read_features(features, folder))


def _files(folder: Path, may_download: bool) -> Mapping[str, bytes]:
    """Return both files by name: from the folder or, if one of them is missing there, from the public source."""
    paths = {name: path for name in SHA256 for path in (folder / name, folder / FOLDER / name) if path.is_file()}
    complaint = "{} is not the file of ChaosNLI 1.0"
    files = {name: _check(path.read_bytes(), name, complaint.format(path)) for name, path in paths.items()}
    missing = [name for name in SHA256 if name not in files]
    if missing:
        fetched = fetch(
            "ChaosNLI",
            URL,
            folder,
            largest=_LARGEST_ARCHIVE,
            missing=f"{missing[0]} is missing",
            put=f", unpack it, and put {' and '.join(SHA256)} into {folder / FOLDER}",
            unpack=lambda archive: {f"{FOLDER}/{name}": _unpack(archive, name) for name in SHA256},
            may_download=may_download,
        )
        files = {name: fetched[f"{FOLDER}/{name}"] for name in SHA256}
    return files


def _unpack(archive: bytes, name: str) -> bytes:
    """Take one file out of the archive, wherever it lies in there; nothing else is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            member = next(m for m in opened.infolist() if m.filename.rsplit("/", 1)[-1] == name)
            if member.file_size > _LARGEST_FILE:
                raise ValueError("too large")
            data = opened.read(member)
    except (zipfile.BadZipFile, StopIteration, ValueError, NotImplementedError) as error:
        reason = "it is missing" if isinstance(error, StopIteration) else str(error)
        raise DataNotFoundError(f"what {URL} sent is not ChaosNLI 1.0: {name} cannot be read ({reason}).") from None
    return _check(data, name, f"what {URL} sent is not ChaosNLI 1.0")


def _check(data: bytes, name: str, complaint: str) -> bytes:
    seen = hashlib.sha256(data).hexdigest()
    if seen != SHA256[name]:
        raise FileFormatError(f"{complaint}: its SHA-256 is {seen}, not {SHA256[name]}. Delete it and fetch it again.")
    return data


def _parse(files: Mapping[str, bytes]) -> ChaosNLI:
    items: list[dict[str, Any]] = []
    source: list[str] = []
    for name, data in files.items():
        lines = data.decode("utf-8").splitlines()
        items += [json.loads(line) for line in lines]
        source += [name.removeprefix("chaosNLI_").removesuffix(".jsonl")] * len(lines)
    counts = np.array([[item["label_counter"].get(k, 0) for k in "enc"] for item in items], dtype=np.int64)
    examples = [item["example"] for item in items]
    return ChaosNLI(
        None,
        counts,
        np.array(source),
        np.array([item["uid"] for item in items]),
        tuple(example["premise"] for example in examples),
        tuple(example["hypothesis"] for example in examples),
    )


def _read_features(features: str | Path, folder: Path) -> tuple[FloatArray, AnyArray | None]:
    """Return features with a row per pair and, if the file has them, the names of the pairs."""
    known = FEATURE_FILES.get(str(features))
    path = folder / known[0] if known is not None else Path(features)
    if not path.is_file():
        names = ", ".join(map(repr, FEATURE_FILES))
        where = f"Put it into {folder}" if known is not None else f"Pass {names}, or the path of an .npz or .npy file"
        raise DataNotFoundError(
            f"features {str(features)!r}: there is no file {path}, and it has no public source. {where}, or have an "
            "encoder compute features (encoder='cross-encoder/nli-deberta-base', extra 'nli')."
        )
    needed = known[1] if known is not None else "features"
    with reading(path, f"{needed} and uid") as loaded:
        is_array = isinstance(loaded, np.ndarray)
        array = np.asarray(loaded if is_array else loaded[needed], dtype=np.float64)
        uid = None if is_array else loaded.get("uid")
    if not np.isfinite(array).any():
        raise FileFormatError(f"{path} holds no finite feature. Compute the features again.")
    return array if array.ndim < 2 else array.reshape(len(array), -1), uid


def _with_features(data: ChaosNLI, features: FloatArray, uid: AnyArray | None) -> ChaosNLI:
    """Join features to the pairs by name, or by position where there are no names."""
    if features.ndim != 2:
        raise ValueError(f"features must have one row per pair, but has shape {features.shape}.")
    if uid is None:
        if len(features) != len(data):
            raise ValueError(
                f"features has {len(features)} rows, but there are {len(data)} pairs. Pass one row per pair, or an "
                ".npz with uid that says which pair each row is."
            )
        uid = data.uid
    if uid.shape != (len(features),):
        raise ValueError(f"features has {len(features)} rows, but uid has shape {uid.shape}. Pass one name per row.")
    row_of = {name: row for row, name in enumerate(uid.tolist())}
    usable = np.asarray(np.isfinite(features).all(axis=1))
    if not usable.any():  # before names are compared, which may be fine
        raise ValueError("features has no row of finite numbers. Compute the features again.")
    kept = [i for i, name in enumerate(data.uid.tolist()) if name in row_of and usable[row_of[name]]]
    if not kept:
        raise ValueError("features belongs to none of the pairs: no uid agrees. Check that it is about ChaosNLI.")
    rows = [row_of[data.uid[i]] for i in kept]
    return replace(
        data,
        features=features[rows],
        counts=data.counts[kept],
        source=data.source[kept],
        uid=data.uid[kept],
        premises=tuple(data.premises[i] for i in kept),
        hypotheses=tuple(data.hypotheses[i] for i in kept),
    )
