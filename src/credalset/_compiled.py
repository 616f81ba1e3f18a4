"""Find compiled kernels (extra ``fast``) when a batch is large enough to want them.

Every kernel has a readable NumPy form that gives the same answer; the compiled one is only faster. Numba is imported
the first time a large batch asks for it, never at ``import credalset``.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


@cache
def _load(module: str) -> ModuleType | None:
    return import_module(module) if find_spec("numba") is not None else None


def kernels(module: str, n_elements: int, at_least: int = 1 << 15) -> ModuleType | None:
    """Return the kernel module if the batch has ``at_least`` elements and Numba is installed, else None.

    Parameters
    ----------
    module : str
        Full name of a module of Numba kernels, e.g. ``"credalset.scores.total_variation.kernels"``.
    n_elements, at_least : int
        Size of the batch and the size from which importing Numba pays.
    """
    return _load(module) if n_elements >= at_least else None
