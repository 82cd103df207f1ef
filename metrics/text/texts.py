"""What a metric is given to read: texts, documents, and the comparisons of items that make one utility matrix.

It knows nothing of metrics, models or files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple

from ..errors import InputError, excerpt

Side = Literal["target", "source"]
Focus = tuple[str] | tuple[str, int, int]
MAX_LEVELS = 150  # of a discourse tree that is read


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
        nuc, rel = plain.get("nuc"), plain.get("rel")
        children = tuple(
            cls.read(child, f"{where}.children[{i}]", level + 1)
            for i, child in enumerate(plain["children"])
        )
        if (
            not isinstance(rel, str)
            or not isinstance(nuc, str)
            or set(nuc) - set("NS")
            or len(nuc) != len(children)
        ):
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
        if not isinstance(self.sentences, list | tuple) or not all(
            isinstance(s, str) for s in self.sentences
        ):
            raise InputError(
                f"found {self.sentences!r:.60}",
                where="sentences",
                fix="Document takes a list of strings",
            )
        put = object.__setattr__
        put(self, "sentences", tuple(self.sentences))
        for name in ("roles", "foci"):
            value = getattr(self, name)
            entries = (
                [value]
                if name == "roles" or not isinstance(value, list | tuple)
                else [value, *value]
            )
            if value is not None and not all(isinstance(entry, list | tuple) for entry in entries):
                raise InputError(
                    f"found {excerpt(value)}, expected a list entry per sentence", where=name
                )
        if self.roles is not None:
            put(self, "roles", tuple(self.roles))
            self._check(
                "roles", self.roles, lambda role: isinstance(role, int | str), "a number or a name"
            )
        if self.foci is not None:
            put(self, "foci", tuple(tuple(map(_focus, foci)) for foci in self.foci))
            self._check(
                "foci",
                self.foci,
                lambda foci: all(map(_is_focus, foci)),
                "a list of (key, start, end)",
            )
        if self.rst is not None:
            put(self, "rst", RSTTree.read(self.rst))

    def _check(self, name: str, values: Sequence[Any], good: Any, expected: str) -> None:
        if len(values) != len(self.sentences):
            raise InputError(
                f"{len(values)} {name} for {len(self.sentences)} sentences", where=name
            )
        for i, value in enumerate(values):
            if not good(value):
                raise InputError(
                    f"found {excerpt(value)}, expected {expected}", where=f"{name}[{i}]"
                )

    def __str__(self) -> str:
        return " ".join(self.sentences)


def _focus(plain: Any) -> Any:
    """A focus as a tuple; what is no list stays as it is, to be refused."""
    return tuple(plain) if isinstance(plain, list | tuple) else plain


def _is_focus(focus: Any) -> bool:
    return (
        isinstance(focus, tuple)
        and len(focus) in (1, 3)
        and isinstance(focus[0], str)
        and focus[0] != ""
        and all(type(place) is int and place >= 0 for place in focus[1:])
    )


Text = str | Document


class Truncation(IntEnum):
    """What a model did not read of a text that is too long for it: nothing, some of its context, some of itself.

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
            if not isinstance(value, list | tuple) or not all(
                isinstance(sentence, str) for sentence in value
            ):
                raise InputError(
                    f"found {excerpt(value)}, expected a list of sentences", where=f"context.{name}"
                )
            object.__setattr__(self, name, tuple(value))

    def last(self, k: int) -> Context:
        """The last k sentences of either side."""
        return Context(self.source[-k:], self.target[-k:]) if k else NO_CONTEXT


NO_CONTEXT = Context()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The items of one utility matrix: rows hypotheses, columns references (the same object for a square one)."""

    hypotheses: tuple[Item, ...]
    references: tuple[Item, ...] = ()
    source: Item | None = None


def paired(
    hypotheses: Sequence[Text], references: Sequence[Text], source: Text | None, context: Context
) -> Comparison:
    """All hypotheses against all references in one shared context, <c; h, c; r>."""
    before = tuple(context.target)
    rows = tuple(Item(text, before) for text in hypotheses)
    same = references is hypotheses or list(references) == list(hypotheses)
    columns = rows if same else tuple(Item(text, before) for text in references)
    return Comparison(
        rows, columns, None if source is None else Item(source, tuple(context.source), "source")
    )


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
        before = range(max(starts[i], i - k), i)
        own = [tuple(str(references[j][m]) for j in before) for m in range(len(references[i]))]
        lent = (
            own[0]
            if context_from == "reference" and own
            else tuple(str(hypotheses[j]) for j in before)
        )
        columns = tuple(Item(r, c) for r, c in zip(references[i], own, strict=True))
        source = (
            None
            if sources is None
            else Item(sources[i], tuple(str(sources[j]) for j in before), "source")
        )
        result.append(Comparison((Item(hypothesis, lent),), columns, source))
    return result


def _document_starts(documents: Sequence[str] | None, n: int) -> list[int]:
    """Index of the first segment of each segment's document, [n]."""
    if documents is None:
        raise InputError(
            "context > 0 without documents",
            where="documents",
            fix="Give one document id per hypothesis",
        )
    starts: list[int] = []
    seen: set[str] = set()
    for i, document in enumerate(documents):
        if i and document == documents[i - 1]:
            starts.append(starts[-1])
            continue
        if document in seen:
            raise InputError(
                f"{document!r} comes back after another document",
                where=f"documents[{i}]",
                fix="The segments of one document are adjacent",
            )
        seen.add(document)
        starts.append(i)
    return starts
