"""Files as people have them: odd ids, other encodings, columns under unknown names."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import credalset as cs
from credalset._files import quote_formula
from credalset.votes.files import read_vote_table
from tests.cli.conftest import CLASSES, Run

N_ODD = 300
ODD_IDS = ["-x@", "@user", "=1+1", "+49", "0012", "'quoted", "NA", "1.10", " a", "-5", "\tx", '"q"']


@pytest.fixture
def odd(run: Run, tmp_path: Path) -> Path:
    """Predictions and an export of votes for items with odd ids."""
    data = cs.datasets.make_synthetic(N_ODD, n_votes=20, random_state=0)
    ids = [f"{ODD_IDS[i % len(ODD_IDS)]}{i}" for i in range(N_ODD)]
    table = pd.DataFrame(data.distributions, columns=CLASSES)
    table.insert(0, "task", ids)
    table.to_csv(tmp_path / "predictions.csv", index=False)
    item, label = np.nonzero(data.counts)
    long = pd.DataFrame({"task": np.array(ids)[item], "label": np.array(CLASSES)[label]})
    long = long.loc[long.index.repeat(data.counts[item, label].astype(int))]
    long["worker"] = [f"w{i}" for i in range(len(long))]
    long.to_csv(tmp_path / "export.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("name", ["votes.csv", "votes.tsv", "votes.jsonl", "votes.parquet"])
def test_no_id_is_lost_between_import_and_sets(name: str, odd: Path, run: Run) -> None:
    """`import` guarded ids against spreadsheets, and `calibrate` dropped the guarded ones."""
    run("import", "export.csv", "-o", name)
    ids = set(pd.read_csv("predictions.csv", keep_default_na=False, dtype=str)["task"])
    assert set(read_vote_table(name).items or ()) == ids
    said = run("calibrate", "predictions.csv", name, "-o", "calibration", "--hold-out", "0.4").err
    assert "left out" not in said
    run("predict", "calibration", "predictions.csv", "-o", "sets.csv", "--ask", "prediction")
    assert set(pd.read_csv("sets.csv", keep_default_na=False, dtype=str)["task"]) == ids
    said = run("check", "calibration", "sets.csv", name).err
    assert "180 items used for training or calibration left out; 120 others remain" in said
    assert "without votes" not in said


def test_ids_of_lists_of_items_to_ask_come_back_as_they_were(odd: Path, run: Run) -> None:
    """Votes came back under ids with an apostrophe in front, which no item has."""
    run("import", "export.csv", "-o", "votes.csv")
    options = ["--lead", "1.5", "--max-votes", "4"]
    run("calibrate", "predictions.csv", "votes.csv", "-o", "calibration", *options)
    for name in ("tasks.csv", "tasks.jsonl"):
        said = run("plan", "calibration", "predictions.csv", "-o", name).err
        assert ("would run as formulas in a spreadsheet" in said) == (name == "tasks.csv")
    asked = pd.read_csv("tasks.csv", keep_default_na=False, dtype=str)["task"]
    lines = Path("tasks.jsonl").read_text(encoding="utf-8").splitlines()
    as_they_are = [json.loads(line)["task"] for line in lines]
    assert list(asked) == as_they_are
    assert any(quote_formula(task) != task for task in as_they_are)


# --- other encodings, delimiters and numbers ---

GERMAN = """Vorgang;ja;nein;Länge;Datum
0012;0,25;0,75;7;01.02.2025
0013;0,5;0,5;8;31.12.2024
n-ü;1;0;9;x
"""


def test_a_table_in_cp1252_is_named_and_imported(run: Run) -> None:
    Path("predictions.csv").write_text(GERMAN, encoding="cp1252")
    Path("votes.csv").write_text("task,worker,label\n" + "0012,a,ja\n0013,b,nein\n")
    words = ["calibrate", "predictions.csv", "votes.csv", "-o", "out"]
    said = run(*words, code=2).err
    assert "credalset import predictions.csv --kind table --encoding cp1252" in said
    options = ["--kind", "table", "--encoding", "cp1252", "--task", "Vorgang"]
    said = run("import", "predictions.csv", *options, "-o", "clean.csv").err
    assert "decimal commas became points in 'ja', 'nein'" in said
    assert "Wrote 3 rows" in said
    assert "'Vorgang' is called 'task'" in said
    clean = pd.read_csv("clean.csv", dtype={"task": str})
    assert clean.to_dict("list") == {
        "task": ["0012", "0013", "n-ü"],
        "ja": [0.25, 0.5, 1.0],
        "nein": [0.75, 0.5, 0.0],
        "Länge": [7, 8, 9],
        "Datum": ["01.02.2025", "31.12.2024", "x"],
    }
    first = Path("clean.csv").read_bytes()
    run("import", "clean.csv", "--kind", "table", "-o", "clean.csv", "--overwrite")
    assert Path("clean.csv").read_bytes() == first


@pytest.mark.parametrize("fault", ["cp1252", "delimiter"])
def test_every_command_names_the_one_that_cleans(fault: str, files: Path, run: Run) -> None:
    """With the options of the message, the table is clean, and the command goes through."""
    table = ["--columns", "no,perhaps,yes"]
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *table)
    run("calibrate", "calibration.csv", "votes.csv", "-o", "hand", "--in-hand", "0,1", *table)
    odd = {
        "cp1252": lambda text: text.replace("text", "ü").replace("w1", "ä").encode("cp1252"),
        "delimiter": lambda text: text.replace(",", "|").encode(),
    }[fault]
    for name in ("test.csv", "votes.csv", "features.csv"):
        content = Path(name).read_text()
        if name == "features.csv":
            content = content.replace("task", "task,ü").replace("\nt", "\nt0,t")
        Path(f"odd-{name}").write_bytes(odd(content))
    option = {"cp1252": "--encoding cp1252", "delimiter": "--delimiter '|'"}[fault]
    commands = [
        "calibrate odd-test.csv votes.csv -o new",
        "calibrate calibration.csv odd-votes.csv -o new",
        "fit odd-features.csv votes.csv -o new",
        "fit features.csv odd-votes.csv -o new",
        "predict made odd-test.csv -o sets.csv",
        "check made odd-test.csv votes.csv",
        "check made test.csv odd-votes.csv",
        "report made odd-test.csv votes.csv",
        "plan hand odd-test.csv -o tasks.csv",
        "agree odd-votes.csv",
        "import odd-votes.csv -o clean.csv",
        "import odd-test.csv --kind table -o clean.csv",
    ]
    for command in commands:
        said = run(*command.split(), code=2).err
        name = next(word for word in command.split() if word.startswith("odd"))
        kind = "" if name == "odd-votes.csv" else "--kind table "
        assert f"credalset import {name} {kind}{option} -o clean.csv" in said, command
    words = ["--encoding", "cp1252"] if fault == "cp1252" else ["--delimiter", "|"]
    run("import", "odd-test.csv", *words, "--kind", "table", "-o", "clean.csv")
    run("import", "odd-votes.csv", *words, "-o", "clean-votes.csv")
    run("check", "made", "clean.csv", "clean-votes.csv")


def test_predictions_are_no_votes(files: Path, run: Run) -> None:
    said = run("import", "calibration.csv", "-o", "clean.csv", code=2).err
    assert "--kind table" in said


def test_only_decimal_commas_change(run: Run) -> None:
    rows = ["id;words;size;thousands;mixed", "1,5;a, b;1,5;1.234,5;1,5", "2,5;c;2;2;x"]
    Path("features.csv").write_text("\n".join(rows))
    run("import", "features.csv", "--kind", "table", "-o", "clean.jsonl")
    first = json.loads(Path("clean.jsonl").read_text().splitlines()[0])
    assert first == {
        "id": "1,5",
        "words": "a, b",
        "size": "1.5",
        "thousands": "1.234,5",
        "mixed": "1,5",
    }


def test_fields_that_appear_late_are_in_the_clean_table(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("credalset.io.tables.RECORDS", 2)
    rows = [{"task": f"t{i}", "yes": 0.5} | ({"no": 0.5} if i > 2 else {}) for i in range(5)]
    Path("p.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run("import", "p.jsonl", "--kind", "table", "-o", "p.csv")
    assert list(pd.read_csv("p.csv").columns) == ["task", "yes", "no"]


@pytest.mark.parametrize("words", [["--tidy"], ["--worker", "w"], ["--values", "smoothed"]])
def test_options_on_votes_are_not_for_tables(words: list[str], run: Run) -> None:
    Path("p.csv").write_text("task,yes\na,1\n")
    said = run("import", "p.csv", "--kind", "table", "-o", "o.csv", *words, code=2).err
    assert f"{words[0]} is about votes" in said
    assert run("import", "p.csv", "--kind", "table", "--task", "x", "-o", "o.csv", code=2)
    assert not Path("o.csv").exists()


# --- workers and labels ---


def test_a_worker_under_an_unknown_name_is_asked_for(run: Run) -> None:
    """Without the worker, both votes of `a` on an item counted."""
    rows = ["task;Bearbeiter;label;text"]
    rows += [f"t{i};{worker};{'yn'[i % 2]};words" for i in range(4) for worker in "aba"]
    Path("export.csv").write_text("\n".join(rows))
    said = run("import", "export.csv", "-o", "votes.csv", code=2).err
    assert "'Bearbeiter' may name the workers" in said
    assert "--worker 'Bearbeiter'" in said
    assert "'text'" not in said, "what describes the item names no worker"
    assert "--worker 'Bearbeiter'" in run("agree", "export.csv", code=2).err
    run("import", "export.csv", "-o", "votes.csv", "--worker", "Bearbeiter")
    assert read_vote_table("votes.csv").workers == ("b", "a")
    assert read_vote_table("votes.csv").n_votes.tolist() == [2] * 4
    run("import", "export.csv", "-o", "votes.csv", "--overwrite", "--worker", "")
    assert read_vote_table("votes.csv").workers is None
    with pytest.raises(ValueError, match="Bearbeiter"):
        cs.Annotations.read("export.csv")
    assert cs.Annotations.read("export.csv", worker="").n_votes.tolist() == [3] * 4


def test_a_table_without_workers_needs_no_option(run: Run) -> None:
    rows = ["task,label,text,side", "a,y,words,l", "a,n,words,l", "b,y,more,", "b,n,more,r"]
    Path("export.csv").write_text("\n".join(rows))
    run("import", "export.csv", "-o", "votes.csv")
    rows = ["task,label,comment", "a,y,words", "b,n,more"]
    Path("export.csv").write_text("\n".join(rows))
    run("import", "export.csv", "-o", "votes.csv", "--overwrite")


def test_a_tidy_label_is_spelled_as_people_spell_it(run: Run) -> None:
    """ß became ss, which no column of predictions was called."""
    rows = [f"t{i % 3},w{i},{label}" for i, label in enumerate(["mäßig", "Mäßig ", "gut", "GUT"])]
    Path("export.csv").write_text("\n".join(["task,worker,label", *rows]))
    run("import", "export.csv", "-o", "votes.csv", "--tidy")
    assert read_vote_table("votes.csv").classes == ("gut", "mäßig")


def test_labels_that_differ_by_case_are_counted(run: Run) -> None:
    labels = ["yes", "Yes", "yes ", "no", "no", "maybe"]
    rows = [f"t{i % 2},w{i},{label}" for i, label in enumerate(labels)]
    Path("export.csv").write_text("\n".join(["task,worker,label", *rows]))
    said = run("import", "export.csv", "-o", "votes.csv").err
    assert (
        "2 votes for labels that differ from others by case or spaces only ('Yes', 'yes', 'yes ')"
        in said
    )
    assert "--tidy" in said
    said = run("import", "export.csv", "-o", "votes.csv", "--tidy", "--overwrite").err
    assert "differ by case" not in said
    assert read_vote_table("votes.csv").classes == ("maybe", "no", "yes")


# --- Unicode ---


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC"), ("NFD", "NFD")])
def test_predictions_and_votes_in_two_unicode_forms(
    forms: tuple[str, str], files: Path, run: Run, data: Any
) -> None:
    """A file of ids from one system did not match those of another, although they look alike."""
    votes = pd.read_csv("votes.csv", dtype=str)
    predictions = pd.read_csv("calibration.csv", dtype={"task": str})
    for table, form, name in ((predictions, forms[0], "p.csv"), (votes, forms[1], "v.csv")):
        table["task"] = [unicodedata.normalize(form, f"é{task}") for task in table["task"]]
        table.to_csv(name, index=False)
    said = run("calibrate", "p.csv", "v.csv", "-o", "made").err
    assert "put into Unicode form NFC" in said
    ids = {unicodedata.normalize("NFC", task) for task in predictions["task"]}
    assert set(cs.load("made").items or ()) == ids


# --- a class that the calibration does not know ---


@pytest.mark.parametrize("mass", [0.001, 0.015, 0.3])
@pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
def test_a_class_that_the_calibration_does_not_know(
    mass: float, name: str, files: Path, run: Run
) -> None:
    """A class with up to 2 % of the mass was left out, and the others scaled up."""
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", "--columns", ",".join(CLASSES))
    table = pd.read_csv("test.csv")[["task", *CLASSES, "topic"]]
    other = mass * np.random.default_rng(0).random(len(table))
    table[CLASSES] = table[CLASSES].multiply(1.0 - other, axis=0)
    table["length"], table["share"], table["other"] = 7, 0.01, other
    table.round(5).to_csv("new.csv", index=False)
    run("import", "new.csv", "--kind", "table", "-o", "new.parquet")
    sentence = "rows sum to one only with 'other', but the classes of the calibration are"
    assert sentence in run("predict", "made", name, "-o", "sets.csv", code=2).err
    assert sentence in run("check", "made", name, "votes.csv", code=2).err
    table["unsure"] = 0.4 * table["other"]
    table["other"] *= 0.6
    table["share"] = np.random.default_rng(1).random(len(table))
    table.round(5).to_csv("new.csv", index=False)
    said = run("predict", "made", "new.csv", "-o", "sets.csv", code=2).err
    assert "rows sum to one only with 'other', 'unsure', but" in said
    table.drop(columns=["other", "unsure"]).to_csv("new.csv", index=False)
    run("predict", "made", "new.csv", "-o", "sets.csv", code=0 if mass < 0.02 else 2)


def test_rounded_predictions_are_no_unknown_class(files: Path, run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", "--columns", ",".join(CLASSES))
    table = pd.read_csv("test.csv")[["task", *CLASSES]].round(2)
    random = np.random.default_rng(0).random((3, len(table)))
    table["small"], table["any"], table["zero"] = 0.01 * random[0], random[1], 0.0
    table.to_csv("new.csv", index=False)
    run("predict", "made", "new.csv", "-o", "sets.csv")


# --- items that a model was made of ---


def test_items_that_calibrated_are_said(files: Path, run: Run) -> None:
    """`predict` and `plan` said nothing about items that had calibrated the sets."""
    table = ["--columns", ",".join(CLASSES)]
    run("calibrate", "calibration.csv", "votes.csv", "-o", "made", *table)
    run("calibrate", "calibration.csv", "votes.csv", "-o", "crowd", "--lead", "1", *table)
    both = pd.concat([pd.read_csv("calibration.csv").iloc[:5], pd.read_csv("test.csv")])
    both.to_csv("both.csv", index=False)
    used = "5 items were used for calibration (first: 't000'). The guarantee is for new items"
    said = run("predict", "made", "both.csv", "-o", "sets.csv").err
    assert used in said
    run("import", "both.csv", "--kind", "table", "-o", "both.parquet")
    assert used in run("predict", "made", "both.parquet", "-o", "sets/").err
    said = run("plan", "crowd", "both.csv", "-o", "tasks.csv", *table).err
    assert "used for calibration (first: 't00" in said
    assert "used for training (first: 't00" in said
    for words in (["predict", "made"], ["plan", "crowd"]):
        said = run(*words, "test.csv", "-o", f"{words[0]}.csv", *table[: 2 * (words[1] != "made")])
        assert "used for" not in said.err


def test_predictions_for_items_that_trained_do_not_calibrate(files: Path, run: Run) -> None:
    """Nobody was told that predictions of `fit` were for items that trained it."""
    run("fit", "features.csv", "votes.csv", "-o", "model")
    trained = set(cs.load("model").items_)
    columns = pd.concat([pd.read_csv("features.csv"), pd.read_csv("new-features.csv")])
    columns.to_csv("all.csv", index=False)
    said = run("predict", "model", "all.csv", "-o", "p.csv", "--ask", "prediction").err
    assert f"{len(trained)} items were used for training" in said
    marked = pd.read_csv("p.csv").set_index("task")["trained"]
    assert set(marked.index[marked]) == trained
    for name in ("p.csv", "p.parquet"):
        if name == "p.parquet":
            run("import", "p.csv", "--kind", "table", "-o", name)
        said = run("calibrate", name, "votes.csv", "-o", "made", "--overwrite").err
        assert f"{len(trained)} items that trained the model which predicted them left out" in said
        assert set(cs.load("made").items or ()).isdisjoint(trained)
    run("calibrate", "calibration.csv", "votes.csv", "-o", "other", "--columns", ",".join(CLASSES))
    said = run("check", "other", "p.csv", "votes.csv").err
    assert "items that trained the model which predicted them left out" in said
    pd.read_csv("p.csv")[marked.to_numpy()].to_csv("only.csv", index=False)
    said = run("calibrate", "only.csv", "votes.csv", "-o", "none", code=2).err
    assert "all of these items trained the model" in said
    assert "used for" not in run("predict", "model", "new-features.csv", "-o", "new.csv").err


# --- from an export to checked sets, by what the messages say ---

MARKS = ["-x@", "=1+1", "+49", "@user", "NA", "1.10", "ü-7"]
ROLES = ["--task", "Vorgangs-Nr.", "--worker", "Bearbeiter/in", "--label", "Note (Ende)"]


def write_german_files() -> list[str]:
    """An export and predictions in cp1252, and features: semicolons, odd headers, German dates."""
    data = cs.datasets.make_synthetic(300, n_votes=12, random_state=0)
    ids = [f"{i:04d}" if i % 3 else f"{MARKS[i % len(MARKS)]}{i}" for i in range(300)]
    labels = ["gut", "mäßig", "schlecht"]
    votes = ["Vorgangs-Nr.;Bearbeiter/in;Note (Ende);bewertet am;Freitext"]
    predictions = ["Vorgangs-Nr.;P(gut);P(mäßig);P(schlecht);Länge"]
    features = ["Vorgangs-Nr.;Freitext;Länge, cm;Preis in €;Eingang;"]
    for i, item in enumerate(ids):
        chosen = np.repeat(labels, data.counts[i].astype(int))
        for j, label in enumerate(chosen):
            spelled = label.capitalize() + " " if (i + j) % 20 == 0 else label
            day = f"{1 + i % 28:02d}.{1 + j:02d}.2025"
            votes.append(f"{item};Anm{j};{spelled};{day} 09:15;Text")
        votes.append(f"{item};Anm0;{labels[0]};01.01.2024 08:00;Text")  # overruled
        shares = [f"{share:.4f}" for share in 0.9 * data.distributions[i] + 0.1 / 3]
        predictions.append(f"{item};{';'.join(shares).replace('.', ',')};{i % 7}")
        text = " ".join(["gut", "lieb"] if data.X[i, 0] > 0 else ["arg", "schlecht"])
        price = "" if i % 50 == 3 else f"{data.X[i, 1]:.2f}".replace(".", ",")
        features.append(f"{item};{text} {i};{i % 90 + 10};{price};{1 + i % 28:02d}.03.2025;")
    files = {"Export Juli.csv": votes, "Vorhersagen.csv": predictions, "Merkmale.csv": features}
    for name, rows in files.items():
        encoding = "utf-8-sig" if name == "Merkmale.csv" else "cp1252"
        Path(name).write_bytes("\r\n".join([*rows, ""]).encode(encoding))
    return ids


def test_every_wrong_turn_is_corrected_by_its_message(run: Run) -> None:
    ids = write_german_files()
    # the votes
    words = ["import", "Export Juli.csv", "-o", "votes.csv"]
    assert "credalset import 'Export Juli.csv' --encoding cp1252" in run(*words, code=2).err
    words += ["--encoding", "cp1252"]
    assert "--task … --label … --worker …" in run(*words, code=2).err
    assert "Note (Ende)" in run(*words, code=2).err
    words += ROLES
    assert "--tidy" in run(*words).err
    words += ["--tidy", "--time", "bewertet am", "--overwrite"]
    assert "--dayfirst" in run(*words, code=2).err
    assert "by time" in run(*words, "--dayfirst").err
    votes = read_vote_table("votes.csv")
    assert votes.classes == ("gut", "mäßig", "schlecht")
    assert set(votes.items or ()) == set(ids)
    # predictions
    said = run("calibrate", "Vorhersagen.csv", "votes.csv", "-o", "made", code=2).err
    option = "--kind table --encoding cp1252 -o clean.csv"
    assert f"credalset import Vorhersagen.csv {option}" in said
    words = ["import", "Vorhersagen.csv", "--encoding", "cp1252", "-o", "clean.csv"]
    assert "--kind table" in run(*words, code=2).err
    run(*words, "--kind", "table")
    words = ["calibrate", "clean.csv", "votes.csv", "-o", "made", "--hold-out", "0.4"]
    assert "(--id)" in run(*words, code=2).err
    words += ["--id", "Vorgangs-Nr."]
    said = run(*words, code=2).err
    option = "P(gut)=gut,P(mäßig)=mäßig,P(schlecht)=schlecht"
    assert f"--columns '{option}'" in said
    run(*words, "--columns", option)
    words = ["check", "made", "clean.csv", "votes.csv", "--id", "Vorgangs-Nr."]
    assert f"--columns '{option}'" in run(*words, code=2).err
    assert "valid" in run(*words, "--columns", option).out
    # or a clean table in one step, which needs no option later
    words = ["import", "Vorhersagen.csv", "--encoding", "cp1252", "-o", "predictions.csv"]
    for name in votes.classes or ():
        words += ["--rename", f"P({name})={name}"]
    run(*words, "--kind", "table", "--task", "Vorgangs-Nr.")
    words = ["calibrate", "predictions.csv", "votes.csv", "-o", "again", "--hold-out", "0.4"]
    said = run(*words, code=2).err
    assert "nobody voted for 'Länge'" in said
    assert "--columns 'gut,mäßig,schlecht'" in said
    run(*words, "--columns", "gut,mäßig,schlecht")
    run("check", "again", "predictions.csv", "votes.csv")
    assert cs.load("again").threshold(0.1) == cs.load("made").threshold(0.1)
    # features
    words = ["fit", "Merkmale.csv", "votes.csv", "-o", "model"]
    assert "(--id)" in run(*words, code=2).err
    words += ["--id", "Vorgangs-Nr."]
    run(*words)
    check = ["check", "model", "Merkmale.csv", "votes.csv", "--id", "Vorgangs-Nr."]
    assert "--hold-out" in run(*check, code=1).err
    said = run(*words, "--hold-out", "0.4", "--overwrite").err
    assert "missing values become the median" in said
    assert "left out: dates" in said
    assert "valid" in run(*check).out
    words = ["predict", "model", "Merkmale.csv", "-o", "sets.csv", "--id", "Vorgangs-Nr."]
    assert "have no 'Preis in €', which the model fills in" in run(*words).err
    assert pd.read_csv("sets.csv", dtype=str, keep_default_na=False)["Vorgangs-Nr."].tolist() == ids
    words = ["fit", "Merkmale.csv", "votes.csv", "-o", "other", "--id", "Vorgangs-Nr."]
    said = run(*words, "--columns", "Freitext,Länge, cm", code=2).err
    assert "in double quotes" in said
    run(*words, "--columns", 'Freitext,"Länge, cm"')
    assert (
        "RandomForestClassifier"
        in run(*words[:3], "-o", "x", *words[5:], "--learner", "RandomForest", code=2).err
    )
    said = run(
        "calibrate", "Merkmale.csv", "votes.csv", "-o", "x", "--id", "Vorgangs-Nr.", code=2
    ).err
    assert "credalset fit" in said
