"""Damaged, foreign and hostile files: a clear refusal or the same data, little memory,
and nothing executed.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import pickle
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import credalset as cs
from credalset.exceptions import CredalSetWarning, FileFormatError
from credalset.io.estimators import _look_through
from credalset.io.folders import ARRAYS, MANIFEST, MAX_MANIFEST

from .children import load_within_limits
from .forging import (
    DATA,
    assert_same,
    calibrate,
    classify,
    forge,
    forge_arrays,
    header,
    leaves,
    npy,
    npz,
    put,
)

SKOPS = "estimator.skops"
TREES = [
    "sklearn.ensemble._forest.RandomForestClassifier",
    "sklearn.tree._classes.DecisionTreeClassifier",
]
TREES += ["sklearn.tree._tree.Tree"]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("originals")
    calibrate(classes=["cat", "dog", "eel"]).save(folder / "calibration")
    classify(noise=cs.AnnotatorSampling(0.05)).save(folder / "classifier")
    with pytest.warns(CredalSetWarning):
        classify(RandomForestClassifier(2, random_state=0)).save(folder / "forest")
    return {
        path.name: {f.name: f.read_bytes() for f in path.iterdir()} for path in folder.iterdir()
    }


def restored(path: Path, files: dict[str, bytes]) -> Path:
    path.mkdir(exist_ok=True)
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


@pytest.fixture
def saved(tmp_path: Path, originals: dict[str, dict[str, bytes]]) -> Path:
    return restored(tmp_path / "saved", originals["calibration"])


@pytest.fixture
def saved_classifier(tmp_path: Path, originals: dict[str, dict[str, bytes]]) -> Path:
    return restored(tmp_path / "classifier", originals["classifier"])


@pytest.fixture
def saved_forest(tmp_path: Path, originals: dict[str, dict[str, bytes]]) -> Path:
    return restored(tmp_path / "forest", originals["forest"])


def is_refused(path: Path, expected: Any = None) -> bool:
    """Load; the answer is the saved object or the proper refusal. Tell whether it was refused."""
    try:
        loaded: Any = cs.load(path, trusted=TREES)
    except FileFormatError:
        return True
    if expected is not None:
        assert_same(
            getattr(loaded, "calibration_", loaded), getattr(expected, "calibration_", expected)
        )
    return False


# --- damage ---


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cs.load(tmp_path / "missing")
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(FileFormatError, match=MANIFEST):
            cs.load(path)


@pytest.mark.parametrize("fixture", ["saved", "saved_classifier", "saved_forest"])
def test_damaged_files(fixture: str, request: pytest.FixtureRequest) -> None:
    """Files cut off, too long or missing, and flipped bytes;
    only white space may change unnoticed.
    """
    path = request.getfixturevalue(fixture)
    expected = cs.load(path, trusted=TREES)
    rng = np.random.default_rng(0)
    for file in sorted(path.iterdir()):
        data = file.read_bytes()
        for size in (0, 1, 17, len(data) // 2, len(data) - 1):
            file.write_bytes(data[:size])
            assert is_refused(path), f"{file.name} cut to {size} of {len(data)} bytes"
        file.write_bytes(data + b"\0")
        assert is_refused(path)
        file.unlink()
        assert is_refused(path)
        where = np.unique(rng.integers(0, len(data), 300 if file.name == MANIFEST else 80))
        for at, mask in zip(where, rng.integers(1, 256, len(where)), strict=True):
            file.write_bytes(data[:at] + bytes([data[at] ^ int(mask)]) + data[at + 1 :])
            assert is_refused(path, expected) or data[at : at + 1].isspace(), (
                f"{file.name}, byte {at}"
            )
        file.write_bytes(data)
    assert not is_refused(path, expected)


# --- bounds: refused in under a second and 200 MB ---


def skops_zip(schema: Any, compression: int = zipfile.ZIP_STORED, **files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(
            "schema.json", json.dumps({"protocol": 2, "_skops_version": "0.16.0", **schema})
        )
    return buffer.getvalue()


def node(kind: str, loader: str, content: Any, number: int = 1, **more: Any) -> dict[str, Any]:
    module, name = kind.rsplit(".", 1)
    return {
        "__module__": module,
        "__class__": name,
        "__loader__": loader,
        "content": content,
        "__id__": number,
        **more,
    }


def tree_of(parts: list[Any]) -> dict[str, Any]:
    """The description of an estimator whose type is trusted, and of what it holds."""
    keys = node(
        "builtins.list", "ListNode", [{**node("builtins.str", "TypeNode", None), "__id__": 2}], 3
    )
    inside = {"content": {"x": node("builtins.list", "ListNode", parts, 4)}, "key_types": keys}
    return node(TREES[1], "ObjectNode", {**node("builtins.dict", "DictNode", None, 5), **inside}, 6)


def doubling_lists(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = node("builtins.list", "ListNode", [], 100)
    for level in range(101, 100 + levels):
        inner = node(
            "builtins.list",
            "ListNode",
            [inner, node("builtins.list", "ListNode", [], level - 1)],
            level,
        )
    return inner


def array_node(file: str, number: int) -> dict[str, Any]:
    return node("numpy.ndarray", "NdArrayNode", None, number, type="numpy", file=file)


def sparse_zeros(n: int) -> bytes:
    buffer = io.BytesIO()
    small = {
        "format": np.array(b"csr"),
        "shape": np.array([1, 9]),
        "indptr": np.zeros(2, int),
        "indices": np.zeros(1),
    }
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in small.items():
            archive.writestr(f"{name}.npy", npy_bytes(value))
        with archive.open("data.npy", "w") as member:
            member.write(npy(header(f"({n},)")))
            for _ in range(n // 125_000):
                member.write(bytes(1_000_000))
    return buffer.getvalue()


NUMBER = node("builtins.str", "JsonNode", "100000", 9)
MATRIX = node(
    "scipy.sparse._csr.csr_matrix", "SparseMatrixNode", None, 9, type="scipy", file="1.npz"
)
BOMBS: dict[str, Any] = {
    "a sparse matrix": lambda: skops_zip(tree_of([MATRIX]), **{"1.npz": sparse_zeros(50_000_000)}),
    "an array": lambda: skops_zip(
        tree_of([array_node("1.npy", 9)]), **{"1.npy": npy(header("(9000000000,)"))}
    ),
    "empty texts": lambda: skops_zip(
        tree_of([array_node("1.npy", 9)]), **{"1.npy": npy(header("(9000000000,)", "'<U0'"))}
    ),
    "a shape": lambda: skops_zip(
        tree_of([node("numpy.ndarray", "ListNode", [NUMBER, NUMBER], 10)])
    ),
    "one member, read often": lambda: skops_zip(
        tree_of([array_node("1.npy", 10 + i) for i in range(300)]),
        **{"1.npy": npy_bytes(np.zeros(100_000))},
    ),
    "references": lambda: skops_zip(tree_of([doubling_lists(40)])),
    "values": lambda: skops_zip({**tree_of([]), "more": [[]] * 4_000_000}),
    "objects": lambda: skops_zip(
        tree_of([node(TREES[1], "ObjectNode", None, i) for i in range(100, 100_000)])
    ),
    "compressed": lambda: skops_zip(tree_of([]), zipfile.ZIP_DEFLATED, padding=bytes(50_000_000)),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_estimators_that_unpack_to_more(bomb: str, saved_forest: Path) -> None:
    """Also for those who trust the types: what they take is bounded before skops reads anything."""
    pytest.importorskip("skops.io")  # so that importing it does not count
    forge(saved_forest, **{SKOPS: BOMBS[bomb]()})
    assert (
        load_within_limits(saved_forest, [*TREES, "scipy.sparse._csr.csr_matrix"])
        == "FileFormatError"
    )


@pytest.mark.parametrize(
    "unit", ["[],", "{},", '{"":0},', '{"fraction":[1,2]},', '"ab",', "10,", '{"texts":[]},']
)
def test_manifests_full_of_values(unit: str, saved: Path) -> None:
    """As much JSON as there is room for is parsed and refused in time; more is not parsed."""
    values = json.loads(f"[{unit * ((MAX_MANIFEST - 5_000) // len(unit))}0]")
    forge(saved, lambda manifest: manifest["object"]["fields"].update(classes=values))
    assert load_within_limits(saved) == "FileFormatError"
    (saved / MANIFEST).write_text(f"[{unit * 2_000_000}0]")
    assert load_within_limits(saved) == "FileFormatError"


def test_keys_that_share_a_hash(saved: Path) -> None:
    keys = [i * (2**61 - 1) for i in range(1, 40_000)]
    forge(
        saved,
        lambda manifest: manifest["object"]["fields"].update(classes={"dict": [keys, keys[:1]]}),
    )
    assert load_within_limits(saved) == "FileFormatError"


@pytest.mark.parametrize(
    "names", [bytes(30_000_000), b"ab\0" * 10_000_000, b"\xff", np.zeros((2, 2)), np.zeros(9)]
)
def test_forged_lists_of_names(names: Any, saved: Path) -> None:
    array = np.frombuffer(names, np.uint8) if isinstance(names, bytes) else names
    forge(saved, lambda manifest: manifest["object"]["fields"].update(items={"names": "names"}))
    forge_arrays(saved, names=array)
    assert load_within_limits(saved) == "FileFormatError"


def test_a_sparse_array_file(saved: Path) -> None:
    with (saved / ARRAYS).open("r+b") as stream:
        stream.truncate(3 << 30)
    forge(saved, lambda manifest: manifest["files"][ARRAYS].update(bytes=3 << 30))
    assert load_within_limits(saved) == "FileFormatError"


def test_sizes_that_nothing_backs(saved: Path) -> None:
    forge(
        saved, lambda manifest: manifest["object"]["fields"].update(n_classes=10**8, classes=None)
    )
    assert load_within_limits(saved) == "FileFormatError"


def test_names_that_would_take_the_room_of_the_longest(saved_classifier: Path) -> None:
    texts = {"texts": ["x" * 1_000_000, *["y"] * 1_000]}
    forge(saved_classifier, lambda manifest: manifest["object"]["state"].update(classes_=texts))
    assert load_within_limits(saved_classifier) == "FileFormatError"


def test_references_that_double(saved: Path) -> None:
    """An array belongs to one place, and trees are as deep as they are long."""
    fields = json.loads((saved / MANIFEST).read_text())["object"]["fields"]
    array = next(value for value in fields.values() if isinstance(value, dict) and "array" in value)
    forge(
        saved, lambda manifest: manifest["object"]["fields"].update(classes=[array, array, array])
    )
    assert load_within_limits(saved) == "FileFormatError"
    nested: Any = "tv"
    for _ in range(200):
        nested = {"score": "normalized", "fields": {"score": nested, "offset": 0.0}}
    forge(saved, lambda manifest: manifest["object"]["fields"].update(score=nested))
    assert load_within_limits(saved) == "FileFormatError"


def test_arrays_that_unpack_to_more(saved: Path) -> None:
    forge(
        saved,
        **{ARRAYS: npz(zipfile.ZIP_DEFLATED, scores=npy(header("(10000000,)"), bytes(80_000_000)))},
    )
    assert load_within_limits(saved) == "FileFormatError"
    data = npz(scores=npy(header("(999,)"), bytes(8 * 999)))  # many entries that share one member
    start, stop = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entry, end = data[start:stop], bytearray(data[stop:])
    end[8:10] = end[10:12] = (50).to_bytes(2, "little")
    end[12:16] = (50 * len(entry)).to_bytes(4, "little")
    forge(saved, **{ARRAYS: data[:start] + entry * 50 + bytes(end)})
    assert load_within_limits(saved) == "FileFormatError"


# --- forged arrays and manifests ---


@pytest.mark.parametrize(
    "array",
    [
        npy(header("(10**15,)"), bytes(16)),
        npy(header("(1000000000000000,)"), bytes(16)),
        npy(header("(9223372036854775807, 9223372036854775807)"), bytes(16)),
        npy(header("(-1, -2)"), bytes(16)),
        npy(header("(2.0,)"), bytes(16)),
        npy(header("(3,)"), bytes(16)),
        npy(header(descr="'<U2'"), bytes(16)),
        npy(header(descr="'|V8'"), bytes(16)),
        npy(header(descr="('<f8', (10**12,))"), bytes(16)),
        npy(header(descr="[('a', '<f8')]"), bytes(16)),
        npy(header(descr="'<f4'"), bytes(8)),
        npy("(" * 5000),
        npy("__import__('os').getcwd()\n"),
        npy(header(), bytes(16), version=b"\x02\x00"),
        b"\x93NUM",
        b"",
    ],
    ids=lambda data: repr(data[10:60]),
)
def test_forged_arrays_are_refused(array: bytes, saved: Path) -> None:
    stored = {name: npy_bytes(value) for name, value in np.load(saved / ARRAYS).items()}
    assert "scores" in stored
    forge(saved, **{ARRAYS: npz(**{**stored, "scores": array})})
    assert is_refused(saved)


def npy_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


class Bomb:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def test_pickles_are_not_read(saved: Path, tmp_path: Path) -> None:
    canary = str(tmp_path / "canary")
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb(canary)] * 3, dtype=object), allow_pickle=True)
    for data in (npz(scores=buffer.getvalue()), pickle.dumps(Bomb(canary))):
        forge(saved, **{ARRAYS: data})
        assert is_refused(saved)
    assert not os.path.exists(canary)
    pickle.loads(pickle.dumps(Bomb(canary)))
    assert os.path.exists(canary), "the canary does sing when it is unpickled"


@pytest.mark.parametrize(
    "name", ["../secret.txt", "/etc/hostname", "..", "", "a/b", ".hidden", "x\0y", "a" * 5000]
)
def test_names_that_lead_elsewhere(name: str, saved: Path) -> None:
    (saved.parent / "secret.txt").write_bytes(b"secret")
    entry = {"bytes": 6, "sha256": hashlib.sha256(b"secret").hexdigest()}
    forge(saved, lambda manifest: manifest["files"].update({name: entry}))
    assert is_refused(saved)


@pytest.mark.parametrize("file", [MANIFEST, ARRAYS])
def test_links_and_folders_are_not_followed(file: str, saved: Path) -> None:
    (saved / file).rename(saved.parent / "elsewhere")
    (saved / file).symlink_to(saved.parent / "elsewhere")
    assert is_refused(saved)
    (saved / file).unlink()
    (saved / file).mkdir()
    assert is_refused(saved)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"null", b"[]", b"42", b"{}", b"\xff\xfe{}", b'{"format": "credalset"'),
        *(b"[" * 200_000, b'{"a":' * 200_000),
        b'{"format": "credalset", "format_version": ' + b"9" * 5000 + b"}",
        b'{"format": "credalset", "format_version": 2, "object": "\\ud800", "files": {}}',
        b" " * (MAX_MANIFEST + 1),
    ],
    ids=lambda text: repr(text[:40]),
)
def test_manifests_that_are_none(text: bytes, saved: Path) -> None:
    (saved / MANIFEST).write_bytes(text)
    with pytest.raises(FileFormatError, match=r"manifest\.json"):
        cs.load(saved)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_numbers_json_does_not_know(number: str, saved: Path) -> None:
    text = (saved / MANIFEST).read_text()
    assert '"base": 2.0' in text
    (saved / MANIFEST).write_text(text.replace('"base": 2.0', f'"base": {number}'))
    assert is_refused(saved)


WRONG = [
    None,
    True,
    -1,
    10**8,
    1.5,
    "x",
    [],
    ["x"],
    {},
    {"x": {}},
    10**400,
    [None, "a", "b"],
    {"array": "scores"},
]


@pytest.mark.parametrize("fixture", ["saved", "saved_classifier"])
def test_wrong_values_anywhere_are_refused_or_legal(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    """Whatever stands in whatever place of a manifest, loading refuses or gives an object;
    no other error.
    """
    path = request.getfixturevalue(fixture)
    original = json.loads((path / MANIFEST).read_text())
    n_refused = n_tried = 0
    for place in leaves({key: original[key] for key in ("object", "files", "versions")})[1:]:
        for wrong in WRONG if fixture == "saved" else WRONG[::5]:
            forged = copy.deepcopy(original)
            put(forged, place, wrong)
            forge(path, lambda manifest, forged=forged: manifest.update(forged))  # type: ignore[misc]
            n_refused += is_refused(path)
            n_tried += 1
    assert n_refused > 0.8 * n_tried


@pytest.mark.parametrize(
    "score",
    [
        {"score": "np", "fields": {}},
        {"score": "kl", "fields": {"base": 1.0}},
        {"score": "kl", "fields": {"base": "2"}},
        {"score": "kl", "fields": {"bass": 2.0}},
        {"score": "kl", "fields": {}},
        {"score": "ws", "fields": {"positions": "123"}},
        {"score": "ws", "fields": {"positions": [2, 1, 0]}},
        {"score": "ws", "fields": {"positions": ["0", "1", "2"]}},
        {"type": "os.system", "fields": {}},
        {"type": "Calibration", "fields": {}},
        {"type": "ConformalCredalClassifier", "fields": {}},
        "kl",
    ],
    ids=repr,
)
def test_scores_that_save_would_not_write(score: Any, saved: Path) -> None:
    forge(saved, lambda manifest: manifest["object"]["fields"].update(score=score))
    assert is_refused(saved)


@pytest.mark.parametrize(
    "versions",
    [
        None,
        [],
        "1.2",
        {"numpy": 2},
        {"numpy": "1.²"},
        {"numpy": "9" * 10**6},
        {"scikit-learn": "dev"},
    ],
)
def test_forged_versions(versions: Any, saved_classifier: Path) -> None:
    forge(saved_classifier, lambda manifest: manifest.update(versions=versions))
    assert is_refused(saved_classifier)


def test_versions_of_estimators(saved_classifier: Path, saved: Path) -> None:
    def pretend(path: Path, number: str) -> None:
        forge(path, lambda manifest: manifest["versions"].update({"scikit-learn": number}))

    pretend(saved_classifier, ".".join([*version("scikit-learn").split(".")[:2], "99"]))
    cs.load(saved_classifier)
    pretend(saved_classifier, "1.2.0")
    with pytest.warns(CredalSetWarning, match="scikit-learn"):
        cs.load(saved_classifier)
    pretend(saved_classifier, "99.1.1")
    with pytest.raises(FileFormatError, match="scikit-learn"):
        cs.load(saved_classifier)
    assert "scikit-learn" not in json.loads((saved / MANIFEST).read_text())["versions"], (
        "numbers depend on none"
    )


def test_newer_formats_are_refused_with_advice(saved: Path) -> None:
    forge(saved, lambda manifest: manifest.update(format_version=99))
    with pytest.raises(FileFormatError, match="Upgrade"):
        cs.load(saved)


# --- estimators ---


def test_a_classifier_and_its_parts_must_agree(saved_classifier: Path) -> None:
    kept = {file.name: file.read_bytes() for file in saved_classifier.iterdir()}
    other = {"score": "tv", "fields": {}}
    noise = {
        "type": "AnnotatorSampling",
        "fields": {"delta": 0.06, "region": "exact", "tuning": 0.0},
    }
    for name, value in (
        ("nonconformity", other),
        ("noise", noise),
        ("noise", None),
        ("n_features_in_", 11),
        ("n_features_in_", 10**8),
        ("classes_", {"texts": ["a", "b"]}),
        ("classes_", {"texts": ["a", "b", 3]}),
        ("feature_names_in_", {"objects": ["a"]}),
        ("feature_kinds_in_", ["number"]),
        ("feature_kinds_in_", ["eval"] * 10),
        ("feature_kinds_in_", 3),
        ("predict_set", 3),
        ("estimator_", "x"),
    ):
        restored(saved_classifier, kept)
        forge(
            saved_classifier,
            lambda m, name=name, value=value: m["object"]["state"].update({name: value}),
        )  # type: ignore[misc]
        assert is_refused(saved_classifier), (name, value)


@pytest.mark.parametrize(
    "attack", ["vocabulary", "word", "idf", "coefficients", "nan", "ngrams", "attribute"]
)
def test_forged_estimators_on_the_short_list(attack: str, tmp_path: Path) -> None:
    """A vocabulary beyond the features would have compiled code read memory that is not its own."""
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    clf = cs.ConformalCredalClassifier(model).fit(["good day", "bad day"] * 9, [[3, 1], [1, 3]] * 9)
    path = tmp_path / "c"
    clf.save(path)
    names = {name.rpartition(".")[2]: name for name in np.load(path / ARRAYS)}

    def change(manifest: dict[str, Any]) -> None:
        (state,) = (place for place in leaves(manifest) if place[-2:] == ("state", "vocabulary_"))
        if attack in ("vocabulary", "word"):
            put(manifest, (*state, "dict", attack == "vocabulary", 0), 10**9)
        elif attack == "ngrams":
            put(manifest, (*state[:-1], "ngram_range"), "x")
        elif attack == "attribute":
            put(manifest, (*state[:-1], "transform"), 3)

    assert not is_refused(path)
    forge(path, change)
    if attack == "idf":
        forge_arrays(path, **{names["idf_"]: np.ones(2)})
    elif attack in ("coefficients", "nan"):
        forge_arrays(
            path,
            **{
                names["coef_"]: np.ones((1, 2))
                if attack == "coefficients"
                else np.full((1, 3), np.nan)
            },
        )
    assert is_refused(path)


ENCODER, IMPUTER, COLUMNS = "OneHotEncoder", "SimpleImputer", "ColumnTransformer"
PART = ("transformers_", "list", 0)
#: in the state of which estimator a forger writes, where, and what
FORGED_COLUMNS: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "categories of no column": (ENCODER, ("categories_",), {"list": []}),
    "no category": (ENCODER, ("categories_", "list", 0), {"objects": []}),
    "a category twice": (ENCODER, ("categories_", "list", 0), {"objects": ["mail", "mail"]}),
    "categories in lists": (ENCODER, ("categories_", "list", 0), {"objects": ["mail", ["x"]]}),
    "falling categories": (ENCODER, ("categories_", "list", 0), {"array": "forged"}),
    "a dropped category": (ENCODER, ("drop",), ["mail"]),
    "a dropped something": (ENCODER, ("drop",), "mail"),
    "rare categories": (ENCODER, ("min_frequency",), 1),
    "given categories": (ENCODER, ("categories",), {"list": [{"objects": ["x"]}]}),
    "places": (ENCODER, ("_n_features_outs",), {"list": [10**6]}),
    "an indicator": (IMPUTER, ("indicator_",), "x"),
    "other missing values": (IMPUTER, ("missing_values",), 0),
    "values of other features": (IMPUTER, ("statistics_",), {"array": "forged"}),
    "an unknown column": (COLUMNS, (*PART, 2, "list", 0), "zzz"),
    "a column by a number": (COLUMNS, (*PART, 2, "list", 0), 10**9),
    "a column in a list": (COLUMNS, (*PART, 2, "list", 0), ["a"]),
    "a part that is a text": (COLUMNS, (*PART, 1), "eval"),
    "a part twice": (COLUMNS, (*PART, 0), "says"),
    "a part by a number": (COLUMNS, (*PART, 0), 7),
    "half a part": (COLUMNS, PART, ["numbers"]),
    "no parts": (COLUMNS, ("transformers_",), None),
    "places of columns": (COLUMNS, ("_transformer_to_input_indices",), {"dict": [["a"], [9]]}),
    "too many features": (COLUMNS, ("n_features_in_",), 10**9),
    "a method": (COLUMNS, ("transform",), 3),
    "frames of no kind": (COLUMNS, ("_sklearn_output_config",), {"dict": [["x"], ["y"]]}),
}


@pytest.fixture(scope="module")
def saved_table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": DATA.X[:, 0], "b": DATA.X[:, 1]})
    table["channel"] = np.where(DATA.X[:, 2] > 0, "mail", "phone")
    table["says"] = np.where(DATA.X[:, 3] > 0, "good day", "bad day")
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    parts = [
        ("numbers", numbers, ["a", "b"]),
        ("channel", OneHotEncoder(handle_unknown="ignore"), ["channel"]),
        ("says", TfidfVectorizer(), "says"),
    ]
    folder = tmp_path_factory.mktemp("table") / "c"
    model = make_pipeline(ColumnTransformer(parts), LogisticRegression())
    cs.ConformalCredalClassifier(model).fit(table, DATA.counts).save(folder)
    cs.load(folder)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("fault", FORGED_COLUMNS)
def test_forged_tables(fault: str, saved_table: dict[str, bytes], tmp_path: Path) -> None:
    """Categories or columns beyond their arrays would have compiled code write elsewhere."""
    path = restored(tmp_path / "c", saved_table)
    kind, within, value = FORGED_COLUMNS[fault]
    original = json.loads((path / MANIFEST).read_text())
    place = next(
        p for p in leaves(original) if p[-1:] == ("estimator",) and at(original, p) == kind
    )
    forge(path, lambda manifest: put(manifest, (*place[:-1], "state", *within), value))
    if value == {"array": "forged"}:
        forge_arrays(path, forged=np.array([2.0, 1.0, 3.0]))
    with pytest.raises(FileFormatError) as refused:
        cs.load(path)
    assert "does not belong to it" not in str(refused.value)


def at(node: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        node = node[key]
    return node


def test_functions_do_not_come_from_files(saved_table: dict[str, bytes], tmp_path: Path) -> None:
    """Of a transformer with a function, the name of the function would be a name to call."""
    path = restored(tmp_path / "c", saved_table)
    original = json.loads((path / MANIFEST).read_text())
    place = next(p for p in leaves(original) if p[-5:] == ("transformers_", "list", 1, 1, "state"))
    state = FunctionTransformer().get_params() | {"n_features_in_": 1}
    stored = {"estimator": "FunctionTransformer", "state": state}
    forge(path, lambda manifest: put(manifest, place[:-1], stored))
    cs.load(path)  # without a function it passes its column on
    for name in ("func", "inverse_func", "kw_args"):
        forged = {"estimator": "FunctionTransformer", "state": state | {name: "os.system"}}
        forge(path, lambda manifest, forged=forged: put(manifest, place[:-1], forged))
        with pytest.raises(FileFormatError, match="function"):
            cs.load(path)


def test_types_that_skops_trusts_need_a_word(tmp_path: Path) -> None:
    """Altered neighbours, which compiled code reads without looking,
    are for files that one trusts.
    """
    neighbours = KNeighborsClassifier().fit(DATA.X, DATA.counts.argmax(axis=1))
    with pytest.warns(CredalSetWarning, match="trust"):
        cs.ConformalCredalClassifier(neighbours).conformalize(DATA.X, DATA.counts).save(
            tmp_path / "c"
        )
    with pytest.raises(FileFormatError, match="KNeighborsClassifier"):
        cs.load(tmp_path / "c")


@pytest.mark.parametrize(
    "content",
    [
        node("os.system", "FunctionNode", "os.system"),
        node("canary_module.Thing", "ObjectNode", None),
        node("canary_module.Thing", "TypeNode", None),
        node(
            "operator.call", "OperatorFuncNode", None, attrs=node("builtins.tuple", "TupleNode", [])
        ),
        node("builtins.list", "CachedNode", []),
        node("builtins.list", "NoSuchNode", []),
        node("builtins.list", "ListNode", []),
        {},
    ],
    ids=lambda node: f"{node.get('__class__')} {node.get('__loader__')}",
)
def test_forged_estimators_execute_nothing(
    content: dict[str, Any], saved_forest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "canary_module.py").write_text(
        f"open({str(canary)!r}, 'w').close()\nclass Thing: pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    forge(saved_forest, **{SKOPS: skops_zip(content)})
    assert is_refused(saved_forest)
    assert not canary.exists(), "a module named in a file was imported"
    assert "canary_module" not in sys.modules


def test_plain_types_in_unusual_nodes_are_not_taken_for_plain() -> None:
    assert _look_through(skops_zip(node("builtins.list", "MethodNode", []))) == ["builtins.list"]
    with pytest.raises(FileFormatError):
        _look_through(skops_zip(node("builtins.list", "ListNode", [])))


@pytest.mark.parametrize("data", [b"", b"PK", b"\x80\x04N.", npz(schema=b"{}")])
def test_estimators_that_are_none(data: bytes, saved_forest: Path) -> None:
    forge(saved_forest, **{SKOPS: data})
    assert is_refused(saved_forest)


def test_states_that_contradict_themselves(tmp_path: Path) -> None:
    stream = cs.Stream(calibrate())
    stream.update(DATA.distributions[:3], DATA.counts[:3])
    stream.save(tmp_path / "s")
    for name, value in (("n_missed", 9), ("level", "x"), ("alpha", 2.0), ("random_state", -1)):
        stream.save(tmp_path / "s")
        forge(
            tmp_path / "s",
            lambda m, name=name, value=value: m["object"]["fields"].update({name: value}),
        )  # type: ignore[misc]
        assert is_refused(tmp_path / "s"), name
    sets = calibrate().predict_set(DATA.distributions[:4], 0.2)
    sets.save(tmp_path / "sets")
    forge_arrays(tmp_path / "sets", prediction=np.full((4, 3), 0.5))
    assert is_refused(tmp_path / "sets")
