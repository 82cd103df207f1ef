"""Content words of many languages: words with letters that are rarer than function words.

    w is a content word where zipf(w) < 5.5,   zipf(w) = log10(occurrences of w among 10^9 words)

by the frequencies of the package wordfreq (Speer 2022), which brings them for some forty languages. A word that is not
in its lists is rare. The key is the word itself in small letters, as there is no lemma. A word depends on nothing but
itself, so a text has the same content words in any company.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import InputError
from ...optional_packages import imported

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
