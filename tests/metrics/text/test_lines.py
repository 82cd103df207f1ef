"""Numbered lines of text files."""

import bz2
import gzip
from pathlib import Path

import pytest

from discorank import InputError
from discorank.metrics.text.lines import numbered_lines

DATA = "a\n\nÄ b\n".encode()


@pytest.mark.parametrize(
    ("name", "data"), [("x", DATA), ("x.gz", gzip.compress(DATA)), ("x.bz2", bz2.compress(DATA))]
)
def test_lines_that_are_not_blank_keep_their_numbers(
    tmp_path: Path, name: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    assert list(numbered_lines(tmp_path / name, "")) == [(1, "a\n"), (3, "Ä b\n")]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x", b"\xff"),
        ("x.gz", DATA),
        ("x.gz", gzip.compress(DATA)[:-9]),
        ("x.gz", gzip.compress(DATA * 99)[:12] + b"\xff" * 5),
        ("x.bz2", DATA),
        ("x", None),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, name: str, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}: cannot be read: \w+\. Mend it"):
        list(numbered_lines(tmp_path / name, "Mend it"))
