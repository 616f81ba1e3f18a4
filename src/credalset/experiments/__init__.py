"""The paper's experiments, and those of its later version, as lists of batches whose results are kept (`reproduce`).

`synthetic`, `chaosnli` and `cifar10h` each say which batches of runs there are and how a batch is computed, a pure
function from its options to result rows. `runner` works through them, `store` keeps what is finished, `summary`
compares cells of the grid with theory, `report` and `figures` write tables and pictures.
"""

from __future__ import annotations

NAMES = ("synthetic", "chaosnli", "cifar10h")

__all__ = ["NAMES"]
