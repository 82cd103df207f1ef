"""What came out of a command, as it is compared."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from benchmarks.same_outputs.varying import SHOWN, without_varying

# "exit code", "stdout", "stderr", and files by their paths below out/NAME
Outputs = Mapping[str, bytes]


def shown(path: Path) -> bytes:
    """What a command showed, which is in this file."""
    return without_varying(SHOWN, path.read_bytes())


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, as it is compared, and every folder."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        # these two belong to sqlite and hold random salts; their rows are in the dump
        if not name.endswith(("-wal", "-shm")):
            contents[name] = b"a folder" if path.is_dir() else content(path)
    return contents


def content(path: Path) -> bytes:
    """What is compared of a file: its bytes, of a database its rows."""
    if path.suffix != ".sqlite":
        return without_varying(path.name, path.read_bytes())
    with closing(sqlite3.connect(path)) as database:
        rows = "\n".join(database.iterdump())
    return without_varying(path.name, rows.encode())
