"""On the command line, too, a column is the class that its header names."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Run

TURNED = "perhaps,yes,no"  # the tables have yes, no, perhaps


def calibrate(run: Run) -> None:
    run("calibrate", "calibration.csv", "votes.csv", "-o", "calibrated", "--score", "tv")


def predicted(run: Run, *words: str) -> pd.DataFrame:
    run("predict", "calibrated", "test.csv", "-o", "sets.csv", "--overwrite", *words)
    return pd.read_csv("sets.csv")


def test_columns_in_another_order_are_selected_and_not_renamed(files: Path, run: Run) -> None:
    """The first of ``--columns`` was taken for the first class, and ``check`` stayed green."""
    calibrate(run)
    expected = predicted(run)
    pd.testing.assert_frame_equal(predicted(run, "--columns", TURNED), expected)
    table = pd.read_csv("test.csv")
    table[["task", *TURNED.split(",")]].to_csv("test.csv", index=False)
    pd.testing.assert_frame_equal(predicted(run), expected)
    rows = [
        json.loads(run("check", "calibrated", "test.csv", "votes.csv", "--json", *words).out)[
            "rows"
        ]
        for words in ((), ("--columns", TURNED))
    ]
    assert rows[0] == rows[1]


def test_a_header_that_names_no_class_says_which_it_is(files: Path, run: Run) -> None:
    calibrate(run)
    expected = predicted(run)
    table = pd.read_csv("test.csv").rename(columns={"perhaps": "p2"})
    table.to_csv("test.csv", index=False)
    words = ("predict", "calibrated", "test.csv", "-o", "other.csv", "--columns")
    assert "p2=class" in run(*words, "yes,p2,no", code=2).err
    pd.testing.assert_frame_equal(predicted(run, "--columns", "yes,p2=perhaps,no"), expected)


@pytest.mark.parametrize("columns", ["yes,no", "yes,no,perhaps,yes"])
def test_every_class_has_one_column(columns: str, files: Path, run: Run) -> None:
    calibrate(run)
    done = run("predict", "calibrated", "test.csv", "-o", "x.csv", "--columns", columns, code=2)
    assert "columns must name one column per class" in done.err
