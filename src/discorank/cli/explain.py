"""``discorank explain INPUT -u UTILITY``: what was chosen from each list, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ..integrations.formats import Lists
from ..metrics.errors import InputError
from ..metrics.settings import settings
from ..rerank.choice import Distinct, Ranking
from ..rerank.engine import LocalEngine
from ..rerank.lists import CandidateList
from ..rerank.mbr import MBRDecoder
from ..rerank.rows import as_line
from .inputs import InputOptions, cache_in, metric_in, open_input
from .options import Options, build, needed

NEAREST = 3


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
    "Show the ranking of candidate lists, the gap to the runner-up, and the pseudo-references that agree most.",
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
    decoder = build(MBRDecoder, values, utility=utility, shortlist=shortlist, keep_matrix=True)
    with open_input(values) as lists:
        ids = frozenset(values["id"])
        records = {r.id: r for r in islice(_wanted(lists, frozenset() if decoder.width else ids), values["limit"])}
    if missing := sorted(ids - records.keys()):
        raise InputError(f"no list {', '.join(missing)}", where=lists.name, fix="Raise --limit, or see the input's ids")
    for ranking in decoder.decode(records.values(), LocalEngine(cache_in(values))):
        if ids and ranking.id not in ids:
            continue
        found = explanation(ranking, records[ranking.id])
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


def explanation(ranking: Ranking, record: CandidateList) -> dict[str, Any]:
    """The places of a ranking, each with the pseudo-references that agree most with it, as JSON data."""
    distinct = Distinct(record.candidates)
    pool = Distinct(record.pseudo_references) if record.pseudo_references else distinct
    places = []
    for place in ranking.ranking:
        row = int(distinct.of[place.index])
        agreeing = []
        if ranking.matrix is not None and ranking.matrix.shape == (len(distinct), len(pool)):
            u = ranking.matrix[row]
            order = [int(i) for i in np.argsort(-u, kind="stable") if pool.texts[i] != place.text]
            agreeing = [{"text": str(pool.texts[i]), "utility": float(u[i])} for i in order[:NEAREST]]
        places.append(
            {"index": place.index, "count": place.count, "utility": place.utility, "text": str(place.text)}
            | {"agreeing": agreeing}
        )
    source = None if record.source is None else str(record.source)
    return {"id": ranking.id, "source": source, "candidates": len(record.candidates), "distinct": len(distinct)} | {
        "gap": ranking.gap,
        "flags": list(ranking.flags),
        "ranking": places,
    }


def _text(found: Mapping[str, Any], decoder: MBRDecoder) -> str:
    chosen = found["ranking"][0]
    lines = [f"{found['id']}: {found['candidates']} candidates, {found['distinct']} distinct"]
    if found["source"]:
        lines.append(f"  source   {found['source']}")
    lines.append(f"  chosen   {chosen['text']}")
    gap = "the only text" if found["gap"] is None else f"{found['gap']:.2f} ahead of the runner-up"
    lines.append(f"  why      expected {decoder.metrics[-1].signature()} {_number(chosen['utility'])}, {gap}")
    for rank, place in enumerate(found["ranking"], 1):
        times = f" (x{place['count']})" if place["count"] > 1 else ""
        lines.append(f"  {rank:>4}.    {_number(place['utility'])}  [{place['index']}] {place['text']}{times}")
        lines += [f"             {_number(other['utility'])}  with {other['text']}" for other in place["agreeing"]]
    return "\n".join(lines) + "\n\n"


def _number(value: float | None) -> str:
    return "   -  " if value is None else f"{value:6.2f}"
