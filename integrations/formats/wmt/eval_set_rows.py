"""A test set of mt-metrics-eval as rows of a systems file, and rows as a test set.

A text that was not supplied is an empty text in a row, which says so: ``not_supplied`` has the segments by name.
Human scores of segments (of documents, where there are no others) stand under ``human``, metrics' scores of segments
under ``metrics``. A row holds no scores of systems, so those of a test set made of rows are means of the
rated segments or documents. Rows without a source make a set without one, which no folder can hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....metrics.errors import InputError
from ....metrics.representations import FloatArray
from ....rerank.selection.meta_evaluation.eval_set import (
    DocumentPlace,
    EvalSet,
    Level,
    Scores,
    Texts,
)
from ..format_table import Row, segments_of, texts_of
from .eval_set_folder import EvalSetOptions, read_eval_set, the_language_pair

_ROW_LEVELS: tuple[Level, ...] = ("seg", "doc")
DOMAIN = "all"  # of a row that names none
# scores of metrics are not needed to read texts, so those that lack an output are no error
_TEXTS_ONLY = EvalSetOptions(missing="leave-out")


def rows_of_folder(path: str | Path, language_pair: str | None) -> Iterator[Row]:
    """The documents of a folder in a language pair, errors as `the_language_pair` and `read_eval_set`."""
    pair = the_language_pair(path, language_pair)
    yield from eval_set_rows(read_eval_set(path, pair, _TEXTS_ONLY))


def eval_set_rows(eval_set: EvalSet) -> Iterator[Row]:
    """The documents, each with the texts of all systems; a reference that is an output too stands once."""
    human: dict[str, tuple[Level, Scores]] = {}
    for level in _ROW_LEVELS:
        for (name, of_level), scores in eval_set.human_scores.items():
            if of_level == level:
                human.setdefault(name, (level, scores))
    tables = {**eval_set.references, **eval_set.outputs}
    systems = [name for name in eval_set.outputs if name not in eval_set.references]
    for number, document in enumerate(eval_set.documents):
        inside = slice(document.start, document.stop)
        row: Row = {"id": document.name, "domain": document.domain}
        row["source"] = [text or "" for text in eval_set.sources[inside]]
        for key, names in (("references", [*eval_set.references]), ("systems", systems)):
            row[key] = {name: [text or "" for text in tables[name][inside]] for name in names}
        lacking = {
            name: [i for i, text in enumerate(texts[inside]) if text is None]
            for name, texts in tables.items()
        }
        row["not_supplied"] = {name: numbers for name, numbers in lacking.items() if numbers}
        row["human"] = {
            name: _of_document(scores, inside if level == "seg" else number)
            for name, (level, scores) in human.items()
        }
        row["metrics"] = {
            str(name): _of_document(scores, inside)
            for (name, level), scores in eval_set.metric_scores.items()
            if level == "seg"
        }
        yield {key: value for key, value in row.items() if value != {}}


def _of_document(scores: Scores, place: slice | int) -> dict[str, Any]:
    """Scores of one document by system, None for nan: one of the document, or those of its segments."""
    own = {system: values[place] for system, values in scores.items()}
    return {
        name: np.where(np.isnan(one), np.array(None), one).tolist() for name, one in own.items()
    }


def missing_texts(eval_set: EvalSet) -> int:
    """How many texts of systems and references were not supplied."""
    tables = [*eval_set.outputs.values(), *eval_set.references.values()]
    return sum(text is None for texts in tables for text in texts)


def eval_set_of_rows(
    rows: Iterable[Row], name: str, language_pair: str, lower: Iterable[str] = ()
) -> EvalSet:
    """The test set that documents make.

    Args:
        rows: documents with the same systems and references, checked as those of a systems file.
        name: of the test set.
        language_pair: such as en-de.
        lower: human scores of which lower is better: they are negated.

    Raises:
        InputError: there are no documents, or documents differ in systems, references or the form of scores.
    """
    documents = list(rows)
    if not documents:
        raise InputError("no documents", where=name, fix="Give at least one")
    references, systems = (_columns(documents, key) for key in ("references", "systems"))
    sizes = [len(segments_of(next(iter(row["systems"].values())), "systems")) for row in documents]
    stops = np.cumsum(sizes).tolist()
    human: dict[tuple[str, Level], Scores] = {}
    judged: set[str] = set()
    for dimension in dict.fromkeys(key for row in documents for key in row.get("human") or ()):
        sign = -1.0 if dimension in set(lower) else 1.0
        for level, scores in _levels(documents, dimension, sizes, sign).items():
            human[dimension, level] = scores
            judged |= scores.keys() & references.keys()
    sources: list[str | None] = []
    for row, size in zip(documents, sizes, strict=True):
        source = row.get("source")
        sources += [None] * size if source is None else segments_of(source, "source")
    return EvalSet(
        name,
        language_pair,
        tuple(
            DocumentPlace(str(row["id"]), str(row.get("domain", DOMAIN)), stop - size, stop)
            for row, size, stop in zip(documents, sizes, stops, strict=True)
        ),
        tuple(sources),
        references,
        {**systems, **{ref: references[ref] for ref in sorted(judged)}},
        human,
    )


def _columns(documents: Sequence[Row], key: str) -> dict[str, Texts]:
    """The texts of all documents by name; an empty one that was not supplied is None.

    Raises:
        InputError: a document has other names than the first.
    """
    columns: dict[str, list[str | None]] = {name: [] for name in documents[0].get(key) or ()}
    for row in documents:
        texts, lacking = texts_of(row, key), row.get("not_supplied") or {}
        if texts.keys() != columns.keys():
            problem = f"{key} {sorted(texts)}, the first document has {sorted(columns)}"
            where = f"document {row['id']!r:.80}"
            raise InputError(problem, where=where, fix="Give the same of every document")
        for name, own in texts.items():
            missing = lacking.get(name, ())
            columns[name] += [
                text if text or i not in missing else None for i, text in enumerate(own)
            ]
    return {name: tuple(column) for name, column in columns.items()}


def _levels(
    documents: Sequence[Row], dimension: str, sizes: Sequence[int], sign: float
) -> dict[Level, dict[str, FloatArray]]:
    """A dimension's scores of segments or documents, and their means for the levels above."""
    scores = [(row.get("human") or {}).get(dimension) or {} for row in documents]
    given = [value for by_system in scores for value in by_system.values() if value is not None]
    is_whole = not any(isinstance(value, list) for value in given)
    if not is_whole and not all(isinstance(value, list) for value in given):
        fix = "Give both kinds under names of their own"
        raise InputError("scores of segments and of documents", where=f"human.{dimension}", fix=fix)
    ends = np.cumsum(np.ones_like(sizes) if is_whole else sizes)[:-1]
    levels: dict[Level, dict[str, FloatArray]] = {}
    for system in dict.fromkeys(name for by_system in scores for name in by_system):
        values: list[float | None] = []
        for by_system, size in zip(scores, sizes, strict=True):
            own = by_system.get(system)
            values += own if isinstance(own, list) else [own] * (1 if is_whole else size)
        column = sign * np.array(values, float)  # nan for None
        if not is_whole:
            levels.setdefault("seg", {})[system] = column
        means = [_mean(of_document) for of_document in np.split(column, ends)]
        levels.setdefault("doc", {})[system] = np.array(means)
        levels.setdefault("sys", {})[system] = np.array([_mean(column)])
    return levels


def _mean(values: FloatArray) -> float:
    """The mean of the scores there are, nan where there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan
