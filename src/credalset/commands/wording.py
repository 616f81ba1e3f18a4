"""Messages of the library, said for the command line: options where a Python user reads of arguments."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Collection

#: arguments of the library whose options are called something else
RENAMED = {"base": "learner", "n_resamples": "resamples", "random_state": "seed"}

#: an argument with its value; a file of a folder ``region=eu/`` is none
BRACKETS = r"\[[^]]*\]|\([^)]*\)|\{[^}]*\}"
KEYWORD = re.compile(rf"""(?<![\w/'"=-])([a-z_]+)=({BRACKETS}|'[^']*'|"[^"]*"|\.\.\.|\w[\w.-]*\w|\w)(?![\w/(])""")
SUBJECT = re.compile(r"^(\w+)(?= (?:must|is|has|was|are|names|contains|as a share|'))")
TRUST = re.compile(r"(?:credalset\.)?load\(path, trusted=\[(.*?)\]\)")
PYTHON_ONLY = re.compile(r"register_score|metrics\.|\bnp\.")
PHRASES = {
    "Pass groups to conformalize too": "Calibrate with groups first",
    "Pass one key per item.": "Name the column that holds them: --groups.",
    "Convert them before: pd.to_datetime(table['when'], dayfirst=True) reads dates such as 02.01.2025.": (
        "Write them as 2025-01-02T14:45."
    ),
    "Leave time out": "Leave --time out",
}
OF_SCALE = {
    "that are not in classes": "that are not in --scale",
    "Correct them, extend classes,": "Merge them with others (--rename), extend --scale,",
}
OF_LOGITS = {
    "apply a softmax if these are logits": "say --logits if these are logits",
    "counts cannot be negative.": "counts cannot be negative; say --logits if these are logits.",
}


def for_terminal(message: str, options: Collection[str]) -> str:
    """Say a message of the library with the options of a command, given by their Python names.

    Advice on an argument that the command has no option for is left out.

    Examples
    --------
    >>> for_terminal("votes.csv has a vote without label. Pass missing='drop' to leave it out.", ["missing"])
    'votes.csv has a vote without label. Pass --missing drop to leave it out.'
    >>> for_terminal("alpha must lie strictly between 0 and 1, but is 2.0.", ["alpha"])
    '--alpha must lie strictly between 0 and 1, but is 2.0.'
    >>> for_terminal("There is only one class. Pass classes=[...] with every label.", ["missing"])
    'There is only one class.'
    """
    flags = {name: "--" + name.replace("_", "-") for name in options}
    flags |= {name: flags[option] for name, option in RENAMED.items() if option in flags}
    further = {**(OF_LOGITS if "logits" in flags else {}), **(OF_SCALE if "scale" in flags else {})}
    for phrase, said in {**PHRASES, **further}.items():
        message = message.replace(phrase, said)
    message = TRUST.sub(lambda found: f"--trust {_value(f'[{found[1]}]')}", message)
    message = SUBJECT.sub(lambda found: flags.get(found[1], found[1]), message)
    first, *rest = re.split(r"(?<=[.?]) (?=[A-Z])", message)
    useful = [
        part for part in rest if not PYTHON_ONLY.search(part) and all(k in flags for k, _ in KEYWORD.findall(part))
    ]
    return " ".join(KEYWORD.sub(lambda found: _option(found, flags), part) for part in [first, *useful])


def _option(found: re.Match[str], flags: dict[str, str]) -> str:
    name, value = found.groups()
    return f"{flags[name]} {_value(value)}".rstrip() if name in flags else found[0]


def _value(written: str) -> str:
    """Write a Python value as a word of the shell."""
    if written in ("...", "[...]", "True"):
        return ""
    try:
        value = ast.literal_eval(written)
    except (ValueError, SyntaxError):  # a word
        value = written
    if isinstance(value, dict):
        words = [f"{old}={'...' if new is ... else new}" for old, new in value.items()]
    else:
        words = [str(word) for word in value if word != ""] if isinstance(value, list | tuple) else [str(value)]
    return shlex.quote("" if value is None else ",".join(words))
