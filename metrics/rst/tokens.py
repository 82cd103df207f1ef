"""English words and sentences as the discourse parser reads them, losing no character but white space.

Words are split as in GUM and the Penn Treebank: punctuation, ``n't`` and ``'s`` apart, hyphens between words apart.
Sentences end at ``.``, ``!`` or ``?`` before a capital, a digit or a quote, unless the word is a usual abbreviation,
and at line breaks.
"""

from __future__ import annotations

import re

_WORD = re.compile(
    r"https?://\S+|www\.\S+|[\w.+-]+@[\w-]+\.[\w.]+"  # addresses
    r"|(?:[A-Za-z]\.){2,}"  # U.S.
    r"|\d+(?:[.,:/]\d+)*\w*"
    r"|(?:Mr|Mrs|Ms|Dr|St|Prof|vs|etc|Jr|Sr|No|Vol|Fig|al|e\.g|i\.e)\.(?=\s|,|$)"
    r"|\b(?:non|pro|anti|re|pre|post|cross|co|multi)-\w+"
    r"|\b[Cc]an(?=not\b)|[A-Za-z]+(?=n['’]t\b)|n['’]t\b"  # can not, is n't
    r"|['’](?:s|S|re|ve|ll|d|m|RE|VE|LL|D|M)\b"
    r"|\w+|\.{2,}|-{2,}|[^\w\s]",
    re.UNICODE,
)
_SHORT = """
    mr mrs ms dr st prof vs etc jr sr no vol fig al gen col sen rep gov inc ltd co corp dept approx pp ed eds cf e.g i.e
    jan feb mar apr jun jul aug sep sept oct nov dec
"""
_ABBREVIATIONS = frozenset(_SHORT.split())
_END = re.compile(r"([.!?…]+[\"'”’)\]]*)(\s+)(?=[\"'“‘(\[]*[A-Z0-9À-ÖØ-Þ])")
_LAST = re.compile(r"[\w.]+$")


def words(text: str) -> list[str]:
    """The words of a text; joined, they are its letters without white space.

    >>> words("She didn't say: the cat's well-known.")
    ['She', 'did', "n't", 'say', ':', 'the', 'cat', "'s", 'well', '-', 'known', '.']
    """
    return _WORD.findall(text)


def sentences(text: str) -> list[str]:
    """The sentences of a text, none empty.

    >>> sentences('Mr. Smith left. "Why?" he asked.  It rained')
    ['Mr. Smith left.', '"Why?" he asked.', 'It rained']
    """
    found: list[str] = []
    for line in text.splitlines():
        start = 0
        for end in _END.finditer(line):
            before = _LAST.search(line, start, end.start())
            if end[1].startswith(".") and before and _is_abbreviation(before.group()):
                continue
            found.append(line[start : end.start(2)])
            start = end.end()
        found.append(line[start:])
    return [sentence.strip() for sentence in found if sentence.strip()]


def _is_abbreviation(word: str) -> bool:
    return word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper())
