"""Whose judgements count: those of a systems file, of files of their own, of several raters; or preferences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.judged_rows import JudgedRow, read_judged, with_judged
from ...integrations.formats.systems import SystemsOptions, read_documents
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import settings
from ...metrics.storage.line_source import LineSource
from ...rerank.chooser.model import LARGEST
from ...rerank.chooser.raters_and_preferences import (
    PREFERENCES,
    Raters,
    with_one_score,
    with_preferences,
)
from ...rerank.chooser.weighted_dimensions import Dimension, Weighted, with_weighted_score
from ...rerank.selection.document_outputs import DocumentOutputs
from ...rerank.selection.system_scores import is_judged
from ...rerank.tuning.preference_sources import read_rankings

SHOWN_SYSTEMS = 5  # names in a message


@settings
class JudgementOptions:
    """What people judged, and who.

    Args:
        human: the key of the human scores, such as mqm:lower; or several with weights, coherence=1 relevance=2: each
            over its standard deviation within segments, added up.
        judged: files of judgements, a line per segment or document: {"id": "d7:3", "mqm": {"A": 1}, "rater": "anna"},
            as sample writes them; they join those of the systems file.
        raters: the keys of --human are raters who judged the same thing; how strict each is, is taken off.
        rankings: a JSONL of preferences in place of scores, {"id": "d7:3", "ranks": {"A": 1, "B": 2}}, rank 1 is best.
        as_systems: references to treat as systems.
        include: further keys that hold systems.
    """

    human: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    raters: bool = False
    rankings: str | None = None
    as_systems: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


@settings
class OtherDomainOptions:
    """Judgements of another domain.

    Args:
        also: systems files of another domain, with the same systems, judged under the same key.
        also_weight: how much a segment of these counts beside one of the domain itself, above 0; learned by leaving
            documents out if not given.
    """

    also: tuple[str, ...] = ()
    also_weight: Annotated[float, Field(gt=0, le=1)] | None = None


class JudgedDocuments(NamedTuple):
    """Documents with one dimension of judgements.

    Args:
        documents: with their judgements.
        dimension: its name.
        lower: whether lower is better.
        raters: how strict several raters are; None of one.
        weighted: what several dimensions were made of; None of one.
    """

    documents: list[DocumentOutputs]
    dimension: str
    lower: bool
    raters: Raters | None = None
    weighted: Weighted | None = None


def has_judgements(values: Mapping[str, Any]) -> bool:
    """Whether an option names judgements."""
    return bool(values["human"] or values["judged"] or values["rankings"])


def judged_documents(path: str, values: Mapping[str, Any]) -> JudgedDocuments:
    """The documents of a systems file, judged as the options say.

    Raises:
        InputError: judgements of several things, or none where they are named.
    """
    judged = _documents(path, values)
    if not is_judged(judged.documents, judged.dimension):
        fix = (
            "Have some segments judged (discorank sample proposes them); "
            "to choose without judgements: discorank decode --chooser default"
        )
        raise InputError("nobody judged a text", where=f"{path}: {judged.dimension}", fix=fix)
    return judged


def _documents(path: str, values: Mapping[str, Any]) -> JudgedDocuments:
    """As `judged_documents`, with or without scores."""
    dimensions_given = _dimensions(values)
    if dimensions_given:
        return _weighted_documents(path, values, dimensions_given)
    keys = _keys(values)
    documents = systems_documents(path, values, keys)
    if values["rankings"]:
        rankings = read_rankings(placed_lines(values["rankings"]))
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


def _weighted_documents(
    path: str, values: Mapping[str, Any], dimensions: Sequence[Dimension]
) -> JudgedDocuments:
    """The documents of a systems file, with several dimensions as one."""
    may_lack = bool(values["judged"])
    keys = [HumanKey(own.name, own.lower, may_lack) for own in dimensions]
    documents = systems_documents(path, values, keys)
    for key in keys:
        rows = judged_rows(values, [key])
        if any(row.rater is not None for row in rows):
            fix = "Give the scores of one rater, without their name"
            raise InputError("of several dimensions", where="--judged: rater", fix=fix)
        documents = with_judged(documents, rows, key.name)
    name = " + ".join(f"{own.weight:g}*{own.name}" for own in dimensions)
    documents, weighted = with_weighted_score(documents, dimensions, name)
    return JudgedDocuments(documents, name, lower=False, weighted=weighted)


def other_documents(judged: JudgedDocuments, values: Mapping[str, Any]) -> list[DocumentOutputs]:
    """The documents of another domain, judged like those of the domain itself.

    Raises:
        InputError: preferences or raters, which are not on one scale with them, other judgements, or none of a system
            that is judged in the domain.
    """
    if not values["also"]:
        if values["also_weight"] is not None:
            raise InputError("without --also", where="--also-weight", fix="Name the other domain")
        return []
    if values["rankings"]:
        fix = "Give scores of both domains"
        raise InputError("stands beside --rankings", where="--also", fix=fix)
    documents: list[DocumentOutputs] = []
    for path in values["also"]:
        own = judged_documents(path, {**values, "judged": ()})
        if own.dimension != judged.dimension:
            problem = f"{path}: found {own.dimension!r:.80}, expected {judged.dimension!r:.80}"
            raise InputError(problem, where="--also", fix="Give judgements of one thing")
        documents += own.documents
    _check_common(judged, documents, values["also"])
    return documents


def _check_common(
    judged: JudgedDocuments, others: Sequence[DocumentOutputs], paths: Sequence[str]
) -> None:
    """Raises InputError unless a system was judged in both domains: else nothing of one tells of the other."""
    own, also = (_judged_systems(each, judged.dimension) for each in (judged.documents, others))
    if own & also:
        return
    theirs, ours = (", ".join(sorted(names)[:SHOWN_SYSTEMS]) for names in (also, own))
    problem = f"{', '.join(paths)}: judges {theirs}, and none that the domain judges ({ours})"
    fix = "Give judgements of the same systems under the same names, or leave --also out"
    raise InputError(problem, where="--also", fix=fix)


def _judged_systems(documents: Sequence[DocumentOutputs], dimension: str) -> set[str]:
    """The systems that have judgements; references that have some are none."""
    return {
        name
        for document in documents
        for name in document.human.get(dimension, {})
        if name in document.systems
    }


def systems_documents(
    path: str, values: Mapping[str, Any], keys: Sequence[HumanKey]
) -> list[DocumentOutputs]:
    """The documents of a systems file, with what stands in it under some keys."""
    options = SystemsOptions(tuple(keys), tuple(values["as_systems"]), tuple(values["include"]))
    return list(read_documents(LineSource(path), options))


def judged_rows(values: Mapping[str, Any], keys: Sequence[HumanKey]) -> list[JudgedRow]:
    """The rows of the files of judgements."""
    return [row for file in values["judged"] for row in read_judged(LineSource(file), keys[0].name)]


def _dimensions(values: Mapping[str, Any]) -> list[Dimension]:
    """The dimensions of --human, where one has a weight; a weight that is not given is 1.

    Raises:
        InputError: a weight that is none, a dimension given twice, or what goes with one score alone.
    """
    dimensions, is_weighted = [], False
    for given in values["human"]:
        key, mark, weight = given.rpartition("=")
        key, number = HumanKey.read(key if mark else given), _weight(weight) if mark else 1.0
        dimensions.append(Dimension(key.name, number, key.lower))
        is_weighted = is_weighted or bool(mark)
    if not is_weighted:
        return []
    names = [own.name for own in dimensions]
    if len(set(names)) < len(names):
        raise InputError(f"found {', '.join(names)}", where="--human", fix="Name each once")
    for other in ("rankings", "raters"):
        if values[other]:
            fix = "Leave one of them out"
            raise InputError("stands beside weights of --human", where=f"--{other}", fix=fix)
    return dimensions


def _weight(given: str) -> float:
    """A weight; raises InputError where it is not above 0 and finite."""
    try:
        weight = float(given)
    except ValueError:
        weight = nan
    if not 0 < weight <= LARGEST:
        problem = f"found the weight {given!r:.80}, expected a number above 0, at most {LARGEST:g}"
        fix = "Give such as coherence=2; for scores of which lower is better mqm:lower=2"
        raise InputError(problem, where="--human", fix=fix)
    return weight


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
        weighted = " ".join(f"{given}=1" for given in values["human"])
        fix = f"Give raters of one thing; or weights, such as --human {weighted}"
        raise InputError(problem, where="--human", fix=fix)
    if len(keys) > 1 and not values["raters"]:
        names = ", ".join(key.name for key in keys)
        fix = (
            f"Name one, such as --human {values['human'][0]}; or, of raters of one thing, --raters; or give weights, "
            f"such as --human {values['human'][0]}=1 {values['human'][1]}=2"
        )
        raise InputError(f"found {names}", where="--human", fix=fix)
    if values["judged"]:
        keys = [replace(key, may_lack=True) for key in keys]
    return keys


def placed_lines(path: str) -> Iterator[tuple[str, str]]:
    """The lines of a file, each after its place."""
    for i, (_, line) in enumerate(LineSource(path), 1):
        yield f"{path}:{i}", line.decode("utf-8")
