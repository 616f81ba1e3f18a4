"""``python -m credalset`` is the ``credalset`` command."""

from __future__ import annotations

from credalset.cli import main

if __name__ == "__main__":
    main()
