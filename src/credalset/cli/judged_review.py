"""``credalset review --judges``: answers of judges in place of predictions, prices and a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from credalset._display import plural
from credalset.acting.folder import CASCADE
from credalset.cli.judges import answers_of, items_of, read_answers, read_votes
from credalset.crowd.cascades import PERSON, Cascade, cascade
from credalset.exceptions import need
from credalset.votes import Annotations


@dataclass(frozen=True, eq=False)
class JudgedItems:
    """Answers of judges, and what belongs to their items, as series by item.

    Attributes
    ----------
    path : str
        The table.
    columns : str or None
        Columns of the judges, if they were named.
    answers : dict
        The answers of each judge.
    items : tuple of str
        All items, in the order of the table.
    id : str
        Column that names the items.
    kinds, groups, clusters, texts : dict of series, series, or None
        Further columns.
    """

    path: str
    columns: str | None
    answers: dict[str, Any]
    items: tuple[str, ...]
    id: str = "item"
    kinds: Any = None
    groups: Any = None
    clusters: Any = None
    texts: Any = None

    def take(self, items: Sequence[str]) -> JudgedItems:
        """Return some of the items, in their order."""
        names = list(items)

        def chosen(column: Any) -> Any:
            return None if column is None else column.loc[names]

        kinds = self.kinds
        if kinds is not None:
            kinds = {name: chosen(column) for name, column in kinds.items()}
        return JudgedItems(
            self.path,
            self.columns,
            {judge: _take(answers, names) for judge, answers in self.answers.items()},
            tuple(names),
            self.id,
            kinds,
            chosen(self.groups),
            chosen(self.clusters),
            chosen(self.texts),
        )


def _take(answers: Any, items: list[str]) -> Any:
    """Return the answers of a judge on some items; those without one are missing."""
    if isinstance(answers, dict):
        return need("pandas").Series([answers.get(item) for item in items], items, dtype=object)
    return answers.reindex(items)


def read_judged_items(
    tables: Sequence[str],
    judges: str,
    *,
    id: str | None,
    kinds: str | None,
    groups: str | None,
    clusters: str | None,
    texts: str | None,
) -> JudgedItems:
    """Read the answers of judges: those of a file, or those before the votes."""
    path, columns = answers_of(tables, judges)
    extra = {"groups": groups, "clusters": clusters, "texts": texts}
    table = read_answers(path, columns, id, kinds, **extra)
    more = {name: table.extra.get(name) for name in extra}
    names = items_of(table)
    found = JudgedItems(path, columns, table.answers, names, table.id, table.kinds, **more)
    return found.take(names)


@dataclass(frozen=True, eq=False)
class CascadeTerms:
    """Prices, budget and promise of a cascade; no prices, no cascade."""

    prices: dict[str, float] | None
    budget: float | None
    error: float
    confidence: float
    max_votes: int
    seed: int


@dataclass(frozen=True, eq=False)
class JudgedReview:
    """Answers of judges and votes, and a cascade if there are prices.

    With a budget, items without votes go their way by the plan that it buys, and the review is
    about the others.

    Attributes
    ----------
    items, reviewed, rest : JudgedItems
        All items, those that are reviewed, and those that the plan treats.
    votes : Annotations
        People's votes.
    found : Cascade or None
        What plans cost and accept.
    steps : data frame or None
        Next steps of ``rest``.
    """

    items: JudgedItems
    reviewed: JudgedItems
    rest: JudgedItems
    votes: Annotations
    found: Cascade | None = None
    steps: Any = None

    @classmethod
    def read(
        cls, tables: Sequence[str], judges: str, terms: CascadeTerms, **columns: str | None
    ) -> JudgedReview:
        """Read answers and votes, and plan."""
        votes = read_votes(tables)
        items = read_judged_items(tables, judges, **columns)
        voted = set(map(str, votes.items or ()))
        inside = items.take([item for item in items.items if item in voted])
        outside = items.take([item for item in items.items if item not in voted])
        if terms.prices is None:
            return cls(items, items, outside, votes)
        found = cascade(
            items.answers,
            votes,
            terms.prices,
            error=terms.error,
            confidence=terms.confidence,
            max_votes=terms.max_votes,
            budget=terms.budget,
            n_items=len(outside.items) or len(items.items),
            kinds=items.kinds,
            clusters=items.clusters,
            random_state=terms.seed,
        )
        if terms.budget is None or not outside.items:
            return cls(items, items, outside, votes, found)
        steps = found.decide(outside.answers, kinds=outside.kinds)
        return cls(items, inside, outside, votes, found, steps)

    @property
    def to_ask(self) -> list[str]:
        """Items whose next step by the plan is a person."""
        if self.steps is None:
            return []
        return [str(item) for item in self.steps.index[self.steps["step"] == PERSON]]

    @property
    def rows(self) -> Any:
        """The next steps by the plan as rows; None if no budget has chosen one."""
        if self.steps is None:
            return None
        columns = {
            self.items.id: list(self.rest.items),
            "step": self.steps["step"].tolist(),
            "label": [str(label) for label in self.steps["label"]],
            "risk": self.steps["risk"].round(4).tolist(),
        }
        return need("pyarrow", "A cascade").RecordBatch.from_pydict(columns)

    @property
    def remarks(self) -> list[str]:
        """Where the items are that the plan treats, for the page and the terminal."""
        if self.steps is None:
            return []
        number = Counter(self.steps["step"])
        counts = ", ".join(f"{count:,} {step}" for step, count in number.most_common())
        further = plural(len(self.steps), "further item")
        return [f"{further} without votes, treated by a cascade, in {CASCADE}: {counts}."]

    @property
    def words(self) -> str:
        """What plans cost and accept, and the next steps by the plan."""
        return "" if self.found is None else "\n".join([str(self.found), *self.remarks])

    def as_json(self) -> dict[str, Any]:
        """Return the same as plain values."""
        if self.found is None:
            return {}
        return {"plans": list(self.found.rows), "buys": self.found.buys()}
