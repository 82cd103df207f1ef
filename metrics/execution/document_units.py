"""The units of documents: sentences, each two neighbours as one, and the empty text that stands for no sentence.

Each distinct unit of a list, a text in its own document's context, is there once; a document is places of units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..alignment.monotone import LONGEST
from ..representations import IntArray
from ..text.texts import Document, Item, preceding

Span = tuple[int, int]  # first sentence, and the one behind the last


@dataclass(frozen=True)
class DocumentUnits:
    """The units of some documents.

    Args:
        items: the distinct units.
        of_length: the places among them of the 1, 2, ... `LONGEST` sentences from every sentence on, for each document;
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


def units_of(documents: Sequence[Item], k: int, longest: int, by_length: bool) -> DocumentUnits:
    """The units of documents.

    Args:
        documents: the texts, in their context.
        k: sentences of context that a unit has.
        longest: how many sentences a unit has at most, up to `LONGEST`.
        by_length: whether the mass of a sentence is its number of letters, or 1.
    """
    side = documents[0].side if documents else "target"
    place: dict[Item, int] = {}  # behind that of no sentence, which an empty sentence is not
    of_length: list[list[IntArray]] = [[] for _ in range(LONGEST)]
    masses = []
    for document in documents:
        num_sentences = len(sentences_of(document))
        for length in range(1, LONGEST + 1):
            num_units = max(0, num_sentences - length + 1) if length <= longest else 0
            units = [span(document, first, length, k) for first in range(num_units)]
            places = [place.setdefault(unit, len(place) + 1) for unit in units]
            of_length[length - 1].append(np.array(places, np.int64))
        masses.append(letters_of(document, by_length))
    return DocumentUnits((Item("", (), side), *place), tuple(map(tuple, of_length)), tuple(masses))


def letters_of(document: Item, by_length: bool) -> IntArray:
    """The mass of every sentence; of a document without letters all are alike."""
    sentences = sentences_of(document)
    if by_length:
        letters = np.array([len("".join(text.split())) for text in sentences], np.int64)
        if letters.any():
            return letters
    return np.ones(len(sentences), np.int64)
