"""Damaged, foreign and hostile files: a clear refusal, the same data, and nothing executed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.exceptions import FileFormatError
from credalset.persistence import bundle as _bundle
from credalset.persistence.bundle import ARRAYS, MANIFEST
from credalset.predictors.saved import ESTIMATOR_FILE

from .saved_objects import DATA, assert_same, forge, save_calibration, save_classifier


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_calibration(tmp_path / "saved")


@pytest.fixture
def saved_classifier(tmp_path: Path) -> Path:
    return save_classifier(tmp_path / "classifier")


# --- damage ---


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is nothing at"):
        cs.load(tmp_path / "missing")
    with pytest.raises(FileFormatError, match=r"no manifest\.json"):
        cs.load(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileFormatError, match=r"no manifest\.json"):
        cs.load(tmp_path / "file")


def assert_harmless(path: Path, expected: Any) -> bool:
    """Load; the answer is the saved object or the proper refusal. Tell whether it was refused."""
    try:
        loaded: Any = cs.load(path)
    except FileFormatError:
        return True
    if isinstance(expected, cs.Calibration):
        assert_same(loaded, expected)
    else:
        assert_same(loaded.calibration_, expected.calibration_)
        assert loaded.predict_proba(DATA.X).tobytes() == expected.predict_proba(DATA.X).tobytes()
    return False


@pytest.mark.parametrize("fixture", ["saved", "saved_classifier"])
def test_truncated_or_missing_files(fixture: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(fixture)
    expected = cs.load(path)
    for file in sorted(path.iterdir()):
        data = file.read_bytes()
        for size in sorted({0, 1, 17, len(data) // 3, len(data) // 2, len(data) - 2, len(data) - 1}):
            file.write_bytes(data[:size])
            assert assert_harmless(path, expected), f"{file.name} cut to {size} of {len(data)} bytes"
        file.write_bytes(data + b"\0")
        assert assert_harmless(path, expected)
        file.unlink()
        assert assert_harmless(path, expected)
        file.write_bytes(data)
    assert not assert_harmless(path, expected)


@pytest.mark.parametrize("fixture", ["saved", "saved_classifier"])
def test_flipped_bytes(fixture: str, request: pytest.FixtureRequest) -> None:
    """Every byte of the manifest and a spread over the other files; only white space may change unnoticed."""
    path = request.getfixturevalue(fixture)
    expected = cs.load(path)
    rng = np.random.default_rng(0)
    for file in sorted(path.iterdir()):
        data = file.read_bytes()
        where = range(len(data)) if file.name == MANIFEST else np.linspace(0, len(data) - 1, 150).astype(int)
        for at, mask in zip(where, rng.integers(1, 256, len(where)), strict=True):
            file.write_bytes(data[:at] + bytes([data[at] ^ int(mask)]) + data[at + 1 :])
            refused = assert_harmless(path, expected)
            assert refused or data[at : at + 1].isspace(), f"{file.name}, byte {at}"
        file.write_bytes(data)


@pytest.mark.parametrize("mask", [1, 2, 4, 8])
def test_digits_that_turn_into_digits(mask: int, saved: Path) -> None:
    expected = cs.load(saved)
    data = (saved / MANIFEST).read_bytes()
    digits = [i for i, byte in enumerate(data) if chr(byte).isdigit() and chr(byte ^ mask).isdigit()]
    assert digits
    for at in digits:
        (saved / MANIFEST).write_bytes(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])
        assert assert_harmless(saved, expected)


# --- hostile files ---


class Canary:
    """Leaves a file behind if anybody unpickles or rebuilds it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.full((len(X), 3), 1 / 3)

    def __getstate__(self) -> dict[str, str]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, str]) -> None:
        Path(state["path"]).write_text("executed")
        self.path = state["path"]


class Bomb:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def npz(compression: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def npy(header: str, payload: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin1")
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + payload


def header(shape: str = "(2,)", descr: str = "'<f8'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


def test_pickled_objects_are_not_read(saved: Path, tmp_path: Path) -> None:
    canary = str(tmp_path / "canary")
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb(canary)] * 3, dtype=object), allow_pickle=True)
    for data in (
        buffer.getvalue(),
        npy(header("(3,)", "'|O'"), pickle.dumps(Bomb(canary))),
        pickle.dumps(Bomb(canary)),
    ):
        forge(saved, **{ARRAYS: npz(scores=data)})
        with pytest.raises(FileFormatError):
            cs.load(saved)
    forge(saved, **{ARRAYS: pickle.dumps(Bomb(canary))})
    with pytest.raises(FileFormatError):
        cs.load(saved)
    assert not os.path.exists(canary)
    pickle.loads(pickle.dumps(Bomb(canary)))
    assert os.path.exists(canary), "the canary does sing when it is unpickled"


ZEROS = npy(header("(10000000,)"), bytes(80_000_000))


def test_archives_that_unpack_to_more_are_refused(saved: Path) -> None:
    bomb = npz(zipfile.ZIP_DEFLATED, scores=ZEROS)
    assert len(bomb) < 100_000
    forge(saved, **{ARRAYS: bomb})
    with pytest.raises(FileFormatError, match="compressed"):
        cs.load(saved)


def test_an_estimator_that_unpacks_to_more_is_refused(saved_classifier: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", " " * 50_000_000)
    forge(saved_classifier, **{ESTIMATOR_FILE: buffer.getvalue()})
    with pytest.raises(FileFormatError, match="compressed"):
        cs.load(saved_classifier)


def test_overlapping_members_are_refused(saved: Path) -> None:
    """Many directory entries that share one member would unpack to many times the size of the archive."""
    data = npz(scores=npy(header("(999,)"), bytes(8 * 999)))
    start, stop = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entry, end = data[start:stop], bytearray(data[stop:])
    end[8:10] = end[10:12] = (50).to_bytes(2, "little")
    end[12:16] = (50 * len(entry)).to_bytes(4, "little")
    forge(saved, **{ARRAYS: data[:start] + entry * 50 + bytes(end)})
    with pytest.raises(FileFormatError, match="inconsistent"):
        cs.load(saved)


@pytest.mark.parametrize(
    "array",
    [
        npy(header("(10**15,)"), bytes(16)),
        npy(header("(1000000000000000,)"), bytes(16)),
        npy(header("(9223372036854775807, 9223372036854775807)"), bytes(16)),
        npy(header("(-2,)"), bytes(16)),
        npy(header("(-1, -2)"), bytes(16)),
        npy(header("(2.0,)"), bytes(16)),
        npy(header("2"), bytes(16)),
        npy(header("(3,)"), bytes(16)),
        npy(header("(1,)"), bytes(16)),
        npy(header(descr="'<U2'"), bytes(16)),
        npy(header(descr="'|V8'"), bytes(16)),
        npy(header(descr="'<M8[s]'"), bytes(16)),
        npy(header(descr="('<f8', (10**12,))"), bytes(16)),
        npy(header(descr="[('a', '<f8')]"), bytes(16)),
        npy(header(descr="'<f4'"), bytes(8)),
        npy(header(descr="'nonsense'"), bytes(16)),
        npy(header("(2, 1)"), bytes(16)),
        npy(header("()"), bytes(8)),
        npy(header("(0,)")),
        npy("(" * 5000),
        npy("{'descr': " + "[" * 3000),
        npy("__import__('os').getcwd()\n"),
        npy("'''"),
        npy("\xff\n"),
        npy(header(), bytes(16), version=b"\x02\x00"),
        npy(header(), bytes(16), version=b"\x07\x00"),
        npy(header(), np.array([np.nan, 1.0]).tobytes()),
        b"",
        b"\x93NUM",
    ],
    ids=lambda data: repr(data[10:60]),
)
def test_forged_arrays_are_refused(array: bytes, saved: Path) -> None:
    forge(saved, **{ARRAYS: npz(scores=array)})
    with pytest.raises(FileFormatError):
        cs.load(saved)


def test_archives_with_odd_members(saved: Path) -> None:
    good = npy(header(), np.array([0.1, 0.2]).tobytes())
    forge(saved, **{ARRAYS: npz(scores=good)})
    assert cs.load(saved).scores.tolist() == [0.1, 0.2]  # type: ignore[union-attr]
    for data in (npz(other=good), npz(), npz(scores=good).replace(b"scores.npy", b"sc\xf8res.npy")):
        forge(saved, **{ARRAYS: data})
        with pytest.raises(FileFormatError):
            cs.load(saved)


@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt",
        "/etc/hostname",
        "..",
        ".",
        "",
        "a/b",
        "a\\b",
        ".hidden",
        "x\0y",
        "a\n",
        "a" * 5000,
        "é",
        MANIFEST,
    ],
    ids=lambda name: repr(name[:20]),
)
def test_names_that_lead_elsewhere(name: str, saved: Path) -> None:
    secret = b"secret"
    (saved.parent / "secret.txt").write_bytes(secret)
    entry = {"bytes": len(secret), "sha256": hashlib.sha256(secret).hexdigest()}
    forge(saved, lambda manifest: manifest["files"].update({name: entry}))
    with pytest.raises(FileFormatError):
        cs.load(saved)


@pytest.mark.parametrize("file", [MANIFEST, ARRAYS])
def test_links_are_not_followed(file: str, saved: Path) -> None:
    (saved / file).rename(saved.parent / "elsewhere")
    (saved / file).symlink_to(saved.parent / "elsewhere")
    with pytest.raises(FileFormatError):
        cs.load(saved)


def test_a_directory_where_a_file_should_be(saved: Path) -> None:
    for file in (ARRAYS, MANIFEST):
        (saved / file).unlink()
        (saved / file).mkdir()
        with pytest.raises(FileFormatError):
            cs.load(saved)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"42",
        b'"credalset"',
        b"{}",
        b"\xff\xfe{}",
        b'{"format": "credalset"',
        b'{"format": "other", "format_version": 1}',
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"format": "credalset", "values": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"format": "credalset", "format_version": ' + b"9" * 5000 + b"}",
        b'{"format": "credalset", "format_version": 1, "values": {"x": "\\ud800"}}',
    ],
    ids=lambda text: repr(text[:40]),
)
def test_manifests_that_are_none(text: bytes, saved: Path) -> None:
    (saved / MANIFEST).write_bytes(text)
    with pytest.raises(FileFormatError, match=r"manifest\.json"):
        cs.load(saved)


def test_an_oversized_manifest_is_not_parsed(saved: Path) -> None:
    with (saved / MANIFEST).open("r+b") as stream:
        stream.truncate(_bundle.MAX_MANIFEST_BYTES + 1)
    with pytest.raises(FileFormatError, match="larger than"):
        cs.load(saved)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_json_does_not_know(number: str, saved: Path) -> None:
    text = (saved / MANIFEST).read_text()
    assert '"base": 2.0' in text
    (saved / MANIFEST).write_text(text.replace('"base": 2.0', f'"base": {number}'))
    with pytest.raises(FileFormatError, match="not a finite number"):
        cs.load(saved)


def test_newer_versions_are_refused_with_advice(saved: Path) -> None:
    forge(saved, lambda manifest: manifest.update(format_version=2))
    with pytest.raises(FileFormatError, match=r"has format version 2, but this credalset .* Upgrade"):
        cs.load(saved)


WRONG = [None, True, 0, -1, 1.5, "x", "", [], ["x"], {}, {"x": {}}, 10**400, [[]] * 3, [None, "a", "b"]]
FIELDS = ["format", "format_version", "credalset_version", "kind", "values", "files"]
VALUES = ["score", "n_classes", "classes", "mixtures", "rule"]
CLASSIFIER_VALUES = ["score", "noise", "calibration", "classes", "classes_dtype", "n_features_in"]
LEGAL: dict[str, list[Any]] = {
    "credalset_version": ["x", ""],  # told to the reader, never used
    "classes": [None],
    "mixtures": [None],
    "base": [1.5],
}
CLASSIFIER_LEGAL = {"calibration": [None]}
CALIBRATION_KEYS = [
    *[(name,) for name in FIELDS],
    *[("values", name) for name in VALUES],
    *[("values", "score", name) for name in ("name", "params")],
    ("values", "score", "params", "base"),
    *[("files", ARRAYS, name) for name in ("bytes", "sha256")],
    ("files", ARRAYS),
]


def is_in(value: Any, values: list[Any]) -> bool:
    return any(value == other and type(value) is type(other) for other in values)


def wrong_values(keys: list[tuple[str, ...]], legal: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(path, value, id=f"{'.'.join(path)}={value!r:.20}")
        for path in keys
        for value in WRONG
        if not is_in(value, legal.get(path[-1], []))
    ]


def replace(manifest: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    for key in keys[:-1]:
        manifest = manifest[key]
    assert keys[-1] in manifest
    manifest[keys[-1]] = value


@pytest.mark.parametrize(("keys", "wrong"), wrong_values(CALIBRATION_KEYS, LEGAL))
def test_wrong_values_in_the_manifest(keys: tuple[str, ...], wrong: Any, saved: Path) -> None:
    forge(saved, lambda manifest: replace(manifest, keys, wrong))
    with pytest.raises(FileFormatError):
        cs.load(saved)


@pytest.mark.parametrize(
    ("keys", "wrong"), wrong_values([("values", name) for name in CLASSIFIER_VALUES], CLASSIFIER_LEGAL)
)
def test_wrong_values_in_the_manifest_of_a_classifier(
    keys: tuple[str, ...], wrong: Any, saved_classifier: Path
) -> None:
    forge(saved_classifier, lambda manifest: replace(manifest, keys, wrong))
    with pytest.raises(FileFormatError):
        cs.load(saved_classifier)


@pytest.mark.parametrize("wrong", ["x", None, 3, ["a"]])
def test_a_wrong_name_of_texts(wrong: Any, saved_classifier: Path) -> None:
    """Numbers are no texts, and a name is a text."""
    forge(saved_classifier, lambda manifest: manifest["values"].update(text_name_in=wrong))
    with pytest.raises(FileFormatError, match="name of the texts"):
        cs.load(saved_classifier)


@pytest.mark.parametrize("wrong", ["x", 3, ["a"], ["a", 1], [None, None], {}])
def test_wrong_feature_names(wrong: Any, saved_classifier: Path) -> None:
    forge(saved_classifier, lambda manifest: manifest["values"].update(feature_names_in=wrong))
    with pytest.raises(FileFormatError, match="feature names"):
        cs.load(saved_classifier)


@pytest.mark.parametrize(
    "score",
    [
        {"name": "np", "params": {}},
        {"name": "kl", "params": {"base": 1.0}},
        {"name": "kl", "params": {"base": "2"}},
        {"name": "kl", "params": {"bass": 2.0}},
        {"name": "kl", "params": {"self": 2.0}},
        {"name": "kl", "params": {}},
        {"name": "kl", "params": {"base": 10**400}},
        {"name": "kl", "params": {"base": 2.0}, "more": 1},
        {"name": "ws", "params": {"positions": "123"}},
        {"name": "ws", "params": {"positions": [2, 1, 0]}},
        {"name": "ws", "params": {"positions": ["0", "1", "2"]}},
        {"name": "ws", "params": {"positions": [0.0, 1.0]}},
        {"name": "ws", "params": {"positions": {"name": "tv", "params": {}}}},
        {"name": "normalized", "params": {"score": "tv", "offset": 0.0}},
        {"name": "normalized", "params": {"score": {"name": "so", "params": {}}, "offset": 0.0}},
        {"name": "normalized", "params": {"score": {"name": "evil", "params": {}}, "offset": 0.0}},
        {"name": "normalized", "params": {"score": {"name": "tv", "params": {}}, "offset": -1.0}},
    ],
    ids=repr,
)
def test_scores_that_save_would_not_write(score: dict[str, Any], saved: Path) -> None:
    forge(saved, lambda manifest: manifest["values"].update(score=score))
    with pytest.raises(FileFormatError):
        cs.load(saved)


def test_deeply_nested_scores(saved: Path) -> None:
    def nest(manifest: dict[str, Any]) -> None:
        score: dict[str, Any] = {"name": "tv", "params": {}}
        for _ in range(200):
            score = {"name": "normalized", "params": {"score": score, "offset": 0.0}}
        manifest["values"]["score"] = score

    forge(saved, nest)
    with pytest.raises(FileFormatError):
        cs.load(saved)


def test_a_calibration_and_its_classifier_must_agree(saved_classifier: Path) -> None:
    forge(saved_classifier, lambda manifest: manifest["values"].update(classes=[0, 1]))
    with pytest.raises(FileFormatError, match="differ in classes"):
        cs.load(saved_classifier)
    forge(saved_classifier, lambda manifest: manifest["values"].update(classes=[0, 1, 300], classes_dtype="int8"))
    with pytest.raises(FileFormatError, match="not of their type"):
        cs.load(saved_classifier)


def test_names_that_are_missing_repeated_or_different(saved_classifier: Path) -> None:
    original = (saved_classifier / MANIFEST).read_bytes()

    def drop(values: dict[str, Any]) -> None:
        values.pop("classes")
        values.pop("classes_dtype")

    for change, message in (
        (drop, "does not say which classes"),
        (lambda values: values.update(classes=[0, 1, 1]), "class names: one comes twice"),
        (lambda values: values["calibration"].update(classes=[0, 1, 1]), "class names: one comes twice"),
        (lambda values: values["calibration"].update(classes=[0, 2, 1]), "differ in classes"),
        (lambda values: values["calibration"].update(classes=["a", "b", "c"]), "differ in classes"),
        (lambda values: values.update(classes=["a", "b", "c"], classes_dtype="str"), "differ in classes"),
        (lambda values: values.update(n_features_in=11), "differ in the number of features"),
    ):
        (saved_classifier / MANIFEST).write_bytes(original)
        forge(saved_classifier, lambda manifest, change=change: change(manifest["values"]))  # type: ignore[misc]
        with pytest.raises(FileFormatError, match=message):
            cs.load(saved_classifier)


def test_a_classifier_and_its_calibration_must_have_one_noise(tmp_path: Path) -> None:
    none = {"name": "none", "params": {}}
    noise = {"name": cs.AnnotatorSampling.name, "params": cs.AnnotatorSampling(0.05).params()}
    other = {"name": cs.AnnotatorSampling.name, "params": cs.AnnotatorSampling(0.06).params()}
    for own, forged in ((None, noise), (cs.AnnotatorSampling(0.05), none), (cs.AnnotatorSampling(0.05), other)):
        classifier = cs.ConformalCredalClassifier(LogisticRegression(), noise=own).fit(DATA.X[:45], DATA.counts[:45])
        classifier.conformalize(DATA.X[45:], DATA.counts[45:]).save(tmp_path / "c")
        assert cs.load(tmp_path / "c").noise == own  # type: ignore[union-attr]
        forge(tmp_path / "c", lambda manifest, forged=forged: manifest["values"].update(noise=forged))  # type: ignore[misc]
        with pytest.raises(FileFormatError, match=r"contradicts itself: noise is .*was made with"):
            cs.load(tmp_path / "c")


def test_a_classifier_and_its_calibration_must_have_one_score(saved_classifier: Path) -> None:
    other = "tv" if cs.load(saved_classifier).nonconformity.name != "tv" else "kl"
    params = {"base": 2.0} if other == "kl" else {}
    forge(saved_classifier, lambda manifest: manifest["values"].update(score={"name": other, "params": params}))
    with pytest.raises(FileFormatError, match=r"contradicts itself: nonconformity is .*was made with"):
        cs.load(saved_classifier)


def test_a_classifier_without_its_estimator(saved_classifier: Path) -> None:
    forge(saved_classifier, lambda manifest: manifest["files"].pop(ESTIMATOR_FILE))
    with pytest.raises(FileFormatError, match="no saved estimator"):
        cs.load(saved_classifier)


# --- hostile estimators ---


def test_untrusted_types_are_named_and_not_built(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    cs.ConformalCredalClassifier(Canary(str(canary))).conformalize(DATA.X, DATA.counts).save(tmp_path / "c")
    name = f"{Canary.__module__}.Canary"
    with pytest.raises(FileFormatError, match=rf"not trusted: {name}\. .*trusted="):
        cs.load(tmp_path / "c")
    assert not canary.exists()
    loaded: Any = cs.load(tmp_path / "c", trusted=[name])
    assert canary.exists(), "the canary does sing when its type is trusted"
    assert loaded.predict_proba(DATA.X).shape == (90, 3)


def skops_file(node: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("schema.json", json.dumps({"protocol": 2, "_skops_version": "0.16.0", "__id__": 1, **node}))
    return buffer.getvalue()


TUPLE = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": [], "__id__": 2}


@pytest.mark.parametrize(
    ("type_name", "node"),
    [
        ("os.system", {"__loader__": "FunctionNode", "content": "os.system"}),
        ("canary_module.Thing", {"__loader__": "ObjectNode", "content": None}),
        ("canary_module.Thing", {"__loader__": "TypeNode", "content": None}),
        ("operator.call", {"__loader__": "OperatorFuncNode", "attrs": TUPLE}),
        ("builtins.eval", {"__loader__": "FunctionNode", "content": "builtins.eval"}),
        ("builtins.nonsense", {"__loader__": "NoSuchNode", "content": []}),
        ("builtins.list", {"__loader__": "ListNode", "content": []}),
        ("builtins.list", {"__loader__": "ListNode"}),
    ],
    ids=str,
)
def test_forged_estimators_execute_nothing(
    type_name: str, node: dict[str, Any], saved_classifier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "canary_module.py").write_text(f"open({str(canary)!r}, 'w').close()\nclass Thing: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    module, name = type_name.rsplit(".", 1)
    forge(saved_classifier, **{ESTIMATOR_FILE: skops_file({"__module__": module, "__class__": name, **node})})
    with pytest.raises(FileFormatError):
        cs.load(saved_classifier)
    assert not canary.exists(), "a module named in a file was imported"
    assert "canary_module" not in sys.modules


@pytest.mark.parametrize("data", [b"", b"PK", b"\x80\x04N.", skops_file({}), npz(schema=b"{}")])
def test_estimators_that_are_none(data: bytes, saved_classifier: Path) -> None:
    forge(saved_classifier, **{ESTIMATOR_FILE: data})
    with pytest.raises(FileFormatError):
        cs.load(saved_classifier)
