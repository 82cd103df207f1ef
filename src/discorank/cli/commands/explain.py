"""``discorank explain INPUT -u UTILITY``: the choice from each list, and the reasons for it.

``discorank explain RUN`` explains the choices of a run of decode or rerank, by its own settings and input.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import Annotated, Literal

from ...functions import explained
from ...integrations.formats.open_lists import Lists
from ...metrics.errors import MAX_NAMES, InputError
from ...metrics.spec.checked_settings import Field, settings
from ...report.choices import read_run
from ...report.explanation import explanation_text
from ...rerank.capabilities import SINGLE_LISTS
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import CandidateList
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import Reranker
from ...rerank.runs.row_forms import as_line
from ..options import command
from ..options.decoders import BudgetOptions, DecoderOptions
from ..options.inputs import InputOptions
from ..options.metric_options import MetricOptions
from .report import decider_of, input_of


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


@command(
    "Show the ranking of candidate lists, the gap to the runner-up, the pseudo-references that agree most, and why. "
    "Of a run of decode or rerank, explain its choices.",
    positional={"input": "?"},
    short={"utility": "u", "num_candidates": "n"},
    hidden=["max_calls", "max_tokens"],
    needs=(SINGLE_LISTS,),
    defaults={"nbest": 3},
    first=["input", "utility", "id", "limit", "nbest", "format"],
    examples=[
        "explain examples:demo.jsonl -u chrf --id ferry:1",
        "explain examples:demo.jsonl -u 'chrf + 0.5*bleu' --limit 1 --nbest 1",
        "explain examples:summaries.jsonl -u rouge-l --limit 1",
    ],
)
def explain(
    input: InputOptions,
    budget: BudgetOptions,
    options: DecoderOptions,
    what: ExplainOptions,
    metrics: MetricOptions,
) -> None:
    """Explains."""
    decoder: MBRDecoder | Reranker
    if options.utility is None and input.input and os.path.isfile(f"{input.input}.run.json"):
        run = read_run(input.input)
        decoder = decider_of(run, metrics, options.file.prior)
        input = input_of(run, replace(input, input=None))
    else:
        choice = replace(options.choice, keep_matrix=True)
        decoder = replace(options, choice=choice).loaded(metrics, budget)
    ids = frozenset(what.id)
    # with lists of context, lists before the explained ones are decided too
    ids_to_read = frozenset[str]() if decoder.width else ids
    with input.opened() as lists:
        seen: list[str] = []
        first = islice(_records(lists, ids_to_read, seen), what.limit)
        records = list(first)
    missing = sorted(ids - {record.id for record in records})
    if missing:
        is_cut = not ids_to_read and len(records) == what.limit
        raise _missing(missing, seen, is_cut, lists.name)
    nbest = options.choice.nbest
    meaning = ""
    for why in explained(decoder, records, LocalEngine(metrics.cache()), nbest):
        if ids and why.ranking.id not in ids:
            continue
        meaning, ranks = why.meaning, why.data["ranking"]
        data = {**why.data, "ranking": ranks[:nbest]}
        if what.format == "json":
            sys.stdout.write(as_line(data).decode())
        else:
            sys.stdout.write(explanation_text(data, why.utility))
    if what.format == "text":
        sys.stdout.write(meaning)


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
    for record in lists.records():
        if len(seen) < MAX_NAMES:
            seen.append(record.id)
        if not ids or record.id in ids:
            yield record
