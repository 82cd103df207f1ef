"""Logs of fairseq-generate and fairseq-interactive as candidate lists, sorted by id, every hypothesis kept.

fairseq writes base-2 logarithms; here all are natural ones:
    logprob = ln 2 * sum of the P- line (total)        score = ln 2 * the H- score (divided by length ** lenpen)
    token_scores = the P- line itself, to base 2, where it has the values of several tokens
A score of -inf, which JSON cannot write, is left out. F- lines, which discorank writes, become fields.
The text is that of the D- line (detokenised), or of the H- line where there is none; T- lines become references.
fairseq-generate can leave out sentences without a word: every gap in the ids is an error entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, log
from typing import Any

import numpy as np

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.line_source import LineSource
from ...rerank.lists import Candidate, CandidateList
from ...rerank.runs.entry import Entry
from ..files.entries import ListEntry, error_entry, list_entry
from .fairseq_blocks import RECORD, LogBlock, LogBlocks
from .nbest_columns import LOGPROB, features, finite_number

LN2 = log(2)
SHOWN_GAPS = 20
_FIX_GAP = (
    "fairseq-generate leaves out its last batch unless --required-batch-size-multiple 1 is given; "
    "--skip-invalid-size-inputs-valid-test leaves out long inputs; with --num-shards all logs are needed (cat them); "
    "a log that was cut off lacks some too"
)
_NAMES = {"D": "detokenised text", "P": "scores of tokens"}
_FIELDS = {"A": "alignment", "I": "steps", "E": "history"}
_TAKEN = frozenset({"score", "tokenized", "token_scores", LOGPROB, *_FIELDS.values()})
_ONCE = {"S": "source", "T": "target", "W": "seconds"}


def read_fairseq(source: LineSource, num_sentences: int | None = None) -> Iterator[ListEntry]:
    """One entry per sentence, by id, and an error entry for every gap in the ids.

    Args:
        source: a log, or several logs of one test set behind each other; lines that are no record are passed over.
        num_sentences: how many sentences were translated; if not given, the largest id is taken for the last.

    Raises:
        InputError: nothing in the file is a line of a fairseq log, or an id lies beyond `num_sentences`.
    """
    blocks = LogBlocks(source)
    try:
        ids = blocks.ids
        end = int(ids[-1]) + 1 if len(ids) else 0
        if num_sentences is not None:
            if end > num_sentences:
                raise source.refusal(
                    0,
                    f"a sentence with id {end - 1}, but there are {num_sentences} sources",
                    "Are the files the right ones?",
                )
            end = num_sentences
        summary = _summary(ids, end)
        required = frozenset("SDP") & blocks.kinds
        expected_id = 0
        for block in blocks:
            first_line, _ = block.lines[0]
            if block.id > expected_id:
                yield _gap(expected_id, block.id, summary, source.name, first_line)
            expected_id = max(expected_id, block.id + 1)
            yield _entry(block, required, source.name)
        if expected_id < end:
            yield _gap(expected_id, end, summary, source.name, max(1, blocks.last_line))
    finally:
        blocks.close()


def _summary(ids: np.ndarray[tuple[int], np.dtype[np.int64]], end: int) -> str:
    """The missing ids as text: one by one up to `SHOWN_GAPS` of them, else as runs, at most as many.

    Args:
        ids: the distinct ids of the log [sentences], ascending.
        end: the id after the last.
    """
    # a run of missing ids lies between two neighbours that differ by more than 1
    neighbours = np.concatenate([[-1], ids, [end]])
    before_gap = np.flatnonzero(np.diff(neighbours) > 1)
    first_gaps = before_gap[:SHOWN_GAPS]
    gaps = [range(int(neighbours[i]) + 1, int(neighbours[i + 1])) for i in first_gaps]
    num_missing = end - len(ids)
    if num_missing <= SHOWN_GAPS:
        shown = [str(i) for gap in gaps for i in gap]
    else:
        shown = [_id_range(gap.start, gap.stop) for gap in gaps]
    rest = ", ..." if len(before_gap) > SHOWN_GAPS else ""
    return f"{num_missing} of {end} sentences are missing: {', '.join(shown)}{rest}"


def _id_range(start: int, stop: int) -> str:
    """The ids from `start` to before `stop`, as text."""
    return str(start) if stop - start == 1 else f"{start}-{stop - 1}"


def _gap(start: int, stop: int, summary: str, name: str, line: int) -> ListEntry:
    """The error entry for the ids from `start` to before `stop`."""
    missing_ids = _id_range(start, stop)
    error = InputError(
        summary,
        where=f"id {missing_ids}",
        fix=_FIX_GAP,
    )
    return error_entry(error, name, line, b"", missing_ids)


def _entry(block: LogBlock, required: frozenset[str], name: str) -> ListEntry:
    """The list of a block; `required` are the kinds of lines that the log has, so that each list must have them."""
    raw = b"".join(line + b"\n" for _, line in block.lines)
    first_line, _ = block.lines[0]
    try:
        return list_entry(_candidate_list(block, required, name), first_line, raw)
    except InputError as error:
        return Entry(None, error, first_line, raw, str(block.id))


def _candidate_list(
    block: LogBlock,
    required: frozenset[str],
    name: str,
) -> CandidateList:
    """The list that the lines of a block make; errors name the file and the line."""
    records = _SentenceRecords()
    for number, line in block.lines:
        try:
            records.add(line)
        except InputError as error:
            raise error.inside(f"{name}:{number}") from None
    first_line, _ = block.lines[0]
    try:
        candidate_list = records.candidate_list(str(block.id), required)
        if block.cut:
            fix = "Was it cut off? If not, add the newline"
            raise InputError("no newline ends the log", fix=fix)
    except InputError as error:
        raise error.inside(f"{name}:{first_line}") from None
    return candidate_list


class _SentenceRecords:
    """What the lines of one sentence hold, by the letter of their kind."""

    def __init__(self) -> None:
        self._once: dict[str, Any] = {}
        self._constraints: list[str] = []
        self._hypotheses: list[dict[str, Any]] = []

    def add(self, line: bytes) -> None:
        """Takes the next line.

        Raises:
            InputError: it cannot stand here, or its values cannot be read.
        """
        record = RECORD.match(line)
        if record is None:
            problem = f"found {excerpt(line.decode())}, expected <letter>-<id>, a tab, values"
            fix = "Is there a line break in a text, or was stderr written into the log?"
            raise InputError(problem, fix=fix)
        kind = record[1].decode()
        rest = line[record.end() :].decode()
        if kind in _ONCE:
            if kind in self._once:
                raise InputError(f"a second {_ONCE[kind]} line", where=f"{kind}-")
            self._once[kind] = _seconds(rest) if kind == "W" else rest
        elif kind == "C":
            self._constraints.append(rest)
        elif kind == "H":
            score, text = _scored_text(rest, "H-")
            self._hypotheses.append({"H": text, "score": LN2 * score, "E": []})
        else:
            self._add_to_hypothesis(kind, rest)

    def _add_to_hypothesis(self, kind: str, rest: str) -> None:
        """Takes a D-, P-, A-, I- or E- line, which belongs to the H- line before it."""
        last = self._hypotheses[-1] if self._hypotheses else None
        if last is None or (kind in last and kind != "E"):
            raise InputError(
                f"a {kind}- line that belongs to no H- line",
                where=f"{kind}-",
                fix="Is the log whole?",
            )
        if kind == "E":
            last["E"].append(rest)
        elif kind == "P":
            values = rest.split()
            last["P"] = LN2 * sum(_logarithm(value, "P-") for value in values)
            last["tokens"] = " ".join(values) if len(values) > 1 else ""
        elif kind == "I":
            last["I"] = _steps(rest)
        elif kind == "F":
            last["F"] = _features(rest)
        elif kind == "D":
            _, last["D"] = _scored_text(rest, "D-")
        else:
            last[kind] = rest

    def candidate_list(self, list_id: str, required: frozenset[str]) -> CandidateList:
        """The candidate list.

        Raises:
            InputError: there are no hypotheses, or a line is missing that other sentences have.
        """
        self._check_complete(required)
        extra = {}
        if "W" in self._once:
            extra["seconds"] = self._once["W"]
        if self._constraints:
            extra["constraints"] = self._constraints
        return CandidateList(
            id=list_id,
            candidates=tuple(map(_candidate, self._hypotheses)),
            source=self._once.get("S"),
            references=(self._once["T"],) if "T" in self._once else (),
            extra=extra,
        )

    def _check_complete(self, required: frozenset[str]) -> None:
        """Raises InputError if a line is missing."""
        if "S" in required and "S" not in self._once:
            fix = "Was stderr written into the log? Keep it apart: 2>err"
            raise InputError("no S- line, which others have", fix=fix)
        if not self._hypotheses:
            raise InputError("no H- line", fix="Was the log cut off, or written with --quiet?")
        for i, hypothesis in enumerate(self._hypotheses):
            for kind in sorted(required & _NAMES.keys()):
                if kind not in hypothesis:
                    problem = (
                        f"hypothesis {i} has no {kind}- line ({_NAMES[kind]}), which others have"
                    )
                    raise InputError(problem, fix="Was the log cut off?")


def _candidate(hypothesis: dict[str, Any]) -> Candidate:
    """The candidate of one hypothesis; `tokenized` is its H- text where that is another."""
    text = hypothesis.get("D", hypothesis["H"])
    fields = {}
    if hypothesis["score"] != -inf:
        fields["score"] = hypothesis["score"]
    if text != hypothesis["H"]:
        fields["tokenized"] = hypothesis["H"]
    if hypothesis.get("tokens"):
        fields["token_scores"] = hypothesis["tokens"]
    for kind, name in _FIELDS.items():
        if hypothesis.get(kind, []) != []:
            fields[name] = hypothesis[kind]
    fields |= hypothesis.get("F", {})
    return Candidate(text, hypothesis.get("P"), fields)


def _scored_text(rest: str, where: str) -> tuple[float, str]:
    """Score and text of an H- or D- line; the tab of an empty text may be missing."""
    score, _, text = rest.partition("\t")
    return _logarithm(score, where), text


def _logarithm(text: str, where: str) -> float:
    """A logarithm: finite or -inf."""
    return -inf if text == "-inf" else finite_number(text, where)


def _features(rest: str) -> dict[str, Any]:
    """The features of an F- line."""
    values = features(rest)
    if taken := _TAKEN & values.keys():
        problem = "a feature of this name, for which there is another line"
        raise InputError(problem, where=f"F-.{min(taken)}")
    return values


def _steps(text: str) -> int:
    """The number of steps of an I- line."""
    is_number = text.isascii() and text.isdigit()
    if not is_number or len(text) >= 19:
        raise InputError(f"found {text!r:.40}, expected a whole number", where="I-")
    return int(text)


def _seconds(rest: str) -> float:
    """The seconds of a W- line; what stands behind them is passed over."""
    seconds, _, _ = rest.partition("\t")
    return finite_number(seconds, "W-")
