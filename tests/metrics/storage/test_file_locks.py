"""Locks: one process at a time, and what is said to the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from discorank.metrics.errors import InputError, ResumeError
from discorank.metrics.storage.atomic_files import complete_folder, locked, locked_folder
from discorank.rerank.selection.comparison import SystemComparison
from discorank.rerank.selection.saved_comparison import save


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with locked(path):
        with pytest.raises(ResumeError, match="out: another process"):
            locked(path).__enter__()
        with locked(tmp_path / "other"):
            pass
    with locked(path):
        pass
    assert not path.exists()


@pytest.mark.parametrize("path", ["x" * 255, "/proc/out", "/proc/no/folder/out", "loop"])
def test_what_cannot_be_locked_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match="cannot be written"):
        locked(tmp_path / path).__enter__()


def test_links_to_a_file_are_the_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with locked(tmp_path / "out"), pytest.raises(ResumeError, match="another process"):
        locked(tmp_path / "link").__enter__()


def test_the_lock_of_a_killed_process_keeps_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "out"
    code = f"""
from pathlib import Path; from discorank.metrics.storage.atomic_files import locked
with locked(Path({str(path)!r})): print("locked", flush=True); input()
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        with pytest.raises(ResumeError, match="another process"):
            locked(path).__enter__()
        process.kill()
    assert path.with_name("out.lock").exists()
    with locked(path):
        pass


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    """The second neither takes the draft of the first away, nor mixes with it."""
    path = tmp_path / "model"
    with complete_folder(path) as draft:
        (draft / "weights").write_text("whole")
        with pytest.raises(ResumeError, match="model: another process"):
            complete_folder(path).__enter__()
    assert (path / "weights").read_text() == "whole"
    with locked_folder(path), pytest.raises(ResumeError, match="another process"):
        save(cast(SystemComparison, None), tmp_path / "model2" / ".." / "model")
