"""Install built packages into new environments and try each, as a user would.

``python tools/try_package.py dist/*.whl dist/*.tar.gz`` makes an environment for each file,
installs the file with the extra ``cli``, imports it, calibrates, and asks the command for its
version. ``--demo`` also runs ``credalset demo``, which reviews built-in data.
``--constraint FILE`` pins the other packages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

# The path is printed: a checkout imported by accident would hide files that the package lacks.
CALIBRATE = """
import credalset as cs
calibration = cs.conformalize([[0.7, 0.3]] * 20, [[3, 1]] * 20)
assert calibration.predict_set([[0.7, 0.3]], alpha=0.1).contains([[0.75, 0.25]]).all()
print(cs.__file__)
"""


def output(*command: str | Path, folder: Path) -> str:
    """Run a command in a folder and return what it printed."""
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def try_package(package: Path, constraint: Path | None, demo: bool) -> str:
    """Install one wheel or sdist into a new environment, try it, and return its version."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        venv.create(folder / "env", with_pip=True)
        programs = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        python = programs / "python"
        pins = [] if constraint is None else ["-c", str(constraint.resolve())]
        wanted = f"{package.resolve()}[cli]"
        output(python, "-m", "pip", "install", "--quiet", *pins, wanted, folder=folder)
        imported = output(python, "-I", "-c", CALIBRATE, folder=folder)
        if not Path(imported).is_relative_to(folder):
            raise SystemExit(f"{imported} was imported, which {package.name} did not install.")
        version = output(programs / "credalset", "--version", folder=folder).split()[-1]
        if version not in package.name:
            raise SystemExit(f"{package.name} installs the version {version}. Build it again.")
        if demo:
            output(programs / "credalset", "demo", folder=folder)
        return version


def main() -> None:
    """Try every package on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="+", type=Path)
    parser.add_argument("--constraint", type=Path)
    parser.add_argument("--demo", action="store_true")
    options = parser.parse_args()
    for package in options.packages:
        version = try_package(package, options.constraint, options.demo)
        print(f"{package.name}: {version} installs and works")


if __name__ == "__main__":
    main()
