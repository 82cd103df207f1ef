"""``discorank diff A B``: the choices in which two runs differ, words marked, with their contexts."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, settings
from ...report.differences import difference_data, difference_lines
from ...rerank.runs.row_forms import as_line
from ..options import command
from ..options.inputs import InputOptions
from .report import compared_runs


@settings
class DiffOptions:
    """What is compared.

    Args:
        runs: what two runs of decode or rerank wrote, as JSON lines.
        limit: how many differences are shown.
        format: text, or json: a line per difference.
    """

    runs: tuple[str, ...] = ()
    limit: Annotated[int, Field(ge=1)] | None = 20
    format: Literal["text", "json"] = "text"


@command(
    "Show the choices in which two runs of the same lists differ, words marked, with the sentences before.",
    positional={"runs": "*"},
    short={"num_candidates": "n"},
    first=["runs", "limit", "input", "format"],
    examples=[
        "diff first.jsonl second.jsonl",
        "diff first.jsonl second.jsonl --limit all",
        "diff first.jsonl second.jsonl --input examples:context.jsonl --format json",
    ],
)
def diff(options: DiffOptions, input: InputOptions) -> None:
    """Compares."""
    if len(options.runs) != 2:
        problem = f"{len(options.runs)} files, expected two"
        raise InputError(problem, where="RUNS", fix="discorank diff A.jsonl B.jsonl")
    two_runs = compared_runs(options.runs, input)
    if options.format == "json":
        lines = (as_line(difference_data(one)).decode() for one in two_runs.differing)
        sys.stdout.writelines(lines)
    else:
        sys.stdout.writelines(f"{line}\n" for line in difference_lines(two_runs, options.limit))
