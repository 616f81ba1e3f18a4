"""Display: progress bars, tables of text, numbers with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from credalset._typing import ArrayLike
from credalset._validation import as_probability
from credalset.exceptions import need


@contextmanager
def progress(
    title: str, total: int | Callable[[], int | None] | None, *, unit: str = "", shown: bool = True
) -> Iterator[Callable[[int, str], None]]:
    """Yield a function that takes the number of completed steps and a note to show beside the bar.

    The bar shows how many steps are done, how many are done per second if they have a unit, and the
    time that is left, or the time taken if the number of steps is unknown. Within another bar, it
    is a line below it.

    Parameters
    ----------
    title : str
        Description of the task.
    total : int, callable or None
        Number of steps, None if it is unknown; a callable is asked only if there is a bar.
    unit : str
        What is counted, such as ``"rows"``.
    shown : bool
        Whether to show a bar.

    Examples
    --------
    >>> with progress("Counting", 2) as advance:  # silent here: stderr is not a terminal
    ...     advance(1, "one")
    ...     advance(1, "two")
    """
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.text import Text
    except ImportError:
        shown = False
    else:
        console = Console(stderr=True)
        shown = shown and (console.is_terminal or console.is_jupyter)
    if not shown:
        yield lambda steps, note: None
        return

    class Count(ProgressColumn):
        def render(self, task: Any) -> Text:
            done = int(task.completed)
            return Text(count_text(done, task.total, task.speed, task.fields["unit"]))

    class Time(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(time_text(task.time_remaining, task.elapsed))

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        Count(),
        TextColumn("{task.fields[note]}"),
        Time(),
    )
    outer = OPEN[-1] if OPEN else None
    bar = Progress(*columns, console=console, transient=True) if outer is None else outer
    OPEN.append(bar)
    try:
        with bar if outer is None else nullcontext():
            number = total() if callable(total) else total
            task = bar.add_task(title, total=number, note="", unit=unit)
            yield lambda steps, note: bar.update(task, advance=steps, note=note)
            bar.remove_task(task)
    finally:
        OPEN.pop()


#: bars that are shown now: a terminal has room for one display
OPEN: list[Any] = []


def time_text(left: float | None, elapsed: float | None) -> str:
    """Write the time that is left, or that has passed if nobody knows.

    Examples
    --------
    >>> time_text(75.2, 10.0), time_text(None, 3.4), time_text(7300, None)
    ('1:15 left', '0:03', '2:01:40 left')
    """
    seconds = int((elapsed or 0) if left is None else left)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    return text if left is None else f"{text} left"


def count_text(done: int, total: float | None, speed: float | None, unit: str) -> str:
    """Write how many steps are done, of how many, and how many are done per second.

    Examples
    --------
    >>> count_text(65536, 1_000_000, 190_511.3, "rows")
    '65,536/1,000,000 rows, 190,511 rows/s'
    >>> count_text(3, None, None, "")
    '3/?'
    """
    if total is None and not done:
        return ""
    of = "?" if total is None else f"{int(total):,}"
    text = f"{done:,}/{of}"
    if unit:
        text += f" {unit}"
    if unit and speed:
        text += f", {speed:,.0f} {unit}/s"
    return text


MOST_ROWS = 50  # of a printed table


def number_text(
    value: Any, decimals: int = 4, significant: int | None = None, missing: str = "-"
) -> str:
    """Format a number with fixed decimals, or with significant digits below a thousandth.

    Parameters
    ----------
    value : object
        A float; None and NaN are written as ``missing``, other values with ``str``.
    decimals, significant : int
        Decimals, and significant digits of smaller numbers (by default as many).
    missing : str
        Text for missing numbers.

    Examples
    --------
    >>> [number_text(x) for x in (0.12345, 0.00012345, 0.0, float("inf"), None, 3)]
    ['0.1235', '1.234e-04', '0.0000', 'inf', '-', '3']
    >>> [number_text(x, decimals=3, significant=1) for x in (0.12345, 0.00012345)]
    ['0.123', '1e-04']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return missing
    if not isinstance(value, float):
        return str(value)
    if 0.0 < abs(value) < 1e-3:
        return f"{value:.{(significant or decimals) - 1}e}"
    return f"{value:.{decimals}f}"


def table_text(headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 0) -> str:
    """Format a table, with the first ``left`` columns aligned to the left, the others to the right.

    Examples
    --------
    >>> print(table_text(["score", "coverage"], [["tv", "0.9"], ["hellinger", "0.89"]], left=1))
    score      coverage
    ---------  --------
    tv              0.9
    hellinger      0.89
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    sides = ["<" if i < left else ">" for i in range(len(widths))]
    lines = [headings, ["-" * width for width in widths], *rows]
    aligned = (
        [f"{t:{s}{w}}" for t, s, w in zip(line, sides, widths, strict=True)] for line in lines
    )
    return "\n".join("  ".join(cells).rstrip() for cells in aligned)


class Rows(list[dict[str, Any]]):
    """A list of rows (dicts) that prints as a table; estimates are printed with their intervals.

    Examples
    --------
    >>> Rows([{"method": "plan", "items": 3, "width": 0.5},
    ...       {"method": "random", "items": 12, "width": None}])
    method  items  width
    ------  -----  -----
    plan        3  0.500
    random     12      -
    """

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the rows as columns."""
        names = list(dict.fromkeys(name for row in self for name in row))
        return {name: [row.get(name) for row in self] for name in names}

    def to_frame(self) -> Any:
        """Return the rows as a pandas frame."""
        return need("pandas").DataFrame(list(self))

    def __str__(self) -> str:
        if not self:
            return "no rows"
        names = list(self.to_dict())
        lines = [[_cell(row.get(name)) for name in names] for row in self[:MOST_ROWS]]
        text = table_text(names, lines, left=1)
        more = len(self) - MOST_ROWS
        return text if more <= 0 else f"{text}\n… and {more} more"

    def __repr__(self) -> str:
        return str(self)


def _cell(value: Any) -> str:
    if isinstance(value, Estimate):
        return repr(value)
    return number_text(value, decimals=3, significant=2)


class Estimate(float):
    """A float with a confidence interval.

    Attributes
    ----------
    low : float
        Lower end of the interval.
    high : float
        Upper end of the interval.
    n : int
        Sample size.
    """

    low: float
    high: float
    n: int

    def __new__(cls, value: float, low: float, high: float, n: int) -> Estimate:
        """Create the estimate; it behaves like the plain number ``value``."""
        self = super().__new__(cls, value)
        self.low = float(low)
        self.high = float(high)
        self.n = int(n)
        return self

    def __repr__(self) -> str:
        value, low, high = (
            number_text(x, missing="nan") for x in (float(self), self.low, self.high)
        )
        return f"{value} [{low}, {high}] (n={self.n})"

    def __reduce__(self) -> tuple[type[Estimate], tuple[float, float, float, int]]:
        return Estimate, (float(self), self.low, self.high, self.n)


def proportion(successes: int, n: int, level: float = 0.95) -> Estimate:
    """Return a share with its exact (Clopper–Pearson) confidence interval.

    Parameters
    ----------
    successes : int
        Number of successes.
    n : int
        Number of trials.
    level : float
        Confidence level in (0, 1).

    Returns
    -------
    Estimate

    Examples
    --------
    >>> proportion(90, 100)
    0.9000 [0.8238, 0.9510] (n=100)
    """
    low, high = _exact_interval(int(successes), int(n), as_probability(level, "level"))
    return Estimate(successes / n if n else np.nan, low, high, n)


@lru_cache(maxsize=1024)  # an interval takes milliseconds
def _exact_interval(successes: int, n: int, level: float) -> tuple[float, float]:
    from scipy.stats import binomtest

    interval = binomtest(successes, n).proportion_ci(level) if n else (0.0, 1.0)
    return float(interval[0]), float(interval[1])


def mean(values: ArrayLike, level: float = 0.95) -> Estimate:
    """Return an average with its confidence interval from the t distribution.

    Parameters
    ----------
    values : array of shape (n,)
        Values to average.
    level : float
        Confidence level in (0, 1).

    Returns
    -------
    Estimate

    Examples
    --------
    >>> mean([0.1, 0.2, 0.6])
    0.3000 [-0.3572, 0.9572] (n=3)
    """
    from scipy.stats import t

    array = np.asarray(values, dtype=np.float64)
    upper = 0.5 + as_probability(level, "level") / 2.0
    n = len(array)
    if n < 2:
        return Estimate(float(array[0]) if n else np.nan, -np.inf, np.inf, n)
    half = t.ppf(upper, n - 1) * array.std(ddof=1) / np.sqrt(n)
    return Estimate(array.mean(), array.mean() - half, array.mean() + half, n)


# --- words ---


def plural(number: int, noun: str) -> str:
    """Write a number of things: "1 item", "2 items"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def join_names(names: Iterable[Any], limit: int = 5) -> str:
    """Write out a few names for a message.

    Examples
    --------
    >>> join_names(["a", "b", "c"], 2)
    "'a', 'b', …"
    """
    first = list(islice(names, limit + 1))
    # Numbers and texts of NumPy would be written as np.str_('a').
    scalars = np.str_ | np.bool_ | np.integer | np.floating
    shown = [name.item() if isinstance(name, scalars) else name for name in first[:limit]]
    return ", ".join(map(repr, shown)) + (", …" if len(first) > limit else "")
