"""``discorank export pairs|sft|ranking|kto RUN -o OUT``: what a run decided, as data to train on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from ...integrations.formats.open_lists import Lists
from ...integrations.training_data.trl_rows import (
    DecidedList,
    Export,
    ExportSettings,
    InputDigest,
    Kind,
    RowPrompts,
    card,
    decided_lists,
)
from ...metrics.errors import InputError, unknown
from ...metrics.spec.checked_settings import settings
from ...metrics.storage.line_source import LineSource
from ...metrics.text.prompt_template import Template
from ...report.choices import ChosenRun, RunHead, read_head
from ...rerank.runs.row_forms import as_line
from ...rerank.runs.run_file import is_table, lines_of_run
from ..options import EngineOptions, Options, ReadingOptions, build, needed
from ..options.inputs import InputOptions, open_input
from ..running import check_not_input, check_writable, complete_or_absent
from ..terminal.console import Progress, say
from .report import input_values

KINDS: tuple[str, ...] = get_args(Kind)
CARD = ".card.md"


@settings
class ExportOptions:
    """What is exported.

    Args:
        kind: pairs, sft, ranking or kto.
        run: what decode or rerank wrote, with its .run.json.
        output: the file of rows, JSON lines; OUT.card.md stands beside it.
        conversational: rows hold messages instead of texts.
        prompt: the prompt of a list; {source}, or another key of the lists that holds a text.
        system: a system message before the prompt, in rows that hold messages.
        messages: the key of the lists that holds the messages of the conversation, instead of a prompt.
    """

    kind: str | None = None
    run: str | None = None
    output: str | None = None
    conversational: bool = False
    prompt: str = "{source}"
    system: str | None = None
    messages: str | None = None


OPTIONS = Options(
    "export",
    "Write what decode or rerank decided as data to train on: preference pairs, chosen texts, rankings, or texts with "
    "labels, in the forms that TRL documents. The output appears when it is complete.",
    [ExportOptions, ExportSettings, InputOptions],
    positional={"kind": "?", "run": "?"},
    short={"output": "o"},
    hidden=["input_format", "num_candidates", "human", "as_systems", "include"],
    first=["kind", "run", "output", "pairs", "prompt", "input"],
    examples=[
        "decode examples:demo.jsonl -u chrf --nbest all -o ranked.jsonl",
        "export pairs ranked.jsonl -o pairs.jsonl",
        "export sft ranked.jsonl -o texts.jsonl",
    ],
    idle=[ReadingOptions, EngineOptions],
)


def run(arguments: Sequence[str]) -> int:
    """Exports; returns the exit code."""
    values = OPTIONS.parse(arguments)
    kind = needed(values, "kind", "KIND")
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS, where="KIND")
    path, output = needed(values, "run", "RUN"), needed(values, "output", "--output")
    if is_table(output):
        problem = "training data are written as JSON lines"
        raise InputError(problem, where=output, fix="Give a name such as rows.jsonl")
    prompts = RowPrompts(
        Template(values["prompt"], "--prompt"),
        values["conversational"],
        values["system"],
        values["messages"],
    )
    _check_settings(kind, values)
    head = _complete_head(path, kind)
    reading = input_values(ChosenRun(path, head, {}, ()), values)
    for out in (output, f"{output}{CARD}"):
        inputs = [
            path,
            lines_of_run(path),
            f"{path}.run.json",
            *(reading[n] for n in ("input", "sources", "documents", "requests")),
        ]
        check_not_input(out, inputs)
        check_writable(out)
    export = Export(kind, build(ExportSettings, values), prompts, head.decided_by)
    if values["balance_lengths"]:
        with _lists(path, head, reading) as (_, decided):
            export.balance(decided)
    _write(export, path, head, reading, output)
    figures = export.figures.counts
    written = f"{figures.get('rows', 0)} rows of {figures.get('lists', 0)} lists"
    say(f"{output}: {written}, {output}{CARD} tells more", values["quiet"])
    return 0


def _write(
    export: Export, path: str, head: RunHead, values: Mapping[str, Any], output: str
) -> None:
    """Writes the rows and their card."""
    about = {
        "run": Path(path).name,
        "utility": export.utility,
        "decider": head.settings.get("decoder"),
        "input": Path(head.name).name,
        "discorank": head.versions.get("discorank"),
    }
    with (
        _lists(path, head, values) as (lists, decided),
        Progress("rows", lists.fraction, values["quiet"]) as progress,
        complete_or_absent(output) as file,
    ):
        for number, row in enumerate(export.rows(decided), start=1):
            file.write(as_line(row))
            progress(number)
        with complete_or_absent(f"{output}{CARD}") as beside:
            beside.write(card(export, about, Path(output).name).encode())


@contextmanager
def _lists(
    path: str, head: RunHead, values: Mapping[str, Any]
) -> Iterator[tuple[Lists, Iterator[DecidedList]]]:
    """The input of a run, and its decided lists."""
    with open_input(values) as lists:
        rows = LineSource(lines_of_run(path))
        try:
            read = InputDigest(head.input.entries, head.input.digest)
            yield lists, decided_lists(rows, lists, lists.name, read)
        finally:
            rows.close()


def _complete_head(path: str, kind: str) -> RunHead:
    """The run file of a run that is complete and has ranked what the kind needs.

    Raises:
        InputError: it is neither.
    """
    _check_there(path)
    head = read_head(path)
    if not head.complete:
        problem = "is not complete"
        raise InputError(problem, where=path, fix="Run the same command again, and it resumes")
    if kind != "sft" and head.settings.get("nbest") == 1:
        problem = "has the best text of each list alone"
        raise InputError(problem, where=path, fix="Decide anew with --nbest all")
    return head


def _check_there(path: str) -> None:
    """Raises InputError where no run stands at a path."""
    fix = "Give what decode or rerank wrote with -o"
    if not lines_of_run(path).exists():
        raise InputError("is not there", where=str(lines_of_run(path)), fix=fix)
    if not Path(f"{path}.run.json").exists():
        problem = f"is no run: {Path(path).name}.run.json does not stand beside it"
        raise InputError(problem, where=path, fix=fix)


def _check_settings(kind: str, values: Mapping[str, Any]) -> None:
    """Raises InputError for an option that the kind has no use for."""
    if kind in ("pairs", "kto"):
        return
    for name in ("pairs", "margin", "max_pairs", "balance_lengths", "seed"):
        if values[name] != OPTIONS.defaults[name]:
            flag = f"--{name.replace('_', '-')}"
            raise InputError("is for pairs and kto", where=flag, fix="Leave it out")
