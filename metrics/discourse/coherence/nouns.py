"""Finders of nouns: from the words of a sentence, as written, to the lemma of each noun.

hanta:en, hanta:de, hanta:nl    HanTa's morphological models (extra `discourse`)
spacy:MODEL                     any spaCy pipeline with tags and lemmas that is installed
module:function                 the user's own: a list of words in, a list of lemmas out, None for other words
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from ...errors import InputError, MetricError, ModelLoadError, excerpt
from ...spec.user_functions import function_named, is_function_name

Lemmas = Sequence[str | None]
Finder = Callable[[list[str]], Lemmas]
_WORD = re.compile(r"\w[\w\-]*|['’]s\b|[^\w\s]")
HANTA = {  # model file, and the tags of nouns
    "en": ("morphmodel_en.pgz", {"NN0", "NN1", "NN2", "NP0"}),  # BNC C5
    "de": ("morphmodel_ger.pgz", {"NN", "NE", "NNA", "NNI"}),  # STTS
    "nl": ("morphmodel_dutch.pgz", {"N"}),  # before the bracket
}
_LONGEST = 64  # letters of a word that is tagged; the time of HanTa grows with the square, and longer ones are no nouns
_SENTENCES_KEPT = 1 << 16  # of which the nouns are remembered


class Noun(NamedTuple):
    """An occurrence of a noun: its lemma in small letters, and its span in code points."""

    key: str
    start: int
    end: int


class Nouns:
    """The nouns of a sentence, by a finder that a setting names.

    Raises:
        InputError: there is no such finder or language.
        ModelLoadError: its package or model is missing.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.finder = _finder(name)
        self.of = lru_cache(_SENTENCES_KEPT)(self._of)

    def _of(self, sentence: str) -> tuple[Noun, ...]:
        """The nouns of a sentence, in order.

        Raises:
            MetricError: the user's own finder failed.
        """
        found = list(_WORD.finditer(sentence))
        words = [word[0] for word in found]
        lemmas = self.finder(words) if words else []
        if len(lemmas) != len(words):
            raise MetricError(
                f"{len(lemmas)} lemmas for {len(words)} words", where=f"nouns {self.name!r}"
            )
        spans = ((lemma, *word.span()) for lemma, word in zip(lemmas, found, strict=True) if lemma)
        return tuple(Noun(lemma.lower(), start, end) for lemma, start, end in spans)


def check_name(name: str) -> None:
    """Raises InputError unless a setting names a finder, or none."""
    kind, _, rest = name.partition(":")
    good = (
        rest in HANTA
        if kind == "hanta"
        else bool(rest)
        if kind == "spacy"
        else is_function_name(name)
    )
    if not good and name != "none":
        languages = ", ".join(f"hanta:{code}" for code in HANTA)
        raise InputError(
            f"found {excerpt(name)}",
            where="nouns",
            fix=f"Write {languages}, spacy:MODEL or module:function",
        )


@cache
def _finder(name: str) -> Finder:
    check_name(name)
    kind, _, rest = name.partition(":")
    if kind == "none":
        fix = "Annotate it: Document(foci=...), or name a finder: nouns=spacy:MODEL, module:function or hanta:LANGUAGE"
        raise InputError(
            "a text without foci, and no finder of nouns (none)", where="nouns", fix=fix
        )
    if kind in ("hanta", "spacy"):
        return _hanta(rest) if kind == "hanta" else _spacy(rest)
    return _own(name)


def _hanta(language: str) -> Finder:
    try:
        from HanTa.HanoverTagger import HanoverTagger
    except ImportError:
        fix = 'pip install "discorank[discourse]", or give Document(foci=...)'
        raise ModelLoadError(
            "HanTa is not installed", where=f"nouns 'hanta:{language}'", fix=fix
        ) from None
    model, tags = HANTA[language]
    tagger = HanoverTagger(model)

    def find(words: list[str]) -> Lemmas:
        tagged = tagger.tag_sent([word if len(word) <= _LONGEST else "-" for word in words])
        return [lemma if tag.partition("(")[0] in tags else None for _, lemma, tag in tagged]

    return find


def _spacy(model: str) -> Finder:
    try:
        import spacy
        from spacy.tokens import Doc

        pipeline = spacy.load(model)
    except (ImportError, OSError) as error:
        fix = f"pip install spacy, then python -m spacy download {model}"
        raise ModelLoadError(
            str(error).splitlines()[0], where=f"nouns 'spacy:{model}'", fix=fix
        ) from None

    def find(words: list[str]) -> Lemmas:
        tagged = pipeline(Doc(pipeline.vocab, words=words))
        return [
            word.lemma_ or word.text if word.pos_ in ("NOUN", "PROPN") else None for word in tagged
        ]

    return find


def _own(name: str) -> Finder:
    function = function_named(name, "nouns")

    def find(words: list[str]) -> Lemmas:
        try:
            found = function(words)
        except Exception as error:
            raise MetricError(
                f"{type(error).__name__}: {error}", where=f"nouns {name!r}"
            ) from error
        good = isinstance(found, list | tuple) and all(
            lemma is None or isinstance(lemma, str) for lemma in found
        )
        if not good:
            raise MetricError(
                f"returned {excerpt(found)}, expected a lemma or None per word",
                where=f"nouns {name!r}",
            )
        return found  # type: ignore[no-any-return]

    return find
