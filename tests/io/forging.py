"""What the tests of faults share: objects to save, a forger who knows the format,
a command to interrupt.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.io.folders import MANIFEST, manifest_digest

DATA = cs.datasets.make_synthetic(90, n_classes=3, random_state=0)


def calibrate(score: Any = "kl", **options: Any) -> cs.Calibration:
    return cs.conformalize(DATA.distributions[:40], DATA.counts[:40], score, **options)


def classify(estimator: Any = None, score: Any = "kl", **options: Any) -> Any:
    classifier = cs.ConformalCredalClassifier(
        LogisticRegression() if estimator is None else estimator, score, **options
    )
    return classifier.fit(DATA.X[:45], DATA.counts[:45]).conformalize(DATA.X[45:], DATA.counts[45:])


def assert_same(loaded: Any, saved: Any) -> None:
    assert type(loaded) is type(saved)
    assert loaded.score == saved.score
    assert loaded.scores.tobytes() == saved.scores.tobytes()
    assert repr((loaded.n_classes, loaded.classes)) == repr((saved.n_classes, saved.classes))


def forge(
    path: Path, change: Callable[[dict[str, Any]], Any] | None = None, **files: bytes
) -> None:
    """Rewrite a saved object as someone who knows the format would:
    with the right sizes and checksums.
    """
    manifest = json.loads((path / MANIFEST).read_text())
    for name, data in files.items():
        (path / name).write_bytes(data)
        manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if change is not None:
        change(manifest)
    manifest["sha256"] = manifest_digest(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest, separators=(",", ":")))


def forge_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Replace arrays of a saved object by others."""
    stored = dict(np.load(path / "arrays.npz"))
    buffer = io.BytesIO()
    np.savez(buffer, **{**stored, **arrays})  # type: ignore[arg-type]
    forge(path, **{"arrays.npz": buffer.getvalue()})


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


def leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in a JSON value, containers included."""
    inside = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    return [path, *(leaf for key, value in inside for leaf in leaves(value, (*path, key)))]


def put(node: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value


#: runs the command, and says when it has begun: until then Ctrl-C ends Python before any code of
#: ours
BEGIN = """
import signal
from credalset.cli import run
begin = signal.signal
def tell(*args):
    begin(*args)
    signal.signal = begin
    print("begun", flush=True)
signal.signal = tell
run()
"""
