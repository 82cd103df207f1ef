"""What a decoder or reranker chose: the rows of a run, its counts and errors, and why each list's winner won."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from ..integrations.source import LineSource
from ..integrations.strictjson import parse_json
from ..metrics.errors import InputError
from ..rerank.choice import Ranking
from ..rerank.lists import CandidateList
from .island import rounded

MOST_ERRORS = 200  # shown; all are counted


@dataclass(frozen=True)
class ChosenRow:
    """One row of a run."""

    index: int
    utility: float | None
    gap: float | None
    flags: tuple[str, ...]


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
    head: Mapping[str, Any]
    rows: Mapping[str, ChosenRow]
    errors: tuple[Mapping[str, Any], ...]
    lists: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def settings(self) -> Mapping[str, Any]:
        """What its results depend on."""
        return dict(self.head["settings"])

    @property
    def signatures(self) -> list[str]:
        """Of its metrics: a shortlist's before the utility's, or those of a reranker's features."""
        given = self.head["signature"]
        return [given] if isinstance(given, str) else list(given)

    @property
    def counts(self) -> dict[str, int]:
        """Rows, candidates, duplicates, errors, and of every flag how many lists have it."""
        return {str(name): int(n) for name, n in self.head["counts"].items()}


def read_run(path: str | Path) -> ChosenRun:
    """The run whose rows stand at `path`.

    Raises:
        InputError: no run file beside it, rows that are no JSON rows, or files that do not fit together.
    """
    head = _head(Path(f"{path}.run.json"))
    settings = head["settings"]
    if settings.get("format") != "jsonl" or settings.get("decoder") not in ("mbr", "rerank"):
        fix = "Run decode or rerank with --format jsonl"
        raise InputError("is no run with a row per list", where=str(path), fix=fix)
    rows: dict[str, ChosenRow] = {}
    for number, row in _objects(path):
        try:
            made = ChosenRow(int(row["index"]), row["utility"], row["gap"], tuple(map(str, row.get("flags", ()))))
            rows[str(row["id"])] = made
        except (KeyError, TypeError, ValueError) as error:
            fix = "Give the output of decode or rerank"
            raise InputError(f"is no row of a run ({error})", where=f"{path}:{number}", fix=fix) from None
    if len(rows) != head["counts"].get("rows", 0):
        found = f"{len(rows)} rows, its run file says {head['counts'].get('rows', 0)}"
        raise InputError(found, where=str(path), fix="Run the same command again to complete it")
    errors: list[Mapping[str, Any]] = []
    if head["counts"].get("errors"):
        errors = [row for _, row in _objects(f"{path}.errors.jsonl")]
    return ChosenRun(str(path), head, rows, tuple(errors[:MOST_ERRORS]))


def _head(path: Path) -> dict[str, Any]:
    try:
        head = json.loads(path.read_text(encoding="utf-8"))
        parts = (head["settings"], head["counts"], head["input"], head["versions"])
        if not all(isinstance(part, dict) for part in parts) or not isinstance(head["signature"], str | list):
            raise ValueError("a part of another kind")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        fix = "Give the output of decode or rerank, with its .run.json beside it, or a folder of compare --save"
        raise InputError(f"cannot be read ({error})", where=str(path), fix=fix) from None
    return dict(head)


def _objects(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in LineSource(path):
        row = parse_json(line)
        if not isinstance(row, dict):
            raise InputError("found no object", where=f"{path}:{number}", fix="Give the output of decode or rerank")
        yield number, row


def explained(run: ChosenRun, ranking: Ranking, record: CandidateList, why: Mapping[str, Any]) -> dict[str, Any]:
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
        agreeing = [(texts.setdefault(a["text"], len(texts)), rounded(a["utility"])) for a in place["agreeing"]]
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
    said = [f"{n} lists were decided by {' and '.join(run.signatures) or 'features'}."]
    gaps = [row.gap for row in run.rows.values() if row.gap is not None]
    if gaps:
        even = sum(gap == 0 for gap in gaps)
        middle = sorted(gaps)[len(gaps) // 2]
        said.append(f"The winner is ahead of the runner-up by {middle:.3g} in the middle list; {even} lists are ties.")
    first = sum(row.index == 0 for row in run.rows.values())
    if n:
        said.append(f"In {n - first} of {n} lists another candidate than the first was chosen.")
    if counts.get("candidates"):
        share = 100 * counts.get("duplicates", 0) / counts["candidates"]
        said.append(f"{share:.0f} % of {counts['candidates']} candidates are duplicates.")
    return said


def cautions(run: ChosenRun) -> list[str]:
    """What a reader of the run should know."""
    counts, said = run.counts, []
    if not run.head.get("complete"):
        said.append("The run is not complete: run the same command again to go on.")
    if counts.get("errors"):
        said.append(f"{counts['errors']} lists could not be decided and have no row; see the errors.")
    for name, n in sorted(counts.items()):
        if name.startswith("truncated"):
            said.append(f"In {n} lists something was too long for a model and not read whole ({name}).")
    other = [one["id"] for one in run.lists if one["chosen"] is not None and _first(one) != one["chosen"]]
    if other:
        said.append(
            f"Computed again, {len(other)} lists come out otherwise, such as {other[0]}: other versions or another "
            "device."
        )
    return said


def _first(one: Mapping[str, Any]) -> int:
    return int(one["places"][0]["index"])


def counted(run: ChosenRun) -> Sequence[tuple[str, int]]:
    """Every count of the run file, flags included."""
    return sorted(run.counts.items())
