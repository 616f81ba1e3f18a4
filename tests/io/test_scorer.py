"""Arrow in, Arrow out: the same answers as `predict_set`, whatever the batches."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

import credalset as cs  # noqa: E402
from credalset.exceptions import CredalSetWarning  # noqa: E402
from credalset.io.scorer import Scorer  # noqa: E402

CLASSES = ("no", "perhaps", "yes")
DATA = cs.datasets.make_synthetic(600, n_votes=20, random_state=0)


@pytest.fixture(scope="module")
def calibration() -> cs.Calibration:
    return cs.conformalize(DATA.distributions[:300], DATA.counts[:300], "kl", classes=CLASSES)


def table(predictions: np.ndarray, names: tuple[str, ...] = CLASSES, **more: object) -> Any:
    columns = {name: predictions[:, k] for k, name in enumerate(names)}
    return pa.RecordBatch.from_pydict(
        {"task": [f"t{i}" for i in range(len(predictions))], **columns, **more}
    )


def test_answers_are_those_of_predict_set(calibration: cs.Calibration) -> None:
    predictions = DATA.distributions[300:]
    scorer = Scorer(
        calibration,
        0.1,
        ask=["prediction", "lower", "upper", "entropy", "labels", "width", "volume"],
    )
    result = scorer(table(predictions))
    sets = calibration.predict_set(predictions, 0.1)
    lower, upper = sets.lower(), sets.upper()
    bounds = sets.entropy_bounds(base="K")
    for k, name in enumerate(CLASSES):
        assert np.array_equal(result.column(f"prediction_{name}"), predictions[:, k])
        assert np.array_equal(result.column(f"lower_{name}"), lower[:, k])
        assert np.array_equal(result.column(f"upper_{name}"), upper[:, k])
    assert np.array_equal(result.column("entropy_lower"), bounds[0])
    assert np.array_equal(result.column("entropy_upper"), bounds[1])
    assert np.allclose(result.column("width"), (upper - lower).sum(axis=1) / 2)
    labels = [[CLASSES[k] for k in np.flatnonzero(row)] for row in sets.decide()]
    assert result.column("labels").to_pylist() == labels
    assert result.column("task").to_pylist()[:2] == ["t0", "t1"]


def test_the_schema_is_known_in_advance_and_batches_do_not_matter(
    calibration: cs.Calibration,
) -> None:
    scorer = Scorer(calibration, 0.2)
    schema = scorer.schema
    batch = table(DATA.distributions)
    whole = scorer(batch)
    assert whole.schema == schema
    parts = list(scorer.map_batches(batch.slice(start, 7) for start in range(0, 600, 7)))
    assert all(part.schema == schema for part in parts)
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([whole]))


@pytest.mark.parametrize("name", ["kl", "tv", "ws", "brier"])
def test_batches_of_any_size_and_threads_give_the_same_bits(name: str) -> None:
    """54 of 349 single rows differed from the batch in their last bits."""
    rng = np.random.default_rng(0)
    predictions = rng.dirichlet(np.ones(10), 349)
    counts = np.array([rng.multinomial(20, row) for row in predictions[:99]])
    classes = tuple(f"c{k}" for k in range(10))
    made = cs.conformalize(predictions[:99], counts, name, classes=classes)
    scorer = Scorer(made, 0.1, ask=["lower", "upper", "entropy", "labels", "width"])
    batch = table(predictions, classes)
    whole = scorer(batch)
    for size, n_jobs in ((1, 1), (7, 2), (100, 3)):
        slices = (batch.slice(start, size) for start in range(0, 349, size))
        parts = pa.Table.from_batches(scorer.map_batches(slices, n_jobs)).combine_chunks()
        assert parts.to_batches()[0].equals(whole)


def test_threads_hold_few_batches_and_pass_errors_on(calibration: cs.Calibration) -> None:
    read = []

    def batches(n: int) -> Any:
        for i in range(n):
            read.append(i)
            yield table(DATA.distributions if i < 9 else -DATA.distributions)

    scorer = Scorer(calibration, 0.1, ask=["upper"])
    found = scorer.map_batches(batches(99), n_jobs=3)
    next(found)
    assert len(read) == 4, "one batch more than threads"
    found.close()
    with pytest.raises(ValueError, match="negative"):
        list(scorer.map_batches(batches(99), n_jobs=3))
    with pytest.raises(ValueError, match="n_jobs"):
        list(scorer.map_batches(batches(1), n_jobs=0))


def test_empty_sets_are_no_warning_of_a_scorer() -> None:
    """They have a column of their own; what silenced the warning was not safe with threads."""
    made = cs.conformalize(DATA.distributions[:30], DATA.counts[:30], "inner", classes=CLASSES)
    batch = table(np.full((6, 3), 1 / 3))
    assert any(scorer_column(made, batch))
    with pytest.warns(CredalSetWarning, match="6 of 6 credal sets are empty"):
        made.predict_set(np.full((6, 3), 1 / 3), 0.9)


def scorer_column(made: cs.Calibration, batch: Any) -> list[bool]:
    return list(Scorer(made, 0.9, ask=["upper"])(batch).column("empty").to_pylist())


def test_columns_texts_lists_objects_and_logits(calibration: cs.Calibration) -> None:
    p = DATA.distributions
    scorer = Scorer(calibration, 0.1, ask=["upper"])
    expected = scorer(table(p))
    assert scorer(table(p[:, [2, 0, 1]], ("yes", "no", "perhaps"))).equals(expected)
    ids = {"task": expected.column("task")}
    assert scorer(pa.RecordBatch.from_pydict({**ids, "p": p.tolist()})).equals(expected)
    nested = {f"probs.{name}": p[:, k] for k, name in enumerate(CLASSES)}
    assert scorer(pa.RecordBatch.from_pydict({**ids, **nested, "length": np.arange(600)})).equals(
        expected
    )
    texts = {name: [repr(float(x)) for x in p[:, k]] for k, name in enumerate(CLASSES)}
    assert scorer(pa.RecordBatch.from_pydict({**ids, **texts})).equals(expected)
    logits = Scorer(calibration, 0.1, ask=["upper"], logits=True)(table(np.log(p) + 3.0))
    assert np.allclose(logits.column("upper_no"), expected.column("upper_no"))


def test_a_scorer_made_from_a_path_is_small_to_ship(
    calibration: cs.Calibration, tmp_path: Path
) -> None:
    calibration.save(tmp_path / "calibration")
    scorer = Scorer(tmp_path / "calibration", 0.1)
    batch = table(DATA.distributions[300:])
    expected = scorer(batch)
    sent = pickle.dumps(scorer)
    assert len(sent) < 2000, "only the path travels, also after use"
    assert pickle.loads(sent)(batch).equals(expected)


def test_groups_and_weights_come_from_columns() -> None:
    groups = np.where(DATA.X[:, 0] > 0, 1, 2)
    weights = np.exp(0.3 * DATA.X[:, 1])
    made = cs.conformalize(
        DATA.distributions[:300], DATA.counts[:300], groups=groups[:300], weights=weights[:300]
    )
    sets = made.predict_set(
        DATA.distributions[300:], 0.1, groups=groups[300:], weights=weights[300:]
    )
    scorer = Scorer(made, 0.1, ask=["width"], groups="side", weights="w")
    for side in (groups[300:], list(map(str, groups[300:]))):  # numbers in Parquet, texts in CSV
        batch = table(DATA.distributions[300:], ("0", "1", "2"), side=side, w=weights[300:])
        assert np.array_equal(scorer(batch).column("threshold"), sets.threshold)


def test_a_classifier_reads_features_and_texts() -> None:
    clf = cs.ConformalCredalClassifier(cs.SoftLabelClassifier())
    clf.fit(DATA.X[:200], DATA.counts[:200]).conformalize(DATA.X[200:400], DATA.counts[200:400])
    batch = pa.RecordBatch.from_pydict({f"x{j}": DATA.X[400:, j] for j in range(DATA.X.shape[1])})
    scorer = Scorer(clf, 0.1, ask=["width"], id=None)
    assert np.array_equal(
        scorer(batch).column("threshold"), clf.predict_set(DATA.X[400:], 0.1).threshold
    )
    assert scorer(batch).schema == scorer.schema
    with pytest.raises(ValueError, match="logits"):
        Scorer(clf, logits=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.drop_columns(["yes"]), "'yes'"),
        (lambda b: b.drop_columns(["task"]), "'task' is missing"),
        (
            lambda b: b.set_column(1, "no", pa.array(["a"] * b.num_rows)),
            "'no' .* must hold numbers",
        ),
        (lambda b: b.set_column(1, "no", pa.array([0.5] * b.num_rows)), "sum to one"),
    ],
)
def test_bad_batches_get_a_sentence(calibration: cs.Calibration, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scorer(calibration, 0.1)(change(table(DATA.distributions)))


def test_rows_without_a_value_are_counted_or_refused(calibration: cs.Calibration) -> None:
    batch = table(DATA.distributions[:9])
    holes = batch.set_column(1, "no", pa.array([None, *DATA.distributions[1:9, 0]]))
    scorer = Scorer(calibration, 0.1, ask=["width"])
    with pytest.warns(CredalSetWarning, match="1 row without"):
        assert scorer(holes).equals(scorer(batch.slice(1)))
    with pytest.warns(CredalSetWarning, match="2 rows"):
        assert sum(part.num_rows for part in scorer.map_batches([holes, batch, holes])) == 25
    with pytest.raises(ValueError, match="Fill or drop"):
        Scorer(calibration, 0.1, strict=True)(holes)


def test_wrong_arguments(calibration: cs.Calibration) -> None:
    with pytest.raises(ValueError, match="'size'"):
        Scorer(calibration, ask=["size"])
    with pytest.raises(TypeError, match="model"):
        Scorer(3)
    with pytest.raises(ValueError, match="alpha"):
        Scorer(calibration, alpha=1.0)


def test_columns_are_kept_as_they_are(calibration: cs.Calibration) -> None:
    batch = table(DATA.distributions[:3], text=["NA", None, "007"], year=[1, 2, 3])
    scorer = Scorer(calibration, 0.1, ask=["width"], keep=["year", "text"]).for_input(batch.schema)
    result = scorer(batch)
    assert result.schema == scorer.schema
    assert result.schema.names == ["task", "year", "text", "alpha", "threshold", "empty", "width"]
    assert result.column("text").to_pylist() == ["NA", None, "007"]
    assert result.column("year").type == pa.int64()
    with pytest.raises(ValueError, match="'nothing'"):
        Scorer(calibration, keep=["nothing"]).for_input(batch.schema)
    with pytest.raises(ValueError, match="'width' cannot be kept"):
        Scorer(calibration, ask=["width"], keep=["width"])(
            table(DATA.distributions[:3], width=[1, 2, 3])
        )


def test_predictions_that_predict_wrote_and_that_were_rounded(calibration: cs.Calibration) -> None:
    first = Scorer(calibration, 0.1, ask=["prediction", "lower"])(table(DATA.distributions))
    again = Scorer(calibration, 0.2, ask=["upper"])(first)
    assert np.array_equal(
        again.column("upper_no"), calibration.predict_set(DATA.distributions, 0.2).upper()[:, 0]
    )
    rounded = DATA.distributions.round(3)
    exact = rounded / rounded.sum(axis=1, keepdims=True)
    answers = Scorer(calibration, 0.2, ask=["upper"])(table(rounded))
    np.testing.assert_allclose(
        answers.column("upper_no"), calibration.predict_set(exact, 0.2).upper()[:, 0]
    )
