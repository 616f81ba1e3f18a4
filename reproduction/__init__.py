"""The paper's experiments, and those of its later version: ``python -m reproduction all``.

`synthetic`, `chaosnli` and `cifar10h` each say which batches of runs there are and what is to be
trained and measured in each; `runs` does it, a pure function from options to result rows. `runner`
works through the batches, `store` keeps what is finished, `summary` compares cells of the grid with
theory, `report` and `figures` write tables and pictures.
"""

from __future__ import annotations

NAMES = ("synthetic", "chaosnli", "cifar10h")

__all__ = ["NAMES"]
