"""``discorank convert INPUT --from FORMAT [--output-format FORMAT] -o OUT``: candidate lists into other formats.

``discorank convert INPUT --to FORMAT``: documents with outputs of systems from any format into any other.

``discorank convert --hypotheses FILE ... --references FILE --to systems -o OUT`` makes a systems file of texts by line.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from ...integrations.files.entries import ListEntry
from ...integrations.formats.format_table import (
    DocumentRows,
    documents_of,
    format_of,
    is_eval_set_folder,
)
from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.open_lists import recognised_documents
from ...integrations.formats.wmt.eval_set_folder import (
    EvalSetOptions,
    num_metric_files,
    read_eval_set,
    read_ratings,
    the_language_pair,
    write_eval_set,
)
from ...integrations.formats.wmt.eval_set_rows import eval_set_of_rows
from ...integrations.formats.written_lists import ListWriter
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, settings
from ...rerank.runs.resumable import error_row, stopped
from ..options import command, needed
from ..options.inputs import InputOptions
from ..options.output_formats import OutputFormatOptions, OutputOptions
from ..options.system_outputs import OutputFileOptions, aligned_outputs, checked_lines, checked_rows
from ..running import check_not_input, check_plain, output_file
from ..terminal.console import Progress, say

Row = dict[str, Any]
_EVAL_SET_HOLDS = frozenset({"human", "not_supplied"})  # of rows


@settings
class ConvertOptions:
    """How much may be wrong, and whether documents are written.

    Args:
        max_errors: how many error records are reported on stderr and left out before the conversion stops.
        to: documents with outputs of systems instead of candidate lists: {formats:documents}. The file shows which of
            these it is itself, where --from does not say.
    """

    max_errors: Annotated[int, Field(ge=0)] = 0
    to: str | None = None


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
        _Documents(files, input, options.to).write(to.output)
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

    def __init__(self, files: OutputFileOptions, input: InputOptions, form: str) -> None:
        self.target = documents_of(form, "--to")
        self.form, self.input = form, input
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

    def write(self, output: str | None) -> None:
        """Writes them."""
        if self.form == "mtme":
            self._write_folder(needed(output, "output"))
            return
        count = Counter[str]()
        rows = self._noted(self._rows(self.input.language_pair), self.target.holds, count)
        if self.target.files is not None:
            _write_files(self.target.files(rows), needed(output, "output"))
        elif self.target.lines is not None:
            _write_lines(output, self.target.lines(rows))
            say(f"{self.path}: {count['documents']} documents written as {self.form}")

    def _rows(self, pair: str | None) -> Iterator[Row]:
        """The documents, checked: of files of outputs, or of the input."""
        keys, as_systems = list(map(HumanKey.read, self.input.human)), self.input.as_systems
        if self.outputs is None:
            return checked_rows(self.path, self.format, pair, keys, as_systems, self.references)
        rows = aligned_outputs(self.outputs).rows
        return checked_lines(DocumentRows(self.path, iter(rows)), keys, as_systems)

    def _noted(
        self, rows: Iterator[Row], holds: Collection[str], count: Counter[str]
    ) -> Iterator[Row]:
        """The rows, counted as documents; says at the end what the format has no place for."""
        lost = Counter[str]()
        for row in rows:
            for key in ("human", "metrics", "not_supplied", "ratings"):
                if row.get(key) and key not in holds and not (key == "human" and _is_derived(row)):
                    lost[key] += 1
            count["documents"] += 1
            yield row
        for key, number in lost.items():
            say(f"{self.path}: {self.form} has no place for {key}, left out of {number} documents")

    def _write_folder(self, output: str) -> None:
        """Into a folder of mt-metrics-eval; of such a folder, with all scores and ratings."""
        path, pair = self.path, self.input.language_pair
        if is_eval_set_folder(path) and self.format in ("mtme", "systems"):
            pair = the_language_pair(path, pair)
            eval_set = read_eval_set(path, pair, EvalSetOptions(missing="leave-out"))
            num_left_out = num_metric_files(path, pair) - len(eval_set.metric_scores)
            if num_left_out:
                what = f"{num_left_out} files of metric scores lack outputs, and are left out"
                say(f"{path}: {what}")
            write_eval_set(eval_set, output, read_ratings(path, eval_set))
        else:
            pair = needed(pair, "language_pair")
            has_pairs = "language_pair" in format_of(self.format).options
            rows = self._rows(pair if has_pairs and self.outputs is None else None)
            rows = self._noted(rows, _EVAL_SET_HOLDS, Counter())
            keys = map(HumanKey.read, self.input.human)
            lower = [key.name for key in keys if key.lower]
            eval_set = eval_set_of_rows(rows, Path(output).name, pair, lower)
            write_eval_set(eval_set, output)
        num_systems, num_segments = len(eval_set.outputs), len(eval_set.sources)
        say(f"{output}: {pair}, {num_systems} outputs of {num_segments} segments")


def _is_derived(row: Row) -> bool:
    """Whether people's scores are means of the row's ratings, or none."""
    names = [
        name for name, scores in row["human"].items() if any(s is not None for s in scores.values())
    ]
    return set(names) <= set(row.get("ratings") or ())


def _write_lines(output: str | None, lines: Iterable[bytes]) -> None:
    with output_file(output, rows=False) as file:
        file.writelines(lines)


def _write_files(texts: Mapping[str, Iterable[str]], output: str) -> None:
    """Into files ``OUTPUT.FIELD``, with or without ``.src`` in the name given."""
    prefix = output.removesuffix(".src")
    check_plain(prefix, "--output")
    for field, lines in texts.items():
        _write_lines(f"{prefix}.{field}", (f"{line}\n".encode() for line in lines))
    say(f"{prefix}.src and fields beside it")
