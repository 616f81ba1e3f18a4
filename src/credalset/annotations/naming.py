"""What people call the columns of a vote table, and how to guess which is which."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from credalset.exceptions import warn

#: names by role, the surest first, as `plain` writes them
KNOWN: dict[str, list[set[str]]] = {
    "task": [
        {"task", "task_id", "taskid", "assignment_task_id"},
        {"item", "item_id", "itemid", "hitid", "hit_id", "unit", "unit_id", "units"},
        {"example", "example_id", "document", "document_id", "doc", "doc_id", "instance", "instance_id", "sample"},
        {"sample_id", "image", "image_id", "img_id", "record", "record_id", "question", "question_id", "subject"},
        {"uid", "uuid", "id", "key"},
    ],
    "worker": [
        {"worker", "worker_id", "workerid", "assignment_worker_id", "performer"},
        {"annotator", "annotator_id", "annotatorid"},
        {"rater", "rater_id", "raterid", "coder", "coder_id", "judge", "judge_id", "labeler", "labeller", "labeler_id"},
        {"user", "user_id", "userid", "username", "contributor", "contributor_id", "participant", "participant_id"},
        {"completed_by", "expert", "expert_id", "reviewer", "reviewer_id", "who", "session_id"},
        {"moderator", "moderator_id", "reader", "reader_id", "grader", "grader_id", "assessor", "assessor_id"},
        {"editor", "editor_id", "evaluator", "evaluator_id", "person", "person_id", "crowdworker", "member"},
    ],
    "label": [
        {"label", "annotation", "annotated_label"},
        {"class", "category", "choice", "vote", "judgment", "judgement", "response", "answer", "answer_label"},
        {"rating", "score", "value", "code", "sentiment", "annotation_label", "label_id", "labels", "grade", "verdict"},
    ],
    "time": [
        {"time", "timestamp", "created_at", "submitted_at", "submittime", "submit_time"},
        {"date", "datetime", "updated_at", "annotated_at", "completed_at"},
    ],
}
TASK_NAMES = frozenset().union(*KNOWN["task"])
REQUIRED = ("task", "worker", "label")
OFTEN = 0.9  # share of the votes that are the only one of their worker on their task, in a table with workers
LOOKED_AT = 10_000  # rows in which a column of workers is looked for


def plain(name: Any) -> str:
    """Write a column name in small letters with underscores.

    Examples
    --------
    >>> plain(" Worker-ID ")
    'worker_id'
    """
    return re.sub(r"[^\w]+|_+", "_", str(name).strip().lower()).strip("_")


def candidates(columns: Sequence[Hashable], role: str) -> list[Hashable]:
    """Return the columns that the surest known names of a role fit: several if they are equally sure."""
    for names in KNOWN[role]:
        found = [column for column in columns if plain(column) in names]
        if found:
            return found
    if role == "task":
        others = set().union(*KNOWN["worker"], *KNOWN["label"])
        return [column for column in columns if plain(column).endswith("_id") and plain(column) not in others]
    if role == "label":  # Amazon Mechanical Turk writes Answer.<field>, Toloka OUTPUT:<field>
        return [column for column in columns if plain(column).startswith(("answer_", "output_"))]
    if role == "time":
        return [column for column in columns if plain(column).endswith(("_at", "_time", "_timestamp", "_date"))]
    return []


def guess_columns(columns: Sequence[Hashable], given: dict[str, Hashable | None]) -> dict[str, Hashable]:
    """Guess which column is the task, the worker, the label and the time; names that are given stand.

    A worker or time that is not found is left out. The label may also be the only column that is left over. Raises
    ``ValueError`` with the columns and what to pass where the task or the label stays open.

    Examples
    --------
    >>> guess_columns(["HITId", "WorkerId", "Answer.sentiment", "Input.text"], {})
    {'task': 'HITId', 'worker': 'WorkerId', 'label': 'Answer.sentiment'}
    """
    roles: dict[str, Hashable] = {}
    for role, name in given.items():
        if name is None:
            continue
        if name not in columns:
            raise ValueError(f"{role}={name!r} is no column; there are {list(columns)}. Name one of them: {role}=...")
        roles[role] = name
    for role in ("task", "worker", "label", "time"):
        if role in roles:
            continue
        left = [column for column in columns if column not in roles.values()]
        found = candidates(left, role)
        if role == "label" and not found and len(left) == 1:
            found = left
        if len(found) > 1 and role in REQUIRED:
            raise ValueError(f"{_listed(found)} could all be the {role}. Say which: {role}={found[0]!r}.")
        if found:
            roles[role] = found[0]
    for role in ("task", "label"):
        if role not in roles:
            raise ValueError(f"None of the columns {list(columns)} is known to be the {role}. Name it: {role}=...")
    return {role: roles[role] for role in (*REQUIRED, "time", "weight") if role in roles}


def complete(columns: Sequence[Hashable], names: dict[str, Hashable | None]) -> dict[str, Hashable | None]:
    """Put usual names in the place of default ones that a table does not have; what is not clear stays as it is.

    Examples
    --------
    >>> complete(["Item ID", "rater", "rating"], {"task": "task", "worker": "worker", "label": "label"})
    {'task': 'Item ID', 'worker': 'rater', 'label': 'rating'}
    """
    completed = dict(names)
    for role in REQUIRED:
        if names.get(role) == role and role not in columns:
            found = candidates([column for column in columns if column not in completed.values()], role)
            completed[role] = found[0] if len(found) == 1 else role
    if "time" in names and names["time"] is None:
        found = candidates([column for column in columns if column not in completed.values()], "time")
        completed["time"] = found[0] if found else None
    return completed


def likely_workers(tasks: Sequence[Any], columns: Mapping[Any, Sequence[Any]]) -> list[Any]:
    """Return the columns whose values come again, but hardly ever twice on one task: as annotators do.

    Examples
    --------
    >>> tasks = ["a", "a", "b", "b", "c", "c"]
    >>> likely_workers(tasks, {"who": list("xyyxxy"), "language": list("eeddee"), "note": list("123456")})
    ['who']
    """
    if len(set(tasks)) == len(tasks):
        return []  # one row per task: whoever they are, nobody votes twice

    def may_be(column: Sequence[Any]) -> bool:
        values = [str(value) for value in column if value is not None and value == value]
        come_again = len(values) == len(tasks) and 1 < len(set(values)) <= len(values) / 2
        return come_again and len(set(zip(tasks, values, strict=True))) >= OFTEN * len(tasks)

    return [name for name, column in columns.items() if may_be(column)]


def warn_of_nobody(likely: Sequence[Any], origin: str = "") -> None:
    """Warn that the annotators are not known, although a column looks as if it named them."""
    if likely:
        warn(
            f"{origin}no column is known to name the annotators, so that every row is a vote, repeated ones too; "
            f"{likely[0]!r} looks as if it did. Say so, worker={likely[0]!r}, or worker=None if it does not."
        )


def refuse_item_column(columns: Sequence[Hashable], argument: str) -> None:
    """Refuse a table of numbers per class that has a column of names of items: it would be taken for a class."""
    for column in columns:
        if (name := plain(column)) in TASK_NAMES and (name in ("task", "item") or name.endswith("id")):
            raise ValueError(
                f"{argument} has the column {column!r}, which seems to name the items rather than a class. Make it the "
                f"index, so that items are matched by it: {argument}.set_index({column!r}). Votes in rows, one "
                "each, are read by Annotations.from_table."
            )


def tidied(label: Any) -> Any:
    """Return a text in lower case, with single spaces and none around it; anything else as it is.

    Examples
    --------
    >>> tidied(" Not  Sure"), tidied(3)
    ('not sure', 3)
    """
    return " ".join(label.casefold().split()) if isinstance(label, str) else label


def as_mark(cell: Any) -> str | None:
    """Write a cell as it would stand in a text file, to compare it with a mark: 5.0 is 5. None of what is no cell."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell) if isinstance(cell, str | int | float) else None


def _listed(names: Sequence[Hashable]) -> str:
    return ", ".join(map(repr, names[:-1])) + f" and {names[-1]!r}"
