"""The lines of a text file, plain or packed, as bytes; what is no UTF-8 text is refused whole.

Lines end at ``\\n`` or ``\\r\\n`` and nowhere else: U+2028, U+0085 and vertical tabs are text. Whatever the file, no
more than one line and a block of it are in memory. It knows nothing of the formats.
"""

from __future__ import annotations

import codecs
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from ..errors import InputError, near_files
from . import bounded_inflation as inflation
from .bundled_files import hint, shown_name
from .limits import limits, more

Line = tuple[int, bytes]  # its number, from 1, and what stands there


class NumberedLines(Protocol):
    """Lines numbered from 1, in a single pass."""

    name: str

    def __iter__(self) -> Iterator[Line]:
        """The lines with their numbers."""

    def fraction(self) -> float | None:
        """The share of the file read so far, None where its end is not known."""

    def close(self) -> None:
        """Closes the file."""

    def refusal(self, line: int, problem: str, fix: str = "") -> InputError:
        """An error that places `problem` in this file; line 0 is the file as a whole."""


BLOCK_BYTES = 1 << 20
BLANK_LINES = 100_000
Packing = Literal["plain", "gzip", "bzip2"]

_MAGIC = (
    (b"\xff\xfe\x00\x00", "UTF-32 text"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
    (b"PK\x03\x04", "a zip archive or a model checkpoint"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zX", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"PAR1", "a Parquet file"),
    (inflation.GZIP_MAGIC, "gzip data inside gzip data"),
)
_COPY_AGAIN = "Copy it or write it again"


class LineSource:
    """The lines of a file, numbered from 1, without their ends; a single pass.

    `open_line` is the number of the last line if no newline ends it, known once that line is read.

    Args:
        path: a file; ``-`` is standard input.
        line_bytes: the longest line accepted; the limit of this name if not given.
        packing: how the file is packed; None for plain or gzip by its first bytes, whatever its name.
        file: the opened file, where it is not to be opened; `path` is its name then.

    Raises:
        InputError: it cannot be opened. Iterating raises it where the file turns out to be no UTF-8 text (binary,
            UTF-16, another encoding, a line over `line_bytes`) or its packed data is truncated, corrupt or a bomb.
            Its cause is the error of the file, of the unpacking or of the decoding; a bound that is passed has none.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        line_bytes: int | None = None,
        packing: Packing | None = None,
        file: BinaryIO | None = None,
    ) -> None:
        self.name = "stdin" if str(path) == "-" else shown_name(path)
        self._line_bytes = limits().line_bytes if line_bytes is None else line_bytes
        self._packing = packing
        self._read_bytes = 0
        self.open_line: int | None = None
        self._file = _open(path) if file is None else file
        self._size_bytes = _size(self._file)

    def __iter__(self) -> Iterator[Line]:
        """The lines; to be asked for once. An iterator that is dropped closes the file."""
        return self._read()

    @property
    def stem(self) -> str:
        """The name without folders, ``.gz``, and the last ending before it."""
        return Path(self.name.removesuffix(".gz")).stem

    def fraction(self) -> float | None:
        """The share of the file read so far, of its packed bytes if it is packed; None where the end is not known."""
        if self._size_bytes is None:
            return None
        return min(1.0, self._read_bytes / self._size_bytes) if self._size_bytes else 1.0

    def close(self) -> None:
        """Closes the file; also done at its end."""
        if self._file is not getattr(sys.stdin, "buffer", None):
            self._file.close()

    def refusal(self, line: int, problem: str, fix: str = "") -> InputError:
        """An error that places `problem` in this file; line 0 is the file as a whole."""
        where = f"{self.name}:{line}" if line else self.name
        return InputError(problem, where=where, fix=fix)

    def _read(self) -> Iterator[Line]:
        number = 0  # of the last line that is complete
        tail = bytearray()  # the start of the next one
        try:
            for block in self._text_blocks():
                *ends, start = block.split(b"\n")
                for end in ends:
                    number += 1
                    line = bytes(tail) + end if tail else end
                    tail.clear()
                    self._check_length(number, len(line))
                    yield number, line[:-1] if line.endswith(b"\r") else line
                tail += start
                self._check_length(number + 1, len(tail))
            if tail:
                self.open_line = number + 1
                yield number + 1, bytes(tail)
        finally:
            self.close()

    def _check_length(self, line: int, length_bytes: int) -> None:
        if length_bytes > self._line_bytes:
            raise self.refusal(
                line,
                f"line longer than {self._line_bytes} bytes",
                more("line_bytes"),
            )

    def _text_blocks(self) -> Iterator[bytes]:
        """Blocks of whole UTF-8 characters, without a byte order mark."""
        head = b""  # the first bytes of the text
        rest = b""  # the start of a character that ends in the next block
        offset = lines = 0  # bytes and lines of text before the block
        for added in _with_head(self._blocks()):
            block = rest + added
            head = head or block[:4]
            try:
                whole_bytes = _whole_characters(block)
            except UnicodeDecodeError as error:
                line = lines + block.count(b"\n", 0, error.start) + 1
                raise self._no_text(line, offset + error.start, head, error) from error
            has_mark = offset == 0 and block.startswith(codecs.BOM_UTF8)
            yield block[3:whole_bytes] if has_mark else block[:whole_bytes]
            rest = block[whole_bytes:]
            offset += whole_bytes
            lines += block.count(b"\n")
        try:
            rest.decode()
        except UnicodeDecodeError as error:
            raise self._no_text(lines + 1, offset, head, error) from error

    def _no_text(
        self,
        line: int,
        offset: int,
        head: bytes,
        error: UnicodeDecodeError,
    ) -> InputError:
        """The refusal of a file whose text is not UTF-8 at an offset, or has a NUL byte there."""
        if error.object[error.start : error.end] == b"\0":
            problem = f"a NUL byte at offset {offset} of the text"
            kind = _kind(head, error.object, error.start)
        else:
            problem = f"not UTF-8 at byte offset {offset} of the text"
            kind = _kind(head)
        return self.refusal(
            line,
            f"{problem} (found {kind}), expected UTF-8 text, plain or gzip",
            "Convert it first",
        )

    def _blocks(self) -> Iterator[bytes]:
        """The bytes of the file, unpacked."""
        blocks = _with_head(iter(lambda: self._take(BLOCK_BYTES), b""))
        head = next(blocks, b"")
        packing = self._packing or _packing_of(head)
        if packing == "plain":
            yield head
            yield from blocks
            return
        held = BytesIO(head)
        try:
            yield from inflation.unpacked(
                lambda size: held.read(size) or self._take(size), packing, self.name
            )
        except EOFError as error:
            raise self.refusal(0, f"{packing} data ends early", _COPY_AGAIN) from error
        except (OSError, zlib.error) as error:
            raise self.refusal(0, f"corrupt {packing} data ({error})", _COPY_AGAIN) from error

    def _take(self, size: int) -> bytes:
        """The next bytes of the file, at most `size` of them, as soon as there are some."""
        try:
            block = self._file.read1(size)  # type: ignore[attr-defined]
        except (OSError, ValueError) as error:
            raise self.refusal(0, f"cannot be read ({error})") from error
        self._read_bytes += len(block)
        return bytes(block)


def without_trailing_blanks(source: NumberedLines) -> Iterator[Line]:
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
                    held[0][0],
                    f"more than {BLANK_LINES} empty lines",
                    "Is this the right file?",
                )
            continue
        yield from held
        held.clear()
        yield line


def _packing_of(head: bytes) -> Packing:
    return "gzip" if head.startswith(inflation.GZIP_MAGIC) else "plain"


def _whole_characters(block: bytes) -> int:
    """How many bytes of a block are whole UTF-8 characters.

    Raises:
        UnicodeDecodeError: it holds a NUL byte, or is not UTF-8.
    """
    nul = block.find(b"\0")
    if nul >= 0:
        raise UnicodeDecodeError("utf-8", block, nul, nul + 1, "a NUL byte")
    return codecs.utf_8_decode(block, "strict", False)[1]


def _kind(head: bytes, block: bytes = b"", nul: int = 0) -> str:
    """The apparent kind of a file that is no UTF-8 text; `nul` is the offset of a NUL byte in the block."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    # In UTF-16 text of a Latin script every other byte is NUL.
    start = max(0, nul - 1) & ~1
    near = block[start:][:4096]
    nuls_at_even = near[0::2].count(0)
    nuls_at_odd = near[1::2].count(0)
    fewer, more = sorted((nuls_at_even, nuls_at_odd))
    if more * 3 > len(near) and fewer * 4 < more:
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
            f"cannot be opened: {reason}",
            where=str(path),
            fix=hint(path) or near_files(path) or "Give a text file",
        ) from error


def _size(file: BinaryIO) -> int | None:
    """Bytes of a regular file; None for a pipe or standard input."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    is_stdin = file is getattr(sys.stdin, "buffer", None)
    return status.st_size if stat.S_ISREG(status.st_mode) and not is_stdin else None
