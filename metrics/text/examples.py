"""Worked examples of a task: pairs of what is given and what is to come of it, as JSON lines.

{"source": "...", "target": "..."}
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import InputError, excerpt
from ..spec.small_files import parse_small_json, read_small_text


class Example(NamedTuple):
    """One worked example."""

    source: str
    target: str


def read_examples(path: str) -> tuple[Example, ...]:
    """The examples of a file; raises InputError."""
    lines = read_small_text(path, "Give a file of examples").splitlines()
    examples = []
    for number, line in enumerate(lines, 1):
        data = parse_small_json(line.encode(), f"{path}:{number}", "Write one example per line")
        try:
            examples.append(Example(str(data["source"]), str(data["target"])))
        except (KeyError, TypeError):
            raise InputError(f"found {excerpt(line)}", where=f"{path}:{number}") from None
    return tuple(examples)
