"""Candidate lists in the forms of other tools: what `open_lists` reads, written, and nothing lost without a word.

Every list that is written is read back from its bytes by the reader of the form and compared with what went in, so
what cannot be said in a form (``|||`` in a text of Moses, a line break, a field that is no number) is an error with
its place, and never another list. What a form has no place for at all is refused, or left out where that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from math import isclose
from typing import Any, Protocol

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.line_source import LineSource
from ...metrics.text.texts import Document
from ...rerank.lists import Candidate, CandidateList, write_list
from ...rerank.runs.rows import as_line
from ..files.entries import ListEntry
from . import written_fairseq
from .fairseq_log import read_fairseq
from .flat import read_flat
from .marian import read_marian
from .moses import read_moses
from .written_columns import BAR, SCORE, is_feature, marian_line, moses_line

# what a list may have beside its id and its candidates, with the value of one that has it not
_PARTS: Mapping[str, Any] = {
    "source": None,
    "document": None,
    "position": None,
    "pseudo_references": (),
    "references": (),
    "context_only": False,
    "extra": {},
}
_SPECIAL = {
    "moses": frozenset({SCORE, "columns"}),
    "marian": frozenset({SCORE, "alignment", "WordScores", "WordCounts"}),
    "fairseq": frozenset(written_fairseq.OWN),
}
_LAST_PLACES = 4e-16  # relative: a logarithm to another base and back


class ListWriter(Protocol):
    """Writes lists one after another."""

    left_out: dict[str, int]

    def written(self, record: CandidateList) -> bytes:
        """The lines of the next list; raises InputError where it cannot be written."""


class JsonWriter:
    """Lists as JSON lines, which hold all that a list has."""

    def __init__(self) -> None:
        self.left_out: dict[str, int] = {}

    def written(self, record: CandidateList) -> bytes:
        """The line of a list."""
        return as_line(write_list(record))


@dataclass
class FormWriter:
    """Lists in one of `FORMS`.

    Args:
        form: its name.
        lossy: whether what it has no place for is left out; an error if not.
        elsewhere: parts of a list, such as "source", that stand in files of their own and are left out.
        left_out: how many lists lost each part or field.
        shape: what all lists must have alike: how many candidates, or which lines; that of the first list.
    """

    form: str
    lossy: bool = False
    elsewhere: frozenset[str] = frozenset()
    left_out: dict[str, int] = field(default_factory=dict)
    shape: Any = None
    num_lists: int = 0

    def written(self, record: CandidateList) -> bytes:
        """The lines of the next list.

        Raises:
            InputError: the form cannot say what is in it; with the place.
        """
        reduced = self._reduced(record)
        _check_texts(reduced, ends_columns=self.form in ("moses", "marian"))
        data = _LINES[self.form](reduced)
        back = read_back(self.form, data, len(reduced.candidates))
        if self.form == "flat":  # of which the number of the list is the id
            back = replace(back, id=reduced.id)
        _check_same(reduced, back, self.form)
        self._check_shape(reduced)
        self.num_lists += 1
        return data

    def _reduced(self, record: CandidateList) -> CandidateList:
        """The list without what the form has no place for; raises InputError where it may not be left out."""
        changes: dict[str, Any] = {}
        for name, absent in _PARTS.items():
            value = getattr(record, name)
            if value == absent or self._holds(record, name):
                continue
            if name not in self.elsewhere:
                self._leave_out(name, name)
            changes[name] = absent
        if self.form == "flat" and record.id != str(self.num_lists):
            self._leave_out("id", "id")
            changes["id"] = str(self.num_lists)
        candidates = [self._reduced_candidate(c, i) for i, c in enumerate(record.candidates)]
        return replace(record, candidates=tuple(candidates), **changes)

    def _holds(self, record: CandidateList, name: str) -> bool:
        """Whether the form has a place for a part of the list."""
        if self.form != "fairseq":
            return False
        if name == "extra":
            return record.extra.keys() <= {"seconds", "constraints"}
        return name == "source" or (name == "references" and len(record.references) == 1)

    def _reduced_candidate(self, candidate: Candidate, i: int) -> Candidate:
        """The candidate without fields for which the form has no place."""
        if self.form == "flat":
            for name in candidate.fields:
                self._leave_out(name, f"candidates[{i}].{name}")
            if candidate.logprob is not None:
                self._leave_out("logprob", f"candidates[{i}].logprob")
            return Candidate(candidate.text)
        if not self.lossy:
            return candidate
        special = _SPECIAL[self.form]
        kept = {}
        for name, value in candidate.fields.items():
            if name in special or is_feature(value):
                kept[name] = value
            else:
                self._leave_out(name, name)
        return replace(candidate, fields=kept)

    def _leave_out(self, name: str, where: str) -> None:
        """Counts what is left out; raises InputError where it may not be."""
        if not self.lossy:
            problem = f"{self.form} has no place for it"
            raise InputError(problem, where=where, fix="Leave it out: --lossy")
        self.left_out[name] = self.left_out.get(name, 0) + 1

    def _check_shape(self, record: CandidateList) -> None:
        """Raises InputError for a list that a reader could not tell from its neighbours, or would take for cut off."""
        if self.form not in _SHAPES:
            return
        shape, what = _SHAPES[self.form](record)
        if self.shape not in (None, shape):
            problem = f"{what}, the lists before: {self.shape}, this one: {shape}"
            raise InputError(problem, where="candidates", fix="Write moses")
        self.shape = shape


def read_back(form: str, data: bytes, num_candidates: int) -> CandidateList:
    """The list that the reader of a form makes of the lines of one.

    Raises:
        InputError: it makes none of them.
    """
    source = LineSource("the line", file=BytesIO(data))
    entries = read_flat(source, num_candidates) if form == "flat" else _READERS[form](source)
    *_, entry = [None, *entries]  # in a log, gaps in the ids come first
    if entry is None:
        raise InputError("nothing is read back of it", fix="Write JSON lines")
    if entry.record is None:
        problem = "nothing is read back of it" if entry.error is None else entry.error.problem
        where = "" if entry.error is None else entry.error.where.partition(": ")[2]
        problem = f"would be read back with an error: {problem}"
        raise InputError(problem, where=where, fix="Write JSON lines")
    return entry.record


def list_writer(form: str | None, lossy: bool = False, elsewhere: Iterable[str] = ()) -> ListWriter:
    """What writes lists in a form; JSON lines without one."""
    if form is None:
        return JsonWriter()
    return FormWriter(form, lossy, frozenset(elsewhere))


def _moses(record: CandidateList) -> bytes:
    return _columns(record, moses_line)


def _marian(record: CandidateList) -> bytes:
    return _columns(record, marian_line)


def _columns(record: CandidateList, line: Callable[[str, Candidate], str]) -> bytes:
    lines = []
    for i, candidate in enumerate(record.candidates):
        try:
            lines.append(line(record.id, candidate))
        except InputError as error:
            raise error.inside(f"candidates[{i}]") from None
    return _encoded(lines)


def _fairseq(record: CandidateList) -> bytes:
    return _encoded(written_fairseq.fairseq_lines(record))


def _flat(record: CandidateList) -> bytes:
    return _encoded(str(candidate.text) for candidate in record.candidates)


def _encoded(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


_LINES: Mapping[str, Callable[[CandidateList], bytes]] = {
    "moses": _moses,
    "marian": _marian,
    "fairseq": _fairseq,
    "flat": _flat,
}
_READERS: Mapping[str, Callable[[LineSource], Iterator[ListEntry]]] = {
    "moses": read_moses,
    "marian": read_marian,
    "fairseq": read_fairseq,
}


def _flat_shape(record: CandidateList) -> tuple[Any, str]:
    return len(record.candidates), "flat text has as many candidates in every list"


def _log_shape(record: CandidateList) -> tuple[Any, str]:
    has_logprobs = {candidate.logprob is not None for candidate in record.candidates}
    if len(has_logprobs) > 1:
        raise InputError("some have one, some have none", where="logprob", fix="Write moses")
    lines = ("S",) * (record.source is not None) + ("P",) * (True in has_logprobs)
    return lines, "the lists of a log have the same kinds of lines"


_SHAPES: Mapping[str, Callable[[CandidateList], tuple[Any, str]]] = {
    "flat": _flat_shape,
    "fairseq": _log_shape,
}


def _check_texts(record: CandidateList, ends_columns: bool) -> None:
    """Raises InputError for texts that no line holds."""
    texts = [(f"candidates[{i}].text", c.text) for i, c in enumerate(record.candidates)]
    texts += [(f"references[{i}]", text) for i, text in enumerate(record.references)]
    if record.source is not None:
        texts.append(("source", record.source))
    for where, text in (*texts, ("id", record.id)):
        if isinstance(text, Document):
            problem = "a text of several sentences, and a line is one text"
            raise InputError(problem, where=where, fix="Write JSON lines")
        _check_text(text, where)
        if ends_columns and BAR.strip() in text:
            problem = f"holds {BAR.strip()}, which ends a column"
            raise InputError(problem, where=where, fix="Write JSON lines")


def _check_text(text: str, where: str) -> None:
    for character, name in (("\n", "a line break"), ("\0", "a NUL character")):
        if character in text:
            raise InputError(f"holds {name}", where=where, fix="Write JSON lines")
    if text.startswith("\ufeff"):
        problem = "begins with a byte order mark, which readers take away"
        raise InputError(problem, where=where, fix="Write JSON lines")
    try:
        text.encode()
    except UnicodeEncodeError:
        problem = "holds half of a surrogate pair, which is no character"
        raise InputError(problem, where=where, fix="Write JSON lines") from None


def _check_same(record: CandidateList, back: CandidateList, form: str) -> None:
    """Raises InputError for what would be read back otherwise, with the first such place."""
    if len(back.candidates) != len(record.candidates):
        problem = (
            f"{len(record.candidates)} candidates would be read back as {len(back.candidates)}"
        )
        raise InputError(problem, where="candidates", fix="Write JSON lines")
    pairs: list[tuple[str, Any, Any]] = [("id", record.id, back.id)]
    pairs += [(name, getattr(record, name), getattr(back, name)) for name in _PARTS]
    for i, (one, other) in enumerate(zip(record.candidates, back.candidates, strict=True)):
        where = f"candidates[{i}]"
        pairs.append((f"{where}.text", one.text, other.text))
        pairs.append((f"{where}.logprob", one.logprob, other.logprob))
        names = [*one.fields, *(name for name in other.fields if name not in one.fields)]
        pairs += [(f"{where}.{n}", one.fields.get(n), other.fields.get(n)) for n in names]
    for where, value, read in pairs:
        if value == read or (form == "fairseq" and _is_near(value, read)):
            continue
        problem = f"{excerpt(value)} would be read back as {excerpt(read)}"
        raise InputError(problem, where=where, fix="Write JSON lines, or leave it out")


def _is_near(value: Any, read: Any) -> bool:
    """Whether two numbers are the same but for the last places of a logarithm."""
    are_numbers = isinstance(value, float | int) and isinstance(read, float | int)
    return are_numbers and isclose(value, read, rel_tol=_LAST_PLACES, abs_tol=1e-320)
