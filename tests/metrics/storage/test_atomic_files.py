"""Files and folders that take their names when they are whole: full disks, writers that were killed."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from discorank.metrics.errors import ResourceError
from discorank.metrics.storage.atomic_files import complete_file, complete_folder, own_draft


def by_torch() -> None:
    try:
        raise OSError(errno.ENOSPC, "No space left on device")
    except OSError:
        raise RuntimeError("[enforce fail] . unexpected pos 576 vs 534")  # noqa: B904  as torch.save does


def by_safetensors() -> None:
    raise SafetensorError("Error while serializing: I/O error: No space left (os error 28)")


@pytest.mark.parametrize("write", [by_torch, by_safetensors])
@pytest.mark.parametrize("complete", [complete_file, complete_folder])
def test_a_full_disk_is_no_internal_error(
    write: Callable[[], None], complete: Callable[[Path], Any], tmp_path: Path
) -> None:
    refused = pytest.raises(ResourceError, match="No space left on device")
    with refused, complete(tmp_path / "target"):
        write()
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []


@pytest.mark.parametrize("complete", [complete_file, complete_folder])
def test_other_errors_stay_what_they_are(complete: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a mistake"), complete(tmp_path / "target"):
        raise RuntimeError("a mistake")
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []


def killed(code: str, folder: Path) -> None:
    """Runs Python code, in which FOLDER is a folder, in a process that kills itself."""
    imports = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from discorank.metrics.storage import atomic_files as files\n"
        f"FOLDER = Path({str(folder)!r})\n"
        "def die(*place): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    done = subprocess.run([sys.executable, "-c", imports + code], check=False, env=environment)
    assert done.returncode == -signal.SIGKILL


def write_folder(folder: Path, text: str) -> None:
    with complete_folder(folder) as draft:
        (draft / "text").write_text(text)


# between its two renames, in which the folder is away and the draft has not its name yet
BETWEEN_RENAMES = """
replace = os.replace
def replace_or_die(old, new):
    if str(old).endswith(".draft"):
        die()
    replace(old, new)
os.replace = replace_or_die
with files.complete_folder(FOLDER / "model") as draft:
    (draft / "text").write_text("second")
"""


def test_a_folder_that_a_killed_run_had_put_away_comes_back(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", "first")
    killed(BETWEEN_RENAMES, tmp_path)
    assert not (tmp_path / "model").exists()
    with pytest.raises(RuntimeError), complete_folder(tmp_path / "model"):
        raise RuntimeError("what comes next fails")
    assert (tmp_path / "model" / "text").read_text() == "first"
    write_folder(tmp_path / "model", "third")
    assert (tmp_path / "model" / "text").read_text() == "third"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".model.lock", "model"]


def write_own(path: Path, text: bytes) -> None:
    with own_draft(path) as file, complete_file(path, Path(file.name)), file:
        file.write(text)


def drafts(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.suffix == ".draft"]


def test_drafts_of_killed_writers_are_removed_and_those_at_work_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    killed('with files.own_draft(FOLDER / "page.html"): die()', tmp_path)
    killed('with files.own_draft(FOLDER / "other.html"): die()', tmp_path)
    (tmp_path / ".page.html.notes").write_text("of somebody else")
    assert len(drafts(tmp_path)) == 2
    with own_draft(page) as file, complete_file(page, Path(file.name)):
        with file:
            file.write(b"first")
        write_own(page, b"second")  # the one that is being written, closed or not, is not touched
        with own_draft(page) as third:
            assert {Path(file.name).name, Path(third.name).name} < set(drafts(tmp_path))
    third.close()
    assert page.read_bytes() == b"first"
    write_own(page, b"fourth")
    assert page.read_bytes() == b"fourth"
    (left,) = drafts(tmp_path)
    assert left.startswith(".other.html.")
    assert (tmp_path / ".page.html.notes").exists()


def test_a_draft_that_was_removed_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    lock = fcntl.flock

    def late(file: Any, how: int) -> None:
        if not taken:
            taken.append(file.name)
            os.unlink(file.name)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    write_own(tmp_path / "page", b"whole")
    assert taken
    assert (tmp_path / "page").read_bytes() == b"whole"
