"""Examples run as they are, script and notebook, and tell what their words say."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("notebook_tool", ROOT / "tools" / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_notebook_is_the_script(script: Path) -> None:
    made = tool().notebook(script.read_text(encoding="utf-8"))
    assert script.with_suffix(".ipynb").read_text(encoding="utf-8") == made, (
        "run: python tools/notebook.py examples/*.py"
    )


def run_notebook(path: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)


def test_from_raw_texts_to_a_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CREDALSET_DATA", raising=False)
    run_notebook(ROOT / "examples" / "messages.ipynb")
    printed = capsys.readouterr().out
    assert printed.count(" valid ") == 3
    answered = re.findall(r": (\d+) answered by machine, (\d+) of them", printed)
    by_sets, by_prediction = [int(wrong) / int(number) for number, wrong in answered]
    assert by_sets <= 0.1, "a set that is certain is wrong at most as often as it does not cover"
    assert by_sets < by_prediction
    assert (tmp_path / "messages.html").stat().st_size > 10_000


@pytest.mark.data
@pytest.mark.slow
def test_the_same_on_real_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import os

    if not os.environ.get("CREDALSET_DATA"):
        pytest.skip("CREDALSET_DATA is not set")
    monkeypatch.chdir(tmp_path)
    run_notebook(ROOT / "examples" / "messages.ipynb")
    assert (
        "1514 items, 3 classes: 'neutral', 'entailment', 'contradiction'" in capsys.readouterr().out
    )
