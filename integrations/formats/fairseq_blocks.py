"""The lines of a fairseq log by sentence, in the order of their ids: fairseq writes them in the order of its batches.

    S-<id> source    T-<id> target    H-<id> score text    D-<id> score text    P-<id> scores of tokens
    A-<id> alignment    E-<id>_<step> text    I-<id> steps    W-<id> seconds    C-<id> constraint
    F-<id> name= value ...    features, of discorank's own
A block is a run of lines of one id. Blocks go to a temporary file; in memory stay 24 bytes for each.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

import numpy as np

from ...metrics.storage.line_source import Line, LineSource, without_trailing_blanks
from ..files.list_lines import ListLines

SPOOL_BYTES = 64 << 20
# editors strip the tab before an empty text
RECORD = re.compile(rb"(?![HDPIWF]-[\d_]+\Z)([STHDPAEIWCF])-(\d{1,18})(?:_\d+)?(?:\t|\Z)")
_DAMAGED = re.compile(rb"[STHDPAEIWCF]-\d")
_TEXTS = frozenset("STHDC")  # kinds with a text that a line break could cut
_LOG = re.compile(
    rb"\d{4}-\d\d-\d\d .*\| (INFO|WARNING|ERROR|DEBUG) \||(Generate|Translated) |Namespace\(|\| "
)
_FIX = "Give what fairseq-generate or fairseq-interactive wrote: its stdout, or the file in --results-path"


class LogBlock(NamedTuple):
    """The lines of one sentence; `cut`: the log ends within them, at a line that no newline ends."""

    id: int
    lines: list[Line]
    cut: bool


class LogBlocks:
    """The blocks of a log.

    Args:
        source: the log, read to its end at once.

    Raises:
        InputError: it holds text but no block, one larger than any real one, or a damaged line before the first.
    """

    def __init__(self, source: LineSource) -> None:
        # one value per block, in the order of the log
        self._ids = array("q")
        self._offsets = array("q")
        self._sizes = array("q")
        self._file = SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115  closed by `close`
        self.kinds: set[str] = set()
        self.last_line = 0
        self._last_is_cut = False
        try:
            self._read(source)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes the temporary file."""
        self._file.close()

    def __iter__(self) -> Iterator[LogBlock]:
        """The blocks by id, those of one id in the order of the log."""
        last = len(self._ids) - 1
        by_id = np.argsort(np.asarray(self._ids), kind="stable")
        for i in by_id.tolist():
            self._file.seek(self._offsets[i])
            data = self._file.read(self._sizes[i])
            lines = [_loaded(line) for line in data.split(b"\n")[:-1]]
            is_cut = self._last_is_cut and i == last
            yield LogBlock(self._ids[i], lines, is_cut)

    @property
    def ids(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The distinct ids, ascending."""
        return np.unique(np.asarray(self._ids))

    def _read(self, source: LineSource) -> None:
        """Splits the log into blocks.

        A block ends before a line of another id and before a second S- or T- line. A line that is no record belongs to
        it if it looks like a damaged record or like the rest of a text with a line break, and spoils it.
        """
        block = ListLines(source.name)
        current_id = -1
        kinds = ""  # of the records in the block, in order
        first_stray = 0
        for number, line in without_trailing_blanks(source):
            self.last_line = number
            if record := RECORD.match(line):
                kind = record[1].decode()
                sentence_id = int(record[2])
                is_second = kind in "ST" and kind in kinds
                if block.lines and (sentence_id != current_id or is_second):
                    self._add(current_id, block, kinds)
                    block = ListLines(source.name)
                    kinds = ""
                current_id = sentence_id
                kinds += kind
            elif _is_fragment(line, kinds):
                if not block.lines:
                    raise source.refusal(
                        number,
                        f"found {line[:40]!r}, expected <letter>-<id>, a tab, values",
                        _FIX,
                    )
            else:
                stray = number if line.strip() else 0
                first_stray = first_stray or stray
                continue
            block.add((number, line))
        if block.lines:
            last_number, _ = block.lines[-1]
            self._last_is_cut = last_number == source.open_line
            self._add(current_id, block, kinds)
        elif first_stray:
            raise source.refusal(
                first_stray,
                "no line of a fairseq log (S-0, H-0, ...) in the file",
                _FIX,
            )

    def _add(self, sentence_id: int, block: ListLines, kinds: str) -> None:
        """Writes a block to the temporary file, each line with its number."""
        data = b"".join(b"%d %s\n" % line for line in block.lines)
        self._ids.append(sentence_id)
        self._offsets.append(self._file.tell())
        self._sizes.append(len(data))
        self._file.write(data)
        self.kinds.update(kinds)


def _is_fragment(line: bytes, kinds: str) -> bool:
    """Whether a line that is no record seems to be a part of one; `kinds` are those of the block before it."""
    if _DAMAGED.match(line):
        return True
    follows_text = kinds[-1:] in _TEXTS
    return follows_text and bool(line.strip()) and not _LOG.match(line)


def _loaded(line: bytes) -> Line:
    """The number and the text of a line of the temporary file."""
    number, _, text = line.partition(b" ")
    return int(number), text
