"""Words of a text, in any language, with the white space that stands before each, so that edited words join to text.

A word is letters, marks, digits, joiners and soft hyphens, held together by inner hyphens and apostrophes; a number
keeps its inner points and commas; in scripts without spaces every character is a word; any other character is one, and
so is a whole emoji. A word is written with a leading space where a space stands before it (at the start of a text:
where its script has spaces).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import regex

from ..errors import InputError, MetricError, excerpt
from ..spec.user_code import function_named, is_function_name

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_JOINERS = r"\u00ad\u200c\u200d\u2060"  # soft hyphen, zero-width non-joiner and joiner, word joiner
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}_{_JOINERS}]--[{_UNSPACED}]]"
_EMOJI = r"(?=[\p{Extended_Pictographic}\p{Regional_Indicator}])\X"
_WORD = regex.compile(
    rf"[{_UNSPACED}][\p{{M}}{_JOINERS}]*|\p{{Nd}}+(?:[.,]\p{{Nd}}+)+(?!{_LETTER})|{_LETTER}+(?:[-'’‑]{_LETTER}+)*"
    rf"|{_EMOJI}|\S",
    regex.V1,
)
_WITHOUT_SPACE = regex.compile(rf"[{_UNSPACED}]")
_PUNCTUATION = regex.compile(rf"(?:{_EMOJI}|[\p{{P}}\p{{S}}])+")

Words = tuple[str, ...]
Split = Callable[[str], Words]


def word_splitter(name: str) -> Split:
    """How texts are split: unicode (the rule above), whitespace, or a function of the user's, ``module:function``.

    A function takes a text and returns its words in order; each must stand in the text. What stands between two of
    them is read as a space.

    Raises:
        InputError: there is no such splitter.
        ModelLoadError: the function cannot be imported.
    """
    if name == "unicode":
        return lambda text: _marked(text, _WORD.findall(text))
    if name == "whitespace":
        return lambda text: tuple(f" {word}" for word in text.split())
    if is_function_name(name):
        own = function_named(name, "words")
        return lambda text: _own(own, name, text)
    fix = "Write unicode, whitespace or module:function as the splitter"
    raise InputError(f"found {excerpt(name)}", where="words", fix=fix)


def joined(words: Iterable[str]) -> str:
    """The text of words.

    >>> joined(word_splitter("unicode")("A well-known cat, 2.5 kg: 我有猫."))
    'A well-known cat, 2.5 kg: 我有猫.'
    """
    return "".join(words).strip()


def bare(word: str) -> str:
    """The word without its space.

    >>> bare(" Cat")
    'Cat'
    """
    return word.strip()


def is_punctuation(word: str) -> bool:
    """Whether a word is made of punctuation and symbols alone.

    >>> is_punctuation(" ,"), is_punctuation(" a,b")
    (True, False)
    """
    return _PUNCTUATION.fullmatch(word.strip()) is not None


def _marked(text: str, words: Sequence[str]) -> Words:
    """The words of a text, those with a space before them marked by one."""
    marked = []
    at = 0
    for word in words:
        start = text.find(word, at)
        if start < 0 or not word:
            problem = f"the word {word!r} does not stand in {excerpt(text)}"
            raise MetricError(problem, where="words")
        spaced = text[at:start] != "" if at else not _WITHOUT_SPACE.match(word)
        marked.append(f" {word}" if spaced else word)
        at = start + len(word)
    return tuple(marked)


def _own(
    function: Callable[[str], Sequence[str]],
    name: str,
    text: str,
) -> Words:
    """The words that the user's function finds in a text."""
    try:
        words = [str(word).strip() for word in function(text)]
    except Exception as error:  # the user's function may raise anything
        raise MetricError(f"{type(error).__name__}: {error}", where=f"words {name!r}") from error
    return _marked(text, words)
