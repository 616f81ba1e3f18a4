"""Check the published files in the data folder, and download what is missing.

Everything is compared with checksums before it is written. What a model computed (features, logits)
cannot be downloaded as such; ``docs/reproduction.md`` says how each file is made.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np

from credalset._files import write_file

LARGEST = 200_000_000  # bytes that are read of an answer


def of_bytes(content: bytes) -> str:
    """Return the SHA-256 checksum of a file."""
    return hashlib.sha256(content).hexdigest()


def of_counts(content: bytes) -> str:
    """Return the checksum of the whole numbers in an ``.npy`` file, whatever their type."""
    counts = np.load(io.BytesIO(content), allow_pickle=False)
    return of_bytes(np.ascontiguousarray(counts.astype("<i8")).tobytes())


@dataclass(frozen=True)
class Published:
    """A published file: where it is, where it goes, and the checksum of what is in it."""

    name: str
    url: str
    checksum: str
    member: str = ""  # of a zip archive
    digest: Callable[[bytes], str] = of_bytes


NLI = "https://www.dropbox.com/s/h4j7dqszmpt2679/chaosNLI_v1.0.zip?dl=1"
FILES = (
    Published(
        "chaosNLI_v1.0/chaosNLI_snli.jsonl",
        NLI,
        "99f9015ddda7d85f66a087452bc30d53974314fe27e7d589e2f41ad44bd509c1",
        "chaosNLI_v1.0/chaosNLI_snli.jsonl",
    ),
    Published(
        "chaosNLI_v1.0/chaosNLI_mnli_m.jsonl",
        NLI,
        "8eb49b589488e7b1a9ec95fb8a864bd50f0509b4f808eed0aed3f8167617664d",
        "chaosNLI_v1.0/chaosNLI_mnli_m.jsonl",
    ),
    Published(
        "cifar10h-counts.npy",
        "https://raw.githubusercontent.com/jcpeterson/cifar-10h/master/data/cifar10h-counts.npy",
        "e3a314fdecb1f8aeb680f50fde8682d83065d5191d8fc76f0bdc86333bd7fefe",
        digest=of_counts,
    ),
)


def fetch(
    folder: Path, tell: Callable[[str], None], files: tuple[Published, ...] = FILES
) -> list[str]:
    """Check and download published files; return what is missing or wrong, one line each."""
    problems = []
    for file in files:
        path = folder / file.name
        if path.is_file():
            state = (
                "there" if _digest(file, path.read_bytes()) == file.checksum else "other content"
            )
            if state != "there":
                problems.append(
                    f"{path} differs from what was published at {file.url}: move it away"
                )
        else:
            try:
                content = _download(file)
            except (URLError, OSError, KeyError, zipfile.BadZipFile) as error:
                state = "missing"
                problems.append(f"{path} is missing; {file.url} could not be read: {error}")
            else:
                if _digest(file, content) == file.checksum:
                    write_file(path, content)
                    state = "downloaded"
                else:
                    state = "missing"
                    problems.append(f"{file.url} has other content than expected: not written")
        tell(f"{file.name}: {state}")
    return problems


def _digest(file: Published, content: bytes) -> str:
    try:
        return file.digest(content)
    except (ValueError, EOFError, OSError):
        return ""


def _download(file: Published) -> bytes:
    request = Request(file.url, headers={"User-Agent": "credalset"})
    with urlopen(request, timeout=60) as answer:
        content: bytes = answer.read(LARGEST)
    if not file.member:
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(file.member)
