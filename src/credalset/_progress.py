"""One progress bar for everything that takes a while: on stderr, in a terminal or notebook, if rich is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str, total: int | None, *, shown: bool = True) -> Iterator[Callable[[int, str], None]]:
    """Give a function to call with the number of steps done and a note to show beside the bar.

    Parameters
    ----------
    title : str
        What is being done.
    total : int or None
        Number of steps; None if it is not known.
    shown : bool
        Whether to show a bar at all.

    Examples
    --------
    >>> with progress("Counting", 2) as advance:  # silent here: stderr is not a terminal
    ...     advance(1, "one")
    ...     advance(1, "two")
    """
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as TimeColumn
    except ImportError:
        shown = False
    else:
        console = Console(stderr=True)
        shown = shown and (console.is_terminal or console.is_jupyter)
    if not shown:
        yield lambda steps, note: None
        return
    count = MofNCompleteColumn()
    columns = TextColumn("{task.description}"), BarColumn(), count, TextColumn("{task.fields[note]}"), TimeColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total, note="")
        yield lambda steps, note: bar.update(task, advance=steps, note=note)
