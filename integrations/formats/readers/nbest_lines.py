"""N-best lists of Moses and Marian: lines of columns between ``|||``, the lines of one id adjacent.

    Moses    id ||| text ||| LM0= -3.2 TM0= -1 -2 ||| score ||| further columns
    Marian   id ||| text ||| further columns ||| F0= logprob ||| score
Features (also ``LM0=-3.2`` and ``LM0: -3.2``) become fields of the candidate by their names, several values a list,
values before any name ``features``; in Moses' lists, fields that are numbers are written so, too. A bad line spoils
the list of its id. All lines of a file have as many columns as the first one, so that a separator that is missing,
too many, or of two or four bars shifts nothing.

Moses' score is a weighted sum and becomes ``score``; a feature called ``logprob`` is the log-probability; further
columns (alignments, scores of words) become ``columns``. Marian sums natural logarithms: the one feature of a single
model is the total log-probability and becomes ``logprob``; of an ensemble each model's stays a feature (``F0``, ``F1``,
...) and there is no ``logprob``. Its last column becomes ``score``, normalised and with word penalty as the options of
the decoder say.
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
_MOSES_LINE = rb"\d+ \|\|\| .*? \|\|\| "
_MARIAN_LINE = _MOSES_LINE + rb"F\d+="


def _lists(
    source: LineSource, shape: str, min_columns: int, read: ReadCandidate
) -> Iterator[ListEntry]:
    """One entry per run of lines with the same id.

    Args:
        source: the file.
        shape: what a line looks like, for errors.
        min_columns: how many columns a line must have, with the id.
        read: makes a candidate of the columns after the id.

    Raises:
        InputError: the first line has no ``|||``, or a list is larger than any real one.
    """
    first = (0, 0)  # number and columns of the first line
    for list_id, block in _blocks(source, shape):
        candidates = []
        try:
            for number, line in block.lines:
                if not first[0] and line.count(b"|||") >= min_columns - 1:
                    first = (number, line.count(b"|||") + 1)
                columns = _columns(line.decode(), shape, min_columns, first)
                candidates.append(read(columns[1:]))
        except InputError as error:
            in_file = placed(error, f"{source.name}:{number}")
            yield Entry(None, in_file, block.first, block.raw, list_id or None)
            continue
        yield list_entry(CandidateList(list_id, tuple(candidates)), block.first, block.raw)


def _blocks(source: LineSource, shape: str) -> Iterator[tuple[str, ListLines]]:
    """The runs of lines with the same id; errors as `_lists`."""
    block, block_id = ListLines(source.name), ""
    for number, line in without_trailing_blanks(source):
        id_end = _BARS.search(line)
        if b"|||" not in line and not block.lines:
            problem = f"no ||| in {line[:40]!r}, expected {shape}"
            raise source.refusal(number, problem, "Is it an n-best list?")
        line_id = block_id if id_end is None else line[: id_end.start()].decode().strip()
        if block.lines and line_id != block_id:
            yield block_id, block
            block = ListLines(source.name)
        block_id = line_id
        block.add((number, line))
    if block.lines:
        yield block_id, block


def _columns(line: str, shape: str, min_columns: int, first: tuple[int, int]) -> list[str]:
    """The columns of a line.

    Raises:
        InputError: there are other columns than in the first line of the file, or too many bars in a row.
    """
    columns = [column.strip() for column in line.split("|||")]
    if len(columns) < min_columns:
        problem = f"{len(columns)} columns, expected {shape}"
        raise InputError(problem, fix="Is there a line break within a text?")
    if not columns[0]:
        raise InputError("found nothing, expected an id", where="id")
    number, expected = first
    if len(columns) != expected:
        fix = "Is a separator ||| missing?"
        if len(columns) > expected:
            fix = "Is there ||| in a text?"
        elif broken := _BROKEN.search(line):
            fix = f"Is a separator ||| missing, or {broken[0]!r} in its place?"
        raise InputError(f"{len(columns)} columns, line {number} has {expected}", fix=fix)
    if bars := _FOUR_BARS.search(line):
        problem = f"found {bars[0]!r:.40} at character {bars.start() + 1}, expected |||"
        raise InputError(problem, fix="A separator has three bars, and a blank at either side")
    return columns


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
    """One entry per run of lines with the same id; errors as `_lists`."""
    shape = "id ||| text ||| features ||| score"
    return _lists(source, shape, 3, _moses_candidate)


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
    """One entry per run of lines with the same id; errors as `_lists`."""
    shape = "id ||| text ||| F0= logprob ||| score"
    return _lists(source, shape, 4, _marian_candidate)


def _marian_candidate(columns: Sequence[str]) -> Candidate:
    """The candidate of text, further columns, features and score."""
    text, *further, features_column, score_column = columns
    fields = features(features_column)
    logprobs = {name: value for name, value in fields.items() if MODEL.fullmatch(name)}
    if not logprobs or not all(isinstance(value, float) for value in logprobs.values()):
        problem = f"found {features_column!r:.60}, expected F0= and a number"
        raise InputError(problem, where="F0", fix="Is it from Marian?")
    if taken := {SCORE, LOGPROB} & fields.keys():
        raise InputError("a feature of this name beside the column", where=min(taken))
    logprob = fields.pop("F0") if list(logprobs) == ["F0"] else None
    more = {"columns": further} if further else {}
    return Candidate(text, logprob, {SCORE: finite_number(score_column, SCORE), **fields, **more})


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
