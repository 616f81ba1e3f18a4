"""Words on standard error, and on standard output: notes, messages, verdicts in colour."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: what stands out on a terminal: the beginning of a line, and verdicts in a column of a table
COLOURS = {
    r"(?m)^error:": "bold red",
    r"(?m)^note:": "cyan",
    r"(?m)(?<=:  )credalset .*$|(?<=:   )credalset .*$": "bold",
    r"(?m)(?<=  )(valid)(?=  )|^The sets are valid\b|^Certified\b|, certified$": "green",
    r"(?m)(?<=  )undercovers(?=  )|^The sets cover too (few|little)\b": "bold red",
    r"(?m)(?<=  )(overcovers|not tested)(?=  )": "yellow",
    r"(?m)\b[Nn]ot certified\b|^Nothing .* certified": "yellow",
    r"(?m)^accept(?=   )": "green",
    r"(?m)^ask(?=   )": "blue",
    r"(?m)^divided(?=   )": "magenta",
    r"(?m)^expert(?=   )": "yellow",
}


def visible(text: Any) -> str:
    """Return a text with control characters escaped; names in files cannot control the terminal."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))


def say(text: str) -> None:
    """Print words to standard error, so that data can be piped."""
    _print(text, stderr=True)


def tell(result: Any) -> None:
    """Print a result to standard output, as plain text unless it is a terminal."""
    if Console().is_terminal:
        _print(str(result), stderr=False)
    else:
        typer.echo(visible(result))


def _print(text: str, *, stderr: bool) -> None:
    """Print with colours on a terminal only, and not if NO_COLOR is set."""
    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)
    words = Text(visible(text))
    for pattern, style in COLOURS.items():
        words.highlight_regex(pattern, style)
    console.print(words)


def note(sentence: str) -> None:
    """Print a note to standard error."""
    say(f"note: {sentence}")


def say_next(*steps: tuple[str, Sequence[Any]]) -> None:
    """Print what to type next: what each command is for, and its words after ``credalset``."""
    width = max(len(purpose) for purpose, _ in steps)
    for purpose, words in steps:
        say(f"{purpose + ':':{width + 1}}  credalset {shlex.join(map(str, words))}")


def spelled(sentence: str, options: Mapping[str, str]) -> str:
    """Write the arguments that a message of the library names as options of a command.

    Arguments are the first word of a message, words with an underscore, and ``name=`` or
    ``name='value'``.

    Examples
    --------
    >>> options = {"id": "--id", "in_hand": "--in-hand", "method": "--method"}
    >>> spelled("id names the column 'id', not in_hand. Set method='panel'.", options)
    "--id names the column 'id', not --in-hand. Set --method panel."
    """

    def option(match: re.Match[str]) -> str:
        word = match["first"] or match["name"] or match["long"]
        if word not in options:
            return match[0]
        value = match["value"]
        return options[word] + (f" {value.strip(chr(39))}" if value else "")

    first = r"^(?P<first>\w+)(?= )"
    named = r"(?<![\w'.-])(?P<name>\w+)=(?P<value>'[^' ]*'|[\w…]*)"
    long = r"(?<![\w'.-])(?P<long>[a-z]+(?:_[a-z]+)+)(?![\w'(.]\w)"
    return re.sub(f"{first}|{named}|{long}", option, sentence)
