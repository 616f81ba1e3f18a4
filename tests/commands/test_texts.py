"""Texts in place of numbers: a model that reads them works wherever a calibration does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("typer")

from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from typer.testing import CliRunner, Result  # noqa: E402

import credalset as cs  # noqa: E402
from credalset.commands import app  # noqa: E402

DATA = cs.datasets.make_messages(240, n_votes=12, random_state=0)
OLD, NEW = slice(160), slice(160, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Messages, with and without further columns, their votes, and a model of somebody's own."""
    home = tmp_path_factory.mktemp("texts")
    frame = pd.DataFrame({"message_id": DATA.items, "text": DATA.texts, "channel": DATA.channels})
    pd.DataFrame(DATA.votes()).rename(columns={"task": "message_id"}).to_csv(home / "votes.csv", index=False)
    frame[OLD].to_csv(home / "old.csv", index=False)
    frame[NEW].to_csv(home / "new.csv", index=False)
    frame[NEW].drop(columns="channel").to_parquet(home / "plain.parquet")
    frame[OLD].drop(columns="channel").to_csv(home / "plain.csv", index=False)
    clf = cs.ConformalCredalClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), "kl")
    votes = cs.Annotations.from_counts(DATA.counts[OLD], classes=DATA.classes)
    clf.fit_conformalize(list(DATA.texts[OLD]), votes, random_state=0).save(home / "own")
    return home


def run(folder: Path, *words: str, code: int = 0) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result


def test_a_model_that_reads_texts_predicts_from_a_table(folder: Path) -> None:
    run(folder, "predict", "own", "new.csv", "-o", "sets.csv", "--columns", "text", "--keep", "channel")
    run(folder, "predict", "own", "plain.parquet", "-o", "plain-sets.csv")
    found = pd.read_csv(folder / "sets.csv")
    sets = cs.load(folder / "own").predict_set(list(DATA.texts[NEW]), alpha=0.1)
    assert list(found["message_id"]) == list(DATA.items[NEW])
    assert found["lower_praise"].to_numpy() == pytest.approx(sets.envelope()[0][:, list(DATA.classes).index("praise")])
    assert pd.read_csv(folder / "plain-sets.csv").equals(found.drop(columns="channel"))


def test_which_of_two_columns_holds_the_texts_is_asked_for(folder: Path) -> None:
    """Unless one of them is called text, as in new.csv."""
    two = pd.read_csv(folder / "new.csv").rename(columns={"text": "said", "channel": "where"})
    two.to_csv(folder / "two.csv", index=False)
    refused = run(folder, "predict", "own", "two.csv", "-o", "-", "--out-format", "csv", code=2)
    assert "several columns hold texts: 'said', 'where'. Name the one to read (--columns)" in refused.stderr


def test_fit_and_everything_after_it_with_texts(folder: Path) -> None:
    done = run(folder, "fit", "old.csv", "votes.csv", "-o", "made", "--columns", "text")
    assert "note: 'text' holds texts: the learner gets their TF-IDF weights." in done.stderr
    run(folder, "fit", "plain.csv", "votes.csv", "-o", "again")
    words = ("new.csv", "votes.csv", "--columns", "text")
    rows = [json.loads(run(folder, "check", made, *words, "--json").stdout)["rows"] for made in ("made", "again")]
    assert rows[0] == rows[1]
    predicted = cs.load(folder / "made").predict(list(DATA.texts[NEW]))
    majority = np.array(DATA.classes)[DATA.counts[NEW].argmax(axis=1)]
    assert (predicted == majority).mean() > 0.6, "words tell messages apart"
    run(folder, "report", "made", *words, "--texts", "text", "-o", "page.html")
    assert DATA.texts[-1] in (folder / "page.html").read_text(encoding="utf-8")
    run(folder, "plan", "made", *words, "--budget", "20", "--most", "5", "-o", "plan.csv", "--tasks", "tasks.csv")
    for file in ("plan.csv", "tasks.csv"):
        assert next(iter(pd.read_csv(folder / file))) == "message_id"


def test_the_python_that_is_shown_reads_texts_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder, "fit", "plain.csv", "votes.csv", "-o", "one")
    shown = run(folder, "fit", "plain.csv", "votes.csv", "-o", "two", "--show-python").stdout
    monkeypatch.chdir(folder)
    exec(shown, {})
    texts = list(DATA.texts[NEW])
    one, two = (cs.load(folder / name).predict_proba(texts) for name in ("one", "two"))
    assert one == pytest.approx(two, abs=1e-12)


def test_a_text_is_missing(folder: Path) -> None:
    frame = pd.read_csv(folder / "plain.csv")
    frame.loc[3, "text"] = None
    frame.to_parquet(folder / "gap.parquet")
    done = run(folder, "predict", "own", "gap.parquet", "-o", "x.csv", code=2)
    assert "column 'text' of the predictions has no value in row 3" in done.stderr


def test_the_text_column_may_be_kept_or_shown_and_has_others_beside_it(folder: Path) -> None:
    run(folder, "predict", "own", "plain.parquet", "-o", "kept.csv", "--keep", "text")
    assert list(pd.read_csv(folder / "kept.csv")["text"]) == list(DATA.texts[NEW])
    for words in (["check", "own", "new.csv", "votes.csv"], ["plan", "own", "new.csv", "votes.csv", "--budget", "9"]):
        run(folder, *words, *([] if words[0] == "check" else ["-o", "plan.csv"]))
    run(folder, "report", "own", "plain.parquet", "votes.csv", "-o", "page.html", "--texts", "text")
    assert str(DATA.texts[NEW][0]).split(".")[0] in (folder / "page.html").read_text(encoding="utf-8")


def test_a_scale_is_given_in_its_order(folder: Path) -> None:
    classes = list(DATA.classes)
    wanted = [classes[1], classes[2], classes[0]]
    probabilities = pd.DataFrame(np.full((160, 3), 1 / 3), columns=classes).assign(message_id=DATA.items[OLD])
    probabilities.to_csv(folder / "probs.csv", index=False)
    said = run(folder, "calibrate", "probs.csv", "votes.csv", "-o", "ws", "--score", "ws")
    assert f"in the order {', '.join(classes)} (--scale names another)" in said.output.replace("\n", " ")
    run(folder, "calibrate", "probs.csv", "votes.csv", "-o", "scaled", "--score", "ws", "--scale", ",".join(wanted))
    assert cs.load(folder / "scaled").classes == tuple(wanted)
    run(folder, "fit", "plain.csv", "votes.csv", "-o", "fitted", "--score", "ws", "--scale", ",".join(wanted))
    assert list(cs.load(folder / "fitted").classes_) == wanted
    agreed = run(folder, "agree", "votes.csv", "--resamples", "0", "--json", "--scale", ",".join(wanted))
    assert "alpha_ordinal" in agreed.output
