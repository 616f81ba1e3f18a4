"""Models of tables with texts, numbers and categories: fitted, saved, and asked in every way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import credalset as cs
from credalset.cli.shared import split
from credalset.io.dask import score_parquet
from credalset.io.features import choose_features, select_training
from credalset.io.items import Selection
from credalset.votes.files import read_vote_table
from tests.cli.conftest import Run

N_ROWS, N_TRAIN = 480, 300
GOOD, BAD = ["great", "lovely", "quick"], ["broken", "awful", "late"]
OTHER = ["parcel", "box", "door", "week", "order", "today"]
FEATURES = ["says", "title", "age", "channel", "code"]


def make_table() -> tuple[pd.DataFrame, np.ndarray]:
    """Items whose shares of votes depend on a text, a number and a category."""
    generator = np.random.default_rng(0)
    quality = generator.random(N_ROWS)
    channel = generator.choice(["mail", "phone", "shop"], N_ROWS)
    age = generator.normal(40, 10, N_ROWS).round(1)
    words = [
        [*generator.choice(GOOD if generator.random() < q else BAD, 3), *generator.choice(OTHER, 4)]
        for q in quality
    ]
    share = 0.1 + 0.5 * quality + 0.2 * (channel == "phone") + 0.1 * (age > 40)
    table = pd.DataFrame(
        {
            "id": [f"{i:04d}" for i in range(N_ROWS)],
            "nr": range(1, N_ROWS + 1),
            "says": [" ".join(each) for each in words],
            "title": [" ".join(each[-3:]) for each in words],
            "age": age,
            "channel": channel,
            "code": generator.choice(["0012", "0013", "12"], N_ROWS),
            "when": [f"{1 + i % 28:02d}.03.2025" for i in range(N_ROWS)],
            "ref": [f"R{7919 * i % 10**6}" for i in range(N_ROWS)],
        }
    )
    table.loc[3, "age"] = np.nan
    table.loc[[5, 6, 7], "channel"] = None
    table.loc[8, "says"] = None
    return table, generator.binomial(12, np.clip(share, 0, 1))


@pytest.fixture
def mixed(run: Run) -> pd.DataFrame:
    table, n_yes = make_table()
    rows = [
        (table["id"][i], f"w{j}", "yes" if j < n_yes[i] else "no")
        for i in range(N_ROWS)
        for j in range(12)
    ]
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv("votes.csv", index=False)
    table[:N_TRAIN].to_csv("train.csv", index=False)
    new = table[N_TRAIN:].copy()
    new.loc[N_TRAIN + 5, "channel"] = "fax"
    new.loc[[N_TRAIN + 1, N_TRAIN + 2], "age"] = np.nan
    new.to_csv("new.csv", index=False)
    return new


def test_a_table_of_everything_from_fit_to_check(mixed: pd.DataFrame, run: Run) -> None:
    said = run("fit", "train.csv", "votes.csv", "-o", "model").err
    lines = said[said.index("column by column") :].splitlines()[3:]
    read_as = {line.split()[0]: line.split()[1] for line in lines[:8]}
    assert read_as == {
        "nr": "-",
        "says": "text",
        "title": "text",
        "age": "number",
        "channel": "category",
        "code": "category",
        "when": "-",
        "ref": "-",
    }
    for reason in (
        "it counts the rows",
        "dates",
        "as in ids",
        "1 missing value becomes the median",
    ):
        assert reason in said
    model: Any = cs.load("model")  # without trusted
    assert list(model.feature_names_in_) == FEATURES

    said = run("predict", "model", "new.csv", "-o", "sets.csv").err
    assert "2 rows have no 'age', which the model fills in" in said
    assert "1 row has a value of 'channel' that was not in training (first: 'fax')" in said
    run("predict", "model", "new.csv", "-o", "strict.csv", "--strict", code=2)
    sets = pd.read_csv("sets.csv", dtype={"id": str})
    assert sets["id"].tolist() == mixed["id"].tolist(), "no row is left out"
    assert "valid" in run("check", "model", "new.csv", "votes.csv").out

    frame = mixed[FEATURES].fillna({"channel": "", "says": ""})
    expected = model.predict_set(frame, 0.1)
    assert sets["threshold"].tolist() == expected.threshold.tolist()
    assert np.allclose(sets["upper_yes"], expected.upper()[:, 1], rtol=1e-12)

    mixed.to_parquet("new.parquet", row_group_size=20)
    batch = pa.RecordBatch.from_pandas(mixed, preserve_index=False)
    with pytest.warns(cs.CredalSetWarning):
        scored = cs.Scorer("model", ask=["upper"], id="id")(batch)
    assert np.allclose(scored["upper_yes"], expected.upper()[:, 1], rtol=1e-12)
    with pytest.warns(cs.CredalSetWarning) as warned:
        score_parquet("new.parquet", "parts", cs.Scorer("model", ask=["upper"], id="id"))
    assert {str(each.message).partition(" ")[0] for each in warned} == {"2", "1"}
    parts = pd.concat(map(pd.read_parquet, sorted(Path("parts").glob("part-*"))))
    assert np.allclose(parts["upper_yes"], expected.upper()[:, 1], rtol=1e-12)


def test_the_pipeline_is_that_of_scikit_learn(mixed: pd.DataFrame, run: Run) -> None:
    """The same steps by hand, on the same items, give the same distributions."""
    run("fit", "train.csv", "votes.csv", "-o", "model")
    model: Any = cs.load("model")
    train = pd.read_csv("train.csv", dtype={"id": str, "code": str}).set_index("id")
    train = train[FEATURES].fillna({"channel": "", "says": ""}).loc[list(model.items_)]
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    parts = [
        ("numbers", numbers, ["age"]),
        ("categories", OneHotEncoder(handle_unknown="ignore"), ["channel", "code"]),
        ("says", TfidfVectorizer(), "says"),
        ("title", TfidfVectorizer(), "title"),
    ]
    own = make_pipeline(
        ColumnTransformer(parts), cs.SoftLabelClassifier(LogisticRegression(max_iter=1000))
    )
    own.fit(train, read_vote_table("votes.csv").align(train.index).distributions)
    new = mixed[FEATURES].fillna({"channel": "", "says": ""})
    assert np.allclose(model.predict_proba(new), own.predict_proba(new), rtol=1e-6)


def test_columns_are_named_and_may_be_called_otherwise(mixed: pd.DataFrame, run: Run) -> None:
    run("fit", "train.csv", "votes.csv", "-o", "model", "--columns", "age,ref,code=text")
    model: Any = cs.load("model")
    assert list(model.feature_names_in_) == ["age", "ref", "code"]
    assert model.feature_kinds_in_ == ("number", "text", "text"), "what is named is not left out"
    mixed.rename(columns={"age": "Alter, Jahre"}).to_csv("other.csv", index=False)
    assert "'age'" in run("predict", "model", "other.csv", "-o", "sets.csv", code=2).err
    words = ["predict", "model", "other.csv", "-o", "sets.csv", "--ask", "width"]
    run(*words, "--columns", '"Alter, Jahre=age"')
    words[4] = "more.csv"
    assert "header=feature" in run(*words, "--columns", "title", code=2).err
    words = ["fit", "train.csv", "votes.csv", "-o", "other", "--columns"]
    assert "number, category, text" in run(*words, "age=numeric", code=2).err
    assert "'size'" in run(*words, "size", code=2).err


@pytest.mark.parametrize("learner", ["RandomForestClassifier", "GaussianNB"])
def test_other_learners(learner: str, mixed: pd.DataFrame, run: Run) -> None:
    """Dense ones, and ones that must be trusted, with the option to paste."""
    said = run("fit", "train.csv", "votes.csv", "-o", "model", "--learner", learner).err
    option = next(line for line in said.splitlines() if line.startswith("--trusted "))
    words = ["predict", "model", "new.csv", "-o", "sets.csv", "--ask", "width"]
    assert option in run(*words, code=2).err
    run(*words, *option.split())
    assert len(pd.read_csv("sets.csv")) == N_ROWS - N_TRAIN


def test_a_model_of_a_frame_made_in_python(mixed: pd.DataFrame, run: Run) -> None:
    """Which columns hold texts is kept, and rows are left out where a value cannot be missing."""
    train = pd.read_csv("train.csv", dtype={"id": str}).set_index("id").dropna()
    train["channel"] = train["channel"].astype("category")
    parts = [
        ("age", StandardScaler(), ["age"]),
        ("channel", OneHotEncoder(handle_unknown="ignore"), ["channel"]),
        ("says", TfidfVectorizer(), "says"),
    ]
    model = make_pipeline(ColumnTransformer(parts), LogisticRegression(max_iter=1000))
    votes = cs.Annotations.read("votes.csv").align(train.index)
    clf = cs.ConformalCredalClassifier(model)
    clf.fit(train[["says", "age", "channel"]][:90], votes[:90])
    clf.conformalize(train[["says", "age", "channel"]][90:], votes[90:]).save("model")
    said = run("predict", "model", "new.csv", "-o", "sets.csv", "--ask", "width").err
    assert "2 rows without a value that is needed left out" in said
    assert "(first: 'fax')" in said
    sets = pd.read_csv("sets.csv")
    expected = clf.predict_set(mixed[["says", "age", "channel"]].dropna(), 0.1)
    assert np.allclose(sets["width"], expected.width(), rtol=1e-12)


# --- what a column is ---

WORDS = ["a good day", "a bad day", "no day at all"]
COLUMNS: dict[str, tuple[Any, str | None]] = {
    "numbers": (["1", "2,5", None, " 3 "], "number"),
    "exponents": (["1e3", "2", "3"], "number"),
    "Arrow integers": ([1, 5, 2], "number"),
    "Arrow floats": ([1.0, None, 2.0], "number"),
    "Booleans": ([True, False, None], "category"),
    "a dictionary": (pa.array(["x", "y", "x"]).dictionary_encode(), "category"),
    "codes": (["0012", "0013"] * 9, "category"),
    "few values": (["red", "green", None] * 9, "category"),
    "too few repeats": (["dark red", "dark green", "dark blue"], "text"),
    "texts": ([f"{text} {i}" for i, text in enumerate(WORDS * 9)], "text"),
    "texts without spaces": (["天気", "雨だ", "晴れ"] * 2, "text"),
    "words that repeat": (["red", "green", "blue", "red"], "text"),
    "ids": ([f"a{i}" for i in range(20)], None),
    "numbered codes": ([f"{i:04d}" for i in range(0, 60, 3)], None),
    "rows": (["7", "8", "9"], None),
    "Arrow rows": ([7, 8, 9], None),
    "German dates": (["01.02.2025", "31.12.2024 17:00", None], None),
    "ISO dates": (["2025-02-01", "2024-12-31T17:00:00Z"], None),
    "American dates": (["12/31/24", "1/2/25"], None),
    "Arrow dates": (pa.array([1, 2, 4], pa.date32()), None),
    "one value": (["x", None, "x"], None),
    "one number": ([3, 3, 3], None),
    "nothing": ([None, None], None),
    "signs": (["!", "?", "-"] * 2, None),
    "lists": ([[1], [2]], None),
    "objects": ([{"a": 1}, {"a": 2}], None),
    "bytes": ([b"a", b"b"], None),
}


def decide(values: Any, given: Any = None) -> tuple[Selection, list[str]]:
    column = values if isinstance(values, pa.Array) else pa.array(values)
    rows = len(column)
    batch = pa.RecordBatch.from_arrays([column, pa.array(["x", "y"] * rows)[:rows]], ["it", "more"])
    names = ["it"] if given else ["it", "more"]
    return choose_features([batch], Selection(names, None), "t.csv", given)


@pytest.mark.parametrize("name", COLUMNS)
def test_what_a_column_is(name: str) -> None:
    values, kind = COLUMNS[name]
    padded = (
        values if isinstance(values, pa.Array) else values * 3 if name == "few values" else values
    )
    batch = pa.RecordBatch.from_arrays([pa.array(padded)], ["it"])
    always = pa.array(["red", "green"] * len(batch))[: len(batch)]
    batch = batch.append_column(
        "always", pa.array([f"words {i} {w}" for i, w in enumerate(always)])
    )
    found, notes = choose_features([batch], Selection(["it", "always"], None), "t.csv")
    kinds = dict(zip(found.columns, found.kinds or (), strict=True))
    assert kinds.get("it") == kind, notes
    assert ("left out" in notes[0]) == (kind is None)


def test_numbers_with_words_between_are_asked_about() -> None:
    """As texts, a typing error in one cell would have made words of all numbers."""
    values = [*map(str, range(5, 90, 7)), "n/a", "unknown"]
    with pytest.raises(ValueError, match="not in 2 cells") as refused:
        decide(values)
    assert "--columns it=category,more" in str(refused.value)
    assert "row 14: 'n/a'" in str(refused.value)
    for kind in ("category", "text"):
        assert decide(values, {"it": kind})[0].kinds == (kind,)


def test_no_feature_is_left() -> None:
    batch = pa.RecordBatch.from_pydict({"it": ["x", "x"]})
    with pytest.raises(ValueError, match="no feature is left"):
        choose_features([batch], Selection(["it"], None), "t.csv")
    with pytest.raises(ValueError, match="no feature"):
        choose_features(
            [pa.RecordBatch.from_pydict({"it": [[1]]})],
            Selection(["it"], None),
            "t.csv",
            {"it": None},
        )


def test_columns_that_are_selected() -> None:
    schema = pa.schema([("id", pa.string()), ("a=b", pa.string()), ("c", pa.string())])
    assert select_training(None)(schema, ["id"]).columns == ["a=b", "c"]
    assert select_training(["a=b", "c=text"])(schema, ["id"]).columns == ["a=b", "c"]
    assert split('"a, b", c=d ,"e"') == ["a, b", "c=d", "e"]
