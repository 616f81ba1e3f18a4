"""Files of a small job, and a way to run commands on them in this process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="commands need the extra 'cli'")
pytest.importorskip("typer", reason="commands need the extra 'cli'")
pytest.importorskip("pyarrow", reason="commands need the extra 'cli'")

import credalset as cs  # noqa: E402
from credalset.cli.app import main  # noqa: E402

CLASSES = ["no", "perhaps", "yes"]
N = 160


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder of its own and expect an exit code."""
    monkeypatch.chdir(tmp_path)

    def command(*words: Any, code: int = 0) -> Done:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found = main([str(word) for word in words])
        done = Done(found, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]
        assert done.code == code, done.out + done.err
        assert "Traceback" not in done.err
        return done

    return command


def long_table(items: Any, counts: np.ndarray) -> Any:
    """Votes as rows of task, worker, label."""
    rows = [
        (item, f"w{j}", CLASSES[k])
        for item, row in zip(items, counts.astype(int), strict=True)
        for j, k in enumerate(np.repeat(np.arange(len(CLASSES)), row))
    ]
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


@pytest.fixture(scope="session")
def data() -> Any:
    return cs.datasets.make_synthetic(2 * N, n_votes=30, random_state=0)


@pytest.fixture(scope="session")
def items() -> list[str]:
    return [f"t{i:03d}" for i in range(2 * N)]


@pytest.fixture(scope="session")
def predictions(data: Any, items: list[str]) -> Any:
    """Predictions with a group and a text for each item,
    the classes in another order than that of the votes.
    """
    frame = pd.DataFrame(0.9 * data.distributions + 0.1 / 3, columns=CLASSES)[
        ["yes", "no", "perhaps"]
    ]
    frame.insert(0, "task", items)
    return frame.assign(
        topic=np.where(np.arange(2 * N) % 3, "a", "b"), says=[f"text {i}" for i in range(2 * N)]
    )


@pytest.fixture
def files(run: Run, data: Any, items: list[str], predictions: Any) -> Path:
    """Predictions for calibration and test, votes, features and texts, in the current folder."""
    folder = Path.cwd()
    predictions.iloc[:N].to_csv("calibration.csv", index=False)
    predictions.iloc[N:].to_csv("test.csv", index=False)
    long_table(items, data.counts).to_csv("votes.csv", index=False)
    features = pd.DataFrame(data.X, columns=[f"x{j}" for j in range(data.X.shape[1])])
    features.insert(0, "task", items)
    features.iloc[:N].to_csv("features.csv", index=False)
    features.iloc[N:].to_csv("new-features.csv", index=False)
    return folder
