"""What can be read off a list's texts alone: features of every candidate beside consensus.

longer          log of its length over the median candidate's
unusual-length  how far that is from 0
numbers         how many numbers source and candidate do not share, log(1 + n)
marks           how much its punctuation differs from the median candidate's, log(1 + n)
copied          share of its 4-grams of characters that the source has
repetition      share of its word bigrams that it had before
unshared        share of its words that no other candidate has
capitals        share of its characters that are capitals
Case and scripts of marks and digits do not count. A list without a source shares nothing with it: copied and numbers
are 0 for every candidate.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ..metrics.representations import FloatArray
from .lists import CandidateList

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD = re.compile(r"\w+")
# marks of other scripts and typographic ones, and what they count as
_PLAIN_MARKS = str.maketrans("“”„«»「」‘’。，、？！：；（）–—", '"""""""\'\'.,,?!:;()--')
N = 4  # characters of an n-gram


def surface_feature(name: str, record: CandidateList) -> FloatArray:
    """A feature of every candidate, [N]; raises KeyError for another name."""
    texts = [str(candidate.text) for candidate in record.candidates]
    source = None if record.source is None else str(record.source)
    return _FEATURES[name](texts, source)


def _longer(texts: list[str], source: str | None) -> FloatArray:
    lengths = np.array([len(text) + 1 for text in texts], float)
    return np.asarray(np.log(lengths / np.median(lengths)))


def _unusual_length(texts: list[str], source: str | None) -> FloatArray:
    return np.abs(_longer(texts, source))


def _numbers(texts: list[str], source: str | None) -> FloatArray:
    if source is None:
        return np.zeros(len(texts))
    expected = _numbers_in(source)
    return np.log1p([_differences(_numbers_in(text), expected) for text in texts])


def _marks(texts: list[str], source: str | None) -> FloatArray:
    counts = [_marks_in(text) for text in texts]
    known = sorted(set().union(*counts))
    table = np.array([[own[mark] for mark in known] for own in counts], float)
    if not known:
        return np.zeros(len(texts))
    return np.asarray(np.log1p(np.abs(table - np.median(table, axis=0)).sum(axis=1)))


def _copied(texts: list[str], source: str | None) -> FloatArray:
    of_source = _character_ngrams(source or "")
    shares = []
    for text in texts:
        own = _character_ngrams(text)
        shares.append(len(own & of_source) / max(1, len(own)))
    return np.array(shares)


def _repetition(texts: list[str], source: str | None) -> FloatArray:
    shares = []
    for text in texts:
        words = _words(text)
        bigrams = list(pairwise(words))
        shares.append(1 - len(set(bigrams)) / max(1, len(bigrams)) if bigrams else 0.0)
    return np.array(shares)


def _unshared(texts: list[str], source: str | None) -> FloatArray:
    having = Counter(word for text in texts for word in set(_words(text)))  # how many candidates
    shares = []
    for text in texts:
        words = _words(text)
        shares.append(sum(having[word] == 1 for word in words) / max(1, len(words)))
    return np.array(shares)


def _capitals(texts: list[str], source: str | None) -> FloatArray:
    return np.array([sum(map(str.isupper, text)) / max(1, len(text)) for text in texts])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _character_ngrams(text: str) -> set[str]:
    lowered = text.lower()
    return {lowered[i : i + N] for i in range(len(lowered) - N + 1)}


def _numbers_in(text: str) -> Counter[str]:
    """The numbers of a text by their digits, separators left out."""
    digits = []
    for number in _NUMBER.findall(text):
        digits.append("".join(str(unicodedata.digit(c)) for c in number if c.isdecimal()))
    return Counter(digits)


def _marks_in(text: str) -> Counter[str]:
    marks = [c for c in text if unicodedata.category(c).startswith("P")]
    return Counter("".join(marks).translate(_PLAIN_MARKS))


def _differences(a: Counter[str], b: Counter[str]) -> int:
    return sum(((a - b) + (b - a)).values())


_FEATURES: dict[str, Callable[[list[str], str | None], FloatArray]] = {
    "longer": _longer,
    "unusual-length": _unusual_length,
    "numbers": _numbers,
    "marks": _marks,
    "copied": _copied,
    "repetition": _repetition,
    "unshared": _unshared,
    "capitals": _capitals,
}
SURFACE = tuple(_FEATURES)
