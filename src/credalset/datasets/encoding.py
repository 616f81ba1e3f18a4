"""Sentence pairs read by a transformer (extra ``nli``): mean-pooled last hidden layer, kept on disk."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from credalset._files import write_file
from credalset._progress import progress
from credalset._typing import FloatArray
from credalset.exceptions import MissingExtraError

DEFAULT_ENCODER = "cross-encoder/nli-deberta-base"  # the paper's
BATCH_SIZE = 32

#: from a list of premises and a list of hypotheses to one row of features each
Encoder = Callable[[Sequence[str], Sequence[str]], FloatArray]


def encode_pairs(
    premises: Sequence[str], hypotheses: Sequence[str], encoder: str = DEFAULT_ENCODER, cache: Path | None = None
) -> FloatArray:
    """Return one row of features per pair; computed once, then read from ``cache``.

    Parameters
    ----------
    premises, hypotheses : sequences of n texts
        The pairs.
    encoder : str
        Name of a model on the Hugging Face hub, or a folder that holds one.
    cache : path, optional
        Folder for the results. A file's name depends on the encoder and on every text.
    """
    if len(premises) != len(hypotheses):
        raise ValueError(f"there are {len(premises)} premises, but {len(hypotheses)} hypotheses. Pass pairs.")
    path = None if cache is None else cache / f"{_digest(premises, hypotheses, encoder)}.npy"
    if path is not None and path.is_file():
        with contextlib.suppress(ValueError, OSError, EOFError):  # a damaged file is computed again
            stored = np.load(path, allow_pickle=False)
            if stored.ndim == 2 and len(stored) == len(premises):
                return stored.astype(np.float64)
    encode = load_encoder(encoder)
    blocks = []
    with progress("Encoding pairs", len(premises)) as advance:
        for start in range(0, len(premises), BATCH_SIZE):
            rows = slice(start, start + BATCH_SIZE)
            blocks.append(encode(premises[rows], hypotheses[rows]))
            advance(len(blocks[-1]), "")
    features = np.concatenate(blocks).astype(np.float32)
    if path is not None:
        buffer = io.BytesIO()
        np.save(buffer, features, allow_pickle=False)
        with contextlib.suppress(OSError):  # a folder that cannot be written costs time, not the result
            write_file(path, buffer.getvalue())
    return features.astype(np.float64)


def load_encoder(name: str) -> Encoder:
    """Load a model; its weights come from safetensors files only, which cannot hold code."""
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise MissingExtraError("An encoder of sentence pairs", error.name or "transformers", "nli") from None
    tokenizer: Any = AutoTokenizer.from_pretrained(name)
    model: Any = AutoModel.from_pretrained(name, use_safetensors=True).eval()

    def encode(premises: Sequence[str], hypotheses: Sequence[str]) -> FloatArray:
        options = {"padding": True, "truncation": True, "return_tensors": "pt"}
        tokens = tokenizer(list(premises), list(hypotheses), **options)
        with torch.no_grad():
            hidden = model(**tokens).last_hidden_state
        weight = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        return ((hidden * weight).sum(dim=1) / weight.sum(dim=1)).double().numpy()

    return encode


def _digest(premises: Sequence[str], hypotheses: Sequence[str], encoder: str) -> str:
    digest = hashlib.sha256(encoder.encode())
    for text in (*premises, *hypotheses):
        digest.update(b"\0" + text.encode())
    return digest.hexdigest()[:32]
