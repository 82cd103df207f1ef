"""Wrappers (`Wrapper`): a metric of segments in another way to read whole documents, ``aligned(chrf)``.

A wrapper is a metric as the one in it: of its name, direction and context, with its scorer, in sums too. Its signature
is a call around the signature of that metric, and parses back to it.

Documents are compared unit by unit. A unit is a sentence, two neighbours as one, or a window of sentences; the empty
text stands for no sentence. Each distinct unit of a list, a text in its own document's context, is there once; a
document is numbers of units.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from ..base import Metric
from ..errors import InputError, excerpt
from ..representations import IntArray
from ..scorer import Info, Scorer
from ..spec.checked_settings import Converted, Field, changed, settings
from ..spec.signature import call
from ..text.sentence_splitting import as_document
from ..text.texts import Comparison, Document, Item, Text, preceding

LONGEST = 2  # sentences that a unit may have
PARTS = 2520  # of a sentence's mass; a multiple of all numbers up to 10
Span = tuple[int, int]  # first sentence, and the one behind the last
Spans = tuple[Span, ...]  # of the windows of a document


@dataclass(frozen=True)
class DocumentUnits:
    """The units of some documents.

    Args:
        items: the distinct units.
        of_length: the index among them of the 1, 2, ... `LONGEST` sentences from every sentence on, for each document;
            that of no sentence is 0.
        masses: a whole number for every sentence of every document.
        spans: the sentences of every unit where units are windows, which are never two as one.
    """

    items: tuple[Item, ...]
    of_length: tuple[tuple[IntArray, ...], ...]
    masses: tuple[IntArray, ...]
    spans: tuple[tuple[Span, ...], ...] | None = None

    def sentences(self, document: int, first: int, length: int) -> Span:
        """The sentences of so many units from one on."""
        if self.spans is None:
            return first, first + length
        return self.spans[document][first][0], self.spans[document][first + length - 1][1]

    @property
    def num_sentences(self) -> IntArray:
        """Sentences of every document, [documents]."""
        return np.array([len(masses) for masses in self.masses], np.int64)

    def __len__(self) -> int:
        return len(self.masses)


def sentences_of(item: Item) -> tuple[str, ...]:
    """The sentences of an item, at least one; a plain text is one sentence."""
    if isinstance(item.text, Document):
        return tuple(item.text.sentences) or ("",)
    return (item.text,)


def span(item: Item, first: int, length: int, k: int) -> Item:
    """Some sentences of an item as one text, in the context of the k before; its own context comes before its first."""
    sentences = sentences_of(item)
    context = preceding((*item.context, *sentences), len(item.context) + first, k)
    return Item(" ".join(sentences[first : first + length]), context, item.side)


def units_of(
    documents: Sequence[Item],
    k: int,
    longest: int,
    by_length: bool,
    windows: Mapping[Item, Spans] | None = None,
) -> DocumentUnits:
    """The units of documents.

    Args:
        documents: the texts, in their context.
        k: sentences of context that a unit has.
        longest: how many sentences a unit has at most, up to `LONGEST`.
        by_length: whether the mass of a sentence is its number of letters, or 1.
        windows: those of every document, which are its units then.
    """
    side = documents[0].side if documents else "target"
    index_of: dict[Item, int] = {}  # behind that of no sentence, which an empty sentence is not
    of_length: list[list[IntArray]] = [[] for _ in range(LONGEST)]
    masses = []
    for document in documents:
        own_masses = letters_of(document, by_length)
        spans: list[Spans] = []
        for length in range(1, longest + 1):
            firsts = range(len(own_masses) - length + 1)
            spans.append(tuple((first, first + length) for first in firsts))
        if windows is not None:
            spans = [windows[document]]
            own_masses = window_masses(windows[document], own_masses)
        spans += [()] * (LONGEST - len(spans))
        for units, of_one_length in zip(spans, of_length, strict=True):
            items = [span(document, start, stop - start, k) for start, stop in units]
            indices = [index_of.setdefault(item, len(index_of) + 1) for item in items]
            of_one_length.append(np.array(indices, np.int64))
        masses.append(own_masses)
    return DocumentUnits(
        (Item("", (), side), *index_of),
        tuple(map(tuple, of_length)),
        tuple(masses),
        None if windows is None else tuple(windows[document] for document in documents),
    )


def window_masses(spans: Spans, of_sentences: IntArray) -> IntArray:
    """The masses of windows as whole numbers; exact where `PARTS` is a multiple of every c_i, else rounded."""
    parts = np.rint(of_sentences * PARTS / num_windows(spans, len(of_sentences))).astype(np.int64)
    return np.array([parts[start:stop].sum() for start, stop in spans], np.int64)


def num_windows(spans: Spans, num_sentences: int) -> IntArray:
    """How many windows have each sentence, c_i, [n]."""
    counts = np.zeros(num_sentences, np.int64)
    for start, stop in spans:
        counts[start:stop] += 1
    return counts


def letters_of(document: Item, by_length: bool) -> IntArray:
    """The mass of every sentence; of a document without letters all are alike."""
    sentences = sentences_of(document)
    if by_length:
        letters = np.array([len("".join(text.split())) for text in sentences], np.int64)
        if letters.any():
            return letters
    return np.ones(len(sentences), np.int64)


def _of_segments(value: object) -> Metric:
    """A metric that a wrapper may stand around."""
    if not isinstance(value, Metric):
        raise InputError(
            f"found {excerpt(value)}, expected a metric",
            where="wrapper",
            fix="Write it around one: aligned(chrf)",
        )
    if value.info.unit == "document":
        raise InputError(
            f"{value.name} reads documents as a whole",
            where=value.name,
            fix="Leave the wrapper out: it is for metrics of segments",
        )
    return value


def _of_metric(name: str) -> Any:
    """An attribute of a wrapper that is that of the metric in it."""
    return property(attrgetter(f"metric.{name}"))


@settings
class Wrapper(Metric, ABC):
    """A metric of segments that reads whole documents otherwise; all else is that of the metric in it.

    Args:
        metric: the metric.
    """

    metric: Annotated[Metric, Converted(_of_segments)]
    wrapper_name: ClassVar[str]
    wrapper_papers: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if isinstance(self.metric, Wrapper) and type(self) in self.metric.kinds:
            fix = f"Write {self.wrapper_name} once"
            raise InputError("stands around itself", where=self.wrapper_name, fix=fix)

    @property
    def kinds(self) -> tuple[type[Wrapper], ...]:
        """The wrappers around the innermost metric, this one first."""
        inner = self.metric.kinds if isinstance(self.metric, Wrapper) else ()
        return (type(self), *inner)

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of the metric."""
        return self.metric.name

    @cached_property
    def info(self) -> Info:  # type: ignore[override]
        """The facts of the metric; the linear form is not that of units."""
        return replace(self.metric.info, linear=self.metric.info.linear and not self.by_units)

    def signature(self) -> str:
        """``aligned(chrf)``, with the settings of the wrapper behind the metric."""
        own = {name: value for name, value in changed(self).items() if name != "metric"}
        texts = {
            name: value.signature() if isinstance(value, Metric) else value
            for name, value in own.items()
        }
        return call(self.wrapper_name, texts, self.metric.signature())

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of the wrapper alone."""
        return cls.wrapper_papers

    # All of this is as the metric inside has it.
    innermost = _of_metric("innermost")
    reads = _of_metric("reads")
    needs_source = _of_metric("needs_source")
    costly_pairs = _of_metric("costly_pairs")
    symmetric = _of_metric("symmetric")
    unfitted = _of_metric("unfitted")
    products = _of_metric("products")
    stamped = _of_metric("stamped")
    by_units = _of_metric("by_units")
    unit_plan = _of_metric("unit_plan")
    unloaded = _of_metric("unloaded")
    check_files = _of_metric("check_files")
    remarks = _of_metric("remarks")

    def windows_of(self, comparison: Comparison) -> Mapping[Item, Spans] | None:
        """The windows of every document of a comparison and of its source, where the metric inside has some."""
        return self.metric.windows_of(comparison) if isinstance(self.metric, Wrapper) else None

    def split(self, texts: Sequence[Text]) -> Sequence[Text]:
        """As the metric inside splits them."""
        return self.metric.split(texts)

    def load(self) -> Scorer:
        """The scorer of the metric."""
        return self.metric.scorer

    def with_scorer(self, scorer: Scorer) -> Self:
        """The same, run by another scorer inside and out."""
        changed = super().with_scorer(scorer)
        object.__setattr__(changed, "metric", self.metric.with_scorer(scorer))
        return changed

    def fit(self, texts: Sequence[Text]) -> Self:
        """Around the fitted metric."""
        return self._around(self.metric.fit(texts))

    def with_defaults(self, **values: Any) -> Self:
        """Around the metric with these settings."""
        return self._around(self.metric.with_defaults(**values))

    def for_language(self, lang: str) -> Self:
        """Around the metric with the defaults of a language."""
        return self._around(self.metric.for_language(lang))

    def _around(self, metric: Metric) -> Self:
        return self if metric is self.metric else replace(self, metric=metric)


@settings
class Split(Wrapper):
    """Texts split into sentences, so that they are read as documents; those that come as documents stay as they are.

    Args:
        at: at line breaks (lines), by rule (rule), or by those of pysbd for a language (pysbd:en).
    """

    at: Annotated[str, Field(pattern=r"^(lines|rule|pysbd:[a-z]+)$")] = "rule"
    wrapper_name: ClassVar[str] = "split"

    def split(self, texts: Sequence[Text]) -> Sequence[Text]:
        """The texts as documents of sentences; a text of one sentence stays a text."""
        return [as_document(text, self.at) for text in super().split(texts)]
