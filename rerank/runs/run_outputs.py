"""Opens the outputs of any run: rows, error records and more, files that go on, or standard streams."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from platform import python_version
from typing import Any

from ...metrics.optional_packages import require
from ..lists import NOTHING
from .resumable import Checkpoint
from .run_file import Measured, WrittenBytes, is_table, lines_of_run
from .stream import Stream

PACKAGES = ("discorank", "numpy", "sacrebleu", "tokenizers", "torch", "transformers")
# what an installer leaves beside a package (importlib.metadata, which reads it too, takes long to import)
_INSTALLED = re.compile(rf"({'|'.join(PACKAGES)})-(.+)\.dist-info")


def outputs(
    out: Path | None,
    identity: Mapping[str, Any],
    about: Mapping[str, Any],
    more: Mapping[str, Path] = NOTHING,
) -> Checkpoint | Stream:
    """The outputs of a run: rows at `out`, error records beside it and `more`; or stdout and stderr without `out`.

    Where `out` is a Parquet or Arrow file, the rows are lines beside it, of which it is made when the run is complete.

    Raises:
        InputError, ResumeError: as `Checkpoint`.
        ModelLoadError: it needs pyarrow, which is not installed.
    """
    if out is None:
        return Stream()
    of_table = is_table(out)
    if of_table:
        require(str(out), "pyarrow")
    sinks = {"rows": lines_of_run(out), "errors": Path(f"{out}.errors.jsonl"), **more}
    return Checkpoint(
        out,
        sinks,
        identity,
        {**about, "versions": _versions()},
        _table_writer() if of_table else None,
    )


def _table_writer() -> Callable[[Path, Path], WrittenBytes]:
    """What makes a table of lines."""
    from .table_files import write_table

    return write_table


@contextmanager
def completing(
    checkpoint: Checkpoint | Stream, measured: Callable[[], Measured] = Measured
) -> Iterator[None]:
    """Opens the outputs; what was written is kept whatever happens, and complete at the end of the block."""
    checkpoint.begin(measured)
    try:
        yield
    except BaseException:
        checkpoint.save()
        raise
    checkpoint.save(complete=True)


def _versions() -> dict[str, str]:
    """Of Python and of those packages that are installed."""
    installed: dict[str, str] = {}
    for folder in sys.path:
        with suppress(OSError):
            for name in sorted(os.listdir(folder or ".")):
                if match := _INSTALLED.fullmatch(name):
                    installed.setdefault(match[1], match[2])
    packages = {package: installed[package] for package in PACKAGES if package in installed}
    return {"python": python_version(), **packages}
