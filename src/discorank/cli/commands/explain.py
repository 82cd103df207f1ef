"""``discorank explain INPUT -u UTILITY``: what was chosen from each list, and why."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import Annotated, Any, Literal

import numpy as np

from ...integrations.formats.open_lists import Lists
from ...metrics.base import Metric
from ...metrics.errors import MAX_NAMES, InputError
from ...metrics.representations import FloatArray
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.text.texts import Context, Text
from ...printable import printable
from ...report.marked_errors import MarkedError, in_words, marked_errors
from ...report.number_legend import legend
from ...report.words import sum_in_words
from ...rerank.choice import Ranking
from ...rerank.distinct import Distinct
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import CandidateList
from ...rerank.mbr_decoder import MBRDecoder
from ...rerank.runs.rows import as_line
from ..options import Options, build, needed
from ..options.budget import BudgetOptions, budget_in
from ..options.inputs import CodeOptions, InputOptions, cache_in, check_model, metric_in, open_input

NEAREST = 3
MAX_SHOWN = 8  # entries of each part of a reason, in text


@settings
class ExplainOptions:
    """What to explain.

    Args:
        id: ids of the lists to explain; the first ones if not given.
        limit: how many lists to explain; of a search, with the rest of the document of the last one.
        format: text or json.
        choice: segment; whole documents (document) cannot be explained.
    """

    id: tuple[str, ...] = ()
    limit: Annotated[int, Field(ge=1)] | None = 10
    format: Literal["text", "json"] = "text"
    choice: Literal["segment", "document"] = "segment"


OPTIONS = Options(
    "explain",
    "Show the ranking of candidate lists, the gap to the runner-up, the pseudo-references that agree most, and why.",
    [InputOptions, BudgetOptions, MBRDecoder, ExplainOptions, CodeOptions],
    positional={"input": "?"},
    short={"utility": "u", "num_candidates": "n"},
    hidden=["keep_matrix"],
    defaults={"nbest": 3},
)


def run(arguments: Sequence[str]) -> int:
    """Explains; returns the exit code."""
    values = OPTIONS.parse(arguments)
    if values["choice"] == "document":
        given = shlex.join([values["input"] or "INPUT", "-u", str(values["utility"] or "UTILITY")])
        fix = f"Rows say what was chosen: discorank decode {given} --choice document"
        raise InputError("whole documents are not explained", where="--choice", fix=fix)
    utility = metric_in(values, needed(values, "utility", "--utility"))
    shortlist = values["shortlist"] and metric_in(values, values["shortlist"])
    check_model(values, [utility, shortlist] if shortlist else [utility])
    budget = budget_in(values)
    decoder = build(
        MBRDecoder, values, utility=utility, shortlist=shortlist, keep_matrix=True, budget=budget
    )
    ids = frozenset(values["id"])
    # with lists of context, lists before the explained ones are decided too
    ids_to_read = frozenset[str]() if decoder.width else ids
    with open_input(values) as lists:
        is_whole = decoder.search is not None
        seen: list[str] = []
        first = _first(_records(lists, ids_to_read, seen), values["limit"], is_whole)
        records = {record.id: record for record in first}
    missing = sorted(ids - records.keys())
    if missing:
        is_cut = not ids_to_read and len(records) == values["limit"]
        raise _missing(missing, seen, is_cut, lists.name)
    for ranking in decoder.decode(records.values(), LocalEngine(cache_in(values))):
        if ids and ranking.id not in ids:
            continue
        metrics = [metric for _, metric in utility.parts]
        data = explanation(ranking, records[ranking.id], metrics, context=ranking.context)
        if values["format"] == "json":
            sys.stdout.write(as_line(data).decode())
        else:
            sys.stdout.write(_text(data, decoder))
    if values["format"] == "text":
        metrics = [metric for _, metric in decoder.metrics[-1].parts]
        sys.stdout.write(legend(metrics, decoder.normalize_parts != "none"))
    return 0


def _missing(ids: Sequence[str], seen: Sequence[str], is_cut: bool, name: str) -> InputError:
    """The error for ids that no list has, with the nearest of those read."""
    near = get_close_matches(ids[0], seen, n=3, cutoff=0.5)
    fix = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Give ids of the input"
    if is_cut:
        fix = f"Only {len(seen)} lists were read: raise --limit"
    return InputError(f"no list {', '.join(ids)}", where=name, fix=fix)


def _first(
    records: Iterable[CandidateList], limit: int | None, is_whole: bool
) -> Iterator[CandidateList]:
    """At most so many lists, and the rest of the document of the last one where documents are to be whole."""
    document: str | None = None
    for number, record in enumerate(records):
        goes_on = is_whole and record.document is not None and record.document == document
        if limit is not None and number >= limit and not goes_on:
            return
        document = record.document
        yield record


def _records(lists: Lists, ids: frozenset[str], seen: list[str]) -> Iterator[CandidateList]:
    """The lists of these ids, all if there are none; raises the first error record.

    `seen` gets the first ids of all lists.
    """
    for entry in lists:
        if entry.error is not None:
            raise entry.error
        if entry.record is not None and len(seen) < MAX_NAMES:
            seen.append(entry.record.id)
        if entry.record is not None and (not ids or entry.record.id in ids):
            yield entry.record


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
        "candidates": len(record.candidates),
        "distinct": len(distinct),
        "gap": ranking.gap,
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
    """What was computed under a budget, pair by pair; nothing without one."""
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
    """What each metric says of a text against the one that agrees most with it, by its signature."""
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


def _text(explained: Mapping[str, Any], decoder: MBRDecoder) -> str:
    """An explanation for people."""
    winner, gap = explained["ranking"][0], explained["gap"]
    counts = f"{explained['candidates']} candidates, {explained['distinct']} distinct"
    utility = f"{sum_in_words(decoder.metrics[-1].signature())} {_number(winner['utility'])}"
    lead = _lead(gap, winner["utility"], explained["distinct"])
    lines = [f"{explained['id']}: {counts}"]
    if explained["source"]:
        lines.append(f"  source   {explained['source']}")
    lines.append(f"  chosen   {winner['text']}")
    lines.append(f"  why      expected {utility}, {lead}")
    if "budget" in explained:
        lines.append(f"  budget   {_spent(explained['budget'])}")
    for rank, place in enumerate(explained["ranking"], 1):
        lines += _place_lines(rank, place)
    for candidate in explained.get("not_finite", ()):
        lines.append(
            f"  not finite  [{candidate['index']}] {candidate['text']}: {_pairs(candidate['pairs'])}"
        )
    return "\n".join(map(printable, lines)) + "\n\n"


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
            yield f"             {part}: {_brief(value) or '-'}"


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
