"""Which chooser chooses best: the mean human score of what each chose from the outputs of several systems.

Beside every chooser stand three that nobody can ship: the best single system, known in hindsight; a random system,
which is also the average one; and the oracle, the best text of every segment. A text that several systems gave has one
score, the mean of theirs, whoever gave it. Intervals and paired tests are those of systems (see `significance`), with
the choosers in their place.

A segment counts where all candidate systems have a score and every chooser chose one of their texts, so all choosers
are judged on the same segments. Chosen whole documents count with these of their segments.

The candidates are the outputs of the systems that people judged in every dimension. A chooser is a decider (an MBR
decoder, a reranker) or what somebody decided before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from ...metrics.combination import Combination
from ...metrics.errors import DiscorankError, InputError, unknown
from ...metrics.execution.cache import Cache
from ...metrics.mixture import Utility
from ...metrics.registry import WRAPPERS, metric_class, names
from ...metrics.representations import FloatArray, IntArray
from ...metrics.spec.signature import Call, parse
from ...metrics.text.texts import Document, Text
from ..choice import TIE
from ..decider import Decider, decide_all
from ..engines.local import LocalEngine
from ..engines.part_sums import Normalize
from ..lists import Candidate, CandidateList, Distinct
from ..mbr import MBRDecoder
from ..reranker import Reranker
from .agreement import SystemAgreement, agreement_of_scores, with_ties
from .judged_systems import MeanOfRated, human_scored
from .significance import (
    Correction,
    SignificanceSettings,
    Verdicts,
    blocks,
    corrected,
    judge,
    segments_of_unit,
    unit_name,
)
from .system_scores import DocumentOutputs, Part, Scored, score_systems

Choice = Literal["auto", "segment", "document"]
CHOICES = ("auto", "segment", "document")
BASELINES = ("best single system", "random system", "oracle")
NO_MEANS: Mapping[str, float] = MappingProxyType({})


class Choices(NamedTuple):
    """The candidates to choose among.

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
        """The kind of things that are chosen, in words."""
        return "documents" if self.whole else "segments"


class Chosen(NamedTuple):
    """One chooser's choices of all lists.

    Args:
        name: of the chooser.
        texts: what it chose, by list.
        by: the metrics by which it chose (see `bases_of`).
        system_means: the mean scores of systems that it shrank towards, if it did.
    """

    name: str
    texts: tuple[Text, ...]
    by: frozenset[str] = frozenset()
    system_means: Mapping[str, float] = NO_MEANS


class Gain(NamedTuple):
    """How much better a chooser is than a baseline, above 0 whatever the direction of the scores."""

    gain: float
    low: float
    high: float
    p: float  # approximate randomisation, two-sided
    p_corrected: float  # over the choosers

    def reversed(self) -> Gain:
        """The gain of the baseline over the chooser; never -0."""
        gain = -self.gain + 0.0
        low = -self.high + 0.0
        high = -self.low + 0.0
        return self._replace(gain=gain, low=low, high=high)


class Judged(NamedTuple):
    """All choosers under one dimension of human scores.

    Args:
        dimension: its name.
        higher_is_better: its direction.
        names: C choosers.
        best: the best single system.
        verdicts: of the choosers and then the `BASELINES`, [C + 3].
        between: of the choosers alone, their p-values corrected for the number of pairs.
        reached: of the segments (or documents), the share where a choice is as good as the oracle's, [C].
        counted: how many segments (or documents) counted.
        total: how many there are.
        unscored: how often each chooser chose a text of no candidate system where the systems have scores, [C].
    """

    dimension: str
    higher_is_better: bool
    names: tuple[str, ...]
    best: str
    verdicts: Verdicts
    between: Verdicts
    reached: FloatArray
    counted: int
    total: int
    unscored: IntArray

    def gains(self, baseline: str, correction: Correction = "none") -> list[Gain]:
        """The gain of every chooser over one of the `BASELINES`."""
        at = len(self.names) + BASELINES.index(baseline)
        num_choosers = len(self.names)
        pairs = [pair for pair in self.verdicts.pairs if pair.b == at and pair.a < num_choosers]
        p_values = np.array([pair.p for pair in pairs])
        p_corrected = corrected(p_values, correction).tolist()
        sign = 1.0 if self.higher_is_better else -1.0
        gains = []
        for pair, p in zip(pairs, p_corrected, strict=True):
            low, high = sorted((sign * pair.low, sign * pair.high))
            gains.append(Gain(sign * pair.difference, low, high, pair.p, p))
        return gains

    def regrets(self) -> list[Gain]:
        """How much better than every chooser the oracle is."""
        return [gain.reversed() for gain in self.gains("oracle")]


class ChooserComparison(NamedTuple):
    """Choosers under people's scores, and under metrics where some were named.

    Args:
        choices: what there was to choose.
        judged: by dimension.
        scored: what was chosen as systems under each metric.
        optimised: whether chooser c chose by metric m (whatever its settings), [metrics][C]: then m says little of c.
        means: by chooser and dimension, how the means of systems that it shrank towards agree with people's scores.
    """

    choices: Choices
    judged: tuple[Judged, ...]
    scored: tuple[Scored, ...]
    optimised: tuple[tuple[bool, ...], ...]
    means: Mapping[tuple[str, str], SystemAgreement] = MappingProxyType({})


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


def compare_choosers(
    deciders: Mapping[str, Decider],
    choices: Choices,
    human: Sequence[tuple[str, bool]],
    metrics: Sequence[Utility] = (),
    *,
    decided: Sequence[Chosen] = (),
    settings: SignificanceSettings | None = None,
    cache: Cache | None = None,
    on_list: Callable[[int], None] = lambda done: None,
    on_draw: Callable[[int], None] = lambda done: None,
) -> ChooserComparison:
    """Lets every chooser choose and judges what it chose.

    Args:
        deciders: choosers by name.
        choices: the lists, made by `system_choices.choices` with the same `human`.
        human: dimensions of human scores, each with whether lower is better.
        metrics: that score what was chosen too.
        decided: further choosers, by what they chose.
        settings: of the tests between choosers; where documents are chosen whole, draws take these whatever the unit.
        cache: what models made of texts in earlier runs.
        on_list: called with how many more lists were decided.
        on_draw: called with how many more draws were made.

    Raises:
        InputError: no choosers, two of one name, lists that cannot be decided, no segment that counts.
    """
    settings = settings or SignificanceSettings()
    names = [*deciders, *(chooser.name for chooser in decided)]
    _check_choosers(names, decided, choices)
    block_size = segments_of_unit(settings.unit)
    if choices.whole:
        block_size = None
    chosen = []
    for name, decider in deciders.items():
        chosen.append(chosen_by(name, decider, choices, cache, on_list))
    chosen += decided
    judged = []
    for dimension, lower in human:
        table = _ChosenScores(choices, chosen, dimension, lower)
        judged.append(table.judged(block_size, settings, on_draw))
    outputs = chosen_outputs(choices, chosen) if metrics else []
    scored = tuple(score_systems(metric, outputs, cache) for metric in metrics)
    optimised = []
    for metric in metrics:
        metric_bases = bases_of(metric.signature())
        optimised.append(tuple(bool(chooser.by & metric_bases) for chooser in chosen))
    means = {
        (chooser.name, dimension): _means_agreement(chooser, dimension, lower, choices)
        for chooser in chosen
        if chooser.system_means
        for dimension, lower in human
    }
    return ChooserComparison(choices, tuple(judged), scored, tuple(optimised), means)


def _means_agreement(
    chooser: Chosen, dimension: str, lower: bool, choices: Choices
) -> SystemAgreement:
    """The means of systems against people's, of the systems that have both."""
    people = human_scored(dimension, lower, choices.documents, choices.systems)
    by_people = dict(zip(people.systems, people.system_scores(), strict=True))
    shared = [name for name in choices.systems if name in chooser.system_means]
    sign = -1.0 if lower else 1.0
    x = np.array([chooser.system_means[name] for name in shared])
    y = np.array([sign * by_people[name] for name in shared])
    return agreement_of_scores(with_ties(x), with_ties(y))


def _check_choosers(names: Sequence[str], decided: Sequence[Chosen], choices: Choices) -> None:
    """Raises InputError for no choosers, two of one name, or one that chose from other lists."""
    if not names:
        raise InputError("no choosers", where="choosers", fix="Give at least one")
    for i, name in enumerate(names):
        if name in names[:i] or name in BASELINES:
            raise InputError(
                f"there are two of the name {name!r:.80}",
                where="choosers",
                fix="Rename one",
            )
    num_lists = len(choices.lists)
    for chooser in decided:
        if len(chooser.texts) != num_lists:
            raise InputError(
                f"{chooser.name!r:.80} chose {len(chooser.texts)} texts, there are {num_lists} lists",
                where="choosers",
                fix="Choose one text from every list",
            )


def chosen_by(
    name: str,
    decider: Decider,
    choices: Choices,
    cache: Cache | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Chosen:
    """The choices of a decider; errors as its own.

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
    by: frozenset[str] = frozenset().union(
        *(bases_of(metric.signature()) for metric in decider.metrics)
    )
    return Chosen(name, tuple(texts), by)


def bases_of(signature: str) -> frozenset[str]:
    """The metrics of a signature whatever their settings: chrf and chrf++ are one, bertscore and doc-bertscore too.

    Nothing that it names is loaded; errors as `parse`.
    """
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
        kind = metric_class(call.name)
        return frozenset((f"{kind.__module__}:{kind.__qualname__}",))
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


class _ChosenScores:
    """The human scores of all candidates and of what was chosen, where they count."""

    def __init__(
        self,
        choices: Choices,
        chosen: Sequence[Chosen],
        dimension: str,
        lower: bool,
    ) -> None:
        self._choices = choices
        self._dimension = dimension
        self._lower = lower
        self._names = tuple(chooser.name for chooser in chosen)
        sums, num_segments = _candidate_scores(choices, dimension, lower)
        is_judged = num_segments > 0  # [lists]
        # the candidate that each chooser chose from each list, [C, lists]
        indices = np.array([list(map(_index, choices.lists, chooser.texts)) for chooser in chosen])
        self._unscored: IntArray = (is_judged & (indices < 0)).sum(axis=1)
        self._counted = is_judged & (indices >= 0).all(axis=0)
        if not self._counted.any():
            raise InputError(
                self._nothing(int(is_judged.sum())),
                where=f"human.{dimension}",
                fix="Judge more of them",
            )
        self._sums = sums[self._counted]  # [n, S]
        self._num_segments = num_segments[self._counted]  # [n]
        rows = np.arange(len(self._sums))
        self._chosen = self._sums[rows, indices[:, self._counted]]  # [C, n]
        sign = -1.0 if lower else 1.0
        self._best = int(np.argmax(sign * self._sums.sum(axis=0)))
        self._oracle = sign * (sign * self._sums).max(axis=1)  # [n]

    def _nothing(self, num_judged: int) -> str:
        """Why there is nothing to judge."""
        what = self._choices.what
        if not num_judged:
            num_systems = len(self._choices.systems)
            return f"no {what} where all of the {num_systems} candidate systems have a score"
        worst = int(np.argmax(self._unscored))
        name, n = self._names[worst], self._unscored[worst]
        return f"of {num_judged} judged {what}, {name!r:.80} chose a text that no system has in {n}"

    def _scored(self, block_size: int | None) -> Scored:
        """Choosers and baselines as systems, drawn by blocks of some segments or by document."""
        best_system = self._sums[:, self._best]
        random_system = self._sums.mean(axis=1)
        values = np.stack([*self._chosen, best_system, random_system, self._oracle])  # [C + 3, n]
        counts = np.broadcast_to(self._num_segments, values.shape)
        rows = np.stack((values, counts), axis=2)
        if self._choices.whole:
            num_lists = [1] * len(self._choices.documents)
        else:
            num_lists = [document.segments for document in self._choices.documents]
        if block_size is None:
            owner = np.repeat(np.arange(len(num_lists)), num_lists)
            unit = "document"
        else:
            owner = blocks(num_lists, block_size)
            unit = unit_name(block_size)
        _, owner = np.unique(owner[self._counted], return_inverse=True)
        part = Part(1.0, MeanOfRated(), rows, owner)
        names = (*self._names, *BASELINES)
        return Scored(self._dimension, not self._lower, names, (part,), unit=unit)

    def judged(
        self,
        block_size: int | None,
        settings: SignificanceSettings,
        on_draw: Callable[[int], None],
    ) -> Judged:
        """The verdicts on all choosers."""
        scored = self._scored(block_size)
        alone = _first(scored, len(self._names))
        draws, seed, level = settings.draws, settings.seed, settings.level
        reached = np.isclose(self._chosen, self._oracle, rtol=TIE, atol=TIE)
        return Judged(
            self._dimension,
            not self._lower,
            self._names,
            best=self._choices.systems[self._best],
            verdicts=judge(scored, draws, seed, level, on_draw),
            between=judge(alone, draws, seed, level, on_draw, settings.correction),
            reached=reached.mean(axis=1),
            counted=int(self._counted.sum()),
            total=len(self._counted),
            unscored=self._unscored,
        )


def _first(scored: Scored, n: int) -> Scored:
    """The same of the first n systems."""
    parts = []
    for part in scored.parts:
        parts.append(Part(part.weight, part.scorer, part.rows[:n], part.owner))
    return replace(scored, systems=scored.systems[:n], parts=tuple(parts))


def _candidate_scores(
    choices: Choices,
    dimension: str,
    lower: bool,
) -> tuple[FloatArray, FloatArray]:
    """Summed scores of every candidate [lists, S], and how many segments they sum up [lists]; copies share theirs."""
    people = human_scored(dimension, lower, choices.documents, choices.systems)
    (part,) = people.parts
    known = part.rows[:, :, 1].all(axis=0)  # [segments], where all systems are judged
    list_of = part.owner if choices.whole else np.arange(len(part.owner))  # [segments]
    sums = np.zeros((len(choices.lists), len(choices.systems)))
    np.add.at(sums, list_of[known], part.rows[:, known, 0].T)
    for row, record in zip(sums, choices.lists, strict=True):
        text_of = Distinct(record.candidates).of
        means = np.bincount(text_of, row) / np.bincount(text_of)
        row[:] = means[text_of]
    num_segments = np.bincount(list_of[known], minlength=len(sums)).astype(float)
    return sums, num_segments


def _index(record: CandidateList, text: Text) -> int:
    """The first candidate with a text, -1 if there is none."""
    for i, candidate in enumerate(record.candidates):
        if candidate.text == text:
            return i
    return -1
