"""From an annotation export to a verdict, a page and a plan, in every file format."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import credalset as cs
from credalset.votes.files import read_vote_table
from tests.cli.conftest import CLASSES, N, Run, long_table

WRITE = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "jsonl": lambda frame, path: frame.to_json(
        path, orient="records", lines=True, double_precision=15
    ),
    "parquet": lambda frame, path: frame.to_parquet(path),
}
TABLE = ["--columns", "no,perhaps,yes"]


def label_studio(items: list[str], counts: np.ndarray) -> list[dict[str, Any]]:
    """Tasks as Label Studio exports them, one annotation per vote, and a cancelled one."""
    tasks = []
    for i, (item, row) in enumerate(zip(items, counts.astype(int), strict=True)):
        annotations = [
            {
                "id": 100 * i + j,
                "completed_by": j,
                "was_cancelled": False,
                "result": [
                    {
                        "from_name": "l",
                        "to_name": "t",
                        "type": "choices",
                        "value": {"choices": [CLASSES[k]]},
                    }
                ],
            }
            for j, k in enumerate(np.repeat(np.arange(3), row))
        ]
        annotations.append(
            {"id": 100 * i + 99, "completed_by": 99, "was_cancelled": True, "result": []}
        )
        tasks.append({"id": item, "data": {"text": item}, "annotations": annotations})
    return tasks


@pytest.mark.parametrize("kind", WRITE)
def test_from_an_export_to_a_verdict(
    kind: str, run: Run, data: Any, items: list[str], predictions: Any
) -> None:
    Path("export.json").write_text(json.dumps(label_studio(items, data.counts)))
    plain = predictions.drop(columns=["topic", "says"])
    WRITE[kind](plain.iloc[:N], f"calibration.{kind}")
    WRITE[kind](plain.iloc[N:], f"test.{kind}")
    votes = f"votes.{kind}"
    run("import", "export.json", "-o", votes)
    agreement = json.loads(run("agree", votes, "--json", "--n-resamples", 20).out)
    assert agreement["n_votes"] == data.counts.sum()
    run("calibrate", f"calibration.{kind}", votes, "-o", "made")
    run("predict", "made", f"test.{kind}", "-o", f"sets.{kind}", "--ask", "lower,labels")
    checked = json.loads(run("check", "made", f"test.{kind}", votes, "--json").out)
    sets = cs.load("made").predict_set(plain.iloc[N:].set_index("task"), 0.1)
    order = [CLASSES.index(name) for name in sets.classes]
    covered = sets.contains(data.counts[N:][:, order] / 30).mean()
    assert checked["rows"][0]["coverage"] == pytest.approx(covered)
    assert checked["passed"]


def test_the_same_through_processes_of_their_own(files: Path) -> None:
    """As from a shell: nothing but data on standard output,
    and a pipe from one command to the next.
    """

    def shell(*words: str) -> bytes:
        command = [sys.executable, "-m", "credalset", *words]
        done = subprocess.run(command, cwd=files, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    shell("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    first = shell("predict", "made", "test.csv", "-o", "sets.csv")
    assert first == b""
    # standard output has no name that says a format
    assert (files / "sets.csv").read_text().startswith('"task"')


def test_a_model_of_features_and_one_of_texts(files: Path, run: Run) -> None:
    run("fit", "features.csv", "votes.csv", "-o", "model")
    assert "too few" in run("check", "model", "new-features.csv", "votes.csv", code=1).out
    run("predict", "model", "new-features.csv", "-o", "sets.parquet")
    assert len(pd.read_parquet("sets.parquet")) == N
    texts = pd.read_csv("calibration.csv")[["task", "says"]]
    texts.to_csv("texts.csv", index=False)
    assert "TF-IDF" in run("fit", "texts.csv", "votes.csv", "-o", "text-model").err
    run(
        "predict",
        "text-model",
        "texts.csv",
        "-o",
        "of-texts.csv",
        "--keep",
        "says",
        "--ask",
        "width",
    )
    assert pd.read_csv("of-texts.csv").says.tolist() == texts.says.tolist()


def test_groups(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", "--groups", "topic", *TABLE)
    run("predict", "made", "test.csv", "-o", "sets.csv", "--groups", "topic")
    thresholds = pd.read_csv("sets.csv").threshold.nunique()
    assert thresholds == 2
    assert "b" in run("check", "made", "test.csv", "votes.csv", "--groups", "topic").out


def test_the_review_queue_is_a_column(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    run("predict", "made", "test.csv", "-o", "sets.csv", "--ask", "step")
    expected = (
        cs.load("made")
        .predict_set(pd.read_csv("test.csv").set_index("task")[CLASSES], 0.1)
        .queue()
        .step
    )
    assert pd.read_csv("sets.csv").step.tolist() == expected.tolist()


def test_sets_that_hold_everything_and_large_alphas_are_noted(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    command = ["predict", "made", "test.csv", "--overwrite", "-o", "sets.csv", "--alpha"]
    assert run(*command, 0.001).err.count(f"{N} calibration items") == 1
    assert run(*command, 0.9).err.count("note: --alpha") == 1
    assert "note" not in run(*command, 0.1).err
    table = pd.read_csv("calibration.csv")
    table.loc[:39, CLASSES] = [1.0, 0.0, 0.0]
    table.to_csv("calibration.csv", index=False)
    done = run("calibrate", "calibration.csv", "votes.csv", "-o", "made", "--overwrite", *TABLE)
    assert all("people chose" in each.err for each in (done, run(*command, 0.1)))


def test_items_that_calibrated_are_not_a_test(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    assert "not tested" in run("check", "made", "calibration.csv", "votes.csv", code=1).out.lower()
    checked = json.loads(run("check", "made", "calibration.csv", "votes.csv", "--json", code=1).out)
    assert not checked["passed"]
    run("report", "made", "calibration.csv", "votes.csv", code=1)


@pytest.mark.parametrize(
    "options", [[], ["--in-hand", "0,3"], ["--groups", "topic"]], ids=["plain", "in hand", "groups"]
)
def test_items_held_out_of_one_file_are_tested(
    options: list[str], files: Path, run: Run, predictions: Any
) -> None:
    predictions.to_csv("all.csv", index=False)
    words = ["calibrate", "all.csv", "votes.csv", *TABLE, *options, "-o"]
    assert "96 of 320" in run(*words, "made", "--hold-out", 0.3).err
    asked = ["made", "all.csv", "votes.csv", *(options if "--groups" in options else [])]
    done = run("check", *asked, "--json")
    assert "224 items" in done.err
    assert "96 others remain" in done.err
    assert json.loads(done.out)["rows"][0]["n"] == 96
    assert "224 items" in run("report", *asked).err
    made = cs.load("made")
    used = {*made.items, *(made.crowd.items_ if "--in-hand" in options else ())}
    run(*words, "again", "--hold-out", 0.3)
    assert cs.load("again").items == made.items
    run(*words, "other", "--hold-out", 0.3, "--random-state", 1)
    assert len(used) == 224
    assert set(cs.load("other").items) != set(made.items)


def test_items_held_out_of_a_fit_are_tested(files: Path, run: Run) -> None:
    run("fit", "features.csv", "votes.csv", "-o", "model", "--hold-out", 0.5)
    assert (
        json.loads(run("check", "model", "features.csv", "votes.csv", "--json", code=1).out)[
            "rows"
        ][0]["n"]
        == N // 2
    )


def test_the_check_fails_where_coverage_does(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    test = pd.read_csv("test.csv")
    test.assign(task=test.task.to_numpy()[::-1]).to_csv("shuffled.csv", index=False)
    assert "undercovers" in run("check", "made", "shuffled.csv", "votes.csv", code=1).out


def test_a_page_about_new_items_shows_steps_and_no_results(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    done = run("report", "made", "test.csv", "-o", "new.html")
    assert "no item has votes" in done.err + done.out
    text = Path("new.html").read_text()
    assert "Do next" in text
    assert 'id="strip"' in text
    assert 'id="wrong"' not in text
    assert 'id="where"' not in text


def test_a_page(files: Path, run: Run) -> None:
    test = pd.read_csv("test.csv")
    test.assign(says="<script>alert(1)</script>").to_csv("test.csv", index=False)
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    run(
        "report",
        "made",
        "test.csv",
        "votes.csv",
        "-o",
        "page.html",
        "--texts",
        "says",
        "--groups",
        "topic",
    )
    page = Path("page.html").read_text()
    assert "<script>alert" not in page
    assert "t300" in page
    assert "By topic" in page


def test_votes_in_hand(files: Path, run: Run, data: Any, items: list[str]) -> None:
    """Three votes narrow the sets of a poor model; what is open goes to a list of tasks."""
    for name in ("calibration.csv", "test.csv"):
        table = pd.read_csv(name)
        noise = np.random.default_rng(len(name)).dirichlet(np.ones(3), len(table))
        table[CLASSES] = 0.3 * table[CLASSES] + 0.7 * noise
        table.to_csv(name, index=False)
    some = np.array(
        [
            np.random.default_rng(i).multivariate_hypergeometric(c, 3)
            for i, c in enumerate(data.counts[N:])
        ]
    )
    long_table(items[N:], some).to_csv("so-far.csv", index=False)
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", "--in-hand", "0,3", *TABLE)
    run("predict", "made", "test.csv", "-o", "none.csv", "--ask", "width")
    run(
        "predict",
        "made",
        "test.csv",
        "--votes-in-hand",
        "so-far.csv",
        "-o",
        "three.csv",
        "--ask",
        "width",
    )
    widths = [pd.read_csv(name).width.mean() for name in ("none.csv", "three.csv")]
    assert widths[1] < widths[0]
    run(
        "plan",
        "made",
        "test.csv",
        "--votes-in-hand",
        "so-far.csv",
        "-o",
        "tasks.csv",
        "--texts",
        "says",
    )
    tasks = pd.read_csv("tasks.csv")
    assert {"task", "text", "votes", "further_votes"} <= set(tasks)
    assert 0 < len(tasks) < N
    assert tasks.further_votes.is_monotonic_decreasing
    pd.read_csv("test.csv").rename(columns={"task": "ticket"}).to_csv("tickets.csv", index=False)
    run("plan", "made", "tickets.csv", "--id", "ticket", "-o", "tickets-to-ask.csv")
    assert pd.read_csv("tickets-to-ask.csv").columns[0] == "ticket"
    pd.read_csv("test.csv").rename(columns={"task": "votes"}).to_csv("tickets.csv", index=False)
    assert (
        "'votes'"
        in run("plan", "made", "tickets.csv", "--id", "votes", "-o", "none-to-ask.csv", code=2).err
    )
    again = ["plan", "made", "test.csv", "-o", "tasks.csv", "--overwrite", "--json"]
    planned = json.loads(run(*again).out)
    assert planned["votes"]["low"] <= planned["votes"]["mean"] <= planned["votes"]["high"]
    assert (
        json.loads(run(*again, "--futility", 0.3).out)["votes"]["mean"] < planned["votes"]["mean"]
    )


def test_a_policy_as_a_whole(files: Path, run: Run) -> None:
    run(
        "calibrate",
        "calibration.csv",
        "votes.csv",
        "-o",
        "made",
        "--lead",
        2,
        "--max-votes",
        10,
        *TABLE,
    )
    assert "policy" in repr(cs.load("made"))
    plan = ["plan", "made", "test.csv", "-o", "tasks.csv"]
    assert "its own policy" in run(*plan, "--max-votes", 5, code=2).err
    run(*plan)
    cs.load("made").policy.save("policy")
    assert "VotingPolicy" in run("plan", "policy", "test.csv", "-o", "others.csv", code=2).err
    run("predict", "made", "test.csv", "-o", "sets.csv", code=2)  # nobody has been asked yet
    assert not Path("sets.csv").exists()
    assert "replayed" in run("check", "made", "test.csv", "votes.csv", "--alpha", "0.2").err
    run("report", "made", "test.csv", "votes.csv", "-o", "page.html")


def test_more_votes_in_hand_than_were_calibrated(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", "--in-hand", "0,2", *TABLE)
    said = run("predict", "made", "test.csv", "--votes-in-hand", "votes.csv", "-o", "sets.csv").err
    assert f"{N} of {N} items" in said
    sets = pd.read_csv("sets.csv")
    assert np.unique(sets.threshold) == pytest.approx(cs.load("made").threshold(0.1, in_hand=2))


def test_import_names_the_items_and_counts_what_it_changes(run: Run) -> None:
    Path("export.json").write_text(
        json.dumps(label_studio(["7", "8"], np.array([[2, 1, 0], [0, 0, 3]])))
    )
    assert "'id': '7', '8'" in run("import", "export.json", "-o", "a.csv").err
    rows = [
        ("x1", "u", "Yes "),
        ("x1", "v", "no"),
        ("x1", "v", "yes"),
        ("x2", "u", None),
        ("x3", None, "no"),
    ]
    pd.DataFrame(rows, columns=["item", "rater", "label"]).to_csv("votes.csv", index=False)
    said = run("import", "votes.csv", "-o", "b.csv", "--tidy").err
    notes = [line for line in said.splitlines() if line.startswith("note: 1 ")]
    words = ("tidied", "without a worker", "without a label", "replaced", "item without votes")
    assert all(any(word in line for line in notes) for word in words)
    assert "'item': 'x1', 'x3'" in said


def test_import_writes_times_that_every_command_reads(run: Run) -> None:
    Path("export.csv").write_text(
        "task,worker,label,time\n1,u,a,26.01.2025 00:15\n1,u,b,02.02.2025\n2,v,b,3.3.2025\n2,u,a,\n"
    )
    run("import", "export.csv", "-o", "votes.csv", "--dayfirst")
    with Path("votes.csv").open("a") as more:
        more.write("1,u,a,2025-01-30T08:00:00\n")
    run("agree", "votes.csv", "--n-resamples", 0)
    assert cs.Annotations.read("votes.csv").table["time"] == [
        "2025-02-02T00:00:00",
        "2025-03-03T00:00:00",
        None,
    ]


def test_import_of_a_wide_table_without_names_of_annotators(run: Run) -> None:
    Path("wide.csv").write_text("task,ann,bob\n1,x,x\n2,y,x\n")
    run("import", "wide.csv", "-o", "votes.csv", "--kind", "wide")
    assert cs.Annotations.read("votes.csv").workers == ("ann", "bob")


def test_import_of_fields_within_objects(run: Run) -> None:
    rows = [
        {"id": i, "by": {"name": w}, "answer": {"label": i % 2 * w, "why": "."}}
        for i in range(4)
        for w in (0, 1)
    ]
    Path("judge.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(
        "import", "judge.jsonl", "-o", "votes.csv", "--label", "answer.label", "--worker", "by.name"
    )
    votes = cs.Annotations.read("votes.csv")
    assert (votes.classes, votes.workers) == (("0", "1"), ("0", "1"))
    np.testing.assert_array_equal(votes.counts, [[2, 0], [1, 1]] * 2)
    assert (
        "'answer.what'"
        in run("import", "judge.jsonl", "-o", "x.csv", "--label", "answer.what", code=2).err
    )


def test_labels_with_dots_are_no_objects(run: Run) -> None:
    rows = [
        (i, w, label) for i in range(60) for w, label in enumerate(["0", "0.5", "1"][: 2 + i % 2])
    ]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv("votes.csv", index=False)
    run("import", "votes.csv", "-o", "shares.csv", "--values", "smoothed")
    run("calibrate", "shares.csv", "votes.csv", "-o", "made")
    assert cs.load("made").classes == ("0", "0.5", "1")


def test_labels_of_judges_become_predictions(
    files: Path, run: Run, data: Any, items: list[str]
) -> None:
    labels = np.array(CLASSES)[[data.distributions.argmax(axis=1)] * 3]
    labels[2, ::7] = "no"  # the third judge differs at times
    records = [
        {"pair": item, "a": a, "b": b, "c": c}
        for item, a, b, c in zip(items, *labels.tolist(), strict=True)
    ]
    Path("labels.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    table = ["labels.jsonl", "--kind", "wide", "--task", "pair", "--worker", "a,b,c"]
    run("import", *table, "-o", "shares.csv", "--values", "smoothed")
    shares = pd.read_csv("shares.csv", index_col="item")
    named = dict(zip(items, labels.T.tolist(), strict=True))
    expected = [
        [(named[item].count(k) + 0.5) / 4.5 for k in shares.columns] for item in shares.index
    ]
    np.testing.assert_allclose(shares.to_numpy(), expected)
    run("calibrate", "shares.csv", "votes.csv", "-o", "made", "--hold-out", 0.5)
    run("check", "made", "shares.csv", "votes.csv")
    assert "values" in run("import", *table, "-o", "other.csv", "--values", "smooth", code=2).err
    pd.DataFrame({"task": [1, 1], "label": ["item", "b"]}).to_csv("named.csv", index=False)
    assert (
        "'item'"
        in run("import", "named.csv", "-o", "other.csv", "--values", "smoothed", code=2).err
    )
    assert not Path("other.csv").exists()
    run("calibrate", "calibration.csv", "votes.csv", "-o", "plain")
    for option in ("--groups", "--weights"):
        assert (
            "'region'"
            in run("predict", "plain", "test.csv", "-o", "x.csv", option, "region", code=2).err
        )
    assert (
        "weights" in run("check", "plain", "test.csv", "votes.csv", "--weights", "yes", code=2).err
    )


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", "task,label\n"), ("a.json", "[]"), ("a.jsonl", "")]
)
def test_import_of_nothing(name: str, text: str, run: Run) -> None:
    Path(name).write_text(text)
    assert name in run("import", name, "-o", "votes.csv", code=2).err


def test_an_ordinal_scale_survives_import(files: Path, run: Run) -> None:
    run("import", "votes.csv", "-o", "votes.parquet", "--scale", "no,perhaps,yes")
    assert cs.Annotations.read("votes.parquet").scale == (0.0, 1.0, 2.0)


@pytest.mark.parametrize("names", ["yes,none,no,perhaps", "3,1,4,2"], ids=["words", "numbers"])
def test_the_order_of_the_classes_survives_import(names: str, files: Path, run: Run) -> None:
    new = dict(zip(["yes", "none", "no", "perhaps"], names.split(","), strict=True))
    pd.read_csv("votes.csv").replace({"label": new}).to_csv("v.csv", index=False)
    run("import", "v.csv", "-o", "votes.parquet", "--classes", names)
    for votes in (cs.Annotations.read("votes.parquet"), read_vote_table("votes.parquet")):
        assert votes.classes == tuple(names.split(","))
        assert votes.scale is None


def test_folders_of_parquet_and_resuming(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *TABLE)
    pd.read_csv("test.csv").to_parquet("test.parquet")
    run("predict", "made", "test.parquet", "-o", "sets/")
    run("predict", "made", "test.parquet", "-o", "sets/", "--resume")
    assert len(pd.read_parquet(next(Path("sets").glob("*.parquet")))) == N


def test_the_demo(run: Run) -> None:
    done = run("demo", "--n-items", 600)
    assert "of it disagree with the accepted labels" in done.out
    assert "error at most 0.15, certified" in done.out or "certified" in done.out
    assert Path("demo-output/review/report.html").exists()
    assert Path("demo-output/tasks.csv").exists()
    run("demo", "--n-items", 600)  # may be run again
    Path("other").mkdir()
    Path("other/mine.txt").write_text("precious")
    run("demo", "--out", "other", code=2)
    assert [path.name for path in Path("other").iterdir()] == ["mine.txt"]


def test_votes_in_hand_that_match_nothing_or_come_twice(
    files: Path, run: Run, data: Any, items: list[str]
) -> None:
    some = np.array(
        [
            np.random.default_rng(i).multivariate_hypergeometric(c, 3)
            for i, c in enumerate(data.counts[N:])
        ]
    )
    long_table(items[N:], some).to_csv("so-far.csv", index=False)
    long_table([f"z{item}" for item in items[N:]], some).to_csv("others.csv", index=False)
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", "--in-hand", "0,3", *TABLE)
    assert (
        "no item"
        in run(
            "predict", "made", "test.csv", "--votes-in-hand", "others.csv", "-o", "sets.csv", code=2
        ).err
    )
    assert not Path("sets.csv").exists()
    said = run(
        "check", "made", "test.csv", "votes.csv", "--votes-in-hand", "so-far.csv", code=2
    ).err
    assert "votes in hand" in said
    run("calibrate", "calibration.csv", "votes.csv", "-o", "plain", *TABLE)
    assert (
        "--in-hand"
        in run(
            "predict",
            "plain",
            "test.csv",
            "--votes-in-hand",
            "so-far.csv",
            "-o",
            "sets.csv",
            code=2,
        ).err
    )


def test_votes_in_a_column_of_folders_of_parquet(files: Path, run: Run, data: Any) -> None:
    """Parts of a large job read the votes in hand from a column of lists,
    in the order of the classes.
    """
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", "--in-hand", "0,3", *TABLE)
    loaded = cs.load("made")
    order = [CLASSES.index(name) for name in loaded.classes]
    some = np.array(
        [
            np.random.default_rng(i).multivariate_hypergeometric(c, 3)
            for i, c in enumerate(data.counts[N:])
        ]
    )
    new = pd.read_csv("test.csv")
    new.assign(votes=list(some[:, order])).to_parquet("new.parquet", row_group_size=60)
    cs.distributed.score_parquet(
        "new.parquet", "sets", cs.Scorer("made", votes="votes", ask=["width"])
    )
    found = pd.concat(
        pd.read_parquet(path) for path in sorted(Path("sets").glob("*.parquet"))
    ).set_index("task")
    expected = loaded.predict_set(
        new.set_index("task")[list(loaded.classes)], votes=some[:, order]
    ).width()
    assert found.loc[new.task, "width"].to_numpy() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["test.csv", "test.parquet"])
def test_threads_change_nothing(name: str, files: Path, run: Run) -> None:
    """All cores by default, and the same bytes as with one."""
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", "--columns", "no,perhaps,yes")
    run("import", "test.csv", "--kind", "table", "-o", "test.parquet")
    found = []
    for words in (["--jobs", 1], ["--jobs", 3], []):
        run("predict", "made", name, "-o", "sets.parquet", "--overwrite", *words)
        found.append(Path("sets.parquet").read_bytes())
    assert found[0] == found[1] == found[2]
    for words in (["--jobs", 1], ["--jobs", 3]):
        run("predict", "made", "test.parquet", "-o", f"sets{words[1]}/", *words)
    one, three = (
        {file.name: file.read_bytes() for file in Path(f"sets{n}").glob("part-*")} for n in (1, 3)
    )
    assert one == three
    said = run("predict", "made", name, "-o", "x/", "--jobs", 2, "--workers", 2, code=2).err
    assert "--jobs is for one process" in said
