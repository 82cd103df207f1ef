"""Numbers, names and settings as words in a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_NAME = 28
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')
_SETTINGS = re.compile(r"(?<=\w)\([^()]*\)")


def with_noun(n: int, singular: str, plural: str) -> str:
    """A number with its noun.

    >>> with_noun(1, "list", "lists"), with_noun(0, "list", "lists")
    ('1 list', '0 lists')
    """
    return f"{n} {singular if n == 1 else plural}"


def plain(value: Any) -> str:
    """A setting, whatever it holds.

    >>> plain(None), plain(True), plain({"chrf": 1, "bleu": 2}), plain([])
    ('none', 'yes', 'chrf 1, bleu 2', 'none')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value)) or "none"
    return "none" if value is None else str(value)


def sum_in_words(signature: str) -> str:
    """The signature of a sum as people write it; what stands in brackets or quotes stays.

    >>> sum_in_words('chrf + -1.0*ter + -0.5*lm(prompt="a + -b")')
    'chrf - 1.0*ter - 0.5*lm(prompt="a + -b")'
    """
    parts = _QUOTED.split(signature)
    # every other part is a quoted text
    parts[::2] = [part.replace(" + -", " - ") for part in parts[::2]]
    return "".join(parts)


def without_settings(signature: str) -> str:
    """The metrics of a sum by their names alone.

    >>> without_settings('lm(prompt="(a)",model="m@sha256:0f") + 0.5*combination(parts=[chrf(beta=3)])')
    'lm + 0.5*combination'
    """
    names = _QUOTED.sub("", signature)
    while (outer := _SETTINGS.sub("", names)) != names:
        names = outer
    return names


def names_of(names: Sequence[str]) -> str:
    """Names in a sentence; at most five of them.

    >>> names_of(["a"]), names_of(["a", "b", "c"]), names_of(list("abcdefg"))
    ('a', 'a, b and c', 'a, b, c, d and 3 more')
    """
    shown = list(names)
    if len(names) > 5:
        shown = [*names[:4], f"{len(names) - 4} more"]
    if len(shown) == 1:
        return shown[0]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def short_names(signatures: Sequence[str]) -> dict[str, str]:
    """A name for every metric that fits over a column: without its settings, numbered where names meet.

    >>> short_names(["chrf", 'bleu(tokenize="zh")', "bleu"])
    {'chrf': 'chrf', 'bleu(tokenize="zh")': 'bleu', 'bleu': 'bleu 2'}
    """
    names: dict[str, str] = {}
    for signature in signatures:
        is_sum = "*" in signature or "+" in signature
        plain = sum_in_words(signature) if is_sum else signature.partition("(")[0]
        plain = cut(plain, 20)
        name, number_of = plain, 2
        while name in names.values():
            name, number_of = f"{plain} {number_of}", number_of + 1
        names[signature] = name
    return names


def cut(name: str, longest: int = MAX_NAME) -> str:
    """A name of at most so many letters, the last of them "…" where it was longer.

    >>> cut("chrf"), cut("a long name", 6)
    ('chrf', 'a lon…')
    """
    return name if len(name) <= longest else name[: longest - 1] + "…"
