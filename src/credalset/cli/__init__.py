"""The command line: parse, call the library, print."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module

from credalset._files import remove_unfinished
from credalset.cli.codes import ENDED, INTERRUPTED

#: imported when the program runs, because it needs packages that may be missing
APP = "credalset.cli.app"


def run() -> None:
    """Run the ``credalset`` program and leave with its exit code."""
    # While modules are being imported, nothing is written yet.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        main = import_module(APP).main
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit(
            f"The credalset command needs the package {error.name!r}: pip install 'credalset[cli]'"
        )
    signal.signal(signal.SIGINT, leave)
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only files and connections remain to be closed
    if code:
        _end(code)
    sys.exit(code)


def _end(code: int) -> None:
    """End the program after an error, without waiting for a thread of Arrow that may read ahead.

    Such a thread reads standard input and compressed files by Python code, and Python aborts the
    process if it does so while the interpreter shuts down.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def leave(*_: object) -> None:
    """End the program at once on Ctrl-C: remove what is half-written, kill the workers, say so.

    An exception would have to pass through whatever runs at this moment. Compiled modules that are
    being imported, finalizers and event loops lose it, turn it into errors of their own, or wait
    for each other.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _kill_workers()
    remove_unfinished()
    # The progress bar has hidden the cursor.
    clear = "\r\x1b[K\x1b[?25h" if os.isatty(2) else ""
    os.write(2, f"{clear}error: {ENDED}\n".encode())
    os._exit(INTERRUPTED)


def _kill_workers() -> None:
    """Kill the workers of Dask, which are the only processes that a command starts."""
    psutil = sys.modules.get("psutil")  # imported by Dask, if it runs
    if psutil is None:
        return
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            # The tracker of resources cleans up after the others, and ends by itself.
            if "resource_tracker" not in " ".join(child.cmdline()):
                child.kill()
