"""Papers that metrics, tests and methods come from: entries of papers.bib, read when they are asked for.

A metric names the keys of its papers in `Info.papers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

# of the methods of decoding under a budget, by name, and of diverse k-best lists
OF_BUDGETS = {
    "halving": "jinnai2024faster",
    "diverse": "jinnai2024diverse",
}
OF_TESTS = ("riezler2005pitfalls", "koehn2004statistical")  # of the tests of ``compare``


class Paper(NamedTuple):
    """One entry, as it stands in the file; authors are joined by " and "."""

    key: str
    entry: str
    fields: Mapping[str, str]


@cache
def papers() -> Mapping[str, Paper]:
    """All papers by their keys."""
    text = files(__package__).joinpath("papers.bib").read_text(encoding="utf-8")
    entries = {}
    for entry in re.split(r"\n(?=@)", text):
        key = entry[entry.index("{") + 1 : entry.index(",")]
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.MULTILINE))
        entries[key] = Paper(key, entry, fields)
    return entries


def bibtex(keys: Iterable[str]) -> str:
    """The entries of these keys, each once."""
    return "\n".join(papers()[key].entry for key in dict.fromkeys(keys))
