"""A run: candidate lists in, one row per list out, resumable by the same command.

Rows in = rows out + error rows + context-only rows. It ties decider, engine, resumable outputs and the form of rows
together; of input formats it knows nothing.

The settings that the rows of a run depend on: a run resumes only where all of them are the same.

Reads over what an earlier run has done of an input; its choices, where they are context of what follows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from ...metrics.base import Metric
from ...metrics.errors import InputError
from ...metrics.execution.meter import Meter
from ...metrics.spec.checked_settings import Field, Rare, settings
from ...metrics.spec.signature import portable
from ..capabilities import ALL_PAIRS, MATRIX, SINGLE_LISTS, Needs
from ..choice import Ranking
from ..decider import Decider
from ..engines.interface import Engine
from ..engines.local import LocalEngine
from ..lists import NOTHING, CandidateList
from ..scheduler import Decided, Outcome
from .resumable import Checkpoint, Stream, completing, outputs
from .row_forms import JsonRows, RowForm, row_form
from .row_loop import Entry, Written, write_outcomes, written_row
from .run_file import Measured, is_table
from .shared_lines import Lines


@settings
class RunSettings:
    """How a run writes.

    Args:
        format: JSON rows or the chosen texts alone.
        max_errors: how many error records a run may write before it stops.
        save_utilities: where utility matrices are written, if anywhere.
    """

    heading: ClassVar = "output"

    format: Literal["jsonl", "text"] = "jsonl"
    max_errors: Annotated[int, Field(ge=0)] = 0
    save_utilities: Annotated[str | None, Needs(MATRIX, ALL_PAIRS, SINGLE_LISTS), Rare()] = None


def run_lists(
    decider: Decider,
    entries: Iterable[Entry[CandidateList]],
    name: str,
    out: Path | None,
    engine: Engine,
    run: RunSettings,
    on_progress: Callable[[int, int], None] = lambda done, errors: None,
    reading: Mapping[str, Any] = NOTHING,
    meter: Meter | None = None,
    form: RowForm | None = None,
    lines: Lines | None = None,
) -> Mapping[str, int]:
    """Decides all lists into `out`, going on where an earlier run of the same settings stopped; returns the counts.

    Args:
        decider: an MBRDecoder or a Reranker.
        entries: what a reader yields, in order.
        name: the input's name for messages.
        out: where rows go; ``OUT.run.json`` and, if needed, ``OUT.errors.jsonl`` stand beside it. None: to stdout, with
            error records on stderr and nothing to resume.
        engine: what values the lists.
        run: how the run writes.
        on_progress: called with the number of entries done and of error records.
        reading: how the input is read, where that makes other lists of the same bytes.
        meter: counts the seconds of reading ("read") and writing ("write").
        form: how rows are written, where `run.format` does not say it.
        lines: the rest of the input as lines, where each is an entry; an engine with processes can share them.

    Raises:
        ResumeError: the run standing at `out` has other settings or another input.
        StoppedByErrorsError: more than `max_errors` error records.
        InputError: the input is refused whole.
    """
    form = form or row_form(run.format)
    meter = meter or Meter()
    shared = None
    if type(engine) is not LocalEngine and not run.save_utilities:
        from .shared_lines import line_sharing

        shared = line_sharing(decider, form, lines, name, engine, meter)
    if shared is not None:
        shared.load()
    else:
        engine.load(decider.metrics)
    checkpoint = _outputs(decider, name, out, run, form, reading)
    source = _metered(entries, meter)
    try:
        if checkpoint.state.counts.get("rows"):
            form.resume(written_lines(checkpoint), checkpoint.state.counts)
        replayed = replayed_choices(decider, source, name, checkpoint, form)
        outcomes: Any
        if shared is not None:
            outcomes = shared.outcomes(source)
        else:
            outcomes = decider.outcomes(_records(replayed, source), engine, form.accept)
        with completing(checkpoint, lambda: _measured(engine, meter)):
            write_outcomes(
                outcomes,
                lambda outcome: _writes(outcome, run, checkpoint, decider, form),
                name,
                checkpoint,
                run.max_errors,
                on_progress,
                meter,
            )
    finally:
        checkpoint.close()
    return checkpoint.state.counts


def _outputs(
    decider: Decider,
    name: str,
    out: Path | None,
    run: RunSettings,
    form: RowForm,
    reading: Mapping[str, Any],
) -> Checkpoint | Stream:
    if out is None and run.save_utilities:
        raise InputError(
            "nothing to resume on stdout",
            where="save_utilities",
            fix="Write the rows to a file too",
        )
    if run.save_utilities and decider.identity.get("budget"):
        raise InputError(
            "under a budget most utilities are not computed, and a file of utilities holds whole matrices",
            where="save_utilities",
            fix="Leave out one of them",
        )
    if out is not None and is_table(out) and not isinstance(form, JsonRows):
        problem = "texts alone have no columns"
        fix = "Leave --format and --output-format out, or name a text file"
        raise InputError(problem, where="format", fix=fix)
    if run.save_utilities and decider.identity.get("normalize_parts"):
        raise InputError(
            "the parts of the sum are normalised within each list, and a file of utilities holds their plain sum",
            where="save_utilities",
            fix="Leave out one of them",
        )
    more = {"utilities": Path(run.save_utilities)} if run.save_utilities else {}
    about: dict[str, Any] = {"name": name, "signature": signature_of(decider), "seeds": {}}
    products = sorted({part.products for part in parts_of(decider) if part.products})
    if products:
        about["products"] = ", ".join(products)
    identity = identity_of(decider, form, bool(run.save_utilities))
    return outputs(out, {**identity, **reading}, about, more)


def _metered(
    entries: Iterable[Entry[CandidateList]], meter: Meter
) -> Iterator[Entry[CandidateList]]:
    source = iter(entries)
    while True:
        with meter.stage("read"):
            entry = next(source, None)
        if entry is None:
            return
        yield entry


def _measured(engine: Engine, meter: Meter) -> Measured:
    status = engine.status()
    return Measured(status.work + meter.now, status.workers)


def _writes(
    outcome: Outcome | Written,
    run: RunSettings,
    checkpoint: Checkpoint | Stream,
    decider: Decider,
    form: RowForm,
) -> Written:
    """What an entry adds to every output and to the counts; raises the error that it ended in."""
    if isinstance(outcome, tuple):  # made where the list was decided
        return outcome
    writes, counts = written_row(outcome, form)
    if run.save_utilities and isinstance(outcome, Ranking):
        from .saved_matrices import header, matrix_row

        signature = decider.identity["utility"]
        has_header = "utilities" in checkpoint.state.outputs
        first = b"" if has_header else header(signature)
        writes["utilities"] = first + matrix_row(outcome, signature)
    return writes, counts


def _records(
    replayed: Iterable[Any], entries: Iterator[Entry[CandidateList]]
) -> Iterator[tuple[Any, Any]]:
    for record in replayed:
        yield None, record
    for entry in entries:
        yield entry, entry.record if entry.record is not None else entry.error


def identity_of(decider: Decider, form: RowForm, saves_utilities: bool) -> dict[str, Any]:
    """The settings of a decider and a form of rows."""
    versions = {part.signature(): part.info.version for part in parts_of(decider)}
    saved = {"save_utilities": True} if saves_utilities else {}
    settings = {**decider.identity, "score_versions": versions, **form.identity, **saved}
    return cast("dict[str, Any]", _portable(settings))


def parts_of(decider: Decider) -> list[Metric]:
    """The metrics that sums are made of."""
    return [part for metric in decider.metrics for _, part in metric.parts]


def _portable(value: Any) -> Any:
    """The value with files named by their digests alone: a model may be moved."""
    if isinstance(value, dict):
        return {_portable(key): _portable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(inner) for inner in value]
    return portable(value) if isinstance(value, str) else value


def signature_of(decider: Decider) -> str | list[str]:
    """The signature of every metric, or the only one."""
    signatures = [metric.signature() for metric in decider.metrics]
    return signatures[0] if len(signatures) == 1 else signatures


def replayed_choices(
    decider: Decider,
    entries: Iterator[Entry[CandidateList]],
    name: str,
    checkpoint: Checkpoint | Stream,
    form: RowForm,
) -> list[Decided]:
    """Reads over what an earlier run has done; returns its last document where that is context, or decided whole."""
    is_read_again = decider.width > 0 or decider.decides_documents
    chain = checkpoint.resumed and is_read_again
    lines = written_lines(checkpoint) if chain else iter(())
    failed = _failed_lines(checkpoint) if chain else set()
    document: list[Decided] = []
    name_of: str | None = None
    for entry in islice(entries, checkpoint.state.entries):
        checkpoint.skip(entry.raw)
        record = entry.record
        if not chain or record is None:
            document += [Decided(None)] * (chain and document[-1:] != [Decided(None)])
            continue
        if record.document != name_of or record.document is None:
            document, name_of = (
                document[-1:] if document and document[-1].record is None else [],
                record.document,
            )
        lost = (entry.line, entry.id) in failed
        is_first = lost or record.context_only
        text = record.candidates[0].text if is_first else form.chosen(lines, record)
        document.append(Decided(record, text, lost))
    checkpoint.check_input(name)
    return document


def written_lines(checkpoint: Checkpoint | Stream) -> Iterator[str]:
    """The lines that the earlier run wrote."""
    with open(checkpoint.sinks["rows"], encoding="utf-8", newline="\n") as lines:
        yield from lines


def _failed_lines(checkpoint: Checkpoint | Stream) -> set[tuple[int, str | None]]:
    """Line and id of the error records of the earlier run."""
    path = checkpoint.sinks["errors"]
    if not path.exists():
        return set()
    with open(path, encoding="utf-8") as lines:
        return {(row["line"], row["id"]) for row in map(json.loads, lines)}
