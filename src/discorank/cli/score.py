"""``discorank score -m METRIC ... --hypotheses F ... --references F ...``: scores per segment and per system."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from ..integrations.files.seen_keys import SeenKeys
from ..integrations.files.strict_json import parse_json
from ..metrics.base import Metric
from ..metrics.errors import InputError, excerpt
from ..metrics.execution import evaluate
from ..metrics.execution.by_sentence import lift
from ..metrics.execution.cache import Cache
from ..metrics.execution.store import Store
from ..metrics.mixture import Mix, Utility
from ..metrics.representations import FloatArray
from ..metrics.spec.checked_settings import settings
from ..metrics.text.line_source import LineSource
from ..metrics.text.texts import Text
from ..rerank.lists import plain, read_candidate
from ..rerank.runs.rows import as_line
from ..tables import aligned
from .console import say
from .inputs import cache_in, check_model, metric_in
from .options import Options, needed
from .running import OutputOptions, check_not_input, complete_or_absent
from .score_contrastive import run_contrastive

BATCH = 4096


@settings
class ScoreOptions:
    """What is scored.

    Args:
        input: one JSONL instead of the files below, a segment per line: hypothesis (a text, or an object of systems),
            and what the metrics need of references, source and document.
        metric: metrics by name or signature.
        hypotheses: one file per system, a segment per line.
        references: files of references, aligned by line; several are several references.
        sources: the file of sources, aligned by line.
        documents: the file of document ids, aligned by line.
        contrastive: instead of all these, JSONL of contrastive items; how often the correct translation ranks first.
        format: what is printed for each system, text or json.
    """

    input: str | None = None
    metric: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    sources: str | None = None
    documents: str | None = None
    contrastive: str | None = None
    format: Literal["text", "json"] = "text"


OPTIONS = Options(
    "score",
    "Score texts. The table goes to stdout, a row per segment to -o.",
    [ScoreOptions, OutputOptions],
    positional={"input": "?"},
    short={"metric": "m", "output": "o"},
)


class Segment(NamedTuple):
    """One aligned segment of all systems."""

    where: str
    number: int
    hypotheses: Mapping[str, Text]
    references: tuple[Text, ...]
    source: Text | None
    document: str | None


def run(arguments: Sequence[str]) -> int:
    """Scores; returns the exit code."""
    values = OPTIONS.parse(arguments)
    if values["contrastive"]:
        return run_contrastive(values)
    metrics = [metric_in(values, spec) for spec in needed(values, "metric", "--metric")]
    check_model(values, metrics)
    files = [
        values["input"],
        values["sources"],
        values["documents"],
        *values["hypotheses"],
        *values["references"],
    ]
    check_not_input(values["output"], files)
    metrics = [_fitted(metric, values) for metric in metrics]
    stores: dict[Metric, Store] = {}  # of one batch, shared by all systems
    cache, cuts = cache_in(values), Counter[str]()
    segments = _segments(values)
    scored: dict[str, list[_Scores]] = {}
    with _segment_file(values["output"]) as file:
        for batch in _batches(segments):
            stores.clear()
            for system in _systems(batch, scored):
                found = scored.setdefault(
                    system, [_Scores(metric, stores, cache, cuts) for metric in metrics]
                )
                new = [scores.add(batch, system) for scores in found]
                _write_segments(file, batch, system, found, new)
    if not scored:
        raise InputError(
            "no segments", where=values["input"] or "--hypotheses", fix="Give at least one line"
        )
    for name, n in (+cuts).items():
        say(
            f"{name}: {n} segments were too long, and not all of their text or context was read",
            values["quiet"],
        )
    rows = [scores.row(system) for system, found in scored.items() for scores in found]
    sys.stdout.write(_table(rows) if values["format"] == "text" else "".join(map(_json, rows)))
    return 0


def _segments(values: Mapping[str, Any]) -> Iterator[Segment]:
    return _from_jsonl(values["input"]) if values["input"] else _from_files(values)


def _fitted(metric: Utility, values: Mapping[str, Any]) -> Utility:
    """The metric with what it learns from a corpus, here all references."""
    if not any(part.unfitted for _, part in metric.parts):
        return metric
    if values["input"] == "-":
        raise InputError(
            "is read twice to fit a metric", where="INPUT", fix="Give a file instead of -"
        )
    return metric.fit([text for segment in _segments(values) for text in segment.references])


def _batches(segments: Iterator[Segment]) -> Iterator[list[Segment]]:
    """Some thousand segments at a time, whole documents."""
    batch: list[Segment] = []
    seen, last = SeenKeys(), None
    for segment in segments:
        if (
            segment.document is not None
            and segment.document != last
            and not seen.add(segment.document)
        ):
            raise InputError(
                f"{segment.document!r} comes back after another document",
                where=f"{segment.where}: document",
                fix="The segments of one document are adjacent",
            )
        last = segment.document
        if len(batch) >= BATCH and (
            segment.document is None or segment.document != batch[-1].document
        ):
            yield batch
            batch = []
        batch.append(segment)
    if batch:
        yield batch


class _Scores:
    """One metric on one system: a score per segment, their mean, and the metric's own corpus score."""

    def __init__(
        self, metric: Utility, stores: dict[Metric, Store], cache: Cache | None, cuts: Counter[str]
    ) -> None:
        self.metric, self.name, self.stores, self.cache, self.cuts = (
            metric,
            metric.signature(),
            stores,
            cache,
            cuts,
        )
        self.total, self.segments = 0.0, 0
        self.statistics: list[list[FloatArray]] = [[] for _ in metric.parts]

    def add(self, batch: Sequence[Segment], system: str) -> FloatArray:
        """Scores a batch, [n]."""
        hypotheses = [segment.hypotheses[system] for segment in batch]
        references = [segment.references for segment in batch]
        sources = _column([segment.source for segment in batch])
        documents = _column([segment.document for segment in batch])
        values = np.zeros(len(batch))
        for (weight, part), rows in zip(self.metric.parts, self.statistics, strict=True):
            try:
                segments = part.segments(hypotheses, references, sources, documents)
                store = self.stores.setdefault(part, Store(part.scorer, self.cache))
                own, new = evaluate.scores_and_statistics(part, segments, store)
                self.cuts[part.name] += sum(
                    store.truncation_of(lift(part, one, strict=True)) > 0 for one in segments
                )
                rows.append(new)
            except InputError as error:
                raise _placed(error, batch) from None
            values += own if not isinstance(self.metric, Mix) else weight * part.utility_sign * own
        self.total += float(values.sum())
        self.segments += len(batch)
        return values

    def row(self, system: str) -> dict[str, Any]:
        """The system's line of the table."""
        corpora = [
            part.scorer.aggregate(np.concatenate(rows))
            for (_, part), rows in zip(self.metric.parts, self.statistics, strict=True)
        ]
        corpus = corpora[0]
        if isinstance(self.metric, Mix):
            terms = zip(self.metric.parts, corpora, strict=True)
            corpus = sum(weight * part.utility_sign * value for (weight, part), value in terms)
        mean = self.total / self.segments
        return {
            "system": system,
            "metric": self.name,
            "corpus": corpus,
            "mean": mean,
            "segments": self.segments,
        }


def _placed(error: InputError, batch: Sequence[Segment]) -> InputError:
    """The error at its line of the input instead of its place in the batch."""
    found = re.fullmatch(r"(\w+)\[(\d+)\](.*)", error.where)
    if not found:
        return error
    return InputError(
        error.problem, where=f"{batch[int(found[2])].where}: {found[1]}{found[3]}", fix=error.fix
    )


def _column(values: Sequence[Any]) -> Sequence[Any] | None:
    """The values, or None where any is missing."""
    return None if any(value is None for value in values) else values


def _systems(segments: Sequence[Segment], known: Mapping[str, Any]) -> list[str]:
    """The systems, which every segment must have."""
    systems = list(known or segments[0].hypotheses)
    for segment in segments:
        if set(segment.hypotheses) != set(systems):
            found = ", ".join(sorted(segment.hypotheses))
            raise InputError(
                f"found systems {found}; the first line has {', '.join(systems)}",
                where=segment.where,
            )
    return systems


def _from_files(values: Mapping[str, Any]) -> Iterator[Segment]:
    names = needed(values, "hypotheses", "--hypotheses")
    single = [name for name in (values["sources"], values["documents"]) if name]
    files = [*names, *values["references"], *single]
    if len(set(names)) < len(names):
        raise InputError("a file is given twice", where="--hypotheses", fix="Give each system once")
    columns = [(line.decode() for _, line in LineSource(name)) for name in files]
    for number, lines in enumerate(_together(columns, files), 1):
        rest = list(lines[len(names) + len(values["references"]) :])
        source = rest.pop(0) if values["sources"] else None
        document = rest.pop(0) if values["documents"] else None
        references = tuple(lines[len(names) : len(names) + len(values["references"])])
        yield Segment(
            f"line {number}",
            number,
            dict(zip(names, lines, strict=False)),
            references,
            source,
            document,
        )


def _together(columns: Sequence[Iterator[str]], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Lines of all files side by side; InputError with both counts where one is shorter."""
    for number in count():
        lines = [next(column, None) for column in columns]
        if all(line is None for line in lines):
            return
        if None in lines:
            longer = (
                number
                + 1
                + sum(
                    1 for _ in columns[next(i for i, line in enumerate(lines) if line is not None)]
                )
            )
            raise InputError(
                f"{number} lines, another file has {longer}",
                where=names[lines.index(None)],
                fix="Align the files",
            )
        yield tuple(line for line in lines if line is not None)


def _from_jsonl(path: str) -> Iterator[Segment]:
    for number, line in LineSource(path):
        where = f"{path}:{number}"
        try:
            yield _segment(parse_json(line), where, number)
        except InputError as error:
            raise error.inside(where) from None


def _segment(row: Any, where: str, number: int) -> Segment:
    if not isinstance(row, Mapping) or "hypothesis" not in row:
        raise InputError("no hypothesis", fix='Write {"hypothesis": ..., "references": [...]}')
    given = row["hypothesis"]
    named = isinstance(given, Mapping) and "text" not in given
    systems = given if named else {str(row.get("system", "hypothesis")): given}
    hypotheses = {
        name: read_candidate(text, f"hypothesis.{name}").text for name, text in systems.items()
    }
    several = row.get("references", [])
    several = [several] if isinstance(several, str) else several
    if not isinstance(several, list):
        raise InputError(f"found {excerpt(several)}, expected an array", where="references")
    references = tuple(
        read_candidate(text, f"references[{i}]").text for i, text in enumerate(several)
    )
    source = row.get("source")
    document = row.get("document")
    if document is not None and not isinstance(document, str):
        raise InputError(f"found {excerpt(document)}, expected a string", where="document")
    text = None if source is None else read_candidate(source, "source").text
    return Segment(where, number, hypotheses, references, text, document)


@contextmanager
def _segment_file(path: str | None) -> Iterator[BinaryIO | None]:
    """A file for rows per segment that takes its name when it is complete; None if not asked for."""
    if path is None:
        yield None
        return
    with complete_or_absent(path) as file:
        yield file


def _write_segments(
    file: BinaryIO | None,
    batch: Sequence[Segment],
    system: str,
    found: Sequence[_Scores],
    new: Sequence[FloatArray],
) -> None:
    if file is None:
        return
    for i, segment in enumerate(batch):
        scores = {one.name: float(values[i]) for one, values in zip(found, new, strict=True)}
        row = {
            "segment": segment.number,
            "document": segment.document,
            "system": system,
            "scores": scores,
        }
        file.write(as_line({**row, "hypothesis": plain(segment.hypotheses[system])}))


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["system", "metric", "corpus", "mean", "segments"]
    shown = [
        [
            str(r["system"]),
            r["metric"],
            f"{r['corpus']:.4f}",
            f"{r['mean']:.4f}",
            str(r["segments"]),
        ]
        for r in rows
    ]
    return aligned([head, *shown]) + "\n"


def _json(row: Mapping[str, Any]) -> str:
    return as_line(dict(row)).decode()
