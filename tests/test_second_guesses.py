"""What a newcomer did next, on a table of messages: each call works, or its message names the fix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
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
    with pytest.raises(ValueError, match=r"metrics\.coverage_by_group\(sets, Y, groups\)"):
        clf.evaluate(FRAME["text"][60:], COUNTS[60:], alpha=0.2, groups=FRAME["channel"][60:])


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
