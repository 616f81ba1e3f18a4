"""Make the files of features: ``python -m reproduction.features deberta --data folder``.

Each script writes one file that the loaders read. They need the extra ``encoders`` or files of
others, and a network to get models; none is run in the tests.

* ``deberta``: the paper's encoder, ``cross-encoder/nli-deberta-base``: the last hidden layer,
  averaged over all positions. As in the authors' code the texts of each part are padded to
  the longest, and padding counts in the average.
* ``minilm``: sentence embeddings u, v of premise and hypothesis by ``all-MiniLM-L6-v2``, as
  concat(u, v, abs(u - v), u * v).
* ``roberta``: logits of RoBERTa models that Baan et al. (2022) published, in
  ``data/predictions`` of https://github.com/jsbaan/calibration-on-disagreement-data, three training
  seeds, joined by uid.
* ``clip``: logits of CLIP for the CIFAR-10 test images that Hofman et al. (2026) published, in
  ``logits`` of https://github.com/pwhofman/efficient-credal-prediction. Votes are not in this file,
  they are read from ``cifar10h-counts.npy``.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from credalset._files import write_file
from credalset._typing import AnyArray
from credalset.datasets import ChaosNLI, DataNotFoundError, load_chaosnli
from credalset.datasets.published import CIFAR_CLASSES, FEATURES, MODELS, PARTS
from credalset.exceptions import FileFormatError

BATCH = 16  # texts at a time
PREDICTIONS = "{corpus}_{half}_roberta-base_{seed}.json"
CLIP_LOGITS = "Clip_CIFAR10_CIFAR10_test.csv"


def deberta(data: ChaosNLI, source: Path | None) -> AnyArray:
    """Embed pairs with the paper's encoder, (n, 768)."""
    import torch
    from transformers import AutoModel, AutoTokenizer  # type: ignore[import-not-found,unused-ignore]

    name = "cross-encoder/nli-deberta-base"
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModel.from_pretrained(name).eval()
    found = np.empty((len(data), 768))
    for part in PARTS:
        rows = np.flatnonzero(data.source == part)
        texts = [[pairs[i] for i in rows] for pairs in (data.premises, data.hypotheses)]
        inputs = tokenizer(*texts, padding=True, truncation=True, return_tensors="pt")
        for start in range(0, len(rows), BATCH):
            some = slice(start, start + BATCH)
            with torch.no_grad():
                hidden = model(**{key: value[some] for key, value in inputs.items()})
            found[rows[some]] = hidden.last_hidden_state.mean(dim=1).numpy()
    return found


def minilm(data: ChaosNLI, source: Path | None) -> AnyArray:
    """Embed premises and hypotheses, (n, 1536)."""
    from sentence_transformers import (  # type: ignore[import-not-found,unused-ignore]
        SentenceTransformer,
    )

    model = SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")
    u, v = (
        np.asarray(model.encode(list(texts), normalize_embeddings=True))
        for texts in (data.premises, data.hypotheses)
    )
    return np.concatenate([u, v, np.abs(u - v), u * v], axis=1).astype(np.float16)


def roberta(data: ChaosNLI, source: Path | None) -> AnyArray:
    """Join published logits by uid, (n, 3 seeds, 3 classes); NaN where there are none."""
    if source is None:
        raise SystemExit("roberta needs --source, the folder data/predictions of the repository.")
    row_of = {uid: row for row, uid in enumerate(data.uid.tolist())}
    found = np.full((len(data), 3, 3), np.nan, dtype=np.float32)
    for corpus in ("SNLI", "MNLI"):
        for half in ("dev", "test"):
            for seed in range(3):
                path = source / PREDICTIONS.format(corpus=corpus, half=half, seed=seed)
                for line in path.read_text(encoding="utf-8").splitlines():
                    item = json.loads(line)
                    if item["uid"] in row_of:
                        logits = np.asarray(item["logits"])[[0, 2, 1]]  # from e, c, n to e, n, c
                        found[row_of[item["uid"]], seed] = logits
    return found


def clip(source: Path | None) -> dict[str, AnyArray]:
    """Read published logits (n, 10) and CIFAR-10 labels (n,), in the order of the test images."""
    if source is None:
        raise SystemExit("clip needs --source, the folder logits of the repository.")
    with (source / CLIP_LOGITS).open(encoding="utf-8") as lines:
        head = lines.readline().strip().split(",")
        table = np.loadtxt(lines, delimiter=",", ndmin=2)
    if head != [*CIFAR_CLASSES, "target-0", "instance_id"]:
        raise FileFormatError(f"{source / CLIP_LOGITS} has the columns {', '.join(head)}.")
    table = table[np.argsort(table[:, -1])]
    k = len(CIFAR_CLASSES)
    return {"logits": table[:, :k].astype(np.float32), "labels": table[:, k].astype(np.int64)}


ENCODERS = {"deberta": deberta, "minilm": minilm, "roberta": roberta}


def make(name: str, folder: Path | None, source: Path | None) -> tuple[str, dict[str, AnyArray]]:
    """Return the name of a file and the arrays to put into it."""
    if name == "clip":
        return MODELS["clip"], clip(source)
    data = load_chaosnli(None, folder)
    file, array = FEATURES[name]
    return file, {array: ENCODERS[name](data, source), "uid": data.uid}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one file of features in the data folder."""
    parser = argparse.ArgumentParser(prog="python -m reproduction.features", description=__doc__)
    parser.add_argument("features", choices=(*ENCODERS, "clip"))
    parser.add_argument("--data", type=Path, default=os.environ.get("CREDALSET_DATA") or None)
    parser.add_argument("--source", type=Path, help="folder of published files: roberta and clip")
    options = parser.parse_args(arguments)
    if options.data is None:
        parser.error("name the data folder with --data or CREDALSET_DATA")
    try:
        file, arrays = make(options.features, options.data, options.source)
    except (DataNotFoundError, FileNotFoundError, ImportError) as error:
        print(error, file=sys.stderr)
        return 3
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    write_file(Path(options.data) / file, stream.getvalue())
    print(f"{file}: " + ", ".join(f"{key} {value.shape}" for key, value in arrays.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
