"""Finished batches on disk: one JSON file each, written atomically, so that stopping loses nothing.

Each file says which batch it is and with which options it was computed; anything damaged or foreign
is refused rather than mixed in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow
from pyarrow import parquet

from credalset._files import write_file
from credalset.exceptions import FileFormatError
from reproduction.batch import Batch, Outcome, Row, add_up


class Store:
    """The finished batches of one experiment, in a folder that the first one written creates."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def is_done(self, batch: Batch) -> bool:
        """Tell whether a batch is finished; an untrustworthy file raises `FileFormatError`."""
        return self._path(batch).is_file() and self.outcome(batch) is not None

    def outcome(self, batch: Batch) -> Outcome:
        """Read what a finished batch gave."""
        path = self._path(batch)
        try:
            found = json.loads(path.read_bytes())
            outcome = Outcome(found["rows"], found["examples"], found["seconds"])
            there = found["options"] | {"name": found["name"]}
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise FileFormatError(
                f"{path} is damaged ({error}). Delete it and start again: only its runs are "
                "repeated."
            ) from None
        here = batch.options | {"name": batch.name}
        other = [name for name in there | here if there.get(name) != here.get(name)]
        if other:
            differing = "; ".join(
                f"{name}: {there.get(name)!r} there, {here.get(name)!r} here" for name in other[:3]
            )
            raise FileFormatError(
                f"{path} holds results of other settings ({differing}). Choose another --out, "
                "or delete it."
            )
        return outcome

    def write(self, batch: Batch, outcome: Outcome) -> None:
        """Keep the outcome of a batch."""
        content = {"name": batch.name, "options": batch.options, **vars(outcome)}
        write_file(self._path(batch), json.dumps(content).encode())

    def rows(self, batches: Iterable[Batch]) -> list[Row]:
        """Read the result rows of finished batches, in the order of the batches."""
        return [row for batch in batches for row in self.outcome(batch).rows]

    def examples(self, batches: Iterable[Batch]) -> list[Row]:
        """Read the predictions that batches kept to be drawn."""
        return [row for batch in batches for row in self.outcome(batch).examples]

    def seconds(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Add up the time that finished batches took, stage by stage."""
        return add_up(self.outcome(batch).seconds for batch in batches)

    def everything(self) -> Outcome:
        """Read rows and examples of all finished batches, whatever their settings."""
        whole = Outcome()
        for path in sorted(self.folder.glob("*.json")):
            try:
                found = json.loads(path.read_bytes())
                whole.rows += found["rows"]
                whole.examples += found["examples"]
            except (ValueError, TypeError, KeyError) as error:
                raise FileFormatError(
                    f"{path} is damaged ({error}). Delete it and run its experiment again."
                ) from None
        return whole

    def combine(self, batches: Sequence[Batch], path: Path) -> None:
        """Write the rows of all batches into one Parquet file."""
        table = pyarrow.Table.from_pylist(self.rows(batches))
        sink = pyarrow.BufferOutputStream()
        options = json.dumps([batch.options for batch in batches[:1]])
        parquet.write_table(table.replace_schema_metadata({"credalset": options}), sink)
        write_file(path, bytes(sink.getvalue()))

    def _path(self, batch: Batch) -> Path:
        return self.folder / f"{batch.name}.json"
