"""Small files: read whole, and refused in bounded work where they are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from discorank import InputError, load_metric
from discorank.metrics.storage.bounded_files import read_small_file
from discorank.metrics.storage.json_and_yaml import read_yaml
from discorank.metrics.storage.limits import limits
from discorank.rerank.prior import load_prior


def test_a_file_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10)
    assert read_small_file(path, "fix", 10) == b"x" * 10
    with pytest.raises(InputError, match=r"f: larger than 9 bytes. Mend it"):
        read_small_file(path, "Mend it", 9)


def test_a_sparse_file_of_a_terabyte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match=f"larger than {limits().json_bytes} bytes"):
        load_metric("combination", model=str(path))


def test_what_may_give_bytes_for_ever_is_refused(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link.yaml"
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    for path in (str(pipe), str(link), "/dev/zero"):
        with pytest.raises(InputError, match="is a device or a pipe, expected a file"):
            read_small_file(path, "fix")
        with pytest.raises(InputError, match="is a device or a pipe"):
            load_metric("combination", model=path)
        with pytest.raises(InputError, match="is a device or a pipe"):
            load_prior(path)
    with pytest.raises(InputError, match="is a device or a pipe"):
        read_yaml(link)


@pytest.mark.parametrize("name", ["missing", ".", "a\0b"])
def test_what_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_small_file(f"{tmp_path}/{name}", "fix")
