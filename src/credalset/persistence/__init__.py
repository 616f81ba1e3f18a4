"""Save and load calibrations, classifiers and networks. No pickle: nothing that is loaded can run code."""

from __future__ import annotations

from credalset.persistence.files import load

__all__ = ["load"]
