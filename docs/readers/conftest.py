"""Examples on these pages read the files they show."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _beside_the_files(monkeypatch):
    monkeypatch.chdir(Path(__file__).parent / "files")
