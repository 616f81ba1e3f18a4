"""Generators whose truth is known, and loaders that read a folder,
refuse damage and never fetch anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import credalset as cs
from credalset.datasets import (
    DataNotFoundError,
    load_chaosnli,
    load_cifar10h,
    load_synthetic,
    make_judge_panel,
    make_messages,
    make_synthetic,
)
from credalset.exceptions import FileFormatError

PAIRS = [
    ("snli", "a", {"e": 30, "n": 70}),
    ("snli", "b", {"c": 100}),
    ("mnli_m", "c", {"e": 50, "n": 25, "c": 25}),
]


@pytest.fixture(autouse=True)
def without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a loader used the network")

    monkeypatch.setattr(socket, "socket", refuse)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with three pairs of ChaosNLI, features in another order, and five images."""
    (tmp_path / "chaosNLI_v1.0").mkdir()
    for part in ("snli", "mnli_m"):
        lines = [
            json.dumps(
                {
                    "uid": uid,
                    "label_counter": votes,
                    "example": {"premise": f"p{uid}", "hypothesis": f"h{uid}"},
                }
            )
            for name, uid, votes in PAIRS
            if name == part
        ]
        (tmp_path / "chaosNLI_v1.0" / f"chaosNLI_{part}.jsonl").write_text(
            "\n".join(lines) + "\n", encoding="utf-8"
        )
    logits = np.arange(27.0).reshape(3, 3, 3)
    logits[1] = np.nan
    np.savez(
        tmp_path / "chaosnli_snli_mnli_roberta.npz",
        roberta_logits=logits,
        uid=np.array(["c", "b", "a"]),
    )
    counts = np.full((5, 10), 5)
    np.savez(
        tmp_path / "cifar10h_model_a.npz",
        counts=counts,
        logits=np.log(counts),
        features=np.ones((5, 4), np.float16),
        labels=np.arange(5),
    )
    return tmp_path


def test_chaosnli_joins_features_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_chaosnli(data_dir=folder)
    assert data.uid.tolist() == ["a", "c"], "the pair without features is left out"
    assert data.source.tolist() == ["snli", "mnli_m"]
    assert data.features is not None
    assert data.features.tolist() == [list(range(18, 27)), list(range(9))]
    assert data.counts.tolist() == [[30, 70, 0], [50, 25, 25]]
    assert (data.premises, data.hypotheses) == (("pa", "pc"), ("ha", "hc"))
    monkeypatch.setenv("CREDALSET_DATA", str(folder))
    assert repr(load_chaosnli(None)) == "ChaosNLI: 3 pairs, no features, 3 classes, 100 votes each"
    with pytest.raises(ValueError, match="features"):
        load_chaosnli("word2vec")


def test_published_synthetic_data_are_drawn_again() -> None:
    """Checksums of the votes in the authors' files, which are not needed."""
    checksums = {
        (3, 1): "727626490663a36a",
        (3, 100): "8768bd46e9d3231f",
        (10, 10): "8163d9a645e986e0",
    }
    for (n_classes, n_votes), checksum in checksums.items():
        data = load_synthetic(n_classes, n_votes)
        assert (data.counts.sum(axis=1) == n_votes).all()
        assert hashlib.sha256(data.counts.astype("<i8").tobytes()).hexdigest()[:16] == checksum
    for wrong in ({"n_classes": 2}, {"n_classes": 11}, {"n_votes": 7}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            load_synthetic(**wrong)


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("CREDALSET_DATA"), reason="CREDALSET_DATA is not set")
def test_published_synthetic_data_are_those_of_the_files() -> None:
    for n_classes in (3, 4, 6, 8, 10):
        name = f"synthetic_1500_points_{n_classes}_classes.npz"
        with np.load(Path(os.environ["CREDALSET_DATA"]) / name) as held:
            for n_votes in (1, 5, 10, 50, 100, 200, 1000):
                data = load_synthetic(n_classes, n_votes)
                assert np.array_equal(np.rint(held[f"W_m{n_votes}"] * n_votes), data.counts)
                assert np.abs(data.distributions - held["W"]).max() < 1e-15
                assert np.abs(data.X - held["X"]).max() < 1e-6


def test_cifar10h_votes_as_published(folder: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"cifar10h-counts\.npy"):
        load_cifar10h(folder, model=None)
    votes = np.arange(50).reshape(5, 10) % 7
    np.save(folder / "cifar10h-counts.npy", votes)
    assert (load_cifar10h(folder).counts == votes).all(), "the published file goes first"
    alone = load_cifar10h(folder, model=None)
    assert (alone.counts == votes).all()
    assert alone.logits is None
    with pytest.raises(ValueError, match="there are no logits"):
        alone.probabilities  # noqa: B018
    (folder / "cifar10h-counts.npy").write_bytes(b"damaged")
    with pytest.raises(FileFormatError, match="cannot be read"):
        load_cifar10h(folder, model=None)


def test_cifar10h(folder: Path) -> None:
    data = load_cifar10h(folder)
    assert len(data) == 5
    assert data.probabilities == pytest.approx(0.1)
    assert data.distributions == pytest.approx(0.1)
    np.savez(
        folder / "cifar10h_model_a.npz",
        counts=data.counts,
        logits=data.logits[1:],
        features=[1],
        labels=[1],
    )
    with pytest.raises(FileFormatError, match="cifar10h_model_a"):
        load_cifar10h(folder)


@pytest.mark.parametrize("load", [load_chaosnli, load_cifar10h])
def test_missing_data_say_where_to_get_them(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataNotFoundError, match="github"):
        load(data_dir=tmp_path)
    monkeypatch.delenv("CREDALSET_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match="CREDALSET_DATA"):
        load()


@pytest.mark.parametrize("damage", ["cut", "text", "empty"])
@pytest.mark.parametrize("name", ["chaosnli_snli_mnli_roberta.npz", "cifar10h_model_a.npz"])
def test_damaged_arrays_name_the_file(name: str, damage: str, folder: Path) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(
        {"cut": content[:-40], "text": b"not an array", "empty": b""}[damage]
    )
    load: Any = load_cifar10h if "cifar" in name else load_chaosnli
    with pytest.raises(FileFormatError, match=name):
        load(data_dir=folder)


def test_damaged_votes_name_the_file(folder: Path) -> None:
    path = folder / "chaosNLI_v1.0" / "chaosNLI_snli.jsonl"
    path.write_text(path.read_text().replace("70", "69"))
    with pytest.raises(FileFormatError, match="100 votes"):
        load_chaosnli(data_dir=folder)
    path.write_text("{")
    with pytest.raises(FileFormatError, match=path.name):
        load_chaosnli(data_dir=folder)


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("CREDALSET_DATA"), reason="CREDALSET_DATA is not set")
def test_real_data() -> None:
    nli, images = load_chaosnli(), load_cifar10h()
    assert (nli.features.shape, nli.counts[0].tolist()) == ((3083, 9), [30, 70, 0])  # type: ignore[union-attr]
    assert (images.counts.shape, int(images.counts.sum())) == ((10_000, 10), 511_000)
    assert (images.counts.argmax(axis=1) == images.labels).mean() == pytest.approx(0.9921, abs=1e-4)


def test_synthetic_votes_follow_the_truth() -> None:
    data = make_synthetic(2000, 4, n_votes=50, random_state=0)
    assert data.distributions.sum(axis=1) == pytest.approx(1.0)
    error = (data.counts / 50 - data.distributions) / np.sqrt(
        data.distributions * (1 - data.distributions) / 50
    )
    assert abs(error.mean()) < 0.03
    assert np.array_equal(
        make_synthetic(5, random_state=1).counts, make_synthetic(5, random_state=1).counts
    )
    with pytest.raises(ValueError, match="n_classes"):
        make_synthetic(5, 1)


@pytest.mark.parametrize("make", [make_messages, make_judge_panel])
def test_votes_are_of_different_people_and_follow_the_truth(make: Any) -> None:
    data = make(500, n_votes=30, random_state=0)
    assert all(len(set(row)) == 30 for row in data.workers)
    assert (data.counts.sum(axis=1) == 30).all()
    spread = np.sqrt(data.distributions * (1 - data.distributions) / 30)
    assert abs(((data.counts / 30 - data.distributions) / spread).mean()) < 0.05
    votes = cs.Annotations.from_table(data.votes())
    order = [votes.classes.index(name) for name in data.classes]
    assert votes.items == data.items
    assert np.array_equal(votes.counts[:, order], data.counts)


def test_words_tell_most_but_not_all_about_messages() -> None:
    data = make_messages(800, random_state=0)
    model = cs.SoftLabelClassifier(
        make_pipeline(TfidfVectorizer(), LogisticRegression(C=100.0, max_iter=1000))
    )
    model.fit(list(data.texts[:600]), data.counts[:600])
    error = (
        np.abs(model.predict_proba(list(data.texts[600:])) - data.distributions[600:]).sum(axis=1)
        / 2
    )
    assert 0.05 < error.mean() < 0.15


def test_judges_are_biased_on_their_slices() -> None:
    panel = make_judge_panel(3000, random_state=0)
    excess = panel.probabilities[:, :, 2] - panel.distributions[:, 2]
    bias = {
        name: excess[:, panel.slices == name].mean(axis=1) for name in ("short", "long", "code")
    }
    assert bias["long"][0] > 0.3
    assert bias["code"][1] > 0.1
    assert np.abs([bias["short"], bias["code"][[0, 2, 2]], bias["long"][[1, 2, 2]]]).max() < 0.05
    calibration = cs.conformalize(panel.prediction[:1500], panel.counts[:1500])
    covered = calibration.predict_set(panel.prediction[1500:], 0.2).contains(
        panel.counts[1500:] / 5
    )
    by_slice = {name: covered[panel.slices[1500:] == name].mean() for name in bias}
    assert by_slice["long"] < by_slice["short"] - 0.03, "one threshold does not serve every slice"
