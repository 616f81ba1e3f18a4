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


def test_recorded_votes_are_what_is_promised(files: Path) -> None:
    calibrate()
    printed = check("new.parquet", "votes.csv")
    assert "kept: The sets keep their promise." in printed
    assert "Promised are label distributions as they are recorded" in printed
    assert "Assumed: New items are exchangeable" in printed
    found = json.loads(check("new.parquet", "votes.csv", "--json"))
    assert found["about"] == "recorded"
    assert found["rows"][0]["band_low"] < 0.9 < found["rows"][0]["band_high"]


def test_groups_are_told_apart(files: Path) -> None:
    """Coverage was promised within each group, and only that over all was shown."""
    calibrate(groups=["odd" if i % 2 else "even" for i in range(300)])
    words = ("grouped.parquet", "votes.csv", "--groups", "part")
    (row,) = json.loads(check(*words, "--json"))["rows"]
    sets = cs.load("made").predict_set(DATA.distributions[LAST], groups=pd.read_parquet("grouped.parquet")["part"])
    covered = sets.contains(DATA.counts[LAST])
    assert [each["observed"] for each in row["groups"]] == [covered[::2].mean(), covered[1::2].mean()]
    assert [line.split()[:3] for line in check(*words).splitlines() if " even " in line or " odd " in line] == [
        ["0.1", "even", "150"],
        ["0.1", "odd", "150"],
    ]


def test_groups_that_share_one_threshold_are_told_apart_too(files: Path) -> None:
    """The promise is the same; refusing pushed people to another one."""
    calibrate()
    (row,) = json.loads(check("grouped.parquet", "votes.csv", "--groups", "part", "--json"))["rows"]
    covered = cs.load("made").predict_set(DATA.distributions[LAST]).contains(DATA.counts[LAST])
    assert [each["observed"] for each in row["groups"]] == [covered[::2].mean(), covered[1::2].mean()]
    assert row["verdict"] == "kept"


def test_command_evaluation_and_page_judge_alike(files: Path) -> None:
    """One band and one word for the same data, whoever is asked."""
    calibrate()
    fitted, levels = cs.load("made"), [0.05, 0.1, 0.2, 0.4]
    found = json.loads(check("new.parquet", "votes.csv", "--alpha", "0.05,0.1,0.2,0.4", "--json"))["rows"]
    rows = evaluate(fitted, DATA.distributions[LAST], DATA.counts[LAST], levels)
    own = [
        cs.verdict.judge(fitted, fitted.predict_set(DATA.distributions[LAST], alpha=a).contains(DATA.counts[LAST]), a)
        for a in levels
    ]
    for each in (rows, [{"band_low": v.band[0], "band_high": v.band[1], "verdict": v.status} for v in own if v.band]):
        for name in ("band_low", "band_high", "verdict"):
            assert [row[name] for row in found] == [row[name] for row in each]


@pytest.mark.parametrize("noise", [cs.UnbiasedVotes(), cs.AnnotatorSampling()], ids=repr)
def test_the_truth_behind_votes_is_no_matter_of_votes(files: Path, noise: Any) -> None:
    """A promise about the truth is neither kept nor broken by votes: no verdict, whatever is observed."""
    calibrate(noise=noise)
    printed = check("new.parquet", "votes.csv", "--alpha", "0.1", "--alpha", "0.9")
    assert printed.count("  unseen  ") == 2
    assert "Promised are the distributions behind the votes. Votes do not show these" in printed
    assert repr(noise) in printed
    found = json.loads(check("new.parquet", "votes.csv", "--json"))
    assert (found["about"], found["passed"]) == ("true", True)
    assert found["rows"][0]["band_low"] is None


def test_groups_have_a_band_of_their_own(files: Path) -> None:
    calibrate(groups=["odd" if i % 3 else "even" for i in range(300)])
    found = json.loads(check("grouped.parquet", "votes.csv", "--groups", "part", "--json"))
    fitted = cs.load("made")
    groups = ["odd" if i % 2 else "even" for i in range(300)]
    band = cs.verdict.coverage_band(fitted, 0.1, 300, groups=groups)
    row = found["rows"][0]
    assert (row["band_low"], row["band_high"]) == band
    assert row["verdict"] == "kept"


def test_empty_sets_do_not_spoil_the_means(files: Path) -> None:
    calibrate("inner")
    row = json.loads(check("new.parquet", "votes.csv", "--alpha", "0.5", "--json"))["rows"][0]
    sets = cs.load("made").predict_set(DATA.distributions[LAST], alpha=0.5)
    lower, upper = sets[~sets.is_empty()].envelope()
    assert row["empty"] == sets.is_empty().sum() > 0
    assert row["width"] == pytest.approx((upper - lower).sum(axis=1).mean() / 2)
    assert " nan" not in check("new.parquet", "votes.csv", "--alpha", "0.5")


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
