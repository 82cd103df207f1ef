"""A test set of mt-metrics-eval as rows of a systems file, and rows as a test set.

A text that was not supplied is an empty text in a row, which says so: ``not_supplied`` has the segments by name.
Human scores of segments (of documents, where there are no others) stand under ``human``, metrics' scores of segments
under ``metrics``. A row holds no scores of systems or domains, so those of a test set made of rows are means of the
rated segments or documents. Rows without a source make a set without one, which no folder can hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from ....metrics.errors import InputError, excerpt
from ....metrics.representations import FloatArray
from ....rerank.selection.meta_evaluation.eval_set import (
    DocumentPlace,
    EvalSet,
    Level,
    Scores,
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
    own = {system: values[place].tolist() for system, values in scores.items()}
    return {system: _plain(values) for system, values in own.items()}


def _plain(values: Any) -> Any:
    """A number or several, None for nan."""
    if isinstance(values, list):
        return [None if isnan(value) else value for value in values]
    return None if isnan(values) else values


def missing_texts(eval_set: EvalSet) -> int:
    """How many texts of systems and references were not supplied."""
    tables = [*eval_set.outputs.values(), *eval_set.references.values()]
    return sum(text is None for texts in tables for text in texts)


def eval_set_of_rows(
    rows: Iterable[Row], name: str, language_pair: str, lower: Iterable[str] = ()
) -> EvalSet:
    """The test set that documents make.

    Args:
        rows: documents with the same systems and references.
        name: of the test set.
        language_pair: such as en-de.
        lower: human scores of which lower is better: they are negated.

    Raises:
        InputError: there are no documents, or documents differ in systems, references or the form of scores.
    """
    made = _Columns()
    for row in rows:
        made.add(row)
    if not made.documents:
        raise InputError("no documents", where=name, fix="Give at least one")
    judged = {ref for scores in made.human.values() for ref in scores if ref in made.references}
    made.remove_not_supplied()
    outputs = {**made.systems, **{ref: made.references[ref] for ref in sorted(judged)}}
    human: dict[tuple[str, Level], Scores] = {}
    for dimension, by_system in made.human.items():
        sign = -1.0 if dimension in set(lower) else 1.0
        of_levels = _by_level(made, dimension, by_system, sign)
        human |= {(dimension, level): scores for level, scores in of_levels.items()}
    return EvalSet(
        name,
        language_pair,
        tuple(made.documents),
        tuple(made.sources),
        {ref: tuple(texts) for ref, texts in made.references.items()},
        {system: tuple(texts) for system, texts in outputs.items()},
        human,
    )


class _Columns:
    """The texts and scores of all documents, one after the other."""

    def __init__(self) -> None:
        self.documents: list[DocumentPlace] = []
        self.sources: list[str | None] = []
        self.references: dict[str, list[str | None]] = {}
        self.systems: dict[str, list[str | None]] = {}
        self._not_supplied: list[tuple[str, int]] = []  # name and segment
        # dimension -> system -> scores of segments, or of documents
        self.human: dict[str, dict[str, list[float]]] = {}
        self.whole: dict[str, bool] = {}  # whether a dimension has scores of documents

    def add(self, row: Row) -> None:
        """Takes one more document."""
        where = f"document {row.get('id')!r:.80}"
        try:
            sources = _sources(row)
            start, stop = len(self.sources), len(self.sources) + len(sources)
            domain = str(row.get("domain", DOMAIN))
            self.sources += sources
            self._add_texts(self.references, texts_of(row, "references"), stop, "references")
            self._add_texts(self.systems, texts_of(row, "systems"), stop, "systems")
            for dimension, by_system in (row.get("human") or {}).items():
                for system, scores in by_system.items():
                    self._add_scores(dimension, system, scores, start, stop)
            for name, numbers in (row.get("not_supplied") or {}).items():
                self._not_supplied += [(name, start + number) for number in numbers]
            self.documents.append(DocumentPlace(str(row["id"]), domain, start, stop))
        except InputError as error:
            raise error.inside(where) from None

    def remove_not_supplied(self) -> None:
        """Empty texts that were not supplied become none."""
        for name, segment in self._not_supplied:
            for columns in (self.systems, self.references):
                if name in columns and segment < len(columns[name]) and not columns[name][segment]:
                    columns[name][segment] = None

    def _add_texts(
        self,
        columns: dict[str, list[str | None]],
        texts: Mapping[str, list[str]],
        stop: int,
        what: str,
    ) -> None:
        if self.documents and set(texts) != set(columns):
            raise InputError(
                f"{what} {sorted(texts)}, the first document has {sorted(columns)}",
                fix="Give the same of every document",
            )
        for name, added in texts.items():
            column = columns.setdefault(name, [])
            column += added
            if len(column) != stop:
                raise InputError(f"{len(added)} segments", where=f"{what}.{name}")

    def _add_scores(self, dimension: str, system: str, scores: Any, start: int, stop: int) -> None:
        """Takes one system's scores of a document: a list of segments, a number, or None."""
        if scores is None:
            return
        is_whole = not isinstance(scores, list)
        if self.whole.setdefault(dimension, is_whole) != is_whole:
            raise InputError(
                f"found {excerpt(scores)}; other scores are of "
                f"{'segments' if is_whole else 'documents'}",
                where=f"human.{dimension}.{system}",
                fix="Give both kinds under names of their own",
            )
        column = self.human.setdefault(dimension, {}).setdefault(system, [])
        begin, end = (len(self.documents), len(self.documents) + 1) if is_whole else (start, stop)
        column += [np.nan] * (begin - len(column))
        values = [scores] if is_whole else scores
        column += [np.nan if value is None else float(value) for value in values]
        if len(column) != end:
            raise InputError(f"{len(values)} scores", where=f"human.{dimension}.{system}")


def _sources(row: Row) -> list[str | None]:
    """The source's segments; as many of none as the outputs have where there is no source."""
    if row.get("source") is not None:
        return [*segments_of(row["source"], "source")]
    texts = list(texts_of(row, "systems").values())
    return [None] * len(texts[0]) if texts else []


def _by_level(
    made: _Columns, dimension: str, by_system: Mapping[str, list[float]], sign: float
) -> dict[Level, dict[str, FloatArray]]:
    """A dimension's scores of segments or documents, and their means for the levels above."""
    is_whole = made.whole[dimension]
    domains = [document.domain for document in made.documents]
    # the document and the domain of every score
    owner = np.arange(len(made.documents))
    domain_of = np.array([sorted(set(domains)).index(domain) for domain in domains])
    if not is_whole:
        sizes = [document.stop - document.start for document in made.documents]
        owner, domain_of = np.repeat(owner, sizes), np.repeat(domain_of, sizes)
    units: dict[Level, list[Any]] = {
        "doc": [np.flatnonzero(owner == unit) for unit in range(len(made.documents))],
        "domain": [np.flatnonzero(domain_of == unit) for unit in range(len(set(domains)))],
        "sys": [slice(None)],
    }
    levels: dict[Level, dict[str, FloatArray]] = {}
    for system, column in by_system.items():
        values = sign * np.array(column + [np.nan] * (len(owner) - len(column)))
        if not is_whole:
            levels.setdefault("seg", {})[system] = values
        for level, places in units.items():
            means = np.array([_mean(values[place]) for place in places])
            levels.setdefault(level, {})[system] = means
    return levels


def _mean(values: FloatArray) -> float:
    """The mean of the scores there are, nan where there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan
