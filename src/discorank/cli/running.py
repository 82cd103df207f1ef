"""Runs a decider over an input, with progress and a closing line; checks of outputs. Shared by the subcommands.

Rows that a command writes into one file: JSON lines, or a Parquet or Arrow file by its ending.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ..metrics.errors import InputError
from ..metrics.storage.atomic_files import check_reachable, complete_file, own_draft
from ..rerank.decider import Decider
from ..rerank.engines.interface import Engine
from ..rerank.engines.local import LocalEngine
from ..rerank.runs.run import run_lists
from ..rerank.runs.run_file import is_table
from ..rerank.runs.table_files import lines_of_table
from .options.inputs import InputOptions, file_key
from .options.output_formats import RunOptions
from .terminal.console import Progress, say
from .terminal.watching import Watch

COMPRESSED = frozenset({".gz", ".bz2", ".xz", ".zst"})
_NAME_A_FILE = "Name a file; without one the output goes to stdout"


DECIDED = "decided"


def run_decider(
    decider: Decider,
    engine: Engine,
    input: InputOptions,
    run: RunOptions,
    prior: str | None = None,
    utilities: str | None = None,
    made_of: Callable[[Iterable[Any]], Iterable[Any]] = iter,
    done: str = DECIDED,
) -> int:
    """Decides every list of the input; returns the exit code.

    Args:
        decider: an MBRDecoder or a Reranker.
        engine: what values the lists.
        input: where the lists are.
        run: where rows go.
        prior: the file of the prior that the decider has.
        utilities: the file of utilities that it decides from.
        made_of: makes the entries that are decided of those that are read.
        done: what the closing line says of the lists.
    """
    inputs = [*input.paths, utilities, prior]
    path = check_output(run.output, inputs)
    check_plain(run.settings.save_utilities, "--save-utilities")
    check_not_input(run.settings.save_utilities, inputs)
    identity = input.identity()
    if utilities:
        fix = "Give a file that --save-utilities wrote"
        identity = {"utilities": file_key(utilities, fix), **identity}
    form, choices, watch = run.row_form(), ChoiceCounts(), Watch(engine)
    is_counted = done == DECIDED and run.settings.format == "jsonl" and form is None
    try:
        with (
            input.opened() as lists,
            Progress("lists", lists.fraction, watch) as progress,
        ):
            if isinstance(engine, LocalEngine):
                engine.meter.on_count = progress.refresh
            counts = run_lists(
                decider,
                made_of(watch.reading(lists)),
                lists.name,
                path,
                engine,
                run.settings,
                progress,
                identity,
                watch.meter,
                form,
                choices.note if is_counted else lambda row: None,
                {**input.named_beside, **({"prior": prior} if prior else {})},
            )
    except BrokenPipeError:  # whoever reads stdout has enough
        raise
    except BaseException:
        if watch.read:
            watch.close()
        raise
    say(closing_line(counts, lists.name, path, "lists", done))
    if choices.num_lists:
        say(choices.summary)
    watch.close()
    return 3 if counts.get("errors") else 0


class ChoiceCounts:
    """How often another than the first candidate was chosen, from the rows as they are written."""

    def __init__(self) -> None:
        self.num_lists = self.num_others = 0

    def note(self, row: bytes) -> None:
        """Takes the row of a list."""
        self.num_lists += 1
        self.num_others += json.loads(row)["index"] != 0

    @property
    def summary(self) -> str:
        """In words."""
        return f"the choice differs from the first candidate in {self.num_others} of {self.num_lists} lists"


def check_output(output: str | None, inputs: Sequence[str | None]) -> Path | None:
    """The output of a run, None for stdout; raises InputError if it, or what stands beside it, is an input."""
    if output == "":
        raise InputError("is empty", where="--output", fix=_NAME_A_FILE)
    path = None if output in (None, "-") else Path(str(output))
    if path is not None:
        check_plain(output, "--output")
        for suffix in ("", ".run.json", ".run.json.tmp", ".rows.jsonl", ".errors.jsonl", ".lock"):
            check_not_input(f"{path}{suffix}", inputs)
    return path


def check_plain(path: str | Path | None, where: str) -> None:
    """Raises InputError for an output whose name says that it is a folder, or compressed, which nothing here is."""
    if str(path or "").endswith(("/", os.sep)):
        raise InputError(f"names a folder ({path}), not a file", where=where, fix=_NAME_A_FILE)
    ending = Path(path or "").suffix.lower()
    if ending in COMPRESSED:
        problem = "files are written plain, so that a run can resume and rows can be checked"
        raise InputError(problem, where=where, fix=f"Leave {ending} off, or compress it afterwards")


def closing_line(
    counts: Mapping[str, int], name: str, out: Path | None, unit: str, done: str
) -> str:
    """The counts of a run; `unit` is what the input holds, `done` what was done to make lists of it."""
    num_rows, num_candidates = counts.get("rows", 0), counts.get("candidates", 0)
    num_errors = counts.get("errors", 0)
    if not (num_rows or num_errors or counts.get("context_only")):
        return f"{name}: there are no {unit} in it"
    duplicates = "none"
    if num_candidates:
        percent = 100 * counts.get("duplicates", 0) / num_candidates
        duplicates = f"{percent:.1f}% duplicates"
    shown_before = ("rows", "row_lines", "candidates", "duplicates", "errors")
    rest = {key: n for key, n in counts.items() if key not in shown_before and n}
    notes = "".join(f", {n} {key}" for key, n in sorted(rest.items()))
    errors = ""
    if num_errors:
        place = f"in {out}.errors.jsonl" if out else "on stderr"
        errors = f"; {num_errors} error records {place}"
    lists = f"{num_rows} lists {done}, {num_candidates} candidates ({duplicates})"
    return f"{name}: {lists}{notes}{errors}"


def _umask() -> int:
    """The permissions that new files are not given."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def check_not_input(output: str | Path | None, inputs: Iterable[str | None]) -> None:
    """Raises InputError if an output is one of the inputs, under whatever name."""
    if not output or not os.path.exists(output):
        return
    for name in inputs:
        if name and os.path.exists(name) and os.path.samefile(output, name):
            raise InputError(
                "is an input and an output", where=str(output), fix="Choose another output"
            )


def check_writable(path: str, fix: str = "Name a file", *, table: bool = False) -> None:
    """Raises InputError where `complete_or_absent` would: for commands that compute before they write."""
    if not path:
        raise InputError("is empty", where="the output", fix=fix)
    check_plain(path, "the output")
    if not table and is_table(path):
        problem = "what is written here is no table of columns"
        raise InputError(problem, where=path, fix=f"Leave {Path(path).suffix} off")
    if os.path.exists(f"{path}.run.json"):
        raise InputError("is the output of a run", where=path, fix="Choose another output")
    check_reachable(Path(path))
    real = os.path.realpath(path)
    if os.path.exists(real) and not os.path.isfile(real):
        raise InputError("is no plain file", where=path or real, fix=fix)
    folder = os.path.dirname(real)
    if not os.path.isdir(folder):
        raise InputError("is no folder", where=folder, fix="Make it first")
    if not os.access(folder, os.W_OK):
        raise InputError("cannot be written to", where=folder, fix="Choose another output")


@contextmanager
def complete_or_absent(path: str, *, table: bool = False) -> Iterator[BinaryIO]:
    """A file that takes its name only when it is complete; `table` says that one named so is a Parquet or Arrow file.

    Raises:
        InputError: it cannot be written.
    """
    check_writable(path, _NAME_A_FILE, table=table)
    path = os.path.realpath(path)
    with own_draft(Path(path)) as file, complete_file(Path(path), Path(file.name)):
        with file:
            yield file
        os.chmod(file.name, 0o666 & ~_umask())


@contextmanager
def complete_rows(path: str) -> Iterator[BinaryIO]:
    """A file for JSON lines; what is made of them takes its name only when it is complete.

    Raises:
        InputError: it cannot be written.
        ModelLoadError: it needs pyarrow, which is not installed.
    """
    with complete_or_absent(path, table=True) as draft:
        if is_table(path):
            with lines_of_table(Path(path), draft) as lines:
                yield lines
        else:
            yield draft


@contextmanager
def output_file(path: str | None, *, rows: bool = True) -> Iterator[BinaryIO]:
    """Stdout, or a file as `complete_rows` makes it, or, of what is not rows, as `complete_or_absent`."""
    if path in (None, "-"):
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    with complete_rows(str(path)) if rows else complete_or_absent(str(path)) as file:
        yield file
