"""Small files: read whole, and refused in bounded work where they are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from discorank import InputError
from discorank.metrics.storage.bounded_files import read_small_file


def test_a_file_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10)
    assert read_small_file(path, "fix", 10) == b"x" * 10
    with pytest.raises(InputError, match="larger than 9 bytes"):
        read_small_file(path, "Mend it", 9)


@pytest.mark.parametrize("name", ["missing", ".", "a\0b"])
def test_what_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_small_file(f"{tmp_path}/{name}", "fix")
