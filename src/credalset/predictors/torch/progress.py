"""A progress bar over epochs, shown only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from credalset.exceptions import MissingExtraError


@contextmanager
def progress_bar(n_epochs: int, verbose: bool) -> Iterator[Callable[[float], None]]:
    """Give a function to call with the loss after each epoch; it moves a bar if ``verbose``.

    Examples
    --------
    >>> with progress_bar(2, verbose=False) as report:
    ...     report(0.7)
    ...     report(0.6)
    """
    if not verbose:
        yield lambda loss: None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        raise MissingExtraError("verbose=True, a progress bar,", "rich", "torch") from None

    shown = TextColumn("Training"), BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]}")
    with Progress(*shown, TimeRemainingColumn()) as bar:
        task = bar.add_task("Training", total=n_epochs, loss="-")
        yield lambda loss: bar.update(task, advance=1, loss=f"{loss:.4f}")
