"""What a newcomer did next, on a table of messages: each call works, or its message names the fix."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from abc import ABC
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import credalset as cs

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(1)
WORDS = ["thanks a lot for this", "where is my parcel now", "it broke on the first day"]
CHOSEN = RNG.integers(0, 3, 90)
FRAME = pd.DataFrame(
    {"text": [WORDS[i] for i in CHOSEN], "channel": RNG.choice(["web", "mail"], 90)}, index=[f"m{i}" for i in range(90)]
)
COUNTS = pd.DataFrame(RNG.multinomial(5, 0.7 * np.eye(3)[CHOSEN] + 0.1), index=FRAME.index, columns=["a", "b", "c"])


@pytest.fixture(scope="module")
def clf() -> cs.ConformalCredalClassifier:
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression())
    made = cs.ConformalCredalClassifier(pipeline, "tv")
    return made.fit(FRAME["text"][:30], COUNTS[:30]).conformalize(FRAME["text"][30:60], COUNTS[30:60])


@pytest.fixture(scope="module")
def sets(clf: cs.ConformalCredalClassifier) -> cs.CredalSet:
    return clf.predict_set(FRAME["text"][60:], alpha=0.2)


@pytest.mark.parametrize("call", ["fit", "cross_conformalize"])
def test_a_whole_frame_for_a_model_that_reads_texts(call: str) -> None:
    made = cs.ConformalCredalClassifier(make_pipeline(CountVectorizer(), LogisticRegression()), "tv")
    with pytest.raises(ValueError, match=r"columns text, channel: .* its column of texts, X\['text'\]"):
        getattr(made, call)(FRAME, COUNTS)


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_the_column_with_the_longest_texts_is_meant(clf: cs.ConformalCredalClassifier) -> None:
    with pytest.raises(ValueError, match=r"X\['text'\]"):
        clf.predict_set(FRAME)


def test_evaluation_by_groups_that_calibration_does_not_know(clf: cs.ConformalCredalClassifier) -> None:
    X, Y, groups = FRAME["text"][60:], COUNTS[60:], FRAME["channel"][60:]
    rows = clf.evaluate(X, Y, alpha=0.2, groups=groups)
    expected = cs.metrics.coverage_by_group(clf.predict_set(X, alpha=0.2), Y, groups)
    assert {row["group"]: row["coverage"] for row in rows.groups} == expected
    assert {row["verdict"] for row in rows.groups} == {None}, "nothing is promised of groups"
    with pytest.raises(ValueError, match=r"metrics\.coverage_by_group\(sets, Y, groups\)"):
        clf.predict_set(X, alpha=0.2, groups=groups)


def test_scores_and_calibrations_to_compare_with_in_a_report(clf: cs.ConformalCredalClassifier) -> None:
    pytest.importorskip("jinja2")
    X, votes = FRAME["text"][60:], COUNTS[60:]
    with pytest.raises(TypeError, match="compare takes calibrations, and 'kl' is a score"):
        cs.report(clf, X, votes, None, compare=["kl"])
    other = cs.conformalize(clf.predict_proba(FRAME["text"][30:60]), COUNTS[30:60], "kl")
    page = cs.report(clf, X, votes, None, compare=[other])
    assert {size.score for size in page.sizes} == {"tv", "kl"}
    same = cs.conformalize(clf.predict_proba(FRAME["text"][30:60]), COUNTS[30:60], "tv")
    page = cs.report(clf, X, votes, None, compare=[same])
    assert list(dict.fromkeys(size.score for size in page.sizes)) == ["tv", "tv (2)"]
    assert page.html.count(">this page<") == 1


def test_tables_are_joined_by_the_names_of_items(sets: cs.CredalSet, tmp_path: Path) -> None:
    joined = FRAME.join(sets.to_frame(ask=["epistemic", "total", "aleatoric"]), how="inner")
    assert joined["text"].tolist() == FRAME["text"][60:].tolist()
    parts = sets.uncertainty()
    assert np.array_equal(joined["epistemic"], parts.epistemic)
    assert np.array_equal(joined["total"], parts.total)
    assert np.array_equal(joined["aleatoric"], parts.aleatoric)
    queue = sets.queue()
    assert FRAME.join(queue.to_frame(), how="inner")["item"].tolist() == FRAME.index[60:].tolist()
    queue.to_csv(tmp_path / "queue.csv")
    assert pd.read_csv(tmp_path / "queue.csv")["item"].tolist() == queue.to_dict()["item"]
    assert list(sets.to_frame().merge(FRAME, left_on="item", right_index=True)["text"]) == list(FRAME["text"][60:])
    assert FRAME.join(parts.to_frame(), how="inner")["epistemic"].tolist() == joined["epistemic"].tolist()


def test_a_set_has_no_describe(sets: cs.CredalSet) -> None:
    with pytest.raises(AttributeError, match=r"Ask to_frame\(\), labels\(\)"):
        sets["m60"].describe()  # type: ignore[attr-defined]


def test_labels_by_name(sets: cs.CredalSet) -> None:
    expected = [[name for name, is_left in zip("abc", row, strict=True) if is_left] for row in sets.decide()]
    assert sets.labels() == expected
    assert sets["m60"].labels() == [expected[0]]
    assert list(map(len, sets.labels("maximal"))) == sets.decide("maximal").sum(axis=1).tolist()


def test_the_later_of_two_votes_counts_where_times_are_known() -> None:
    rows = {"message_id": ["t"] * 3, "annotator": ["ann", "ann", "bob"], "label": ["new", "old", "old"]}
    times = ["2024-06-01", "2024-01-01", "2024-01-01"]
    by_time = cs.Annotations.from_table(rows | {"created_at": times})
    assert by_time.counts.tolist() == [[1, 1]]
    assert cs.Annotations.from_table(rows).counts.tolist() == [[0, 2]]
    not_understood = cs.Annotations.from_table(rows | {"created_at": ["soon", "later", "never"]})
    assert not_understood.counts.tolist() == [[0, 2]]
    with pytest.raises(ValueError, match="time must hold numbers"):
        cs.Annotations.from_table(rows | {"created_at": ["soon", "later", "never"]}, time="created_at")
    assert cs.Annotations.from_table(rows | {"read_at": times}).counts.tolist() == [[1, 1]]
    records = [dict(zip([*rows, "created_at"], row, strict=True)) for row in zip(*rows.values(), times, strict=True)]
    assert cs.Annotations.from_records(records).counts.tolist() == [[1, 1]]


def test_labels_of_a_table_are_tidied_when_asked_for() -> None:
    rows = [("t1", "ann", " Yes"), ("t1", "bob", "yes"), ("t2", "ann", "No")]
    votes = cs.Annotations.from_table(rows, tidy=True)
    assert votes.classes == ("no", "yes")
    assert votes.counts.tolist() == [[0, 2], [1, 0]]


def test_sets_of_every_kind_are_taken_by_name(clf: cs.ConformalCredalClassifier) -> None:
    X, some = FRAME["text"], slice(60, 90)
    crossed = cs.ConformalCredalClassifier(clf.estimator, "tv").cross_conformalize(X[:60], COUNTS[:60], 3, 0)
    plain = clf.predict_set(X[some], alpha=0.2)
    base = plain.prediction
    union = cs.scores.Prototypes("tv").region(
        np.concatenate([base[:, None], np.full((30, 1, 1), 2.0), np.zeros((30, 1, 1))], axis=2).repeat(2, axis=1), 0.5
    )
    kinds = [plain.update(COUNTS[some]), crossed.predict_set(X[some], alpha=0.2), replace(union, items=plain.items)]
    for sets in kinds:
        for name, row in (("m62", 2), ("m89", 29)):
            assert np.array_equal(sets[name].upper(), sets[row].upper())
            assert sets[name].items is not None
            assert sets[name].items.tolist() == [name]


def test_scores_are_compared_with_the_classifiers_own() -> None:
    own = cs.scores.Normalized("kl", offset=0.1)
    made = cs.ConformalCredalClassifier(make_pipeline(CountVectorizer(), LogisticRegression()), own)
    made.fit(FRAME["text"][:30], COUNTS[:30])
    rows = made.compare(FRAME["text"][30:], COUNTS[30:], alpha=0.2, constant=False)
    assert [row["score"] for row in rows][:3] == ["normalized", "tv", "kl"]
    made.nonconformity = "kl"
    assert [row["score"] for row in made.compare(FRAME["text"][30:], COUNTS[30:], alpha=0.2)][:2] == ["kl", "tv"]


# --- arguments and attributes that there are not ---

HALF = [[0.5, 0.5]] * 9
ROWS = [("t1", "ann", "low"), ("t1", "bob", "high"), ("t2", "ann", "low"), ("t2", "bob", "low")]
VOTES = cs.Annotations.from_table(ROWS)


class Known(NamedTuple):
    """What the calls below are made with."""

    clf: cs.ConformalCredalClassifier
    sets: cs.CredalSet
    calibration: cs.Calibration
    X: Any
    votes: Any


@pytest.fixture(scope="module")
def known(clf: cs.ConformalCredalClassifier, sets: cs.CredalSet) -> Known:
    return Known(clf, sets, cs.conformalize(HALF, [[1, 1]] * 9), FRAME["text"][60:], COUNTS[60:])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda _: cs.Annotations.from_table(ROWS, ordinal=True),
            "^from_table has no argument 'ordinal'. Levels of a ",
        ),
        (
            lambda _: cs.Annotations.from_table(ROWS, ordinal=True),
            "ordered=True, .* It takes table, task, worker, label,",
        ),
        (lambda _: cs.Annotations.from_table(ROWS, duplicate="last"), "from_table has no .* Did you mean duplicates"),
        (
            lambda _: cs.Annotations.from_table(ROWS, "task"),
            "takes table by position, and all else by name: task='task'.",
        ),
        (lambda _: cs.Annotations.from_table(), "^from_table needs table. It takes table, task"),
        (lambda _: cs.Annotations.from_wide(ROWS, scale=True), "^from_wide has .*ordered=True"),
        (lambda _: cs.Annotations.from_records({}, ordinal=True), "ordered=True"),
        (lambda _: cs.Annotations.from_counts([[1, 2]], ordinal=True), "^from_counts has .*ordered=True"),
        (
            lambda _: cs.Annotations.from_distributions([[1, 0]], nonsense=1),
            "^from_distributions .* takes distributions, n",
        ),
        (lambda _: cs.Annotations.read("votes.csv", ordinal=True), "^read has no .*ordered=True"),
        *[
            (
                lambda _, name=name: VOTES.agreement(**{name: "ordinal"}),
                f"^agreement has no argument '{name}'.*ordered=True",
            )
            for name in ("ordinal", "metric", "scale", "weights")
        ],
        (lambda _: VOTES.agreement(level="ordinal"), "level is the confidence .* but is 'ordinal'.*ordered=True"),
        (lambda _: VOTES.agreement(0.9), "agreement takes nothing by position, and all else by name: level=0.9"),
        (lambda _: VOTES.select(nonsense=1), "^select has no .* It takes items"),
        (lambda _: VOTES.rename(nonsense=1), "^rename has no .* It takes names"),
        *[
            (lambda known, name=name: known.clf.predict_set(known.X, **{name: 0.9}), "1 − coverage: write alpha=0.1")
            for name in ("confidence", "confidence_level", "coverage")
        ],
        (lambda known: known.calibration.predict_set(HALF, confidence=0.9), "^predict_set has .*1 − coverage"),
        (
            lambda known: known.calibration.p_values(HALF, HALF, alpha=0.1),
            "^p_values has no .* It takes prediction, dist",
        ),
        (
            lambda known: known.clf.conformalize(known.X, known.votes, noise="auto"),
            "belongs in the constructor.*noise=",
        ),
        (lambda known: known.clf.fit(known.X, known.votes, alpha=0.1), r"predict_set\(X, alpha=0.1\)"),
        (lambda known: known.clf.cross_conformalize(known.X, known.votes, score="kl"), "nonconformity='kl'"),
        (lambda known: known.clf.fit_conformalize(known.X, known.votes, noise="auto"), "belongs in the constructor"),
        (lambda known: known.clf.save("there", nonsense=1), "^save has no .* It takes path"),
        (lambda known: known.clf.evaluate(known.X, known.votes, scores=["tv"]), r"clf\.compare\(X, Y, scores="),
        (lambda known: known.clf.compare(known.X, known.votes, nonsense=1), "^compare has no .* It takes X, Y, scores"),
        (lambda known: cs.evaluate(known.calibration, HALF, HALF, scores=["tv"]), "a list of calibrations"),
        (lambda _: cs.conformalize(HALF, HALF, alpha=0.1), r"^conformalize has no .*predict_set\(X, alpha=0.1\)"),
        (
            lambda _: cs.conformalize(HALF, HALF, nonsense=1),
            "It takes prediction, labels, score, classes, noise, groups",
        ),
        (lambda _: cs.cross_conformalize(HALF, HALF, nonsense=1), "^cross_conformalize has no .* It takes prediction"),
        (
            lambda _: cs.cross_conformalize(LogisticRegression(), [[0.0]], [[1, 1]]),
            r"ConformalCredalClassifier\(Log.*cross",
        ),
        (
            lambda _: cs.ConformalCredalClassifier(cv=5),
            r"no parameter 'cv': .*clf\.cross_conformalize\(X, Y, folds=5\)",
        ),
        (
            lambda known: cs.conformalize(known.clf, known.X, VOTES),
            "score must be .* but is a Annotations. The order is ",
        ),
        (lambda _: cs.ConformalCredalClassifier(folds=5), r"clf\.cross_conformalize\(X, Y, folds=5\)"),
        (lambda _: cs.ConformalCredalClassifier(estimater=5), "no parameter 'estimater'. Did you mean estimator"),
        (
            lambda known: cs.plan(known.calibration, HALF, None, 500),
            "made, predictions, votes by .*: budget=500. It takes",
        ),
        (
            lambda known: cs.plan(known.calibration, HALF, 500, budget=5),
            "votes must be .* is 500. What may .* is budget=500",
        ),
        (lambda known: cs.plan(known.calibration, HALF, votes=500), "^plan needs budget. .*by name: budget=500"),
        (lambda known: cs.report(known.clf, known.X, known.votes, by="channel"), "^report has .*groups=.*slices="),
        (lambda _: cs.load("there", allow_pickle=True), "^load has no .* opens none"),
        (
            lambda known: cs.train_conformalize_test_split(known.X, known.votes, stratify=1),
            "has no .*'stratify'. Items are",
        ),
        (lambda known: known.sets.queue(known.votes), r"QueueRules or None, but is a DataFrame.*sets\.update.*report"),
        (lambda known: known.sets.queue(alpha=0.1), r"^queue has no .*predict_set\(X, alpha=0.1\)\.queue\(\)"),
        (lambda known: known.sets.queue(costs=[1, 2]), "^queue has no .*utility=-costs"),
        (lambda known: known.sets.queue(unknown=0.4), r"QueueRules\(unknown=0.4\)"),
        (lambda known: known.sets.decide(loss=[[1]]), "^decide has no .*utility=-costs"),
        (lambda known: known.sets.to_frame(nonsense=1), "^to_frame has no .* It takes items, ask, alpha, kind"),
        (lambda known: known.sets.to_csv("x.csv", index=True), "^to_csv has no argument 'index'"),
        (
            lambda known: known.sets.to_csv("x.csv", nonsense=1),
            "^to_csv has no .* It takes path, items, ask, alpha, sep",
        ),
        (lambda known: known.sets.volume(nonsense=1), "^volume has no .* It takes return_error, random_state, n_rays"),
        (lambda known: known.sets.uncertainty(1, 2, 3), r"takes base, family by position, but was given 3 arguments"),
        (lambda known: known.sets.sample(5, nonsense=1), "^sample has no .* It takes n, random_state"),
        (
            lambda known: known.sets.contains(known.votes, nonsense=1),
            "^contains has no .* It takes distribution, broadcast",
        ),
        (lambda known: known.sets.upper_expectation([1], nonsense=1), "^upper_expectation has no .* takes utility"),
        (
            lambda known: known.sets.lower(1),
            "^lower takes nothing by position, but was given 1 arguments. It takes no arg",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_arguments_that_there_are_not(known: Known, call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as seen:
        call(known)
    assert not re.search(r"unexpected keyword|Building|Questions|build_queue", str(seen.value))


def test_arguments_by_names_that_can_mean_one_thing_only(known: Known, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    for name in ("out", "filename", "output"):
        assert cs.report(known.clf, known.X, known.votes, **{name: tmp_path / name}).path == tmp_path / name
    assert cs.plan(known.calibration, HALF, n=5, seed=1).budget == 5
    noisy = cs.conformalize(HALF, [[50, 50]] * 9, noise_model=cs.BoundedNoise(0.1, 0.01))  # type: ignore[call-arg]
    assert noisy.rule.is_noisy
    assert len(known.clf.evaluate(known.X, votes=known.votes, alpha=0.2)) == 1
    assert known.sets[:1].sample(n_samples=3, seed=0).shape == (1, 3, 3)


def test_signatures_and_pickles_are_those_of_the_functions(known: Known) -> None:
    assert list(inspect.signature(cs.plan).parameters)[:4] == ["made", "predictions", "votes", "budget"]
    assert list(inspect.signature(cs.Annotations.from_table).parameters)[:3] == ["table", "task", "worker"]
    assert pickle.loads(pickle.dumps(cs.conformalize)) is cs.conformalize
    for one in (known.sets, known.sets.queue(), known.calibration, VOTES.agreement(), known.sets.uncertainty()):
        again = copy.deepcopy(pickle.loads(pickle.dumps(one)))
        assert repr(again) == repr(one)
        assert not hasattr(one, "__array_interface__")
    assert clone(known.clf).get_params().keys() == known.clf.get_params().keys()


@pytest.mark.parametrize(
    ("owner", "name", "message"),
    [
        (lambda _: VOTES, "krippendorff_alpha", r"agreement\(\)\.alpha"),
        (lambda _: VOTES, "fleiss_kappa", r"agreement\(\)\.kappa"),
        (lambda _: VOTES, "drop", "a class .*unknown='drop', a worker .*worker=.*items by a mask"),
        (lambda _: VOTES, "loc", r"select\(names\), by position with votes\["),
        (lambda _: VOTES, "iloc", r"by position with votes\["),
        (lambda _: VOTES, "reindex", r"select\(names\)"),
        (lambda _: VOTES, "distribution", r"Did you mean distributions or "),
        (lambda known: known.clf, "queue", r"predict_set\(X, alpha=0.1\)\.queue\(\)"),
        (lambda known: known.clf, "alpha", r"predict_set\(X, alpha=0.1\)"),
        (lambda known: known.clf, "calibration", "calibration_"),
        (lambda known: known.clf, "predict_sets", "It is called predict_set here"),
        (lambda _: cs.ConformalCredalClassifier, "load", r"credalset\.load\(path\)"),
        (lambda _: cs.ConformalCredalClassifier(), "calibration_", r"there after conformalize\(X, Y\)"),
        (lambda known: known.sets.queue(), "escalate", r"queue\['escalate'\]"),
        (lambda known: known.sets.queue(), "to_pandas", "It is called to_frame here"),
        (lambda known: known.sets.queue(), "to_parquet", r"A frame has it: to_frame\(\)\.to_parquet"),
        (lambda known: cs.plan(known.calibration, HALF, budget=5), "to_parquet", r"to_frame\(\)\.to_parquet"),
        (lambda known: cs.plan(known.calibration, HALF, budget=5), "purchase", "Did you mean purchases"),
        (lambda known: cs.report(known.clf, known.X, None, None), "show", r"\.path in a browser; .*report\.html"),
        (lambda known: cs.report(known.clf, known.X, None, None), "open", r"\.path in a browser"),
        (lambda known: cs.report(known.clf, known.X, None, None).verdict, "sentense", "Did you mean sentence"),
        (lambda known: known.sets, "predictions", "It is called prediction here"),
        (lambda known: known.sets, "to_df", "It is called to_frame here"),
        (lambda known: known.sets, "uper", "Did you mean upper"),
        (lambda known: known.sets.uncertainty(), "to_df", "It is called to_frame here"),
        (lambda known: known.sets.volume(return_error=True), "error", "Did you mean|It has"),
        (lambda _: VOTES.agreement(), "krippendorff_alpha", r"It is \.alpha"),
        (lambda _: VOTES.agreement(), "to_csv", r"to_frame\(\)\.to_csv"),
        (lambda known: known.calibration, "predict_sets", "It is called predict_set here"),
        (lambda known: known.clf.evaluate(known.X, known.votes), "groupby", r"to_frame\(\)\.groupby"),
        (lambda _: cs.labels.LabelSets(np.eye(2, dtype=bool)), "labels", r"Ask names\(\)"),
        (lambda known: cs.Stream(known.calibration), "nonsense", "It has "),
        (lambda _: cs, "agreement", r"votes\.agreement\(\)"),
        (lambda _: cs, "compare", r"clf\.compare\(X, Y"),
        (lambda _: cs, "plot", r"credalset\.plotting"),
        (lambda _: cs, "fit", r"ConformalCredalClassifier\(estimator\)\.fit"),
        (lambda _: cs, "predict_set", r"clf\.predict_set\(X, alpha=0.1\)"),
        (lambda _: cs, "read", r"It is Annotations\.read$"),
        (lambda _: cs, "from_table", r"It is Annotations\.from_table$"),
        (lambda _: cs, "volume", r"It is a method, sets\.volume$"),
        (lambda _: cs, "Votes", "Votes are Annotations"),
        (lambda _: cs, "ConformalClassifier", "Did you mean ConformalCredalClassifier"),
        (lambda _: cs.scores, "available", r"credalset\.scores\.REGISTRY"),
        (lambda _: cs.plotting, "coverage", r"violins\(rows\)"),
        (lambda _: cs.metrics, "coverage_by_groups", "Did you mean coverage_by_group"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.filterwarnings("ignore::credalset.CredalSetWarning")
def test_attributes_that_there_are_not(known: Known, owner: Any, name: str, message: str) -> None:
    one = owner(known)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'\. .*{message}|\. {message}"):
        getattr(one, name)
    assert not hasattr(one, name)


# --- tables of other shapes ---


def test_tables_for_excel_in_german(known: Known, tmp_path: Path) -> None:
    path, plan = tmp_path / "t.csv", cs.plan(known.calibration, HALF, budget=5)
    for one in (known.sets, known.sets.queue(), plan):
        one.to_csv(path, sep=";", decimal=",", index=False)
        back = pd.read_csv(path, sep=";", decimal=",")
        expected = one.to_frame().reset_index(drop=True)
        numbers = list(expected.select_dtypes("float"))
        assert "item" in back
        assert numbers
        pd.testing.assert_frame_equal(back[numbers], expected[numbers])
    with pytest.raises(ValueError, match=r"sep and decimal are both ','.*sep=';'"):
        known.sets.to_csv(path, decimal=",")
    with pytest.raises(ValueError, match="sep must be a single character"):
        known.sets.to_csv(path, sep="")


def test_uncertainty_prints_and_makes_a_frame(known: Known) -> None:
    parts = known.sets.uncertainty()
    assert parts.to_frame().index.tolist() == FRAME.index[60:].tolist()
    assert pd.DataFrame(parts.to_dict())["total"].tolist() == parts.total.tolist()
    text = str(parts).splitlines()
    assert text[0] == "Uncertainty of 30 sets (exact), the first 10 below"
    assert (len(text), text[-1].split()[0]) == (14, "mean")
    assert len(str(known.sets.entropy_bounds()).splitlines()) == 14
    assert len(str(known.sets.volume(return_error=True)).splitlines()) == 14


def test_the_items_of_an_action_are_a_queue(known: Known) -> None:
    queue = known.sets.queue()
    parts = {action: queue[action] for action in queue.counts()}
    assert {action: len(part) for action, part in parts.items()} == queue.counts()
    assert [item for part in parts.values() for item in part.items] == queue.to_dict()["item"]
    assert queue[:2].to_dict()["item"] == sorted(queue.items[:2], key=queue.to_dict()["item"].index)
    assert (queue[3].items, len(list(queue))) == ((queue.items[3],), 30)
    with pytest.raises(ValueError, match="action must be one of re-annotate, escalate"):
        queue["sleep"]


def test_evaluation_of_a_classifier_and_of_named_calibrations(known: Known) -> None:
    assert cs.evaluate(known.clf, known.X, known.votes).to_dict() == known.clf.evaluate(known.X, known.votes).to_dict()
    rows = cs.evaluate({"first": known.calibration, "other": known.calibration}, HALF, HALF, alpha=[0.2, 0.3])
    assert [(row["score"], row["alpha"]) for row in rows] == [
        *(("first", 0.2), ("first", 0.3)),
        *(("other", 0.2), ("other", 0.3)),
    ]


@pytest.mark.parametrize("name", ["m.joblib", "m.pkl", "m.pickle"])
def test_pickles_are_never_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04.")
    with pytest.raises(cs.FileFormatError, match=r"by joblib or pickle, which .* never opens.*clf\.save\(directory\)"):
        cs.load(tmp_path / name)


# --- classes of users ---


def test_methods_of_users_are_theirs() -> None:
    def injecting(method: Any) -> Any:
        return wraps(method)(lambda self, *args: method(self, 7, *args))

    class Mine(cs.ConformalCredalClassifier, ABC):
        def run(self, X: Any, alpha: float = 0.1, **options: Any) -> Any:
            return alpha, options

        @injecting
        def draw(self, seed: int, n: int) -> tuple[int, int]:
            return seed, n

        @wraps(len)
        def size(self, *args: Any) -> int:
            return len(args)

        @property
        def broken(self) -> Any:
            return self.estimator_.nothing

    mine = Mine()
    assert mine.run(1, significance="wald") == (0.1, {"significance": "wald"})
    assert mine.draw(3) == (7, 3)
    assert mine.size(1, 2) == 2
    with pytest.raises(AttributeError, match="no attribute 'estimator_'"):
        _ = mine.broken


def test_arguments_that_would_change_their_meaning_are_not_taken(clf: cs.ConformalCredalClassifier) -> None:
    with pytest.raises(TypeError, match="compare has no argument 'test_size'"):
        clf.compare(FRAME["text"][60:], COUNTS[60:], test_size=0.2)
    with pytest.raises(TypeError, match="report has no argument 'target'"):
        cs.report(clf, FRAME["text"][60:], COUNTS[60:], None, target=0.9)


def test_numbers_are_positions_and_that_is_said() -> None:
    data = cs.datasets.make_synthetic(60, random_state=0)
    made = cs.conformalize(data.distributions[:50], data.counts[:50])
    sets = made.predict_set(pd.DataFrame(data.distributions[50:], index=range(700, 710)), 0.2)
    with pytest.raises(IndexError, match=r"set 705 is out of range.* the set of item 705 is select\(\[705\]\)"):
        _ = sets[705]
    np.testing.assert_array_equal(sets.select([705]).center, sets[5].center)


def test_a_plan_names_items_as_they_are_and_knows_how_many_annotators_there_are() -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([1, 1, 1], 120)
    rows = [(i, f"w{j}", int(rng.choice(3, p=truth[i]))) for i in range(60, 120) for j in range(3)]
    votes = cs.Annotations.from_table(rows, classes=[0, 1, 2])
    made = cs.conformalize(0.6 * truth[:60] + 0.4 / 3, truth[:60])
    predictions = pd.DataFrame(0.6 * truth[60:] + 0.4 / 3, index=range(60, 120))
    plan = cs.plan(made, predictions, votes, budget=200, compare=(), goal="width")
    assert {type(task["item"]) for task in plan.tasks()} == {int}
    assert any("more votes than there are annotators, 3" in note for note in plan.notes)
    assert str(plan) == plan.summary()


def test_texts_that_are_missing_are_named(clf: cs.ConformalCredalClassifier) -> None:
    for gap in (None, float("nan")):
        texts = FRAME["text"][60:].astype(object).copy()
        texts.iloc[[0, 4]] = gap
        with pytest.raises(ValueError, match=r"X has no text for 2 of 30 items \(first: 'm60', 'm64'\)"):
            clf.predict_set(texts)
        with pytest.raises(ValueError, match=r"X has no text for 2 of 30 items \(first: row 0\)"):
            cs.ConformalCredalClassifier(clf.estimator, "tv").fit(texts.tolist(), COUNTS[60:].to_numpy())


@pytest.mark.parametrize("word", ["few-votes", "annotator-sampling", "unbiased-votes", "auto"])
def test_noise_by_the_words_of_the_command_line(word: str) -> None:
    data = cs.datasets.make_synthetic(80, n_votes=30, random_state=0)
    by_word = cs.conformalize(data.distributions, data.counts, "tv", noise=word)
    assert by_word.rule.is_noisy
    clf = cs.ConformalCredalClassifier(LogisticRegression(), "tv", noise=word)
    clf.fit(data.X[:40], data.counts[:40]).conformalize(data.X[40:], data.counts[40:])
    assert len(clf.predict_set(data.X, alpha=0.3)) == 80


def test_names_that_are_not_there() -> None:
    votes = cs.Annotations.from_counts([[1, 2], [2, 1]], items=[7, 8])
    with pytest.raises(ValueError, match="'7' is neither 7 nor '07'"):
        votes.select(["007"])
    with pytest.raises(
        ValueError, match=r"Take those that are there: \[name for name in names if name in votes.items\]"
    ):
        votes.select([9])
