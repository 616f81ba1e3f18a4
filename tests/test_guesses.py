"""What a newcomer tries first: the guess works, or the message names the call that does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline

import credalset as cs
from credalset import Annotations, ConformalCredalClassifier, SoftLabelClassifier

RNG = np.random.default_rng(0)
WORDS = ["good", "nice", "bad", "ugly", "so", "what"]
TEXTS = pd.Series([" ".join(RNG.choice(WORDS, 5)) for _ in range(120)], index=[f"t{i}" for i in range(120)])
SHARES = np.array([[sum(text.count(w) for w in WORDS[k : k + 2]) + 0.5 for k in (0, 2, 4)] for text in TEXTS]) / 6.5
COUNTS = np.array([RNG.multinomial(10, p) for p in SHARES])
VOTES = Annotations.from_counts(COUNTS, classes=["pos", "neg", "neu"], items=TEXTS.index)
PREDICTED = pd.DataFrame(SHARES, index=TEXTS.index, columns=["pos", "neg", "neu"])


def text_model(last: Any) -> Any:
    return make_pipeline(CountVectorizer(), last)


# --- annotations where arrays are wanted ---


def test_annotations_are_arrays_of_counts_or_of_shares() -> None:
    np.testing.assert_array_equal(np.asarray(VOTES), COUNTS)
    assert np.asarray(VOTES, dtype=float).dtype == float
    assert (VOTES.shape, VOTES.ndim) == ((120, 3), 2)
    np.testing.assert_array_equal(np.asarray(Annotations.from_distributions(SHARES)), SHARES)
    weighted = Annotations.from_counts([[0.5, 1.5]], weighted=True)
    np.testing.assert_array_equal(np.asarray(weighted), [[0.25, 0.75]])
    np.testing.assert_array_equal(pd.DataFrame(VOTES), COUNTS)


def test_a_frame_of_annotations_is_read_back() -> None:
    assert Annotations.from_counts(VOTES.to_frame()) == VOTES
    assert Annotations.from_distributions(VOTES.to_pandas("distributions"), n_votes=10) == VOTES
    with pytest.raises(ValueError, match="values must be one of 'counts', 'distributions', but is 'shares'"):
        VOTES.to_frame("shares")  # type: ignore[arg-type]


def test_annotations_are_split_as_arrays_are() -> None:
    X_train, X_test, Y_train, Y_test = train_test_split(TEXTS, VOTES, random_state=0)
    assert isinstance(Y_train, Annotations)
    assert Y_train.items == tuple(X_train.index)
    assert Y_test.items == tuple(X_test.index)
    for train, test in KFold(3).split(TEXTS, VOTES):
        assert VOTES[test] == VOTES[list(test)] == VOTES[~np.isin(np.arange(120), train)]


@pytest.mark.parametrize("make", [SoftLabelClassifier, ConformalCredalClassifier])
def test_annotations_go_through_model_selection(make: Any) -> None:
    model = make(text_model(LogisticRegression()))
    found = cross_val_score(model, TEXTS, VOTES, cv=2, error_score="raise")
    np.testing.assert_allclose(found, cross_val_score(model, TEXTS, COUNTS, cv=2), rtol=1e-12)


def test_items_that_nobody_named_are_taken_by_position_after_a_split_too() -> None:
    unnamed, model = Annotations.from_counts(COUNTS), SoftLabelClassifier(text_model(LogisticRegression()))
    X_train, _, Y_train, _ = train_test_split(TEXTS, unnamed, random_state=0)
    expected = model.fit(X_train.to_numpy(), Y_train.counts).predict_proba(TEXTS)
    np.testing.assert_allclose(model.fit(X_train, Y_train).predict_proba(TEXTS), expected, rtol=1e-12)
    numbered = X_train.set_axis(Y_train.items)  # numbers beside numbers do count
    np.testing.assert_allclose(model.fit(numbered, Y_train[::-1]).predict_proba(TEXTS), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="name different items"):
        model.fit(X_train.set_axis(range(1000, 1090)), Y_train)
    split = ConformalCredalClassifier(model).fit_conformalize(TEXTS, unnamed, random_state=0)
    by_name = ConformalCredalClassifier(model).fit_conformalize(TEXTS, VOTES, random_state=0)
    assert split.calibration_.threshold() == by_name.calibration_.threshold()


# --- sets and votes by name, and out into files ---


def test_items_are_taken_by_name() -> None:
    sets = cs.conformalize(PREDICTED, VOTES).predict_set(PREDICTED)
    for found in (sets[["t5", "t3"]], sets.select(["t5", "t3"]), sets[np.array(["t5", "t3"])]):
        np.testing.assert_array_equal(found.prediction, sets.prediction[[5, 3]])
        assert found.items is not None
        assert found.items.tolist() == ["t5", "t3"]
    assert (sets["t7"].to_pandas()["item"].tolist(), VOTES["t7"].items) == (["t7"], ("t7",))
    assert VOTES[["t5", "t3"]] == VOTES[[5, 3]]
    with pytest.raises(
        ValueError,
        match=r"1 name\(s\) that are not among the 120 known items \(first: 'x'\)\. Take those that are there",
    ):
        sets["x"]
    with pytest.raises(ValueError, match="items have no names here: predict for a frame whose index"):
        cs.conformalize(SHARES, COUNTS).predict_set(SHARES)["t7"]


def test_sets_are_written_as_tables(tmp_path: Path) -> None:
    sets = cs.conformalize(PREDICTED, VOTES).predict_set(PREDICTED)
    frame = sets.to_frame(alpha=0.1)
    pd.testing.assert_frame_equal(sets.to_pandas(alpha=0.1), frame)
    assert frame.index.tolist() == frame["item"].tolist()
    frame = frame.reset_index(drop=True)
    sets.to_parquet(tmp_path / "new" / "sets.parquet", alpha=0.1)
    back = pd.read_parquet(tmp_path / "new" / "sets.parquet")
    assert back["labels"].map(list).tolist() == frame["labels"].tolist()
    pd.testing.assert_frame_equal(back.drop(columns="labels"), frame.drop(columns="labels"))
    sets.to_csv(tmp_path / "sets.csv", ask=["labels", "width"])
    back = pd.read_csv(tmp_path / "sets.csv")
    assert back["labels"].str.split("|").tolist() == frame["labels"].tolist()
    assert back["width"].tolist() == frame["width"].tolist()
    sets.to_csv(tmp_path / "width.csv", ask="width")
    assert list(pd.read_csv(tmp_path / "width.csv")) == ["item", "threshold", "empty", "width"]


# --- what people pass to make annotations ---

LABELS = ["Yes", "yes ", "yes", "no", "No", "yes"]
MESSY = pd.DataFrame({"task": list("aaabbb"), "worker": list("xyzxyz"), "label": LABELS})


def test_labels_that_differ_in_case_or_spaces_are_warned_of_and_merged(tmp_path: Path) -> None:
    MESSY.to_csv(tmp_path / "votes.csv", index=False)
    wide = MESSY.pivot(index="task", columns="worker", values="label")
    counts = pd.crosstab(MESSY["task"], MESSY["label"])
    ways: list[Any] = [
        lambda: Annotations.from_table(MESSY),
        lambda: Annotations.read(tmp_path / "votes.csv"),
        lambda: Annotations.from_wide(wide),
        lambda: Annotations.from_records(MESSY.to_dict("records")),
        lambda: Annotations.from_counts(counts),
    ]
    for way in ways:
        with pytest.warns(cs.CredalSetWarning, match="'No', 'no'; 'Yes', 'yes', 'yes '.*votes.rename") as seen:
            votes = way()
        assert (len(seen), seen[0].filename) == (1, __file__)
        merged = votes.rename(lambda label: label.strip().lower())
        assert (merged.classes, merged.counts.tolist()) == (("no", "yes"), [[0, 3], [2, 1]])
    assert len(Annotations.from_table(MESSY, classes=list(dict.fromkeys(MESSY["label"]))).classes) == 5


def test_renamed_annotations_keep_who_voted() -> None:
    votes = Annotations.from_table(MESSY, classes=["Yes", "yes ", "yes", "no", "No"])
    clean = Annotations.from_table(MESSY.assign(label=MESSY["label"].str.strip().str.lower()), classes=["yes", "no"])
    merged = votes.rename({"Yes": "yes", "yes ": "yes", "No": "no"})
    assert merged == clean
    assert repr(merged.agreement(n_resamples=0)) == repr(clean.agreement(n_resamples=0))
    scale = Annotations.from_counts([[1, 2, 3]], classes=["a", "b", "c"], ordered=True)
    assert scale.rename({"a": "A"}).positions == scale.positions
    for model, names, message in (
        (votes, {"x": "y"}, "which no class is called"),
        (votes, lambda _: "all", "leave one class only"),
        (scale, {"a": "b"}, "levels of a scale"),
    ):
        with pytest.raises(ValueError, match=message):
            model.rename(names)


@pytest.mark.parametrize("names", [("item_id", "annotator", "rating"), ("Doc ID", "rater", "answer")], ids=str)
def test_usual_names_of_columns_are_known(names: tuple[str, ...]) -> None:
    table = MESSY.assign(label=MESSY["label"].str.strip().str.lower())
    expected = Annotations.from_table(table)
    renamed = table.rename(columns=dict(zip(["task", "worker", "label"], names, strict=True)))
    for found in (Annotations.from_table(renamed), Annotations.from_records(renamed.to_dict("records"))):
        assert found == expected
        assert found.workers == expected.workers
    assert Annotations.from_table(table.to_dict("records")) == expected
    double = renamed.assign(unit=1, item=2)  # whichever of them is meant must be said
    with pytest.raises(ValueError, match=r"no column 'task'.*task="):
        Annotations.from_table(double.drop(columns=names[0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Annotations(MESSY), "not made of a DataFrame directly. Use Annotations.from_table for a vote per row"),
        (lambda: Annotations(COUNTS), "not made of a ndarray directly. A matrix .* Annotations.from_counts"),
        (lambda: Annotations("votes.csv"), r"Annotations.read\('votes.csv'\)"),
        (lambda: Annotations({"a": {"x": 1}}), "Annotations.from_records"),
        (lambda: Annotations.read(MESSY), "path must name a file, but is a DataFrame. Use Annotations.from_table"),
        (lambda: Annotations.from_table("votes.csv"), r"Annotations.read\('votes.csv'\)"),
        (lambda: Annotations.from_records(MESSY), "Annotations.from_table"),
    ],
    ids=range(7),
)
def test_data_at_the_wrong_door_are_told_the_right_one(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_codes_of_labels_are_not_counts() -> None:
    with pytest.warns(cs.CredalSetWarning, match=r"no votes at all in 2 of 4 rows.*Annotations.from_wide.*drop_empty"):
        Annotations.from_counts([[0, 1, 0], [0, 0, 0], [2, 1, 1], [0, 0, 0]])
    for codes, message in (([0, 1, 2], r"np.eye\(n_classes\)\[labels\]"), ([[0], [1]], r"\[labels.ravel\(\)\]")):
        with pytest.raises(ValueError, match=message):
            Annotations.from_counts(np.array(codes))


@pytest.mark.parametrize("name", ["item", "ID", "task_id"])
def test_a_column_of_item_names_is_not_a_class(name: str) -> None:
    counts = pd.DataFrame(COUNTS, columns=["pos", "neg", "neu"]).assign(**{name: range(120)})
    for call in (
        lambda: Annotations.from_counts(counts),
        lambda: cs.conformalize(SHARES, counts),
        lambda: cs.conformalize(PREDICTED.assign(**{name: TEXTS.index}), VOTES),
    ):
        with pytest.raises(ValueError, match=rf"has the column '{name}'.*\.set_index\('{name}'\)"):
            call()
    assert Annotations.from_counts(counts.set_index(name)).items == tuple(range(120))


@pytest.mark.parametrize(("tried", "meant"), [("from_pandas", "from_table"), ("from_csv", "read")])
def test_constructors_under_other_names_are_told_theirs(tried: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{tried}'. Use Annotations.{meant}\."):
        getattr(Annotations, tried)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        Annotations.nonsense  # noqa: B018


# --- calibration ---

LEVELS: Any = [0.1, 0.2]


@pytest.mark.parametrize(
    ("tried", "name"),
    [("KL", "kl"), (" tv", "tv"), ("Wasserstein", "ws"), ("total variation", "tv"), ("kullback-leibler", "kl")],
)
def test_scores_are_known_by_their_letters(tried: str, name: str) -> None:
    assert cs.get_score(tried) == cs.get_score(name)
    assert cs.calibrate(PREDICTED, VOTES, tried).threshold() == cs.conformalize(PREDICTED, VOTES, name).threshold()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cs.conformalize(VOTES, PREDICTED), TypeError, r"annotations. The order is conformalize\(prediction, "),
        (lambda: cs.conformalize(COUNTS, SHARES), ValueError, r"sums to 10.*These are counts.*the order is conf"),
        (lambda: cs.conformalize(PREDICTED[:90], VOTES), ValueError, r"120 items and prediction 90.*votes.select\("),
        (
            lambda: cs.conformalize(SHARES, COUNTS).threshold([0.1, 0.2]),
            TypeError,
            "one level at a time.*evaluate takes",
        ),
        (
            lambda: cs.conformalize(SHARES, COUNTS).predict_set(SHARES, np.array(LEVELS)),
            TypeError,
            "one level at a time",
        ),
    ],
    ids=range(5),
)
def test_calls_of_calibration_are_put_right(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("counts", [COUNTS, COUNTS + 0.5], ids=["whole", "fractions"])
def test_wrong_predictions_with_counts_as_labels_are_not_called_swapped(counts: Any) -> None:
    with pytest.raises(ValueError, match=r"Normalise the rows, or apply a softmax if these are logits.$"):
        cs.conformalize(counts, COUNTS)


def test_names_that_objects_do_not_have_are_explained() -> None:
    calibration = cs.conformalize(PREDICTED, VOTES)
    sets = calibration.predict_set(PREDICTED)
    tried: list[tuple[Any, str, str, str, str]] = [
        (sets, "plot", "credalset.plotting", "CredalSet", "contains"),
        (sets, "loc", "select", "CredalSet", "threshold"),
        (VOTES, "proportions", ".distributions", "Annotations", "read"),
        (calibration, "predict", "predict_set", "Calibration", "threshold"),
    ]
    for found, name, meant, known_as, some in tried:
        with pytest.raises(AttributeError, match=rf"no attribute '{name}'\. .*{meant}"):
            getattr(found, name)
        with pytest.raises(AttributeError, match=rf"'{known_as}' object has no attribute 'nonsense'\. It has .*{some}"):
            found.nonsense  # noqa: B018
        with pytest.raises(AttributeError, match=r"no attribute '_nonsense'$"):
            found._nonsense  # noqa: B018
    np.testing.assert_allclose(sets.width(), sets.to_frame(ask="width")["width"], rtol=1e-15)


# --- the classifier ---


def test_parameters_under_other_names_are_told_theirs() -> None:
    for make, name, message in (
        (ConformalCredalClassifier, "score", "nonconformity='kl'"),
        (ConformalCredalClassifier, "alpha", r"predict_set\(X, alpha=0.1\)"),
        (ConformalCredalClassifier, "base_estimator", "called estimator"),
        (SoftLabelClassifier, "estimator", "called base"),
    ):
        with pytest.raises(TypeError, match=f"{make.__name__} has no parameter '{name}': .*{message}"):
            make(**{name: "kl"})
    with pytest.raises(TypeError, match=r"no parameter 'nonsense'\. It takes estimator, nonconformity, noise.$"):
        ConformalCredalClassifier(nonsense=1)  # type: ignore[call-arg]


def test_nested_parameters_are_told_their_whole_name() -> None:
    model = ConformalCredalClassifier(text_model(LogisticRegression()))
    for tried in ("C", "estimator__C", "logisticregression__C"):
        with pytest.raises(
            ValueError, match=f"no parameter '{tried}': did you mean 'estimator__logisticregression__C'"
        ):
            model.set_params(**{tried: 3})
    with pytest.raises(ValueError, match=r"no parameter 'score': .*nonconformity"):
        model.set_params(score="kl")
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        model.set_params(nonsense=1)
    assert model.set_params(estimator=LogisticRegression(), estimator__C=3).estimator.C == 3


def test_labels_may_be_called_y() -> None:
    model = ConformalCredalClassifier(text_model(LogisticRegression()))
    model.fit(TEXTS, y=VOTES).calibrate(TEXTS, y=VOTES)
    assert len(model.evaluate(TEXTS, y=VOTES, alpha=0.1)) == 1
    with pytest.raises(TypeError, match="argument 'y'"):
        model.fit(TEXTS, Y=VOTES, y=VOTES)


def test_compare_takes_every_usual_score_by_default() -> None:
    model = ConformalCredalClassifier(text_model(LogisticRegression())).fit(TEXTS, VOTES)
    rows = model.compare(TEXTS, VOTES, volume=False, constant=False)
    assert [row["score"] for row in rows] == ["tv", "kl", "hellinger", "brier", "inner"]
    with pytest.raises(TypeError, match=r"scores must be a list of scores, but is 0.1. A level is passed as alpha=0.1"):
        model.compare(TEXTS, VOTES, 0.1)  # type: ignore[arg-type]


# --- arguments by other names, tables of everything ---


def test_arguments_may_have_their_usual_names(tmp_path: Path) -> None:
    table = MESSY.assign(label=MESSY["label"].str.strip().str.lower()).set_axis(["Comment", "By", "Says"], axis=1)
    names = {"item": "Comment", "annotator": "By", "rating": "Says"}
    expected = Annotations.from_table(table, task="Comment", worker="By", label="Says")
    table.to_csv(tmp_path / "votes.csv", index=False)
    for votes in (Annotations.from_table(table, **names), Annotations.read(tmp_path / "votes.csv", **names)):
        assert (votes, votes.workers, votes.n_items) == (expected, expected.workers, 2)
    with pytest.raises(TypeError, match="argument 'item'"):
        Annotations.from_table(table, task="Comment", item="Comment")
    model = ConformalCredalClassifier(text_model(LogisticRegression()))
    assert model.cross_conformalize(TEXTS, VOTES, cv=2).calibration_.n_folds == 2
    found = model.fit_conformalize(TEXTS, VOTES, test_size=20, random_state=0)
    assert len(found.calibration_) == 20


def test_any_column_that_ends_in_id_may_name_the_items(tmp_path: Path) -> None:
    table = MESSY.assign(label=MESSY["label"].str.strip().str.lower()).set_axis(
        ["Message ID", "User ID", "Says"], axis=1
    )
    expected = Annotations.from_table(table, task="Message ID", worker="User ID", label="Says")
    assert Annotations.from_table(table, label="Says") == expected
    assert Annotations.from_table(table, label="Says").workers == expected.workers
    table.rename(columns={"Says": "Category"}).to_csv(tmp_path / "votes.csv", index=False)
    assert Annotations.read(tmp_path / "votes.csv") == expected


def test_everything_with_rows_makes_a_frame() -> None:
    model = ConformalCredalClassifier(text_model(LogisticRegression())).fit_conformalize(TEXTS, VOTES, random_state=0)
    rows = model.evaluate(TEXTS, VOTES, volume=False)
    assert rows.to_frame()["alpha"].tolist() == [0.05, 0.1, 0.2]
    queue = model.predict_set(TEXTS).queue()
    assert queue.to_frame().to_dict("list") == queue.to_dict()
    agreement = VOTES.agreement()
    frame = agreement.to_frame()
    assert frame.loc["alpha"].tolist() == [agreement.alpha, agreement.alpha.low, agreement.alpha.high]
    assert "alpha_ordinal" not in frame.index


def test_a_split_has_usual_sizes() -> None:
    assert [len(part) for part in cs.train_conformalize_test_split(TEXTS, VOTES)] == [60, 30, 30] * 2


def test_labels_that_look_like_empty_cells_are_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("item,rater,label\na,1,yes\na,2,n/a\na,3,no\n")
    with pytest.warns(cs.CredalSetWarning, match=r"votes.csv: 'n/a' is counted as a class.*empty=\('', 'n/a'\)"):
        Annotations.read(path)
    assert Annotations.read(path, empty=("", "n/a"), missing="drop").classes == ("no", "yes")
    assert Annotations.read(path, classes=["n/a", "no", "yes"]).counts.tolist() == [[1, 1, 1]]


def test_columns_beside_annotators_are_warned_of_and_left_out_by_name() -> None:
    wide = pd.DataFrame({"doc_id": list("ab"), "rater_1": ["x", "y"], "rater_2": ["x", None], "comment": ["", "odd"]})
    with pytest.warns(cs.CredalSetWarning, match=r"cells of 'comment' are counted as votes too.*worker=\["):
        assert Annotations.from_wide(wide).classes == ("odd", "x", "y")
    raters = ["rater_1", "rater_2"]
    assert Annotations.from_wide(wide, worker=raters).counts.tolist() == [[2, 0], [0, 1]]
    assert Annotations.from_wide(wide, columns=raters) == Annotations.from_wide(wide[["doc_id", *raters]])
    with pytest.raises(ValueError, match="worker names 'rater_3', which is none of the columns"):
        Annotations.from_wide(wide, worker=["rater_3"])


def test_functions_are_told_where_they_live() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'coverage'. It is credalset.metrics.coverage$"):
        cs.coverage  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"clf.save\(path\)"):
        cs.save  # type: ignore[attr-defined]  # noqa: B018
    sets = cs.conformalize(PREDICTED, VOTES).predict_set(PREDICTED)
    with pytest.raises(TypeError, match="sets come first"):
        cs.metrics.coverage(VOTES, sets)  # type: ignore[arg-type]


def test_wrong_names_are_named() -> None:
    votes = cs.Annotations.from_counts([[3, 1]], classes=["no", "yes"], items=["a"])
    with pytest.raises(
        ValueError, match=r"names renames \['yes '\], which no class is called; there are \['no', 'yes'\]"
    ):
        votes.rename({"yes ": "yes", "no": "No"})
    with pytest.raises(ValueError, match=r"but is \['a', 'b', 'c', …\]\. .* \.select\(items\)"):
        votes.reorder(list("abcdefg"))
    with pytest.raises(AttributeError, match=r"write_tasks\(path\)"):
        _ = cs.plan(cs.conformalize([[0.5, 0.5]] * 9, [[1, 1]] * 9), [[0.5, 0.5]], n_votes=5).save
    with pytest.raises(TypeError, match=r"made must be what predicts the sets, .* but is a Annotations\. Call plan\("):
        cs.plan(votes, votes, budget=5)
