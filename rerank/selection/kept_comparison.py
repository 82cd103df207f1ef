"""A comparison of systems as it is saved and told: texts, scores and tests as plain rows, and their folder on disk.

``comparison.json`` holds what concerns whole systems, ``documents.jsonl`` a document per line with its texts and
scores. The first holds a digest of the second and a checksum of itself, so a folder is as it was written, or refused;
it takes its place when it is whole, and an earlier one stays until then. Numbers that are none (NaN) are None.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar

from ...metrics.errors import InputError, ResourceError
from ...metrics.spec.checked_settings import Field
from ...metrics.spec.checked_values import from_json
from ...metrics.storage.atomic_files import complete_folder
from ...metrics.storage.bounded_files import read_small_file
from ...metrics.storage.checksums import KEY, check, with_checksum
from ..runs.resumable import as_line
from .agreement import SegmentAgreement, SystemAgreement
from .comparison import MetaEvaluation, SystemComparison, clean
from .significance import Verdicts
from .system_scores import DocumentOutputs, Judgements, RatedSpan, RatedTexts, Scored

Number = Annotated[float, Field(allow_inf_nan=False)] | None
KIND, VERSION = "discorank-comparison", 2
FILES = HEAD, DOCUMENTS = "comparison.json", "documents.jsonl"
_COMPARE_AGAIN = "Compare again with --save"
_NAME_A_FOLDER = "Name a folder that discorank compare --save wrote"
_EDITED = f'{_COMPARE_AGAIN}; if it was edited on purpose, take "{KEY}" out of it'
T = TypeVar("T")


@dataclass(frozen=True)
class KeptPair:
    """Two systems by number: a's score minus b's with its interval; p of the randomisation, corrected if asked for."""

    a: int
    b: int
    difference: Number
    p: float
    low: Number
    high: Number
    p_uncorrected: Number = None
    p_bootstrap: Number = None
    common: int | None = None  # segments that are compared, where these differ between pairs


@dataclass(frozen=True)
class KeptScores:
    """Systems under a metric, or under people's judgement: a number per system, a test per pair."""

    name: str
    higher_is_better: bool
    systems: tuple[str, ...]
    scores: tuple[Number, ...]
    low: tuple[Number, ...]
    high: tuple[Number, ...]
    clusters: tuple[int, ...]
    pairs: tuple[KeptPair, ...]
    exact: bool
    cuts: int = 0
    unit: str = "document"  # of the draws
    units: int | None = None
    judged: tuple[int, ...] | None = (
        None  # segments with a score of each system, where these differ
    )

    @property
    def order(self) -> list[int]:
        """The systems, best first; those without a score last."""
        sign = -1.0 if self.higher_is_better else 1.0
        keys = [(score is None, sign * (score or 0.0)) for score in self.scores]
        return sorted(range(len(keys)), key=keys.__getitem__)

    def p(self, a: int, b: int) -> float:
        """p of two systems; 1 of one and itself."""
        pair = self._pairs.get((min(a, b), max(a, b)))
        return 1.0 if pair is None else pair.p

    def is_better(self, a: int, b: int, level: float) -> bool:
        """True if system `a` is significantly better than `b`, by its score and by the test of the pair."""
        score_a, score_b = self.scores[a], self.scores[b]
        if self.p(a, b) >= level or score_a is None or score_b is None or score_a == score_b:
            return False
        difference = self._pairs[min(a, b), max(a, b)].difference or 0.0
        if (difference > 0) != ((score_a > score_b) == (a < b)):
            return False  # the common segments say otherwise
        return (score_a > score_b) == self.higher_is_better

    def common(self, a: int, b: int) -> int | None:
        """The number of segments on which two systems are compared; None where it is the same for all pairs."""
        pair = self._pairs.get((min(a, b), max(a, b)))
        return None if pair is None else pair.common

    def ranks(self, system: int, level: float) -> tuple[int, int]:
        """The best and the worst rank a system may have, as WMT gives them.

        The best is 1 + the number of systems significantly better than it, the worst S - the number of those that it
        is significantly better than.
        """
        systems = range(len(self.systems))
        num_better = sum(self.is_better(other, system, level) for other in systems)
        num_worse = sum(self.is_better(system, other, level) for other in systems)
        return 1 + num_better, len(self.systems) - num_worse

    @cached_property
    def _pairs(self) -> dict[tuple[int, int], KeptPair]:
        return {(pair.a, pair.b): pair for pair in self.pairs}


@dataclass(frozen=True)
class KeptAgreement:
    """A metric against people: statistics of whole systems, and of segments or documents (`unit`), by name."""

    metric: str
    unit: str
    systems: Mapping[str, Number]
    segments: Mapping[str, Number]


@dataclass(frozen=True)
class KeptTest:
    """p that two metrics agree equally well with people."""

    a: str
    b: str
    p_pearson: Number
    p_accuracy: Number
    p_williams: Number
    p_segments: Number = None


@dataclass(frozen=True)
class KeptHuman:
    """People's scores in one dimension, and every metric against them."""

    scores: KeptScores
    agreement: tuple[KeptAgreement, ...]
    tests: tuple[KeptTest, ...]


@dataclass(frozen=True)
class KeptDocument:
    """A document's texts and scores; `scores` by metric [systems], `segments` by metric [systems, segments]."""

    id: str
    whole: bool
    source: tuple[str, ...] | None
    systems: Mapping[str, tuple[str, ...]]
    references: Mapping[str, tuple[str, ...]]
    scores: Mapping[str, tuple[Number, ...]]
    segments: Mapping[str, tuple[tuple[Number, ...], ...]]
    human: Mapping[str, Mapping[str, tuple[Number, ...] | float]]
    ratings: Mapping[str, Mapping[str, RatedTexts]] = field(default_factory=dict)


@dataclass(frozen=True)
class KeptTable:
    """A table as it was printed."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class KeptComparison:
    """A comparison as it was saved."""

    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    metrics: tuple[KeptScores, ...]
    human: tuple[KeptHuman, ...]
    documents: tuple[KeptDocument, ...]
    people: tuple[KeptTable, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, in the order of the file."""
        return tuple(self.documents[0].systems)

    @property
    def level(self) -> float:
        """Of significance."""
        return float(self.settings["level"])


def kept(
    comparison: SystemComparison,
    settings: Mapping[str, Any],
    people: Sequence[KeptTable] = (),
) -> KeptComparison:
    """A saved comparison; settings (level, draws, seed, ...) and tables on annotators are kept as they are."""
    metrics = []
    for scored, verdicts in zip(comparison.scored, comparison.verdicts, strict=True):
        metrics.append(_scores(scored, verdicts))
    return KeptComparison(
        settings=dict(settings),
        versions={"discorank": version("discorank")},
        metrics=tuple(metrics),
        human=tuple(_human(meta, comparison.scored) for meta in comparison.meta),
        documents=tuple(_documents(comparison)),
        people=tuple(people),
    )


def _scores(scored: Scored, verdicts: Verdicts) -> KeptScores:
    """Verdicts on systems as plain numbers."""
    pairs = []
    for pair in verdicts.pairs:
        interval = clean(pair.difference), pair.p_corrected, clean(pair.low), clean(pair.high)
        p_values = clean(pair.p), clean(pair.p_bootstrap)
        pairs.append(KeptPair(pair.a, pair.b, *interval, *p_values, pair.common))
    return KeptScores(
        name=scored.name,
        higher_is_better=scored.higher_is_better,
        systems=tuple(scored.systems),
        scores=tuple(map(clean, verdicts.scores)),
        low=tuple(map(clean, verdicts.low)),
        high=tuple(map(clean, verdicts.high)),
        clusters=tuple(verdicts.clusters.tolist()),
        pairs=tuple(pairs),
        exact=verdicts.exact,
        cuts=scored.cuts,
        unit=verdicts.unit,
        units=verdicts.units,
        judged=verdicts.judged,
    )


def _human(meta: MetaEvaluation, scored: Sequence[Scored]) -> KeptHuman:
    names = [metric.name for metric in scored]
    rows = zip(names, meta.units, meta.systems, meta.segments, strict=True)
    agreement = []
    for name, unit, systems, segments in rows:
        agreement.append(KeptAgreement(name, unit, _numbers(systems), _numbers(segments)))
    tests = []
    for test in meta.tests:
        p_values = (test.p_pearson, test.p_accuracy, test.p_williams, test.p_segments)
        tests.append(KeptTest(names[test.a], names[test.b], *p_values))
    return KeptHuman(_scores(meta.human, meta.verdicts), tuple(agreement), tuple(tests))


def _numbers(statistics: SystemAgreement | SegmentAgreement) -> dict[str, Number]:
    """Statistics by name, NaN as None."""
    numbers: dict[str, Number] = {}
    for name, value in statistics._asdict().items():
        numbers[name] = clean(value) if isinstance(value, float) else value
    return numbers


def _documents(comparison: SystemComparison) -> Iterator[KeptDocument]:
    """Every document with its part of all scores."""
    by_document = {scored.name: scored.document_scores() for scored in comparison.scored}
    by_segment = {}
    for scored in comparison.scored:
        if scored.segments is not None:
            by_segment[scored.name] = scored.segments
    start = 0
    for d, document in enumerate(comparison.documents):
        end = start + document.segments
        segments = {}
        for name, table in by_segment.items():
            segments[name] = tuple(tuple(map(clean, row)) for row in table[:, start:end])
        yield KeptDocument(
            id=document.id,
            whole=document.whole,
            source=document.source,
            systems={name: document.systems[name] for name in comparison.systems},
            references=dict(document.references),
            scores={name: tuple(map(clean, table[:, d])) for name, table in by_document.items()},
            segments=segments,
            human=_judgements(comparison, document),
            ratings=_ratings(comparison, document),
        )
        start = end


def _judgements(
    comparison: SystemComparison, document: DocumentOutputs
) -> dict[str, dict[str, Judgements]]:
    """People's scores of a document, by dimension and by system: those of all systems, then of other judged texts."""
    names = list(comparison.systems)
    for meta in comparison.meta:
        names += meta.human.systems
    judgements = {}
    for meta in comparison.meta:
        scores = document.human.get(meta.human.name, {})
        by_system = {name: scores[name] for name in dict.fromkeys(names) if name in scores}
        judgements[meta.human.name] = by_system
    return judgements


def _ratings(
    comparison: SystemComparison, document: DocumentOutputs
) -> dict[str, dict[str, RatedTexts]]:
    """The ratings of a document in the dimensions that are compared, of systems."""
    kept_ratings: dict[str, dict[str, RatedTexts]] = {}
    for meta in comparison.meta:
        for system, texts in document.ratings.get(meta.human.name, {}).items():
            if system in comparison.systems:
                kept_ratings.setdefault(meta.human.name, {})[system] = texts
    return kept_ratings


def save(comparison: KeptComparison, folder: str | Path) -> None:
    """Writes a comparison as a folder, which takes the place of an earlier one when it is whole.

    Raises:
        InputError: the folder holds something else, or cannot be made.
        ResumeError: another process is writing it.
        ResourceError: writing failed.
    """
    path = Path(folder)
    check_folder(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResourceError(f"cannot be made: {error.strerror}", where=str(path)) from error
    with complete_folder(path) as draft:
        digest = blake2b(digest_size=16)
        with open(draft / DOCUMENTS, "wb") as file:
            for document in comparison.documents:
                line = as_line(_without_empty(asdict(document), "ratings"))
                digest.update(line)
                file.write(line)
        head = _without_empty(asdict(replace(comparison, documents=())), "people")
        counted = {"count": len(comparison.documents), "digest": digest.hexdigest()}
        row = {"kind": KIND, "version": VERSION, **head, "documents": counted}
        (draft / HEAD).write_bytes(as_line(with_checksum(row)))


def _without_empty(row: dict[str, Any], key: str) -> dict[str, Any]:
    """The row without a key that holds nothing: most comparisons have no annotators."""
    return {name: value for name, value in row.items() if value or name != key}


def check_folder(path: Path) -> None:
    """Raises InputError if something stands there that is no saved comparison."""
    if path.exists() and not path.is_dir():
        raise InputError("is a file", where=str(path), fix="Name a folder")
    if not path.is_dir():
        return
    other = {file.name for file in path.iterdir()} - {*FILES}
    if other:
        fix = "Name a new folder, or one saved before"
        raise InputError(f"holds {min(other)!r:.80}", where=str(path), fix=fix)


def load(folder: str | Path) -> KeptComparison:
    """The comparison in a folder.

    Raises:
        InputError: there is none, it is of another version, damaged, or not what `save` writes.
    """
    path = Path(folder)
    sets = [] if (path / HEAD).exists() else sorted(path.glob(f"*/{HEAD}"))
    if sets:
        problem = f"holds {len(sets)} comparisons: {', '.join(head.parent.name for head in sets)}"
        raise InputError(problem, where=str(path), fix="Name one of its folders")
    head = _read_head(path / HEAD)
    counted = head.pop("documents", None)
    lines = read_small_file(path / DOCUMENTS, _NAME_A_FOLDER, name="documents_bytes")
    digest = blake2b(lines, digest_size=16).hexdigest()
    if not isinstance(counted, dict) or digest != counted.get("digest"):
        problem = "is not the file that was saved with it"
        raise InputError(problem, where=str(path / DOCUMENTS), fix=_COMPARE_AGAIN)
    documents = []
    for n, line in enumerate(lines.split(b"\n")[:-1], 1):
        documents.append(checked(KeptDocument, line, f"{path / DOCUMENTS}:{n}"))
    without_documents = {**head, "documents": []}
    comparison = from_json(KeptComparison, without_documents, str(path / HEAD), _COMPARE_AGAIN)
    comparison = replace(comparison, documents=tuple(documents))
    _check_shapes(comparison, path)
    return comparison


def _read_head(path: Path) -> dict[str, Any]:
    data = read_small_file(path, _NAME_A_FOLDER, name="comparison_bytes")
    head = checked(Any, data, str(path))
    if not isinstance(head, dict) or head.get("kind") != KIND:
        fix = "Make one with discorank compare --save"
        raise InputError("not a saved comparison", where=str(path), fix=fix)
    check(head, str(path), _EDITED)
    values = {name: value for name, value in head.items() if name not in ("kind", KEY)}
    number = values.pop("version", None)
    if number != VERSION:
        problem = f"is of version {number!r:.20}, expected {VERSION}"
        raise InputError(problem, where=str(path), fix=_COMPARE_AGAIN)
    return values


def checked(kind: type[T], data: bytes, where: str, fix: str = _COMPARE_AGAIN) -> T:
    """A value of a dataclass from JSON; raises InputError with `where` and `fix` for what is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})", where=where, fix=fix) from error
    return from_json(kind, value, where, fix)


def _check_shapes(comparison: KeptComparison, path: Path) -> None:
    """Raises InputError unless all parts are of the same systems and metrics."""
    for fits, problem, where in _shapes(comparison, path):
        if not fits:
            raise InputError(problem, where=where, fix=_COMPARE_AGAIN)


def _shapes(comparison: KeptComparison, path: Path) -> Iterator[tuple[bool, str, str]]:
    """The conditions on the parts: whether each holds, the problem if not, and where that is."""
    head, level = str(path / HEAD), comparison.settings.get("level")
    has_level = isinstance(level, float) and 0 < level < 1
    has_parts = bool(comparison.metrics and comparison.documents and has_level)
    yield has_parts, "no metrics, documents or level", str(path)
    for scores in (*comparison.metrics, *(human.scores for human in comparison.human)):
        n, name = len(scores.systems), f"{scores.name!r:.80}"
        columns = (scores.scores, scores.low, scores.high, scores.clusters)
        fits = all(len(column) == n for column in columns)
        fits = fits and all(0 <= pair.a < pair.b < n for pair in scores.pairs)
        yield fits, f"{n} systems, and other numbers of {name}", head
        strange = min(set(scores.systems) - set(comparison.systems), default=None)
        yield strange is None, f"{name} is of {strange!r:.80}, which is no system", head
    names = [scores.name for scores in comparison.metrics]
    fits = all(scores.systems == comparison.systems for scores in comparison.metrics)
    for human in comparison.human:
        fits = fits and [agreement.metric for agreement in human.agreement] == names
    yield fits, "its parts are of different systems or metrics", head
    for table in comparison.people:
        is_even = all(len(row) == len(table.head) for row in table.rows)
        yield is_even, "a table is uneven", head
    for document in comparison.documents:
        fits = _texts_fit(document, comparison) and _scores_fit(document, comparison)
        where = f"{path / DOCUMENTS}: document {document.id!r:.80}"
        yield fits, "its texts and scores do not fit together", where
        yield _ratings_fit(document), "its texts and ratings do not fit together", where


def _ratings_fit(document: KeptDocument) -> bool:
    """Whether ratings are of the segments of systems, and spans inside these."""
    for by_system in document.ratings.values():
        for system, texts in by_system.items():
            own = document.systems.get(system, ())
            if len(own) != len(texts):
                return False
            for text, ratings in zip(own, texts, strict=True):
                spans = [s for rating in ratings if rating for s in rating.spans or ()]
                if not all(_span_fits(span, text) for span in spans):
                    return False
    return True


def _span_fits(span: RatedSpan, text: str) -> bool:
    if span.start is None or span.end is None:
        return span.start is span.end
    return span.in_source or 0 <= span.start <= span.end <= len(text)


def _texts_fit(document: KeptDocument, comparison: KeptComparison) -> bool:
    """Whether there is a text of every system, and all texts have equally many segments."""
    lengths = {len(text) for text in _texts(document)}
    return tuple(document.systems) == comparison.systems and len(lengths) <= 1


def _scores_fit(document: KeptDocument, comparison: KeptComparison) -> bool:
    """Whether there are scores of every metric, for every system and segment."""
    names = {scores.name for scores in comparison.metrics}
    if set(document.scores) != names or not names >= set(document.segments):
        return False
    columns = [*document.scores.values(), *document.segments.values()]
    if any(len(column) != len(comparison.systems) for column in columns):
        return False
    texts = _texts(document)
    num_segments = len(texts[0]) if texts else 0
    rows = [row for table in document.segments.values() for row in table]
    return all(len(row) == num_segments for row in rows)


def _texts(document: KeptDocument) -> list[tuple[str, ...]]:
    """The segments of every text: of the systems, the references and the source."""
    texts = [*document.systems.values(), *document.references.values()]
    if document.source is not None:
        texts.append(document.source)
    return texts
