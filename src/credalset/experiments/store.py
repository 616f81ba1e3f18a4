"""Finished batches on disk: one JSON file each, written atomically, so that stopping loses nothing.

A folder belongs to one experiment with one set of settings. Each file says which batch it is and with which options it
was computed; anything damaged or foreign is refused rather than mixed in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from credalset._files import write_file
from credalset.exceptions import FileFormatError, MissingExtraError
from credalset.experiments.batch import Batch, Outcome, Row, add_up, with_seeds

FORMAT_VERSION = 2
SETTINGS = "settings.json"


class Store:
    """The finished batches of one experiment.

    Parameters
    ----------
    folder : path
        Where the files are; created when the first batch is written.
    settings : dict
        What all batches share, as plain JSON values. A folder that was written with other settings is refused.
    """

    def __init__(self, folder: str | Path, settings: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self.settings = json.loads(json.dumps(settings))
        self._check_settings()

    def is_done(self, batch: Batch) -> bool:
        """Tell whether a batch is finished; a file that cannot be trusted raises `FileFormatError`."""
        return self._path(batch).is_file() and self.outcome(batch) is not None

    def started(self, batch: Batch) -> Batch | None:
        """Return the largest finished batch that has the first seeds of this one and nothing else."""
        return next((one for one in self._shorter(batch) if self.is_done(one)), None)

    def outcome(self, batch: Batch) -> Outcome:
        """Read what a finished batch gave."""
        path = self._path(batch)
        try:
            found = json.loads(path.read_bytes())
            outcome = Outcome(found["rows"], found["examples"], found["seconds"])
            there = {name: found[name] for name in ("batch", "options")}
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise FileFormatError(
                f"{path} is damaged ({error}). Delete it and start again: only its runs are repeated."
            ) from None
        if there != _identity(batch):
            raise FileFormatError(
                f"{path} holds another batch than {batch.name} with these options. Choose another --out, or delete it."
            )
        return outcome

    def delete_shorter(self, batch: Batch) -> None:
        """Remove batches that have nothing but the first seeds of this one."""
        for shorter in self._shorter(batch):
            self._path(shorter).unlink(missing_ok=True)

    def _shorter(self, batch: Batch) -> Iterator[Batch]:
        seeds = batch.options.get("seeds", [])
        return (with_seeds(batch, seeds[:n]) for n in range(len(seeds) - 1, 0, -1))

    def write(self, batch: Batch, outcome: Outcome) -> None:
        """Keep the outcome of a batch."""
        if not (self.folder / SETTINGS).is_file():
            text = json.dumps({"format_version": FORMAT_VERSION, "settings": self.settings}, indent=2)
            write_file(self.folder / SETTINGS, text.encode())
        write_file(self._path(batch), json.dumps(_identity(batch) | vars(outcome)).encode())

    def rows(self, batches: Iterable[Batch]) -> list[Row]:
        """Read the result rows of finished batches, in the order of the batches."""
        return [row for batch in batches for row in self.outcome(batch).rows]

    def examples(self, batches: Iterable[Batch]) -> list[Row]:
        """Read the predictions that batches kept to be drawn."""
        return [row for batch in batches for row in self.outcome(batch).examples]

    def seconds(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Add up the time that finished batches took, stage by stage."""
        return add_up(self.outcome(batch).seconds for batch in batches)

    def combine(self, batches: Iterable[Batch], path: Path) -> None:
        """Write the rows of all batches into one Parquet file."""
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise MissingExtraError("A Parquet file of all results", "pyarrow", "reproduce") from None
        table = pyarrow.Table.from_pylist(self.rows(batches))
        sink = pyarrow.BufferOutputStream()
        parquet.write_table(table.replace_schema_metadata({"credalset": json.dumps(self.settings)}), sink)
        write_file(path, bytes(sink.getvalue()))

    def _path(self, batch: Batch) -> Path:
        return self.folder / f"{batch.name}.json"

    def _check_settings(self) -> None:
        path = self.folder / SETTINGS
        if not path.exists():
            if self.folder.is_dir() and any(self.folder.glob("*.json")):
                raise FileFormatError(f"{self.folder} holds results, but no {SETTINGS}. Choose another --out.")
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            there, version = dict(found["settings"]), int(found["format_version"])
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise FileFormatError(f"{path} is damaged ({error}). Delete the folder or choose another --out.") from None
        if version != FORMAT_VERSION:
            raise FileFormatError(
                f"{path} has format version {version}; this credalset reads {FORMAT_VERSION}. Choose another --out."
            )
        names = sorted(set(there) | set(self.settings))
        other = [name for name in names if there.get(name) != self.settings.get(name)]
        if other:
            differing = "; ".join(f"{n}: {there.get(n)!r} there, {self.settings.get(n)!r} here" for n in other[:3])
            raise FileFormatError(
                f"{self.folder} holds results of other settings ({differing}). Choose another --out, or delete the "
                "folder to start afresh."
            )


def _identity(batch: Batch) -> dict[str, Any]:
    """Say which batch it is, and with which options, as JSON has it."""
    found: dict[str, Any] = json.loads(json.dumps({"batch": batch.name, "options": batch.options}))
    return found
