"""Whose judgements count: those of a systems file, of files of their own, of several raters; or preferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from ...integrations.formats.human_scores import (
    HumanKey,
    JudgedRow,
    read_judged,
    read_rankings,
    with_judged,
)
from ...integrations.formats.readers.systems import SystemsOptions, read_documents
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import settings
from ...metrics.storage.line_source import LineSource
from ...rerank.selection.system_scores import DocumentOutputs, is_judged
from ...rerank.training.prior_estimation import (
    PREFERENCES,
    Raters,
    with_one_score,
    with_preferences,
)


@settings
class JudgementOptions:
    """What people judged, and who.

    Args:
        human: the key of the human scores, such as mqm:lower.
        judged: files of judgements, a line per segment or document: {"id": "d7:3", "mqm": {"A": 1}, "rater": "anna"},
            as sample writes them; they join those of the systems file.
        raters: the keys of --human are raters who judged the same thing; how strict each is, is taken off.
        rankings: a JSONL of preferences in place of scores, {"id": "d7:3", "ranks": {"A": 1, "B": 2}}, rank 1 is best.
        as_systems: references to treat as systems.
        include: further keys that hold systems.
    """

    heading: ClassVar = "judgements"

    human: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    raters: bool = False
    rankings: str | None = None
    as_systems: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


class JudgedDocuments(NamedTuple):
    """Documents with one dimension of judgements.

    Args:
        documents: with their judgements.
        dimension: its name.
        lower: whether lower is better.
        raters: how strict several raters are; None of one.
    """

    documents: list[DocumentOutputs]
    dimension: str
    lower: bool
    raters: Raters | None = None


def judged_documents(path: str, values: Mapping[str, Any]) -> JudgedDocuments:
    """The documents of a systems file, judged as the options say.

    Raises:
        InputError: judgements of several things, or none where they are named.
    """
    judged = _documents(path, values)
    if not is_judged(judged.documents, judged.dimension):
        fix = "Have some segments judged (discorank sample proposes them); decode without --prior needs none"
        raise InputError("nobody judged a text", where=f"{path}: {judged.dimension}", fix=fix)
    return judged


def _documents(path: str, values: Mapping[str, Any]) -> JudgedDocuments:
    """As `judged_documents`, with or without scores."""
    keys = _keys(values)
    documents = systems_documents(path, values, keys)
    if values["rankings"]:
        rankings = read_rankings(LineSource(values["rankings"]))
        return JudgedDocuments(with_preferences(documents, rankings), PREFERENCES, lower=True)
    rows = judged_rows(values, keys)
    if rows:
        documents = with_judged(documents, rows, keys[0].name)
    dimensions = sorted({name for document in documents for name in document.human})
    if values["raters"] or any(row.rater is not None for row in rows):
        name = keys[0].name
        documents, raters = with_one_score(documents, dimensions, keys[0].lower, name)
        return JudgedDocuments(documents, name, keys[0].lower, raters)
    if len(dimensions) > 1:
        one = dimensions[0] + keys[0].lower * ":lower"
        fix = f"Name one, such as --human {one}; or, of raters of one thing, --raters"
        raise InputError(f"found {', '.join(dimensions)}", where="--human", fix=fix)
    return JudgedDocuments(documents, (dimensions or [keys[0].name])[0], keys[0].lower)


def systems_documents(
    path: str, values: Mapping[str, Any], keys: Sequence[HumanKey]
) -> list[DocumentOutputs]:
    """The documents of a systems file, with what stands in it under some keys."""
    options = SystemsOptions(tuple(keys), tuple(values["as_systems"]), tuple(values["include"]))
    return list(read_documents(LineSource(path), options))


def judged_rows(values: Mapping[str, Any], keys: Sequence[HumanKey]) -> list[JudgedRow]:
    """The rows of the files of judgements."""
    return [row for file in values["judged"] for row in read_judged(LineSource(file), keys[0].name)]


def _keys(values: Mapping[str, Any]) -> list[HumanKey]:
    """The keys of scores; raises InputError where they do not fit what else is given."""
    keys = [HumanKey.read(name) for name in values["human"]]
    if values["rankings"]:
        others = [name for name in ("human", "judged", "raters") if values[name]]
        if others:
            problem = f"stands beside --{others[0]}"
            raise InputError(problem, where="--rankings", fix="Give scores or preferences")
        return []
    if not keys:
        fix = "Give the key of scores, such as mqm:lower"
        raise InputError("is not given", where="--human", fix=fix)
    if len({key.lower for key in keys}) > 1:
        problem = "of some keys lower is better, of others higher"
        raise InputError(problem, where="--human", fix="Give raters of one thing")
    if len(keys) > 1 and not values["raters"]:
        names = ", ".join(key.name for key in keys)
        fix = (
            f"Name one, such as --human {values['human'][0]}; or, of raters of one thing, --raters"
        )
        raise InputError(f"found {names}", where="--human", fix=fix)
    if values["judged"]:
        keys = [replace(key, may_lack=True) for key in keys]
    return keys
