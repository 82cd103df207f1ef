"""N-best lists of Moses and Marian: lines of columns between ``|||``, the lines of one id adjacent.

    Moses    id ||| text ||| LM0= -3.2 TM0= -1 -2 ||| score ||| further columns
    Marian   id ||| text ||| alignment, WordScores=, WordCounts= ||| F0= logprob ||| score
Features (also ``LM0=-3.2`` and ``LM0: -3.2``) become fields of the candidate by their names, several values a list,
values before any name ``features``; in Moses' lists, fields that are numbers are written so, too. A bad line spoils
the list of its id. All lines of a file have as many columns as the first one, so that a separator that is missing,
too many, or of two or four bars shifts nothing.

Moses' score is a weighted sum and becomes ``score``; a feature called ``logprob`` is the log-probability; further
columns (alignments) become ``columns``. Marian sums natural logarithms: the one feature of a single model is the
total log-probability and becomes ``logprob``; of an ensemble each model's stays a feature (``F0``, ``F1``, ...) and
there is no ``logprob``. Its last column becomes ``score``: normalised and with word penalty, as the options of the
decoder say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....metrics.errors import InputError
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.lists import NOTHING, Candidate, CandidateList, finite_of
from ....rerank.runs.resumable import Entry
from ...files.entries import ListEntry, ListLines, list_entry, placed
from ..format_table import NUMBERED, Format, ListWriting, one_file

ReadCandidate = Callable[[Sequence[str]], Candidate]  # the candidate of the columns after the id
BAR = " ||| "
SCORE = "score"
LOGPROB = "logprob"  # a feature of this name is the log-probability, and no field
MODEL = re.compile(r"F\d+")  # the log-probability of a model of Marian
_BARS = re.compile(rb"\|\|+")  # also where it should be three
_BROKEN = re.compile(r"(?<!\|)(?:\|\||\|{4,})(?!\|)")
_FOUR_BARS = re.compile(r"\|{4,}")
_NAMED = re.compile(r"([^=\s]+)=(\S*)|(\S+):")
_TAKEN = frozenset({"text", "roles", "foci", "rst", "columns"})
_NAMED_COLUMN = re.compile(r"(WordScores|WordCounts)=\s*(.*)")
_HARD = re.compile(r"(\d+-\d+( |$))*", re.ASCII)
_SOFT = re.compile(r"([\d.eE+-]+(,[\d.eE+-]+)*( |$))+", re.ASCII)
_MOSES_LINE = rb"\d+ \|\|\| .*? \|\|\| "
_MARIAN_LINE = _MOSES_LINE + rb"F\d+="


class _Lines:
    """The lines of a file as lists.

    Args:
        source: the file.
        shape, format: what a line looks like, and the format's name, for errors.
        min_columns: how many columns a line must have, with the id.
        read: makes a candidate of the columns after the id.
    """

    def __init__(
        self, source: LineSource, shape: str, format: str, min_columns: int, read: ReadCandidate
    ) -> None:
        self._source, self._shape, self._format = source, shape, format
        self._min_columns, self._read = min_columns, read
        self._first: tuple[int, int] | None = None  # number and columns of the first line

    def entries(self) -> Iterator[ListEntry]:
        """One entry per run of lines with the same id.

        Raises:
            InputError: the first line has no ``|||``, or a list is larger than any real one.
        """
        block, block_id = ListLines(self._source.name), ""
        for number, line in without_trailing_blanks(self._source):
            id_end = _BARS.search(line)
            if b"|||" not in line and not block.lines:
                problem = f"no ||| in {line[:40]!r}, expected {self._shape}"
                raise self._source.refusal(number, problem, f"Is it a {self._format} n-best list?")
            line_id = block_id if id_end is None else line[: id_end.start()].decode().strip()
            if self._first is None and line.count(b"|||") >= self._min_columns - 1:
                self._first = (number, line.count(b"|||") + 1)
            if block.lines and line_id != block_id:
                yield self._entry(block, block_id)
                block = ListLines(self._source.name)
            block_id = line_id
            block.add((number, line))
        if block.lines:
            yield self._entry(block, block_id)

    def _entry(self, block: ListLines, list_id: str) -> ListEntry:
        """The list of a block of lines, or the error in the first bad line."""
        candidates: list[Candidate] = []
        for number, line in block.lines:
            try:
                candidates.append(self._candidate(line.decode()))
            except InputError as error:
                fix = error.fix or f"The list {list_id!r:.80} is left out"
                advised = InputError(error.problem, where=error.where, fix=fix)
                in_file = placed(advised, f"{self._source.name}:{number}")
                return Entry(None, in_file, block.first, block.raw, list_id or None)
        return list_entry(CandidateList(list_id, tuple(candidates)), block.first, block.raw)

    def _candidate(self, line: str) -> Candidate:
        """The candidate of a line, whose first column is the id.

        Raises:
            InputError: it has other columns than the first line of the file, or too many bars in a row.
        """
        columns = [column.strip() for column in line.split("|||")]
        if len(columns) < self._min_columns:
            problem = f"{len(columns)} columns, expected {self._shape}"
            raise InputError(problem, fix="Is there a line break within a text?")
        list_id, *rest = columns
        if not list_id:
            raise InputError("found nothing, expected an id", where="id")
        candidate = self._read(rest)
        number, expected = self._first or (0, len(columns))
        if len(columns) != expected:
            broken = _BROKEN.search(line)
            hint = (
                "Is a separator ||| missing"
                if len(columns) < expected
                else "Is there ||| in a text"
            )
            fix = f"{hint}, or {broken[0]!r} in its place?" if broken else f"{hint}?"
            raise InputError(f"{len(columns)} columns, line {number} has {expected}", fix=fix)
        if bars := _FOUR_BARS.search(line):
            problem = f"found {bars[0]!r:.40} at character {bars.start() + 1}, expected |||"
            raise InputError(problem, fix="A separator has three bars, and a blank at either side")
        return candidate


def features(column: str) -> dict[str, Any]:
    """Numbers by name, several values a list, those before any name ``features``.

    Raises:
        InputError: a value is no number, or a name has none, or it is taken.
    """
    values_of: dict[str, list[float]] = {}
    name = "features"
    for token in column.split():
        value = token
        if named := _NAMED.fullmatch(token):
            name, value = named[1] or named[3], named[2] or ""
            if name in values_of or name in _TAKEN:
                fix = "The name is taken: rename the feature"
                raise InputError(f"a feature named {name!r:.80}", fix=fix)
            values_of[name] = []
        if value:
            values_of.setdefault(name, []).append(finite_number(value, name))
    if lacking := [name for name, values in values_of.items() if not values]:
        raise InputError("no value", where=lacking[0])
    return {name: own[0] if len(own) == 1 else own for name, own in values_of.items()}


def finite_number(text: str, where: str) -> float:
    """The number that a text is; raises InputError where it is none, or is not finite."""
    number = finite_of(text)
    if number is None:
        raise InputError(f"found {text!r:.40}, expected a finite number", where=where)
    return number


def read_moses(source: LineSource) -> Iterator[ListEntry]:
    """One entry per run of lines with the same id; errors as `_Lines`."""
    shape = "id ||| text ||| features ||| score"
    return _Lines(source, shape, "Moses", 3, _moses_candidate).entries()


def _moses_candidate(columns: Sequence[str]) -> Candidate:
    """The candidate of text, features, score and further columns; only the first two must be there."""
    text, features_column, *further = columns
    fields = features(features_column)
    logprob = fields.pop(LOGPROB, None)
    if isinstance(logprob, list):
        raise InputError(f"found {len(logprob)} values, expected one", where=LOGPROB)
    if further:
        if SCORE in fields:
            problem = "a feature of this name beside the column"
            raise InputError(problem, where=SCORE, fix="Rename it")
        fields[SCORE] = finite_number(further[0], SCORE)
    if len(further) > 1:
        fields["columns"] = further[1:]
    return Candidate(text, logprob, fields or NOTHING)


def read_marian(source: LineSource) -> Iterator[ListEntry]:
    """One entry per run of lines with the same id; errors as `_Lines`."""
    shape = "id ||| text ||| F0= logprob ||| score"
    return _Lines(source, shape, "Marian", 4, _marian_candidate).entries()


def _marian_candidate(columns: Sequence[str]) -> Candidate:
    """The candidate of text, further columns, features and score."""
    text, *further, features_column, score_column = columns
    fields: dict[str, Any] = {}
    for column in further:
        name, value = _further_column(column)
        if name in fields:
            raise InputError(f"a second column of {name}", where=name)
        fields[name] = value
    values = features(features_column)
    logprobs = {name: value for name, value in values.items() if MODEL.fullmatch(name)}
    if not logprobs or not all(isinstance(value, float) for value in logprobs.values()):
        problem = f"found {features_column!r:.60}, expected F0= and a number"
        raise InputError(problem, where="F0", fix="Is it from Marian?")
    if taken := {SCORE, LOGPROB, *fields} & values.keys():
        raise InputError("a feature of this name beside the column", where=min(taken))
    logprob = values.pop("F0") if list(logprobs) == ["F0"] else None
    score = finite_number(score_column, SCORE)
    return Candidate(text, logprob, {SCORE: score, **values, **fields})


def _further_column(column: str) -> tuple[str, Any]:
    """Name and value of a column between text and features."""
    if named := _NAMED_COLUMN.fullmatch(column):
        name, text = named.groups()
        numbers = [number for number in re.split(r"[ ,]+", text) if number]
        return name, [finite_number(number, name) for number in numbers]
    if _HARD.fullmatch(column) or _SOFT.fullmatch(column):
        return "alignment", column
    problem = f"a column {column!r:.60} between text and features"
    raise InputError(problem, fix="Is there ||| in the text?")


def moses_line(list_id: str, candidate: Candidate) -> str:
    """The line of a candidate, without its end; what it cannot say is seen when it is read back."""
    fields = dict(candidate.fields)
    further = fields.pop("columns", ())
    scores = [fields.pop(SCORE)] if SCORE in fields else []
    if candidate.logprob is not None:
        fields = {LOGPROB: candidate.logprob, **fields}
    features = " ".join(f"{name}= {_numbers_text(value)}" for name, value in fields.items())
    columns = [list_id, str(candidate.text), features, *map(_numbers_text, scores)]
    return BAR.join([*columns, *map(str, further)])


def _numbers_text(value: Any) -> str:
    """A number, or several with blanks between, each by the shortest digits that are read as the same."""
    return " ".join(map(repr, value if isinstance(value, list | tuple) else [value]))


def _holds(name: str, value: Any) -> bool:
    """Whether a field can be written: further columns, or a feature of one number or at least two."""
    if name == "columns":
        return isinstance(value, list)
    values = value if isinstance(value, list | tuple) and len(value) > 1 else [value]
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


def _num_columns(lines: Sequence[str]) -> int:
    """How many columns all lines of a list have; raises InputError where they differ."""
    counts = {line.count("|||") + 1 for line in lines}
    if len(counts) > 1:
        problem = f"lines of {min(counts)} and of {max(counts)} columns"
        fix = "Give all candidates the same fields, or leave some out: --lossy"
        raise InputError(problem, where="candidates", fix=fix)
    return counts.pop()


FORMATS = (
    Format(
        "moses",
        "a Moses n-best list",
        one_file(read_moses),
        NUMBERED,
        first_line=re.compile(b"(?!%b)%b" % (_MARIAN_LINE, _MOSES_LINE)),
        is_numbered=True,
        written=ListWriting(
            lambda record: (moses_line(record.id, candidate) for candidate in record.candidates),
            lambda source, num_candidates: read_moses(source),
            "columns",
            _num_columns,
            lambda lines, counts: _num_columns([next(lines)]),
            _holds,
        ),
        example="0 ||| a text ||| LM0= -3.2 TM0= -1 -2 ||| -4.5\n0 ||| b ||| LM0= -3 ||| -5\n",
    ),
    Format(
        "marian",
        "a Marian n-best list",
        one_file(read_marian),
        NUMBERED,
        first_line=re.compile(_MARIAN_LINE),
        is_numbered=True,
        example="0 ||| a text ||| 0-0 ||| F0= -3.2 ||| -1.6\n0 ||| b ||| 0-0 ||| F0= -4 ||| -2\n",
    ),
)
