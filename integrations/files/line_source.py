"""Opens a text file, plain or gzip, as a stream of lines of bytes, and refuses whole what is no UTF-8 text.

Lines end at ``\\n`` or ``\\r\\n`` and nowhere else: U+2028, U+0085 and vertical tabs are text. Whatever the file, no
more than one line and a block of it are in memory. It knows nothing of the formats.
"""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ...metrics.errors import InputError
from . import bounded_gzip as inflate

LINE_BYTES = 32 << 20
BLOCK_BYTES = 1 << 20
BLANK_LINES = 100_000
Line = tuple[int, bytes]

_MAGIC = (
    (b"\xff\xfe\x00\x00", "UTF-32 text"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
    (b"PK\x03\x04", "a zip archive or a model checkpoint"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zX", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"PAR1", "a Parquet file"),
    (inflate.GZIP_MAGIC, "gzip data inside gzip data"),
)


class LineSource:
    """The lines of a file, numbered from 1, without their ends; a single pass.

    `open_line` is the number of the last line if no newline ends it, known once that line is read.

    Args:
        path: a file, plain or gzip by its first bytes whatever its name; ``-`` is standard input.
        line_bytes: the longest line accepted.

    Raises:
        InputError: it cannot be opened. Iterating raises it where the file turns out to be no UTF-8 text (binary,
            UTF-16, another encoding, a line over `line_bytes`) or its gzip data is truncated, corrupt or a bomb.
    """

    def __init__(self, path: str | Path, *, line_bytes: int = LINE_BYTES) -> None:
        self.name = "stdin" if str(path) == "-" else str(path)
        self._line_bytes = line_bytes
        self._read_bytes = 0
        self.open_line: int | None = None
        self._file = _open(path)
        self._size_bytes = _size(self._file)

    def __iter__(self) -> Iterator[Line]:
        """The lines; to be asked for once. An iterator that is dropped closes the file."""
        return self._read()

    @property
    def stem(self) -> str:
        """The name without folders, ``.gz``, and the last ending before it."""
        return Path(self.name.removesuffix(".gz")).stem

    def fraction(self) -> float | None:
        """The share of the file read so far, of its compressed bytes for gzip; None where the end is not known."""
        if self._size_bytes is None:
            return None
        return min(1.0, self._read_bytes / self._size_bytes) if self._size_bytes else 1.0

    def close(self) -> None:
        """Closes the file; also done at its end."""
        if self._file is not getattr(sys.stdin, "buffer", None):
            self._file.close()

    def refusal(self, line: int, found: str, fix: str = "") -> InputError:
        """An error that places `found` in this file; line 0 is the file as a whole."""
        return InputError(found, where=f"{self.name}:{line}" if line else self.name, fix=fix)

    def _read(self) -> Iterator[Line]:
        number, tail = 0, bytearray()
        try:
            for block in self._text_blocks():
                for piece in (pieces := block.split(b"\n"))[:-1]:
                    number += 1
                    line = bytes(tail) + piece if tail else piece
                    tail.clear()
                    self._check_length(number, len(line))
                    yield number, line[:-1] if line.endswith(b"\r") else line
                tail += pieces[-1]
                self._check_length(number + 1, len(tail))
            if tail:
                self.open_line = number + 1
                yield number + 1, bytes(tail)
        finally:
            self.close()

    def _check_length(self, line: int, length_bytes: int) -> None:
        if length_bytes > self._line_bytes:
            raise self.refusal(
                line, f"line longer than {self._line_bytes} bytes", "Is this the right file?"
            )

    def _text_blocks(self) -> Iterator[bytes]:
        """Blocks of whole UTF-8 characters, without a byte order mark."""
        head, rest, offset, lines = b"", b"", 0, 0
        for block in _with_head(self._blocks()):
            block = rest + block
            head = head or block[:4]
            if (nul := block.find(b"\0")) >= 0:
                line = lines + block.count(b"\n", 0, nul) + 1
                raise self._refuse(
                    line,
                    f"a NUL byte at offset {offset + nul} of the text",
                    _kind(head, block, nul),
                )
            try:
                used = codecs.utf_8_decode(block, "strict", False)[1]
            except UnicodeDecodeError as error:
                line = lines + block.count(b"\n", 0, error.start) + 1
                place = offset + error.start
                raise self._refuse(
                    line, f"not UTF-8 at byte offset {place} of the text", _kind(head)
                ) from error
            yield (
                block[3:used] if offset == 0 and block.startswith(codecs.BOM_UTF8) else block[:used]
            )
            rest, offset, lines = block[used:], offset + used, lines + block.count(b"\n")
        if rest:
            raise self._refuse(
                lines + 1, f"not UTF-8 at byte offset {offset} of the text", _kind(head)
            )

    def _refuse(self, line: int, found: str, kind: str) -> InputError:
        return self.refusal(
            line, f"{found} (found {kind}), expected UTF-8 text, plain or gzip", "Convert it first"
        )

    def _blocks(self) -> Iterator[bytes]:
        """What the file holds, inflated if it is gzip."""
        blocks = _with_head(iter(lambda: self._take(BLOCK_BYTES), b""))
        head = next(blocks, b"")
        if not head.startswith(inflate.GZIP_MAGIC):
            yield head
            yield from blocks
            return
        inflater = inflate.Inflater()
        try:
            for i in range(0, len(head), inflate.BLOCK_BYTES):
                yield from inflater.inflate(head[i : i + inflate.BLOCK_BYTES])
            while block := self._take(inflate.BLOCK_BYTES, whole=True):
                yield from inflater.inflate(block)
            inflater.finish()
        except InputError as error:
            raise error.inside(self.name) from None

    def _take(self, size: int, whole: bool = False) -> bytes:
        """The next bytes of the file: `size` of them, or as soon as there are some."""
        try:
            block = self._file.read(size) if whole else self._file.read1(size)  # type: ignore[attr-defined]
        except (OSError, ValueError) as error:
            raise self.refusal(0, f"cannot be read ({error})") from error
        self._read_bytes += len(block)
        return bytes(block)


def without_trailing_blanks(source: LineSource) -> Iterator[Line]:
    """The lines, but for empty ones at the end.

    Raises:
        InputError: more than `BLANK_LINES` of them follow each other.
    """
    held: list[Line] = []
    for line in source:
        if not line[1].strip():
            held.append(line)
            if len(held) > BLANK_LINES:
                raise source.refusal(
                    held[0][0], f"more than {BLANK_LINES} empty lines", "Is this the right file?"
                )
            continue
        yield from held
        held.clear()
        yield line


def _kind(head: bytes, block: bytes = b"", nul: int = 0) -> str:
    """What a file that is no UTF-8 text seems to be."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    near = block[max(0, nul - 1) & ~1 :][:4096]
    even, odd = near[0::2].count(0), near[1::2].count(0)
    if max(even, odd) * 3 > len(near) and min(even, odd) * 4 < max(even, odd):
        return "UTF-16 text"
    return "binary data or another encoding"


def _with_head(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks, the first of at least four bytes if there are as many."""
    head = b""
    for block in blocks:
        head += block
        if len(head) >= 4:
            break
    yield head
    yield from blocks


def _open(path: str | Path) -> BinaryIO:
    if str(path) == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot be opened: {reason}", where=str(path), fix="Give a text file"
        ) from error


def _size(file: BinaryIO) -> int | None:
    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return (
        status.st_size
        if stat.S_ISREG(status.st_mode) and file is not getattr(sys.stdin, "buffer", None)
        else None
    )
