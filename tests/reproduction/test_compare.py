"""``python -m reproduction compare``: protocol and methods; and the check of published files."""

from __future__ import annotations

import io
import json
import os
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

pytest.importorskip("pyarrow", reason="results are kept as Parquet, extra 'reproduce'")

from reproduction import compare, features, fetch
from reproduction.__main__ import main
from reproduction.methods import METHODS, Split, biased_predictions, describe

from credalset.datasets import ChaosNLI, load_cifar10h, make_synthetic
from credalset.datasets.published import CIFAR_CLASSES
from credalset.exceptions import FileFormatError

needs_data = pytest.mark.skipif(
    not os.environ.get("CREDALSET_DATA"), reason="CREDALSET_DATA is not set"
)


def split(n: int = 400) -> tuple[Split, Any]:
    data = make_synthetic(3 * n, 3, n_votes=20, random_state=0)
    g = 0.8 * data.distributions + 0.2 / 3
    parts = [slice(i * n, (i + 1) * n) for i in range(3)]
    members = np.stack([g[parts[2]], data.distributions[parts[2]]])
    votes = [data.counts[part] for part in parts]
    return Split(*(g[part] for part in parts), *votes[:2], members_test=members), votes[2]


def test_biases_end_where_the_relative_likelihood_says() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 4))
    labels = rng.integers(4, size=200)
    for level in (0.3, 0.9):
        found = biased_predictions(logits, labels, logits, level)
        assert found.shape == (8, 200, 4)
        own = log_softmax(logits, axis=1)[np.arange(200), labels].mean()
        biased = np.log(found)[:, np.arange(200), labels].mean(axis=1)
        assert np.exp(biased - own) == pytest.approx(level, abs=1e-4)
        for k in range(4):  # the first lowers the class, the second raises it
            assert (found[2 * k, :, k] < found[2 * k + 1, :, k]).all()


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("so", "density")])
def test_methods_keep_what_they_promise(name: str) -> None:
    one, votes = split()
    answer = METHODS[name](one, 0.2)
    assert describe(name)
    shares = votes / votes.sum(axis=1, keepdims=True)
    row = compare.measure(answer, votes, None, np.arange(len(votes), dtype=float))
    if answer.sets is not None:
        covered = answer.sets.contains(shares)
        assert row["coverage"] == covered.mean()
        assert np.mean(row["quarters"]) == pytest.approx(row["coverage"])
        if name not in ("ensemble", "kl-as-tv-balls"):
            assert row["coverage"] > 0.72
    if answer.labels is not None:
        assert row["label_coverage"] > 0.72


def test_experiments_run_are_resumed_and_extended(tmp_path: Path) -> None:
    data = make_synthetic(90, 3, n_votes=20, random_state=0)
    np.savez(tmp_path / "own.npz", counts=data.counts, features=data.X, truth=data.distributions)
    lines = {"data": '"own.npz"', "methods": '["tv", "ensemble"]', "members": "2", "seeds": "2"}
    lines |= {"n_train": "30", "n_calibration": "30", "n_test": "30", "alphas": "[0.1, 0.3]"}
    file = tmp_path / "mine.toml"
    file.write_text("\n".join(f"{k} = {v}" for k, v in lines.items()), encoding="utf-8")
    command = ["compare", str(file), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    first = sorted((tmp_path / "out/compare/mine").glob("*.json"))
    assert len(first) == 4
    times = [path.stat().st_mtime_ns for path in first]
    assert main([*command, "--seeds", "3"]) == 0
    assert [path.stat().st_mtime_ns for path in first] == times, "nothing is computed twice"
    rows = compare.run(file, tmp_path / "out", seeds=3)
    assert len(rows) == 2 * 2 * 3
    assert {row["seed"] for row in rows} == {0, 1, 2}
    assert all(0.0 <= row["coverage_true"] <= 1.0 for row in rows)
    table = (tmp_path / "out/compare/mine.md").read_text(encoding="utf-8")
    assert "| ensemble | 0.3 |" in table


def test_mistakes_in_experiments_are_named(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    for text, message in (
        ("data = ", "TOML"),
        ('seeds = 1\ndata = "synthetic"\nmethod = "tv"', "unknown: \\['method'\\]"),
        ('data = "synthetic"\nmethods = ["tvv"]', "unknown methods \\['tvv'\\]"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(FileFormatError, match=message):
            compare.read_experiment(file)
    for path in compare.experiments():
        assert set(compare.read_experiment(path)["methods"]) <= set(METHODS)


def test_published_files_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("folder/a.txt", "right")
    counts = io.BytesIO()
    np.save(counts, np.arange(6, dtype=np.int32).reshape(2, 3))
    right = fetch.of_bytes(b"right")
    whole = fetch.of_bytes(np.arange(6, dtype="<i8").tobytes())
    files = (
        fetch.Published("a.txt", "http://one", right, "folder/a.txt"),
        fetch.Published("b.npy", "http://two", whole, digest=fetch.of_counts),
        fetch.Published("c.txt", "http://three", right),
    )
    answers = {"http://one": archive.getvalue(), "http://two": counts.getvalue()}
    answers["http://three"] = b"wrong"
    monkeypatch.setattr(
        fetch, "urlopen", lambda request, timeout: io.BytesIO(answers[request.full_url])
    )
    told: list[str] = []
    (problem,) = fetch.fetch(tmp_path, told.append, files)
    assert "http://three has other content" in problem
    assert told == ["a.txt: downloaded", "b.npy: downloaded", "c.txt: missing"]
    assert not (tmp_path / "c.txt").exists()
    (tmp_path / "a.txt").write_text("changed", encoding="utf-8")
    problems = fetch.fetch(tmp_path, told.append, files[:2])
    assert "differs from what was published" in problems[0]
    assert told[-2:] == ["a.txt: other content", "b.npy: there"]


def test_published_logits_are_joined_by_uid_and_reordered(tmp_path: Path) -> None:
    """Files of Baan et al. hold one record per line, with logits of e, c, n."""
    pairs = ChaosNLI(None, np.ones((3, 3)), np.array(["snli"] * 3), np.array(list("abc")), (), ())
    for place, (corpus, half) in enumerate(product(("SNLI", "MNLI"), ("dev", "test"))):
        for seed in range(3):
            uid = ("b", "x", "a", "y")[place]
            record = {"index": 0, "uid": uid, "logits": [seed, 10 + place, 20], "pred": 0}
            other = {"uid": f"z{place}", "logits": [0, 0, 0]}
            lines = [json.dumps(record), json.dumps(other)]
            name = features.PREDICTIONS.format(corpus=corpus, half=half, seed=seed)
            (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = features.roberta(pairs, tmp_path)
    assert found[0].tolist() == [[seed, 20, 12] for seed in range(3)]
    assert found[1].tolist() == [[seed, 20, 10] for seed in range(3)]
    assert np.isnan(found[2]).all()


def test_published_logits_of_clip_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns are classes, label and number of the image; votes come from the published counts."""
    head = ",".join([*CIFAR_CLASSES, "target-0", "instance_id"])
    lines = [head, ",".join(["1.5"] * 10 + ["3.0", "1"]), ",".join(["2.5"] * 10 + ["8.0", "0"])]
    (tmp_path / features.CLIP_LOGITS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    np.save(tmp_path / "cifar10h-counts.npy", np.eye(10, dtype=np.int64)[:2])
    assert features.main(["clip", "--data", str(tmp_path), "--source", str(tmp_path)]) == 0
    found = load_cifar10h(tmp_path, model="clip")
    assert found.labels is not None
    assert found.labels.tolist() == [8, 3]
    assert found.logits is not None
    assert found.logits[:, 0].tolist() == [2.5, 1.5]
    assert features.main(["clip", "--data", str(tmp_path), "--source", str(tmp_path / "x")]) == 3
    assert features.main(["roberta", "--data", str(tmp_path)]) == 3
    assert "ChaosNLI" in capsys.readouterr().err


@pytest.mark.data
@needs_data
def test_a_number_of_the_decalibration_paper() -> None:
    """CLIP on CIFAR-10H: efficiency .39 at a coverage of .90, read from the published curve."""
    images = load_cifar10h(model="clip")
    labels = load_cifar10h(model="a").labels
    assert images.logits is not None
    assert labels is not None
    shares = images.distributions.round(3)
    found = []
    for level in (0.2, 0.4):
        members = biased_predictions(images.logits, labels, images.logits, level)
        low, high = members.min(axis=0), members.max(axis=0)
        covered = ((low.round(3) <= shares) & (shares <= high.round(3))).all(axis=1).mean()
        found.append((covered, 1.0 - (high - low).mean()))
    (most, small), (least, large) = found
    efficiency = small + (most - 0.9) / (most - least) * (large - small)
    assert efficiency == pytest.approx(0.39, abs=0.02)
