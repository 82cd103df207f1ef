"""``discorank explain INPUT -u UTILITY``: the choice from each list, and the reasons for it.

``discorank explain RUN`` explains the choices of a run of decode or rerank, by its own settings and input.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Annotated, Any, Literal

from ...integrations.formats.open_lists import Lists
from ...metrics.errors import MAX_NAMES, InputError
from ...metrics.spec.checked_settings import Field, settings
from ...report.choices import read_run
from ...report.explanation import explanation, explanation_text, legend
from ...rerank.capabilities import SINGLE_LISTS
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import CandidateList
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import Reranker
from ...rerank.runs.resumable import as_line
from ..options import Options, build, needed
from ..options.budget import BudgetOptions, budget_in
from ..options.inputs import CodeOptions, InputOptions, cache_in, check_model, metric_in, open_input
from .report import decider_of, input_values


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
    "Show the ranking of candidate lists, the gap to the runner-up, the pseudo-references that agree most, and why. "
    "Of a run of decode or rerank, explain its choices.",
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
    nbest = values["nbest"]
    decoder: MBRDecoder | Reranker
    if values["utility"] is None and _is_run(values["input"]):
        run = read_run(values["input"])
        decoder = decider_of(run, values)
        values = input_values(run, {**values, "input": None})
    else:
        decoder = _decoder_in(values)
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
    # the features of a reranker, but the utility alone of a decoder with a shortlist
    deciding = decoder.metrics if isinstance(decoder, Reranker) else decoder.metrics[-1:]
    metrics = [metric for utility in deciding for _, metric in utility.parts]
    name = " + ".join(utility.signature() for utility in deciding) or "the sum of features"
    for ranking in decoder.decode(records.values(), LocalEngine(cache_in(values))):
        if ids and ranking.id not in ids:
            continue
        data = explanation(ranking, records[ranking.id], metrics, nbest, ranking.context)
        data["ranking"] = data["ranking"][:nbest]
        if values["format"] == "json":
            sys.stdout.write(as_line(data).decode())
        else:
            sys.stdout.write(explanation_text(data, name))
    if values["format"] == "text":
        is_scaled = isinstance(decoder, MBRDecoder) and decoder.estimator.normalize_parts != "none"
        sys.stdout.write(legend(metrics, is_scaled))
    return 0


def _is_run(path: str | None) -> bool:
    """True for the rows of a run, with the run file beside them."""
    return path is not None and os.path.isfile(f"{path}.run.json")


def _decoder_in(values: dict[str, Any]) -> MBRDecoder:
    """The decoder that the options describe."""
    utility = metric_in(values, needed(values, "utility", "--utility"))
    shortlist = values["shortlist"] and metric_in(values, values["shortlist"])
    check_model(values, [utility, shortlist] if shortlist else [utility])
    return build(
        MBRDecoder,
        values,
        utility=utility,
        shortlist=shortlist,
        keep_matrix=True,
        budget=budget_in(values),
    )


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
