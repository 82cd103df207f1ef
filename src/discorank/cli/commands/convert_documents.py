"""``discorank convert --to FORMAT``: documents with outputs of systems from any format into any other."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...integrations.formats.documents import DocumentRows
from ...integrations.formats.format_table import documents_of
from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.mtme.eval_set_folder import (
    EvalSetOptions,
    is_eval_set_folder,
    num_metric_files,
    read_eval_set,
    read_ratings,
    the_language_pair,
    write_eval_set,
)
from ...integrations.formats.mtme.eval_set_rows import eval_set_of_rows
from ..options import needed
from ..options.eval_set_options import checked_lines, checked_rows
from ..options.output_files import aligned_outputs, output_files_in
from ..running import check_plain, complete_or_absent
from ..terminal.console import say

Row = dict[str, Any]


def run_documents(values: Mapping[str, Any]) -> int:
    """Converts documents; returns the exit code."""
    files, name = output_files_in(values), values["to"]
    path = needed(values, "input", "INPUT") if files is None else files.name
    target = documents_of(name, "--to")
    if files is None:
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
        return checked_rows(path, values["input_format"], pair, keys, values["as_systems"])
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
        for key in ("human", "metrics", "not_supplied"):
            if row.get(key) and key not in holds:
                lost[key] = lost.get(key, 0) + 1
        count["documents"] += 1
        yield row
    for key, number in lost.items():
        say(f"{path}: {name} has no place for {key}, left out of {number} documents", quiet)


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


def _to_files(texts: Mapping[str, Iterable[str]], output: str, values: Mapping[str, Any]) -> None:
    """Into files ``OUTPUT.FIELD``, with or without ``.src`` in the name given."""
    prefix = output.removesuffix(".src")
    check_plain(prefix, "--output")
    for field, lines in texts.items():
        _write(f"{prefix}.{field}", (f"{line}\n".encode() for line in lines))
    say(f"{prefix}.src and fields beside it", values["quiet"])
