"""The command line: parse, call the library, write. One function per command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the ``credalset`` command, or say which extra it needs."""
    try:
        from credalset.commands import app
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit(
            f"The credalset command needs the package {error.name!r}. Install it with: pip install 'credalset[cli]'"
        )
    except KeyboardInterrupt:
        sys.exit(130)
    app()


if __name__ == "__main__":
    main()
