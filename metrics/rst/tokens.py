"""English words as the discourse parser reads them, losing no character but white space.

Words are split as in GUM and the Penn Treebank: punctuation, ``n't`` and ``'s`` apart, hyphens between words apart.
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


def words(text: str) -> list[str]:
    """The words of a text; joined, they are its letters without white space.

    >>> words("She didn't say: the cat's well-known.")
    ['She', 'did', "n't", 'say', ':', 'the', 'cat', "'s", 'well', '-', 'known', '.']
    """
    return _WORD.findall(text)
