"""Find compiled kernels (extra ``fast``) when a batch is large enough to want them.

Only scores have them: checking and scoring in one pass saves reading large arrays again and again, and gives the same
bits as NumPy. Numba is imported the first time such a batch comes, never at ``import credalset``; the first one on a
machine waits for the compiler, and is told so.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

logger = logging.getLogger("credalset")


def kernels(module: str, n_elements: int, at_least: int) -> ModuleType | None:
    """Return the kernel module if the batch is large enough and Numba is installed, else None.

    Parameters
    ----------
    module : str
        Full name of a module of Numba kernels, e.g. ``"credalset.scores.base_kernels"``.
    n_elements, at_least : int
        Size of the batch, and the size from which compiling pays.
    """
    return _load(module) if n_elements >= at_least else None


@cache
def _load(module: str) -> ModuleType | None:
    if find_spec("numba") is None:
        return None
    if not _is_compiled(module):
        logger.warning("compiling %s, once per machine: this takes a few seconds.", module)
    return import_module(module)


def _is_compiled(module: str) -> bool:
    """Tell whether Numba keeps compiled functions of a module, beside it or in the folder that the user chose."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return False
    source, chosen = Path(spec.origin), os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(chosen) if chosen else source.parent / "__pycache__"
    return any(folder.glob(f"**/{source.stem}.*.nbi"))
