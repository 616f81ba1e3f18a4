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
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from credalset._files import write_file
from credalset.datasets import ChaosNLI, load_chaosnli
from credalset.datasets.published import FEATURES, PARTS

BATCH = 16  # texts at a time
PREDICTIONS = "{corpus}_{half}_roberta-base_{seed}.json"


def deberta(data: ChaosNLI, source: Path | None) -> np.ndarray[Any, Any]:
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


def minilm(data: ChaosNLI, source: Path | None) -> np.ndarray[Any, Any]:
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


def roberta(data: ChaosNLI, source: Path | None) -> np.ndarray[Any, Any]:
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


SCRIPTS = {"deberta": deberta, "minilm": minilm, "roberta": roberta}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one file of features in the data folder."""
    parser = argparse.ArgumentParser(prog="python -m reproduction.features", description=__doc__)
    parser.add_argument("features", choices=SCRIPTS)
    parser.add_argument("--data", type=Path, default=os.environ.get("CREDALSET_DATA"))
    parser.add_argument("--source", type=Path, help="folder of published predictions, for roberta")
    options = parser.parse_args(arguments)
    data = load_chaosnli(None, options.data)
    name, array = FEATURES[options.features]
    stream = io.BytesIO()
    arrays = {array: SCRIPTS[options.features](data, options.source), "uid": data.uid}
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    write_file(Path(options.data) / name, stream.getvalue())
    print(f"{name}: {arrays[array].shape}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
