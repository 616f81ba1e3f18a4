"""Finished batches on disk: one Parquet file each, written atomically, so that stopping loses nothing.

A folder belongs to one experiment with one set of settings. Each file says in its metadata which batch it is and with
which options it was computed; anything damaged or foreign is refused rather than mixed in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from credalset._files import write_file
from credalset.exceptions import FileFormatError, MissingExtraError
from credalset.experiments.batch import MEASURED, Batch, Outcome, Row, add_up, with_seeds

FORMAT_VERSION = 1
SETTINGS = "settings.json"
_METADATA = b"credalset"

#: columns of the result rows, and of the examples to draw, with their Arrow types
COLUMNS = {"experiment": "string", "part": "string", "seed": "int64", "score": "string", "alpha": "float64"}
COLUMNS |= dict.fromkeys(("n_classes", "n_votes", "n_train", "n_calibration", "n_test"), "int64")
COLUMNS |= dict.fromkeys(MEASURED, "float64")
EXAMPLE_COLUMNS = {"part": "string", "seed": "int64", "score": "string", "alpha": "float64", "n_votes": "int64"}
EXAMPLE_COLUMNS |= {"item": "int64", "prediction": "list", "threshold": "float64", "label": "list", "truth": "list"}


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
        _parquet()
        self._check_settings()

    def is_done(self, batch: Batch) -> bool:
        """Tell whether a batch is finished; a file that cannot be trusted raises `FileFormatError`.

        A batch that should have examples and has none that can be read is not finished: figures would be missing.
        """
        if not self._path(batch).is_file():
            return False
        metadata, path = self._metadata(batch), self._examples_path(batch)
        expected = metadata.get("examples")  # a number; files of the first versions do not say
        if not path.is_file():
            return not expected
        try:
            table = _read(path)
        except FileFormatError:
            return False
        return _metadata_of(table).get("options") == metadata["options"] and expected in (None, table.num_rows)

    def started(self, batch: Batch) -> Batch | None:
        """Return the largest finished batch that has the first seeds of this one and nothing else."""
        return next((one for one in self._shorter(batch) if self.is_done(one)), None)

    def outcome(self, batch: Batch) -> Outcome:
        """Read what a finished batch gave."""
        return Outcome(self.rows([batch]), self.examples([batch]), self.seconds([batch]))

    def delete_shorter(self, batch: Batch) -> None:
        """Remove batches that have nothing but the first seeds of this one; the file with the rows goes first."""
        for shorter in self._shorter(batch):
            self._path(shorter).unlink(missing_ok=True)
            self._examples_path(shorter).unlink(missing_ok=True)

    def _shorter(self, batch: Batch) -> Iterator[Batch]:
        seeds = batch.options.get("seeds", [])
        return (with_seeds(batch, seeds[:n]) for n in range(len(seeds) - 1, 0, -1))

    def write(self, batch: Batch, outcome: Outcome) -> None:
        """Keep the outcome of a batch. The file with the rows comes last: once it is there, the batch is done."""
        if not (self.folder / SETTINGS).is_file():
            text = json.dumps({"format_version": FORMAT_VERSION, "settings": self.settings}, indent=2)
            write_file(self.folder / SETTINGS, text.encode())
        metadata: dict[str, Any] = {"batch": batch.name, "options": digest(batch.options)}
        metadata |= {"seconds": outcome.seconds, "examples": len(outcome.examples)}
        if outcome.examples:
            write_file(self._examples_path(batch), _to_bytes(outcome.examples, EXAMPLE_COLUMNS, metadata))
        write_file(self._path(batch), _to_bytes(outcome.rows, COLUMNS, metadata))

    def rows(self, batches: Iterable[Batch]) -> list[Row]:
        """Read the result rows of finished batches, in the order of the batches."""
        return [row for batch in batches for row in _read(self._path(batch)).to_pylist()]

    def examples(self, batches: Iterable[Batch]) -> list[Row]:
        """Read the predictions that batches kept to be drawn."""
        paths = [self._examples_path(batch) for batch in batches]
        return [row for path in paths if path.is_file() for row in _read(path).to_pylist()]

    def seconds(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Add up the time that finished batches took, stage by stage."""
        return add_up(self._metadata(batch)["seconds"] for batch in batches)

    def combine(self, batches: Iterable[Batch], path: Path) -> None:
        """Write the rows of all batches into one Parquet file."""
        write_file(path, _to_bytes(self.rows(batches), COLUMNS, {"settings": self.settings}))

    def _path(self, batch: Batch) -> Path:
        return self.folder / f"{batch.name}.parquet"

    def _examples_path(self, batch: Batch) -> Path:
        return self.folder / f"{batch.name}.examples.parquet"

    def _metadata(self, batch: Batch) -> dict[str, Any]:
        path = self._path(batch)
        metadata = _metadata_of(_read(path))
        if metadata.get("batch") != batch.name or metadata.get("options") != digest(batch.options):
            raise FileFormatError(
                f"{path} holds another batch than {batch.name} with these options. Choose another --out, or delete it."
            )
        return metadata

    def _check_settings(self) -> None:
        path = self.folder / SETTINGS
        if not path.exists():
            if self.folder.is_dir() and any(self.folder.glob("*.parquet")):
                raise FileFormatError(f"{self.folder} holds results, but no {SETTINGS}. Choose another --out.")
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            there, version = dict(found["settings"]), int(found["format_version"])
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise FileFormatError(f"{path} is damaged ({error}). Delete the folder or choose another --out.") from None
        if version > FORMAT_VERSION:
            raise FileFormatError(f"{path} has format version {version}; this credalset reads up to {FORMAT_VERSION}.")
        names = sorted(set(there) | set(self.settings))
        other = [name for name in names if there.get(name) != self.settings.get(name)]
        if other:
            differing = "; ".join(f"{n}: {there.get(n)!r} there, {self.settings.get(n)!r} here" for n in other[:3])
            raise FileFormatError(
                f"{self.folder} holds results of other settings ({differing}). Choose another --out, or delete the "
                "folder to start afresh."
            )


def digest(options: dict[str, Any]) -> str:
    """Return a checksum of plain JSON values, whatever their order."""
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


def _metadata_of(table: Any) -> dict[str, Any]:
    found = (table.schema.metadata or {}).get(_METADATA)
    metadata: dict[str, Any] = json.loads(found) if found is not None else {}
    return metadata


def _parquet() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Keeping results in Parquet files", "pyarrow", "reproduce") from None
    return pyarrow


def _to_bytes(rows: list[Row], columns: dict[str, str], metadata: dict[str, Any]) -> bytes:
    arrow = _parquet()
    types = {"list": arrow.list_(arrow.float64())}
    fields = [arrow.field(name, types.get(kind) or arrow.type_for_alias(kind)) for name, kind in columns.items()]
    schema = arrow.schema(fields, metadata={_METADATA: json.dumps(metadata).encode()})
    sink = arrow.BufferOutputStream()
    arrow.parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), sink)
    return bytes(sink.getvalue())


def _read(path: Path) -> Any:
    arrow = _parquet()
    try:
        return arrow.parquet.read_table(arrow.BufferReader(path.read_bytes()))
    except (arrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileFormatError(
            f"{path} is damaged ({reason}). Delete it and start again: only its runs are repeated."
        ) from None
