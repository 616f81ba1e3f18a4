"""Code on README and the home page runs as it stands; every public name has an API entry; word counts hold."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
OUTPUT = "# →"
WIDEST = 90  # characters of a line of code that a page of ordinary width shows without scrolling
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md"]


def run(code: str, names: dict[str, Any]) -> None:
    """Run statements one by one and compare what they print with the comments below them."""
    lines = code.split("\n")
    statements = ast.parse(code).body
    ends = [statement.lineno - 1 for statement in statements[1:]] + [len(lines)]
    for statement, end in zip(statements, ends, strict=True):
        below = [line.removeprefix(OUTPUT) for line in lines[statement.end_lineno : end] if line.startswith(OUTPUT)]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module([statement], []), "page", "exec"), names)
        expected, flags = "\n".join([*below, ""]) if below else "", doctest.NORMALIZE_WHITESPACE
        assert doctest.OutputChecker().check_output(expected, printed.getvalue(), flags), (
            f"{ast.unparse(statement)}\nprints\n{printed.getvalue()}"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_code_to_copy(page: Path) -> None:
    names: dict[str, Any] = {}
    found = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    for block in found:
        assert ">>>" not in block, "prompts cannot be copied"
        assert max(map(len, block.split("\n"))) <= WIDEST, "lines are cut off"
        run(block, names)


def test_wrong_output_is_seen() -> None:
    with pytest.raises(AssertionError, match="prints"):
        run("print(1 + 1)\n# → 3\n", {})
    with pytest.raises(AssertionError, match="prints"):
        run("x = 2\nprint(x)\n", {})


def test_word_counts() -> None:
    def words(path: Path) -> int:
        return len(path.read_text(encoding="utf-8").split())

    assert words(ROOT / "README.md") <= 900
    assert sum(map(words, (ROOT / "docs").glob("*.md"))) <= 24_000


@pytest.mark.parametrize("module", ["", ".scores", ".predictors", ".metrics", ".labels", ".plotting", ".distributed"])
def test_every_public_name_is_on_an_api_page(module: str) -> None:
    """An entry of its own, or one for the module that defines it."""
    if module in (".predictors", ".plotting"):
        pytest.importorskip({".predictors": "torch", ".plotting": "matplotlib"}[module])
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    entries = set(re.findall(r"^::: (\S+)", pages, re.MULTILINE))
    named = {entry.rpartition(".")[2] for entry in entries}
    home = importlib.import_module(f"credalset{module}")
    objects = {name: getattr(home, name) for name in home.__all__}
    missing = [n for n, it in objects.items() if callable(it) and n not in named and it.__module__ not in entries]
    assert not missing
