"""Texts in place of numbers: a model that reads them works wherever a calibration does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
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
    texts = list(DATA.texts[OLD])
    clf.fit(texts[:100], votes[:100]).conformalize(texts[100:], votes[100:]).save(home / "own")
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


@pytest.fixture(scope="module")
def german(folder: Path) -> Path:
    """A model fitted with the column text beside another, and new messages with a second column of texts."""
    frame = pd.read_csv(folder / "new.csv")
    frame = frame.assign(kommentar=frame["text"].to_numpy()[::-1]).drop(columns="channel")
    frame.to_csv(folder / "tk.csv", index=False)
    frame.rename(columns={"text": "worte"}).to_csv(folder / "wk.csv", index=False)
    frame.rename(columns={"text": "body"}).drop(columns="kommentar").to_csv(folder / "body.csv", index=False)
    run(folder, "fit", "old.csv", "votes.csv", "-o", "named", "--columns", "text")
    return folder


def test_a_model_reads_the_column_that_it_was_fitted_with_whatever_else_it_is_used_for(german: Path) -> None:
    assert cs.load(german / "named").text_name_in_ == "text"
    for out, more in (("a.csv", []), ("b.csv", ["--keep", "text"]), ("c.csv", ["--keep", "text,kommentar"])):
        assert "note: the texts" not in run(german, "predict", "named", "tk.csv", "-o", out, *more).stderr
    sets = [pd.read_csv(german / name) for name in ("a.csv", "b.csv", "c.csv")]
    for other in sets[1:]:
        assert other[sets[0].columns].equals(sets[0])
    shown = [run(german, "report", "named", "tk.csv", "votes.csv", "-o", "p.html", *more).stderr.splitlines()[-2]
             for more in ([], ["--texts", "text"], ["--texts", "kommentar"])]  # fmt: skip
    assert len(set(shown)) == 1
    checked = run(german, "check", "named", "tk.csv", "votes.csv", "--groups", "kommentar", "--json").stdout
    assert f"{json.loads(checked)['rows'][0]['observed']:.1%}" in shown[0]


def test_without_that_column_another_is_read_with_a_word_or_asked_for(german: Path) -> None:
    done = run(german, "predict", "named", "body.csv", "-o", "d.csv")
    said = "note: the texts are read from the column 'body': the table has no 'text', which the model was fitted with"
    assert said in done.stderr
    assert "(--columns names another)" in done.stderr
    assert said in run(german, "check", "named", "body.csv", "votes.csv").stderr
    for words in (["predict", "named", "wk.csv", "-o", "x.csv", "--keep", "kommentar"],
                  ["report", "named", "wk.csv", "votes.csv", "-o", "x.html", "--texts", "kommentar"]):  # fmt: skip
        done = run(german, *words, code=2)
        assert "several columns hold texts: 'worte', 'kommentar'. Name the one to read (--columns)" in done.stderr
    done = run(german, "predict", "own", "body.csv", "-o", "e.csv", "--keep", "body")
    assert "note: the texts are read from the column 'body' (--columns names another)." in done.stderr


def test_the_name_of_a_series_is_remembered(german: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(german / "old.csv").set_index("message_id")
    votes = cs.Annotations.read(german / "votes.csv").select(frame.index)
    clf = cs.ConformalCredalClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), "kl")
    clf.fit(frame["text"][:100], votes[:100]).conformalize(frame["text"][100:], votes[100:]).save(tmp_path / "series")
    loaded = cs.load(tmp_path / "series")
    assert loaded.text_name_in_ == "text"
    new = pd.read_csv(german / "tk.csv")
    expected = loaded.predict_set(new["text"].rename("other"), 0.1).lower()
    scorer = cs.Scorer(loaded, id="message_id", keep=["text"])
    batch = pa.RecordBatch.from_pandas(new, preserve_index=False)
    assert scorer.for_input(batch.schema)(batch)["lower_praise"].to_numpy() == pytest.approx(
        expected[:, list(loaded.classes_).index("praise")]
    )
    unnamed = clf.fit(list(frame["text"]), votes.counts)
    assert unnamed.text_name_in_ is None
    prefit = cs.ConformalCredalClassifier(clf.estimator_, "kl").conformalize(frame["text"], votes)
    assert prefit.text_name_in_ == "text"


@pytest.fixture(scope="module")
def mixed(folder: Path) -> Path:
    """Tables of numbers, of predictions, of lists, and models of numbers beside those of texts."""
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.normal(size=(160, 3)), columns=["x", "y", "z"])
    numbers.insert(0, "message_id", DATA.items[OLD])
    numbers.to_csv(folder / "numbers.csv", index=False)
    numbers.drop(columns="y").to_csv(folder / "fewer.csv", index=False)
    shares = pd.DataFrame((DATA.counts[OLD] + 1) / (DATA.counts[OLD] + 1).sum(axis=1, keepdims=True))
    shares.set_axis(DATA.classes, axis=1).assign(message_id=DATA.items[OLD]).to_csv(folder / "shares.csv", index=False)
    pd.read_csv(folder / "plain.csv").astype({"text": "category"}).to_parquet(folder / "categories.parquet")
    run(folder, "fit", "numbers.csv", "votes.csv", "-o", "of-numbers")
    run(folder, "calibrate", "shares.csv", "votes.csv", "-o", "of-shares")
    unknown = cs.load(folder / "own")
    del unknown.text_name_in_, unknown.estimator_.text_name_in_  # as one that an earlier version saved
    unknown.save(folder / "earlier")
    return folder


@pytest.mark.parametrize("command", ["predict", "check", "report", "plan"])
@pytest.mark.parametrize(
    ("model", "table", "more", "sentence"),
    [
        ("own", "numbers.csv", (), "this model reads texts, but the table has no column of texts: it has 'message_id'"),
        ("own", "shares.csv", (), "this model reads texts, but the table has no column of texts"),
        ("own", "numbers.csv", ("--columns", "x"), "this model reads texts, but 'x' holds double"),
        ("own", "numbers.csv", ("--columns", "x,y"), "this model reads texts, but 2 columns were named"),
        ("own", "plain.csv", ("--logits",), "--logits is for predictions, but this model reads features or texts"),
        ("of-numbers", "plain.csv", (), "'x'"),
        ("of-numbers", "fewer.csv", (), "'y'"),
        ("of-numbers", "shares.csv", (), "'x'"),
        ("of-shares", "plain.csv", (), "'text' of the predictions must hold numbers"),
        ("of-shares", "numbers.csv", (), "'praise'"),
    ],
)  # fmt: skip
def test_a_table_of_another_kind(
    mixed: Path, command: str, model: str, table: str, more: tuple[str, ...], sentence: str
) -> None:
    words = {"predict": ["-o", "made.csv"], "check": ["votes.csv"], "report": ["votes.csv", "-o", "made.html"],
             "plan": ["votes.csv", "--budget", "5", "-o", "made.csv"]}[command]  # fmt: skip
    done = run(mixed, command, model, table, *words, *more, code=2)
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert sentence in said[0]


def test_a_model_that_does_not_know_what_it_reads(mixed: Path) -> None:
    run(mixed, "predict", "earlier", "plain.csv", "-o", "early.csv", "--keep", "text")
    done = run(mixed, "predict", "earlier", "numbers.csv", "-o", "made.csv", code=2)
    assert "error: the estimator cannot read X: 'numpy.ndarray' object has no attribute 'lower'" in done.stderr


def test_categories_are_texts(mixed: Path) -> None:
    run(mixed, "predict", "own", "categories.parquet", "-o", "from-categories.csv")
    run(mixed, "predict", "own", "plain.csv", "-o", "from-texts.csv")
    assert (mixed / "from-categories.csv").read_bytes() == (mixed / "from-texts.csv").read_bytes()
