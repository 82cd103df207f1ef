"""An explanation of a list's ranking as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from ..printable import printable
from .explanation import NEAREST
from .marked_errors import MarkedError, in_words
from .words import sum_in_words

MAX_SHOWN = 8  # entries of each part of a reason
ALIGNED = "aligned"  # the reason of two documents whose parts are compared


def explanation_text(explained: Mapping[str, Any], utility: str) -> str:
    """An explanation for people, of a decision by the utility of a signature."""
    winner, gap = explained["ranking"][0], explained["gap"]
    counts = f"{explained['candidates']} candidates, {explained['distinct']} distinct"
    expected = f"{sum_in_words(utility)} {_number(winner['utility'])}"
    lead = _lead(gap, winner["utility"], explained["distinct"])
    lines = [f"{explained['id']}: {counts}"]
    if explained["source"]:
        lines.append(f"  source   {explained['source']}")
    lines.append(f"  chosen   {winner['text']}")
    lines.append(f"  why      expected {expected}, {lead}")
    if "budget" in explained:
        lines.append(f"  budget   {_spent(explained['budget'])}")
    for rank, place in enumerate(explained["ranking"], 1):
        lines += _place_lines(rank, place)
    for candidate in explained.get("not_finite", ()):
        lines.append(
            f"  not finite  [{candidate['index']}] {candidate['text']}: {_pairs(candidate['pairs'])}"
        )
    return "\n".join(map(printable, lines)) + "\n\n"


def _brief(value: Any) -> str:
    """JSON data in a line: the first entries, numbers rounded."""
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        parts = [f"{name} {_brief(inner) or '-'}" for name, inner in value.items()]
    elif isinstance(value, list):
        parts = []
        for inner in value:
            is_nested = isinstance(inner, list | Mapping)
            parts.append(f"({_brief(inner)})" if is_nested else str(inner))
    else:
        return str(value)
    line = ", ".join(parts[:MAX_SHOWN])
    return line if len(parts) <= MAX_SHOWN else f"{line}, and {len(parts) - MAX_SHOWN} more"


def _lead(gap: float | None, utility: float | None, num_distinct: int) -> str:
    """How far the first place, of this utility, is ahead of the second."""
    if gap is not None and gap < 0:
        return f"{-gap:.3g} behind the best, for the sake of lists after it"
    if gap is not None:
        return f"{gap:.3g} ahead of the runner-up"
    if num_distinct == 1:
        return "the only text"
    return "no text has a finite value" if utility is None else "the only one with a finite value"


def _place_lines(rank: int, place: Mapping[str, Any]) -> Iterator[str]:
    """A place of the ranking, the texts that agree with it, and its reasons."""
    times = f" (x{place['count']})" if place["count"] > 1 else ""
    utility, index = _number(place["utility"]), place["index"]
    yield f"  {rank:>4}.    {utility}  [{index}] {place['text']}{times}"
    if "compared" in place:
        yield f"             compared with {place['compared']} texts"
    for other in place["agreeing"]:
        yield f"             {_number(other['utility'])}  with {other['text']}"
    for name, reason in place["why"].items():
        if name in place.get("errors", {}):
            errors = [MarkedError(**error) for error in place["errors"][name]]
            yield f"             errors: {in_words(place['text'], errors)}"
            continue
        for part, value in reason.items():
            if part == ALIGNED and value:
                yield from _aligned_lines(value)
                continue
            yield f"             {part}: {_brief(value) or '-'}"


def _aligned_lines(links: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What belongs together in two documents: the share of their value, the value of the two, and both texts."""
    yield "             aligned, with the share of the value and the value of each two:"
    for link in links[:MAX_SHOWN]:
        yield f"              {link['share']:.3f} {_number(link['value'])}  {link['hypothesis'] or '-'}"
        yield f"                            {link['counterpart'] or '-'}"
    if len(links) > MAX_SHOWN:
        yield f"             and {len(links) - MAX_SHOWN} more"


def _spent(budget: Mapping[str, Any]) -> str:
    """What was computed under a budget, in words."""
    confidence = f"chosen by all with probability {budget['confidence']:.3g}"
    loss = f"{budget['regret']:.3g}" if isfinite(budget["regret"]) else "unknown"
    return f"{budget['pairs']} of {budget['of']} pairs, {confidence}, expected loss {loss}"


def _pairs(pairs: Sequence[Mapping[str, Any]]) -> str:
    """The first pairs without a finite value: ``nan with a, inf with b, and 3 more``."""
    shown = [
        pair["utility"] if pair["text"] is None else f"{pair['utility']} with {pair['text']}"
        for pair in pairs[:NEAREST]
    ]
    rest = len(pairs) - len(shown)
    return ", ".join(shown) + (f", and {rest} more" if rest else "")


def _number(value: float | None) -> str:
    return "   -  " if value is None else f"{value:6.2f}"
