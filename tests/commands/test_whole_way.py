"""From an annotation export to a page, through every file format, and through processes of their own for one."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("typer")

from typer.testing import CliRunner  # noqa: E402

import credalset as cs  # noqa: E402
from credalset.commands import app  # noqa: E402
from tests.commands import vote_rows  # noqa: E402

CLASSES = ["no", "perhaps", "yes"]
N = 160
WRITE = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "parquet": lambda frame, path: frame.to_parquet(path),
}


def label_studio(counts: np.ndarray) -> list[dict[str, object]]:
    """Tasks as Label Studio exports them, one annotation per vote, a cancelled one among them."""
    tasks = []
    for i, row in enumerate(counts.astype(int)):
        votes = [CLASSES[k] for k in np.repeat(np.arange(3), row)]
        annotations = [
            {
                "id": 100 * i + j,
                "completed_by": j,
                "was_cancelled": False,
                "ground_truth": False,
                "result": [{"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": [vote]}}],
            }
            for j, vote in enumerate(votes)
        ]
        annotations.append({"id": 100 * i + 99, "completed_by": 99, "was_cancelled": True, "result": []})
        tasks.append({"id": i, "data": {"text": f"item {i}"}, "annotations": annotations})
    return tasks


def run(folder: Path, *words: str, code: int = 0) -> str:
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.stderr
    return done.stdout


def run_afresh(folder: Path, *words: str, code: int = 0) -> str:
    """In a process of its own, as from a shell."""
    done = subprocess.run(
        [sys.executable, "-m", "credalset", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_the_python_that_is_shown_does_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Odd column names, a class order of its own, numbers that are no classes, and an item without votes."""
    monkeypatch.chdir(tmp_path)
    data = cs.datasets.make_synthetic(N, n_votes=6, random_state=0)
    items = [f"t{i}" for i in range(N)]
    votes = vote_rows(items, data.counts, CLASSES)
    pd.DataFrame(votes, columns=["The Item", "Who", "Said"]).to_csv("votes.csv", index=False)
    said = ["--task", "The Item", "--worker", "Who", "--label", "Said"]
    predictions = pd.DataFrame(data.distributions[:, ::-1], columns=CLASSES[::-1]).assign(task=items)
    predictions = predictions.assign(where=np.arange(N) % 2, much=np.linspace(0.5, 2, N), words="so it is said")
    predictions.to_json("p.jsonl", orient="records", lines=True, double_precision=15)
    pd.DataFrame(data.X, columns=[f"x{i}" for i in range(data.X.shape[1])]).assign(task=items).to_csv(
        "f.csv", index=False
    )
    columns = ["--columns", ",".join(CLASSES), "--groups", "where", "--weights", "much"]
    commands = [
        ["import", "votes.csv", "-o", "long.parquet", *said],
        ["agree", "votes.csv", "--resamples", "0", *said],
        ["calibrate", "p.jsonl", "votes.csv", "-o", "cal", "--score", "tv", *columns, *said],
        ["fit", "f.csv", "votes.csv", "-o", "model", *said],
        ["predict", "cal", "p.jsonl", "-o", "sets.csv", "--ask", "lower,labels", *columns],
        ["predict", "cal", "p.jsonl", "-o", "nameless.csv", "--id", "", *columns],
        ["check", "cal", "p.jsonl", "votes.csv", "--alpha", "0.1,0.2", *columns, *said],
        ["check", "model", "f.csv", "votes.csv", "--alpha", "0.3", *said],
        [
            "report",
            "cal",
            "p.jsonl",
            "votes.csv",
            "-o",
            "page.html",
            "--texts",
            "words",
            "--title",
            "Ours",
            *columns,
            *said,
        ],
    ]
    for words in commands:
        result = CliRunner().invoke(app, [*words, "--show-python"])
        assert result.exit_code == 0, result.output
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(result.stdout, words[0], "exec"), {})
        out = Path(words[words.index("-o") + 1]) if "-o" in words else None
        by_python = out.read_bytes() if out is not None and out.is_file() else None
        if out is None or by_python is not None:  # folders are not written twice
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, result.output
        if words[0] == "report":
            assert b"so it is said" in by_python
        elif by_python is not None:
            assert by_python == out.read_bytes()
        elif words[0] == "agree":
            assert printed.getvalue() == result.stdout
        elif words[0] == "check":
            for line in printed.getvalue().splitlines():  # alpha, coverage [interval], width [interval]
                alpha, coverage, _, _, _, width, *_ = re.findall(r"\d+\.?\d*", line)
                assert re.search(rf"{alpha} .* {coverage[:4]}.* {width[:4]}", result.stdout), (line, result.stdout)
    expected = cs.conformalize(
        data.distributions, data.counts, "tv", groups=predictions["where"], weights=predictions["much"]
    )
    scores = {name: np.sort(np.asarray(rule.scores)) for name, rule in (("ours", expected), ("theirs", cs.load("cal")))}
    np.testing.assert_allclose(scores["ours"], scores["theirs"], rtol=1e-9, atol=1e-12)  # JSON writes 15 digits
    assert list(cs.load("model").classes_) == CLASSES


@pytest.mark.parametrize("kind", WRITE)
def test_from_an_export_to_a_verdict(tmp_path: Path, kind: str) -> None:
    data = cs.datasets.make_synthetic(N, n_votes=6, random_state=0)
    (tmp_path / "export.json").write_text(json.dumps(label_studio(data.counts)))
    predictions = pd.DataFrame(0.9 * data.distributions + 0.1 / 3, columns=CLASSES)[["yes", "no", "perhaps"]]
    predictions.insert(0, "task", range(N))
    WRITE[kind](predictions.iloc[: N // 2], tmp_path / f"calibration.{kind}")
    WRITE[kind](predictions.iloc[N // 2 :], tmp_path / f"test.{kind}")
    votes, ask = f"votes.{kind}", run_afresh if kind == "csv" else run

    run(tmp_path, "import", "export.json", "-o", votes)
    agreement = json.loads(run(tmp_path, "agree", votes, "--json", "--resamples", "50"))
    assert agreement["n_votes"] == 6 * N
    ask(tmp_path, "calibrate", f"calibration.{kind}", votes, "-o", "made")
    ask(tmp_path, "predict", "made", f"test.{kind}", "-o", f"sets.{kind}", "--ask", "lower,labels")
    checked = json.loads(ask(tmp_path, "check", "made", f"test.{kind}", votes, "--json"))
    assert checked["passed"]
    assert checked["n"] == N // 2

    calibration = cs.load(tmp_path / "made")
    expected = calibration.predict_set(predictions[CLASSES].iloc[N // 2 :], 0.1, classes=CLASSES)
    assert isinstance(calibration.classes, tuple)
    order = [CLASSES.index(str(name)) for name in calibration.classes]
    assert sorted(order) == [0, 1, 2]
    covered = expected.contains(data.counts[N // 2 :][:, order] / 6).mean()
    assert checked["rows"][0]["observed"] == pytest.approx(covered)


def test_the_check_fails_where_coverage_does(tmp_path: Path) -> None:
    data = cs.datasets.make_synthetic(400, n_votes=30, random_state=0)
    frame = pd.DataFrame(data.distributions, columns=CLASSES)
    frame.insert(0, "task", [f"t{i}" for i in range(400)])
    frame.iloc[:200].to_csv(tmp_path / "good.csv", index=False)
    frame.iloc[200:].assign(task=frame.task.iloc[200:].to_numpy()[::-1]).to_csv(tmp_path / "shuffled.csv", index=False)
    rows = [
        (f"t{i}", f"w{j}", CLASSES[k])
        for i, counts in enumerate(data.counts.astype(int))
        for j, k in enumerate(np.repeat(np.arange(3), counts))
    ]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_parquet(tmp_path / "votes.parquet")
    run(tmp_path, "calibrate", "good.csv", "votes.parquet", "-o", "made")
    said = run_afresh(tmp_path, "check", "made", "shuffled.csv", "votes.parquet", code=1)
    assert "The sets cover too little" in said


def test_a_page_from_files(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    data = cs.datasets.make_synthetic(300, n_votes=10, random_state=0)
    frame = pd.DataFrame(0.9 * data.distributions + 0.1 / 3, columns=CLASSES)
    frame.insert(0, "task", [f"t{i}" for i in range(300)])
    frame["says"] = [f"<script>alert({i})</script>" for i in range(300)]
    frame.iloc[:150].drop(columns="says").to_csv(tmp_path / "calibration.csv", index=False)
    frame.iloc[150:].to_csv(tmp_path / "test.csv", index=False)
    counts = pd.DataFrame(data.counts.astype(int), columns=CLASSES, index=frame.task)
    rows = [(t, f"w{j}", c) for t in counts.index for c in CLASSES for j in range(counts.loc[t, c])]
    long = pd.DataFrame(rows, columns=["task", "label_of", "label"]).drop(columns="label_of")
    long.insert(1, "worker", [f"w{i}" for i in range(len(long))])
    long.to_csv(tmp_path / "votes.csv", index=False)
    run(tmp_path, "calibrate", "calibration.csv", "votes.csv", "-o", "made")
    run_afresh(tmp_path, "report", "made", "test.csv", "votes.csv", "-o", "page.html", "--texts", "says")
    page = (tmp_path / "page.html").read_text()
    assert "<script>alert(" not in page
    assert "credalset report made test.csv votes.csv" in page
