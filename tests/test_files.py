"""Files and folders are written whole or not at all; what was there before stays until then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from credalset._files import staged, write_file, write_folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones included."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_files_and_folders_are_replaced(tmp_path: Path) -> None:
    for data in (b"old", b"new"):
        write_file(tmp_path / "a" / "file", data)
        write_folder(tmp_path / "b" / "folder", {"one": data, "two": b""})
    assert contents(tmp_path) == {"a/file": b"new", "b/folder/one": b"new", "b/folder/two": b""}


def test_an_older_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    write_folder(tmp_path / "folder", {"old": b"1"})
    write_folder(tmp_path / "folder", {"new": b"2"})
    assert contents(tmp_path) == {"folder/new": b"2"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("failing", ["fsync", "replace", "rename"])
def test_a_failure_leaves_the_old_and_no_litter(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "file", b"old")
    write_folder(tmp_path / "folder", {"one": b"old"})
    before = contents(tmp_path)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os if failing == "fsync" else Path, failing, fail)
    if failing != "rename":
        with pytest.raises(OSError, match="disk full"):
            write_file(tmp_path / "file", b"new")
    if failing != "replace":
        with pytest.raises(OSError, match="disk full"):
            write_folder(tmp_path / "folder", {"one": b"new"})
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_staged_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with staged(path) as staging:
        staging.write_bytes(b"half")
        assert not path.exists()
        staging.write_bytes(b"whole")
    assert contents(tmp_path) == {"file": b"whole"}
    with pytest.raises(OSError), staged(path) as staging:
        (staging / "no folder").write_bytes(b"")
    assert contents(tmp_path) == {"file": b"whole"}


def test_contents_reach_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace, rename = os.fsync, Path.replace, Path.rename
    monkeypatch.setattr(os, "fsync", lambda fd: steps.append("sync") or fsync(fd))
    monkeypatch.setattr(Path, "replace", lambda a, b: steps.append("name") or replace(a, b))
    monkeypatch.setattr(Path, "rename", lambda a, b: steps.append("name") or rename(a, b))
    write_file(tmp_path / "file", b"1")
    write_folder(tmp_path / "folder", {"one": b"1", "two": b"2"})
    assert steps == ["sync", "name", "sync", "sync", "name"]
