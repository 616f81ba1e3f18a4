"""Tables as spreadsheets and other programs write them: encodings, prefixes, words beside the numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from credalset.commands import app

CLASSES = ["bad", "good", "so so"]
RNG = np.random.default_rng(0)
TRUTH = RNG.dirichlet([1.0] * 3, 160)
NAMES = [f"ä{i}" for i in range(160)]
PREDICTIONS = pd.DataFrame(0.7 * TRUTH + 0.1, columns=[f"prob_{name}" for name in CLASSES])
PREDICTIONS.insert(0, "item", NAMES)
PREDICTIONS.insert(1, "product", [f"p{i % 2}" for i in range(160)])
PREDICTIONS["text"], PREDICTIONS["length"] = [f"Größe {i}" for i in range(160)], 7.5
VOTES = pd.DataFrame(
    [(NAMES[i], f"w{j}", CLASSES[RNG.choice(3, p=TRUTH[i])]) for i in range(160) for j in range(4)],
    columns=["item", "rater", "label"],
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("old", PREDICTIONS[:80]), ("new", PREDICTIONS[80:])):
        rows.to_csv(f"{name}.csv", index=False)
        rows.to_csv(f"{name}-excel.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    VOTES.to_csv("votes.csv", index=False)
    VOTES.to_csv("votes-excel.csv", index=False, encoding="cp1252")
    return tmp_path


def run(*words: str, code: int = 0) -> tuple[str, str]:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, done.output
    return done.stdout, " ".join(done.stderr.split())


def test_columns_with_a_prefix_and_words_beside_them(folder: Path) -> None:
    _, said = run("calibrate", "old.csv", "votes.csv", "-o", "made")
    assert "the columns that begin with 'prob_' are read as predictions of the classes" in said
    assert "'product', 'text' of old.csv hold words, not numbers, and are not read" in said
    rows = json.loads(run("check", "made", "new.csv", "votes.csv", "--json")[0])["rows"]
    plain = PREDICTIONS.drop(columns=["product", "text", "length"]).rename(columns=lambda c: c.removeprefix("prob_"))
    plain[:80].to_csv("plain-old.csv", index=False)
    plain[80:].to_csv("plain-new.csv", index=False)
    run("calibrate", "plain-old.csv", "votes.csv", "-o", "plain")
    assert json.loads(run("check", "plain", "plain-new.csv", "votes.csv", "--json")[0])["rows"] == rows
    run("predict", "made", "new.csv", "-o", "sets.csv")
    run("predict", "plain", "plain-new.csv", "-o", "plain-sets.csv")
    assert Path("sets.csv").read_text() == Path("plain-sets.csv").read_text()
    run("calibrate", "old.csv", "votes.csv", "-o", "scaled", "--scale", "bad,so so,good", "--score", "ws")


def test_both_files_in_the_encoding_of_a_spreadsheet(folder: Path) -> None:
    told = run("calibrate", "old.csv", "votes-excel.csv", "-o", "made", code=2)[1]
    assert "votes-excel.csv is not text in the encoding expected" in told
    assert "Name the right one: --encoding" in told
    told = run("calibrate", "old-excel.csv", "votes.csv", "-o", "made", code=2)[1]
    assert "old-excel.csv is not text in UTF-8. Name its encoding, such as --encoding cp1252" in told
    run("calibrate", "old-excel.csv", "votes-excel.csv", "-o", "made", "--encoding", "cp1252")
    run("calibrate", "old.csv", "votes-excel.csv", "-o", "mixed", "--encoding", "cp1252")  # what is UTF-8 stays it
    told = run("predict", "made", "new-excel.csv", "-o", "sets.csv", code=2)[1]
    assert "new-excel.csv is not text in UTF-8. Name its encoding, such as --encoding cp1252" in told
    run("predict", "made", "new-excel.csv", "-o", "excel.csv", "--keep", "text", "--encoding", "cp1252")
    run("predict", "mixed", "new.csv", "-o", "plain.csv", "--keep", "text", "--encoding", "cp1252")
    assert Path("excel.csv").read_text() == Path("plain.csv").read_text()
    assert "Größe" in Path("excel.csv").read_text()
    assert "cp999 is unknown" in run("predict", "made", "new.csv", "-o", "x.csv", "--encoding", "cp999", code=2)[1]


def test_a_header_that_is_not_utf8(folder: Path) -> None:
    PREDICTIONS[:80].rename(columns={"product": "Größe"}).to_csv("odd.csv", index=False, encoding="cp1252")
    told = run("calibrate", "odd.csv", "votes.csv", "-o", "made", code=2)[1]
    assert "odd.csv is not text in UTF-8. Name its encoding" in told


def test_groups_are_columns_of_the_predictions(folder: Path) -> None:
    VOTES.assign(channel="web").to_csv("votes.csv", index=False)
    told = run("calibrate", "old.csv", "votes.csv", "-o", "made", "--groups", "channel", code=2)[1]
    assert "--groups names the column 'channel', which old.csv does not have; it has 'item', 'product'" in told
    assert "looked for in this table, not among the votes" in told


def test_groups_with_a_promise_are_judged_one_by_one(folder: Path) -> None:
    run("calibrate", "old.csv", "votes.csv", "-o", "one")
    run("calibrate", "old.csv", "votes.csv", "-o", "each", "--groups", "product")
    words = ("new.csv", "votes.csv", "--groups", "product", "--alpha", "0.2")
    assert "verdict" in run("check", "each", *words)[0].split("group")[1]
    assert "verdict" not in run("check", "one", *words)[0].split("group")[1].split("\n")[0]
    rows = json.loads(run("check", "each", *words, "--json")[0])["rows"][0]["groups"]
    assert [(row["group"], row["verdict"] is not None) for row in rows] == [("p0", True), ("p1", True)]


def test_tasks_with_what_annotators_are_to_read(folder: Path) -> None:
    run("calibrate", "old.csv", "votes.csv", "-o", "made")
    words = ("plan", "made", "new.csv", "votes.csv", "--budget", "40", "--tasks", "tasks.csv", "--compare", "")
    run(*words, "--texts", "text")
    tasks = pd.read_csv("tasks.csv")
    known = dict(zip(PREDICTIONS["item"], PREDICTIONS["text"], strict=True))
    assert len(tasks) > 0
    assert tasks["text"].tolist() == [known[item] for item in tasks["item"]]
    assert "Did you mean --texts?" in run(*words, "--keep", "text", code=2)[1]
    assert "--texts is for the list of tasks" in run(*words[:6], "--texts", "text", code=2)[1]


def test_options_of_spreadsheets_that_do_not_exist(folder: Path) -> None:
    told = run("predict", "made", "new.csv", "-o", "s.csv", "--sep", ";", code=2)[1]
    assert "No such option: --sep. Tables are written with commas" in told
    assert "sets.to_csv(path, sep=';', decimal=',', encoding='utf-8-sig')" in told


def test_names_that_differ_in_leading_zeros(folder: Path) -> None:
    numbered = PREDICTIONS.assign(item=[f"{i:06d}" for i in range(160)])
    numbered[:80].to_csv("old.csv", index=False)
    VOTES.assign(item=[str(NAMES.index(name)) for name in VOTES["item"]]).to_csv("votes.csv", index=False)
    told = run("calibrate", "old.csv", "votes.csv", "-o", "made", code=2)[1]
    assert "no item is in both tables" in told
    assert "without leading zeros they agree" in told


def test_a_scale_is_said_where_votes_are_counted(folder: Path) -> None:
    told = run("import", "votes.csv", "-o", "long.csv", "--scale", "bad,good", code=2)[1]
    assert "No such option: --scale. Votes are written as they are; say it where they are counted" in told
