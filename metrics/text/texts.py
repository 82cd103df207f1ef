"""Inputs of metrics: texts, documents, and the comparisons of items that make one utility matrix.

It knows nothing of metrics, models or files.

Values of numpy, PyTorch, pandas and Hugging Face datasets are turned into those of Python here alone (`plain_value`).
None of these libraries is imported: an array, a tensor, a series or one of their numbers has ``tolist``, and a column
of a dataset is iterated over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import repeat
from math import isnan
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from unicodedata import category

from ..errors import InputError, excerpt
from ..spec.checked_settings import Field, ValueRefusal, checked

Side = Literal["target", "source"]
Focus = tuple[str] | tuple[str, int, int]
_Key = Annotated[str, Field(min_length=1)]
_Offset = Annotated[int, Field(ge=0)]
_ROLES = checked(tuple[int | str, ...], of_json=True)
_FOCI = checked(tuple[tuple[tuple[_Key] | tuple[_Key, _Offset, _Offset], ...], ...], of_json=True)
S = TypeVar("S")
MAX_LEVELS = 150  # of a discourse tree that is read
# Kinds of values, besides those of libraries.
_PLAIN_KINDS = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True, slots=True)
class RSTTree:
    """A node of a discourse tree: one nuclearity letter per child, the relation, and the children.

    A leaf is the tuple of an elementary discourse unit's words.
    """

    nuc: str
    rel: str
    children: tuple[RSTTree | tuple[str, ...], ...]

    @classmethod
    def read(cls, plain: Any, where: str = "rst", level: int = 0) -> RSTTree | tuple[str, ...]:
        """A tree from plain data: a list of words, or ``{"nuc": "NS", "rel": ..., "children": [...]}``.

        Raises:
            InputError: the data is neither, the number of letters and children differs, or it is nested too deep.
        """
        if isinstance(plain, RSTTree):
            return plain
        if isinstance(plain, list | tuple) and all(isinstance(word, str) for word in plain):
            return tuple(plain)
        if not isinstance(plain, Mapping) or not isinstance(plain.get("children"), list | tuple):
            raise InputError(
                f"found {excerpt(plain)}",
                where=where,
                fix="A leaf is a list of words, a node has nuc, rel and children",
            )
        if level >= MAX_LEVELS:
            raise InputError(
                f"more than {MAX_LEVELS} levels",
                where=where[:40],
                fix="Give a tree of fewer levels",
            )
        nuc: Any = plain.get("nuc")
        rel: Any = plain.get("rel")
        children = tuple(
            cls.read(child, f"{where}.children[{i}]", level + 1)
            for i, child in enumerate(plain["children"])
        )
        are_texts = isinstance(rel, str) and isinstance(nuc, str)
        if not are_texts or set(nuc) - set("NS") or len(nuc) != len(children):
            raise InputError(
                f"found nuc={excerpt(nuc)}, rel={excerpt(rel)} over {len(children)} children",
                where=where,
                fix="nuc has one letter N or S per child, rel is a name",
            )
        return cls(nuc, rel, children)


@dataclass(frozen=True, slots=True)
class Document:
    """A text of several sentences, with discourse annotations where they are known.

    Args:
        sentences: the sentences in order.
        id: a name for messages; two documents that differ only in it are the same text.
        roles: one discourse role, a number or a name, per sentence.
        foci: per sentence a list of ``(key, start, end)``, the focus and its span in code points, or ``(key,)``.
        rst: an `RSTTree` or its plain data.

    Raises:
        InputError: sentences that are not strings, or annotations of another length.
    """

    sentences: Sequence[str]
    id: str | None = field(default=None, compare=False)
    roles: Sequence[int | str] | None = None
    foci: Sequence[Sequence[Focus]] | None = None
    rst: RSTTree | Mapping[str, Any] | Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not _is_list_of_strings(self.sentences):
            raise InputError(
                f"found {self.sentences!r:.60}",
                where="sentences",
                fix="Document takes a list of strings",
            )
        put = object.__setattr__
        put(self, "sentences", tuple(self.sentences))
        for name, kind in (("roles", _ROLES), ("foci", _FOCI)):
            values = getattr(self, name)
            if values is None:
                continue
            try:
                made = kind(_as_lists(values))
            except ValueRefusal as refusal:
                problem = f"{refusal.problem}, found {excerpt(refusal.value)}"
                where = "".join((name, *(f"[{place}]" for place in refusal.path)))
                raise InputError(problem, where=where) from None
            if len(made) != len(self.sentences):
                problem = f"{len(made)} {name} for {len(self.sentences)} sentences"
                raise InputError(problem, where=name)
            put(self, name, made)
        if self.rst is not None:
            put(self, "rst", RSTTree.read(self.rst))

    def __str__(self) -> str:
        return " ".join(self.sentences)


def _is_list_of_strings(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)


def _as_lists(value: Any) -> Any:
    """Tuples as lists, however deep, as JSON has them."""
    return [*map(_as_lists, value)] if isinstance(value, list | tuple) else value


Text = str | Document


def is_blank(text: Text) -> bool:
    """Whether a text has no visible character: only white space, control and format characters.

    >>> is_blank(" \u200b"), is_blank(Document(("", " "))), is_blank(".")
    (True, True, False)
    """
    sentences = (text,) if isinstance(text, str) else text.sentences
    return not any(_is_visible(mark) for sentence in sentences for mark in sentence)


def _is_visible(mark: str) -> bool:
    return not mark.isspace() and category(mark) not in ("Cc", "Cf")


class Truncation(IntEnum):
    """Truncation of a text that is too long for its model: none, some of its context, some of itself.

    The truncation of several texts is the largest of theirs.
    """

    NONE = 0
    CONTEXT = 1
    TEXT = 2


class Item(NamedTuple):
    """One text as one metric reads it; equal items are represented once."""

    text: Text
    context: tuple[str, ...] = ()
    side: Side = "target"

    @property
    def window(self) -> str:
        """The text behind its context, a blank between sentences."""
        return " ".join((*self.context, str(self.text)))


@dataclass(frozen=True, slots=True)
class Context:
    """The sentences before a list, shared by its hypotheses and references, oldest first.

    Raises:
        InputError: a plain text where a list of sentences belongs.
    """

    source: Sequence[str] = ()
    target: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            value = getattr(self, name)
            if not _is_list_of_strings(value):
                raise InputError(
                    f"found {excerpt(value)}, expected a list of sentences",
                    where=f"context.{name}",
                )
            object.__setattr__(self, name, tuple(value))

    def last(self, k: int) -> Context:
        """The last k sentences of either side."""
        if not k:
            return NO_CONTEXT
        source = preceding(self.source, len(self.source), k)
        target = preceding(self.target, len(self.target), k)
        return Context(source, target)


NO_CONTEXT = Context()


def preceding(sentences: Sequence[S], at: int, k: int, start: int = 0) -> tuple[S, ...]:
    """The k sentences before place `at`, oldest first; fewer where less than k stand there from `start` on.

    >>> preceding(["a", "b", "c", "d"], 3, 2)
    ('b', 'c')
    >>> preceding(["a", "b", "c", "d"], 3, 2, start=2)
    ('c',)
    """
    return tuple(sentences[i] for i in range(max(start, at - k), at))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The items of one utility matrix: rows hypotheses, columns references (the same object for a square one)."""

    hypotheses: tuple[Item, ...]
    references: tuple[Item, ...] = ()
    source: Item | None = None

    @property
    def items(self) -> tuple[Item, ...]:
        """Those on both sides, of a square one once, and the source."""
        source = () if self.source is None else (self.source,)
        if self.references is self.hypotheses:
            return (*self.hypotheses, *source)
        return (*self.hypotheses, *self.references, *source)

    def part(self, rows: Sequence[int], columns: Sequence[int]) -> Comparison:
        """Some of its hypotheses with some of its references, by number; square where it is and these are the same."""
        hypotheses = tuple(self.hypotheses[i] for i in rows)
        if self.references is self.hypotheses and list(rows) == list(columns):
            return Comparison(hypotheses, hypotheses, self.source)
        references = tuple(self.references[j] for j in columns) if self.references else ()
        return Comparison(hypotheses, references, self.source)


def paired(
    hypotheses: Sequence[Text],
    references: Sequence[Text],
    source: Text | None,
    context: Context,
) -> Comparison:
    """All hypotheses against all references in one shared context, <c; h, c; r>."""
    target_context = tuple(context.target)
    rows = _items(hypotheses, target_context)
    is_square = references is hypotheses or list(references) == list(hypotheses)
    columns = rows if is_square else _items(references, target_context)
    source_item = None if source is None else Item(source, tuple(context.source), "source")
    return Comparison(rows, columns, source_item)


def _items(texts: Iterable[Text], context: tuple[str, ...]) -> tuple[Item, ...]:
    """Texts in one context, without a Python call for each."""
    fields = zip(texts, repeat(context), repeat("target"))
    return tuple(map(tuple.__new__, repeat(Item), fields))


def aligned(
    hypotheses: Sequence[Text],
    references: Sequence[Sequence[Text]],
    sources: Sequence[Text] | None,
    documents: Sequence[str] | None,
    k: int,
    context_from: str,
) -> list[Comparison]:
    """One comparison per segment; the context of each side is its own k segments before, within the document.

    The hypothesis is read in the first reference's context if `context_from` is "reference".
    """
    starts = _document_starts(documents, len(hypotheses)) if k else range(len(hypotheses))
    result = []
    for i, hypothesis in enumerate(hypotheses):
        # the references of the segments before; the context of a segment's m-th one is all m-th ones
        rows = preceding(references, i, k, starts[i])
        own = [_plain([row[m] for row in rows]) for m in range(len(references[i]))]
        context = _plain(preceding(hypotheses, i, k, starts[i]))
        if context_from == "reference" and own:
            context = own[0]
        columns = tuple(map(Item, references[i], own))
        source = None
        if sources is not None:
            source_context = _plain(preceding(sources, i, k, starts[i]))
            source = Item(sources[i], source_context, "source")
        result.append(Comparison((Item(hypothesis, context),), columns, source))
    return result


def _plain(texts: Iterable[Text]) -> tuple[str, ...]:
    """Texts as context sentences: documents joined."""
    return tuple(map(str, texts))


def _document_starts(documents: Sequence[str] | None, n: int) -> list[int]:
    """Index of the first segment of each segment's document, [n]."""
    if documents is None:
        raise InputError(
            "context > 0 without documents",
            where="documents",
            fix="Give one document id per hypothesis",
        )
    starts: list[int] = []
    earlier: set[str] = set()
    for i, document in enumerate(documents):
        if i and document == documents[i - 1]:
            starts.append(starts[-1])
            continue
        if document in earlier:
            raise InputError(
                f"{document!r} comes back after another document",
                where=f"documents[{i}]",
                fix="The segments of one document are adjacent",
            )
        earlier.add(document)
        starts.append(i)
    return starts


def library_of(value: object) -> str:
    """The library that a value is of.

    >>> library_of([1])
    'builtins'
    """
    return type(value).__module__.partition(".")[0]


def plain_value(value: Any) -> Any:
    """A value without arrays, tensors, series and their numbers in it, however deep; everything else stays as it is.

    >>> import numpy as np
    >>> plain_value({"logprob": np.float32(-1.5), "texts": np.array(["a", "b"])})
    {'logprob': -1.5, 'texts': ['a', 'b']}
    """
    kind = type(value)
    if kind in _PLAIN_KINDS:
        return value
    if kind is list or kind is tuple:
        if all(type(inner) is str for inner in value):
            return value
        return kind(plain_value(inner) for inner in value)
    if isinstance(value, Mapping):
        return {key: plain_value(inner) for key, inner in value.items()}
    if library_of(value) == "builtins":
        return value
    if hasattr(value, "tolist"):
        return plain_value(value.tolist())
    if is_column(value):
        return plain_value(list(value))
    return value


def is_column(value: object) -> bool:
    """Whether a value is a column of a dataset."""
    return library_of(value) == "datasets" and type(value).__name__ in ("Column", "IterableColumn")


def is_data_frame(value: object) -> bool:
    """Whether a value is a data frame of pandas."""
    return library_of(value) == "pandas" and type(value).__name__ == "DataFrame"


def rows_of_frame(frame: Any) -> list[dict[str, Any]]:
    """The rows of a data frame; what is missing there is None."""
    rows = []
    for row in frame.to_dict("records"):
        values = {str(key): plain_value(value) for key, value in row.items()}
        rows.append({key: None if _is_missing(value) else value for key, value in values.items()})
    return rows


def _is_missing(value: object) -> bool:
    is_nan = isinstance(value, float) and isnan(value)
    return is_nan or type(value).__name__ in ("NAType", "NaTType")
