"""How many files of the package a call passes through, and how often a command opens its inputs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import credalset as cs
from credalset.cli.app import main

HOME = str(Path(cs.__file__).parent)


def walk(call: Callable[[], object]) -> set[str]:
    """Return the files of the package whose functions run; called before,
    so that imports are done.
    """
    call()
    passed: set[str] = set()

    def look(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            passed.add(frame.f_code.co_filename.removeprefix(HOME))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
    return passed


def calibrate(files: Path) -> None:
    votes, out = str(files / "votes.csv"), str(files / "made")
    assert main(["calibrate", str(files / "calibration.csv"), votes, "-o", out, "--overwrite"]) == 0


def test_votes_from_a_table_pass_through_few_files() -> None:
    table = pd.DataFrame(
        {"task": list("aabb"), "worker": list("xyxy"), "label": ["no", "yes", "no", "no"]}
    )
    assert len(walk(lambda: cs.Annotations.from_table(table))) <= 5


def test_calibrate_passes_through_few_files(files: Path) -> None:
    assert len(walk(lambda: calibrate(files))) <= 28


def test_calibrate_opens_each_input_once(files: Path) -> None:
    opened: Counter[str] = Counter()
    watched = True

    def look(
        event: str, arguments: tuple[Any, ...]
    ) -> None:  # audit hooks stay for the life of the process
        if watched and event == "open":
            opened[Path(str(arguments[0])).name] += 1

    sys.addaudithook(look)
    calibrate(files)
    watched = False
    assert (opened["votes.csv"], opened["calibration.csv"]) == (1, 1)
