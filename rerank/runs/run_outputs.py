"""Opens the outputs of any run: rows, error records and more, files that go on, or standard streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from platform import python_version
from typing import Any

from ...metrics.spec.arrow_package import is_table, lines_of_run, require_arrow
from ..lists import NOTHING
from .resumable import Checkpoint
from .run_file import Measured
from .stream import Stream
from .table_files import write_table

PACKAGES = ("discorank", "numpy", "sacrebleu", "tokenizers", "torch", "transformers")


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
        require_arrow(str(out))
    sinks = {"rows": lines_of_run(out), "errors": Path(f"{out}.errors.jsonl"), **more}
    write = write_table if of_table else None
    return Checkpoint(out, sinks, identity, {**about, "versions": _versions()}, write)


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
    versions = {package: _version_of(package) for package in PACKAGES}
    return {"python": python_version(), **{name: one for name, one in versions.items() if one}}


def _version_of(package: str) -> str:
    """As `importlib.metadata.version`, without parsing the package's description; empty where it is not installed."""
    try:
        headers = distribution(package).read_text("METADATA") or ""
    except PackageNotFoundError:
        return ""
    header = re.search(r"^Version: (\S+)", headers, re.MULTILINE)
    return header[1] if header else version(package)
