"""A comparison of systems on disk: a folder with the texts, scores and tests, from which a report can be made later.

``comparison.json`` holds what concerns whole systems, ``documents.jsonl`` a document per line with its texts and
scores. The first is written last and holds a digest of the second, so a folder is complete or refused. Numbers that
are none (NaN) are null.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError

from ...metrics.errors import InputError, ResourceError
from ..runs.rows import as_line
from .comparison import MetaEvaluation, SystemComparison, clean
from .document_outputs import DocumentOutputs, Judgements
from .significance import Verdicts
from .system_scores import Scored

KIND, VERSION = "discorank-comparison", 1
FILES = HEAD, DOCUMENTS = "comparison.json", "documents.jsonl"
Number = Annotated[float, Field(allow_inf_nan=False)] | None
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

    @property
    def order(self) -> list[int]:
        """The systems, best first; those without a score last."""
        sign = -1.0 if self.higher_is_better else 1.0
        found = [(score is None, sign * (score or 0.0), s) for s, score in enumerate(self.scores)]
        return [s for _, _, s in sorted(found)]

    def p(self, a: int, b: int) -> float:
        """p of two systems; 1 of one and itself."""
        return self._p_values.get((min(a, b), max(a, b)), 1.0)

    @cached_property
    def _p_values(self) -> dict[tuple[int, int], float]:
        return {(pair.a, pair.b): pair.p for pair in self.pairs}


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
    choosers: tuple[KeptTable, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, in the order of the file."""
        return self.metrics[0].systems

    @property
    def level(self) -> float:
        """Of significance."""
        return float(self.settings["level"])


def kept(
    found: SystemComparison, settings: Mapping[str, Any], choosers: Sequence[KeptTable] = ()
) -> KeptComparison:
    """What is saved of a comparison; settings (level, draws, seed, ...) and tables of choosers are kept as they are."""
    metrics = tuple(
        _scores(one, verdicts) for one, verdicts in zip(found.scored, found.verdicts, strict=True)
    )
    human = tuple(_human(one, found.scored) for one in found.meta)
    versions = {"discorank": version("discorank")}
    return KeptComparison(
        dict(settings), versions, metrics, human, tuple(_documents(found)), tuple(choosers)
    )


def save(comparison: KeptComparison, folder: str | Path) -> None:
    """Writes a comparison into a folder, which is made if needed and may hold an earlier one.

    Raises:
        InputError: the folder holds something else, or cannot be made.
        ResourceError: writing failed.
    """
    path = Path(folder)
    check_folder(path)
    digest = blake2b(digest_size=16)
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / HEAD).unlink(missing_ok=True)
        with open(path / DOCUMENTS, "wb") as file:
            for document in comparison.documents:
                line = as_line(asdict(document))
                digest.update(line)
                file.write(line)
        head = {name: value for name, value in asdict(comparison).items() if name != "documents"}
        counted = {"count": len(comparison.documents), "digest": digest.hexdigest()}
        (path / HEAD).write_bytes(
            as_line({"kind": KIND, "version": VERSION, **head, "documents": counted})
        )
    except OSError as error:
        raise ResourceError(f"cannot be written: {error.strerror}", where=str(path)) from error


def check_folder(path: Path) -> None:
    """Raises InputError if something stands there that is no saved comparison."""
    if path.exists() and not path.is_dir():
        raise InputError("is a file", where=str(path), fix="Name a folder")
    if path.is_dir() and (other := {file.name for file in path.iterdir()} - {*FILES}):
        raise InputError(
            f"holds {min(other)!r:.80}",
            where=str(path),
            fix="Name a new folder, or one saved before",
        )


def load(folder: str | Path) -> KeptComparison:
    """The comparison in a folder.

    Raises:
        InputError: there is none, it is of another version, damaged, or not what `save` writes.
    """
    path = Path(folder)
    if sets := sorted(
        one.parent.name for one in path.glob(f"*/{HEAD}") if not (path / HEAD).exists()
    ):
        fix = "Name one of its folders"
        raise InputError(
            f"holds {len(sets)} comparisons: {', '.join(sets)}", where=str(path), fix=fix
        )
    head = _read_head(path / HEAD)
    counted = head.pop("documents", None)
    lines = _read_bytes(path / DOCUMENTS)
    if not isinstance(counted, dict) or blake2b(lines, digest_size=16).hexdigest() != counted.get(
        "digest"
    ):
        reason = "is not the file that was saved with it"
        raise InputError(reason, where=str(path / DOCUMENTS), fix="Compare again with --save")
    rows = enumerate(lines.split(b"\n")[:-1], 1)
    documents = [checked(KeptDocument, row, f"{path / DOCUMENTS}:{n}") for n, row in rows]
    whole = json.dumps({**head, "documents": []})
    found = checked(KeptComparison, whole.encode(), str(path / HEAD))
    made = replace(found, documents=tuple(documents))
    _check_shapes(made, path)
    return made


def _scores(scored: Scored, verdicts: Verdicts) -> KeptScores:
    pairs = (
        KeptPair(p.a, p.b, clean(p.difference), p.p_corrected, clean(p.low), clean(p.high))
        for p in verdicts.pairs
    )
    scores, low, high = (
        tuple(map(clean, column)) for column in (verdicts.scores, verdicts.low, verdicts.high)
    )
    clusters = tuple(verdicts.clusters.tolist())
    about = (scored.name, scored.higher_is_better, scored.systems)
    return KeptScores(
        *about, scores, low, high, clusters, tuple(pairs), verdicts.exact, scored.cuts
    )


def _human(one: MetaEvaluation, scored: Sequence[Scored]) -> KeptHuman:
    rows = zip(scored, one.units, one.systems, one.segments, strict=True)
    agreement = tuple(
        KeptAgreement(m.name, unit, _numbers(s), _numbers(g)) for m, unit, s, g in rows
    )
    names = [metric.name for metric in scored]
    tests = (
        KeptTest(names[t.a], names[t.b], t.p_pearson, t.p_accuracy, t.p_williams) for t in one.tests
    )
    return KeptHuman(_scores(one.human, one.verdicts), agreement, tuple(tests))


def _numbers(statistics: Any) -> dict[str, Number]:
    """The numbers of a named tuple, NaN as None."""
    values = statistics._asdict().items()
    return {name: clean(x) if isinstance(x, int | float) else None for name, x in values}


def _documents(found: SystemComparison) -> Iterator[KeptDocument]:
    by_document = {one.name: one.document_scores() for one in found.scored}
    by_segment = {one.name: one.segments for one in found.scored if one.segments is not None}
    names = [*found.systems, *(name for one in found.meta for name in one.human.systems)]
    start = 0
    for d, document in enumerate(found.documents):
        end = start + document.segments
        yield KeptDocument(
            document.id,
            document.whole,
            document.source,
            {name: document.systems[name] for name in found.systems},
            dict(document.references),
            {name: tuple(map(clean, values[:, d])) for name, values in by_document.items()},
            {
                name: tuple(tuple(map(clean, row)) for row in v[:, start:end])
                for name, v in by_segment.items()
            },
            {dimension: _given(scores, names) for dimension, scores in _judged(found, document)},
        )
        start = end


def _judged(
    found: SystemComparison, document: DocumentOutputs
) -> Iterator[tuple[str, Mapping[str, Judgements]]]:
    for one in found.meta:
        yield one.human.name, document.human.get(one.human.name, {})


def _given(scores: Mapping[str, Judgements], names: Sequence[str]) -> dict[str, Judgements]:
    return {name: scores[name] for name in dict.fromkeys(names) if name in scores}


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        fix = "Name a folder that discorank compare --save wrote"
        raise InputError(f"cannot be read: {error.strerror}", where=str(path), fix=fix) from error


def _read_head(path: Path) -> dict[str, Any]:
    data = _read_bytes(path)
    try:
        head = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"not JSON ({error})", where=str(path), fix="Compare again with --save"
        ) from error
    if not isinstance(head, dict) or head.pop("kind", None) != KIND:
        raise InputError(
            "not a saved comparison", where=str(path), fix="Make one with discorank compare --save"
        )
    if (number := head.pop("version", None)) != VERSION:
        fix = "Compare again with --save"
        raise InputError(
            f"is of version {number!r:.20}, expected {VERSION}", where=str(path), fix=fix
        )
    return head


def checked(kind: type[T], data: bytes, where: str, fix: str = "Compare again with --save") -> T:
    """A value of a dataclass from JSON; raises InputError with `where` and `fix` for what is none."""
    try:
        found: T = _adapter(cast(Hashable, kind)).validate_json(data)
        return found
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{place or 'found'}: {first['msg']}", where=where, fix=fix) from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter[Any](kind)


def _check_shapes(found: KeptComparison, path: Path) -> None:
    """Raises InputError unless all parts are of the same systems and metrics."""
    level = found.settings.get("level")
    if (
        not found.metrics
        or not found.documents
        or not isinstance(level, float)
        or not 0 < level < 1
    ):
        raise InputError(
            "no metrics, documents or level", where=str(path), fix="Compare again with --save"
        )
    for one in (*found.metrics, *(human.scores for human in found.human)):
        _check_scores(one, path)
        if strange := set(one.systems) - set(found.systems):
            raise InputError(
                f"{one.name!r:.80} is of {min(strange)!r:.80}, which is no system",
                where=str(path / HEAD),
            )
    names = [one.name for one in found.metrics]
    metrics_agree = all(one.systems == found.systems for one in found.metrics)
    if not metrics_agree or any(
        [a.metric for a in human.agreement] != names for human in found.human
    ):
        raise InputError(
            "its parts are of different systems or metrics",
            where=str(path / HEAD),
            fix="Compare again",
        )
    if any(len(row) != len(table.head) for table in found.choosers for row in table.rows):
        raise InputError(
            "a table of choosers is uneven", where=str(path / HEAD), fix="Compare again with --save"
        )
    for document in found.documents:
        _check_document(document, found, path)


def _check_scores(one: KeptScores, path: Path) -> None:
    n = len(one.systems)
    columns = (one.scores, one.low, one.high, one.clusters)
    if any(len(column) != n for column in columns) or any(
        not 0 <= p.a < p.b < n for p in one.pairs
    ):
        raise InputError(
            f"{n} systems, and other numbers of {one.name!r:.80}", where=str(path / HEAD)
        )


def _check_document(document: KeptDocument, found: KeptComparison, path: Path) -> None:
    names, n = {one.name for one in found.metrics}, len(found.systems)
    texts = [*document.systems.values(), *document.references.values()]
    texts += [document.source] if document.source is not None else []
    length = len(texts[0]) if texts else 0
    fits = tuple(document.systems) == found.systems and all(len(one) == length for one in texts)
    fits = fits and set(document.scores) == names >= set(document.segments)
    fits = fits and all(
        len(values) == n for values in (*document.scores.values(), *document.segments.values())
    )
    if not fits or any(
        len(row) != length for values in document.segments.values() for row in values
    ):
        where = f"{path / DOCUMENTS}: document {document.id!r:.80}"
        raise InputError(
            "its texts and scores do not fit together", where=where, fix="Compare again with --save"
        )
