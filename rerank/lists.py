"""Candidate lists: one input with the candidates to choose from, as objects and as JSON data.

It knows neither files nor metrics.
Python may give them as texts alone, as the JSON form without an id, or as rows of Hugging Face datasets. Distinct texts
of a list are compared once, and weigh as often as they occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from functools import cached_property
from math import inf, isfinite, isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics.errors import InputError, excerpt
from ..metrics.representations import FloatArray, IntArray
from ..metrics.storage.limits import limits
from ..metrics.text.texts import (
    Document,
    Text,
    is_blank,
    is_column,
    is_data_frame,
    library_of,
    plain_value,
    rows_of_frame,
)
from .messages import NoTextError, is_reply, reply_text, user_text

NOTHING: Mapping[str, Any] = {}
ANNOTATIONS = ("roles", "foci", "rst")
_SPECIAL = frozenset({"logprob", *ANNOTATIONS})  # keys of candidates that are no fields
_OF_MESSAGES = frozenset({"role", "content", "message", "name", "type", "tool_calls", "refusal"})
_NUMBER_BOUND = 10**18  # numbers beyond it are not shown
OUTPUT_KEYS = frozenset(
    {
        "index",
        "text",
        "utility",
        "gap",
        "ranking",
        "flags",
        "total",
        "budget",
        "document_choice",
    }
)

MAX_LOGPROB = 0.01  # a probability is 1 at most; rounding of half precision adds less


def check_logprob(value: float, where: str) -> None:
    """Raises InputError for a log-probability above 0, by more than rounding."""
    if value > MAX_LOGPROB:
        problem = f"found {value:.6g}, expected a natural log-probability, 0 at most"
        raise InputError(problem, where=where, fix="Give other scores a field of their own")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text to choose.

    Args:
        text: a string or a `Document`.
        logprob: total natural log-probability of the sequence, from -inf to 0.
        fields: everything else known of it (other scores, the system it comes from).

    Raises:
        InputError: the log-probability is above 0, by more than rounding.
    """

    text: Text
    logprob: float | None = None
    fields: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    def __post_init__(self) -> None:
        if self.logprob is not None:
            check_logprob(self.logprob, "logprob")

    def __repr__(self) -> str:
        logprob = "" if self.logprob is None else f", logprob={self.logprob:.4g}"
        fields = f", fields={sorted(self.fields)}" if self.fields else ""
        return f"Candidate({short_text(self.text)}{logprob}{fields})"


@dataclass(frozen=True, slots=True)
class CandidateList:
    """One input and its candidates.

    Args:
        id: its name, unique in a file.
        candidates: what to choose from, at least one.
        source: the input, where there is one.
        document, position: which document it belongs to and where in it; lists of a document are adjacent, in order.
        pseudo_references: texts that stand in for references; the candidates themselves if empty.
        references: human references, never used to decode, only by an oracle.
        context_only: lends its first candidate as context and is not decided.
        extra: other keys, which pass through to the output.
    """

    id: str
    candidates: tuple[Candidate, ...]
    source: Text | None = None
    document: str | None = None
    position: int | None = None
    pseudo_references: tuple[Candidate, ...] = ()
    references: tuple[Text, ...] = ()
    context_only: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise InputError(f"found {_kind(self.id)}, expected a non-empty string", where="id")
        for name in ("candidates", "pseudo_references"):
            for i, candidate in enumerate(getattr(self, name)):
                if not isinstance(candidate, Candidate):
                    problem = f"found {_kind(candidate)}, expected a Candidate"
                    raise InputError(problem, where=f"{name}[{i}]")
        if not self.candidates:
            raise InputError("no candidates, expected at least one", where="candidates")

    def __repr__(self) -> str:
        first, rest = short_text(self.candidates[0].text), len(self.candidates) - 1
        others = f" and {rest} more" if rest else ""
        return f"CandidateList(id={short_text(self.id)}, candidates={first}{others})"


_KEYS = frozenset(one.name for one in dataclass_fields(CandidateList)) - {"extra"}


def read_list(data: Any, number: int | None = None) -> CandidateList:
    """A candidate list from its JSON form.

    Args:
        data: the object; prompt and responses are read as source and candidates.
        number: its place, which is its id where it has none.

    Raises:
        InputError: something is missing, of the wrong type, or a number that is not one; `where` names the place.
    """
    if isinstance(data, CandidateList):
        return data
    try:
        return _read_list(data, number)
    except RecursionError:
        raise InputError("nested too deeply", fix="A candidate list is flat") from None


def _read_list(data: Any, number: int | None) -> CandidateList:
    if not isinstance(data, Mapping):
        raise InputError(f"found {_kind(data)}, expected an object with candidates")
    if "responses" in data and "candidates" not in data:
        data = _of_responses(data)
    identity = _name(data.get("id", number))
    if not isinstance(identity, str) or not identity:
        problem = f"found {_shown(data, 'id')}, expected a text or a whole number"
        raise InputError(problem, where="id")
    candidates = _candidates(data, "candidates")
    extra = {key: value for key, value in data.items() if key not in _KEYS}
    for key, value in extra.items():
        if key in OUTPUT_KEYS:
            fix = "Give the input's key another name"
            raise InputError("is a key that decoding writes", where=key, fix=fix)
        _check_json(value, key)
    source = data.get("source")
    if is_reply(source):
        source = user_text(source)
    return CandidateList(
        identity,
        candidates,
        None if source is None else _text(source, "source"),
        _optional({"document": _name(data.get("document"))}, "document", str, "a string"),
        _optional(data, "position", int, "a whole number"),
        _candidates(data, "pseudo_references"),
        _references(data),
        bool(_optional(data, "context_only", bool, "true or false")),
        extra,
    )


def _name(value: Any) -> Any:
    """An id as text: of a whole number its digits; what is neither stays."""
    return str(value) if type(value) is int and abs(value) < _NUMBER_BOUND else value


def _of_responses(data: Mapping[str, Any]) -> dict[str, Any]:
    """A list whose texts are the responses to a prompt."""
    names = {"prompt": "source", "responses": "candidates"}
    names = {key: name for key, name in names.items() if name not in data}
    return {names.get(key, key): value for key, value in data.items()}


def plain(text: Text) -> str | list[str]:
    """The JSON form of a text: a document is an array of sentences."""
    return list(text.sentences) if isinstance(text, Document) else text


def write_list(record: CandidateList) -> dict[str, Any]:
    """The JSON form of a candidate list; `read_list` is the inverse."""
    row: dict[str, Any] = {"id": record.id}
    for key, value in (("document", record.document), ("position", record.position)):
        if value is not None:
            row[key] = value
    if record.source is not None:
        row["source"] = plain(record.source)
    row["candidates"] = list(map(_written, record.candidates))
    if record.pseudo_references:
        row["pseudo_references"] = list(map(_written, record.pseudo_references))
    if record.references:
        row["references"] = [_written(Candidate(text)) for text in record.references]
    if record.context_only:
        row["context_only"] = True
    return {**row, **record.extra}


def _written(candidate: Candidate) -> Any:
    row: dict[str, Any] = {"text": plain(candidate.text)}
    if isinstance(candidate.text, Document):
        row |= {
            key: value for key in ANNOTATIONS if (value := getattr(candidate.text, key)) is not None
        }
    if "rst" in row:
        row["rst"] = _written_tree(row["rst"])
    if candidate.logprob is not None:
        row["logprob"] = candidate.logprob
    row |= candidate.fields
    return row["text"] if len(row) == 1 else row


def _written_tree(tree: Any) -> Any:
    if isinstance(tree, tuple):
        return list(tree)
    children = [_written_tree(child) for child in tree.children]
    return {"nuc": tree.nuc, "rel": tree.rel, "children": children}


def _candidates(data: Mapping[str, Any], key: str) -> tuple[Candidate, ...]:
    given = data.get(key, [])
    if not isinstance(given, list | tuple):
        raise InputError(f"found {_kind(given)}, expected an array", where=key)
    limits().check("candidates", len(given), key)
    if {type(value) for value in given} == {str}:
        return tuple([Candidate(text, None, NOTHING) for text in given])
    read, faults = [], []
    for i, value in enumerate(given):
        try:
            read.append(_plain_candidate(value) or read_candidate(value, f"{key}[{i}]"))
        except NoTextError as error:
            # in its place, so that numbers of candidates stay; an empty text is never chosen
            read.append(Candidate("", None, {"missing_because": str(error)}))
            faults.append(error)
    if faults and (key != "candidates" or len(faults) == len(read)):
        raise faults[0]
    return tuple(read)


def _plain_candidate(value: Any) -> Candidate | None:
    """A candidate of one plain text that has texts as fields, as most are; None for any other."""
    if type(value) is str:
        return Candidate(value, None, NOTHING)
    if type(value) is not dict or not _SPECIAL.isdisjoint(value):
        return None
    fields = {key: field for key, field in value.items() if type(field) is str}
    text = fields.pop("text", None)
    if text is None or len(fields) != len(value) - 1:
        return None
    return Candidate(text, None, fields or NOTHING)


def read_candidate(value: Any, where: str) -> Candidate:
    """A candidate from its JSON form: a text, or an object with ``text``; errors as `read_list`."""
    if isinstance(value, str):
        return Candidate(value)
    if isinstance(value, Candidate):
        return value
    if is_reply(value):
        message = dict(value) if isinstance(value, Mapping) else {}
        kept = {key: message[key] for key in message if key not in _OF_MESSAGES}
        return read_candidate({**kept, "text": reply_text(value, where)}, where)
    if not isinstance(value, Mapping):
        return Candidate(_text(value, where))
    if "text" not in value:
        raise InputError("no text", where=where, fix='A candidate is a string or {"text": ...}')
    text = _text(
        value["text"], f"{where}.text", {key: value[key] for key in ANNOTATIONS if key in value}
    )
    fields = {key: v for key, v in value.items() if key not in ("text", "logprob", *ANNOTATIONS)}
    for key, v in fields.items():
        _check_json(v, f"{where}.{key}")
    logprob = _logprob(value.get("logprob"), f"{where}.logprob")
    try:
        return Candidate(text, logprob, fields or NOTHING)
    except InputError as error:
        raise error.inside(where) from None


def _text(value: Any, where: str, annotations: Mapping[str, Any] = NOTHING) -> Text:
    if isinstance(value, str) and not annotations:
        return value
    if isinstance(value, Document):
        return value
    if isinstance(value, str):
        problem = f"{sorted(annotations)} beside a plain text"
        raise InputError(problem, where=where, fix="Give its sentences as array")
    is_array = isinstance(value, list | tuple)
    if not is_array or not all(isinstance(sentence, str) for sentence in value):
        problem = f"found {_kind(value)}, expected a string or an array of strings"
        raise InputError(problem, where=where)
    limits().check("entries", len(value), where, what="sentences")
    try:
        return Document(tuple(value), **annotations)
    except InputError as error:
        raise error.inside(where) from None
    except (TypeError, RecursionError) as error:
        raise InputError(f"annotations that cannot be read ({error})", where=where) from None


def with_digits(value: Any) -> Any:
    """A number as a text, a whole one in digits alone, as answers are often numbers; anything else as it is."""
    number = finite(value)
    return value if number is None else str(int(value) if number.is_integer() else value)


def _references(data: Mapping[str, Any]) -> tuple[Text, ...]:
    given = with_digits(data.get("references", []))
    if isinstance(given, str):
        return (given,)
    if isinstance(given, list | tuple):
        given = list(map(with_digits, given))
    references = _candidates({"references": given}, "references")
    for i, reference in enumerate(references):
        if reference.fields or reference.logprob is not None:
            fix = "Leave its other keys out"
            raise InputError("found more than a text", where=f"references[{i}]", fix=fix)
    return tuple(reference.text for reference in references)


def _logprob(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError(f"found {_kind(value)}, expected a number", where=where)
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if isnan(number) or number == inf:
        problem = f"found {number}, expected a natural log-probability (finite or -inf)"
        raise InputError(problem, where=where)
    return number


def _optional(data: Mapping[str, Any], key: str, kind: type, expected: str) -> Any:
    value = data.get(key)
    if value is None or (isinstance(value, kind) and isinstance(value, bool) == (kind is bool)):
        return value
    raise InputError(f"found {_kind(value)}, expected {expected}", where=key)


def _check_json(value: Any, where: str) -> None:
    """Raises InputError for a number that strict JSON cannot write."""
    if isinstance(value, float) and not isfinite(value):
        raise InputError(f"found {value}, which JSON cannot write", where=where, fix="Use null")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_json(inner, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            _check_json(inner, f"{where}[{i}]")


def _kind(value: Any) -> str:
    """A JSON value's kind and start, for messages."""
    if value is None:
        return "null"
    names: Sequence[tuple[Any, str]] = (
        (bool, "true or false"),
        (str, "a string"),
        ((int, float), "a number"),
        ((list, tuple), "an array"),
        (Mapping, "an object"),
    )
    kind = next((name for type_, name in names if isinstance(value, type_)), type(value).__name__)
    return f"{kind} ({excerpt(value)})"


def _shown(data: Mapping[str, Any], key: str) -> str:
    return _kind(data[key]) if key in data else "nothing"


def number_field(candidate: Candidate, name: str, where: str) -> float:
    """A candidate's field as a finite number; InputError if it is missing or none."""
    value = candidate.fields.get(name)
    number = finite(value)
    if number is None:
        shown = excerpt(value) if name in candidate.fields else "nothing"
        raise InputError(f"found {shown}, expected a finite number", where=f"{where}.{name}")
    return number


def finite(value: object) -> float | None:
    """A value as a finite float; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:
        return None


_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def finite_of(text: str) -> float | None:
    """The finite number that a text is, in digits 0 to 9 with a sign, a point and an exponent; None if it is none.

    >>> finite_of(" +3"), finite_of("-.5e1"), finite_of("1_000"), finite_of("nan"), finite_of("1e999")
    (3.0, -5.0, None, None, None)
    """
    digits = text.strip()
    return finite(float(digits)) if _DECIMAL.fullmatch(digits) else None


class Distinct:
    """The distinct texts of some candidates, in order of first appearance."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        texts = [candidate.text for candidate in candidates]
        self.texts: tuple[Text, ...] = tuple(dict.fromkeys(texts))
        self.of: IntArray = np.arange(len(texts))  # [N] number of each candidate's text
        self.first: IntArray = self.of  # [D] index of the first copy
        if len(self.texts) < len(texts):
            number = {text: i for i, text in enumerate(self.texts)}
            self.of = np.array([number[text] for text in texts], np.int64)
            first = {text: i for i, text in reversed([*enumerate(texts)])}
            self.first = np.array([first[text] for text in self.texts], np.int64)

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def can_win(self) -> NDArray[np.bool_]:
        """Whether each text may be chosen, [D]: an empty one only where all are empty."""
        has_words = np.array([not is_blank(text) for text in self.texts], bool)
        return has_words if has_words.any() else ~has_words

    def pooled(self, weights: FloatArray) -> FloatArray:
        """Summed weights of each text's copies, [D]."""
        return np.asarray(np.bincount(self.of, weights, minlength=len(self)), np.float64)


def list_of(data: Any, number: int) -> CandidateList:
    """A candidate list of any form; one without an id has its number.

    Args:
        data: a `CandidateList`, its JSON form, or the candidates alone (texts, `Candidate` objects or their JSON form).
        number: which list it is, from 0.

    Raises:
        InputError: as `read_list`, and for a text in the place of a list of them.
    """
    if isinstance(data, CandidateList):
        return data
    data = plain_value(data)
    if isinstance(data, Mapping):
        return read_list(data, number)
    return read_list({"id": str(number), "candidates": candidates_of(data)})


def candidates_of(texts: Any) -> list[Any]:
    """The candidates of a list given as them alone.

    Raises:
        InputError: they are no sequence, or one is a list of strings: in Python a document is a `Document`.
    """
    if isinstance(texts, str | Document) or not isinstance(texts, Sequence):
        fix = "Give a list of texts"
        raise InputError(f"found {excerpt(texts)}", where="candidates", fix=fix)
    refuse_plain_documents(texts, "candidates")
    return list(texts)


def refuse_plain_documents(texts: Any, name: str) -> None:
    """Raises InputError for a list of strings in the place of a text: in Python a document is a `Document`."""
    if not isinstance(texts, list | tuple):
        return
    for i, text in enumerate(texts):
        if isinstance(text, list | tuple) and not is_reply(text):
            fix = "A document is written discorank.Document([...])"
            raise InputError(f"found {excerpt(text)}", where=f"{name}[{i}]", fix=fix)


_NAMES = ("id", "document")  # keys that are texts, and often numbers in tables


def list_rows(lists: Iterable[Any]) -> Iterable[Any]:
    """The lists in an iterable: of a `datasets.Dataset` or `IterableDataset`, its rows without what is null.

    Rows without an id have their number, from 0; ids that are whole numbers become their digits.

    Raises:
        InputError: it is a dictionary of splits.
    """
    kind = type(lists)
    if is_data_frame(lists):
        return rows_of_frame(lists)
    if library_of(lists) != "datasets" or is_column(lists):
        return lists
    if isinstance(lists, dict):
        problem = f"found a {kind.__name__} of the splits {', '.join(map(str, lists))!s:.80}"
        raise InputError(problem, where="lists", fix="Give one: dataset['train']")
    return _rows(lists)


def without_nulls(value: Any) -> Any:
    """The value without what is null in objects; null in a list stays."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def with_text_names(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a table whose ids of list and document are texts: of whole numbers, their digits."""
    return row | {key: str(row[key]) for key in _NAMES if type(row.get(key)) is int}


def _rows(dataset: Any) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(dataset.with_format(None)):
        yield with_text_names({"id": number, **without_nulls(dict(row))})


SHOWN = 60  # characters of a text on one line


def short_text(text: Text, longest: int = SHOWN) -> str:
    r"""The start of a text as a Python string, with what a terminal would obey as escapes.

    >>> short_text("the cat sat on the mat", longest=12)
    "'the cat sat…'"
    >>> short_text("a\x1b[2Jb")
    "'a\\x1b[2Jb'"
    """
    plain = str(text)
    return repr(plain if len(plain) <= longest else plain[: longest - 1] + "…")


def short_number(value: float | None) -> str:
    """Four significant digits.

    >>> short_number(57.41043), short_number(None)
    ('57.41', 'None')
    """
    return "None" if value is None else f"{value:.4g}"
