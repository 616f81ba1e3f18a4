"""Saving and loading: the same object comes back, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import credalset as cs
from credalset import _files
from credalset.exceptions import CredalSetWarning, FileFormatError, MissingExtraError
from credalset.io import store
from credalset.io.folders import ARRAYS, MANIFEST, MAX_MANIFEST
from credalset.scores import KullbackLeibler, Normalized, TotalVariation, Wasserstein

from .children import save_and_die
from .forging import DATA, assert_same, calibrate, classify

TREES = [
    "sklearn.ensemble._forest.RandomForestClassifier",
    "sklearn.tree._classes.DecisionTreeClassifier",
    "sklearn.tree._tree.Tree",
]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    calibrate(classes=["cat", "dog", "eel"]).save(tmp_path / "saved")
    return tmp_path / "saved"


def entries(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# --- round trips ---


@pytest.mark.parametrize(
    "score",
    [
        "tv",
        "ws",
        "kl",
        "inner",
        "brier",
        "hellinger",
        Wasserstein(positions=(0.0, 0.1, 7.5)),
        Normalized("kl", 0.1),
        Normalized(KullbackLeibler(base=np.e), offset=1e-300),
    ],
    ids=str,
)
def test_calibrations_and_their_sets(score: Any, tmp_path: Path) -> None:
    calibration = calibrate(score)
    calibration.save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    assert_same(loaded, calibration)
    sets = calibration.predict_set(DATA.distributions[40:], 0.2)
    sets.save(tmp_path / "s")
    again: Any = cs.load(tmp_path / "s")
    assert again.lower().tobytes() == sets.lower().tobytes()


@pytest.mark.parametrize(
    "options",
    [
        {"noise": cs.AnnotatorSampling(0.01)},
        {"noise": cs.BoundedNoise(0.1, 0.01), "groups": "predicted"},
        {"groups": [("a", 1), ("b", 2)] * 20},
        {"weights": np.linspace(0.5, 1.5, 40)},
    ],
    ids=str,
)
def test_thresholds_stay_the_same(options: Any, tmp_path: Path) -> None:
    calibration = calibrate(**options)
    calibration.save(tmp_path / "c")
    new = {"groups": [("a", 1)] * 5} if isinstance(options.get("groups"), list) else {}
    new |= {"weights": np.ones(5)} if "weights" in options else {}
    expected = calibration.predict_set(DATA.distributions[:5], 0.3, **new).threshold
    assert (
        cs.load(tmp_path / "c").predict_set(DATA.distributions[:5], 0.3, **new).threshold.tolist()
        == expected.tolist()
    )


@pytest.mark.parametrize(
    "classes",
    [
        ["b", "a", "c"],
        [3, 1, 2],
        [0.5, 1.5, -2.0],
        [True, False, 2],
        ["", "naïve\n", "猫 🐈"],
        ["a", 1, 2.5],
    ],
    ids=repr,
)
def test_class_names_keep_value_type_and_order(classes: list[Any], tmp_path: Path) -> None:
    calibration = calibrate(classes=classes)
    calibration.save(str(tmp_path / "c"))
    assert_same(cs.load(str(tmp_path / "c")), calibration)


@pytest.mark.parametrize(
    "items",
    [
        [f"item {i}" for i in range(1_000_000)],
        [2**62 + i for i in range(5_000)],
        ["naïve 猫", "", *(f"{i}" for i in range(5_000))],
        [2**70, *range(5_000)],
        ["with\0zero", *(f"{i}" for i in range(5_000))],
    ],
    ids=["million", "numbers", "texts", "large numbers", "zeros"],
)
def test_many_names(items: list[Any], tmp_path: Path) -> None:
    """Long lists of names are arrays, so that the manifest stays small."""
    sets = cs.get_score("tv").region(np.full((len(items), 2), 0.5), 0.1)
    replace(sets, items=tuple(items)).save(tmp_path / "s")
    assert (tmp_path / "s" / MANIFEST).stat().st_size < MAX_MANIFEST
    assert cs.load(tmp_path / "s").items == tuple(items)


def test_a_large_vocabulary(tmp_path: Path) -> None:
    words = [f"word{i}" for i in range(60_000)]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    texts = [" ".join(words[::2]), " ".join(words[1::2])] * 2
    classifier = cs.ConformalCredalClassifier(model).fit(texts, [[3, 1], [1, 3]] * 2)
    classifier.save(tmp_path / "c")
    assert (
        cs.load(tmp_path / "c").predict_proba(texts).tobytes()
        == classifier.predict_proba(texts).tobytes()
    )


ESTIMATORS = {
    "plain": LogisticRegression(),
    "soft": cs.SoftLabelClassifier(LogisticRegression(C=0.3)),
    "pipeline": make_pipeline(StandardScaler(), cs.SoftLabelClassifier()),
    "inner pipeline": cs.SoftLabelClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_classifiers(name: str, tmp_path: Path) -> None:
    classifier = classify(ESTIMATORS[name], Normalized("kl", 0.1), noise=cs.AnnotatorSampling(0.05))
    classifier.save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    assert (loaded.nonconformity, loaded.noise) == (classifier.nonconformity, classifier.noise)
    assert loaded.predict_proba(DATA.X).tobytes() == classifier.predict_proba(DATA.X).tobytes()
    assert loaded.predict(DATA.X).tolist() == classifier.predict(DATA.X).tolist()
    assert_same(loaded.calibration_, classifier.calibration_)
    assert (
        loaded.predict_set(DATA.X, 0.3).upper().tobytes()
        == classifier.predict_set(DATA.X, 0.3).upper().tobytes()
    )


def test_classifiers_of_texts_and_of_folds(tmp_path: Path) -> None:
    texts = ["good day", "bad day", "a day"] * 20
    votes = [[3, 1], [1, 3], [2, 2]] * 20
    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression())
    classifier = cs.ConformalCredalClassifier(model).cross_conformalize(
        texts, votes, 3, random_state=0
    )
    classifier.save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    assert len(loaded.estimators_) == 3
    assert (
        loaded.predict_set(texts).lower().tobytes()
        == classifier.predict_set(texts).lower().tobytes()
    )


def test_a_fitted_classifier_can_be_calibrated_later(tmp_path: Path) -> None:
    cs.ConformalCredalClassifier(LogisticRegression()).fit(
        DATA.X[:45], np.tile(["no", "yes", "so"], 15)
    ).save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    assert loaded.classes_.tolist() == ["no", "so", "yes"]
    with pytest.raises(NotFittedError):
        loaded.predict_set(DATA.X)
    loaded.conformalize(DATA.X[45:], DATA.counts[45:])


def test_a_stream_goes_on(tmp_path: Path) -> None:
    stream = cs.Stream(calibrate(), 0.2)
    stream.update(DATA.distributions[:9], DATA.counts[:9])
    stream.save(tmp_path / "s")
    loaded: Any = cs.load(tmp_path / "s")
    both = [each.update(DATA.distributions[9:], DATA.counts[9:])[-1] for each in (stream, loaded)]
    assert both[0] == both[1]


def test_every_kind_of_value_comes_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(store.TYPES, "Everything", __name__)
    thing = Everything(
        Fraction(1, 10),
        (1, (2.5, "x", None)),
        -np.inf,
        {"a": np.arange(3), 2: True},
        np.array(["u", "w"]),
    )
    store.save(thing, tmp_path / "e")
    back = store.load(tmp_path / "e")
    assert repr(back) == repr(thing)
    assert back.table["a"].dtype == np.arange(3).dtype


@dataclass(frozen=True)
class Everything:
    level: Fraction
    parts: tuple[Any, ...]
    limit: float
    table: dict[Any, Any]
    names: np.ndarray


@pytest.mark.parametrize(
    "name", [name for name in store.TYPES if "Network" not in name and "Torch" not in name]
)
def test_types_on_the_list_say_what_they_hold(name: str) -> None:
    kind = store.find_type(name)
    assert kind is not None
    assert get_type_hints(
        kind.__init__ if hasattr(kind, "get_params") else getattr(kind, "_from_store", kind)
    )


def test_another_process_predicts_the_same(tmp_path: Path) -> None:
    classifier = classify()
    classifier.save(tmp_path / "c")
    np.save(tmp_path / "X.npy", DATA.X)
    script = (
        "import sys, numpy as np, credalset as cs\n"
        "sets = cs.load(sys.argv[1] + '/c').predict_set(np.load(sys.argv[1] + '/X.npy'), 0.2)\n"
        "np.savez(sys.argv[1] + '/out.npz', upper=sets.upper(), threshold=sets.threshold)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60)
    sets, out = classifier.predict_set(DATA.X, alpha=0.2), np.load(tmp_path / "out.npz")
    assert out["upper"].tobytes() == sets.upper().tobytes()
    assert out["threshold"].tobytes() == sets.threshold.tobytes()


def test_estimators_beyond_the_short_list_must_be_trusted(tmp_path: Path) -> None:
    with pytest.warns(CredalSetWarning, match=r"cs\.load\("):
        classify(RandomForestClassifier(2, random_state=0)).save(tmp_path / "c")
    for trusted in ((), TREES[:2]):
        with pytest.raises(FileFormatError, match="If you trust the file") as refused:
            cs.load(tmp_path / "c", trusted=trusted)
        assert set(refused.value.untrusted) == set(TREES)
    with pytest.raises(TypeError, match="trusted"):
        cs.load(tmp_path / "c", trusted=TREES[0])
    assert cs.load(tmp_path / "c", trusted=TREES).predict_proba(DATA.X).shape == (90, 3)


# --- pipelines of users ---


def mixed_table(n: int = 90) -> Any:
    """Numbers, one of them missing, a category that may be missing, and a text."""
    pd = pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    table = pd.DataFrame(DATA.X[:n, :3], columns=["a", "b", "c"])
    table.loc[3, "a"] = np.nan
    table["channel"] = generator.choice(["mail", "phone", None], n)
    table["says"] = [" ".join(words) for words in generator.choice(["good", "bad", "day"], (n, 4))]
    return table


def columns_of_table(**options: Any) -> ColumnTransformer:
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    parts = [
        ("numbers", numbers, make_column_selector(dtype_include="number")),
        ("channel", OneHotEncoder(handle_unknown="ignore"), ["channel"]),
        ("says", TfidfVectorizer(), "says"),
    ]
    return ColumnTransformer(parts, **options)


SOFT = cs.SoftLabelClassifier(LogisticRegression())
PIPELINES = {
    "columns": make_pipeline(columns_of_table(), LogisticRegression()),
    "frames": make_pipeline(
        ColumnTransformer([("a", SimpleImputer(), ["a"]), ("no", "drop", ["channel", "says"])]),
        LogisticRegression(),
    ).set_output(transform="pandas"),
    "passed": make_pipeline(
        ColumnTransformer(
            [("a", SimpleImputer(), ["a"]), ("no", "drop", ["channel", "says"])],
            remainder="passthrough",
        ),
        LogisticRegression(),
    ),
    "constants": make_pipeline(
        ColumnTransformer(
            [
                (
                    "channel",
                    make_pipeline(
                        SimpleImputer(strategy="constant", fill_value="none"),
                        OneHotEncoder(drop="if_binary"),
                    ),
                    [3],
                )
            ]
        ),
        SOFT,
    ),
    "search": GridSearchCV(
        make_pipeline(columns_of_table(), SOFT), {"softlabelclassifier__base__C": [0.1, 1]}, cv=3
    ),
    "soft labels around all": cs.SoftLabelClassifier(
        make_pipeline(columns_of_table(sparse_threshold=0), LogisticRegression())
    ),
}


def classify_table(estimator: Any) -> Any:
    table = mixed_table()
    clf = cs.ConformalCredalClassifier(estimator).fit(table[:60], DATA.counts[:60])
    return clf.conformalize(table[60:], DATA.counts[60:])


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_of_columns_come_back_without_trust(name: str, tmp_path: Path) -> None:
    clf = classify_table(PIPELINES[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # also that it needs trust
        clf.save(tmp_path / "c")
        loaded: Any = cs.load(tmp_path / "c")
    new = mixed_table().assign(b=0.5)
    if name != "constants":
        new.loc[7, "channel"] = "fax"
        new.loc[8, ["a", "channel"]] = [np.nan, None]
    assert loaded.predict_proba(new).tobytes() == clf.predict_proba(new).tobytes()
    sets = clf.predict_set(new, 0.3)
    assert loaded.predict_set(new, 0.3).upper().tobytes() == sets.upper().tobytes()
    again = loaded.fit(mixed_table()[:60], DATA.counts[:60])
    assert again.predict_proba(new).tobytes() == clf.predict_proba(new).tobytes()
    assert not isinstance(loaded.estimator_, GridSearchCV), "the best estimator is kept"


def test_other_parts_load_after_the_line_of_the_message(tmp_path: Path) -> None:
    """Every file of estimators is looked at before any is refused."""
    parts = columns_of_table()
    parts.set_params(channel=OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1))
    forest = RandomForestClassifier(2, random_state=0)
    clf = classify_table(make_pipeline(parts, forest))
    with pytest.warns(CredalSetWarning, match=r"cs\.load") as said:
        clf.save(tmp_path / "c")
    with pytest.raises(FileFormatError) as refused:
        cs.load(tmp_path / "c")
    line = str(refused.value).splitlines()[-1]
    assert str(said[0].message).splitlines()[-1] == line
    loaded = eval(line, {"cs": cs})
    new = mixed_table()
    assert loaded.predict_proba(new).tobytes() == clf.predict_proba(new).tobytes()


@pytest.mark.parametrize(
    "make",
    [
        lambda: calibrate("ws"),
        classify,
        lambda: classify(RandomForestClassifier(3, random_state=0)),
        lambda: classify(HistGradientBoostingClassifier(max_iter=3, random_state=0)),
    ],
    ids=["calibration", "classifier", "forest", "boosting"],
)
@pytest.mark.filterwarnings("ignore::credalset.exceptions.CredalSetWarning")
def test_same_object_same_files(make: Any, tmp_path: Path) -> None:
    """Byte for byte, although skops calls objects by their addresses."""
    for name in ("a", "b"):
        make().save(tmp_path / name)
    assert entries(tmp_path / "a") == entries(tmp_path / "b")
    for file in entries(tmp_path / "a"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


# --- what cannot be saved ---


class Unregistered(TotalVariation):
    """A score that nobody registered."""


class Locked:
    """A predictor that no file format can hold."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.full((len(X), 3), 1 / 3)

    def __init__(self) -> None:
        self.rows = (row for row in [])


def test_what_cannot_be_saved_leaves_nothing(tmp_path: Path) -> None:
    odd = np.datetime64("2020-01-01")
    for thing in (
        calibrate(Unregistered()),
        calibrate(Normalized(Unregistered())),
        calibrate(classes=["a", "b", odd]),
    ):
        with pytest.raises(TypeError):
            thing.save(tmp_path / "c")
    with pytest.raises(ValueError, match="names and parameters"):
        calibrate(classes=["a", "b", "c" * MAX_MANIFEST]).save(tmp_path / "c")
    with pytest.raises(NotFittedError):
        cs.ConformalCredalClassifier().save(tmp_path / "c")
    locked = cs.ConformalCredalClassifier(Locked()).conformalize(DATA.X, DATA.counts)
    with pytest.raises(TypeError, match=r"calibration_\.save"):
        locked.save(tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_missing_extra(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = classify(RandomForestClassifier(2))
    with pytest.warns(CredalSetWarning):
        classifier.save(tmp_path / "c")
    classify().save(tmp_path / "linear")
    for name in ("skops", "skops.io"):
        monkeypatch.setitem(sys.modules, name, None)
    for action in (
        lambda: classifier.save(tmp_path / "d"),
        lambda: cs.load(tmp_path / "c", trusted=TREES),
    ):
        with pytest.raises(MissingExtraError, match="skops"):
            action()
    assert isinstance(cs.load(saved), cs.Calibration)
    assert isinstance(cs.load(tmp_path / "linear"), cs.ConformalCredalClassifier), (
        "linear models need no extra"
    )


# --- whole or not at all ---


def test_saving_again_replaces(saved: Path) -> None:
    classify().save(saved)
    calibrate("ws").save(saved)
    assert_same(cs.load(saved), calibrate("ws"))
    assert entries(saved) == [ARRAYS, MANIFEST]
    assert entries(saved.parent) == ["saved"]


def test_an_empty_folder_and_missing_parents_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "a" / "b"):
        calibrate().save(path)
        assert isinstance(cs.load(path), cs.Calibration)


def make_foreign(kind: str, path: Path) -> None:
    if kind == "file":
        path.write_text("precious")
    elif kind == "symlink":
        (path.parent / "elsewhere").mkdir()
        path.symlink_to("elsewhere")
    elif kind == "saved object with notes":
        calibrate().save(path)
        (path / "notes.txt").write_text("precious")
    else:
        path.mkdir()
        (path / (MANIFEST if kind == "other manifest" else "thesis.txt")).write_text(
            '{"name": "a web page"}'
        )


@pytest.mark.parametrize(
    "kind", ["file", "symlink", "folder", "other manifest", "saved object with notes"]
)
def test_foreign_things_are_not_replaced(kind: str, tmp_path: Path) -> None:
    make_foreign(kind, tmp_path / "c")
    before = [(p, p.read_bytes()) for p in sorted(tmp_path.rglob("*")) if p.is_file()]
    with pytest.raises(FileExistsError, match="Choose another"):
        calibrate("ws").save(tmp_path / "c")
    assert [(p, p.read_bytes()) for p in sorted(tmp_path.rglob("*")) if p.is_file()] == before


@pytest.mark.parametrize("fallback", [False, True], ids=["exchange", "two renames"])
def test_killed_at_any_step_the_old_or_the_new_is_there(fallback: bool, saved: Path) -> None:
    """Only between the two renames of systems without an exchange is a whole copy named;
    the next save sweeps.
    """
    old = calibrate(classes=["cat", "dog", "eel"])
    outcomes = []
    for turn in range(12):
        code = save_and_die("ws", saved, turn, fallback)
        try:
            outcomes.append(cs.load(saved).score.name)
        except FileNotFoundError as error:
            copy = str(error).split("whole copy is ")[1].split(": rename")[0]
            assert cs.load(copy).score.name in ("kl", "ws")
            outcomes.append("named")
        old.save(saved)
        assert_same(cs.load(saved), old)
        assert entries(saved.parent) == ["saved"], "leftovers are swept"
        if code == 0:
            break
    assert code == 0, "all steps were tried"
    assert outcomes == sorted(outcomes, key=["kl", "named", "ws"].index)
    assert set(outcomes) == ({"kl", "ws", "named"} if fallback else {"kl", "ws"})


def test_two_writers_of_one_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one saw no folder, and could not rename its own to it a moment later."""
    exists = Path.exists
    folder = tmp_path / "new"
    _files.write_folder(folder, {"first": b"1"})
    monkeypatch.setattr(Path, "exists", lambda path: path != folder and exists(path))
    _files.write_folder(folder, {"second": b"2"})
    assert entries(folder) == ["second"]
    assert entries(tmp_path) == ["new"]


def test_writers_at_work_are_not_swept(tmp_path: Path) -> None:
    with _files.staged(tmp_path / "f") as staging:
        staging.write_bytes(b"first")
        _files.write_file(tmp_path / "f", b"second")
        assert (tmp_path / "f").read_bytes() == b"second"
    assert (tmp_path / "f").read_bytes() == b"first"
    assert entries(tmp_path) == ["f"]


@pytest.mark.parametrize(
    "error", [OSError("disk"), KeyboardInterrupt()], ids=["error", "interrupt"]
)
def test_a_failure_leaves_the_old_and_no_litter(
    error: BaseException, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: (saved / name).read_bytes() for name in entries(saved)}

    def fail(*_: Any) -> Any:
        raise error

    for owner, name in ((os, "fsync"), (_files, "_exchange")):
        monkeypatch.setattr(owner, name, fail)
        with pytest.raises(type(error)):
            calibrate("ws").save(saved)
        monkeypatch.undo()
        assert entries(saved.parent) == ["saved"]
        assert {name: (saved / name).read_bytes() for name in entries(saved)} == before


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    with (
        pytest.raises(OSError, match=r"No space left.*result\.csv"),
        _files.staged(tmp_path / "result.csv"),
    ):
        full.write_text("x" * 10)
    assert not list(tmp_path.iterdir())


def test_contents_reach_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace, rename = os.fsync, Path.replace, Path.rename
    monkeypatch.setattr(os, "fsync", lambda fd: steps.append("sync") or fsync(fd))
    monkeypatch.setattr(Path, "replace", lambda a, b: steps.append("name") or replace(a, b))
    monkeypatch.setattr(Path, "rename", lambda a, b: steps.append("name") or rename(a, b))
    _files.write_file(tmp_path / "file", b"1")
    _files.write_folder(tmp_path / "folder", {"one": b"1", "two": b"2"})
    assert steps == ["sync", "name", "sync", "sync", "name"]
