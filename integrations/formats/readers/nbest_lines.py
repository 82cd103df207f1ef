"""N-best lists of Moses and Marian: lines of columns between ``|||``, the lines of one id adjacent, read and written.

    Moses    id ||| text ||| LM0= -3.2 TM0= -1 -2 ||| score ||| further columns
    Marian   id ||| text ||| alignment, WordScores=, WordCounts= ||| F0= logprob ||| score
Features (also ``LM0=-3.2`` and ``LM0: -3.2``) become fields of the candidate by their names, several values a list,
values before any name ``features``; fields that are numbers, or several, are written as features. A bad line spoils
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.lists import NOTHING, Candidate, CandidateList, finite_of
from ....rerank.runs.resumable import Entry
from ...files.entries import ListEntry, ListLines, list_entry, placed
from ..format_table import NUMBERED, Format, ListWriting, one_file

ReadCandidate = Callable[[Sequence[str]], Candidate]  # the candidate of the columns after the id
_BARS = re.compile(rb"\|\|+")  # also where it should be three
_BROKEN = re.compile(r"(?<!\|)(?:\|\||\|{4,})(?!\|)")
_FOUR_BARS = re.compile(r"\|{4,}")
_NAMED = re.compile(r"([^=\s]+)=(\S*)|(\S+):")
_TAKEN = frozenset({"text", "roles", "foci", "rst", "columns"})
MODEL = re.compile(r"F\d+")  # the log-probability of a model of Marian
LOGPROB = "logprob"  # a feature of this name is the log-probability, and no field


def read_columns(
    source: LineSource,
    shape: str,
    format: str,
    min_columns: int,
    read: ReadCandidate,
) -> Iterator[ListEntry]:
    """One entry per run of lines with the same id.

    Args:
        source: the file.
        shape, format: what a line looks like, and the format's name, for errors.
        min_columns: how many columns a line must have, with the id.
        read: makes a candidate of the columns after the id.

    Raises:
        InputError: the first line has no ``|||``, or a list is larger than any real one.
    """
    row_format = _RowFormat(source.name, shape, min_columns, read)
    block = ListLines(source.name)
    block_id = ""
    for number, line in without_trailing_blanks(source):
        id_end = _BARS.search(line)
        if b"|||" not in line and not block.lines:
            raise source.refusal(
                number,
                f"no ||| in {line[:40]!r}, expected {shape}",
                f"Is it a {format} n-best list?",
            )
        line_id = block_id if id_end is None else line[: id_end.start()].decode().strip()
        if row_format.first is None and line.count(b"|||") >= min_columns - 1:
            row_format = row_format._replace(first=(number, line.count(b"|||") + 1))
        if block.lines and line_id != block_id:
            yield _entry(block, block_id, row_format)
            block = ListLines(source.name)
        block_id = line_id
        block.add((number, line))
    if block.lines:
        yield _entry(block, block_id, row_format)


class _RowFormat(NamedTuple):
    """How the lines of a file are read: the arguments of `read_columns`, and number and columns of the first line."""

    name: str
    shape: str
    min_columns: int
    read: ReadCandidate
    first: tuple[int, int] | None = None


def _entry(block: ListLines, list_id: str, row_format: _RowFormat) -> ListEntry:
    """The list of a block of lines, or the error in the first bad line."""
    candidates: list[Candidate] = []
    for number, line in block.lines:
        try:
            candidates.append(_candidate(line.decode(), row_format))
        except InputError as error:
            advised = InputError(
                error.problem,
                where=error.where,
                fix=error.fix or f"The list {list_id!r:.80} is left out",
            )
            in_file = placed(advised, f"{row_format.name}:{number}")
            return Entry(None, in_file, block.first, block.raw, list_id or None)
    return list_entry(CandidateList(list_id, tuple(candidates)), block.first, block.raw)


def _candidate(line: str, row_format: _RowFormat) -> Candidate:
    """The candidate of a line, whose first column is the id."""
    columns = [column.strip() for column in line.split("|||")]
    if len(columns) < row_format.min_columns:
        problem = f"{len(columns)} columns, expected {row_format.shape}"
        raise InputError(problem, fix="Is there a line break within a text?")
    list_id, *rest = columns
    if not list_id:
        raise InputError("found nothing, expected an id", where="id")
    candidate = row_format.read(rest)
    _check_bars(line, len(columns), row_format.first)
    return candidate


def _check_bars(line: str, num_columns: int, first: tuple[int, int] | None) -> None:
    """Raises InputError for a line with other columns than the first line of the file, or too many bars in a row."""
    number, expected = first or (0, num_columns)
    if num_columns != expected:
        broken = _BROKEN.search(line)
        hint = "Is a separator ||| missing" if num_columns < expected else "Is there ||| in a text"
        fix = f"{hint}, or {broken[0]!r} in its place?" if broken else f"{hint}?"
        raise InputError(f"{num_columns} columns, line {number} has {expected}", fix=fix)
    if bars := _FOUR_BARS.search(line):
        problem = f"found {bars[0]!r:.40} at character {bars.start() + 1}, expected |||"
        raise InputError(problem, fix="A separator has three bars, and a blank at either side")


def without_logprob(values: dict[str, Any]) -> tuple[float | None, dict[str, Any]]:
    """The feature ``logprob``, if there is one, and the others.

    Raises:
        InputError: it has several values.
    """
    rest = dict(values)
    logprob = rest.pop(LOGPROB, None)
    if isinstance(logprob, list):
        raise InputError(f"found {len(logprob)} values, expected one", where=LOGPROB)
    return logprob, rest


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
            name = named[1] or named[3]
            value = named[2] or ""
            if name in values_of or name in _TAKEN:
                fix = "The name is taken: rename the feature"
                raise InputError(f"a feature named {name!r:.80}", fix=fix)
            values_of[name] = []
        if value:
            values_of.setdefault(name, []).append(finite_number(value, name))
    named_values: dict[str, Any] = {}
    for name, values in values_of.items():
        if not values:
            raise InputError("no value", where=name)
        named_values[name] = values[0] if len(values) == 1 else values
    return named_values


def finite_number(text: str, where: str) -> float:
    """The number that a text is; raises InputError where it is none, or is not finite."""
    number = finite_of(text)
    if number is None:
        raise InputError(f"found {text!r:.40}, expected a finite number", where=where)
    return number


def read_moses(source: LineSource) -> Iterator[ListEntry]:
    """One entry per run of lines with the same id; errors as `read_columns`."""
    shape = "id ||| text ||| features ||| score"
    return read_columns(source, shape, "Moses", 3, _moses_candidate)


def _moses_candidate(columns: Sequence[str]) -> Candidate:
    """The candidate of text, features, score and further columns; only the first two must be there."""
    text, features_column, *further = columns
    logprob, fields = without_logprob(features(features_column))
    if further:
        if "score" in fields:
            raise InputError(
                "a feature of this name beside the column",
                where="score",
                fix="Rename it",
            )
        fields["score"] = finite_number(further[0], "score")
    if len(further) > 1:
        fields["columns"] = further[1:]
    return Candidate(text, logprob, fields or NOTHING)


_HARD = re.compile(r"(\d+-\d+( |$))*", re.ASCII)
_SOFT = re.compile(r"([\d.eE+-]+(,[\d.eE+-]+)*( |$))+", re.ASCII)
_NAMED_COLUMN = re.compile(r"(WordScores|WordCounts)=\s*(.*)")


def read_marian(source: LineSource) -> Iterator[ListEntry]:
    """One entry per run of lines with the same id; errors as `read_columns`."""
    shape = "id ||| text ||| F0= logprob ||| score"
    return read_columns(source, shape, "Marian", 4, _marian_candidate)


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
        raise InputError(
            f"found {features_column!r:.60}, expected F0= and a number",
            where="F0",
            fix="Is it from Marian?",
        )
    if taken := {"score", LOGPROB, *fields} & values.keys():
        raise InputError("a feature of this name beside the column", where=min(taken))
    logprob = None
    if list(logprobs) == ["F0"]:
        logprob = values.pop("F0")
    score = finite_number(score_column, "score")
    return Candidate(text, logprob, {"score": score, **values, **fields})


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


SCORE = "score"
BAR = " ||| "
_WORD_COLUMNS = ("WordScores", "WordCounts")


def moses_line(list_id: str, candidate: Candidate) -> str:
    """The line of a candidate, without its end.

    Raises:
        InputError: a field is no number, or there are further columns without a score.
    """
    fields = dict(candidate.fields)
    further = fields.pop("columns", [])
    score = fields.pop(SCORE, None)
    if candidate.logprob is not None:
        fields = {LOGPROB: candidate.logprob, **fields}
    columns = [list_id, str(candidate.text), feature_column(fields)]
    if score is not None:
        columns.append(number_text(score, SCORE))
    elif further:
        raise InputError("stand behind a score, and there is none", where="columns")
    if not isinstance(further, list) or not all(isinstance(text, str) for text in further):
        raise InputError(f"found {excerpt(further)}, expected texts", where="columns")
    return BAR.join([*columns, *further])


def marian_line(list_id: str, candidate: Candidate) -> str:
    """The line of a candidate, without its end.

    Raises:
        InputError: a field is no number, or there is no score, no log-probability or F0.
    """
    fields = dict(candidate.fields)
    score = fields.pop(SCORE, None)
    if score is None:
        raise InputError("no score, the last column of Marian", where=SCORE, fix="Write moses")
    further = []
    if "alignment" in fields:
        further.append(_text(fields.pop("alignment"), "alignment"))
    for name in _WORD_COLUMNS:
        if name in fields:
            further.append(f"{name}= {numbers_text(fields.pop(name), name)}")
    if candidate.logprob is not None:
        if "F0" in fields:
            problem = "a field of this name, by which Marian calls the log-probability"
            raise InputError(problem, where="F0")
        fields = {"F0": candidate.logprob, **fields}
    if not any(MODEL.fullmatch(name) for name in fields):
        problem = "no log-probability and no F0, with which Marian's features begin"
        raise InputError(problem, where="logprob", fix="Write moses, which has all features")
    columns = [list_id, str(candidate.text), *further, feature_column(fields)]
    return BAR.join([*columns, number_text(score, SCORE)])


def feature_column(fields: Mapping[str, Any]) -> str:
    """Features as ``name= value``, several values behind one name.

    >>> feature_column({"LM0": -3.5, "TM0": [1, 2.25]})
    'LM0= -3.5 TM0= 1 2.25'

    Raises:
        InputError: a value is no number, and no several of them, or a name is not one word.
    """
    for name in fields:
        if not name or "=" in name or "|||" in name or name.split() != [name]:
            problem = f"a field named {excerpt(name)}, and the name of a feature is one word"
            raise InputError(problem, fix="Rename it")
    return " ".join(f"{name}= {numbers_text(value, name)}" for name, value in fields.items())


def is_feature(value: Any) -> bool:
    """Whether a field can be a feature: a number, or at least two of them."""
    values = value if isinstance(value, list | tuple) and len(value) > 1 else [value]
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


def numbers_text(value: Any, where: str) -> str:
    """A number or a list of numbers, with spaces between."""
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(number_text(one, where) for one in values)


def number_text(value: Any, where: str) -> str:
    """The shortest digits that are read as the same number.

    Raises:
        InputError: it is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = f"found {excerpt(value)}, and a feature is a number"
        raise InputError(problem, where=where, fix="Leave it out: --lossy")
    return repr(value)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"found {excerpt(value)}, expected a text", where=where)
    return value


def _lines(line: Callable[[str, Candidate], str]) -> Callable[[CandidateList], Iterator[str]]:
    """The lines of a list, of the line of a candidate."""

    def lines(record: CandidateList) -> Iterator[str]:
        for i, candidate in enumerate(record.candidates):
            try:
                yield line(record.id, candidate)
            except InputError as error:
                raise error.inside(f"candidates[{i}]") from None

    return lines


def _shape(
    lines: Callable[[CandidateList], Iterator[str]],
) -> Callable[[CandidateList], tuple[int, str]]:
    """The number of columns of the lines of a list, of their writing, and why all have as many."""

    def shape(record: CandidateList) -> tuple[int, str]:
        counts = {line.count("|||") + 1 for line in lines(record)}
        if len(counts) > 1:
            problem = f"lines of {min(counts)} and of {max(counts)} columns"
            fix = "Give all candidates the same fields, or leave some out: --lossy"
            raise InputError(problem, where="candidates", fix=fix)
        return counts.pop(), "all lines of a file have as many columns"

    return shape


def _earlier_shape(lines: Iterator[str], counts: Mapping[str, int]) -> int:
    return next(lines).count("|||") + 1


_MOSES_LINE = rb"\d+ \|\|\| .*? \|\|\| "
_MARIAN_LINE = _MOSES_LINE + rb"F\d+="
FORMATS = (
    Format(
        "moses",
        "a Moses n-best list",
        one_file(read_moses),
        NUMBERED,
        first_line=re.compile(b"(?!%b)%b" % (_MARIAN_LINE, _MOSES_LINE)),
        is_numbered=True,
        written=ListWriting(
            _lines(moses_line),
            lambda source, num_candidates: read_moses(source),
            frozenset({SCORE, "columns"}),
            shape=_shape(_lines(moses_line)),
            earlier_shape=_earlier_shape,
            ends_columns=True,
            has_total=True,
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
        written=ListWriting(
            _lines(marian_line),
            lambda source, num_candidates: read_marian(source),
            frozenset({SCORE, "alignment", *_WORD_COLUMNS}),
            shape=_shape(_lines(marian_line)),
            earlier_shape=_earlier_shape,
            ends_columns=True,
            has_total=True,
        ),
        example="0 ||| a text ||| 0-0 ||| F0= -3.2 ||| -1.6\n0 ||| b ||| 0-0 ||| F0= -4 ||| -2\n",
    ),
)
