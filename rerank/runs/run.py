"""A run: candidate lists in, one row per list out, resumable by the same command.

Rows in = rows out + error rows + context-only rows. It ties decider, engine, resumable outputs and the form of rows
together; of input formats it knows nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution, version
from itertools import islice
from pathlib import Path
from platform import python_version
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import Field

from ...metrics.base import Metric
from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.meter import Meter
from ...metrics.spec.arrow_package import is_table, lines_of_run, require_arrow
from ...metrics.spec.checked_settings import settings
from ...metrics.spec.signature import portable
from ..decider import Decider
from ..engines.interface import Engine
from ..lists import NOTHING, CandidateList
from ..scheduler import Decided, Outcome
from ..whole_documents import WholeDocuments
from .entry import Entry
from .resumable import Checkpoint
from .row_forms import JsonRows, RowForm, row_form
from .rows import error_row
from .run_file import Measured
from .saved_matrices import header, matrix_row
from .stream import Stream
from .table_files import write_table
from .whole_documents import written_whole

PACKAGES = ("discorank", "numpy", "sacrebleu", "tokenizers", "torch", "transformers")


T = TypeVar("T")
# what is added to every output, and to the counts
Written = tuple[dict[str, bytes], dict[str, int]]


class StoppedByErrorsError(DiscorankError):
    """More error records than allowed; the run can be resumed after mending the input."""

    exit_code = 3


@settings
class RunSettings:
    """How a run writes.

    Args:
        format: JSON rows or the chosen texts alone.
        max_errors: how many error records a run may write before it stops.
        save_utilities: where utility matrices are written, if anywhere.
    """

    format: Literal["jsonl", "text"] = "jsonl"
    max_errors: Annotated[int, Field(ge=0)] = 0
    save_utilities: str | None = None


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

    Raises:
        ResumeError: the run standing at `out` has other settings or another input.
        StoppedByErrorsError: more than `max_errors` error records.
        InputError: the input is refused whole.
    """
    engine.load(decider.metrics)
    form = form or row_form(run.format)
    checkpoint = _outputs(decider, name, out, run, form, reading)
    meter = meter or Meter()
    source = _metered(entries, meter)
    try:
        if checkpoint.state.counts.get("rows"):
            form.resume(_lines(checkpoint), checkpoint.state.counts)
        replayed = _skipped(decider, source, name, checkpoint, form)
        outcomes = decider.outcomes(_records(replayed, source), engine, form.accept)
        if decider.search is not None:
            outcomes = written_whole(outcomes, lambda: run.max_errors - _num_errors(checkpoint))
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


def _num_errors(checkpoint: Checkpoint | Stream) -> int:
    """How many error records are written."""
    return checkpoint.state.counts.get("errors", 0)


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
    if run.save_utilities and decider.identity.get("normalize_parts"):
        raise InputError(
            "the parts of the sum are normalised within each list, and a file of utilities holds their plain sum",
            where="save_utilities",
            fix="Leave out one of them",
        )
    if out is not None and is_table(out) and not isinstance(form, JsonRows):
        problem = "texts alone have no columns"
        fix = "Leave --format and --output-format out, or name a text file"
        raise InputError(problem, where="format", fix=fix)
    more = {"utilities": Path(run.save_utilities)} if run.save_utilities else {}
    about: dict[str, Any] = {"name": name, "signature": _signature(decider), "seeds": {}}
    products = sorted({part.products for part in _parts(decider) if part.products})
    if products:
        about["products"] = ", ".join(products)
    return outputs(out, {**_identity(decider, run, form), **reading}, about, more)


def outputs(
    out: Path | None,
    identity: Mapping[str, Any],
    about: Mapping[str, Any],
    more: Mapping[str, Path] = NOTHING,
) -> Checkpoint | Stream:
    """The outputs of a run: rows at `out`, error records beside it and `more`; or stdout and stderr without `out`.

    Where `out` is a Parquet or Arrow file, the rows are lines beside it, of which it is made when the run is complete.

    Raises:
        InputError, ResumeError: as `Checkpoint`.
        ModelLoadError: it needs pyarrow, which is not installed.
    """
    if out is None:
        return Stream()
    of_table = is_table(out)
    if of_table:
        require_arrow(str(out))
    sinks = {"rows": lines_of_run(out), "errors": Path(f"{out}.errors.jsonl"), **more}
    write = write_table if of_table else None
    return Checkpoint(out, sinks, identity, {**about, "versions": _versions()}, write)


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


@contextmanager
def completing(
    checkpoint: Checkpoint | Stream, measured: Callable[[], Measured] = Measured
) -> Iterator[None]:
    """Opens the outputs; what was written is kept whatever happens, and complete at the end of the block."""
    checkpoint.begin(measured)
    try:
        yield
    except BaseException:
        checkpoint.save()
        raise
    checkpoint.save(complete=True)


def write_outcomes(
    outcomes: Iterable[tuple[Entry[Any], T]],
    written: Callable[[T], Written],
    name: str,
    checkpoint: Checkpoint | Stream,
    max_errors: int,
    on_progress: Callable[[int, int], None],
    meter: Meter | None = None,
) -> None:
    """Writes what every entry yields, in input order.

    Args:
        outcomes: entries, each with what came of it.
        written: what an outcome adds to the outputs and to the counts; raises the error that it ended in.
        name: the input's name, for error records.
        checkpoint: the outputs.
        max_errors: how many error records a run may write.
        on_progress: called with the number of entries done and of error records.
        meter: counts the seconds of writing.

    Raises:
        StoppedByErrorsError: one error record more.
    """
    meter = meter or Meter()
    for entry, outcome in outcomes:
        with meter.stage("write"):
            try:
                writes, counts = written(outcome)
            except DiscorankError as error:
                error = _placed(error, entry, name)
                row = error_row(error, name, entry.line, entry.id)
                if _num_errors(checkpoint) >= max_errors:
                    checkpoint.leave("errors", row)
                    raise stopped(error, entry, name) from error
                writes, counts = {"errors": row}, {"errors": 1}
            checkpoint.commit(entry.raw, writes, counts)
        on_progress(checkpoint.state.entries, _num_errors(checkpoint))


def stopped(error: DiscorankError, entry: Entry[Any], name: str) -> StoppedByErrorsError:
    """What ends a run at one error record more than it may have."""
    placed = _placed(error, entry, name)
    # one advice: that of the error, if it has any
    fix = placed.fix or "Mend it and run again"
    reason = type(placed)(placed.problem, where=placed.where)
    return StoppedByErrorsError(
        f"stopped at an error record: {reason}",
        where=f"{name}:{entry.line}",
        fix=f"{fix}, or allow more with --max-errors",
    )


def _placed(error: DiscorankError, entry: Entry[Any], name: str) -> DiscorankError:
    """The error without the file and line that its record says beside it."""
    prefix = f"{name}:{entry.line}"
    where = error.where.removeprefix(prefix).removeprefix(": ")
    return type(error)(error.problem, where=where, fix=error.fix)


def _writes(
    outcome: Outcome,
    run: RunSettings,
    checkpoint: Checkpoint | Stream,
    decider: Decider,
    form: RowForm,
) -> Written:
    """What an entry adds to every output and to the counts; raises the error that it ended in."""
    if isinstance(outcome, DiscorankError):
        raise outcome
    if outcome is None:
        return {}, {"context_only": 1}
    writes = {"rows": form.row(outcome)}
    if run.save_utilities:
        signature = decider.identity["utility"]
        has_header = checkpoint.state.sizes.get("utilities", 0) > 0
        first = b"" if has_header else header(signature)
        writes["utilities"] = first + matrix_row(outcome, signature)
    distinct = len({candidate.text for candidate in outcome.candidates})
    counts = {
        "rows": 1,
        "candidates": len(outcome.candidates),
        "duplicates": len(outcome.candidates) - distinct,
    }
    if not form.one_line:
        counts["row_lines"] = writes["rows"].count(b"\n")
    return writes, counts | dict.fromkeys(outcome.flags, 1)


def _records(
    replayed: Iterable[Any], entries: Iterator[Entry[CandidateList]]
) -> Iterator[tuple[Any, Any]]:
    for record in replayed:
        yield None, record
    for entry in entries:
        yield entry, entry.record if entry.record is not None else entry.error


def _skipped(
    decider: Decider,
    entries: Iterator[Entry[CandidateList]],
    name: str,
    checkpoint: Checkpoint | Stream,
    form: RowForm,
) -> list[Decided]:
    """Reads over what an earlier run has done; returns its last document where that is context, or decided whole."""
    is_read_again = decider.width > 0 or isinstance(decider, WholeDocuments)
    chain = checkpoint.resumed and is_read_again
    lines = _lines(checkpoint) if chain else iter(())
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


def _lines(checkpoint: Checkpoint | Stream) -> Iterator[str]:
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


def _identity(decider: Decider, run: RunSettings, form: RowForm) -> dict[str, Any]:
    versions = {part.signature(): part.info.version for part in _parts(decider)}
    saved = {"save_utilities": True} if run.save_utilities else {}
    settings = {**decider.identity, "score_versions": versions, **form.identity, **saved}
    return cast("dict[str, Any]", _portable(settings))


def _parts(decider: Decider) -> list[Metric]:
    """The metrics that sums are made of."""
    return [part for metric in decider.metrics for _, part in metric.parts]


def _portable(value: Any) -> Any:
    """The value with files named by their digests alone: a model may be moved."""
    if isinstance(value, dict):
        return {_portable(key): _portable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(inner) for inner in value]
    return portable(value) if isinstance(value, str) else value


def _signature(decider: Decider) -> str | list[str]:
    """The signature of every metric, or the only one."""
    signatures = [metric.signature() for metric in decider.metrics]
    return signatures[0] if len(signatures) == 1 else signatures


def _versions() -> dict[str, str]:
    """Of Python and of those packages that are installed."""
    versions = {package: _version_of(package) for package in PACKAGES}
    return {"python": python_version(), **{name: one for name, one in versions.items() if one}}


def _version_of(package: str) -> str:
    """As `importlib.metadata.version`, without parsing the package's description; empty where it is not installed."""
    try:
        headers = distribution(package).read_text("METADATA") or ""
    except PackageNotFoundError:
        return ""
    header = re.search(r"^Version: (\S+)", headers, re.MULTILINE)
    return header[1] if header else version(package)
