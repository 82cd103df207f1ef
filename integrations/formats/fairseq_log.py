"""Logs of fairseq-generate and fairseq-interactive as candidate lists, sorted by id, every hypothesis kept.

fairseq writes base-2 logarithms; here all are natural ones:
    logprob = ln 2 * sum of the P- line (total)        score = ln 2 * the H- score (divided by length ** lenpen)
A score of -inf, which JSON cannot write, is left out.
The text is that of the D- line (detokenised), or of the H- line where there is none; T- lines become references.
fairseq-generate can leave out sentences without a word: every gap in the ids is an error entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, log
from typing import Any

import numpy as np

from ...metrics.errors import InputError, excerpt
from ...metrics.text.line_source import LineSource
from ...rerank.lists import Candidate, CandidateList
from ..files.entries import Entry, bad, good
from .fairseq_blocks import RECORD, Block, Blocks
from .nbest_columns import finite_number

LN2 = log(2)
SHOWN_GAPS = 20
_FIX_GAP = (
    "fairseq-generate leaves out its last batch unless --required-batch-size-multiple 1 is given; "
    "--skip-invalid-size-inputs-valid-test leaves out long inputs; with --num-shards all logs are needed (cat them); "
    "a log that was cut off lacks some too"
)
_NAMES = {"S": "source", "D": "detokenised text", "P": "scores of tokens"}
_FIELDS = {"A": "alignment", "I": "steps", "E": "history"}
_ONCE = {"S": "source", "T": "target", "W": "seconds"}


def read_fairseq(source: LineSource, num_sentences: int | None = None) -> Iterator[Entry]:
    """One entry per sentence, by id, and an error entry for every gap in the ids.

    Args:
        source: a log, or several logs of one test set behind each other; lines that are no record are passed over.
        num_sentences: how many sentences were translated; if not given, the largest id is taken for the last.

    Raises:
        InputError: nothing in the file is a line of a fairseq log, or an id lies beyond `num_sentences`.
    """
    blocks = Blocks(source)
    try:
        ids = blocks.ids
        end = int(ids[-1]) + 1 if len(ids) else 0
        if num_sentences is not None and end > num_sentences:
            found = f"a sentence with id {end - 1}, but there are {num_sentences} sources"
            raise source.refusal(0, found, "Are the files the right ones?")
        end = end if num_sentences is None else num_sentences
        summary = _summary(ids, end)
        expected, every = 0, frozenset("SDP") & blocks.kinds
        for block in blocks:
            if block.id > expected:
                yield _gap(expected, block.id, summary, source.name, block.lines[0][0])
            expected = max(expected, block.id + 1)
            yield _entry(block, every, source.name)
        if expected < end:
            yield _gap(expected, end, summary, source.name, max(1, blocks.last_line))
    finally:
        blocks.close()


def _summary(ids: np.ndarray[tuple[int], np.dtype[np.int64]], end: int) -> str:
    """The missing ids as text: one by one up to `SHOWN_GAPS` of them, else as runs, at most as many."""
    edges = np.concatenate([[-1], ids, [end]])
    before = np.flatnonzero(np.diff(edges) > 1)
    runs = [range(int(edges[i]) + 1, int(edges[i + 1])) for i in before[:SHOWN_GAPS]]
    missing = end - len(ids)
    few = missing <= SHOWN_GAPS
    shown = (
        [str(i) for run in runs for i in run]
        if few
        else [_run(run.start, run.stop) for run in runs]
    )
    rest = ", ..." if len(before) > SHOWN_GAPS else ""
    return f"{missing} of {end} sentences are missing: {', '.join(shown)}{rest}"


def _run(start: int, stop: int) -> str:
    return str(start) if stop - start == 1 else f"{start}-{stop - 1}"


def _gap(start: int, stop: int, summary: str, name: str, line: int) -> Entry:
    """The error entry for the ids from `start` to before `stop`."""
    return bad(
        InputError(summary, where=f"id {_run(start, stop)}", fix=_FIX_GAP),
        name,
        line,
        b"",
        _run(start, stop),
    )


def _entry(block: Block, every: frozenset[str], name: str) -> Entry:
    """The list of a block; `every` are the kinds of lines that the log has, so that each list must have them."""
    raw = b"".join(line + b"\n" for _, line in block.lines)
    first = block.lines[0][0]
    try:
        return good(_record(block, every, name), first, raw)
    except InputError as error:
        return Entry(None, error, first, raw, str(block.id))


def _record(block: Block, every: frozenset[str], name: str) -> CandidateList:
    reading = _Reading(every)
    for number, line in block.lines:
        try:
            reading.add(line)
        except InputError as error:
            raise error.inside(f"{name}:{number}") from None
    try:
        record = reading.record(str(block.id))
        if block.cut:
            raise InputError(
                "no newline ends the log", fix="Was it cut off? If not, add the newline"
            )
    except InputError as error:
        raise error.inside(f"{name}:{block.lines[0][0]}") from None
    return record


class _Reading:
    """The record that the lines of one sentence make."""

    def __init__(self, every: frozenset[str]) -> None:
        self._every = every
        self._once: dict[str, Any] = {}
        self._constraints: list[str] = []
        self._hypotheses: list[dict[str, Any]] = []

    def add(self, line: bytes) -> None:
        """Takes the next line.

        Raises:
            InputError: it cannot stand here, or its values cannot be read.
        """
        found = RECORD.match(line)
        if found is None:
            fix = "Is there a line break in a text, or was stderr written into the log?"
            raise InputError(
                f"found {excerpt(line.decode())}, expected <letter>-<id>, a tab, values", fix=fix
            )
        kind, rest = found[1].decode(), line[found.end() :].decode()
        if kind in _ONCE:
            if kind in self._once:
                raise InputError(f"a second {_ONCE[kind]} line", where=f"{kind}-")
            self._once[kind] = _seconds(rest) if kind == "W" else rest
        elif kind == "C":
            self._constraints.append(rest)
        elif kind == "H":
            score, text = _scored(rest, "H-")
            self._hypotheses.append({"H": text, "score": LN2 * score, "E": []})
        else:
            self._of_hypothesis(kind, rest)

    def _of_hypothesis(self, kind: str, rest: str) -> None:
        if not self._hypotheses or (kind in self._hypotheses[-1] and kind != "E"):
            raise InputError(
                f"a {kind}- line that belongs to no H- line",
                where=f"{kind}-",
                fix="Is the log whole?",
            )
        last = self._hypotheses[-1]
        if kind == "E":
            last["E"].append(rest)
        elif kind == "P":
            last["P"] = LN2 * sum(_number(value, "P-") for value in rest.split())
        elif kind == "I":
            last["I"] = _steps(rest)
        else:
            last[kind] = _scored(rest, "D-")[1] if kind == "D" else rest

    def record(self, identity: str) -> CandidateList:
        """The candidate list.

        Raises:
            InputError: there are no hypotheses, or a line is missing that other sentences have.
        """
        if "S" in self._every and "S" not in self._once:
            fix = "Was stderr written into the log? Keep it apart: 2>err"
            raise InputError("no S- line, which others have", fix=fix)
        if not self._hypotheses:
            raise InputError("no H- line", fix="Was the log cut off, or written with --quiet?")
        for i, hypothesis in enumerate(self._hypotheses):
            for kind in sorted(self._every & {"D", "P"}):
                if kind not in hypothesis:
                    found = (
                        f"hypothesis {i} has no {kind}- line ({_NAMES[kind]}), which others have"
                    )
                    raise InputError(found, fix="Was the log cut off?")
        given = {"seconds": self._once.get("W"), "constraints": self._constraints or None}
        extra = {key: value for key, value in given.items() if value is not None}
        references = (self._once["T"],) if "T" in self._once else ()
        candidates = tuple(map(_candidate, self._hypotheses))
        return CandidateList(
            identity, candidates, self._once.get("S"), references=references, extra=extra
        )


def _candidate(found: dict[str, Any]) -> Candidate:
    """The candidate of one hypothesis; `tokenized` is its H- text where that is another."""
    text = found.get("D", found["H"])
    fields = {} if found["score"] == -inf else {"score": found["score"]}
    if text != found["H"]:
        fields["tokenized"] = found["H"]
    fields |= {name: found[kind] for kind, name in _FIELDS.items() if found.get(kind, []) != []}
    return Candidate(text, found.get("P"), fields)


def _scored(rest: str, where: str) -> tuple[float, str]:
    """Score and text of an H- or D- line; the tab of an empty text may be missing."""
    score, _, text = rest.partition("\t")
    return _number(score, where), text


def _number(text: str, where: str) -> float:
    """A logarithm: finite or -inf."""
    return -inf if text == "-inf" else finite_number(text, where)


def _steps(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InputError(f"found {text!r:.40}, expected a whole number", where="I-")
    return int(text)


def _seconds(rest: str) -> float:
    return finite_number(rest.partition("\t")[0], "W-")
