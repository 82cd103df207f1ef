"""The lines of a fairseq log by sentence, in the order of their ids: fairseq writes them in the order of its batches.

    S-<id> source    T-<id> target    H-<id> score text    D-<id> score text    P-<id> scores of tokens
    A-<id> alignment    E-<id>_<step> text    I-<id> steps    W-<id> seconds    C-<id> constraint
A block is a run of lines of one id. Blocks go to a temporary file; in memory stay 24 bytes for each.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

import numpy as np

from ...metrics.text.line_source import Line, LineSource, without_trailing_blanks
from ..files.list_lines import ListLines

SPOOL_BYTES = 64 << 20
# editors strip the tab before an empty text
RECORD = re.compile(rb"(?![HDPIW]-[\d_]+\Z)([STHDPAEIWC])-(\d{1,18})(?:_\d+)?(?:\t|\Z)")
_DAMAGED = re.compile(rb"[STHDPAEIWC]-\d")
_TEXTS = frozenset("STHDC")  # kinds with a text that a line break could cut
_LOG = re.compile(
    rb"\d{4}-\d\d-\d\d .*\| (INFO|WARNING|ERROR|DEBUG) \||(Generate|Translated) |Namespace\(|\| "
)


class Block(NamedTuple):
    """The lines of one sentence; `cut`: the log ends within them, at a line that no newline ends."""

    id: int
    lines: list[Line]
    cut: bool


class Blocks:
    """The blocks of a log.

    Args:
        source: the log, read to its end at once.

    Raises:
        InputError: it holds text but no block, one larger than any real one, or a damaged line before the first.
    """

    def __init__(self, source: LineSource) -> None:
        self._ids, self._offsets, self._sizes = (array("q") for _ in range(3))
        self._file = SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115  closed by `close`
        self.kinds: set[str] = set()
        self.last_line = 0
        self._cut = False
        try:
            self._read(source)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes the temporary file."""
        self._file.close()

    def __iter__(self) -> Iterator[Block]:
        """The blocks by id, those of one id in the order of the log."""
        last = len(self._ids) - 1
        for at in np.argsort(np.asarray(self._ids), kind="stable").tolist():
            self._file.seek(self._offsets[at])
            data = self._file.read(self._sizes[at])
            yield Block(
                self._ids[at],
                [_loaded(line) for line in data.split(b"\n")[:-1]],
                self._cut and at == last,
            )

    @property
    def ids(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The distinct ids, ascending."""
        return np.unique(np.asarray(self._ids))

    def _read(self, source: LineSource) -> None:
        block, current, kinds, stray = ListLines(source.name), -1, "", 0
        for number, line in without_trailing_blanks(source):
            self.last_line = number
            if found := RECORD.match(line):
                kind, identity = found[1].decode(), int(found[2])
                if block.lines and (identity != current or (kind in "ST" and kind in kinds)):
                    self._add(current, block, kinds)
                    block, kinds = ListLines(source.name), ""
                current, kinds = identity, kinds + kind
            elif _DAMAGED.match(line) or (
                kinds[-1:] in _TEXTS and line.strip() and not _LOG.match(line)
            ):
                if not block.lines:
                    raise source.refusal(
                        number, f"found {line[:40]!r}, expected <letter>-<id>, a tab, values", _FIX
                    )
            else:
                stray = stray or (number if line.strip() else 0)
                continue
            block.add((number, line))
        if block.lines:
            self._cut = block.lines[-1][0] == source.open_line
            self._add(current, block, kinds)
        elif stray:
            raise source.refusal(
                stray, "no line of a fairseq log (S-0, H-0, ...) in the file", _FIX
            )

    def _add(self, identity: int, block: ListLines, kinds: str) -> None:
        data = b"".join(b"%d %s\n" % line for line in block.lines)
        self._ids.append(identity)
        self._offsets.append(self._file.tell())
        self._sizes.append(len(data))
        self._file.write(data)
        self.kinds.update(kinds)


_FIX = "Give what fairseq-generate or fairseq-interactive wrote: its stdout, or the file in --results-path"


def _loaded(line: bytes) -> Line:
    number, _, rest = line.partition(b" ")
    return int(number), rest
