"""Choosing among the systems' outputs of each segment, or of each whole document: the lists, and what is chosen.

The candidates are the outputs of the systems that people judged in every dimension. A chooser is a decider (an MBR
decoder, a reranker) or what somebody decided before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from ...metrics.base import Metric
from ...metrics.combination import Combination
from ...metrics.errors import DiscorankError, InputError, unknown
from ...metrics.execution.cache import Cache
from ...metrics.function import Function
from ...metrics.mixture import Utility
from ...metrics.registry import WRAPPERS, metric_class, names
from ...metrics.spec.signature import Call, parse
from ...metrics.text.texts import Document, Text
from ..decider import Decider, decide_all
from ..engines.local import LocalEngine
from ..lists import Candidate, CandidateList
from ..mbr_decoder import MBRDecoder
from ..normalization import Normalize
from ..reranker import Reranker
from .document_outputs import DocumentOutputs
from .system_scores import Scored, human_scored

Choice = Literal["auto", "segment", "document"]
CHOICES = ("auto", "segment", "document")


class Choices(NamedTuple):
    """What there is to choose.

    Args:
        documents: D, all with the same systems.
        systems: whose outputs are the candidates, S.
        whole: whether whole documents are chosen.
        lists: the candidates of every segment, or document.
    """

    documents: tuple[DocumentOutputs, ...]
    systems: tuple[str, ...]
    whole: bool
    lists: tuple[CandidateList, ...]

    @property
    def what(self) -> str:
        """What is chosen, in words."""
        return "documents" if self.whole else "segments"


class Chosen(NamedTuple):
    """What one chooser chose of every list, and the metrics by which it chose (see `bases`)."""

    name: str
    texts: tuple[Text, ...]
    by: frozenset[str] = frozenset()


def choices(
    documents: Sequence[DocumentOutputs],
    human: Sequence[tuple[str, bool]],
    choice: Choice = "auto",
) -> Choices:
    """The lists to choose from.

    Args:
        documents: with outputs and human scores.
        human: dimensions of human scores, each with whether lower is better.
        choice: whether segments or whole documents are chosen; "auto" takes segments where people scored them.

    Raises:
        InputError: no human scores, fewer than two systems that have them, segments of documents judged as a whole.
    """
    if choice not in CHOICES:
        raise unknown("choice", choice, CHOICES, where="choice")
    if not human:
        raise InputError(
            "no human scores to judge the choosers by",
            where="human",
            fix="Name their key, or leave them",
        )
    judged = [human_scored(dimension, lower, documents) for dimension, lower in human]
    systems = _judged_in_all(judged)
    by_document = [people.name for people in judged if people.segments is None]
    if choice == "segment" and by_document:
        raise InputError(
            "has scores of whole documents only",
            where=f"human.{by_document[0]}",
            fix="Choose whole documents: --choice document",
        )
    all_whole = all(document.whole for document in documents)
    whole = choice == "document" or bool(by_document) or all_whole
    lists: list[CandidateList] = []
    for document in documents:
        lists += _lists(document, systems, whole)
    return Choices(tuple(documents), systems, whole, tuple(lists))


def _judged_in_all(judged: Sequence[Scored]) -> tuple[str, ...]:
    """The systems that people judged in every dimension; raises InputError if there are fewer than two."""
    shared = set(judged[0].systems).intersection(*(people.systems for people in judged))
    systems = tuple(name for name in judged[0].systems if name in shared)
    if len(systems) < 2:
        raise InputError(
            f"people judged {len(systems)} systems in every dimension, expected at least 2",
            where="human",
            fix="Give scores of more systems, or fewer dimensions",
        )
    return systems


def _lists(
    document: DocumentOutputs,
    systems: Sequence[str],
    whole: bool,
) -> Iterable[CandidateList]:
    """The candidate lists of a document, with the ids that `discorank decode --from systems` gives them."""
    if document.whole or whole:
        texts = [document.units(document.systems[name], True)[0] for name in systems]
        source = None if document.source is None else document.units(document.source, True)[0]
        yield CandidateList(document.id, tuple(map(Candidate, texts)), source)
        return
    for i in range(document.segments):
        candidates = tuple(Candidate(document.systems[name][i]) for name in systems)
        segment = None if document.source is None else document.source[i]
        yield CandidateList(f"{document.id}:{i}", candidates, segment, document.id, i)


def decider_of(metric: Utility, normalize: Normalize = "none") -> Decider:
    """The chooser that a metric makes: MBR, or reranking where it needs no references.

    With `normalize` the parts of a sum are normalised within each list.
    """
    if normalize != "none":
        return MBRDecoder(utility=metric, normalize_parts=normalize)
    if any(part.info.needs_references for _, part in metric.parts):
        return MBRDecoder(utility=metric)
    return Reranker({metric: 1.0})


def chosen_by(
    name: str,
    decider: Decider,
    choices: Choices,
    cache: Cache | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Chosen:
    """What a decider chooses; errors as its own.

    Args:
        name: of the chooser.
        decider: an MBRDecoder or a Reranker.
        choices: the lists.
        cache: what models made of texts in earlier runs.
        progress: told how many more lists are decided.
    """
    texts = []
    for ranking in decide_all(decider, choices.lists, LocalEngine(cache)):
        texts.append(ranking.text)
        progress(1)
    by: frozenset[str] = frozenset().union(*(bases(metric) for metric in decider.metrics))
    return Chosen(name, tuple(texts), by)


def bases(metric: Utility) -> frozenset[str]:
    """What a metric is whatever its settings: chrf and chrf++ are one, bertscore and doc-bertscore too.

    Of a mix or a combination, those of its parts.
    """
    return frozenset(_base(part) for _, part in metric.parts)


def _base(metric: Metric) -> str:
    innermost = metric.innermost
    return innermost.name if isinstance(innermost, Function) else _path(type(innermost))


def _path(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def bases_of(signature: str) -> frozenset[str]:
    """The same from a signature, without loading what it names; errors as `parse`."""
    calls = [call for term in parse(signature) for call in term.every if call.name not in WRAPPERS]
    return frozenset(base for call in calls for base in _bases_of_call(call))


def _bases_of_call(call: Call) -> frozenset[str]:
    """The same of one call in a signature."""
    if call.name not in names():
        return frozenset((call.name,))  # a class or function of the user's, called so in signatures
    try:
        if call.name == Combination.name:
            signatures = Combination.signatures(call.settings)
            return frozenset().union(*map(bases_of, signatures))
        return frozenset((_path(metric_class(call.name)),))
    except DiscorankError:  # the model is elsewhere now, a plug-in is gone
        return frozenset((call.name,))


def chosen_outputs(choices: Choices, chosen: Sequence[Chosen]) -> list[DocumentOutputs]:
    """The documents with what every chooser chose in the place of the systems."""
    outputs = []
    start = 0
    for document in choices.documents:
        end = start + (1 if choices.whole else document.segments)
        texts = {chooser.name: _segments(chooser.texts[start:end]) for chooser in chosen}
        outputs.append(replace(document, systems=texts, human={}))
        start = end
    return outputs


def _segments(texts: Sequence[Text]) -> tuple[str, ...]:
    """The segments of texts, those of whole documents one by one."""
    segments: list[str] = []
    for text in texts:
        if isinstance(text, Document):
            segments += text.sentences
        else:
            segments.append(text)
    return tuple(segments)
