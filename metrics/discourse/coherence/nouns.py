"""Finders of nouns: from the words of a sentence, as written, to the lemma of each noun.

hanta:en, hanta:de, hanta:nl    HanTa's morphological models (extra `discourse`)
spacy:MODEL                     any spaCy pipeline with tags and lemmas that is installed
wordfreq:LANGUAGE               not nouns, but content words of some forty languages (extra `wordfreq`)
module:function                 the user's own: a list of words in, a list of lemmas out, None for other words

Content words are words with letters that are rarer than function words:

    w is a content word where zipf(w) < 5.5,   zipf(w) = log10(occurrences of w among 10^9 words)

by the frequencies of the package wordfreq (Speer 2022), which brings them for some forty languages. A word that is not
in its lists is rare. The key is the word itself in small letters, as there is no lemma. A word depends on nothing but
itself, so a text has the same content words in any company.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from ...errors import InputError, MetricError, ModelLoadError, excerpt
from ...optional_packages import imported
from ...spec.user_code import function_named, is_function_name

ZIPF = 5.5
# Their words are not between blanks: frequencies need tokenizers of their own.
UNSPACED = ("ja", "ko", "zh")


def content_words(
    language: str, below: float = ZIPF
) -> Callable[[list[str]], Sequence[str | None]]:
    """The finder of a language: the words whose Zipf frequency is below a limit, None for others.

    Raises:
        InputError: there are no frequencies for the language.
        ModelLoadError: wordfreq is missing.
    """
    where = f"nouns 'wordfreq:{language}'"
    wordfreq = imported("wordfreq", where)
    languages = sorted(set(wordfreq.available_languages()) - set(UNSPACED))
    if language not in languages:
        fix = f"It has {', '.join(languages)}; or name your own finder: nouns=module:function"
        raise InputError("no frequencies of words between blanks", where=where, fix=fix)

    def is_content(word: str) -> bool:
        has_letter = any(map(str.isalpha, word))
        return has_letter and wordfreq.zipf_frequency(word, language) < below

    def find(words: list[str]) -> Sequence[str | None]:
        return [word if is_content(word) else None for word in words]

    return find


Lemmas = Sequence[str | None]
Finder = Callable[[list[str]], Lemmas]
_WORD = re.compile(r"\w[\w\-]*|['’]s\b|[^\w\s]")
HANTA = {  # model file, and the tags of nouns
    "en": ("morphmodel_en.pgz", {"NN0", "NN1", "NN2", "NP0"}),  # BNC C5
    "de": ("morphmodel_ger.pgz", {"NN", "NE", "NNA", "NNI"}),  # STTS
    "nl": ("morphmodel_dutch.pgz", {"N"}),  # before the bracket
}
# letters of a word that is tagged; the time of HanTa grows with the square, and longer ones are no nouns
_MAX_LETTERS = 64
_CACHED_SENTENCES = 1 << 16  # whose nouns are remembered


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
        self.of = lru_cache(_CACHED_SENTENCES)(self._of)

    def _of(self, sentence: str) -> tuple[Noun, ...]:
        """The nouns of a sentence, in order.

        Raises:
            MetricError: the user's own finder failed.
        """
        matches = list(_WORD.finditer(sentence))
        words = [match[0] for match in matches]
        lemmas = self.finder(words) if words else []
        if len(lemmas) != len(words):
            problem = f"{len(lemmas)} lemmas for {len(words)} words"
            raise MetricError(problem, where=f"nouns {self.name!r}")
        nouns = []
        for lemma, match in zip(lemmas, matches, strict=True):
            if lemma:
                nouns.append(Noun(lemma.lower(), *match.span()))
        return tuple(nouns)


def check_name(name: str) -> None:
    """Raises InputError unless a setting names a finder, or none."""
    kind, _, rest = name.partition(":")
    if kind == "hanta":
        known = rest in HANTA
    elif kind in ("spacy", "wordfreq"):
        known = bool(rest)
    else:
        known = name == "none" or is_function_name(name)
    if not known:
        languages = ", ".join(f"hanta:{code}" for code in HANTA)
        fix = f"Write {languages}, wordfreq:LANGUAGE, spacy:MODEL or module:function"
        raise InputError(f"found {excerpt(name)}", where="nouns", fix=fix)


@cache
def _finder(name: str) -> Finder:
    """The finder that a setting names, loaded once."""
    check_name(name)
    kind, _, rest = name.partition(":")
    if kind == "none":
        problem = "a text without foci, and no finder of nouns (none)"
        fix = (
            "Annotate it: Document(foci=...), or name a finder: "
            "nouns=hanta:LANGUAGE, wordfreq:LANGUAGE, spacy:MODEL or module:function"
        )
        raise InputError(problem, where="nouns", fix=fix)
    if kind == "hanta":
        return _hanta(rest)
    if kind == "spacy":
        return _spacy(rest)
    if kind == "wordfreq":
        return content_words(rest)
    return _own(name)


def _hanta(language: str) -> Finder:
    """HanTa's tagger of a language."""
    try:
        from HanTa.HanoverTagger import HanoverTagger
    except ImportError:
        where = f"nouns 'hanta:{language}'"
        fix = 'pip install "discorank[discourse]", or give Document(foci=...)'
        raise ModelLoadError("HanTa is not installed", where=where, fix=fix) from None
    model, tags = HANTA[language]
    tagger = HanoverTagger(model)

    def find(words: list[str]) -> Lemmas:
        shortened = [word if len(word) <= _MAX_LETTERS else "-" for word in words]
        tagged = tagger.tag_sent(shortened)
        lemmas: list[str | None] = []
        for _, lemma, tag in tagged:
            is_noun = tag.partition("(")[0] in tags and _has_letter(lemma)
            lemmas.append(lemma if is_noun else None)
        return lemmas

    return find


def _has_letter(word: str) -> bool:
    """Whether a word may be a noun: taggers take unknown numbers such as 0-0 for names."""
    return any(map(str.isalpha, word))


def _spacy(model: str) -> Finder:
    """A pipeline of spaCy."""
    try:
        import spacy  # pyright: ignore[reportMissingImports]
        from spacy.tokens import Doc  # pyright: ignore[reportMissingImports]

        pipeline = spacy.load(model)
    except (ImportError, OSError) as error:
        problem = str(error).splitlines()[0]
        fix = f"pip install spacy, then python -m spacy download {model}"
        raise ModelLoadError(problem, where=f"nouns 'spacy:{model}'", fix=fix) from None

    def find(words: list[str]) -> Lemmas:
        lemmas: list[str | None] = []
        for word in pipeline(Doc(pipeline.vocab, words=words)):
            is_noun = word.pos_ in ("NOUN", "PROPN") and _has_letter(word.text)
            lemmas.append(word.lemma_ or word.text if is_noun else None)
        return lemmas

    return find


def _own(name: str) -> Finder:
    """The user's own function, its answers checked."""
    function = function_named(name, "nouns")
    where = f"nouns {name!r}"

    def find(words: list[str]) -> Lemmas:
        try:
            lemmas = function(words)
        except Exception as error:
            raise MetricError(f"{type(error).__name__}: {error}", where=where) from error
        if not isinstance(lemmas, list | tuple) or not all(map(_is_lemma, lemmas)):
            problem = f"returned {excerpt(lemmas)}, expected a lemma or None per word"
            raise MetricError(problem, where=where)
        return lemmas

    return find


def _is_lemma(lemma: object) -> bool:
    return lemma is None or isinstance(lemma, str)
