"""The choices of a decoder or reranker: the rows of a run, its counts and errors, and why each list's winner won."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

from ..metrics.errors import InputError
from ..metrics.registry import as_typed
from ..metrics.representations import FloatArray
from ..metrics.spec.checked_settings import Field, from_json
from ..metrics.storage.line_source import LineSource
from ..metrics.text.texts import Document, Text
from ..rerank.lists import CandidateList
from ..rerank.runs.run_file import (
    AS_INPUT,
    checked_output,
    lines_of_run,
    read_run_file,
    recorded_run,
)
from ..rerank.selection.comparison import SystemComparison
from ..rerank.selection.saved_comparison import checked
from ..rerank.selection.significance import Verdicts
from ..rerank.selection.statistics import clean
from ..rerank.selection.system_scores import DocumentOutputs
from ..rerank.votes.answer_shares import NO_AGREEMENT
from ..tables import number
from .summary_text import with_noun, without_settings

_ESCAPES = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}

SEVERITIES = ("minor", "major", "critical")
MAX_ERRORS = 200  # shown; all are counted
_FIX = "Give the output of decode or rerank"
_WITH_RUN_FILE = "with its .run.json beside it, or a folder of compare --save"


def as_island(data: Any) -> str:
    """JSON for a ``<script type="application/json">``: no letter of it has a meaning in HTML.

    >>> as_island({"a": "</script><!--"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode()


def rounded(value: float | None) -> float | None:
    """Four significant digits, as the page shows."""
    return None if value is None else float(f"{value:.4g}")


def documents(comparison: SystemComparison, shown: Sequence[str], score: str) -> dict[str, Any]:
    """The data of the document browser, every text once.

    Args:
        comparison: the comparison.
        shown: the systems shown at first.
        score: the metric shown at first.
    """
    references = dict.fromkeys(
        name for document in comparison.documents for name in document.references
    )
    return {
        "systems": comparison.systems,
        "metrics": [_name_and_direction(scores) for scores in comparison.metrics],
        "human": [_name_and_direction(human.scores) for human in comparison.human],
        "references": list(references),
        "raters": _raters(comparison),
        "shown": list(shown),
        "score": score,
        "documents": list(_documents(comparison)),
    }


def _name_and_direction(scores: Verdicts) -> dict[str, Any]:
    return {"name": scores.name, "higher": scores.higher_is_better}


def _documents(comparison: SystemComparison) -> Iterator[dict[str, Any]]:
    """The texts of every document, and their scores in the order of the metrics and of the systems."""
    scores, systems = comparison.scores, comparison.systems
    dimensions = [human.scores.name for human in comparison.human]
    num_metrics = len(comparison.metrics)
    # of every metric, scores [systems, segments] of each document
    segments = [list(scores.by_document(m)) for m in range(num_metrics)]
    for d, document in enumerate(comparison.documents):
        human = [document.human.get(name, {}) for name in dimensions]
        yield {
            "id": document.id,
            "source": document.source,
            "references": document.references,
            "systems": [document.systems[name] for name in systems],
            "scores": [_all_rounded(scores.documents[m, :, d]) for m in range(num_metrics)],
            "segments": [
                [_all_rounded(row) for row in segments[m][d]] if scores.has_segments(m) else None
                for m in range(num_metrics)
            ],
            "human": [[by_system.get(system) for system in systems] for by_system in human],
            "marks": [_marks(document, system) for system in systems],
        }


def _raters(comparison: SystemComparison) -> list[str]:
    """The annotators who marked spans, by name."""
    names = set()
    for document in comparison.documents:
        for system in document.systems:
            for ratings in _marks(document, system) or ():
                names |= {rater for rater, _ in ratings}
    return sorted(names)


def _marks(document: DocumentOutputs, system: str) -> list[list[list[Any]]] | None:
    """The spans that annotators marked in a system's segments: for each its annotators, with their spans.

    None where nobody marked spans; a span is start, end, severity and category, places null where text is missing.
    """
    marks: list[list[list[Any]]] = [[] for _ in document.systems[system]]
    for by_system in document.ratings.values():
        for i, ratings in enumerate(by_system.get(system, ())):
            for rating in ratings:
                if rating is not None and rating.spans is not None:
                    spans = [
                        [span.start, span.end, span.severity, span.category]
                        for span in rating.spans
                        if not span.in_source
                    ]
                    marks[i].append([rating.rater, spans])
    return marks if any(marks) else None


def _all_rounded(values: FloatArray) -> list[float | None]:
    return [rounded(clean(value)) for value in values]


class MarkedError(NamedTuple):
    """Code points of a text from `start` to before `end`; they may be none."""

    start: int
    end: int
    severity: str
    confidence: float | None


def marked_errors(text: Text, reason: Mapping[str, Any]) -> list[MarkedError] | None:
    """The errors that a metric marks in a text, in order; None where it marks none and never does.

    >>> marked_errors("a cat", {"errors": [{"start": 2, "end": 5, "severity": "minor"}]})
    [MarkedError(start=2, end=5, severity='minor', confidence=None)]
    """
    sentences, parts = [str(text)], [reason]
    if isinstance(text, Document) and isinstance(reason.get("sentences"), list):
        sentences, parts = list(text.sentences), reason["sentences"]
    if len(sentences) != len(parts):
        return None
    errors: list[MarkedError] = []
    first = 0
    for sentence, part in zip(sentences, parts, strict=True):
        of_sentence = _read(sentence, part)
        if of_sentence is None:
            return None
        errors += [e._replace(start=e.start + first, end=e.end + first) for e in of_sentence]
        # Sentences of a document stand a blank apart.
        first += len(sentence) + 1
    return errors


def _read(sentence: str, part: Any) -> list[MarkedError] | None:
    """The errors in one sentence, without blanks around them; None where the data is no such errors."""
    entries = part.get("errors") if isinstance(part, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        return None
    errors = []
    for entry in entries:
        start, end, severity = (entry.get(name) for name in ("start", "end", "severity"))
        in_text = isinstance(start, int) and isinstance(end, int) and start <= end <= len(sentence)
        if not in_text or start < 0 or severity not in SEVERITIES:
            return None
        inside = sentence[start:end]
        start += len(inside) - len(inside.lstrip())
        end = max(start, end - len(inside) + len(inside.rstrip()))
        confidence = entry.get("confidence")
        is_number = isinstance(confidence, float | int)
        errors.append(MarkedError(start, end, severity, float(confidence) if is_number else None))
    return sorted(errors)


def pieces(text: str, errors: Sequence[MarkedError]) -> list[tuple[str, str | None]]:
    """A text in pieces, each with the severity of the error it is, or None; of errors that overlap the first counts.

    >>> pieces("a cat", [MarkedError(2, 5, "minor", None)])
    [('a ', None), ('cat', 'minor')]
    """
    made: list[tuple[str, str | None]] = []
    last = 0
    for error in errors:
        if error.start < last:
            continue
        if error.start > last:
            made.append((text[last : error.start], None))
        made.append((text[error.start : error.end], error.severity))
        last = error.end
    if last < len(text):
        made.append((text[last:], None))
    return made


def in_words(text: str, errors: Sequence[MarkedError]) -> str:
    """Errors as a line: severity, what is marked, and confidence.

    >>> in_words("a cat", [MarkedError(2, 5, "minor", 0.5), MarkedError(5, 5, "major", None)])
    'minor "cat" 0.50, major at 5'
    """
    return ", ".join(_described(text, errors)) or "none"


def _described(text: str, errors: Sequence[MarkedError]) -> Iterator[str]:
    for error in errors:
        marked = text[error.start : error.end]
        place = f'"{marked}"' if marked else f"at {error.start}"
        confidence = "" if error.confidence is None else f" {error.confidence:.2f}"
        yield f"{error.severity} {place}{confidence}"


@dataclass(frozen=True)
class ChosenRow:
    """The row of a list on the page: its id, which candidate was chosen, how far ahead of the runner-up."""

    id: str
    index: Annotated[int, Field(ge=0)]
    gap: float | None


@dataclass(frozen=True)
class ReadInput:
    """How much of the input a run has read."""

    entries: Annotated[int, Field(ge=0, le=sys.maxsize)]
    digest: str


@dataclass(frozen=True)
class RunHead:
    """The run file: what the results depend on, and counts of them."""

    name: str
    signature: str | list[str]
    settings: dict[str, Any]
    counts: dict[str, int]
    versions: dict[str, str]
    input: ReadInput
    complete: bool = False
    files: dict[str, str] = field(
        default_factory=dict
    )  # further files, by the names of their options


@dataclass(frozen=True)
class ChosenRun:
    """A run of ``decode`` or ``rerank`` as it stands on disk.

    Args:
        path: its rows.
        head: its run file.
        rows: by id of the list, in order.
        errors: its first error records.
        lists: what the page shows of lists, from `explained`.
        unexplained: why the page shows none, where it should.
        meanings: sentences on the numbers and on every metric, by name.
    """

    path: str
    head: RunHead
    rows: Mapping[str, ChosenRow]
    errors: tuple[Mapping[str, Any], ...]
    lists: tuple[Mapping[str, Any], ...] = field(default=())
    unexplained: str | None = None
    meanings: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that its results depend on."""
        return self.head.settings

    @property
    def signatures(self) -> list[str]:
        """Of its metrics: a shortlist's before the utility's, or those of a reranker's features."""
        signature = self.head.signature
        return [signature] if isinstance(signature, str) else signature

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows, candidates, duplicates, errors, and of every flag how many lists have it."""
        return self.head.counts


def read_run(path: str | Path) -> ChosenRun:
    """The run whose rows stand at `path`.

    Raises:
        InputError: no run file beside it, rows that are no JSON rows, or files that are damaged or do not fit together.
    """
    head = read_head(path)
    lines = lines_of_run(path)
    with closing(LineSource(lines)) as source:
        rows = [checked(ChosenRow, line, f"{lines}:{n}", _FIX) for n, line in source]
    errors = _first_errors(f"{path}.errors.jsonl") if head.counts.get("errors") else []
    return ChosenRun(str(path), head, {row.id: row for row in rows}, tuple(errors))


def read_head(path: str | Path) -> RunHead:
    """The run file of the run whose rows stand at `path`; rows and errors are what it says.

    Raises:
        InputError: there is none, or it is of rows that are no JSON rows, or these are damaged.
    """
    run_file = Path(f"{path}.run.json")
    if not run_file.exists():
        problem = f"is not the output of decode or rerank: there is no {run_file}"
        raise InputError(problem, where=str(path), fix=f"{_FIX}, {_WITH_RUN_FILE}")
    values = read_run_file(run_file, _FIX)
    head = from_json(RunHead, values, str(run_file), f"{_FIX}, {_WITH_RUN_FILE}")
    format, decoder = head.settings.get("format"), head.settings.get("decoder")
    if format != "jsonl" or decoder not in ("mbr", "rerank"):
        fix = "Run decode or rerank with --format jsonl"
        raise InputError("is no run with a row per list", where=str(path), fix=fix)
    recorded = recorded_run(values, str(run_file), AS_INPUT)
    checked_output(lines_of_run(path), "rows", recorded, AS_INPUT)
    checked_output(Path(f"{path}.errors.jsonl"), "errors", recorded, AS_INPUT)
    return head


def _first_errors(path: str) -> list[Mapping[str, Any]]:
    lines = islice(LineSource(path), MAX_ERRORS)
    return [checked(dict[str, Any], line, f"{path}:{n}", _FIX) for n, line in lines]


def explained(run: ChosenRun, record: CandidateList, why: Mapping[str, Any]) -> dict[str, Any]:
    """One list on the page: every text once, the ranks that refer to them, and the reasons.

    Args:
        run: the run, whose own choice stands beside the one computed again.
        record: the list.
        why: what ``discorank explain`` says of it.
    """
    texts: dict[str, int] = {}  # the index of every text in the list of texts
    ranking_shown = [_ranked(ranked, record, texts) for ranked in why["ranking"]]
    row = run.rows.get(record.id)
    shown = {
        "id": record.id,
        "source": why["source"],
        "context": why.get("context", []),
        "candidates": why["candidates"],
        "distinct": why["distinct"],
        "gap": rounded(why["gap"]),
        **({"answer": why["answer"], "votes": why["votes"]} if "votes" in why else {}),
        "flags": why["flags"],
        "chosen": None if row is None else row.index,
        "ranking": ranking_shown,
        "texts": list(texts),
    }
    return dict(_writable(shown))


def _ranked(
    ranked: Mapping[str, Any], record: CandidateList, texts: dict[str, int]
) -> dict[str, Any]:
    """One rank of a ranking, its texts replaced by their numbers in `texts`, which grows by new ones."""
    agreeing = []
    for other in ranked["agreeing"]:
        number_of_text = texts.setdefault(other["text"], len(texts))
        agreeing.append((number_of_text, rounded(other["utility"])))
    candidate = record.candidates[ranked["index"]]
    logprob = {} if candidate.logprob is None else {"logprob": candidate.logprob}
    return {
        "index": ranked["index"],
        "count": ranked["count"],
        "utility": rounded(ranked["utility"]),
        "text": texts.setdefault(ranked["text"], len(texts)),
        "beside": {**logprob, **candidate.fields},
        "agreeing": agreeing,
        "why": ranked["why"],
        "marked": {
            name: pieces(ranked["text"], [MarkedError(**error) for error in errors])
            for name, errors in ranked.get("errors", {}).items()
        },
    }


def _writable(value: Any) -> Any:
    """JSON data with words for the numbers that JSON cannot write."""
    if isinstance(value, Mapping):
        return {name: _writable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(inner) for inner in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def as_data(run: ChosenRun) -> dict[str, Any]:
    """The data of the browser of lists."""
    return {"lists": run.lists, "isRerank": run.settings["decoder"] == "rerank"}


def has_marks(run: ChosenRun) -> bool:
    """Whether a metric marks errors in any text shown."""
    return any(ranked["marked"] for shown in run.lists for ranked in shown["ranking"])


def story(run: ChosenRun) -> list[str]:
    """The run in sentences, in which metrics have no settings: their signatures stand below."""
    counts, num_lists = run.counts, len(run.rows)
    names = [without_settings(as_typed(signature)) for signature in run.signatures]
    metrics = " and ".join(names) or "features"
    sentences = [f"{with_noun(num_lists, 'list was', 'lists were')} decided by {metrics}."]
    gaps = _finite_gaps(run)
    if gaps:
        winner = "The winner is" if len(gaps) == 1 else "In the middle list the winner is"
        sentences.append(f"{winner} ahead of the runner-up by {number(median(gaps))}.")
    num_ties = sum(gap == 0 for gap in gaps)
    if num_ties:
        sentences.append(f"{with_noun(num_ties, 'list is a tie', 'lists are ties')}.")
    if num_lists:
        num_others = sum(row.index != 0 for row in run.rows.values())
        lists = with_noun(num_lists, "list", "lists")
        sentences.append(f"In {num_others} of {lists} another candidate than the first was chosen.")
    if counts.get("candidates"):
        percent = 100 * counts.get("duplicates", 0) / counts["candidates"]
        candidates = with_noun(counts["candidates"], "candidate", "candidates")
        sentences.append(f"{percent:.0f} % of {candidates} are duplicates.")
    return sentences


def _finite_gaps(run: ChosenRun) -> list[float]:
    """How far winners are ahead, of lists with more than one text."""
    return [row.gap for row in run.rows.values() if row.gap is not None and isfinite(row.gap)]


def cautions(run: ChosenRun) -> list[str]:
    """Notes for the reader of the run."""
    counts = run.counts
    sentences = []
    if run.unexplained:
        sentences.append(f"No list is shown with reasons: {run.unexplained}.")
    if not run.head.complete:
        sentences.append("The run is not complete: run the same command again to resume.")
    if counts.get("errors"):
        failed = with_noun(
            counts["errors"],
            "list could not be decided and has",
            "lists could not be decided and have",
        )
        sentences.append(f"{failed} no row; see the errors.")
    for name, num_lists in sorted(counts.items()):
        if name.startswith("truncated"):
            lists = with_noun(num_lists, "list", "lists")
            sentences.append(
                f"In {lists} something was too long for a model and not read whole ({name})."
            )
    if counts.get(NO_AGREEMENT):
        lists = with_noun(counts[NO_AGREEMENT], "list", "lists")
        sentences.append(f"In {lists} no two candidates have the same answer, so the first wins.")
    changed = [
        shown["id"]
        for shown in run.lists
        if shown["chosen"] not in (None, shown["ranking"][0]["index"])
    ]
    if changed:
        lists = with_noun(len(changed), "list comes", "lists come")
        sentences.append(
            f"Computed again, {lists} out otherwise, such as {changed[0]}: other versions or another device."
        )
    return sentences
