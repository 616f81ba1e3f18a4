"""Saved objects say what they need: versions in the manifest, and a word at save where load will refuse."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.exceptions import CredalSetWarning, FileFormatError
from credalset.persistence import versions

from .saved_objects import DATA, classify, forge


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    classify().save(tmp_path / "model")
    return tmp_path / "model"


def pretend(path: Path, **changed: str) -> None:
    """Have an object say that it was saved under other versions."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["versions"] |= {name.replace("_", "-"): number for name, number in changed.items()}

    forge(path, change)


def messages(path: Path) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CredalSetWarning)
        cs.load(path)
    return [str(one.message) for one in caught]


# --- versions ---


def test_the_manifest_records_versions(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    assert manifest["versions"]["python"] == platform.python_version()
    assert manifest["versions"]["numpy"] == np.__version__
    assert manifest["versions"]["scikit-learn"] == version("scikit-learn")
    assert manifest["versions"]["skops"] == version("skops")
    assert manifest["credalset_version"] == cs.__version__


def test_a_package_that_is_not_installed_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "RECORDED", ("numpy", "no-such-package"))
    assert set(versions.installed_versions()) == {"python", "numpy"}


def test_the_same_versions_load_without_a_word(saved: Path) -> None:
    assert messages(saved) == []
    pretend(saved, scikit_learn=".".join([*version("scikit-learn").split(".")[:2], "99"]), python="3.99.1")
    assert messages(saved) == [], "patches, and Python itself, change nothing"


def test_estimators_do_not_go_back_in_time(saved: Path) -> None:
    pretend(saved, scikit_learn="99.1.1")
    with pytest.raises(FileFormatError, match=r"was saved with scikit-learn 99\.1\.1.*older.*Install scikit-learn>=99"):
        cs.load(saved)


def test_other_versions_get_a_warning(saved: Path) -> None:
    pretend(saved, scikit_learn="1.2.0", skops="0.1.0")
    (message,) = messages(saved)
    assert f"was saved with scikit-learn 1.2.0 (here {version('scikit-learn')}), skops 0.1.0" in message
    assert "compare a few predictions" in message


def test_a_failure_names_the_versions(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever scikit-learn trips over, an AttributeError say, becomes a sentence with both versions."""
    import skops.io

    def trip(*_: Any, **__: Any) -> Any:
        raise AttributeError("'LogisticRegression' object has no attribute 'multi_class'")

    pretend(saved, scikit_learn="1.2.0")
    monkeypatch.setattr(skops.io, "loads", trip)
    with pytest.raises(FileFormatError, match=r"no attribute .* It was saved with scikit-learn 1\.2\.0 \(here"):
        cs.load(saved)


def test_numbers_alone_depend_on_no_version(tmp_path: Path) -> None:
    cs.conformalize(DATA.distributions, DATA.counts).save(tmp_path / "c")
    pretend(tmp_path / "c", scikit_learn="99.0.0", numpy="99.0.0", torch="99.0.0")
    assert messages(tmp_path / "c") == []


def test_objects_from_before_versions_were_recorded(saved: Path) -> None:
    forge(saved, lambda manifest: manifest.pop("versions"))
    assert messages(saved) == []


@pytest.mark.parametrize("value", [[], "1.2", {"numpy": 2}])
def test_versions_of_the_wrong_type(saved: Path, value: Any) -> None:
    forge(saved, lambda manifest: manifest.update(versions=value))
    with pytest.raises(FileFormatError, match="versions are missing or of the wrong type"):
        cs.load(saved)


@pytest.mark.parametrize(("text", "numbers"), [("1.9.1", (1, 9)), ("2.3.0+cpu", (2, 3)), ("dev", None), (None, None)])
def test_reading_versions(text: str | None, numbers: tuple[int, ...] | None) -> None:
    assert versions._minor(text) == numbers


# --- a word at save ---


@pytest.mark.parametrize("estimator", [RandomForestClassifier(3), HistGradientBoostingClassifier(max_iter=2)], ids=str)
def test_save_shows_the_call_that_will_load(estimator: Any, tmp_path: Path) -> None:
    classifier = classify(estimator)
    with pytest.warns(CredalSetWarning, match=r"types that load does not trust by itself") as caught:
        classifier.save(tmp_path / "model")
    call = str(caught[0].message).split("Load it with credalset.load(path, trusted=")[1].split(")")[0]
    with pytest.raises(FileFormatError, match=r"not trusted: .*trusted="):
        cs.load(tmp_path / "model")
    loaded: Any = cs.load(tmp_path / "model", trusted=json.loads(call.replace("'", '"')))
    assert np.array_equal(loaded.predict_proba(DATA.X), classifier.predict_proba(DATA.X))


def test_folds_are_warned_of_once(tmp_path: Path) -> None:
    classifier = cs.ConformalCredalClassifier(RandomForestClassifier(3))
    classifier.cross_conformalize(DATA.X, DATA.counts, 3, random_state=0)
    with pytest.warns(CredalSetWarning, match=r"sklearn\.tree\._tree\.Tree") as caught:
        classifier.save(tmp_path / "model")
    assert len(caught) == 1


def test_what_load_trusts_is_saved_without_a_word(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classify(LogisticRegression()).save(tmp_path / "model")
        assert isinstance(cs.load(tmp_path / "model"), cs.ConformalCredalClassifier)


def test_a_function_of_the_program_itself(tmp_path: Path) -> None:
    program = f"""
import credalset as cs
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
def split(text): return text.split()
X, Y = ["good day", "bad day"] * 20, [[3, 1], [1, 3]] * 20
model = make_pipeline(CountVectorizer(tokenizer=split, token_pattern=None), LogisticRegression())
cs.ConformalCredalClassifier(model).fit(X, Y).conformalize(X, Y).save({str(tmp_path / "model")!r})
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert "trusted=['__main__.split']" in run.stderr
    assert "must then be defined in the program that loads it" in run.stderr
