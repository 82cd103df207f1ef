"""JSON lines of sockeye-translate --nbest-size N: ``{"sentence_id", "translations": [...], "scores": [...], ...}``.

``score`` is Sockeye's own, a negative log-probability divided by its length penalty: lower is better, and there is no
``logprob``. Where a line has one translation, it is the one candidate. ``text``, which Sockeye passes through from JSON
input, is the source; other keys are passed on (``document``, ``position`` mean what they mean in candidate lists).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource
from ....rerank.lists import CandidateList, finite, read_list
from ...files.entries import ListEntry, error_entry, list_entry
from ..format_table import NUMBERED, Format, one_file
from .jsonl import read_objects

_OWN = frozenset({"sentence_id", "text", "translation", "score", "translations", "scores"})
# keys with one value per translation, and what these become in a candidate
_FIELDS = {"alignments": "alignment", "translations_factors": "factors"}
_WRITTEN = frozenset({"id", "candidates"})


def read_sockeye(source: LineSource) -> Iterator[ListEntry]:
    """One entry per line, but for empty lines at the end; errors as `read_jsonl`."""
    return read_objects(source, _read_line)


def _read_line(name: str, number: int, line: bytes) -> Iterator[ListEntry]:
    """The entry of a line."""
    raw = line + b"\n"
    list_id = None
    try:
        data = parse_json(line)
        list_id = _sentence_id(data)
        entry = list_entry(_candidate_list(data, list_id), number, raw)
    except InputError as error:
        entry = error_entry(error, name, number, raw, list_id)
    yield entry


def _sentence_id(data: Any) -> str:
    """The id of the sentence; raises InputError where there is none."""
    value = data.get("sentence_id") if isinstance(data, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise InputError(
            f"found {excerpt(value)}, expected a number or a text",
            where="sentence_id",
            fix="Run sockeye-translate with --output-type json",
        )
    return str(value)


def _candidate_list(data: Mapping[str, Any], list_id: str) -> CandidateList:
    """The candidate list that a line of Sockeye's makes."""
    if taken := _WRITTEN & data.keys():
        raise InputError(
            "is a key of candidate lists",
            where=min(taken),
            fix="Give the key another name",
        )
    columns = _columns(data)
    rows = zip(*columns.values(), strict=True)
    candidates = [_candidate(dict(zip(columns, row, strict=True))) for row in rows]
    record = {"source": data["text"]} if "text" in data else {}
    for key, value in data.items():
        if key not in _OWN and key not in _FIELDS:
            record[key] = value
    return read_list({**record, "id": list_id, "candidates": candidates})


def _columns(data: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Texts, scores and further fields, one value per translation each."""
    texts = data.get("translations")
    scores = data.get("scores")
    if texts is None:
        if "translation" not in data:
            raise InputError(
                "no translations",
                where="translations",
                fix="Run sockeye-translate with --nbest-size",
            )
        texts = [data["translation"]]
        scores = [data.get("score")]
    columns = {"text": _array(texts, "translations"), "score": _array(scores, "scores")}
    for key, name in _FIELDS.items():
        if key in data:
            columns[name] = _array(data[key], key)
    num_translations = len(columns["text"])
    for name, values in columns.items():
        if len(values) != num_translations:
            problem = f"{len(values)} values for {num_translations} translations"
            raise InputError(problem, where=name)
    return columns


def _array(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"found {excerpt(value)}, expected an array", where=where)
    limits().check("candidates", len(value), where)
    return value


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
