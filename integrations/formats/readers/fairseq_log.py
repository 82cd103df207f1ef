"""Logs of fairseq-generate and fairseq-interactive as candidate lists, sorted by id, every hypothesis kept.

fairseq writes base-2 logarithms; here all are natural ones:
    logprob = ln 2 * sum of the P- line (total)        score = ln 2 * the H- score (divided by length ** lenpen)
    token_scores = the P- line itself, to base 2, where it has the values of several tokens
A score of -inf, which JSON cannot write, is left out. F- lines, which discorank writes, become fields.
The text is that of the D- line (detokenised), or of the H- line where there is none; T- lines become references.
fairseq-generate can leave out sentences without a word: every gap in the ids is an error entry.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from ctypes import c_float
from functools import partial
from math import inf, log, nextafter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.line_source import Line, LineSource, without_trailing_blanks
from ....rerank.lists import Candidate, CandidateList, check_logprob
from ....rerank.runs.resumable import Entry
from ...files.entries import ListEntry, ListLines, error_entry, in_line, list_entry, typed
from ...files.line_spool import LineSpool
from ..format_table import NUMBERED, Format, ListOptions, ListWriting, OpenedFiles
from .flat import count_lines
from .nbest_lines import LOGPROB, SCORE, feature_column, features, finite_number, number_text

LN2 = log(2)
SHOWN_GAPS = 20
_FIX_GAP = (
    "fairseq-generate leaves out its last batch unless --required-batch-size-multiple 1 is given; "
    "--skip-invalid-size-inputs-valid-test leaves out long inputs; with --num-shards all logs are needed (cat them); "
    "a log that was cut off lacks some too"
)
_FIX = "Give what fairseq-generate or fairseq-interactive wrote: its stdout, or the file in --results-path"
# editors strip the tab before an empty text
RECORD = re.compile(rb"(?![HDPIWF]-[\d_]+\Z)([STHDPAEIWCF])-(\d{1,18})(?:_\d+)?(?:\t|\Z)")
_DAMAGED = re.compile(rb"[STHDPAEIWCF]-\d")
_TEXTS = frozenset("STHDC")  # kinds with a text that a line break could cut
_LOG = re.compile(
    rb"\d{4}-\d\d-\d\d .*\| (INFO|WARNING|ERROR|DEBUG) \||(Generate|Translated) |Namespace\(|\| "
)
_NO_RECORD = "expected <letter>-<id>, a tab, values"
_NAMES = {"D": "detokenised text", "P": "scores of tokens"}
_FIELDS = {"A": "alignment", "I": "steps", "E": "history"}
# fields that have lines of their own
OWN = (SCORE, "tokenized", "token_scores", *_FIELDS.values())
_LIST_KEYS = ("seconds", "constraints")
_MANY_DIGITS = 14  # a number of as many was not rounded when it was written


def read_fairseq(source: LineSource, num_sentences: int | None = None) -> Iterator[ListEntry]:
    """One entry per sentence, by id, and an error entry for every gap in the ids.

    Args:
        source: a log, or several logs of one test set behind each other; lines that are no record are passed over.
        num_sentences: how many sentences were translated; if not given, the largest id is taken for the last.

    Raises:
        InputError: nothing in the file is a line of a fairseq log, or an id lies beyond `num_sentences`.
    """
    ids, last_lines, kinds = array("q"), array("q"), set[str]()
    with LineSpool() as spool:
        for sentence_id, own_kinds, lines in _blocks(source):
            spool.add(lines)
            ids.append(sentence_id)
            last_lines.append(lines[-1][0])
            kinds.update(own_kinds)
        end = max(ids, default=-1) + 1
        if num_sentences is not None and end > num_sentences:
            problem = f"a sentence with id {end - 1}, but there are {num_sentences} sources"
            raise source.refusal(0, problem, "Are the files the right ones?")
        end = end if num_sentences is None else num_sentences
        summary = _summary(np.unique(np.asarray(ids)), end)
        required = frozenset("SDP") & kinds
        expected_id = 0
        for i in np.argsort(np.asarray(ids), kind="stable").tolist():
            lines = list(spool.lines(i))
            if ids[i] > expected_id:
                yield _gap(expected_id, ids[i], summary, source.name, lines[0][0])
            expected_id = max(expected_id, ids[i] + 1)
            # the log may end within a block, at a line that no newline ends
            is_cut = lines[-1][0] == source.open_line
            yield _entry(ids[i], lines, required, source, is_cut)
        if expected_id < end:
            yield _gap(expected_id, end, summary, source.name, max(last_lines, default=1))


def _blocks(source: LineSource) -> Iterator[tuple[int, str, list[Line]]]:
    """The id, the kinds of records and the lines of every block, a run of lines of one sentence.

    A block ends before a line of another id and before a second S- or T- line. A line that is no record belongs to it
    if it looks like a damaged record or like the rest of a text with a line break, and spoils it.
    """
    block, block_id, kinds, first_stray = ListLines(source.name), -1, "", 0
    for number, line in without_trailing_blanks(source):
        record = RECORD.match(line)
        if record is not None:
            kind, sentence_id = record[1].decode(), int(record[2])
            is_second = kind in "ST" and kind in kinds
            if block.lines and (sentence_id != block_id or is_second):
                yield block_id, kinds, block.lines
                block, kinds = ListLines(source.name), ""
            block_id, kinds = sentence_id, kinds + kind
        elif not _is_fragment(line, kinds):
            first_stray = first_stray or (number if line.strip() else 0)
            continue
        elif not block.lines:
            raise source.refusal(number, f"found {line[:40]!r}, {_NO_RECORD}", _FIX)
        block.add((number, line))
    if block.lines:
        yield block_id, kinds, block.lines
    elif first_stray:
        problem = "no line of a fairseq log (S-0, H-0, ...) in the file"
        raise source.refusal(first_stray, problem, _FIX)


def _is_fragment(line: bytes, kinds: str) -> bool:
    """Whether a line that is no record seems to be a part of one; `kinds` are those of the block before it."""
    follows_text = kinds[-1:] in _TEXTS
    is_text = follows_text and bool(line.strip()) and not _LOG.match(line)
    return is_text or _DAMAGED.match(line) is not None


def _summary(ids: NDArray[np.int64], end: int) -> str:
    """The missing ids as text: one by one up to `SHOWN_GAPS` of them, else as runs, at most as many.

    Args:
        ids: the distinct ids of the log [sentences], ascending.
        end: the id after the last.
    """
    # a run of missing ids lies between two neighbours that differ by more than 1
    neighbours = np.concatenate([[-1], ids, [end]])
    before_gap = np.flatnonzero(np.diff(neighbours) > 1)
    runs = [(int(neighbours[i]) + 1, int(neighbours[i + 1])) for i in before_gap[:SHOWN_GAPS]]
    num_missing = end - len(ids)
    if num_missing <= SHOWN_GAPS:
        shown = [str(i) for start, stop in runs for i in range(start, stop)]
    else:
        shown = [_id_range(start, stop) for start, stop in runs]
    rest = ", ..." if len(before_gap) > SHOWN_GAPS else ""
    return f"{num_missing} of {end} sentences are missing: {', '.join(shown)}{rest}"


def _id_range(start: int, stop: int) -> str:
    """The ids from `start` to before `stop`, as text."""
    return str(start) if stop - start == 1 else f"{start}-{stop - 1}"


def _gap(start: int, stop: int, summary: str, name: str, line: int) -> ListEntry:
    """The error entry for the ids from `start` to before `stop`."""
    missing_ids = _id_range(start, stop)
    error = InputError(summary, where=f"id {missing_ids}", fix=_FIX_GAP)
    return error_entry(error, name, line, b"", missing_ids)


def _entry(
    sentence_id: int, lines: list[Line], required: frozenset[str], source: LineSource, is_cut: bool
) -> ListEntry:
    """The list of a block; `required` are the kinds of lines that the log has, so that each list must have them."""
    raw = b"".join(line + b"\n" for _, line in lines)
    first_line, _ = lines[0]
    sentence = _Sentence()
    try:
        for number, line in lines:
            with in_line(source, number):
                sentence.add(line)
        with in_line(source, first_line):
            record = sentence.candidate_list(str(sentence_id), required)
            if is_cut:
                fix = "Was it cut off? If not, add the newline"
                raise InputError("no newline ends the log", fix=fix)
    except InputError as error:
        return Entry(None, error, first_line, raw, str(sentence_id))
    return list_entry(record, first_line, raw)


class _Sentence:
    """The values of the lines of one sentence, by the letter of their kind."""

    def __init__(self) -> None:
        self._once: dict[str, Any] = {}
        self._constraints: list[str] = []
        self._hypotheses: list[dict[str, Any]] = []

    def add(self, line: bytes) -> None:
        """Takes the next line; raises InputError where it cannot stand here, or its values cannot be read."""
        record = RECORD.match(line)
        if record is None:
            fix = "Is there a line break in a text, or was stderr written into the log?"
            raise InputError(f"found {excerpt(line.decode())}, {_NO_RECORD}", fix=fix)
        kind, rest = record[1].decode(), line[record.end() :].decode()
        value = _VALUES[kind](rest) if kind in _VALUES else rest
        if kind == "H":
            self._hypotheses.append({"H": value, "E": []})
        elif kind == "C":
            self._constraints.append(value)
        else:
            last = self._hypotheses[-1] if self._hypotheses else None
            target = self._once if kind in "STW" else last
            if target is None or (kind in target and kind != "E"):
                problem = f"a {kind}- line that belongs to no H- line, or a second one"
                raise InputError(problem, where=f"{kind}-", fix="Is the log whole?")
            if kind == "E":
                target["E"].append(value)
            else:
                target[kind] = value

    def candidate_list(self, list_id: str, required: frozenset[str]) -> CandidateList:
        """The list; raises InputError where there are no hypotheses, or a line is missing that other sentences have."""
        if "S" in required and "S" not in self._once:
            fix = "Was stderr written into the log? Keep it apart: 2>err"
            raise InputError("no S- line, which others have", fix=fix)
        if not self._hypotheses:
            raise InputError("no H- line", fix="Was the log cut off, or written with --quiet?")
        for i, hypothesis in enumerate(self._hypotheses):
            for kind in sorted(required & _NAMES.keys() - hypothesis.keys()):
                problem = f"hypothesis {i} has no {kind}- line ({_NAMES[kind]}), which others have"
                raise InputError(problem, fix="Was the log cut off?")
        extra = {"seconds": self._once["W"]} if "W" in self._once else {}
        if self._constraints:
            extra["constraints"] = self._constraints
        return CandidateList(
            list_id,
            tuple(map(_candidate, self._hypotheses)),
            self._once.get("S"),
            references=(self._once["T"],) if "T" in self._once else (),
            extra=extra,
        )


def _candidate(hypothesis: dict[str, Any]) -> Candidate:
    """The candidate of one hypothesis; `tokenized` is its H- text where that is another."""
    score, tokenized = hypothesis["H"]
    _, text = hypothesis.get("D", hypothesis["H"])
    logprob, token_scores = hypothesis.get("P", (None, ""))
    fields: dict[str, Any] = {}
    if score != -inf:
        fields["score"] = LN2 * score
    if text != tokenized:
        fields["tokenized"] = tokenized
    if token_scores:
        fields["token_scores"] = token_scores
    for kind, name in _FIELDS.items():
        if hypothesis.get(kind, []) != []:
            fields[name] = hypothesis[kind]
    return Candidate(text, logprob, fields | hypothesis.get("F", {}))


def _scored_text(where: str, rest: str) -> tuple[float, str]:
    """Score and text of an H- or D- line; the tab of an empty text may be missing."""
    score, _, text = rest.partition("\t")
    return _logarithm(score, where), text


def _total(rest: str) -> tuple[float, str]:
    """The log-probability of a P- line, and its values where there are several."""
    values = rest.split()
    logprob = LN2 * sum(_logarithm(value, "P-") for value in values)
    check_logprob(logprob, "P-")
    return logprob, " ".join(values) if len(values) > 1 else ""


def _logarithm(text: str, where: str) -> float:
    """A logarithm: finite or -inf."""
    return -inf if text == "-inf" else finite_number(text, where)


def _features(rest: str) -> dict[str, Any]:
    """The features of an F- line."""
    values = features(rest)
    if taken := {*OWN, LOGPROB} & values.keys():
        problem = "a feature of this name, for which there is another line"
        raise InputError(problem, where=f"F-.{min(taken)}")
    return values


def _steps(text: str) -> int:
    """The number of steps of an I- line."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InputError(f"found {text!r:.40}, expected a whole number", where="I-")
    return int(text)


def _seconds(rest: str) -> float:
    """The seconds of a W- line; what stands behind them is passed over."""
    seconds, _, _ = rest.partition("\t")
    return finite_number(seconds, "W-")


# values of lines that are not plain texts
_VALUES: Mapping[str, Callable[[str], Any]] = {
    "H": partial(_scored_text, "H-"),
    "D": partial(_scored_text, "D-"),
    "P": _total,
    "I": _steps,
    "F": _features,
    "W": _seconds,
}


def fairseq_lines(record: CandidateList) -> Iterator[str]:
    """The lines of a list, without their ends.

    Raises:
        InputError: the id is no number, or a field has no line.
    """
    number = record.id
    if not (number.isascii() and number.isdigit()) or str(int(number[:19])) != number:
        problem = f"found {number!r:.60}, and fairseq numbers its sentences"
        raise InputError(problem, where="id", fix="Write moses, which takes any id")
    yield from _list_lines(record, number)
    for i, candidate in enumerate(record.candidates):
        try:
            yield from _candidate_lines(candidate, number)
        except InputError as error:
            raise error.inside(f"candidates[{i}]") from None


def _list_lines(record: CandidateList, number: str) -> Iterator[str]:
    """The lines of a list beside those of its candidates."""
    if record.source is not None:
        yield f"S-{number}\t{record.source}"
    if len(record.references) > 1:
        problem = f"found {len(record.references)}, and fairseq has one"
        raise InputError(problem, where="references", fix="Leave them out: --lossy")
    for reference in record.references:
        yield f"T-{number}\t{reference}"
    if "seconds" in record.extra:
        yield f"W-{number}\t{number_text(record.extra['seconds'], 'seconds')}\tseconds"
    for constraint in typed(list[str], record.extra.get("constraints", []), "constraints"):
        yield f"C-{number}\t{constraint}"


def _candidate_lines(candidate: Candidate, number: str) -> Iterator[str]:
    """The lines of a hypothesis."""
    fields = dict(candidate.fields)
    score = base2(fields.pop(SCORE, -inf), SCORE)
    tokenized = fields.pop("tokenized", candidate.text)
    yield f"H-{number}\t{score}\t{tokenized}"
    yield f"D-{number}\t{score}\t{candidate.text}"
    if "token_scores" in fields:
        yield f"P-{number}\t{fields.pop('token_scores')}"
    elif candidate.logprob is not None:
        yield f"P-{number}\t{base2(candidate.logprob, 'logprob')}"
    if "alignment" in fields:
        yield f"A-{number}\t{fields.pop('alignment')}"
    if "steps" in fields:
        yield f"I-{number}\t{fields.pop('steps')}"
    history: list[str] = typed(list[str], fields.pop("history", []), "history")
    for step, text in enumerate(history):
        yield f"E-{number}_{step}\t{text}"
    if fields:
        yield f"F-{number}\t{feature_column(fields)}"


def base2(value: Any, where: str) -> str:
    """A natural logarithm to base 2, so that ln 2 times it is the value again, or the number next to it.

    Of several such numbers it is the one of the fewest digits, or in single precision, as logs have them.

    >>> base2(-log(2) * 3.25, "score"), base2(-log(2) * 0.395419, "score")
    ('-3.25', '-0.395419')
    """
    number_text(value, where)
    if value == -inf:
        return "-inf"
    quotient = value / LN2
    of_single = c_float(quotient).value  # fairseq computes in single precision
    near = {quotient, nextafter(quotient, -inf), nextafter(quotient, inf), of_single}

    def key(one: float) -> tuple[float, int, bool, float]:
        num_digits = len(repr(float(one)))
        return abs(LN2 * one - value), min(num_digits, _MANY_DIGITS), one != of_single, one

    return repr(float(min(near, key=key)))


def _open(path: str | Path, options: ListOptions) -> OpenedFiles:
    num_sentences = None if options.sources is None else count_lines(options.sources)
    source = LineSource(path)
    return [source], read_fairseq(source, num_sentences)


def _kept(record: CandidateList) -> CandidateList:
    """A list with what lines of a log say."""
    return CandidateList(
        record.id,
        record.candidates,
        record.source,
        references=record.references if len(record.references) == 1 else (),
        extra={key: value for key, value in record.extra.items() if key in _LIST_KEYS},
    )


def _shape(record: CandidateList) -> tuple[tuple[str, ...], str]:
    has_logprobs = {candidate.logprob is not None for candidate in record.candidates}
    if len(has_logprobs) > 1:
        raise InputError("some have one, some have none", where="logprob", fix="Write moses")
    lines = ("S",) * (record.source is not None) + ("P",) * (True in has_logprobs)
    return lines, "the lists of a log have the same kinds of lines"


def _earlier_shape(lines: Iterator[str], counts: Mapping[str, int]) -> tuple[str, ...]:
    """The kinds of lines that the first list of a log has."""
    kinds: list[str] = []
    first_id = None
    for line in lines:
        record = RECORD.match(line.rstrip("\n").encode())
        if record is None:
            continue
        first_id = first_id or record[2]
        if record[2] != first_id:
            break
        kinds.append(record[1].decode())
    return tuple(kind for kind in "SP" if kind in kinds)


FORMATS = (
    Format(
        "fairseq",
        "a fairseq log",
        _open,
        NUMBERED,
        first_line=re.compile(
            rb"([STHDPEA]-\d+\t)|(\d{4}-\d\d-\d\d .*\| (INFO|WARNING) \|)|(Namespace\()"
        ),
        every_line=False,
        written=ListWriting(
            fairseq_lines,
            lambda source, num_candidates: read_fairseq(source),
            frozenset(OWN),
            _kept,
            _shape,
            _earlier_shape,
            rounds=True,
        ),
        example="S-0\tsource\nH-0\t-0.5\ta text\nD-0\t-0.5\ta text\nP-0\t-0.5 -0.5\n",
    ),
)
