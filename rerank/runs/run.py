"""A run: candidate lists in, one row per list out, resumable by the same command.

Rows in = rows out + error rows + context-only rows. It ties decider, engine, resumable outputs and the form of rows
together; of input formats it knows nothing. A run resumes only where all settings that its rows depend on are the
same; it reads over what is done, whose choices are context of what follows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from ...metrics.base import Metric
from ...metrics.errors import InputError
from ...metrics.execution.meter import Meter
from ...metrics.spec.checked_settings import Field, Rare, settings
from ...metrics.spec.signature import portable
from ..capabilities import ALL_PAIRS, MATRIX, SINGLE_LISTS, Needs
from ..choice import FORMS, JsonRows, Ranking, RowForm, written_row
from ..decider import Decider
from ..engines.interface import Engine
from ..lists import NOTHING, CandidateList
from ..scheduler import Decided, Outcome
from .resumable import Addition, Checkpoint, Entry, RowLoop, Stream, as_line, outputs
from .run_file import Measured, is_table


@settings
class RunSettings:
    """How a run writes.

    Args:
        format: JSON rows, the chosen texts alone, or their answers alone, where the utility compares answers.
        max_errors: how many error records a run may write before it stops.
        save_utilities: where utility matrices are written, if anywhere.
    """

    heading: ClassVar = "output"

    format: Literal["jsonl", "text", "answers"] = "jsonl"
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
    on_row: Callable[[bytes], object] = lambda row: None,
    files: Mapping[str, str] = NOTHING,
) -> Mapping[str, int]:
    """Decides all lists into `out`, resuming where an earlier run of the same settings stopped; returns the counts.

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
        on_row: called with the lines that are written of each list.
        files: further files that were read, by the names of their options, for the record.

    Raises:
        ResumeError: the run standing at `out` has other settings or another input.
        StoppedByErrorsError: more than `max_errors` error records.
        InputError: the input is refused whole.
    """
    form = form or FORMS[run.format]()
    meter = meter or Meter()
    is_file = os.path.isfile(name)
    if not is_file:  # while a pipe has nothing yet
        engine.load(decider.metrics)
    about: dict[str, Any] = {"name": name, "signature": signature_of(decider), "seeds": {}}
    if files:
        about["files"] = dict(files)
    checkpoint = _outputs(decider, about, out, run, form, reading)
    with closing(checkpoint):
        replay = _Replay(decider, checkpoint, form)
        loop = RowLoop(checkpoint, name, run.max_errors, on_progress, meter, on_row, is_file)

        written: Callable[[Outcome], Addition] = partial(written_row, form=form)
        if run.save_utilities:
            written = partial(_with_matrix, decider=decider, form=form, checkpoint=checkpoint)

        def outcomes(source: Iterator[Entry[CandidateList]]) -> Generator[tuple[Any, Any]]:
            yield from decider.outcomes(_records(replay.document, source), engine, form.accept)

        return loop.run(
            entries,
            replay.take,
            outcomes,
            written,
            lambda: _measured(engine, meter),
        )


def _outputs(
    decider: Decider,
    about: dict[str, Any],
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
    # asking for them imports what runs models, and only a run file holds them
    parts = [] if out is None else parts_of(decider)
    products = sorted({part.products for part in parts if part.products})
    if products:
        about["products"] = ", ".join(products)
    identity = identity_of(decider, form, bool(run.save_utilities))
    return outputs(out, {**identity, **reading}, about, more)


def _measured(engine: Engine, meter: Meter) -> Measured:
    status = engine.status()
    return Measured(status.work + meter.now, status.workers)


def _with_matrix(
    outcome: Outcome, decider: Decider, form: RowForm, checkpoint: Checkpoint | Stream
) -> Addition:
    """What an outcome adds to the outputs, of which one has utility matrices; errors as `written_row`."""
    from .saved_matrices import header, matrix_row

    rows, counts = written_row(outcome, form)
    if isinstance(outcome, Ranking):
        signature = decider.identity["utility"]
        has_header = "utilities" in checkpoint.state.outputs
        first = b"" if has_header else header(signature)
        rows["utilities"] = first + matrix_row(outcome, signature)
    return rows, counts


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
    return [part for metric in decider.scored_by for _, part in metric.parts]


def _portable(value: Any) -> Any:
    """The value with files named by their digests alone: a model may be moved."""
    if isinstance(value, dict):
        return {_portable(key): _portable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(inner) for inner in value]
    return portable(value) if isinstance(value, str) else value


def signature_of(decider: Decider) -> str | list[str]:
    """The signature of every metric, or the only one."""
    signatures = [metric.signature() for metric in decider.scored_by]
    return signatures[0] if len(signatures) == 1 else signatures


class _Replay:
    """The lists that an earlier run has done.

    Attributes:
        document: its last document, where that is context of what follows, or decided whole.
    """

    def __init__(self, decider: Decider, checkpoint: Checkpoint | Stream, form: RowForm) -> None:
        if checkpoint.state.counts.get("rows"):
            form.resume(_written_lines(checkpoint), checkpoint.state.counts)
        is_read_again = decider.width > 0 or decider.decides_documents
        self.is_needed = checkpoint.resumed and is_read_again
        self.form = form
        self.lines = _written_lines(checkpoint) if self.is_needed else iter(())
        self.failed = _failed_lines(checkpoint) if self.is_needed else set()
        self.document: list[Decided] = []
        self.name: str | None = None

    def take(self, entry: Entry[CandidateList]) -> None:
        """Takes the next entry that is done."""
        if not self.is_needed:
            return
        record = entry.record
        ends_in_error = bool(self.document) and self.document[-1].record is None
        if record is None:
            if not ends_in_error:
                self.document.append(Decided(None))
            return
        if record.document != self.name or record.document is None:
            self.document, self.name = self.document[-1:] if ends_in_error else [], record.document
        lost = (entry.line, entry.id) in self.failed
        is_first = lost or record.context_only
        text = record.candidates[0].text if is_first else self.form.chosen(self.lines, record)
        self.document.append(Decided(record, text, lost))


def _written_lines(checkpoint: Checkpoint | Stream) -> Iterator[str]:
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


def json_row(ranking: Ranking) -> bytes:
    """One strict-JSON line: id, choice, places, what the list's reader should know, and the list's other keys."""
    return as_line(ranking.to_dict())
