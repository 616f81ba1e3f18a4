"""`check`: what is promised, to whom, and what the exit code says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("typer")

from typer.testing import CliRunner  # noqa: E402

import credalset as cs  # noqa: E402
from credalset.commands import app  # noqa: E402
from credalset.evaluation import evaluate  # noqa: E402

CLASSES = ("no", "perhaps", "yes")
DATA = cs.datasets.make_synthetic(600, n_votes=10, random_state=0)
FIRST, LAST = slice(300), slice(300, None)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Held-out predictions with groups, and all votes."""
    monkeypatch.chdir(tmp_path)
    names = [f"t{i}" for i in range(600)]
    rows = [
        (name, f"w{j}", CLASSES[k])
        for name, counts in zip(names, DATA.counts, strict=True)
        for j, k in enumerate(np.repeat(np.arange(3), counts))
    ]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv("votes.csv", index=False)
    frame = pd.DataFrame(DATA.distributions[LAST], columns=CLASSES)
    frame.insert(0, "task", names[LAST])
    frame["part"] = ["odd" if i % 2 else "even" for i in range(300)]
    frame.to_parquet("grouped.parquet")
    frame.drop(columns="part").to_parquet("new.parquet")
    return tmp_path


def calibrate(score: str = "kl", **options: Any) -> None:
    cs.conformalize(DATA.distributions[FIRST], DATA.counts[FIRST], score, classes=CLASSES, **options).save("made")


def check(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["check", "made", *words])
    assert result.exit_code == code, result.output
    return str(result.stdout)


def test_the_table_and_the_verdict_are_those_of_evaluate(files: Path) -> None:
    calibrate()
    fitted, levels = cs.load("made"), [0.05, 0.1, 0.2, 0.4]
    found = json.loads(check("new.parquet", "votes.csv", "--alpha", "0.05,0.1,0.2,0.4", "--json"))
    rows = evaluate(fitted, DATA.distributions[LAST], DATA.counts[LAST], levels)
    for name in ("coverage", "band_low", "band_high", "verdict", "width", "informative"):
        assert [row[name] for row in found["rows"]] == [row[name] for row in rows]
    assert found["passed"]
    printed = check("new.parquet", "votes.csv")
    assert rows.verdicts[1].sentence in printed


def test_groups_are_told_apart(files: Path) -> None:
    calibrate(groups=["odd" if i % 2 else "even" for i in range(300)])
    words = ("grouped.parquet", "votes.csv", "--groups", "part")
    rows = json.loads(check(*words, "--json"))["groups"]
    sets = cs.load("made").predict_set(DATA.distributions[LAST], groups=pd.read_parquet("grouped.parquet")["part"])
    covered = sets.contains(DATA.counts[LAST])
    assert [row["coverage"] for row in rows] == [covered[::2].mean(), covered[1::2].mean()]
    assert all(row["verdict"] for row in rows)
    assert " even " in check(*words)


def test_a_guarantee_about_true_distributions_is_not_tested_by_votes(files: Path) -> None:
    calibrate("tv", noise=cs.UnbiasedVotes())
    found = json.loads(check("new.parquet", "votes.csv", "--json"))
    assert (found["rows"][0]["verdict"], found["passed"]) == ("not tested", True)


def test_features_are_matched_by_name(files: Path) -> None:
    """Columns in another order, and others beside them, change nothing for a model."""
    names = [f"t{i}" for i in range(600)]
    frame = pd.DataFrame(DATA.X, columns=[f"x{k}" for k in range(10)]).assign(task=names)
    frame.iloc[:400].to_csv("train.csv", index=False)
    done = CliRunner().invoke(app, ["fit", "train.csv", "votes.csv", "-o", "made"])
    assert done.exit_code == 0, done.output
    frame.iloc[400:].to_csv("as_trained.csv", index=False)
    turned = frame.iloc[400:, ::-1].assign(text="hello")
    turned.to_csv("turned.csv", index=False)
    found = [json.loads(check(file, "votes.csv", "--json"))["rows"] for file in ("as_trained.csv", "turned.csv")]
    assert found[0] == found[1]
    for file in ("as_trained.csv", "turned.csv"):
        done = CliRunner().invoke(app, ["predict", "made", file, "-o", f"sets-{file}"])
        assert done.exit_code == 0, done.output
    assert (files / "sets-turned.csv").read_bytes() == (files / "sets-as_trained.csv").read_bytes()
