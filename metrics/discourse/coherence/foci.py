"""The foci of a text: what its sentences are about, where.

They are the annotations of a `Document` where it has some, else the nouns of its sentences. `foci_of_reference` follows
the released code of DiscoScore, which looks for the lemmas among the words between spaces: an inflected noun is no
focus, nor one with a comma glued to it, and a word that is a lemma somewhere is a focus everywhere.

The focus grid says which sentences have a focus; a graph of sentences is made of it (Zhao et al. 2023, sections 3 and
6).

    A_u[i, j] = 1 / (j - i)       if sentences i < j share a focus, else 0
    A_w[i, j] = a_ij / (j - i)    a_ij: how many foci they share
    FREQ = sum of the counts of foci with count >= 2 / how many these are      CONN = sum(A) / n^2
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from ...base import Metric
from ...errors import InputError, excerpt
from ...representations import FloatArray
from ...spec.checked_settings import settings
from ...spec.user_code import identity, name_of
from ...text.sentence_splitting import splitter
from ...text.texts import Document, Text
from .nouns import HANTA, Noun, Nouns, check_name

Grid = Mapping[str, Sequence[int]]  # the sentence of every occurrence of each focus, in order


def grid_of(keys: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """The grid of the foci of sentences.

    >>> grid_of([["cat", "mat"], ["cat"]])
    {'cat': [0, 1], 'mat': [0]}
    """
    grid: dict[str, list[int]] = {}
    for i, sentence in enumerate(keys):
        for key in sentence:
            grid.setdefault(key, []).append(i)
    return grid


def merged(grid: Grid, names: Mapping[str, str]) -> dict[str, list[int]]:
    """The grid with foci under the names of their entities."""
    entities: dict[str, list[int]] = {}
    for key, sentences in grid.items():
        entities.setdefault(names[key], []).extend(sentences)
    return {name: sorted(sentences) for name, sentences in entities.items()}


def repeated(grid: Grid) -> dict[str, Sequence[int]]:
    """The part of the grid with the foci that occur at least twice.

    >>> repeated({"cat": [0, 1], "mat": [0]})
    {'cat': [0, 1]}
    """
    return {key: places for key, places in grid.items() if len(places) >= 2}


def adjacency(
    grid: Grid,
    sentences: int,
    weighted: bool = False,
) -> FloatArray:
    """A_u or A_w, float64 [sentences, sentences], strictly upper triangular."""
    # how many foci sentences i < j share: an occurrence joins its sentence to all later ones of its focus
    shared = np.zeros((sentences, sentences))
    for places in grid.values():
        own = np.unique(places)
        for at, i in enumerate(own.tolist()):
            later = own[at + 1 :]
            shared[i, later] += 1
    place = np.arange(sentences)
    distance = np.maximum(place[None, :] - place[:, None], 1)
    joined = shared if weighted else np.minimum(shared, 1)
    return np.asarray(joined / distance)


def freq(grid: Grid) -> float:
    """How often foci that come back occur on average; 0 if none does."""
    counts = [len(places) for places in repeated(grid).values()]
    return sum(counts) / len(counts) if counts else 0.0


def conn(graph: FloatArray) -> float:
    """How connected the sentences of a graph [n, n] are; 0 without sentences."""
    return float(graph.sum()) / graph.size if graph.size else 0.0


_WORD = re.compile(r"\S+")


@settings
class FocusMetric(Metric):
    """A metric of the foci of texts.

    Args:
        nouns: who finds the nouns: hanta:en, hanta:de or hanta:nl, spacy:MODEL, wordfreq:LANGUAGE (content words), your
            own module:function, or none where all texts bring their foci.
        sentences: who splits plain texts: rule, pysbd:LANGUAGE, or your own module:function. In Python either may be
            the function itself.
    """

    nouns: str | Callable[[list[str]], Sequence[str | None]] = "hanta:en"
    sentences: str | Callable[[str], Sequence[str]] = "rule"

    def __post_init__(self) -> None:
        for name in ("nouns", "sentences"):
            object.__setattr__(self, name, name_of(getattr(self, name), name))

    def for_language(self, lang: str) -> Self:
        """HanTa's model of the language where no finder is set, or none."""
        code = lang.lower().partition("-")[0]
        return self.with_defaults(nouns=f"hanta:{code}" if code in HANTA else "none")


class Foci(NamedTuple):
    """The sentences of a text, and the occurrences of foci in each; spans are (-1, -1) where they are not known."""

    sentences: Sequence[str]
    occurrences: Sequence[Sequence[Noun]]

    def keys_by_sentence(self) -> list[list[str]]:
        """The key of every occurrence, sentence by sentence."""
        return [[noun.key for noun in nouns] for nouns in self.occurrences]

    def distinct_keys(self) -> set[str]:
        """The keys that occur."""
        return {noun.key for nouns in self.occurrences for noun in nouns}


class FocusReader:
    """Finds the foci of texts.

    Args:
        metric: the settings; the finder of nouns is loaded when a text without annotations comes.

    Raises:
        InputError: there is no such finder or splitter.
    """

    def __init__(self, metric: FocusMetric) -> None:
        self.finder = str(metric.nouns)
        sentences = str(metric.sentences)
        check_name(self.finder)
        self.split = splitter(sentences)
        self.identity = f"{identity(self.finder)} {identity(sentences)}"  # of what it finds
        self.nouns: Nouns | None = None

    def read(self, text: Text) -> Foci:
        """The foci of a text; blank sentences are none of it.

        Raises:
            InputError: the span of an annotation is not in its sentence, or there are neither annotations nor finder.
            ModelLoadError: the finder of nouns is missing.
        """
        if isinstance(text, Document) and text.foci is not None:
            annotated = []
            for i, sentence in enumerate(text.sentences):
                annotated.append(_annotated(i, sentence, text.foci[i]))
            written = [i for i, sentence in enumerate(text.sentences) if sentence.strip()]
            return Foci(
                [plain(text.sentences[i]) for i in written], [annotated[i] for i in written]
            )
        split = text.sentences if isinstance(text, Document) else self.split(text)
        sentences = [plain(sentence) for sentence in split if sentence.strip()]
        if self.nouns is None:
            self.nouns = Nouns(self.finder)
        return Foci(sentences, [self.nouns.of(sentence) for sentence in sentences])


def plain(text: str) -> str:
    """The text with halves of surrogate pairs replaced, letter by letter."""
    return text.encode("utf-8", "replace").decode()


def _annotated(
    i: int,
    sentence: str,
    foci: Sequence[tuple[str] | tuple[str, int, int]],
) -> list[Noun]:
    """The annotated foci of sentence i, their spans checked where there are any."""
    nouns = []
    for focus in foci:
        if len(focus) != 3:
            nouns.append(Noun(focus[0].lower(), -1, -1))
            continue
        key, start, end = focus
        inside = start < end <= len(sentence)
        if not inside or not sentence[start:end].strip():
            problem = f"({key!r}, {start}, {end}) in {excerpt(sentence)}"
            fix = "A span is (key, start, end) with start < end, in code points of the sentence, and has letters"
            raise InputError(problem, where=f"foci[{i}]", fix=fix)
        nouns.append(Noun(key.lower(), start, end))
    return nouns


def check_spans(foci: Foci) -> None:
    """Raises InputError if any focus has no place."""
    for i, nouns in enumerate(foci.occurrences):
        for noun in nouns:
            if noun.start < 0:
                fix = "Give (key, start, end): where it stands decides which vectors are its own"
                raise InputError(f"the focus {noun.key!r} has no span", where=f"foci[{i}]", fix=fix)


def foci_of_reference(foci: Foci) -> Foci:
    """The foci as the released code finds them: words between spaces that are a key, or a member of their entity."""
    keys = foci.distinct_keys()
    by_sentence = zip(foci.sentences, foci.occurrences, strict=True)
    return Foci(foci.sentences, [_words(sentence, keys, nouns) for sentence, nouns in by_sentence])


def _words(sentence: str, keys: set[str], nouns: Sequence[Noun]) -> list[Noun]:
    """The words of a sentence that the released code takes for foci; `nouns` are its own."""
    key_by_span = {(noun.start, noun.end): noun.key for noun in nouns}
    words = []
    for word in _WORD.finditer(sentence):
        surface = word[0].lower()
        annotated = key_by_span.get(word.span(), "")
        if f"-{surface}-" in f"-{annotated}-":
            words.append(Noun(annotated, *word.span()))
        elif surface in keys:
            words.append(Noun(surface, *word.span()))
    return words
