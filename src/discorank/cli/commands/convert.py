"""``discorank convert INPUT --from FORMAT [--output-format FORM] -o OUT``: candidate lists into other formats.

``discorank convert --hypotheses FILE ... --references FILE --to systems -o OUT`` makes a systems file of texts by line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, BinaryIO

from ...integrations.files.entries import ListEntry
from ...integrations.formats.written_lists import ListWriter
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, settings
from ...rerank.prior import STRENGTH, Prior, check_strength, load_prior
from ...rerank.runs.rows import error_row
from ...rerank.runs.written_outcomes import stopped
from ..options import Options
from ..options.inputs import InputOptions, open_input
from ..options.output_files import OutputFileOptions
from ..options.output_formats import OutputFormatOptions, list_writer_in
from ..row_files import complete_rows
from ..running import OutputOptions, check_not_input
from ..terminal.console import Progress, say
from .convert_documents import run_documents


@settings
class ConvertOptions:
    """How much may be wrong, and what is added.

    Args:
        max_errors: how many error records are reported on stderr and left out before the conversion stops.
        prior: the file of a prior over systems: every candidate gets its weight as prior_weight, for --weights
            field:prior_weight.
        prior_strength: how much the prior counts.
        to: documents with outputs of systems instead of candidate lists: {formats:documents}.
    """

    max_errors: Annotated[int, Field(ge=0)] = 0
    prior: str | None = None
    prior_strength: Annotated[float, Field(ge=0, allow_inf_nan=False)] = STRENGTH
    to: str | None = None


OPTIONS = Options(
    "convert",
    "Write candidate lists of any format as JSONL, as --output-format, or as a Parquet or Arrow file; or documents in "
    "another form. Outputs appear when complete.",
    [OutputFileOptions, InputOptions, OutputOptions, ConvertOptions, OutputFormatOptions],
    positional={"input": "?"},
    short={"output": "o", "num_candidates": "n"},
)


def run(arguments: Sequence[str]) -> int:
    """Converts; returns the exit code."""
    values = OPTIONS.parse(arguments)
    names = ("input", "sources", "documents", "requests", "prior")
    inputs = [*(values[name] for name in names), *values["hypotheses"], *values["references"]]
    check_not_input(values["output"], inputs)
    _check_hypotheses(values)
    if values["to"]:
        return run_documents(values)
    prior = load_prior(values["prior"])
    check_strength(prior, values["prior_strength"])
    writer = list_writer_in(values)
    num_done = num_errors = 0
    with (
        open_input(values) as lists,
        Progress("lists", lists.fraction, values["quiet"]) as progress,
        _output(values) as file,
    ):
        for entry in lists:
            row = _row(entry, prior, values["prior_strength"], writer)
            if isinstance(row, InputError):
                num_errors += 1
                sys.stderr.write(error_row(row, lists.name, entry.line, entry.id).decode())
                if num_errors > values["max_errors"]:
                    raise stopped(row, entry, lists.name)
            else:
                file.write(row)
                num_done += 1
                progress(num_done)
    counts = f"{num_done} lists written, {num_errors} error records left out"
    if writer.left_out:
        lost = ", ".join(f"{name} of {n}" for name, n in sorted(writer.left_out.items()))
        counts += f"; left out: {lost}"
    say(f"{lists.name}: {counts}", values["quiet"])
    return 3 if num_errors else 0


def _check_hypotheses(values: Mapping[str, Any]) -> None:
    """Raises InputError for files of outputs that are to be candidate lists, or references without outputs."""
    if values["hypotheses"] and not values["to"]:
        raise InputError(
            "becomes documents, not candidate lists", where="--hypotheses", fix="Add --to systems"
        )
    if values["references"] and not values["hypotheses"]:
        raise InputError(
            "stands beside --hypotheses alone", where="--references", fix="Add --hypotheses"
        )


def _row(
    entry: ListEntry, prior: Prior | None, strength: float, writer: ListWriter
) -> bytes | InputError:
    """The line of a list, or why it has none."""
    if entry.record is None:
        return entry.error or InputError("nothing was read")
    try:
        record = entry.record if prior is None else prior.written(entry.record, strength)
        return writer.written(record)
    except InputError as error:
        return error


@contextmanager
def _output(values: Mapping[str, Any]) -> Iterator[BinaryIO]:
    """Stdout, or a file that takes its name only when it is complete."""
    if values["output"] in (None, "-"):
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    with complete_rows(values["output"]) as file:
        yield file
