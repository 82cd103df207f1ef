"""``discorank explain INPUT -u UTILITY``: what was chosen from each list, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ..integrations.formats.open_lists import Lists
from ..metrics.base import Metric
from ..metrics.errors import InputError
from ..metrics.spec.checked_settings import settings
from ..metrics.text.texts import Text
from ..rerank.choice import Ranking
from ..rerank.distinct import Distinct
from ..rerank.engines.local import LocalEngine
from ..rerank.lists import CandidateList
from ..rerank.mbr_decoder import MBRDecoder
from ..rerank.runs.rows import as_line
from .inputs import InputOptions, cache_in, check_model, metric_in, open_input
from .options import Options, build, needed

NEAREST = 3
MAX_SHOWN = 8  # entries of each part of a reason, in text


@settings
class ExplainOptions:
    """What to explain.

    Args:
        id: ids of the lists to explain; the first ones if not given.
        limit: how many lists to explain.
        format: text or json.
    """

    id: tuple[str, ...] = ()
    limit: Annotated[int, Field(ge=1)] | None = 10
    format: Literal["text", "json"] = "text"


OPTIONS = Options(
    "explain",
    "Show the ranking of candidate lists, the gap to the runner-up, the pseudo-references that agree most, and why.",
    [InputOptions, MBRDecoder, ExplainOptions],
    positional={"input": "?"},
    short={"utility": "u", "num_candidates": "n"},
    hidden=["keep_matrix"],
    defaults={"nbest": 3},
)


def run(arguments: Sequence[str]) -> int:
    """Explains; returns the exit code."""
    values = OPTIONS.parse(arguments)
    utility = metric_in(values, needed(values, "utility", "--utility"))
    shortlist = values["shortlist"] and metric_in(values, values["shortlist"])
    check_model(values, [utility, shortlist] if shortlist else [utility])
    decoder = build(MBRDecoder, values, utility=utility, shortlist=shortlist, keep_matrix=True)
    with open_input(values) as lists:
        ids = frozenset(values["id"])
        records = {
            r.id: r
            for r in islice(_wanted(lists, frozenset() if decoder.width else ids), values["limit"])
        }
    if missing := sorted(ids - records.keys()):
        raise InputError(
            f"no list {', '.join(missing)}",
            where=lists.name,
            fix="Raise --limit, or see the input's ids",
        )
    for ranking in decoder.decode(records.values(), LocalEngine(cache_in(values))):
        if ids and ranking.id not in ids:
            continue
        found = explanation(ranking, records[ranking.id], [metric for _, metric in utility.parts])
        if values["format"] == "json":
            sys.stdout.write(as_line(found).decode())
        else:
            sys.stdout.write(_text(found, decoder))
    return 0


def _wanted(lists: Lists, ids: frozenset[str]) -> Iterator[CandidateList]:
    for entry in lists:
        if entry.error is not None:
            raise entry.error
        if entry.record is not None and (not ids or entry.record.id in ids):
            yield entry.record


def explanation(
    ranking: Ranking,
    record: CandidateList,
    metrics: Sequence[Metric] = (),
    reasons: int | None = None,
) -> dict[str, Any]:
    """The places of a ranking, each with the pseudo-references that agree most with it and what the metrics say of the
    first of these, as JSON data. Metrics that read context say nothing: it is gone with the decoding. With `reasons`,
    they speak of that many places only.
    """
    distinct = Distinct(record.candidates)
    pool = Distinct(record.pseudo_references) if record.pseudo_references else distinct
    places = []
    for rank, place in enumerate(ranking.ranking):
        told = metrics if reasons is None or rank < reasons else ()
        row = int(distinct.of[place.index])
        agreeing, nearest = [], []
        if ranking.matrix is not None and ranking.matrix.shape == (len(distinct), len(pool)):
            u = ranking.matrix[row]
            order = [int(i) for i in np.argsort(-u, kind="stable") if pool.texts[i] != place.text]
            nearest = [pool.texts[i] for i in order[:NEAREST]]
            agreeing = [
                {"text": str(pool.texts[i]), "utility": float(u[i])} for i in order[:NEAREST]
            ]
        places.append(
            {
                "index": place.index,
                "count": place.count,
                "utility": place.utility,
                "text": str(place.text),
            }
            | {"agreeing": agreeing, "why": _why(told, place.text, nearest[:1], record.source)}
        )
    source = None if record.source is None else str(record.source)
    return {
        "id": ranking.id,
        "source": source,
        "candidates": len(record.candidates),
        "distinct": len(distinct),
    } | {
        "gap": ranking.gap,
        "flags": list(ranking.flags),
        "ranking": places,
    }


def _why(
    metrics: Sequence[Metric], text: Text, nearest: Sequence[Text], source: Text | None
) -> dict[str, Any]:
    """What each metric says of a text against the one that agrees most with it, by its signature."""
    told = {}
    for metric in metrics:
        if metric.reads.context == 0 and (nearest or not metric.info.needs_references):
            told[metric.signature()] = metric.explain(text, nearest, source)[0]
    return {name: about for name, about in told.items() if about}


def _brief(value: Any) -> str:
    """JSON data in a line: the first entries, numbers rounded."""
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        parts = [f"{name} {_brief(inner) or '-'}" for name, inner in value.items()]
    elif isinstance(value, list):
        parts = [
            f"({_brief(inner)})" if isinstance(inner, list | Mapping) else str(inner)
            for inner in value
        ]
    else:
        return str(value)
    return ", ".join(parts[:MAX_SHOWN]) + (
        f", and {len(parts) - MAX_SHOWN} more" if len(parts) > MAX_SHOWN else ""
    )


def _text(found: Mapping[str, Any], decoder: MBRDecoder) -> str:
    chosen = found["ranking"][0]
    lines = [f"{found['id']}: {found['candidates']} candidates, {found['distinct']} distinct"]
    if found["source"]:
        lines.append(f"  source   {found['source']}")
    lines.append(f"  chosen   {chosen['text']}")
    gap = "the only text" if found["gap"] is None else f"{found['gap']:.3g} ahead of the runner-up"
    lines.append(
        f"  why      expected {decoder.metrics[-1].signature()} {_number(chosen['utility'])}, {gap}"
    )
    for rank, place in enumerate(found["ranking"], 1):
        times = f" (x{place['count']})" if place["count"] > 1 else ""
        lines.append(
            f"  {rank:>4}.    {_number(place['utility'])}  [{place['index']}] {place['text']}{times}"
        )
        lines += [
            f"             {_number(other['utility'])}  with {other['text']}"
            for other in place["agreeing"]
        ]
        lines += [
            f"             {part}: {_brief(v) or '-'}"
            for why in place["why"].values()
            for part, v in why.items()
        ]
    return "\n".join(lines) + "\n\n"


def _number(value: float | None) -> str:
    return "   -  " if value is None else f"{value:6.2f}"
