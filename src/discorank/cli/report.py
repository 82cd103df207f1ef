"""``discorank report RUN [-o report.html]``: one page to look at, on compared systems or on a decoder's choices."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..integrations.formats.open_lists import Lists
from ..metrics.errors import InputError
from ..metrics.registry import load_metric
from ..metrics.spec.checked_settings import settings
from ..report.choices import ChosenRun, explained, read_run
from ..report.extra import plot_package, template_package
from ..report.page import rendered
from ..report.summary_text import several
from ..rerank.engines.local import LocalEngine
from ..rerank.features import PLAIN
from ..rerank.lists import CandidateList
from ..rerank.mbr_decoder import MBRDecoder
from ..rerank.reranker import Reranker
from ..rerank.selection.comparison_folder import FILES, KeptComparison, load
from .console import Progress, say
from .explain import explanation
from .inputs import InputOptions, adapted, cache_in, open_input
from .options import Options, needed
from .running import check_not_input, check_writable, complete_or_absent

REASONS = 3  # places of a list for which the metrics say why


@settings
class ReportOptions:
    """What is reported.

    Args:
        run: what compare --save wrote, what decode or rerank wrote (with its .run.json), or one of each.
        output: the page; - for stdout.
        title: of the page.
        limit: how many lists of a decoder's run are shown with reasons.
        optimised: metrics that one of the systems was decoded, selected or trained with.
    """

    run: tuple[str, ...] = ()
    output: str = "report.html"
    title: str | None = None
    limit: Annotated[int, Field(ge=0)] = 100
    optimised: tuple[str, ...] = ()


OPTIONS = Options(
    "report",
    "Write one self-contained HTML page on compared systems (compare --save) or on what a decoder chose and why.",
    [ReportOptions, InputOptions],
    positional={"run": "*"},
    short={"output": "o"},
    hidden=["input_format", "num_candidates", "human", "as_systems", "include"],
)


def run(arguments: Sequence[str]) -> int:
    """Writes the page; returns the exit code."""
    values = OPTIONS.parse(arguments)
    paths = needed(values, "run", "RUN")
    template_package(), plot_package()  # before any work
    compared = [path for path in paths if Path(path).is_dir()]
    decided = [path for path in paths if path not in compared]
    if max(len(compared), len(decided)) > 1:
        found = f"{len(compared)} comparisons and {len(decided)} runs of decode or rerank"
        raise InputError(found, where="RUN", fix="Give one, or one of each")
    output = values["output"]
    if output != "-":
        beside = [f"{path}{end}" for path in decided for end in ("", ".run.json", ".errors.jsonl")]
        check_not_input(
            output,
            [*beside, *(f"{path}/{name}" for path in compared for name in FILES), values["input"]],
        )
        check_writable(output, "Name a file, or - for stdout")
    comparison = load(compared[0]) if compared else None
    chosen = with_reasons(read_run(decided[0]), values) if decided else None
    title = values["title"] or _title(comparison, chosen)
    page = rendered(comparison, chosen, title, values["optimised"]).encode("utf-8", "replace")
    if output == "-":
        sys.stdout.buffer.write(page)
        return 0
    with complete_or_absent(output) as file:
        file.write(page)
    say(f"{output}: {len(page) / 1e6:.1f} MB", values["quiet"])
    return 0


def _title(comparison: KeptComparison | None, chosen: ChosenRun | None) -> str:
    if comparison is not None:
        systems = several(len(comparison.systems), "system", "systems")
        return f"Comparison of {systems} on {several(len(comparison.documents), 'document', 'documents')}"
    return f"What was chosen: {Path(chosen.path).name}" if chosen else "Report"


def with_reasons(run: ChosenRun, values: Mapping[str, Any]) -> ChosenRun:
    """The run with its first lists decided again, with every place and the reasons.

    Raises:
        InputError: the input is not where it was, or no longer the same.
    """
    if not values["limit"]:
        return run
    decider = decider_of(run, values)
    with open_input(_reading(run, values)) as lists:
        records = {record.id: record for record in _same(run, lists, values["limit"])}
    metrics = [part for metric in decider.metrics[-1:] for _, part in metric.parts]
    if isinstance(decider, Reranker):
        metrics = [part for metric in decider.metrics for _, part in metric.parts]
    found: list[dict[str, Any]] = []
    with Progress("lists", lambda: len(found) / max(1, len(records)), values["quiet"]) as progress:
        for ranking in decider.decode(records.values(), LocalEngine(cache_in(values))):
            why = explanation(ranking, records[ranking.id], metrics, REASONS)
            found.append(explained(run, ranking, records[ranking.id], why))
            progress(len(found))
    return replace(run, lists=tuple(found))


def decider_of(run: ChosenRun, values: Mapping[str, Any]) -> MBRDecoder | Reranker:
    """What decided a run, set to give every place.

    Raises:
        InputError: the run file's settings are not those of a decoder.
    """
    made = run.settings
    signatures = iter([adapted(load_metric(signature), values) for signature in run.signatures])
    try:
        if made["decoder"] == "rerank":
            features = {
                _feature(name, signatures): weight for name, weight in made["features"].items()
            }
            return Reranker(
                features, normalize=made["normalize"], nbest=None, strategy=made["strategy"]
            )
        names = ("weights", "temperature", "self_pair", "strategy", "oracle")
        more: dict[str, Any] = {name: made[name] for name in names}
        if made["shortlist"]:
            more |= {
                "shortlist": next(signatures),
                "top_k": int(made["shortlist"].rpartition("top ")[2]),
            }
        return MBRDecoder(next(signatures), nbest=None, keep_matrix=True, **more)
    except (KeyError, TypeError, StopIteration, AttributeError) as error:
        raise _unreadable(run, error) from None


def _unreadable(run: ChosenRun, error: Exception) -> InputError:
    where = f"{run.path}.run.json"
    return InputError(
        f"cannot be read ({error!r:.80})", where=where, fix="Run decode or rerank again"
    )


def _feature(name: str, metrics: Iterator[Any]) -> Any:
    """A feature by its name in the run file; metrics stand there by the digests of their models, in order."""
    return name if name in PLAIN or name.startswith("field:") else next(metrics)


def _reading(run: ChosenRun, values: Mapping[str, Any]) -> dict[str, Any]:
    """How the run read its input."""
    made = run.settings
    found = {
        "input_format": made.get("input_format", "jsonl"),
        "num_candidates": made.get("num_candidates"),
    }
    try:
        found |= {name: tuple(made.get(name, ())) for name in ("human", "as_systems", "include")}
    except TypeError as error:
        raise _unreadable(run, error) from None
    place = values["input"] or run.head.name
    if place in ("-", "stdin"):
        raise InputError(
            "the run read its lists from stdin",
            where=run.path,
            fix="Give them in a file: --input FILE",
        )
    if not os.path.exists(place):
        fix = "Give the file that the run read, where it is now: --input FILE"
        raise InputError("is not there", where=place, fix=fix)
    return {**values, **found, "input": place}


def _same(run: ChosenRun, lists: Lists, limit: int) -> Iterator[CandidateList]:
    """The first records of the input that the run decided; raises InputError if the input has changed since."""
    digest, n = blake2b(digest_size=16), run.head.input.entries
    shown, count = 0, 0
    for entry in islice(lists, n):
        digest.update(entry.raw + b"\n")
        count += 1
        record = entry.record
        if record is not None and shown < limit and (record.id in run.rows or record.context_only):
            shown += not record.context_only
            yield record
    if count != n or digest.hexdigest() != run.head.input.digest:
        found = f"is not the input that {run.path} was made from"
        raise InputError(
            found,
            where=lists.name,
            fix="Give that one with --input, and what else the run was given",
        )
