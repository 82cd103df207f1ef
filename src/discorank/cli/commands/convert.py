"""``discorank convert INPUT --from FORMAT [--output-format FORMAT] -o OUT``: candidate lists into other formats.

``discorank convert INPUT --to FORMAT``: documents with outputs of systems from any format into any other.

``discorank convert --hypotheses FILE ... --references FILE --to systems -o OUT`` makes a systems file of texts by line.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

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
from ...rerank.prior import STRENGTH, Prior, check_strength, load_prior
from ...rerank.runs.row_forms import error_row
from ...rerank.runs.row_loop import stopped
from ..options import EngineOptions, Options, ReadingOptions, needed
from ..options.inputs import InputOptions, open_input
from ..options.output_formats import OutputFormatOptions, list_writer_in
from ..options.system_outputs import (
    OutputFileOptions,
    aligned_outputs,
    checked_lines,
    checked_rows,
    output_files_in,
)
from ..running import OutputOptions, check_not_input, check_plain, complete_or_absent, complete_rows
from ..terminal.console import Progress, say


@settings
class ConvertOptions:
    """How much may be wrong, and what is added.

    Args:
        max_errors: how many error records are reported on stderr and left out before the conversion stops.
        prior: the file of a prior over systems: every candidate gets its weight as prior_weight, for --weights
            field:prior_weight.
        prior_strength: how much the prior counts.
        to: documents with outputs of systems instead of candidate lists: {formats:documents}. The file shows which of
            these it is itself, where --from does not say.
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
    first=["input", "input_format", "output", "output_format", "to", "hypotheses"],
    examples=[
        "convert examples:nbest.moses --from moses -o lists.jsonl",
        "convert examples:demo.jsonl --output-format moses --lossy -o lists.moses",
        "convert --hypotheses examples:beam.txt examples:mbr.txt --to systems -o systems.jsonl",
    ],
    idle=[ReadingOptions, EngineOptions],
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
    if values["references"] and not (values["hypotheses"] or values["to"]):
        fix = "Add --hypotheses, or --to to convert documents"
        raise InputError("requires --hypotheses or --to", where="--references", fix=fix)


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


Row = dict[str, Any]


def run_documents(values: Mapping[str, Any]) -> int:
    """Converts documents; returns the exit code."""
    files, name = output_files_in(values), values["to"]
    path = needed(values, "input", "INPUT") if files is None else files.name
    target = documents_of(name, "--to")
    if files is None:
        if values["input_format"] == "jsonl":  # lists by default; --to is of documents
            values = {**values, "input_format": recognised_documents(path)}
        documents_of(values["input_format"], "--from")
    if name == "mtme":
        _to_folder(path, values)
        return 0
    rows = _rows(path, values["language_pair"], values)
    count = Counter[str]()
    rows = _noted(rows, name, target.holds, path, count, values["quiet"])
    if target.files is not None:
        _to_files(target.files(rows), needed(values, "output", "--output"), values)
    elif target.lines is not None:
        _write(values["output"], target.lines(rows))
        say(f"{path}: {count['documents']} documents written as {name}", values["quiet"])
    return 0


def _rows(path: str, pair: str | None, values: Mapping[str, Any]) -> Iterator[Row]:
    """The documents, checked: of files of outputs, or of the input."""
    keys = [HumanKey.read(key) for key in values["human"]]
    files = output_files_in(values)
    if files is None:
        read = values["input_format"], pair, keys, values["as_systems"], values["references"]
        return checked_rows(path, *read)
    lines = DocumentRows(files.name, iter(aligned_outputs(files, values).rows))
    return checked_lines(lines, keys, values["as_systems"])


def _noted(
    rows: Iterator[Row],
    name: str,
    holds: Collection[str],
    path: str,
    count: Counter[str],
    quiet: bool,
) -> Iterator[Row]:
    """The rows, counted as documents; says at the end what the format has no place for."""
    lost: dict[str, int] = {}
    for row in rows:
        for key in ("human", "metrics", "not_supplied", "ratings"):
            if row.get(key) and key not in holds and not (key == "human" and _is_derived(row)):
                lost[key] = lost.get(key, 0) + 1
        count["documents"] += 1
        yield row
    for key, number in lost.items():
        say(f"{path}: {name} has no place for {key}, left out of {number} documents", quiet)


def _is_derived(row: Row) -> bool:
    """Whether people's scores are means of the row's ratings, or none."""
    names = [
        name for name, scores in row["human"].items() if any(s is not None for s in scores.values())
    ]
    return set(names) <= set(row.get("ratings") or ())


def _write(output: str | None, lines: Iterable[bytes]) -> None:
    """To stdout, or into a file that takes its name when it is complete."""
    if output in (None, "-"):
        sys.stdout.buffer.writelines(lines)
        sys.stdout.flush()
        return
    with complete_or_absent(str(output)) as file:
        file.writelines(lines)


_EVAL_SET_HOLDS = frozenset({"human", "not_supplied"})  # of rows


def _to_folder(path: str, values: Mapping[str, Any]) -> None:
    """Into a folder of mt-metrics-eval; of such a folder, with all scores and ratings."""
    output = needed(values, "output", "--output")
    if is_eval_set_folder(path) and values["input_format"] in ("mtme", "systems"):
        pair = the_language_pair(path, values["language_pair"])
        eval_set = read_eval_set(path, pair, EvalSetOptions(missing="leave-out"))
        num_left_out = num_metric_files(path, pair) - len(eval_set.metric_scores)
        if num_left_out:
            what = f"{num_left_out} files of metric scores lack outputs, and are left out"
            say(f"{path}: {what}", values["quiet"])
        write_eval_set(eval_set, output, read_ratings(path, eval_set))
    else:
        pair = needed(values, "language_pair", "--language-pair")
        keys = [HumanKey.read(key) for key in values["human"]]
        has_pairs = "language_pair" in format_of(values["input_format"]).options
        rows = _rows(path, pair if has_pairs and not values["hypotheses"] else None, values)
        rows = _noted(rows, "mtme", _EVAL_SET_HOLDS, path, Counter(), values["quiet"])
        lower = [key.name for key in keys if key.lower]
        eval_set = eval_set_of_rows(rows, Path(output).name, pair, lower)
        write_eval_set(eval_set, output)
    num_systems, num_segments = len(eval_set.outputs), len(eval_set.sources)
    say(f"{output}: {pair}, {num_systems} outputs of {num_segments} segments", values["quiet"])


def _to_files(texts: Mapping[str, Iterable[str]], output: str, values: Mapping[str, Any]) -> None:
    """Into files ``OUTPUT.FIELD``, with or without ``.src`` in the name given."""
    prefix = output.removesuffix(".src")
    check_plain(prefix, "--output")
    for field, lines in texts.items():
        _write(f"{prefix}.{field}", (f"{line}\n".encode() for line in lines))
    say(f"{prefix}.src and fields beside it", values["quiet"])
