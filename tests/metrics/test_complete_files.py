"""Files and folders that take their names when they are whole: what libraries say of a full disk is understood."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from discorank.metrics.complete_files import complete_file, complete_folder
from discorank.metrics.errors import ResourceError


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
