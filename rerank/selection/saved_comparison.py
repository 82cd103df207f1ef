"""The folder of a saved comparison of systems, of which ``discorank report`` makes a page.

``comparison.json`` holds what concerns whole systems, ``documents.jsonl`` a document per line with its texts and
judgements, ``scores.npy`` the cube of scores as `numpy.load` reads it. The first holds digests of the others and a
checksum of itself, so a folder is as it was written, or refused; it takes its place when it is whole, and an earlier
one stays until then.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...metrics.errors import InputError, ResourceError
from ...metrics.representations import FloatArray
from ...metrics.spec.checked_settings import from_json
from ...metrics.storage.atomic_files import complete_folder
from ...metrics.storage.bounded_files import read_small_file
from ...metrics.storage.checksums import KEY, check, with_checksum
from ..runs.resumable import as_line
from .comparison import MetaEvaluation, ScoreCube, SystemComparison
from .ratings import People
from .significance import Verdicts
from .system_scores import DocumentOutputs, RatedSpan

KIND, VERSION = "discorank-comparison", 4
FILES = HEAD, DOCUMENTS, SCORES = "comparison.json", "documents.jsonl", "scores.npy"
_COMPARE_AGAIN = "Compare again with --save"
_NAME_A_FOLDER = "Name a folder that discorank compare --save wrote"
_EDITED = f'{_COMPARE_AGAIN}; if it was edited on purpose, take "{KEY}" out of it'
T = TypeVar("T")


@dataclass(frozen=True)
class _Head:
    """What the first file holds."""

    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    metrics: tuple[Verdicts, ...]
    human: tuple[MetaEvaluation, ...]
    people: People
    digests: Mapping[str, str]  # of the other files


def save(comparison: SystemComparison, folder: str | Path) -> None:
    """Write a comparison as a folder, which takes the place of an earlier one when it is whole.

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
        documents = b"".join(as_line(asdict(document)) for document in comparison.documents)
        scores = _npy_header(comparison.scores.values.shape) + comparison.scores.values.tobytes()
        (draft / DOCUMENTS).write_bytes(documents)
        (draft / SCORES).write_bytes(scores)
        head = _Head(
            comparison.settings,
            comparison.versions,
            comparison.metrics,
            comparison.human,
            comparison.people,
            {DOCUMENTS: _digest(documents), SCORES: _digest(scores)},
        )
        row = with_checksum({"kind": KIND, "version": VERSION, **asdict(head)})
        (draft / HEAD).write_bytes(as_line(row))


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _npy_header(shape: tuple[int, ...]) -> bytes:
    """The first bytes of an array of little-endian numbers in numpy's format."""
    header = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, about)
    return header.getvalue()


def check_folder(path: Path) -> None:
    """Raises InputError if something stands there that is not a saved comparison."""
    if path.exists() and not path.is_dir():
        raise InputError("is a file", where=str(path), fix="Name a folder")
    other = {file.name for file in path.iterdir()} - {*FILES} if path.is_dir() else set()
    if other:
        fix = "Name a new folder, or one saved before"
        raise InputError(f"holds {min(other)!r:.80}", where=str(path), fix=fix)


def load(folder: str | Path) -> SystemComparison:
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
    data = {}
    for name in (DOCUMENTS, SCORES):
        data[name] = read_small_file(path / name, _NAME_A_FOLDER, name="saved_bytes")
        if _digest(data[name]) != head.digests.get(name):
            problem = "is not the file that was saved with it"
            raise InputError(problem, where=str(path / name), fix=_COMPARE_AGAIN)
    documents = tuple(
        checked(DocumentOutputs, line, f"{path / DOCUMENTS}:{n}")
        for n, line in enumerate(data[DOCUMENTS].split(b"\n")[:-1], 1)
    )
    for problem, where in _problems(head, documents):
        raise InputError(problem, where=str(path / where), fix=_COMPARE_AGAIN)
    layers = tuple(one.name for one in (*head.metrics, *(human.scores for human in head.human)))
    systems = tuple(documents[0].systems)
    sizes = tuple(document.segments for document in documents)
    values = _values(data[SCORES], (len(layers), len(systems), len(sizes) + sum(sizes)))
    if values is None:
        problem = "does not fit the documents and systems"
        raise InputError(problem, where=str(path / SCORES), fix=_COMPARE_AGAIN)
    scores = ScoreCube(layers, systems, sizes, values)
    parts = (head.settings, head.versions, head.metrics, head.human, head.people)
    return SystemComparison(*parts, documents, scores)


def _values(data: bytes, shape: tuple[int, ...]) -> FloatArray | None:
    """An array of numbers and NaN from its file; None where it has another shape, or infinite numbers."""
    header = _npy_header(shape)
    if not data.startswith(header) or len(data) != len(header) + 8 * int(np.prod(shape)):
        return None
    values = np.frombuffer(data, "<f8", offset=len(header)).reshape(shape)
    return None if np.isinf(values).any() else values


def _read_head(path: Path) -> _Head:
    data = read_small_file(path, _NAME_A_FOLDER, name="memory_bytes")
    head = checked(Any, data, str(path))
    if not isinstance(head, dict) or head.get("kind") != KIND:
        fix = "Make one with discorank compare --save"
        raise InputError("not a saved comparison", where=str(path), fix=fix)
    check(head, str(path), _EDITED)
    if head.get("version") != VERSION:
        problem = f"is of version {head.get('version')!r:.20}, expected {VERSION}"
        raise InputError(problem, where=str(path), fix=_COMPARE_AGAIN)
    return from_json(_Head, head, str(path), _COMPARE_AGAIN)


def checked(kind: type[T], data: bytes, where: str, fix: str = _COMPARE_AGAIN) -> T:
    """A value of a dataclass from JSON; raises InputError with `where` and `fix` for what is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})", where=where, fix=fix) from error
    return from_json(kind, value, where, fix)


def _problems(head: _Head, documents: tuple[DocumentOutputs, ...]) -> Iterator[tuple[str, str]]:
    """Parts that are of different systems or metrics: the problem, and the file."""
    level = head.settings.get("level")
    has_level = isinstance(level, float) and 0 < level < 1
    if not (has_level and head.metrics and documents and documents[0].systems):
        yield "no metrics, documents or level", ""
        return
    systems, names = tuple(documents[0].systems), [scores.name for scores in head.metrics]
    for scores in (*head.metrics, *(human.scores for human in head.human)):
        n = len(scores.systems)
        numbers = (scores.scores, scores.low, scores.high, scores.clusters)
        fits = {n} == {len(own) for own in (*numbers, scores.judged or scores.systems)}
        if not (fits and all(0 <= pair.a < pair.b < n for pair in scores.pairs)):
            yield f"{n} systems, and other numbers of {scores.name!r:.80}", HEAD
        if strange := set(scores.systems) - set(systems):
            problem = f"{scores.name!r:.80} is of {min(strange)!r:.80}, which is not a system"
            yield problem, HEAD
    if any(scores.systems != systems for scores in head.metrics) or any(
        [agreement.metric for agreement in human.agreement] != names for human in head.human
    ):
        yield "its parts are of different systems or metrics", HEAD
    for document in documents:
        if tuple(document.systems) != systems or not _texts_fit(document):
            problem = f"document {document.id!r:.80}: its texts and ratings do not fit together"
            yield problem, DOCUMENTS


def _texts_fit(document: DocumentOutputs) -> bool:
    """Whether all texts and ratings have equally many segments, and spans are inside these."""
    texts = [*document.systems.values(), *document.references.values()]
    texts += [] if document.source is None else [document.source]
    lengths = {len(text) for text in texts}
    for by_system in document.ratings.values():
        for system, rated in by_system.items():
            own = document.systems.get(system, ())
            lengths |= {len(own), len(rated)}
            for text, ratings in zip(own, rated, strict=False):
                spans = [span for rating in ratings if rating for span in rating.spans or ()]
                if not all(_span_fits(span, text) for span in spans):
                    return False
    return len(lengths) == 1


def _span_fits(span: RatedSpan, text: str) -> bool:
    if span.start is None or span.end is None:
        return span.start is span.end
    return span.in_source or 0 <= span.start <= span.end <= len(text)
