"""What `credalset.plan` returns: advice for each item, what to expect of it, and lists to hand on."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from credalset._files import write_file
from credalset._guessing import Hinting
from credalset._text import Rows, number_text, table_text
from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray, RandomState
from credalset._validation import as_finite, as_generator
from credalset.annotations.labels import in_item_order
from credalset.exceptions import need
from credalset.planning.outlook import METHODS, Market, Outlook, allocate
from credalset.sets.columns import pandas_frame, write_csv
from credalset.sets.updated import UpdatedSet

ACTIONS = ("ask", "later", "stop", "ambiguous", "escalate")
TASK = ("item", "ask", "cost", "width", "expected_width", "reason")  # columns of a list of tasks


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Hinting):
    """What to do with each item, why, and what to expect. Made by `credalset.plan`; arrays are in item order.

    Attributes
    ----------
    action : ndarray of N str
        ``"ask"``: ask for ``ask`` more votes. ``"later"``: worth asking, but the budget goes further elsewhere.
        ``"stop"``: **certified**, one label is the most probable one for every distribution in the set.
        ``"ambiguous"``: keep as it is, annotators will go on to disagree. ``"escalate"``: votes contradict the set, or
        would not help.
    reason : ndarray of N str
        Why, in a sentence.
    ask : ndarray of N int
        Votes to ask for.
    cost : ndarray of shape (N,)
        What they cost.
    width, expected_width : ndarray of shape (N,)
        ½ Σ (upper − lower) now, and as expected after the votes that are asked for.
    sets : UpdatedSet
        The sets in the light of the votes so far; the error of what they say is α + δ.
    labels : ndarray of shape (N, K)
        Labels that are the most probable one for some distribution in the set.
    outlook : Outlook
        Mean width over all items: now, expected after the plan, and the interval in which it should come out.
    curve : Rows, a list of dict that prints as a table
        Mean widths for other budgets and by simpler methods. The row of this very plan is its outlook. All others come
        of one quick simulation, whose interval allows for the choice of items, too: it is wider.
    purchases : Rows
        What else the budget could buy.
    notes : tuple of str
        What a reader should know.
    """

    _hints: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("next", "queue"), "Ask tasks(), the items to ask about, or to_frame() for all."),
        "save": "Write the tasks with write_tasks(path), or all items with to_csv(path).",
    }

    action: AnyArray
    reason: AnyArray
    ask: IntArray
    cost: FloatArray
    width: FloatArray
    expected_width: FloatArray
    sets: UpdatedSet
    labels: BoolArray
    items: tuple[Any, ...]
    outlook: Outlook
    curve: Rows
    purchases: Rows
    budget: float
    error: float
    notes: tuple[str, ...]
    market: Market

    def __len__(self) -> int:
        return len(self.action)

    def allocate(self, budget: float, method: str = "plan", random_state: RandomState = 0) -> IntArray:
        """Return the votes to ask for each item, (N,), with another budget or by a simpler method."""
        if method not in ("plan", *METHODS):
            raise ValueError(f"method must be one of plan, {', '.join(METHODS)}, but is {method!r}.")
        return allocate(self.market, method, as_finite(budget, "budget", minimum=0.0), as_generator(random_state))

    def counts(self) -> dict[str, int]:
        """Return how many items each action is advised for."""
        return {name: int((self.action == name).sum()) for name in ACTIONS}

    def columns(self) -> dict[str, Any]:
        """Return the advice as columns, one entry per item; the label is that of the certificate, if there is one."""
        names = np.array([str(n) for n in self.sets.classes or range(self.sets.n_classes)], dtype=object)
        settled = (self.labels.sum(axis=1) == 1) & (self.action != "escalate")
        return {
            "item": np.array([str(name) for name in self.items], dtype=object),
            "action": self.action.astype(object),
            "ask": self.ask,
            "cost": self.cost,
            "votes": self.sets.votes.sum(axis=1).astype(np.int64),
            "width": self.width,
            "expected_width": self.expected_width,
            "label": np.where(settled, names[self.labels.argmax(axis=1)], None),
            "reason": self.reason.astype(object),
        }

    def to_frame(self, kind: Literal["pandas", "polars", "pyarrow"] = "pandas", *, id: str = "item") -> Any:
        """Return the advice as a data frame, one row per item; ``id`` is what to call the column of their names."""
        table = {id if name == "item" else name: values for name, values in self.columns().items()}
        if kind == "pandas":
            return pandas_frame(table, self.items)
        if kind not in ("polars", "pyarrow"):
            raise ValueError(f"kind must be 'pandas', 'polars' or 'pyarrow', but is {kind!r}.")
        arrow = need("pyarrow").table({name: values.tolist() for name, values in table.items()})
        return arrow if kind == "pyarrow" else need("polars").from_arrow(arrow)

    def to_csv(self, path: str | Path, *, sep: str = ",", decimal: str = ".", encoding: str = "utf-8") -> None:
        """Write the advice on all items; `write_tasks` writes those to ask about."""
        write_csv(self.to_frame(), path, sep, decimal, encoding)

    def tasks(self) -> Rows:
        """Return the items to ask about, those with the largest expected fall in width first."""
        table = self.columns()
        asked = np.flatnonzero(self.ask > 0)
        order = asked[np.argsort((self.expected_width - self.width)[asked], kind="stable")]
        chosen = {key: table[key][order].tolist() for key in TASK} | {"item": [self.items[i] for i in order]}
        return Rows(dict(zip(chosen, values, strict=True)) for values in zip(*chosen.values(), strict=True))

    def write_tasks(self, path: str | Path, *, id: str = "item", texts: Any = None) -> None:
        """Write the list of tasks, as CSV or JSON Lines by the end of the name; it appears when it is complete.

        Parameters
        ----------
        path : str or Path
            Where to.
        id : str
            What to call the column with the names of the items.
        texts : sequence of N str, optional
            What annotators are to read, for a column ``text``; a series is matched by the names of the items.
        """
        kind, names = task_format(path), [id, *TASK[1:]]
        rows = [dict(zip(names, row.values(), strict=True)) for row in self.tasks()]
        if texts is not None:
            in_order = in_item_order(texts, self.items, "texts", "plan")
            if len(in_order) != len(self):
                raise ValueError(
                    f"texts must hold one text for each of the {len(self)} items, but holds {len(in_order)}."
                )
            text_of = dict(zip(self.items, in_order, strict=True))
            rows, names = [row | {"text": text_of[row[id]]} for row in rows], [*names, "text"]
        if kind == ".jsonl":
            text = "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
        else:
            stream = io.StringIO()
            writer = csv.DictWriter(stream, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            text = stream.getvalue()
        write_file(Path(path), text.encode("utf-8"))

    def describe(self) -> dict[str, Any]:
        """Return everything but the advice for single items, as plain values ready for JSON."""
        return {
            "items": len(self),
            "actions": self.counts(),
            "votes": int(self.ask.sum()),
            "cost": float(self.cost.sum()),
            "budget": self.budget,
            "error": self.error,
            "mean_width": asdict(self.outlook),
            "purchases": self.purchases,
            "curve": self.curve,
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """Return the plan in words and two tables."""
        done = ", ".join(f"{count} {name}" for name, count in self.counts().items())
        rows = [[r["buy"], f"{r['items']}", f"{r['votes_each']:.1f}", *_interval(r)] for r in self.purchases]
        methods = list(dict.fromkeys(r["method"] for r in self.curve))
        budgets = list(dict.fromkeys(r["budget"] for r in self.curve))
        at = {(r["budget"], r["method"]): number_text(r["expected"], 3) for r in self.curve}
        lines = [[f"{budget:g}", *(at[budget, method] for method in methods)] for budget in budgets]
        return "\n".join(
            [
                f"{len(self)} items: {done}.",
                f"{self.ask.sum()} votes at a cost of {self.cost.sum():g}. Mean width to expect: {self.outlook}.",
                f"Certificates and sets miss with probability at most alpha + delta = {self.error:g}.\n",
                table_text(["what the budget buys", "items", "votes each", "mean width", "95% interval"], rows, left=1),
                "",
                table_text(["budget", *methods], lines),
                *(f"\nNote: {note}" for note in self.notes),
            ]
        )

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        done = ", ".join(f"{count} {name}" for name, count in self.counts().items())
        return f"Plan: {len(self)} items, {done}; {self.ask.sum()} votes, mean width {self.outlook}"


def task_format(path: str | Path) -> str:
    """Return .csv or .jsonl, by which the name of a list of tasks must end."""
    kind = Path(path).suffix
    if kind not in (".csv", ".jsonl"):
        raise ValueError(f"{path} must end in .csv or .jsonl, the formats of a list of tasks.")
    return kind


def _interval(entry: dict[str, Any]) -> list[str]:
    return [number_text(entry["expected"], 3), f"{entry['low']:.3f} to {entry['high']:.3f}"]
