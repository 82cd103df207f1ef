"""``discorank convert INPUT --from FORMAT [--output-format FORMAT] -o OUT``: candidate lists into other formats.

``discorank convert INPUT --to FORMAT``: documents with outputs of systems, as a systems file or a folder of
mt-metrics-eval.

``discorank convert --hypotheses FILE ... --references FILE --to systems -o OUT`` makes a systems file of texts by line.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from ...integrations.files.entries import ListEntry
from ...integrations.formats.format_table import (
    DocumentRows,
    documents_of,
    format_of,
    is_eval_set_folder,
)
from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.open_lists import recognised_documents
from ...integrations.formats.wmt.eval_set_folder import write_eval_set
from ...integrations.formats.wmt.eval_set_rows import eval_set_of_rows
from ...integrations.formats.written_lists import ListWriter
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, settings
from ...rerank.runs.resumable import as_line, error_row, stopped
from ..options import command, needed
from ..options.inputs import InputOptions
from ..options.output_formats import OutputFormatOptions, OutputOptions
from ..options.system_outputs import OutputFileOptions, aligned_outputs, checked_lines, checked_rows
from ..running import check_not_input, output_file
from ..terminal.console import Progress, say

Row = dict[str, Any]


@settings
class ConvertOptions:
    """How much may be wrong, and whether documents are written.

    Args:
        max_errors: how many error records are reported on stderr and left out before the conversion stops.
        to: documents with outputs of systems instead of candidate lists: as a systems file, or as a folder of
            mt-metrics-eval. The file shows which of these it is itself, where --from does not say.
    """

    max_errors: Annotated[int, Field(ge=0)] = 0
    to: Literal["systems", "mtme"] | None = None


@command(
    "Write candidate lists of any format as JSONL, as --output-format, or as a Parquet or Arrow file; or documents in "
    "another form. Outputs appear when complete.",
    positional={"input": "?"},
    short={"output": "o", "num_candidates": "n"},
    first=["input", "input_format", "output", "output_format", "to", "hypotheses"],
    examples=[
        "convert examples:nbest.moses --from moses -o lists.jsonl",
        "convert examples:demo.jsonl --output-format moses --lossy -o lists.moses",
        "convert --hypotheses examples:beam.txt examples:mbr.txt --to systems -o systems.jsonl",
    ],
)
def convert(
    files: OutputFileOptions,
    input: InputOptions,
    to: OutputOptions,
    options: ConvertOptions,
    list_format: OutputFormatOptions,
) -> int:
    """Converts; returns the exit code."""
    inputs = [*input.paths, *files.hypotheses, *files.references]
    check_not_input(to.output, inputs)
    if options.to:
        _Documents(files, input).write(to.output, options.to)
        return 0
    if files.hypotheses:
        problem = "becomes documents, not candidate lists"
        raise InputError(problem, where="hypotheses", fix="Add --to systems")
    if files.references:
        fix = "Add --hypotheses, or --to to convert documents"
        raise InputError("requires --hypotheses or --to", where="references", fix=fix)
    # what stands in files of its own is not lost
    elsewhere = ["source"] if input.sources else []
    elsewhere += ["document", "position"] if input.documents else []
    writer = ListWriter(list_format.output_format, list_format.lossy, elsewhere)
    num_done = num_errors = 0
    with (
        input.opened() as lists,
        Progress("lists", lists.fraction) as progress,
        output_file(to.output) as file,
    ):
        for entry in lists:
            row = _row(entry, writer)
            if isinstance(row, InputError):
                num_errors += 1
                sys.stderr.write(error_row(row, lists.name, entry.line, entry.id).decode())
                if num_errors > options.max_errors:
                    raise stopped(row, entry, lists.name)
            else:
                file.write(row)
                num_done += 1
                progress(num_done)
    counts = f"{num_done} lists written, {num_errors} error records left out"
    if writer.left_out:
        lost = ", ".join(f"{name} of {n}" for name, n in sorted(writer.left_out.items()))
        counts += f"; left out: {lost}"
    say(f"{lists.name}: {counts}")
    return 3 if num_errors else 0


def _row(entry: ListEntry, writer: ListWriter) -> bytes | InputError:
    """The line of a list, or why it has none."""
    if entry.record is None:
        return entry.error or InputError("nothing was read")
    try:
        return writer.written(entry.record)
    except InputError as error:
        return error


class _Documents:
    """Documents of files of outputs, or of an input, and the form that they are converted into."""

    def __init__(self, files: OutputFileOptions, input: InputOptions) -> None:
        self.input = input
        self.outputs = files.named(input.input, input.human)
        self.references = files.references
        if self.outputs is not None:
            self.path, self.format = self.outputs.name, "systems"
            return
        self.path = needed(input.input, "input", "INPUT")
        self.format = input.input_format
        if self.format == "jsonl":  # lists by default; --to is of documents
            self.format = recognised_documents(self.path)
        documents_of(self.format, "--from")

    def write(self, output: str | None, form: Literal["systems", "mtme"]) -> None:
        """Writes them."""
        if form == "mtme":
            self._write_folder(needed(output, "output"))
            return
        count = Counter[str]()
        with output_file(output, rows=False) as file:
            for row in self._rows(self.input.language_pair):
                file.write(as_line(row))
                count["documents"] += 1
        lost = (
            "; left out: scores of whole systems, and metrics of documents or without some output"
        )
        lost = lost if is_eval_set_folder(self.path) else ""
        say(f"{self.path}: {count['documents']} documents written as systems{lost}")

    def _rows(self, pair: str | None) -> Iterator[Row]:
        """The documents, checked: of files of outputs, or of the input."""
        keys, as_systems = list(map(HumanKey.read, self.input.human)), self.input.as_systems
        if self.outputs is None:
            return checked_rows(self.path, self.format, pair, keys, as_systems, self.references)
        rows = aligned_outputs(self.outputs).rows
        return checked_lines(DocumentRows(self.path, iter(rows)), keys, as_systems)

    def _write_folder(self, output: str) -> None:
        """Into a folder of mt-metrics-eval."""
        if is_eval_set_folder(self.path):
            fix = "Copy it: documents of it lack scores of metrics, and of people for whole systems"
            raise InputError("is a folder of mt-metrics-eval already", where=self.path, fix=fix)
        pair = needed(self.input.language_pair, "language_pair")
        has_pairs = "language_pair" in format_of(self.format).options
        rows = self._rows(pair if has_pairs and self.outputs is None else None)
        keys = map(HumanKey.read, self.input.human)
        lower = [key.name for key in keys if key.lower]
        eval_set = eval_set_of_rows(self._without_lost(rows), Path(output).name, pair, lower)
        write_eval_set(eval_set, output)
        num_systems, num_segments = len(eval_set.outputs), len(eval_set.sources)
        say(f"{output}: {pair}, {num_systems} outputs of {num_segments} segments")

    def _without_lost(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows; says at the end what the folder has no place for."""
        lost = Counter[str]()
        for row in rows:
            lost.update(key for key in ("metrics", "ratings") if row.get(key))
            yield row
        for key, number in lost.items():
            say(f"{self.path}: mtme has no place for {key}, left out of {number} documents")
