"""Logs of fairseq-generate and fairseq-interactive as candidate lists, sorted by id, every hypothesis kept.

fairseq writes base-2 logarithms; here all are natural ones:
    logprob = ln 2 * sum of the P- line (total)        score = ln 2 * the H- score (divided by length ** lenpen)
    token_scores = the P- line itself, to base 2, where it has the values of several tokens
A score of -inf, which JSON cannot write, is left out. A-, I- and E- lines become fields; W- and C- are of the list.
The text is that of the D- line (detokenised), or of the H- line where there is none; T- lines become references.
fairseq-generate can leave out sentences without a word: every gap in the ids is an error entry.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf, log
from pathlib import Path
from typing import Any

import numpy as np

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.line_source import Line, LineSource, without_trailing_blanks
from ....rerank.lists import Candidate, CandidateList, check_logprob
from ....rerank.runs.resumable import Entry
from ...files.entries import ListEntry, ListLines, error_entry, in_line, list_entry
from ...files.line_spool import LineSpool
from ..format_table import NUMBERED, Format, ListOptions, OpenedFiles
from .flat import count_lines
from .nbest_lines import finite_number

LN2 = log(2)
_FIX_GAP = (
    "fairseq-generate leaves out its last batch unless --required-batch-size-multiple 1 is given; "
    "--skip-invalid-size-inputs-valid-test leaves out long inputs; with --num-shards all logs are needed (cat them); "
    "a log that was cut off lacks some too"
)
_FIX = "Give what fairseq-generate or fairseq-interactive wrote: its stdout, or the file in --results-path"
# editors strip the tab before an empty text
RECORD = re.compile(rb"(?![HDPIW]-[\d_]+\Z)([STHDPAEIWC])-(\d{1,18})(?:_\d+)?(?:\t|\Z)")
_DAMAGED = re.compile(rb"[STHDPAEIWC]-\d")
_TEXTS = frozenset("STHDC")  # kinds with a text that a line break could cut
_LOG = re.compile(
    rb"\d{4}-\d\d-\d\d .*\| (INFO|WARNING|ERROR|DEBUG) \||(Generate|Translated) |Namespace\(|\| "
)
_NO_RECORD = "expected <letter>-<id>, a tab, values"
_NAMES = {"D": "detokenised text", "P": "scores of tokens"}
_FIELDS = {"A": "alignment", "I": "steps", "E": "history"}
_LIST_KEYS = {"W": "seconds", "C": "constraints"}
_REPEATED = frozenset("CE")  # kinds of which there may be several lines


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
        summary = f"{end - len(np.unique(np.asarray(ids)))} of {end} sentences are missing"
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


def _gap(start: int, stop: int, summary: str, name: str, line: int) -> ListEntry:
    """The error entry for the ids from `start` to before `stop`."""
    missing_ids = str(start) if stop - start == 1 else f"{start}-{stop - 1}"
    error = InputError(summary, where=f"id {missing_ids}", fix=_FIX_GAP)
    return error_entry(error, name, line, b"", missing_ids)


def _entry(
    sentence_id: int, lines: list[Line], required: frozenset[str], source: LineSource, is_cut: bool
) -> ListEntry:
    """The list of a block; `required` are the kinds of lines that the log has, so that each list must have them."""
    raw = b"".join(line + b"\n" for _, line in lines)
    first_line, _ = lines[0]
    of_list: dict[str, Any] = {}
    hypotheses: list[dict[str, Any]] = []
    try:
        for number, line in lines:
            with in_line(source, number):
                _add(line, of_list, hypotheses)
        with in_line(source, first_line):
            record = _candidate_list(str(sentence_id), of_list, hypotheses, required)
            if is_cut:
                fix = "Was it cut off? If not, add the newline"
                raise InputError("no newline ends the log", fix=fix)
    except InputError as error:
        return Entry(None, error, first_line, raw, str(sentence_id))
    return list_entry(record, first_line, raw)


def _add(line: bytes, of_list: dict[str, Any], hypotheses: list[dict[str, Any]]) -> None:
    """Adds the value of a line to those of the list or of the last hypothesis, by the letter of its kind.

    Raises:
        InputError: the line cannot stand here, or its value cannot be read.
    """
    record = RECORD.match(line)
    if record is None:
        fix = "Is there a line break in a text, or was stderr written into the log?"
        raise InputError(f"found {excerpt(line.decode())}, {_NO_RECORD}", fix=fix)
    kind, rest = record[1].decode(), line[record.end() :].decode()
    value = _VALUES[kind](rest) if kind in _VALUES else rest
    if kind == "H":
        hypotheses.append({})
    target = of_list if kind in "STWC" else hypotheses[-1] if hypotheses else None
    if target is None or (kind in target and kind not in _REPEATED):
        problem = f"a {kind}- line that belongs to no H- line, or a second one"
        raise InputError(problem, where=f"{kind}-", fix="Is the log whole?")
    if kind in _REPEATED:
        value = [*target.get(kind, ()), value]
    target[kind] = value


def _candidate_list(
    list_id: str,
    of_list: dict[str, Any],
    hypotheses: list[dict[str, Any]],
    required: frozenset[str],
) -> CandidateList:
    """The list; raises InputError where there are no hypotheses, or a line is missing that other sentences have."""
    if "S" in required and "S" not in of_list:
        fix = "Was stderr written into the log? Keep it apart: 2>err"
        raise InputError("no S- line, which others have", fix=fix)
    if not hypotheses:
        raise InputError("no H- line", fix="Was the log cut off, or written with --quiet?")
    for i, hypothesis in enumerate(hypotheses):
        for kind in sorted(required & _NAMES.keys() - hypothesis.keys()):
            problem = f"hypothesis {i} has no {kind}- line ({_NAMES[kind]}), which others have"
            raise InputError(problem, fix="Was the log cut off?")
    return CandidateList(
        list_id,
        tuple(map(_candidate, hypotheses)),
        of_list.get("S"),
        references=(of_list["T"],) if "T" in of_list else (),
        extra={name: of_list[kind] for kind, name in _LIST_KEYS.items() if kind in of_list},
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
    fields |= {name: hypothesis[kind] for kind, name in _FIELDS.items() if kind in hypothesis}
    return Candidate(text, logprob, fields)


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
    "W": _seconds,
}


def _open(path: str | Path, options: ListOptions) -> OpenedFiles:
    num_sentences = None if options.sources is None else count_lines(options.sources)
    source = LineSource(path)
    return [source], read_fairseq(source, num_sentences)


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
        example="S-0\tsource\nH-0\t-0.5\ta text\nD-0\t-0.5\ta text\nP-0\t-0.5 -0.5\n",
    ),
)
