"""Print the oldest versions that pyproject.toml allows, as pins for ``pip install``.

``make minimum`` installs them and runs the tests: a lower bound that nobody tries is a guess.
Packages named on the command line are left out: PyTorch, unless ``make minimum LEFT_OUT=`` asks for
it, as the oldest one on the package index brings 5 GB for graphics cards.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

EXTRAS = ("tables", "cli", "plot", "torch", "dask", "reproduce", "test")
BOUND = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?>=([0-9][^,;]*)")


def lower_bounds(pyproject: Path, extras: tuple[str, ...] = EXTRAS) -> list[str]:
    """Return ``name==version`` for every requirement of the package and of these extras."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    found = (BOUND.match(line) for line in wanted)
    return sorted({f"{match[1]}=={match[2].strip()}" for match in found if match})


if __name__ == "__main__":
    left_out = set(sys.argv[1:])
    pins = lower_bounds(Path(__file__).resolve().parents[1] / "pyproject.toml")
    print("\n".join(pin for pin in pins if pin.split("==")[0] not in left_out))
