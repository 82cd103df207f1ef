"""JSON lines of sockeye-translate --nbest-size N: ``{"sentence_id", "translations": [...], "scores": [...], ...}``.

``score`` is Sockeye's own, a negative log-probability divided by its length penalty: lower is better, and there is no
``logprob``. Where a line has one translation, it is the one candidate. ``text``, which Sockeye passes through from JSON
input, is the source; other keys are passed on (``document``, ``position`` mean what they mean in candidate lists).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from ...metrics.errors import InputError, excerpt
from ...metrics.text.line_source import LineSource
from ...rerank.choice import finite
from ...rerank.lists import CandidateList, read_list
from ..files.entries import Entry, bad, good
from ..files.strict_json import parse_json
from .jsonl import read_objects

_OWN = frozenset({"sentence_id", "text", "translation", "score", "translations", "scores"})
_BESIDE = {
    "alignments": "alignment",
    "translations_factors": "factors",
}  # one value per translation
_MADE = frozenset({"id", "candidates"})


def read_sockeye(source: LineSource) -> Iterator[Entry]:
    """One entry per line, but for empty lines at the end; errors as `read_jsonl`."""
    return read_objects(source, _read_line)


def _read_line(name: str, number: int, line: bytes) -> Iterator[Entry]:
    raw, identity = line + b"\n", None
    try:
        data = parse_json(line)
        identity = _identity(data)
        entry = good(_record(data, identity), number, raw)
    except InputError as error:
        entry = bad(error, name, number, raw, identity)
    yield entry


def _identity(data: Any) -> str:
    found = data.get("sentence_id") if isinstance(data, Mapping) else None
    if isinstance(found, bool) or not isinstance(found, int | str) or found == "":
        fix = "Run sockeye-translate with --output-type json"
        raise InputError(
            f"found {excerpt(found)}, expected a number or a text", where="sentence_id", fix=fix
        )
    return str(found)


def _record(data: Mapping[str, Any], identity: str) -> CandidateList:
    if taken := _MADE & data.keys():
        raise InputError(
            "is a key of candidate lists", where=min(taken), fix="Give the key another name"
        )
    texts, scores = (data.get(key) for key in ("translations", "scores"))
    if texts is None:
        if "translation" not in data:
            raise InputError(
                "no translations",
                where="translations",
                fix="Run sockeye-translate with --nbest-size",
            )
        texts, scores = [data["translation"]], [data.get("score")]
    columns: dict[str, list[Any]] = {
        "text": _array(texts, "translations"),
        "score": _array(scores, "scores"),
    }
    columns |= {name: _array(data[key], key) for key, name in _BESIDE.items() if key in data}
    for name, values in columns.items():
        if len(values) != len(columns["text"]):
            raise InputError(
                f"{len(values)} values for {len(columns['text'])} translations", where=name
            )
    candidates = [
        _candidate(dict(zip(columns, row, strict=True)))
        for row in zip(*columns.values(), strict=True)
    ]
    rest = {key: value for key, value in data.items() if key not in _OWN and key not in _BESIDE}
    source = {"source": data["text"]} if "text" in data else {}
    return read_list({**source, **rest, "id": identity, "candidates": candidates})


def _array(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"found {excerpt(value)}, expected an array", where=where)
    return value


def _candidate(row: dict[str, Any]) -> dict[str, Any]:
    """The score as a number, of several (target factors) the first; the infinite one of an empty source is left out."""
    score = row.pop("score")
    if isinstance(score, list) and score:
        score, *factors = score
        row |= {"factor_scores": factors} if factors else {}
    if score is None or (isinstance(score, float) and not isfinite(score)):
        return row
    if finite(score) is None:
        raise InputError(f"found {excerpt(score)}, expected a number", where="scores")
    return {**row, "score": score}
