"""Parse JSON and delimited text piece by piece, so that memory does not grow with the file."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any

from credalset.exceptions import FileFormatError

CHUNK = 1 << 16
WHITE = " \t\r\n"
DELIMITERS = ",\t;|"
#: how close to the end of what was read an error must be for the rest to explain it: the longest escape or number part
NEAR_THE_END = 32
#: what may follow the part of a number that was read: nothing, or what only further digits make sense of
NUMBER_GOES_ON = {"", ".", "e", "E", "e+", "e-", "E+", "E-"}

Batch = dict[str, list[Any]]


def as_text(stream: io.BufferedReader, encoding: str | None) -> io.TextIOWrapper:
    """Decode a stream: UTF-8 unless a byte order mark or the caller says otherwise."""
    if encoding is None:
        encoding = "utf-16" if stream.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return io.TextIOWrapper(stream, encoding=encoding, newline="")
    except LookupError:
        stream.close()
        raise ValueError(f"encoding={encoding!r} is unknown to Python. Try 'utf-8', 'cp1252' or 'latin-1'.") from None


class JsonStream:
    """Values of a JSON file one after the other: elements of one array, or documents in a row (JSON Lines)."""

    def __init__(self, stream: IO[str], name: str) -> None:
        self.stream, self.name = stream, name
        self.buffer, self.position, self.line, self.ended = "", 0, 1, False
        self.decoder = json.JSONDecoder()

    def __iter__(self) -> Iterator[Any]:
        if self._next_character() == "[":
            self.position += 1
            yield from self._elements()
            if self._next_character():
                raise self._fault("more text after the end of its list")
            return
        while self._next_character():
            yield self._value()

    def _elements(self) -> Iterator[Any]:
        if self._next_character() == "]":
            self.position += 1
            return
        while True:
            yield self._value()
            following = self._next_character()
            self.position += 1
            if following == "]":
                return
            if following != ",":
                raise self._fault("a comma missing" if following else "no end: it is cut short")
            self._next_character()

    def _value(self) -> Any:
        """Decode the value that starts at the position, reading on while it is incomplete."""
        while True:
            try:
                value, end = self.decoder.raw_decode(self.buffer, self.position)
            except json.JSONDecodeError as error:
                incomplete = error.pos >= len(self.buffer) - NEAR_THE_END or "Unterminated" in error.msg
                if incomplete and self._read_more():
                    continue
                what = "no end: it is cut short" if self.ended and incomplete else f"an error ({error.msg})"
                self.line += self.buffer.count("\n", self.position, error.pos)
                raise self._fault(what) from None
            except ValueError as error:  # a number with thousands of digits
                raise self._fault(f"an error ({error})") from None
            # Objects, lists and texts end where they end; of "12.5" the decoder takes 12 when only "12." was read.
            if self.buffer[end : end + 3] not in NUMBER_GOES_ON or not self._read_more():
                self.line += self.buffer.count("\n", self.position, end)
                self.position = end
                return value

    def _next_character(self) -> str:
        """Skip white space; return the next character without taking it, empty at the end."""
        while True:
            while self.position < len(self.buffer) and self.buffer[self.position] in WHITE:
                self.line += self.buffer[self.position] == "\n"
                self.position += 1
            if self.position < len(self.buffer):
                return self.buffer[self.position]
            if not self._read_more():
                return ""

    def _read_more(self) -> bool:
        """Read on, twice as much as is at hand, so that a long value costs no more than its length."""
        if self.ended:
            return False
        more = self.stream.read(max(CHUNK, len(self.buffer) - self.position))
        if not more:
            self.ended = True
            return False
        self.buffer = self.buffer[self.position :] + more
        self.position = 0
        return True

    def _fault(self, what: str) -> FileFormatError:
        return FileFormatError(f"{self.name} has {what}, in line {self.line}. Export it again, or mend the line.")


def guess_delimiter(start: str, name: str) -> str:
    """Return the delimiter that splits the first line into the most fields, and most other lines into as many."""
    best, fields = "", 1
    for delimiter in DELIMITERS:
        try:
            rows = [len(row) for row in csv.reader(io.StringIO(start), delimiter=delimiter) if row]
        except csv.Error:
            continue
        complete = rows[:-1] if len(rows) > 1 else rows  # the last line may be cut
        if complete and complete[0] > fields and 2 * complete.count(complete[0]) > len(complete):
            best, fields = delimiter, complete[0]
    if not best:
        first = start.splitlines()[0][:60] if start.strip() else ""
        raise FileFormatError(
            f"{name} starts with {first!r}, which is neither JSON nor a line of names split by commas, tabs, "
            "semicolons or bars, with lines like it below. Name the delimiter: delimiter=..."
        )
    return best


def delimited_batches(stream: IO[str], name: str, delimiter: str, size: int) -> Iterator[Batch]:
    """Yield the columns of a table under a line of names, some thousand rows at a time; cells are texts."""
    largest = csv.field_size_limit(sys.maxsize)  # texts beyond 128 kB are legal; set back when done
    try:
        rows = csv.reader(stream, delimiter=delimiter, strict=True)
        header = [cell.strip() for cell in next(rows, [])]
        if len(set(header)) < len(header):
            repeated = next(cell for cell in header if header.count(cell) > 1)
            raise FileFormatError(f"{name} has several columns called {repeated!r}. Give each a name of its own.")
        first = True
        while (lines := list(islice(rows, size))) or first:
            kept = [row for row in lines if row] if [] in lines else lines
            if set(map(len, kept)) - {len(header)}:
                raise _uneven(name, header, kept, rows.line_num)
            columns = zip(*kept, strict=True) if kept else ([] for _ in header)
            yield {key: list(column) for key, column in zip(header, columns, strict=True)}
            first = False
    except csv.Error as error:
        raise FileFormatError(f"{name} is no table: {error}, in line {rows.line_num}.") from None
    finally:
        csv.field_size_limit(largest)


def _uneven(name: str, header: list[str], rows: list[list[str]], last_line: int) -> FileFormatError:
    row = next(row for row in rows if len(row) != len(header))
    start = ", ".join(row)[:40]
    return FileFormatError(
        f"{name} has {len(row)} fields in the row that starts with {start!r}, before line {last_line + 1}, but "
        f"{len(header)} column names. A text that holds the delimiter must stand in quotes."
    )
