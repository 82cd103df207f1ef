"""Locks: one process at a time, and what is said to the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from discorank.metrics.errors import InputError, ResumeError
from discorank.metrics.file_locks import locked


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with locked(path):
        with pytest.raises(ResumeError, match=r"out: another process is writing it\. Wait"):
            locked(path).__enter__()
        with locked(tmp_path / "other"):
            pass
    with locked(path):
        pass
    assert not path.exists()


def test_a_lock_file_of_its_own(tmp_path: Path) -> None:
    with locked(tmp_path, tmp_path / ".lock"):
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]
        with pytest.raises(ResumeError, match="another process"):
            locked(tmp_path, tmp_path / ".lock").__enter__()


def test_what_cannot_be_locked_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be written: File name too long"):
        locked(tmp_path / ("x" * 255)).__enter__()
