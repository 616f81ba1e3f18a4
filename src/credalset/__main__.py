"""``python -m credalset`` is the ``credalset`` command."""

from __future__ import annotations

from credalset.cli import run

if __name__ == "__main__":
    run()
