"""The command line: parse, call the library, print."""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130


def run() -> None:
    """Run the ``credalset`` program and leave with its exit code."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))  # modules are being imported: nothing is written yet
    try:
        from credalset.cli.app import main
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit(f"The credalset command needs the package {error.name!r}: pip install 'credalset[cli]'")
    try:
        signal.signal(signal.SIGINT, _interrupt)
        code = main()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only files and connections remain to be closed
    except KeyboardInterrupt:  # a second one, while the first is handled
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = INTERRUPTED
    if code == INTERRUPTED:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a cluster that had only started prints errors as it closes
    sys.exit(code)


def _interrupt(*_: object) -> None:
    """Raise KeyboardInterrupt; what event loops and finalizers that it stops would log is not for the user."""
    import logging

    logging.disable()
    sys.unraisablehook = lambda _: None
    raise KeyboardInterrupt
