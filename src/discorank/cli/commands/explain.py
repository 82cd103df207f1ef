"""``discorank explain INPUT -u UTILITY``: what was chosen from each list, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Annotated, Literal

from ...integrations.formats.open_lists import Lists
from ...metrics.errors import MAX_NAMES, InputError
from ...metrics.spec.checked_settings import Field, settings
from ...report.explanation import explanation, explanation_text, legend
from ...rerank.capabilities import SINGLE_LISTS
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import CandidateList
from ...rerank.mbr import MBRDecoder
from ...rerank.runs.row_forms import as_line
from ..options import Options, build, needed
from ..options.budget import BudgetOptions, budget_in
from ..options.inputs import CodeOptions, InputOptions, cache_in, check_model, metric_in, open_input


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
    [InputOptions, BudgetOptions, MBRDecoder, ExplainOptions, CodeOptions],
    positional={"input": "?"},
    short={"utility": "u", "num_candidates": "n"},
    needs=(SINGLE_LISTS,),
    defaults={"nbest": 3},
    first=["input", "utility", "id", "limit", "nbest", "format"],
    examples=[
        "explain examples:demo.jsonl -u chrf --id ferry:1",
        "explain examples:demo.jsonl -u 'chrf + 0.5*bleu' --limit 1 --nbest 1",
        "explain examples:summaries.jsonl -u rouge-l --limit 1",
    ],
)


def run(arguments: Sequence[str]) -> int:
    """Explains; returns the exit code."""
    values = OPTIONS.parse(arguments)
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
        seen: list[str] = []
        first = islice(_records(lists, ids_to_read, seen), values["limit"])
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
            sys.stdout.write(explanation_text(data, decoder.metrics[-1].signature()))
    if values["format"] == "text":
        metrics = [metric for _, metric in decoder.metrics[-1].parts]
        sys.stdout.write(legend(metrics, decoder.estimator.normalize_parts != "none"))
    return 0


def _missing(ids: Sequence[str], seen: Sequence[str], is_cut: bool, name: str) -> InputError:
    """The error for ids that no list has, with the nearest of those read."""
    near = get_close_matches(ids[0], seen, n=3, cutoff=0.5)
    fix = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Give ids of the input"
    if is_cut:
        fix = f"Only {len(seen)} lists were read: raise --limit"
    return InputError(f"no list {', '.join(ids)}", where=name, fix=fix)


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
