"""Numbered lines of text files, of files that were made to fill the memory too."""

import bz2
import gzip
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from discorank import InputError, use_limits
from discorank.metrics.storage import bounded_inflation
from discorank.metrics.text.sentence_splitting import numbered_lines

DATA = "a\n\nÄ b\n".encode()


@pytest.mark.parametrize(
    ("name", "data"),
    [("x", DATA), ("x.gz", gzip.compress(DATA, mtime=0)), ("x.bz2", bz2.compress(DATA))],
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
        ("x.gz", gzip.compress(DATA, mtime=0)[:-9]),
        ("x.gz", gzip.compress(DATA * 99, mtime=0)[:12] + b"\xff" * 5),
        ("x.bz2", DATA),
        ("x", None),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, name: str, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}: "):
        list(numbered_lines(tmp_path / name, "Mend it"))


def test_lines_end_as_in_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a\r\nb\rc\r\r\nd\x0be\xe2\x80\xa8f\n \ng\r")
    with path.open(encoding="utf-8") as lines:
        expected = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    assert list(numbered_lines(path, "")) == expected


def test_packed_files_may_have_many_members(tmp_path: Path) -> None:
    path = tmp_path / "x"
    texts = [f"{i}\n".encode() for i in range(5000)]
    expected = [(i + 1, f"{i}\n") for i in range(5000)]
    path.with_suffix(".gz").write_bytes(b"".join(map(gzip.compress, texts)))
    assert list(numbered_lines(path.with_suffix(".gz"), "")) == expected
    path.with_suffix(".bz2").write_bytes(b"".join(map(bz2.compress, texts)) + b"no member")
    assert list(numbered_lines(path.with_suffix(".bz2"), "")) == expected


def test_bzip2_is_read_across_the_limits_of_blocks_and_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"{i * i} Ä\n" for i in range(300))
    path = tmp_path / "x.bz2"
    path.write_bytes(bz2.compress(text[:999].encode()) + bz2.compress(text[999:].encode()))
    for size in (1, 2, 7, 50):
        monkeypatch.setattr(bounded_inflation, "PIECE_BYTES", size)
        monkeypatch.setattr(bounded_inflation, "SLICE_BYTES", size)
        assert "".join(line for _, line in numbered_lines(path, "")) == text


@pytest.mark.parametrize(
    ("name", "opened"), [("x", open), ("x.gz", gzip.open), ("x.bz2", bz2.open)]
)
def test_an_endless_line_is_refused_in_bounded_memory(
    tmp_path: Path, name: str, opened: Callable[..., BinaryIO]
) -> None:
    with opened(tmp_path / name, "wb") as file:
        for _ in range(24):
            file.write(b"0" * (1 << 20))
    with use_limits(line_bytes=1 << 20):
        # the line as it grows, and the blocks
        limit_bytes = (3 << 20) + (12 << 20)
        assert_refused_in_bounded_memory(tmp_path / name, r":1: .*1048576 bytes", limit_bytes)


@pytest.mark.parametrize(
    ("name", "compress", "form", "line"),
    [
        ("x.gz", gzip.compress, "gzip", b"\n"),
        ("x.gz", gzip.compress, "gzip", b"word 1 2 3\n"),
        ("x.bz2", bz2.compress, "bzip2", b"word 1 2 3\n"),
        pytest.param("x.bz2", bz2.compress, "bzip2", b"\n", marks=pytest.mark.slow),
    ],
)
def test_a_bomb_is_refused_in_bounded_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    compress: Callable[[bytes], bytes],
    form: str,
    line: bytes,
) -> None:
    monkeypatch.setattr(bounded_inflation, "FREE_BYTES", 1 << 18)
    monkeypatch.setattr(bounded_inflation, "BLOCK_BYTES", (1 << 18) // 400)
    monkeypatch.setattr(bounded_inflation, "PIECE_BYTES", 1 << 14)
    path = tmp_path / name
    path.write_bytes(compress(line * ((1 << 20) // len(line))) * 12)
    message = rf": {form} .* 400 times"
    assert_refused_in_bounded_memory(path, message, 4 << 20)


def assert_refused_in_bounded_memory(path: Path, message: str, limit_bytes: int) -> None:
    """Reading a file ends with an error that says so, before much of it is in memory."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=re.escape(path.name) + message):
            for _ in numbered_lines(path, "Mend it"):
                pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit_bytes
