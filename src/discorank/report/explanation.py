"""Why a list's candidates rank as they do: the texts that agree with each, and what the metrics say.

As JSON data, as lines for people, and a legend of what the numbers mean in the words of each metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, isinf
from textwrap import wrap
from typing import Any

import numpy as np

from ..metrics.base import Metric
from ..metrics.registry import as_typed
from ..metrics.representations import FloatArray
from ..metrics.scorer import Info
from ..metrics.text.texts import Context, Text
from ..printable import printable
from ..rerank.choice import Ranking
from ..rerank.lists import CandidateList, Distinct
from ..tables import aligned
from .choices import MarkedError, in_words, marked_errors
from .summary_text import without_settings

NEAREST = 3  # texts that are named

MAX_SHOWN = 8  # entries of each part of a reason
ALIGNED = "aligned"  # the reason of two documents whose parts are compared
NUMBERS = 'expected utility, higher is better; before "with" the utility against that text alone'
ON_A_PAGE = "expected utility, higher is better; beside a pseudo-reference the utility against that text alone"
FEATURES = "the weighted sum of the features, higher is better"
SCALED = "each metric is brought to one scale within the list, then they are added up"
ADDED = "they are sums of the values of these metrics, by their weights"
WIDTH = 85  # of the text, so that the whole fits 100 columns


def explanation(
    ranking: Ranking,
    record: CandidateList,
    metrics: Sequence[Metric] = (),
    reasons: int | None = None,
    context: Context | None = None,
) -> dict[str, Any]:
    """The places of a ranking, each with the pseudo-references that agree most with it and what the metrics say of the
    first of these, as JSON data; errors that they mark also by their place in the whole text. Without the context in
    which the list was decided, metrics that read context say nothing. With `reasons`, they speak of that many places
    only.
    """
    distinct = Distinct(record.candidates)
    pool = Distinct(record.pseudo_references) if record.pseudo_references else distinct
    matrix = ranking.matrix  # [distinct candidates, distinct pseudo-references]
    if matrix is not None and matrix.shape != (len(distinct), len(pool)):
        matrix = None
    compared = _compared(ranking, distinct, pool)
    places = []
    for rank, place in enumerate(ranking.ranking):
        number = int(distinct.of[place.index])
        speaking = metrics if reasons is None or rank < reasons else ()
        agreeing: list[tuple[Text, float]] = []
        if matrix is not None:
            utilities = matrix[number]
            agreeing = _agreeing(utilities, pool.texts, place.text)
        nearest = [text for text, _ in agreeing[:1]]
        why = _why(speaking, place.text, nearest, record.source, context)
        errors = _errors(place.text, why)
        places.append(
            {
                "index": place.index,
                "count": place.count,
                "utility": place.utility,
                **({"compared": len(compared[number])} if compared else {}),
                "text": str(place.text),
                "agreeing": [{"text": str(text), "utility": utility} for text, utility in agreeing],
                "why": why,
                **({"errors": errors} if errors else {}),
            }
        )
    odd = _not_finite(ranking, distinct, pool)
    return {
        "id": ranking.id,
        "source": None if record.source is None else str(record.source),
        **({"context": list(context.target)} if context and context.target else {}),
        "candidates": len(record.candidates),
        "distinct": len(distinct),
        "gap": ranking.gap,
        **({} if ranking.votes is None else ranking.votes.as_json()),
        "flags": list(ranking.flags),
        **_budget(ranking, compared),
        "ranking": places,
        **({"not_finite": odd} if odd else {}),
    }


def _compared(ranking: Ranking, distinct: Distinct, pool: Distinct) -> list[list[int]]:
    """With which of the distinct pseudo-references each distinct candidate was compared under a budget.

    Empty without a budget, and where a shortlist left candidates out.
    """
    spent = ranking.budget
    if spent is None or spent.computed.shape != (len(distinct), len(pool)):
        return []
    return [np.flatnonzero(row).tolist() for row in spent.computed]


def _budget(ranking: Ranking, compared: list[list[int]]) -> dict[str, Any]:
    """The pairs that were computed under a budget; none without one."""
    if ranking.budget is None:
        return {}
    return {"budget": {**ranking.budget.as_json(), **({"compared": compared} if compared else {})}}


def _not_finite(ranking: Ranking, distinct: Distinct, pool: Distinct) -> list[dict[str, Any]]:
    """The candidates of whom a pair has no finite value, each with what it has and against which texts."""
    matrix = ranking.matrix  # [distinct candidates, distinct pseudo-references], or one column
    if matrix is None or len(matrix) != len(distinct):
        return []
    candidates = []
    is_odd = ~np.isfinite(matrix)
    if ranking.budget is not None:
        is_odd &= ranking.budget.computed
    for number in np.flatnonzero(is_odd.any(axis=1)).tolist():
        pairs = []
        for column in np.flatnonzero(is_odd[number]).tolist():
            text = str(pool.texts[column]) if matrix.shape[1] == len(pool) else None
            pairs.append({"text": text, "utility": str(matrix[number, column])})
        index = int(distinct.first[number])
        candidates.append({"index": index, "text": str(distinct.texts[number]), "pairs": pairs})
    return candidates


def _agreeing(
    utilities: FloatArray,  # [texts]
    texts: Sequence[Text],
    chosen: Text,
) -> list[tuple[Text, float]]:
    """The `NEAREST` texts other than the chosen one, with their finite utilities, the highest first."""
    is_finite = np.isfinite(utilities)
    by_utility = np.argsort(-utilities, kind="stable").tolist()
    order = [i for i in by_utility if is_finite[i] and texts[i] != chosen]
    return [(texts[i], float(utilities[i])) for i in order[:NEAREST]]


def _why(
    metrics: Sequence[Metric],
    text: Text,
    nearest: Sequence[Text],
    source: Text | None,
    context: Context | None,
) -> dict[str, Any]:
    """Each metric's reasons for a text against the one that agrees most with it, by its signature."""
    reasons = {}
    for metric in metrics:
        width = metric.reads.context
        knows_context = not width or context is not None
        if knows_context and (nearest or not metric.info.needs_references):
            before = None if context is None else context.last(width)
            reasons[metric.signature()] = metric.explain(text, nearest, source, before)[0]
    return {name: reason for name, reason in reasons.items() if reason}


def _errors(text: Text, why: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The errors in a text of every metric that marks some, by its signature."""
    marked = {name: marked_errors(text, reason) for name, reason in why.items()}
    return {
        name: [error._asdict() for error in errors]
        for name, errors in marked.items()
        if errors is not None
    }


def explanation_text(explained: Mapping[str, Any], utility: str) -> str:
    """An explanation for people, of a decision by the utility of a signature."""
    winner, gap = explained["ranking"][0], explained["gap"]
    counts = f"{explained['candidates']} candidates, {explained['distinct']} distinct"
    expected = f"{as_typed(utility)} {_number(winner['utility'])}"
    next_one = "next answer" if "votes" in explained else "runner-up"
    lead = _lead(gap, winner["utility"], explained["distinct"], next_one)
    lines = [f"{explained['id']}: {counts}"]
    lines += [f"  before   {sentence}" for sentence in explained.get("context", ())]
    if explained["source"]:
        lines.append(f"  source   {explained['source']}")
    lines.append(f"  chosen   {winner['text']}")
    if "votes" in explained:
        lines.append(f"  answer   {votes_in_words(explained)}")
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


def votes_in_words(explained: Mapping[str, Any]) -> str:
    """The answer of a list and the votes for each, the largest share first.

    >>> shares = [{"answer": "42", "share": 0.75, "count": 3}, {"answer": "41", "share": 0.25, "count": 1}]
    >>> votes_in_words({"answer": "42", "answer_rule": "number", "votes": shares})
    '42, of the votes by number: 42 0.75 (x3), 41 0.25 (x1)'
    """
    shares = explained["votes"]
    shown = [f"{vote['answer']} {vote['share']:.2f} (x{vote['count']})" for vote in shares]
    rest = f", and {len(shown) - MAX_SHOWN} more" if len(shown) > MAX_SHOWN else ""
    votes = ", ".join(shown[:MAX_SHOWN]) or "none"
    answer = explained["answer"] or "-"
    return f"{answer}, of the votes by {explained['answer_rule']}: {votes}{rest}"


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


def _lead(gap: float | None, utility: float | None, num_distinct: int, next_one: str) -> str:
    """How far the first place, of this utility, is ahead of the second, which is called so."""
    if gap is not None and gap < 0:
        return f"{-gap:.3g} behind the best, for the sake of lists after it"
    if gap is not None:
        return f"{gap:.3g} ahead of the {next_one}"
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
    """The alignment of two documents: the share of their value, the value of the two, and both texts."""
    yield "             aligned, with the share of the value and the value of each two:"
    for link in links[:MAX_SHOWN]:
        yield f"              {link['share']:.3f} {_number(link['value'])}  {link['hypothesis'] or '-'}"
        yield f"                            {link['counterpart'] or '-'}"
    if len(links) > MAX_SHOWN:
        yield f"             and {len(links) - MAX_SHOWN} more"


def _spent(budget: Mapping[str, Any]) -> str:
    """The work under a budget, in words."""
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


def legend(metrics: Sequence[Metric], is_scaled: bool = False) -> str:
    """The lines about the numbers and about every metric.

    Args:
        metrics: the parts of the utility.
        is_scaled: the numbers are of parts brought to one scale within each list.
    """
    rows = []
    for name, about in meanings(metrics, is_scaled).items():
        lines = [line for text in about for line in wrap(text, WIDTH)]
        rows += [[f"  {name}" if i == 0 else "", line] for i, line in enumerate(lines)]
    return f"what the numbers mean\n{aligned(rows)}\n"


def meanings(
    metrics: Sequence[Metric], is_scaled: bool = False, about_numbers: str = NUMBERS
) -> dict[str, list[str]]:
    """Sentences on the numbers of places, and on every metric by its name.

    Args:
        metrics: the parts of the utility, or the features that are metrics.
        is_scaled: the numbers are of parts brought to one scale within each list.
        about_numbers: what the numbers are.
    """
    numbers = [about_numbers]
    if is_scaled:
        numbers.append(SCALED)
    elif len(metrics) > 1 and about_numbers != FEATURES:
        numbers.append(ADDED)
    names = [without_settings(as_typed(metric.signature())) for metric in metrics]
    about = {name: _about(metric.info) for name, metric in zip(names, metrics, strict=True)}
    return {"numbers": numbers, **about}


def _about(info: Info) -> list[str]:
    """The subject of a metric, its scale, and what it gives as reasons."""
    reasons = info.reasons.split("; ") if info.reasons else []
    return [f"{info.summary}: {scale(info.bounds)}, {_direction(info)}", *reasons]


def _direction(info: Info) -> str:
    if info.higher_is_better:
        return "higher is better"
    return "lower is better, so its utility is its negative"


def scale(bounds: tuple[float, float]) -> str:
    """Bounds in words.

    >>> scale((0, float("inf")))
    '0 and above'
    """
    low, high = bounds
    if isinf(low) and isinf(high):
        return "any number"
    if isinf(high):
        return f"{low:g} and above"
    if isinf(low):
        return f"{high:g} and below"
    return f"{low:g} to {high:g}"
