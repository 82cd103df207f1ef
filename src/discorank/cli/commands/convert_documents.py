"""``discorank convert --to FORM``: documents with outputs of systems from any form into any other."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...integrations.formats.document_forms import the_language_pair
from ...integrations.formats.form_names import DOCUMENT_FORMS
from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.mtme.eval_set_folder import (
    EvalSetOptions,
    is_eval_set_folder,
    num_metric_files,
    read_eval_set,
    read_ratings,
)
from ...integrations.formats.mtme.eval_set_rows import eval_set_of_rows
from ...integrations.formats.mtme.folder_writer import write_eval_set
from ...integrations.formats.test_sets.document_rows import DocumentRows
from ...integrations.formats.test_sets.sacrebleu_files import sacrebleu_columns
from ...integrations.formats.test_sets.summeval import written_summeval
from ...integrations.formats.test_sets.wmt_jsonl import written_wmt_jsonl
from ...integrations.formats.test_sets.wmt_xml import written_wmt_xml
from ...metrics.errors import InputError, unknown
from ...rerank.runs.rows import as_line
from ..options import needed
from ..options.eval_set_options import checked_lines, checked_rows
from ..options.output_files import aligned_outputs, output_files_in
from ..running import check_plain, complete_or_absent
from ..terminal.console import say

Row = dict[str, Any]
FORMS = ("systems", *DOCUMENT_FORMS)


def run_documents(values: Mapping[str, Any]) -> int:
    """Converts documents; returns the exit code."""
    files, form = output_files_in(values), values["to"]
    path = needed(values, "input", "INPUT") if files is None else files.name
    if form not in FORMS:
        raise unknown("form", form, FORMS, where="--to")
    source_form = values["input_format"]
    if source_form not in FORMS and files is None:
        raise InputError(
            f"{source_form} has no systems", where="--from", fix=f"One of {', '.join(FORMS)}"
        )
    if form == "mtme":
        _to_folder(path, values)
        return 0
    rows = _rows(path, values["language_pair"], values)
    count = Counter[str]()
    rows = _noted(rows, form, path, count, values["quiet"])
    if form == "sacrebleu":
        _to_sacrebleu(rows, needed(values, "output", "--output"), values)
        return 0
    lines = {
        "systems": _systems_lines,
        "wmt-xml": written_wmt_xml,
        "wmt-jsonl": written_wmt_jsonl,
        "summeval": written_summeval,
    }[form](rows)
    _write(values["output"], lines)
    say(f"{path}: {count['documents']} documents written as {form}", values["quiet"])
    return 0


def _rows(path: str, pair: str | None, values: Mapping[str, Any]) -> Iterator[Row]:
    """The documents, checked: of files of outputs, or of the input."""
    keys = [HumanKey.read(key) for key in values["human"]]
    files = output_files_in(values)
    if files is None:
        return checked_rows(path, values["input_format"], pair, keys, values["as_systems"])
    lines = DocumentRows(files.name, iter(aligned_outputs(files, values).rows))
    return checked_lines(lines, keys, values["as_systems"])


# what the forms hold beside texts
_HELD = {
    "systems": ("human", "metrics", "not_supplied"),
    "summeval": ("human",),
}


def _noted(
    rows: Iterator[Row], form: str, path: str, count: Counter[str], quiet: bool
) -> Iterator[Row]:
    """The rows, counted as documents; says at the end what the form has no place for."""
    lost: dict[str, int] = {}
    for row in rows:
        for key in ("human", "metrics", "not_supplied"):
            if row.get(key) and key not in _HELD.get(form, ()):
                lost[key] = lost.get(key, 0) + 1
        count["documents"] += 1
        yield row
    for key, number in lost.items():
        say(f"{path}: {form} has no place for {key}, left out of {number} documents", quiet)


def _systems_lines(rows: Iterator[Row]) -> Iterator[bytes]:
    for row in rows:
        yield as_line(row)


def _write(output: str | None, lines: Iterable[bytes]) -> None:
    """To stdout, or into a file that takes its name when it is complete."""
    if output in (None, "-"):
        sys.stdout.buffer.writelines(lines)
        sys.stdout.flush()
        return
    with complete_or_absent(str(output)) as file:
        file.writelines(lines)


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
        rows = _rows(path, None, values)
        lower = [key.name for key in keys if key.lower]
        eval_set = eval_set_of_rows(rows, Path(output).name, pair, lower)
        write_eval_set(eval_set, output)
    num_systems, num_segments = len(eval_set.outputs), len(eval_set.sources)
    say(f"{output}: {pair}, {num_systems} outputs of {num_segments} segments", values["quiet"])


def _to_sacrebleu(rows: Iterator[Row], output: str, values: Mapping[str, Any]) -> None:
    """Into files ``OUTPUT.FIELD``, with or without ``.src`` in the name given."""
    prefix = output.removesuffix(".src")
    check_plain(prefix, "--output")
    for field, texts in sacrebleu_columns(rows).items():
        _write(f"{prefix}.{field}", (f"{text}\n".encode() for text in texts))
    say(f"{prefix}.src and fields beside it", values["quiet"])
