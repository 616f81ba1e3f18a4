"""Inspect, logs as JSON: samples with scores by scorer. https://inspect.aisi.org.uk/eval-logs.html.

A log says two things that may be votes. By default the grade of each scorer is one, as language
models that grade are judges: items are the samples that were graded, and the scorers the workers.
With ``label="answer"``, the answer of the model that was evaluated is one, and models are workers.

The format ``.eval`` is an archive that Python cannot unpack before version 3.14; ``inspect log
convert LOG --to json --output-dir FOLDER`` writes JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.exceptions import FileFormatError
from credalset.votes.exports.export import Export, Record, dig

__all__ = ["recognise", "votes"]

ANSWER = "answer"
GRADE = "value"


def recognise(records: list[Record]) -> bool:
    """Documents about an evaluation, with a version and a status."""
    return all({"version", "status", "eval"} <= set(record) for record in records)


def votes(export: Export) -> Iterator[tuple[Any, ...]]:
    """Yield a vote per grade, or per answer of a model."""
    field = export.given["label"] or GRADE
    logs = [log for _, found in export.files for log in found]
    models = {dig(log, "eval.model") for log in logs}
    n_epochs = max(int(sample.get("epoch") or 1) for log in logs for sample in _samples(log))
    export.named_by = export.given["task"] or "id"
    export.how.append(
        "answers of models" if field == ANSWER else f"grades of scorers, from {field!r}"
    )
    for log in logs:
        model = dig(log, "eval.model")
        for sample in _samples(log):
            task = dig(sample, export.named_by)
            if task is None:
                raise ValueError(
                    f"task names {export.named_by!r}, which a sample of {export.name} does not "
                    f"have: {list(sample)}."
                )
            again = f" (epoch {sample.get('epoch')})" if n_epochs > 1 else ""
            if field == ANSWER:
                export.items[str(task)] = None
                yield str(task), f"{model}{again}", _answer(sample, export)
                continue
            # Each answer of each model is graded by itself.
            item = f"{model}: {task}{again}" if len(models) > 1 else f"{task}{again}"
            export.items[item] = None
            for scorer, score in (sample.get("scores") or {}).items():
                yield item, scorer, _plain(dig(score, field), export)


def _samples(log: Record) -> list[Record]:
    found = log.get("samples")
    if not found:
        raise FileFormatError(
            "a log of Inspect holds no samples. Write it with its samples, as JSON: inspect log "
            "convert LOG --to json --output-dir FOLDER"
        )
    return list(found)


def _answer(sample: Record, export: Export) -> Any:
    """Return the answer that the scorers read from the output of the model."""
    scores = sample.get("scores") or {}
    found = {
        score.get(ANSWER) for score in scores.values() if isinstance(score.get(ANSWER), str)
    } - {""}
    if len(found) > 1:
        raise FileFormatError(
            f"{export.name}: the scorers {', '.join(scores)} read different answers on sample "
            f"{sample.get('id')!r}. Write a log with one of them: inspect score --scorer NAME."
        )
    return next(iter(found), None)


def _plain(value: Any, export: Export) -> Any:
    if isinstance(value, dict | list):
        names = ", ".join(map(str, value)) if isinstance(value, dict) else "a list"
        raise FileFormatError(
            f"{export.name}: a grade holds several values ({names}). Choose one: --label "
            f"{GRADE}.NAME."
        )
    return value
