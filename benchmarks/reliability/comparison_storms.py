"""Storms for ``compare --save``: its tables, its files of scores, and the folder that it saves."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reliability.storms import Target, undisturbed
from benchmarks.same_outputs.inputs import made_systems, write_rows
from discorank.metrics.errors import DiscorankError
from discorank.rerank.selection.saved_comparison import load

SAVED = "comparison"
WHOLE = "a comparison stands there whole, or the one before it does"


def systems(folder: Path, documents: int = 300) -> Path:
    """A systems file with human scores."""
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "systems.jsonl", made_systems(documents, seed=8))
    return folder / "systems.jsonl"


def words(own: Path, source: Path) -> Sequence[str]:
    """Compares systems, and writes all that can be written."""
    return [
        *("compare", str(source), "-m", "chrf", "ter", "--human", "mqm:lower", "--quiet"),
        *("--draws", "2000", "--save", str(own / SAVED)),
        *("--segment-scores", str(own / "segments.csv"), "--format", "json"),
    ]


def unreadable(own: Path) -> list[str]:
    """Why the comparison in a folder cannot be read."""
    try:
        load(own / SAVED)
    except DiscorankError as error:
        return [str(error)]
    return []


def comparison(folder: Path) -> Target:
    """A comparison that takes the place of an earlier one, of fewer documents.

    Raises:
        RuntimeError: the earlier one fails.
    """
    source, earlier = systems(folder), folder / "earlier"
    earlier.mkdir()
    ended, _ = undisturbed(words(earlier, systems(folder / "small", 10)), earlier)
    if ended.code:
        raise RuntimeError(ended.said)
    return Target(
        "compare",
        "compare --save",
        lambda own: words(own, source),
        prepare=lambda own: shutil.copytree(earlier / SAVED, own / SAVED),
        promise_after=WHOLE,
        wrong_after=unreadable,
    )
