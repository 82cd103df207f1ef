"""JSON lines in the style of SummEval: a summary per line, with its system, references and annotations.

``id``, ``model_id`` and ``decoded`` are needed; ``references`` (or ``reference``) and ``text`` (the article) may be
there. ``expert_annotations`` and ``turker_annotations`` are lists of objects of numbers: people's score of a dimension
is the mean over annotators, of turkers under ``turker_NAME``. Lines of one id need not stand together.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.runs.rows import as_line
from .document_rows import Row

_ANNOTATORS = {"expert_annotations": "", "turker_annotations": "turker_"}


def read_summeval(path: str) -> Iterator[Row]:
    """The documents of a file, plain or gzip, in order of appearance, as rows of whole texts.

    Raises:
        InputError: a line that is no such summary, or a second one of a system; names the line.
    """
    source = LineSource(path)
    rows: dict[str, Row] = {}
    for number, line in without_trailing_blanks(source):
        limits().check("segments", number, path)
        try:
            _add(rows, parse_json(line))
        except RecursionError:
            raise source.refusal(number, "nested too deeply") from None
        except InputError as error:
            raise error.inside(f"{source.name}:{number}") from None
    yield from rows.values()


def _add(rows: dict[str, Row], value: Any) -> None:
    """Takes one summary."""
    if not isinstance(value, dict):
        raise InputError(f"found {excerpt(value)}, expected an object")
    document, system, text = (_needed(value, key) for key in ("id", "model_id", "decoded"))
    references = _references(value)
    article = value.get("text")
    if article is not None and not isinstance(article, str):
        raise InputError(f"found {excerpt(article)}, expected a text", where="text")
    row = rows.setdefault(document, {"id": document})
    if article is not None:
        _same(row, "source", article)
    if references is not None:
        _same(row, "references", references)
    systems = row.setdefault("systems", {})
    if system in systems:
        raise InputError(f"a second summary of {system!r:.80}", where=f"id {document!r:.80}")
    systems[system] = text
    limits().check("systems", len(systems), document)
    for dimension, score in _scores(value).items():
        row.setdefault("human", {}).setdefault(dimension, {})[system] = score


def _needed(value: dict[str, Any], key: str) -> str:
    if not isinstance(value.get(key), str):
        raise InputError(f"found {excerpt(value.get(key))}, expected a text", where=key)
    return str(value[key])


def _references(value: dict[str, Any]) -> dict[str, str] | None:
    """References by number."""
    given = value.get("references", value.get("reference"))
    texts = [given] if isinstance(given, str) else given
    if texts is None:
        return None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"found {excerpt(given)}, expected texts", where="references")
    limits().check("candidates", len(texts), "references")
    return {f"reference{number}": text for number, text in enumerate(texts, 1)}


def _same(row: Row, key: str, value: Any) -> None:
    """Keeps what all summaries of a document share."""
    if row.setdefault(key, value) != value:
        raise InputError(
            f"another {key} than in an earlier line",
            where=f"id {row['id']!r:.80}",
            fix="All summaries of a document share it",
        )


def _scores(value: dict[str, Any]) -> dict[str, float]:
    """Means of the annotations by dimension."""
    means = {}
    for key, prefix in _ANNOTATORS.items():
        annotations = value.get(key) or []
        if not isinstance(annotations, list):
            raise InputError(f"found {excerpt(annotations)}, expected a list", where=key)
        by_dimension: dict[str, list[float]] = {}
        for i, annotation in enumerate(annotations):
            if not isinstance(annotation, dict):
                raise InputError(f"found {excerpt(annotation)}", where=f"{key}[{i}]")
            for dimension, score in annotation.items():
                _check_score(score, f"{key}[{i}].{dimension}")
                by_dimension.setdefault(dimension, []).append(score)
        for dimension, scores in by_dimension.items():
            means[f"{prefix}{dimension}"] = sum(scores) / len(scores)
    return means


def _check_score(score: Any, where: str) -> None:
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not (is_number and isfinite(score)):
        raise InputError(f"found {excerpt(score)}, expected a number", where=where)


def written_summeval(rows: Iterator[Row]) -> Iterator[bytes]:
    """A line per document and system; people's scores are those of one annotator.

    Raises:
        InputError: a document of several segments.
    """
    for row in rows:
        references = list((row.get("references") or {}).values())
        for system, text in row["systems"].items():
            texts = [text, *references]
            if not all(isinstance(each, str) for each in texts):
                raise InputError(
                    "a document of segments",
                    where=f"document {row['id']!r:.80}",
                    fix="Summaries are whole texts",
                )
            line: Row = {"id": row["id"], "model_id": system, "decoded": text}
            line["references"] = references
            if row.get("source") is not None:
                line["text"] = row["source"]
            yield as_line({**line, **_annotations(row, system)})


def _annotations(row: Row, system: str) -> Row:
    """People's scores of a system, as those of one annotator of each kind."""
    annotations: dict[str, dict[str, float]] = {key: {} for key in _ANNOTATORS}
    for dimension, scores in (row.get("human") or {}).items():
        if scores.get(system) is None:
            continue
        is_turker = dimension.startswith("turker_")
        key = "turker_annotations" if is_turker else "expert_annotations"
        annotations[key][dimension.removeprefix("turker_")] = scores[system]
    return {key: [scores] for key, scores in annotations.items() if scores}
