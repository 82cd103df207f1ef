"""``discorank score -m METRIC ... --hypotheses F ... --references F ...``: scores per segment and per system.

The segments come from files aligned by line, or from one JSONL, a segment per line.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import count
from typing import Any, Literal, NamedTuple

import numpy as np

from ...integrations.arrow.open_rows import open_rows
from ...integrations.files.entries import SeenKeys, TextLines
from ...integrations.formats.system_texts import OutputFiles, is_plain
from ...metrics.base import Metric
from ...metrics.errors import InputError, excerpt
from ...metrics.execution import segment_scores
from ...metrics.execution.cache import Cache
from ...metrics.execution.evaluate import compared
from ...metrics.execution.meter import Meter
from ...metrics.execution.store import Store
from ...metrics.mixture import Mix, Utility, added
from ...metrics.optional_packages import failures_named
from ...metrics.representations import FloatArray
from ...metrics.spec.checked_settings import settings
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.text.texts import Text
from ...rerank.lists import plain, read_candidate, with_digits
from ...rerank.runs.resumable import as_line
from ...rerank.runs.run_file import check_beside
from ...tables import Table, decimals, metric_names, printed_rows, whole, words
from ..options import Given, command, needed
from ..options.decoders import MetricOptions, check_references
from ..options.output_formats import OutputOptions
from ..options.system_outputs import aligned_outputs
from ..running import check_not_input, complete_rows
from ..terminal.console import say
from ..terminal.watching import judged_line

BATCH = 4096  # segments that are scored at a time
COLUMNS = (
    words("system", "system"),
    metric_names("metric", "metric"),
    decimals("corpus", "corpus"),
    decimals("mean", "mean"),
    whole("segments", "segments"),
)


@settings
class ScoreOptions:
    """What is scored.

    Args:
        input: one JSONL instead of the files below, a segment per line: hypothesis (a text, or an object of systems),
            and what the metrics need of references, source and document; or a table of such rows.
        columns: which column of a table, or key of JSON lines, is which key, such as hypothesis=answer.
        metric: metrics by name or signature.
        hypotheses: one file per system, a segment per line.
        references: files of references, aligned by line; several are several references.
        sources: the file of sources, aligned by line.
        documents: the file of document ids, aligned by line.
        format: what is printed for each system, text or json.
    """

    input: str | None = None
    columns: tuple[str, ...] = ()
    metric: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    sources: str | None = None
    documents: str | None = None
    format: Literal["text", "json"] = "text"


@command(
    "Score texts. The table goes to stdout, a row per segment to -o.",
    positional={"input": "?"},
    short={"metric": "m", "output": "o"},
    first=["hypotheses", "references", "metric", "sources", "documents", "output"],
    examples=[
        "score --hypotheses examples:beam.txt --references examples:ref.txt -m chrf bleu",
        "score examples:segments.parquet --columns hypothesis=answer -m chrf ter -o scores.jsonl",
        "score examples:segments.parquet --columns hypothesis=answer -m chrf --format json",
    ],
)
def score(options: ScoreOptions, to: OutputOptions, loading: MetricOptions, given: Given) -> None:
    """Scores aligned segments."""
    _check_mode(options, given)
    metrics = loading.beside(to.output).load_all(needed(options.metric, "metric"))
    if options.hypotheses and not options.references:
        check_references(metrics)
    inputs = [options.input, options.sources, options.documents]
    check_not_input(to.output, [*inputs, *options.hypotheses, *options.references])
    metrics = [_fitted(metric, options) for metric in metrics]
    stores, notes = _Stores(loading.cache()), Counter[str]()
    by_system: dict[str, list[_SystemScores]] = {}
    with complete_rows(to.output) if to.output else nullcontext() as file:
        for batch in batches(read_segments(options)):
            stores.of_metric.clear()
            for system in systems_of(batch, by_system):
                if system not in by_system:
                    by_system[system] = [_SystemScores(metric, stores, notes) for metric in metrics]
                by_metric = by_system[system]
                batch_scores = [scores.add(batch, system) for scores in by_metric]
                if file is not None:
                    names = [scores.name for scores in by_metric]
                    file.writelines(_segment_lines(batch, system, names, batch_scores))
    if not by_system:
        where = options.input or "--hypotheses"
        raise InputError("no segments", where=where, fix="Give at least one line")
    _say_remarks(notes, by_system, stores.meter)
    rows = [scores.row(system) for system, own in by_system.items() for scores in own]
    sys.stdout.write(printed_rows([Table("", COLUMNS, rows)], options.format))


def _check_mode(options: ScoreOptions, given: Given) -> None:
    """Raises InputError for options that the other form of input has."""
    if not options.input:
        given.refuse(["columns"], "has no effect beside --hypotheses")
        return
    files = ("hypotheses", "references", "sources", "documents")
    given.refuse(files, "has no effect beside INPUT")


def _say_remarks(
    notes: Counter[str], by_system: Mapping[str, Sequence[_SystemScores]], meter: Meter
) -> None:
    """Says which texts were too long or have no score, and what judges were asked."""
    for what, number in (+notes).items():
        say(what.format(number))
    lacking = Counter[str]()
    for by_metric in by_system.values():
        lacking.update({own.name: own.num_segments - own.num_scored for own in by_metric})
    for name, number in (+lacking).items():
        say(f"{name}: {number} segments have no score, and are left out of means")
    if judged := judged_line(meter.now):
        say(judged)


def _fitted(metric: Utility, options: ScoreOptions) -> Utility:
    """The metric with what it learns from a corpus, here all references."""
    if not any(part.unfitted for _, part in metric.parts):
        return metric
    if options.input == "-":
        fix = "Give a file instead of -"
        raise InputError("is read twice to fit a metric", where="INPUT", fix=fix)
    texts = [text for segment in read_segments(options) for text in segment.references]
    with failures_named(metric.signature()):
        return metric.fit(texts)


class _Stores:
    """The stores of one batch, shared by all systems, and what was done in all."""

    def __init__(self, cache: Cache | None) -> None:
        self.cache, self.meter = cache, Meter()
        self.of_metric: dict[Metric, Store] = {}

    def of(self, metric: Metric) -> Store:
        """That of a metric."""
        if metric not in self.of_metric:
            self.of_metric[metric] = Store(metric.scorer, self.cache, self.meter)
        return self.of_metric[metric]


class _SystemScores:
    """One metric on one system: a score per segment, their mean, and the metric's own corpus score."""

    def __init__(self, metric: Utility, stores: _Stores, notes: Counter[str]) -> None:
        self.metric, self.name = metric, metric.signature()
        self.stores, self.notes = stores, notes
        self.total, self.num_segments, self.num_scored = 0.0, 0, 0
        self.has_sources: bool | None = None  # whether the segments so far have
        self.statistics: list[list[FloatArray]] = [[] for _ in metric.parts]  # by part and batch

    def add(self, batch: Sequence[Segment], system: str) -> FloatArray:
        """Scores a batch, [n]."""
        hypotheses = [segment.hypotheses[system] for segment in batch]
        references = [segment.references for segment in batch]
        sources = [segment.source for segment in batch]
        self._check_sources(batch)
        documents = _column([segment.document for segment in batch])
        values = np.zeros(len(batch))
        for (weight, part), part_statistics in zip(self.metric.parts, self.statistics, strict=True):
            try:
                segments = part.segments(hypotheses, references, sources, documents)
                store = self.stores.of(part)
                scores, statistics = segment_scores.scores_and_statistics(part, segments, store)
                may_lack = part.info.may_lack
                places = [f"system {system!r:.80}, segment {segment.number}" for segment in batch]
                segment_scores.check_scores(part.signature(), scores, places, may_lack)
                lifted = (compared(part, segment) for segment in segments)
                cuts = sum(store.truncation_of(segment) > 0 for segment in lifted)
                too_long = f"{part.name}: {{}} segments were too long, and not all of their text or context was read"
                self.notes[too_long] += cuts
                for flag in (flag for segment in segments for flag in part.remarks(segment)):
                    self.notes[f"{part.name}: {{}} segments have {flag}"] += 1
                part_statistics.append(statistics)
            except InputError as error:
                raise placed(error, batch) from None
            if isinstance(self.metric, Mix):
                values = added(values, weight * part.utility_sign, scores, self.name)
            else:
                values = scores
        has_score = np.isfinite(values)
        self.total += float(values[has_score].sum())
        self.num_segments += len(batch)
        self.num_scored += int(has_score.sum())
        return values

    def _check_sources(self, batch: Sequence[Segment]) -> None:
        """Raises InputError where an earlier batch had sources and this one has none, or the other way round."""
        has_sources = any(segment.source is not None for segment in batch)
        if self.has_sources is None:
            self.has_sources = has_sources
        if has_sources != self.has_sources:
            for _, part in self.metric.parts:
                part.check_sources((None, "") if has_sources else ("", None), [batch[0].where] * 2)

    def row(self, system: str) -> dict[str, Any]:
        """The system's line of the table."""
        corpora = []
        for (_, part), statistics in zip(self.metric.parts, self.statistics, strict=True):
            with failures_named(part.signature()):
                corpora.append(part.scorer.aggregate(np.concatenate(statistics)))
        corpus = corpora[0]
        if isinstance(self.metric, Mix):
            terms = zip(self.metric.parts, corpora, strict=True)
            corpus = sum(weight * part.utility_sign * value for (weight, part), value in terms)
        mean = self.total / self.num_scored if self.num_scored else np.nan
        segment_scores.check_scores(
            self.name, np.array([[corpus, mean]]), [f"system {system!r:.80}"]
        )
        return {
            "system": system,
            "metric": self.name,
            "corpus": corpus,
            "mean": mean,
            "segments": self.num_segments,
        }


def _column(values: Sequence[Any]) -> Sequence[Any] | None:
    """The values, or None where any is missing."""
    return None if any(value is None for value in values) else values


def _segment_lines(
    batch: Sequence[Segment],
    system: str,
    names: Sequence[str],  # of the metrics
    scores: Sequence[FloatArray],  # [metrics][segments]
) -> Iterator[bytes]:
    """A row for every segment of a system."""
    for i, segment in enumerate(batch):
        row = {
            "segment": segment.number,
            "document": segment.document,
            "system": system,
            "scores": {name: float(values[i]) for name, values in zip(names, scores, strict=True)},
            "hypothesis": plain(segment.hypotheses[system]),
        }
        yield as_line(row)


class Segment(NamedTuple):
    """One aligned segment of all systems."""

    where: str
    number: int
    hypotheses: Mapping[str, Text]
    references: tuple[Text, ...]
    source: Text | None
    document: str | None


def read_segments(options: ScoreOptions) -> Iterator[Segment]:
    """The segments that the options name."""
    return _from_rows(options.input, options.columns) if options.input else _from_files(options)


def batches(segments: Iterator[Segment]) -> Iterator[list[Segment]]:
    """Some thousand segments at a time, whole documents."""
    batch: list[Segment] = []
    seen, last = SeenKeys(), None
    for segment in segments:
        document = segment.document
        if document is not None and document != last and not seen.add(document):
            raise InputError(
                f"{document!r} comes back after another document",
                where=f"{segment.where}: document",
                fix="The segments of one document are adjacent",
            )
        last = document
        if len(batch) >= BATCH and (document is None or document != batch[-1].document):
            yield batch
            batch = []
        batch.append(segment)
    if batch:
        yield batch


def systems_of(segments: Sequence[Segment], known: Mapping[str, Any]) -> list[str]:
    """The systems, which every segment must have."""
    systems = list(known or segments[0].hypotheses)
    for segment in segments:
        if set(segment.hypotheses) != set(systems):
            names = ", ".join(sorted(segment.hypotheses))
            raise InputError(
                f"found systems {names}; the first line has {', '.join(systems)}",
                where=segment.where,
            )
    return systems


def placed(error: InputError, batch: Sequence[Segment]) -> InputError:
    """The error at its line of the input instead of its place in the batch."""
    match = re.fullmatch(r"(\w+)\[(\d+)\](.*)", error.where)
    if match is None:
        return error
    column, i, rest = match.groups()
    where = f"{batch[int(i)].where}: {column}{rest}"
    return InputError(error.problem, where=where, fix=error.fix)


def _from_files(options: ScoreOptions) -> Iterator[Segment]:
    """Segments from files that are aligned by line."""
    names = needed(options.hypotheses, "hypotheses")
    if len(set(names)) < len(names):
        raise InputError("a file is given twice", where="hypotheses", fix="Give each system once")
    num_systems, num_references = len(names), len(options.references)
    single = [name for name in (options.sources, options.documents) if name]
    files = [*names, *options.references, *single]
    for name in files:
        check_beside(name)
    if not all(map(is_plain, files)):
        yield from _from_outputs(options)
        return
    columns = [(line.decode() for _, line in TextLines(name)) for name in files]
    for number, lines in enumerate(_together(columns, files), 1):
        references = lines[num_systems : num_systems + num_references]
        rest = list(lines[num_systems + num_references :])
        source = rest.pop(0) if options.sources else None
        document = rest.pop(0) if options.documents else None
        hypotheses = dict(zip(names, lines[:num_systems], strict=True))
        yield Segment(f"line {number}", number, hypotheses, references, source, document)


def _from_outputs(options: ScoreOptions) -> Iterator[Segment]:
    """Segments from runs, n-best lists and JSON with texts, as `compare` reads them."""
    files = OutputFiles(options.hypotheses, options.references, options.sources, options.documents)
    outputs = aligned_outputs(files)
    names = {name: path for path, name in outputs.names.items() if path in files.hypotheses}
    number = 0
    for row in outputs.rows:
        segments = len(next(iter(row["systems"].values())))
        for i in range(segments):
            number += 1
            systems = {names.get(name, name): texts[i] for name, texts in row["systems"].items()}
            references = tuple(texts[i] for texts in row["references"].values())
            source = row["source"][i] if "source" in row else None
            document = row["id"] if outputs.has_documents else None
            yield Segment(f"segment {number}", number, systems, references, source, document)


def _together(columns: Sequence[Iterator[str]], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Lines of all files side by side; InputError with both counts where one is shorter."""
    for number in count():
        lines = [next(column, None) for column in columns]
        if all(line is None for line in lines):
            return
        if None in lines:
            first_longer = next(i for i, line in enumerate(lines) if line is not None)
            num_lines = number + 1 + sum(1 for _ in columns[first_longer])
            raise InputError(
                f"{number} lines, {names[first_longer]} has {num_lines}",
                where=names[lines.index(None)],
                fix="Give files with a segment per line, in the same order",
            )
        yield tuple(line for line in lines if line is not None)


def _from_rows(path: str, columns: Sequence[str]) -> Iterator[Segment]:
    """Segments from one file of JSON lines, or a Parquet or Arrow file."""
    check_beside(path)
    source = open_rows(path, columns, "segment")
    for number, line in source:
        where = f"{path}:{number}"
        try:
            if number == 1 and not line.lstrip().startswith(b"{"):
                raise _flat_text(path)
            yield _segment(parse_json(line), where, number)
        except InputError as error:
            raise error.inside(where) from None


def _flat_text(path: str) -> InputError:
    """The error for a file of rows that holds plain text."""
    name = shlex.quote(path)
    command = f"discorank score --hypotheses {name} --references REFERENCES -m chrf"
    fix = f"Name files of one text per line by options: {command}"
    return InputError("is no JSON object", fix=fix)


def _segment(row: Any, where: str, number: int) -> Segment:
    """A line of the input."""
    if not isinstance(row, Mapping) or "hypothesis" not in row:
        raise InputError("no hypothesis", fix='Write {"hypothesis": ..., "references": [...]}')
    hypothesis = row["hypothesis"]
    is_by_system = isinstance(hypothesis, Mapping) and "text" not in hypothesis
    systems = hypothesis if is_by_system else {str(row.get("system", "hypothesis")): hypothesis}
    hypotheses = {
        name: read_candidate(text, f"hypothesis.{name}").text for name, text in systems.items()
    }
    source, document = row.get("source"), row.get("document")
    references = _references(row.get("references", []))
    if document is not None and not isinstance(document, str):
        raise InputError(f"found {excerpt(document)}, expected a string", where="document")
    source_text = None if source is None else read_candidate(source, "source").text
    return Segment(where, number, hypotheses, references, source_text, document)


def _references(texts: Any) -> tuple[Text, ...]:
    """The references of a segment: a text or an array of them."""
    texts = with_digits(texts)
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list):
        raise InputError(f"found {excerpt(texts)}, expected an array", where="references")
    return tuple(
        read_candidate(with_digits(text), f"references[{i}]").text for i, text in enumerate(texts)
    )
