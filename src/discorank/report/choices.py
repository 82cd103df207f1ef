"""What a decoder or reranker chose: the rows of a run, its counts and errors, and why each list's winner won."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from pydantic import Field

from ..metrics.errors import InputError
from ..metrics.text.line_source import LineSource
from ..rerank.choice import Ranking
from ..rerank.lists import CandidateList
from ..rerank.selection.comparison_folder import checked
from ..tables import number
from .island import rounded
from .summary_text import several

MAX_ERRORS = 200  # shown; all are counted
_FIX = "Give the output of decode or rerank"


@dataclass(frozen=True)
class ChosenRow:
    """What the page needs of one row: the list, which candidate was chosen, how far ahead of the runner-up."""

    id: str
    index: Annotated[int, Field(ge=0)]
    gap: float | None


@dataclass(frozen=True)
class ReadInput:
    """How much of the input a run has read."""

    entries: int
    digest: str


@dataclass(frozen=True)
class RunHead:
    """The run file: what the results depend on, and what came of it."""

    name: str
    signature: str | list[str]
    settings: dict[str, Any]
    counts: dict[str, int]
    versions: dict[str, str]
    input: ReadInput
    complete: bool = False


@dataclass(frozen=True)
class ChosenRun:
    """A run of ``decode`` or ``rerank`` as it stands on disk.

    Args:
        path: its rows.
        head: its run file.
        rows: by id of the list, in order.
        errors: its first error records.
        lists: what the page shows of lists, from `explained`.
    """

    path: str
    head: RunHead
    rows: Mapping[str, ChosenRow]
    errors: tuple[Mapping[str, Any], ...]
    lists: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def settings(self) -> Mapping[str, Any]:
        """What its results depend on."""
        return self.head.settings

    @property
    def signatures(self) -> list[str]:
        """Of its metrics: a shortlist's before the utility's, or those of a reranker's features."""
        given = self.head.signature
        return [given] if isinstance(given, str) else given

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows, candidates, duplicates, errors, and of every flag how many lists have it."""
        return self.head.counts


def read_run(path: str | Path) -> ChosenRun:
    """The run whose rows stand at `path`.

    Raises:
        InputError: no run file beside it, rows that are no JSON rows, or files that do not fit together.
    """
    head = _head(Path(f"{path}.run.json"))
    if head.settings.get("format") != "jsonl" or head.settings.get("decoder") not in (
        "mbr",
        "rerank",
    ):
        fix = "Run decode or rerank with --format jsonl"
        raise InputError("is no run with a row per list", where=str(path), fix=fix)
    found = [checked(ChosenRow, line, f"{path}:{n}", _FIX) for n, line in LineSource(path)]
    if len(found) != head.counts.get("rows", 0):
        reason = f"{len(found)} rows, its run file says {head.counts.get('rows', 0)}"
        raise InputError(reason, where=str(path), fix="Run the same command again to complete it")
    errors: list[Mapping[str, Any]] = []
    if head.counts.get("errors"):
        lines = islice(LineSource(beside := f"{path}.errors.jsonl"), MAX_ERRORS)
        errors = [checked(dict[str, Any], line, f"{beside}:{n}", _FIX) for n, line in lines]
    return ChosenRun(str(path), head, {row.id: row for row in found}, tuple(errors))


def _head(path: Path) -> RunHead:
    fix = f"{_FIX}, with its .run.json beside it, or a folder of compare --save"
    try:
        return checked(RunHead, path.read_bytes(), str(path), fix)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path), fix=fix) from None


def explained(
    run: ChosenRun, ranking: Ranking, record: CandidateList, why: Mapping[str, Any]
) -> dict[str, Any]:
    """What the page shows of one list: every text once, the places that refer to them, and the reasons.

    Args:
        run: the run, whose own choice stands beside the one computed again.
        ranking: all places of the list.
        record: the list.
        why: what ``discorank explain`` says of it.
    """
    texts: dict[str, int] = {}
    places = []
    for place in why["ranking"]:
        candidate = record.candidates[place["index"]]
        agreeing = [
            (texts.setdefault(a["text"], len(texts)), rounded(a["utility"]))
            for a in place["agreeing"]
        ]
        beside = {} if candidate.logprob is None else {"logprob": candidate.logprob}
        places.append(
            {
                "index": place["index"],
                "count": place["count"],
                "utility": rounded(place["utility"]),
                "text": texts.setdefault(place["text"], len(texts)),
                "beside": {**beside, **candidate.fields},
                "agreeing": agreeing,
                "why": place["why"],
            }
        )
    row = run.rows.get(record.id)
    shown = {
        "id": record.id,
        "source": why["source"],
        "candidates": why["candidates"],
        "distinct": why["distinct"],
        "gap": rounded(why["gap"]),
        "flags": why["flags"],
        "chosen": None if row is None else row.index,
        "places": places,
        "texts": list(texts),
    }
    return dict(_told(shown))


def _told(value: Any) -> Any:
    """JSON data with words for the numbers that JSON cannot write."""
    if isinstance(value, Mapping):
        return {name: _told(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_told(inner) for inner in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def as_data(run: ChosenRun) -> dict[str, Any]:
    """What the browser of lists needs."""
    return {"lists": run.lists, "isRerank": run.settings["decoder"] == "rerank"}


def story(run: ChosenRun) -> list[str]:
    """The run in sentences."""
    n, counts = len(run.rows), run.counts
    said = [
        f"{several(n, 'list was', 'lists were')} decided by {' and '.join(run.signatures) or 'features'}."
    ]
    gaps = finite_gaps(run)
    if gaps:
        ahead = f"ahead of the runner-up by {number(median(gaps))}"
        said.append(
            f"The winner is {ahead}."
            if len(gaps) == 1
            else f"In the middle list the winner is {ahead}."
        )
    if even := sum(gap == 0 for gap in gaps):
        said.append(f"{several(even, 'list is a tie', 'lists are ties')}.")
    first = sum(row.index == 0 for row in run.rows.values())
    if n:
        said.append(
            f"In {n - first} of {several(n, 'list', 'lists')} another candidate than the first was chosen."
        )
    if counts.get("candidates"):
        share = 100 * counts.get("duplicates", 0) / counts["candidates"]
        said.append(
            f"{share:.0f} % of {several(counts['candidates'], 'candidate', 'candidates')} are duplicates."
        )
    return said


def finite_gaps(run: ChosenRun) -> list[float]:
    """How far winners are ahead, of lists with more than one text."""
    return [row.gap for row in run.rows.values() if row.gap is not None and isfinite(row.gap)]


def cautions(run: ChosenRun) -> list[str]:
    """What a reader of the run should know."""
    counts, said = run.counts, []
    if not run.head.complete:
        said.append("The run is not complete: run the same command again to go on.")
    if counts.get("errors"):
        failed = several(
            counts["errors"],
            "list could not be decided and has",
            "lists could not be decided and have",
        )
        said.append(f"{failed} no row; see the errors.")
    for name, n in sorted(counts.items()):
        if name.startswith("truncated"):
            said.append(
                f"In {several(n, 'list', 'lists')} something was too long for a model and not read whole ({name})."
            )
    other = [
        one["id"] for one in run.lists if one["chosen"] is not None and _first(one) != one["chosen"]
    ]
    if other:
        said.append(
            f"Computed again, {several(len(other), 'list comes', 'lists come')} out otherwise, such as {other[0]}: "
            "other versions or another device."
        )
    return said


def _first(one: Mapping[str, Any]) -> int:
    return int(one["places"][0]["index"])


def counted(run: ChosenRun) -> Sequence[tuple[str, int]]:
    """Every count of the run file, flags included."""
    return sorted(run.counts.items())
