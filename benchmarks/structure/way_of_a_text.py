"""Which files a text passes through in ``discorank decode``, by watching the arguments of every call at run time.

    python -m benchmarks.structure.way_of_a_text [FOLDER]

FOLDER holds an importable package ``discorank``; the installed one if not given. A file counts where a function of it
is called with the text; a move is a change of file from one such call to the next.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

MARK = "zqxmarker"
CANDIDATES = [f"the {MARK} sat", "a cat sat down here", "the cat sat on", "dogs run"]
DEPTH = 4  # of values inside values that are searched
PARTS = ("metrics", "rerank", "integrations", "cli", "report")


def holds_mark(value: Any, depth: int = 0) -> bool:
    """Whether a value, or one inside it, is the text."""
    if isinstance(value, str | bytes):
        return MARK in value if isinstance(value, str) else MARK.encode() in value
    if depth > DEPTH:
        return False
    inner: list[Any] = []
    if isinstance(value, list | tuple | set | frozenset):
        inner = list(value)[:20]
    elif isinstance(value, dict):
        inner = list(value.values())[:20]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return any(holds_mark(part, depth + 1) for part in inner)


class Watch:
    """The files that were called with the text, in order, without repetition, and the functions."""

    def __init__(self) -> None:
        self.way: list[str] = []
        self.functions: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Looks at a call."""
        name = frame.f_code.co_filename
        parts = Path(os.path.realpath(name)).parts
        places = [i for i, part in enumerate(parts) if part in PARTS]
        # what is made at run time, such as the methods of data classes, has no file
        if event != "call" or not places or "site-packages" in parts or name.startswith("<"):
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        values = [frame.f_locals.get(name) for name in names if name != "self"]
        if any(map(holds_mark, values)):
            file = "/".join(parts[places[-1] :])
            self.functions.add((file, code.co_name))
            if self.way[-1:] != [file]:
                self.way.append(file)


def main() -> None:
    """Prints the numbers and the way."""
    sys.path[:0] = sys.argv[1:2]
    from discorank.cli.main import main as discorank

    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        lists = Path(folder, "lists.jsonl")
        lists.write_text(json.dumps({"id": "a", "candidates": CANDIDATES}) + "\n")
        sys.setprofile(watch)
        try:
            discorank(["decode", str(lists), "-u", "chrf", "-o", f"{folder}/out.jsonl", "--quiet"])
        finally:
            sys.setprofile(None)
    moves = len(watch.way) - 1
    print(f"{len(set(watch.way))} files, {moves} moves, {len(watch.functions)} functions")
    print(" > ".join(watch.way))


if __name__ == "__main__":
    main()
