"""Trees given as labelled spans of EDUs: DMRST's strings.

    (1:Satellite=Contrast:4,5:Nucleus=span:6) (1:Nucleus=Same-Unit:3,4:Nucleus=Same-Unit:4) ...

One item per inner node, in any order: first and last EDU, role and relation of its left and of its right part.
``;prob=...`` and the like behind a relation are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...errors import InputError, excerpt
from ...text.texts import RSTTree
from ..trees import Tree

_PART = r"(\d+):(Nucleus|Satellite)=([^:,()]+?):(\d+)"
_ITEM = re.compile(rf"\({_PART},{_PART}\)")
_FIX = "Expected items such as (1:Nucleus=span:1,2:Satellite=Cause:3), one per inner node"


class _Cut(NamedTuple):
    middle: int  # first EDU of the right part, from 0
    nuc: str
    rel: str


def read_dmrst(text: str, edus: Sequence[Sequence[str]], where: str = "dmrst") -> Tree:
    """The tree over given EDUs.

    Raises:
        InputError: items that are no nodes, spans that do not fit, or a count of EDUs that differs.
    """
    words = [tuple(edu) for edu in edus]
    if not words:
        raise InputError("no EDUs", where=where, fix="Give the words of every EDU")
    if text.strip().upper() == "NONE" and len(words) == 1:
        return words[0]
    cuts = _cuts(text, where)
    tree = _tree(0, len(words) - 1, cuts, words, where)
    if len(cuts) != len(words) - 1:
        raise InputError(f"{len(cuts)} inner nodes over {len(words)} EDUs", where=where, fix=_FIX)
    return tree


def _cuts(text: str, where: str) -> Mapping[tuple[int, int], _Cut]:
    found: dict[tuple[int, int], _Cut] = {}
    if rest := _ITEM.sub("", text).strip():
        raise InputError(f"found {excerpt(rest)}", where=where, fix=_FIX)
    for item in _ITEM.finditer(text):
        first, left, left_rel, middle, start, right, right_rel, last = item.groups()
        nuc = left[0] + right[0]
        if (
            int(start) != int(middle) + 1
            or not int(first) <= int(middle) < int(last)
            or nuc == "SS"
        ):
            raise InputError(f"found {item.group()}", where=where, fix=_FIX)
        rel = (left_rel if nuc != "NS" else right_rel).partition(";")[0]
        cut = _Cut(int(start) - 1, nuc, rel)
        if found.setdefault((int(first) - 1, int(last) - 1), cut) != cut:
            raise InputError(
                f"a second node over EDUs {first} to {last}: {item.group()}", where=where, fix=_FIX
            )
    return found


def _tree(
    first: int,
    last: int,
    cuts: Mapping[tuple[int, int], _Cut],
    words: Sequence[tuple[str, ...]],
    where: str,
) -> Tree:
    if first == last:
        return words[first]
    cut = cuts.get((first, last))
    if cut is None:
        raise InputError(f"no node over EDUs {first + 1} to {last + 1}", where=where, fix=_FIX)
    left = _tree(first, cut.middle - 1, cuts, words, where)
    return RSTTree(cut.nuc, cut.rel, (left, _tree(cut.middle, last, cuts, words, where)))
