"""Three judges in one JSONL, some of their answers missing, and people's votes on some items."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import credalset as cs
from tests.cli.conftest import Run

N = 400
NAMED = "gpt=judges.gpt.probs,claude=judges.claude.label,mini=judges.mini"
PRICES = "person=0.30,gpt=0.02,claude=0.01,mini=0.001"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write judged.jsonl, and votes.csv with three votes on every other item."""
    panel = cs.datasets.make_judge_panel(N, n_votes=3, random_state=3)
    rng = np.random.default_rng(0)
    classes = panel.classes
    best = panel.probabilities.argmax(axis=2)
    lines = []
    votes = ["task,worker,label"]
    for row, item in enumerate(panel.items):
        said: dict[str, Any] = {
            "gpt": {"probs": dict(zip(classes, panel.probabilities[2, row], strict=True))},
            "claude": {"label": classes[best[1, row]]},
        }
        if rng.random() < 0.7:
            said["mini"] = classes[best[0, row]]
        kind = str(panel.slices[row])
        lines.append({"id": item, "kind": kind, "text": f"pair {row}", "judges": said})
        if row % 2 == 0:
            votes += [f"{item},w{j},{panel.labels[row, j]}" for j in range(3)]
    (tmp_path / "judged.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "votes.csv").write_text("\n".join(votes) + "\n")
    return tmp_path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_from_files_to_judges_averages_queue_and_page(folder: Path, run: Run) -> None:
    """Four commands: which judges to keep, the corrected average, queue and page, and tasks."""
    said = run("agree", "judged.jsonl", "votes.csv", "--judges", NAMED, "--kinds", "kind").out
    assert "Keep: gpt" in said
    assert "constant" in said
    said = run("estimate", "judged.jsonl", "votes.csv", "--judges", "auto").out
    assert "400 predictions, 200 items with votes, 600 votes" in said
    said = run(
        *("review", "votes.csv", "--judges", "judged.jsonl", "--kinds", "kind"),
        *("-o", "out", "--error", "0.4", "--price", PRICES, "--budget", "20", "--max-votes", "1"),
        *("--texts", "text", "--label-studio", "tasks.json"),
    ).err
    assert "20 buys: " in said
    remark = "200 further items without votes, treated by a cascade, in cascade.csv: "
    assert remark in said
    out = folder / "out"
    queue = rows_of(out / "queue.csv")
    steps = rows_of(out / "cascade.csv")
    assert {row["id"] for row in queue} == {f"p{row:04d}" for row in range(0, N, 2)}
    assert {row["id"] for row in steps} == {f"p{row:04d}" for row in range(1, N, 2)}
    assert {row["step"] for row in steps} <= {"accept", "person", "stop", "gpt", "claude", "mini"}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "pair 0" in page
    assert remark in page
    tasks = json.loads((folder / "tasks.json").read_text())
    wanted = [row["id"] for row in queue if row["step"] == "ask"]
    wanted += [row["id"] for row in steps if row["step"] == "person"]
    assert [task["data"]["id"] for task in tasks] == wanted
    assert all({"text", "kind"} <= set(task["data"]) for task in tasks)
    run(
        *("plan", "out", "-o", "tasks.csv", "--label-studio", "tasks.json"),
        *("--items", "judged.jsonl", "--overwrite"),
    )
    tasks = json.loads((folder / "tasks.json").read_text())
    assert [task["data"]["id"] for task in tasks] == wanted
    listed = rows_of(folder / "tasks.csv")
    assert [row["id"] for row in listed] == wanted
    assert "person" in {row["step"] for row in steps}
    assert {row["votes"] for row in listed if row["id"] in {s["id"] for s in steps}} == {"0"}
    run("plan", "out", "judged.jsonl", "-o", "new.csv")
    planned = {row["id"]: row for row in rows_of(folder / "new.csv")}
    assert len(planned) == N
    assert all(planned[row["id"]]["step"] == row["step"] for row in queue)
    said = run(
        *("review", "votes.csv", "--judges", "judged.jsonl", "-o", "out", "--overwrite"),
        *("--error", "0.4", "--price", PRICES, "--max-votes", "1"),
    ).err
    assert "the certificates of plans do not hold" in said
    assert not (out / "cascade.csv").exists()  # every item is in the queue now


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--price", PRICES], "about judges"),
        (["--judges", "judged.jsonl", "--budget", "5"], "--budget needs --price"),
        (["--judges", "judged.jsonl", "--price", "gpt=much"], "must be name=number"),
        (["--judges", "judged.jsonl", "--price", "gpt=1"], "none for"),
        (["--label-studio", "tasks.csv"], "must name a file .json"),
        (["--judges", "gpt=judges.gpt.probs"], "before the votes: answers.jsonl"),
        (["judged.jsonl", "--judges", "gpt=judges.gpt.probs"], "The votes come last"),
    ],
)
def test_options_that_do_not_fit(folder: Path, run: Run, options: list[str], message: str) -> None:
    done = run("review", folder / "votes.csv", "-o", "other", *options, code=2)
    assert message in done.err


def test_votes_come_last_and_kinds_are_columns_of_the_answers(folder: Path, run: Run) -> None:
    """One order of files in three commands, and messages that say it."""
    judged = ("judged.jsonl", "votes.csv", "--judges", "gpt=judges.gpt.probs")
    for command in (("agree",), ("estimate",), ("review", "-o", "out", "--error", "0.4")):
        wrong = (*command, "votes.csv", "judged.jsonl", *judged[2:], "--kinds", "kind")
        assert "The votes come last, after the answers" in run(*wrong, code=2).err
        run(*command, *judged, "--kinds", "kind")
    said = run("agree", *judged, "--kinds", "size", code=2).err
    assert "--kinds names the column 'size', which judged.jsonl does not have" in said


def test_plan_names_judges_beside_other_objects(folder: Path, run: Run) -> None:
    """A table that needs --judges in a review needs it in a plan, which checks first."""
    path = folder / "judged.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record["judges"]["gpt"]["meta"] = {"tokens": 12}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    named = ("--judges", "gpt=judges.gpt.probs,claude=judges.claude.label")
    review = ("review", path, "votes.csv", *named, "-o", "out", "--error", "0.2")
    said = run(*review).err
    assert "--judges gpt=judges.gpt.probs" in said
    plan = ("plan", "out", "-o", "ask.csv", "--label-studio", "tasks.json")
    assert "several objects" in run(*plan, "--items", path, code=2).err
    (folder / "some.csv").write_text("id,text\nother,nothing\n")
    assert "has no row for" in run(*plan, "--items", "some.csv", code=2).err
    assert "--items" in run(*plan, *named, code=2).err
    assert not list(folder.glob("ask.csv")) + list(folder.glob("tasks.*"))
    run(*plan, "--items", path, *named)
    tasks = json.loads((folder / "tasks.json").read_text())
    assert len(tasks) == len(rows_of(folder / "ask.csv")) > 0
    assert {each["model_version"] for task in tasks for each in task["predictions"]} == {
        "gpt",
        "claude",
    }
    run("plan", "out", path, "-o", "new.csv", *named)
    assert len(rows_of(folder / "new.csv")) == N
