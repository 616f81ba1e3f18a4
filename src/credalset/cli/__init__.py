"""The command line: parse, call the library, print."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from credalset._files import remove_unfinished

INTERRUPTED = 130
ENDED = "interrupted; no file was left half-written."


def run() -> None:
    """Run the ``credalset`` program and leave with its exit code."""
    signal.signal(
        signal.SIGINT, lambda *_: os._exit(INTERRUPTED)
    )  # modules are being imported: nothing is written yet
    try:
        from credalset.cli.app import main
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit(
            f"The credalset command needs the package {error.name!r}: pip install 'credalset[cli]'"
        )
    signal.signal(signal.SIGINT, leave)
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only files and connections remain to be closed
    sys.exit(code)


def leave(*_: object) -> None:
    """End the program at once on Ctrl-C: remove what is half-written, kill the workers, say so.

    An exception would have to pass through whatever runs at this moment. Compiled modules that are
    being imported, finalizers and event loops lose it, turn it into errors of their own, or wait
    for each other.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if psutil := sys.modules.get(
        "psutil"
    ):  # which Dask imports: only its workers are processes of ours
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "resource_tracker" not in " ".join(
                    child.cmdline()
                ):  # which cleans up after the others
                    child.kill()
    remove_unfinished()
    clear = (
        "\r\x1b[K\x1b[?25h" if os.isatty(2) else ""
    )  # the progress bar, which has hidden the cursor
    os.write(2, f"{clear}error: {ENDED}\n".encode())
    os._exit(INTERRUPTED)
