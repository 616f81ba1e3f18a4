"""Turn the scripts in examples/ into notebooks: ``python tools/notebook.py examples/messages.py``.

A cell starts with ``# %%``, one of text with ``# %% [markdown]``. The same script gives the same
notebook, without outputs, so that the two can be compared, and a test does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

MARK = "# %%"


def cells(script: str) -> list[dict[str, Any]]:
    """Cut a script into the cells of a notebook."""
    found = []
    for number, part in enumerate(script.split(MARK)[1:]):
        heading, _, body = part.partition("\n")
        lines = body.strip("\n").split("\n")
        is_text = "[markdown]" in heading
        if is_text:
            lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
        source = [f"{line}\n" for line in lines[:-1]] + lines[-1:]
        cell = {
            "cell_type": "markdown" if is_text else "code",
            "id": f"cell-{number}",
            "metadata": {},
            "source": source,
        }
        found.append(cell if is_text else cell | {"execution_count": None, "outputs": []})
    return found


def notebook(script: str) -> str:
    """Return the notebook of a script, as text."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    content = {"cells": cells(script), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.with_suffix(".ipynb").write_text(
            notebook(path.read_text(encoding="utf-8")), encoding="utf-8"
        )
