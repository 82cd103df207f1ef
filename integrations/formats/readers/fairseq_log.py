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
from collections.abc import Iterator, Mapping
from ctypes import c_float
from math import inf, log, nextafter
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

import numpy as np

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.line_source import Line, LineSource, without_trailing_blanks
from ....rerank.lists import Candidate, CandidateList, check_logprob
from ....rerank.runs.resumable import Entry
from ...files.entries import ListEntry, ListLines, error_entry, list_entry
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
    """The fields of the lines of one sentence, by the letter of their kind."""

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
            check_logprob(last["P"], "P-")
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


# fields that have lines of their own
OWN = (SCORE, "tokenized", "token_scores", "alignment", "steps", "history")
_MANY_DIGITS = 14  # a number of as many was not rounded when it was written
_LIST_KEYS = ("seconds", "constraints")


def fairseq_lines(record: CandidateList) -> Iterator[str]:
    """The lines of a list, without their ends.

    Raises:
        InputError: the id is no number, or a field has no line.
    """
    number = record.id
    if not (number.isascii() and number.isdigit()) or str(int(number[:19])) != number:
        problem = f"found {number!r:.60}, and fairseq numbers its sentences"
        raise InputError(problem, where="id", fix="Write moses, which takes any id")
    if record.source is not None:
        yield f"S-{number}\t{record.source}"
    if len(record.references) > 1:
        problem = f"found {len(record.references)}, and fairseq has one"
        raise InputError(problem, where="references", fix="Leave them out: --lossy")
    for reference in record.references:
        yield f"T-{number}\t{reference}"
    yield from _list_lines(record, number)
    for i, candidate in enumerate(record.candidates):
        try:
            yield from _candidate_lines(candidate, number)
        except InputError as error:
            raise error.inside(f"candidates[{i}]") from None


def _list_lines(record: CandidateList, number: str) -> Iterator[str]:
    """The fields of a list beside its texts."""
    if "seconds" in record.extra:
        yield f"W-{number}\t{number_text(record.extra['seconds'], 'seconds')}\tseconds"
    for constraint in _texts(record.extra.get("constraints", []), "constraints"):
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
    for step, text in enumerate(_texts(fields.pop("history", []), "history")):
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


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InputError(f"found {excerpt(value)}, expected texts", where=where)
    return value


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
