"""JSON lines of sockeye-translate --nbest-size N: ``{"sentence_id", "translations": [...], "scores": [...], ...}``.

``score`` is Sockeye's own, a negative log-probability divided by its length penalty: lower is better, and there is no
``logprob``. Where a line has one translation, it is the one candidate. ``text``, which Sockeye passes through from JSON
input, is the source; other keys are passed on (``document``, ``position`` mean what they mean in candidate lists).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource
from ....rerank.lists import CandidateList, finite, read_list
from ...files.entries import ListEntry, typed
from ..format_table import NUMBERED, Format, one_file
from .jsonl import entry_of_line, recognised_lines

# keys with one value per translation, and what these become in a candidate
_COLUMNS = {
    "translations": "text",
    "scores": "score",
    "alignments": "alignment",
    "translations_factors": "factors",
}
_OWN = frozenset({"sentence_id", "text", "translation", "score", *_COLUMNS})


@dataclass(frozen=True)
class _Sentence:
    """A line of Sockeye."""

    sentence_id: int | str
    translation: Any = None
    score: Any = None
    translations: list[Any] | None = None
    scores: list[Any] | None = None
    alignments: list[Any] | None = None
    translations_factors: list[Any] | None = None


def read_sockeye(source: LineSource) -> Iterator[ListEntry]:
    """One entry per line, but for empty lines at the end; errors as `recognised_lines`."""
    for number, line in recognised_lines(source):
        yield entry_of_line(source.name, number, line, _candidate_list, "sentence_id")


def _candidate_list(data: Any, number: int) -> CandidateList:
    """The candidate list that a line of Sockeye makes."""
    fix = "Run sockeye-translate with --output-type json"
    sentence: _Sentence = typed(_Sentence, data, fix=fix)
    if taken := {"id", "candidates"} & data.keys():
        fix = "Give the key another name"
        raise InputError("is a key of candidate lists", where=min(taken), fix=fix)
    columns = {name: getattr(sentence, key) for key, name in _COLUMNS.items()}
    if sentence.translations is None:
        if sentence.translation is None:
            fix = "Run sockeye-translate with --nbest-size"
            raise InputError("no translations", where="translations", fix=fix)
        columns |= {"text": [sentence.translation], "score": [sentence.score]}
    count = len(columns["text"])
    limits().check("candidates", count, "translations")
    for key, name in _COLUMNS.items():
        values = columns[name]
        if len(values or ()) != count and (values is not None or name == "score"):
            problem = f"{len(values or ())} values for {count} translations"
            raise InputError(problem, where=key)
    known = {name: values for name, values in columns.items() if values is not None}
    rows = zip(*known.values(), strict=True)
    candidates = [_candidate(dict(zip(known, row, strict=True))) for row in rows]
    record = {key: value for key, value in data.items() if key not in _OWN}
    if "text" in data:
        record = {"source": data["text"], **record}
    return read_list({**record, "id": sentence.sentence_id, "candidates": candidates})


def _candidate(row: dict[str, Any]) -> dict[str, Any]:
    """The score as a number, of several (target factors) the first; the infinite one of an empty source is left out."""
    score = row.pop("score")
    if isinstance(score, list) and score:
        score, *factor_scores = score
        if factor_scores:
            row["factor_scores"] = factor_scores
    if score is None or (isinstance(score, float) and not isfinite(score)):
        return row
    if finite(score) is None:
        raise InputError(f"found {excerpt(score)}, expected a number", where="scores")
    return {**row, "score": score}


FORMATS = (
    Format(
        "sockeye",
        "an n-best list of Sockeye",
        one_file(read_sockeye),
        NUMBERED,
        keys=("translations", "translation"),
        example='{"sentence_id": 0, "translations": ["a text", "b"], "scores": [[0.5], [0.7]]}\n',
    ),
)
