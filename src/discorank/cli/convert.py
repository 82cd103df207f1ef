"""``discorank convert INPUT --from FORMAT -o OUT``: other formats into candidate lists."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, BinaryIO

from pydantic import Field

from ..metrics.settings import settings
from ..rerank.lists import write_list
from ..rerank.rows import as_line, error_row
from ..rerank.runs import stopped
from .console import Progress, say
from .inputs import InputOptions, open_input
from .options import Options
from .running import OutputOptions, check_not_input, complete_or_absent


@settings
class LimitOptions:
    """How much may be wrong.

    Args:
        max_errors: how many error records are reported on stderr and left out before the conversion stops.
    """

    max_errors: Annotated[int, Field(ge=0)] = 0


OPTIONS = Options(
    "convert",
    "Write candidate lists of any format as JSONL. The output appears when it is complete.",
    [InputOptions, OutputOptions, LimitOptions],
    positional={"input": "?"},
    short={"output": "o", "num_candidates": "n"},
)


def run(arguments: Sequence[str]) -> int:
    """Converts; returns the exit code."""
    values = OPTIONS.parse(arguments)
    done = errors = 0
    check_not_input(values["output"], [values["input"], values["sources"], values["documents"]])
    with (
        open_input(values) as lists,
        Progress("lists", lists.fraction, values["quiet"]) as progress,
        _output(values) as file,
    ):
        for entry in lists:
            if entry.error is not None:
                errors += 1
                sys.stderr.write(error_row(entry.error, lists.name, entry.line, entry.id).decode())
                if errors > values["max_errors"]:
                    raise stopped(entry.error, entry, lists.name)
            elif entry.record is not None:
                file.write(as_line(write_list(entry.record)))
                done += 1
                progress(done)
    say(f"{lists.name}: {done} lists written, {errors} error records left out", values["quiet"])
    return 3 if errors else 0


@contextmanager
def _output(values: Mapping[str, Any]) -> Iterator[BinaryIO]:
    """Stdout, or a file that takes its name only when it is complete."""
    if values["output"] in (None, "-"):
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    with complete_or_absent(values["output"]) as file:
        yield file
