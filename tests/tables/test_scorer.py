"""Arrow in, Arrow out: the same answers as `predict_set`, whatever the batches."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

import pandas as pd  # noqa: E402
from pyarrow import parquet  # noqa: E402

import credalset as cs  # noqa: E402
from credalset.exceptions import CredalSetWarning  # noqa: E402
from credalset.tables import Scorer  # noqa: E402
from credalset.tables.matching import read_numbers  # noqa: E402

CLASSES = ("no", "perhaps", "yes")


@pytest.fixture(scope="module")
def data() -> cs.datasets.SyntheticData:
    return cs.datasets.make_synthetic(600, n_votes=20, random_state=0)


@pytest.fixture(scope="module")
def calibration(data: cs.datasets.SyntheticData) -> cs.Calibration:
    return cs.conformalize(data.distributions[:300], data.counts[:300], "kl", classes=CLASSES)


def table(predictions: np.ndarray, names: tuple[str, ...] = CLASSES, **more: object) -> pa.RecordBatch:
    columns = {name: predictions[:, k] for k, name in enumerate(names)}
    return pa.RecordBatch.from_pydict({"task": [f"t{i}" for i in range(len(predictions))], **columns, **more})


def test_answers_are_those_of_predict_set(data, calibration) -> None:
    predictions = data.distributions[300:]
    scorer = Scorer(calibration, 0.1, ask=["prediction", "lower", "upper", "entropy", "labels", "width", "volume"])
    result = scorer(table(predictions))
    sets = calibration.predict_set(predictions, 0.1)
    lower, upper = sets.envelope()
    bounds = sets.entropy_bounds(base="K")
    for k, name in enumerate(CLASSES):
        assert np.array_equal(result.column(f"prediction_{name}"), predictions[:, k])
        assert np.array_equal(result.column(f"lower_{name}"), lower[:, k])
        assert np.array_equal(result.column(f"upper_{name}"), upper[:, k])
    assert np.array_equal(result.column("entropy_lower"), bounds.lower)
    assert np.array_equal(result.column("entropy_upper"), bounds.upper)
    assert np.allclose(result.column("width"), (upper - lower).sum(axis=1) / 2)
    assert np.array_equal(result.column("volume"), sets.volume())
    labels = [[CLASSES[k] for k in np.flatnonzero(row)] for row in sets.decide()]
    assert result.column("labels").to_pylist() == labels
    assert result.column("n_labels").to_pylist() == [len(row) for row in labels]
    assert result.column("task").to_pylist()[:2] == ["t0", "t1"]
    assert set(result.column("alpha").to_pylist()) == {0.1}


def test_the_schema_is_known_in_advance_and_batches_do_not_matter(data, calibration) -> None:
    scorer = Scorer(calibration, 0.2)
    schema = scorer.schema
    whole = scorer(table(data.distributions))
    assert whole.schema == schema
    batch = table(data.distributions)
    parts = list(scorer.map_batches(batch.slice(start, 7) for start in range(0, 600, 7)))
    assert all(part.schema == schema for part in parts)
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([whole]))


def test_columns_are_found_by_name_in_any_order(data, calibration) -> None:
    scorer = Scorer(calibration, 0.1, ask=["lower"])
    shuffled = table(data.distributions[:, [2, 0, 1]], ("yes", "no", "perhaps"))
    assert scorer(shuffled).equals(scorer(table(data.distributions)))


def test_lists_and_logits(data, calibration) -> None:
    expected = Scorer(calibration, 0.1, ask=["upper"])(table(data.distributions))
    lists = pa.RecordBatch.from_pydict({"task": expected.column("task"), "p": data.distributions.tolist()})
    assert Scorer(calibration, 0.1, ask=["upper"])(lists).equals(expected)
    logits = Scorer(calibration, 0.1, ask=["upper"], logits=True)(table(np.log(data.distributions) + 3.0))
    assert np.allclose(logits.column("upper_no"), expected.column("upper_no"))


def test_a_scorer_made_from_a_path_is_small_to_ship(data, calibration, tmp_path: Path) -> None:
    calibration.save(tmp_path / "calibration")
    scorer = Scorer(tmp_path / "calibration", 0.1)
    sent = pickle.dumps(scorer)
    assert len(sent) < 2000
    batch = table(data.distributions[300:])
    assert pickle.loads(sent)(batch).equals(Scorer(calibration, 0.1)(batch))


def test_groups_and_weights_come_from_columns(data) -> None:
    groups = np.where(data.X[:, 0] > 0, "left", "right")
    weights = np.exp(0.3 * data.X[:, 1])
    made = cs.conformalize(data.distributions[:300], data.counts[:300], groups=groups[:300], weights=weights[:300])
    batch = table(data.distributions[300:], ("0", "1", "2"), side=groups[300:], w=weights[300:])
    scorer = Scorer(made, 0.1, ask=["width"], groups="side", weights="w")
    sets = made.predict_set(data.distributions[300:], 0.1, groups=groups[300:], weights=weights[300:])
    assert np.array_equal(scorer(batch).column("threshold"), sets.threshold)


def test_a_classifier_reads_features(data) -> None:
    clf = cs.ConformalCredalClassifier(cs.SoftLabelClassifier())
    clf.fit(data.X[:200], data.counts[:200]).conformalize(data.X[200:400], data.counts[200:400])
    batch = pa.RecordBatch.from_pydict({f"x{j}": data.X[400:, j] for j in range(data.X.shape[1])})
    result = Scorer(clf, 0.1, ask=["width"], id=None)(batch)
    assert np.array_equal(result.column("threshold"), clf.predict_set(data.X[400:], 0.1).threshold)
    assert result.schema == Scorer(clf, 0.1, ask=["width"], id=None).schema


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.drop_columns(["yes"]), "1 of 3 columns are missing .first: 'yes'"),
        (lambda b: b.drop_columns(["task"]), "column 'task' is missing"),
        (lambda b: b.set_column(1, "no", pa.array(["a"] * b.num_rows)), "column 'no' .* must hold numbers, but holds"),
        (lambda b: b.set_column(1, "no", pa.array([None] + [0.5] * (b.num_rows - 1))), "no value in row 0"),
        (lambda b: b.set_column(1, "no", pa.array([0.5] * b.num_rows)), "do not sum to one"),
    ],
)
def test_bad_batches_get_a_sentence(data, calibration, change, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scorer(calibration, 0.1)(change(table(data.distributions)))


def test_unknown_questions_and_things_that_are_no_calibration(calibration) -> None:
    with pytest.raises(ValueError, match="'size', which is no question"):
        Scorer(calibration, ask=["size"])
    with pytest.raises(TypeError, match="must be a calibration"):
        Scorer(3)
    with pytest.raises(ValueError, match="alpha"):
        Scorer(calibration, alpha=1.0)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames(data, calibration, kind: str) -> None:
    sets = calibration.predict_set(data.distributions[300:303], 0.1)
    frame = sets.to_frame(items=["a", "b", "c"], alpha=0.1, kind=kind)
    assert np.asarray(frame["item"]).tolist() == ["a", "b", "c"]
    assert np.allclose(np.asarray(frame["upper_yes"]), sets.upper()[:, 2])
    assert len(frame["labels"]) == 3
    with pytest.raises(ValueError, match="items must name each of the 3 sets"):
        sets.to_frame(items=["a"], kind=kind)
    with pytest.raises(ValueError, match="kind must be"):
        sets.to_frame(kind="list")


def test_columns_are_kept_as_they_are(data, calibration) -> None:
    batch = table(data.distributions[:3], text=["a", None, "c"], year=[1, 2, 3])
    scorer = Scorer(calibration, 0.1, ask=["width"], keep=["year", "text"]).for_input(batch.schema)
    result = scorer(batch)
    assert result.schema == scorer.schema
    assert result.schema.names == ["task", "year", "text", "alpha", "threshold", "empty", "width"]
    assert result.column("text").to_pylist() == ["a", None, "c"]
    assert result.column("year").type == pa.int64()
    with pytest.raises(ValueError, match=r"1 of 2 columns are missing \(first: 'nothing'\)"):
        Scorer(calibration, keep=["nothing"]).for_input(batch.schema)
    with pytest.raises(ValueError, match="column 'width' cannot be kept: the result has one of that name"):
        Scorer(calibration, ask=["width"], keep=["width"])(table(data.distributions[:3], width=[1, 2, 3]))


def test_predictions_that_predict_wrote_are_read_back(data, calibration, tmp_path) -> None:
    first = Scorer(calibration, 0.1, ask=["prediction", "lower"])(table(data.distributions))
    again = Scorer(calibration, 0.2, ask=["upper"])(first)
    assert np.array_equal(again.column("upper_no"), calibration.predict_set(data.distributions, 0.2).upper()[:, 0])
    parquet.write_table(pa.Table.from_batches([first]), tmp_path / "written.parquet")
    read = read_numbers(str(tmp_path / "written.parquet"))
    assert read.names == CLASSES
    assert np.array_equal(read.values, data.distributions)
    strangers = table(data.distributions, tuple(f"prediction_{name}" for name in CLASSES))
    parquet.write_table(pa.Table.from_batches([strangers]), tmp_path / "own.parquet")
    names = read_numbers(str(tmp_path / "own.parquet")).names
    assert names == tuple(f"prediction_{name}" for name in CLASSES), (
        "classes of a table that is not ours keep their names"
    )


def test_predictions_that_were_rounded_in_their_file(tmp_path: Path) -> None:
    """Four digits miss the sum one by more than computing does; commands were refused them."""
    rng = np.random.default_rng(0)
    exact = rng.dirichlet(np.ones(3), 50)
    calibration = cs.conformalize(exact, rng.multinomial(10, exact), "kl", classes=["a", "b", "c"])
    rounded = pd.DataFrame(exact.round(3), columns=["a", "b", "c"]).assign(task=[f"t{i}" for i in range(50)])
    batch = pa.RecordBatch.from_pandas(rounded)
    with pytest.warns(CredalSetWarning, match="as rounded numbers do"):
        answers = cs.Scorer(calibration, alpha=0.2, ask=["upper"])(batch)
    values = rounded[["a", "b", "c"]].to_numpy()
    expected = calibration.predict_set(values / values.sum(axis=1, keepdims=True), 0.2).upper()
    np.testing.assert_allclose(answers.column("upper_a").to_numpy(), expected[:, 0])
    with pytest.raises(ValueError, match=r"which look rounded: prediction / prediction\.sum"):
        calibration.predict_set(values)
    off = pa.RecordBatch.from_pandas(rounded.assign(a=rounded["a"] + 0.02))
    with pytest.raises(ValueError, match="do not sum to one"):
        cs.Scorer(calibration, alpha=0.2)(off)
