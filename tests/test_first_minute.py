"""What a newcomer copies from README and the home page runs as it stands, and prints what is written under it."""

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
OUTPUT = "# → "
WIDEST = 84  # characters of a line of code that a page of ordinary width shows without scrolling


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


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


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=lambda path: path.name)
def test_code_to_copy(page: Path) -> None:
    names: dict[str, Any] = {}
    found = blocks(page)
    assert found
    for block in found:
        assert ">>>" not in block, "prompts cannot be copied"
        assert max(map(len, block.split("\n"))) <= WIDEST, "comments are cut off"
        if "torch" in block or "Network" in block:
            pytest.importorskip("torch")
        if "pandas" in block:
            pytest.importorskip("pandas")
        run(block, names)


def test_wrong_output_is_seen() -> None:
    with pytest.raises(AssertionError, match="prints"):
        run("print(1 + 1)\n# → 3\n", {})
    with pytest.raises(AssertionError, match="prints"):
        run("x = 2\nprint(x)\n", {})


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=lambda path: path.name)
def test_one_line_to_install_two_to_set_up_a_picture_and_the_paper(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shell = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert [line.split()[:2] for line in shell] == [["pip", "install"], ["make", "demo"], ["make", "test"]]
    assert "img/hero.svg" in text.split("```")[0]
    assert "https://arxiv.org/abs/2402.10723" in text


PUBLIC = ("", ".scores", ".predictors", ".metrics", ".labels", ".plotting", ".distributed", ".planning", ".annotations")


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_has_its_place_in_the_api_pages(module: str) -> None:
    """An entry of its own, or one for the module that defines it."""
    if module in (".predictors", ".plotting"):
        pytest.importorskip({".predictors": "torch", ".plotting": "matplotlib"}[module])
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    entries = set(re.findall(r"^::: (\S+)", pages, re.MULTILINE))
    home = importlib.import_module(f"credalset{module}")
    objects = {name: getattr(home, name) for name in home.__all__}
    documented = {entry.rpartition(".")[2] for entry in entries}
    missing = [
        name
        for name, thing in objects.items()
        if callable(thing) and name not in documented and thing.__module__ not in entries
    ]
    assert not missing
