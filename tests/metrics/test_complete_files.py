"""Files and folders that take their names when they are whole: what libraries say of a full disk is understood."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from discorank.metrics.complete_files import complete_file, complete_folder
from discorank.metrics.errors import ResourceError


class FullDisk(io.RawIOBase):
    """A file on a disk without room."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def by_torch() -> None:
    torch.save({"weights": torch.zeros(1000)}, FullDisk())  # type: ignore[arg-type]


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
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("complete", [complete_file, complete_folder])
def test_other_errors_stay_what_they_are(complete: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a mistake"), complete(tmp_path / "target"):
        raise RuntimeError("a mistake")
    assert list(tmp_path.iterdir()) == []
