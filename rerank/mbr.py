"""Minimum Bayes risk decoding: the candidate with the highest expected utility against pseudo-references.

    h* = argmax_h mu(h)               (Kumar and Byrne 2004; Eikema and Aziz 2020 for samples)
    mu(h) = sum_r w(r) u(h, r) / W,   W = sum_r w(r)      O(N^2) comparisons of N candidates
    mu(h) = u(h, sum_r w(r) phi(r) / W)                   O(N), where u depends on r through phi(r) alone, linearly

Each text is represented once. With a shortlist, a cheap utility or a reference-free metric first keeps the `top_k` best
(as candidates and pseudo-references) and the expensive utility decides among them. With a budget, some of the pairs are
computed (`budgeted_list`). `expectation` computes both forms of mu from an engine's comparisons, `choice` the argmax
with its ties, `diverse` a k-best list of texts that are unlike; `pseudo_references` says what r and w are.

The settings of minimum Bayes risk decoding, and the decoder that users make of them; the algorithm is in `mbr`.

One list decoded in one call: `discorank.decode`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, NamedTuple, overload

import numpy as np

from ..metrics.errors import InputError
from ..metrics.execution.by_sentence import is_joined
from ..metrics.mixture import Utility
from ..metrics.registry import MetricLike, load_metric
from ..metrics.representations import FloatArray, IntArray
from ..metrics.spec.checked_settings import Checked, Converted, Field, settings
from ..metrics.text.texts import Context
from .budget.settings import Budget, load_budget
from .choice import Ranking, Spent, choose, diverse
from .engines.interface import Engine, Result, Task
from .lists import Candidate, CandidateList, Distinct, candidates_of, refuse_plain_documents
from .order import Strategy, StrategySetting, resolve
from .part_sums import Normalize, combined_matrix, combined_values, decide_all, scheduled
from .pool import Weigh, candidate_weights, checked_weights, human_references, pseudo_references
from .prior import STRENGTH, Prior, check_strength, load_prior
from .scheduler import Accept, Outcome, Program, accept_all


class Expected(NamedTuple):
    """Expected utilities [H], what the list's reader should know, and the utility matrix [H, R] if it was kept.

    Under a budget also what was computed, and which hypotheses were given up.
    """

    values: FloatArray
    flags: tuple[str, ...]
    matrix: FloatArray | None
    spent: Spent | None = None
    given_up: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class MBR:
    """The algorithm over loaded utilities; `MBRDecoder` is its settings.

    Args:
        utility: u.
        weigh: the weights w of pseudo-references.
        self_pair: whether a candidate is a pseudo-reference for itself.
        nbest: how many places a ranking has; None for every distinct text.
        shortlist: the utility of a first stage, if there is one.
        top_k: how many distinct texts the first stage keeps.
        oracle: decide against the human references instead.
        keep_matrix: whether rankings carry their utility matrix.
        diverse: lambda of a diverse list; None for the best places.
        budget: which pairs are computed; None for all.
        normalize: what is done to each part's expected utilities within a list.
    """

    utility: Utility
    weigh: Weigh
    self_pair: bool = True
    nbest: int | None = 1
    shortlist: Utility | None = None
    top_k: int = 16
    oracle: bool = False
    keep_matrix: bool = False
    diverse: float | None = None
    budget: Budget | None = None
    normalize: Normalize = "none"

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list: a shortlist if it is long, expected utilities, the argmax."""
        if self.diverse is not None and record.pseudo_references:
            problem = "candidates are compared with these, and a diverse list needs them compared with each other"
            raise InputError(
                problem, where="pseudo_references", fix="Leave out --diverse, or these"
            )
        distinct = Distinct(record.candidates)
        kept = np.arange(len(distinct))
        if self.shortlist is not None and len(distinct) > self.top_k:
            kept, flags = yield from self._shortlisted(
                self.shortlist, record, distinct, context, flags
            )
        expected = yield from self.expected(record, distinct, kept, context, flags)
        values, left_out = expected.values, set[int]()
        if len(kept) < len(distinct):
            values = np.full(len(distinct), np.nan)
            values[kept] = expected.values
            left_out.update(set(range(len(distinct))) - set(kept.tolist()))
        left_out.update(kept[i] for i in expected.given_up)
        if self.diverse is not None:
            left_out.update(kept[self._unlike(expected, self.diverse)].tolist())
        matrix = expected.matrix if self.keep_matrix else None
        return choose(
            record,
            values[distinct.of],
            self.nbest,
            expected.flags,
            matrix,
            distinct,
            left_out,
            budget=expected.spent,
            context=context,
        )

    def _unlike(self, expected: Expected, penalty: float) -> IntArray:
        """The numbers of the texts that are not in the diverse list."""
        values, matrix = expected.values, expected.matrix
        if matrix is None:
            return np.empty(0, np.int64)
        places = diverse(values, matrix, len(values) if self.nbest is None else self.nbest, penalty)
        return np.setdiff1d(np.arange(len(values)), places)

    def expected(
        self,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
        flags: tuple[str, ...],
    ) -> Generator[Task, Result, Expected]:
        """Expected utilities of the kept ones of a list's distinct texts, without a shortlist."""
        task = self._task(self.utility, record, distinct, kept, context)
        parts = [part for _, part in self.utility.parts]
        if any(map(is_joined, parts, task.comparisons)):
            flags = (*flags, "joined")
        for part, comparison in zip(parts, task.comparisons, strict=True):
            flags = (*flags, *(flag for flag in part.remarks(comparison) if flag not in flags))
        task = task._replace(keep_matrix=self.keep_matrix or self.diverse is not None)
        if self.budget is not None:
            return (
                yield from self._estimated(
                    self.budget, task, record, distinct, kept, context, flags
                )
            )
        result = yield task
        flags = (*flags, *(flag for flag in result.flags if flag not in flags))
        values = combined_values(self.utility, result, self.normalize)
        return Expected(values, flags, combined_matrix(self.utility, result))

    def _estimated(
        self,
        budget: Budget,
        task: Task,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
        flags: tuple[str, ...],
    ) -> Generator[Task, Result, Expected]:
        """Expected utilities from as many pairs of a task as the budget has."""
        from .budget.budgeted import estimated

        cheap = None
        if budget.cheap is not None:
            cheap = self._task(budget.cheap, record, distinct, kept, context)
        square = not (record.pseudo_references or self.oracle)
        of_list = yield from estimated(budget, task, cheap, self.nbest, square)
        flags = (*flags, *(flag for flag in of_list.flags if flag not in flags))
        given_up = of_list.given_up.tolist()
        return Expected(of_list.values, flags, of_list.matrix, of_list.spent, given_up)

    def _shortlisted(
        self,
        utility: Utility,
        record: CandidateList,
        distinct: Distinct,
        context: Context,
        flags: tuple[str, ...],
    ) -> Generator[Task, Result, tuple[IntArray, tuple[str, ...]]]:
        """The numbers of the `top_k` best distinct texts by the cheap utility, in order of appearance."""
        everything = np.arange(len(distinct))
        result = yield self._task(utility, record, distinct, everything, context)
        values = combined_values(utility, result, self.normalize)[distinct.of]
        places = choose(record, values, self.top_k, distinct=distinct).ranking
        kept = np.unique([distinct.of[place.index] for place in places])
        return kept, (*flags, *result.flags, "shortlisted")

    def _task(
        self,
        utility: Utility,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        context: Context,
    ) -> Task:
        """The kept texts against the list's pseudo-references, as each part of the utility reads them."""
        hypotheses = tuple(distinct.texts[i] for i in kept.tolist())
        if self.oracle:
            pool = human_references(record)
        else:
            pool = pseudo_references(record, distinct, kept, self.weigh)
        # the same object where they are the hypotheses: the comparison is then known to be square
        references = pool.texts or hypotheses
        comparisons = tuple(
            part.comparison(hypotheses, references, record.source, context.last(part.reads.context))
            for _, part in utility.parts
        )
        own = None if self.self_pair else pool.own
        return Task(record.id, utility, comparisons, pool.weights, own)


def _optional_metric(spec: MetricLike | None) -> Utility | None:
    return None if spec is None else load_metric(spec)


@settings
class MBRDecoder:
    """Chooses by expected utility.

    Args:
        utility: a metric, its name or signature, or a function u(h, r).
        weights: "uniform", "logprob" or "field:NAME", the weights of pseudo-references.
        temperature: divides log-probabilities.
        self_pair: whether a candidate counts as a pseudo-reference for itself.
        normalize_parts: what is done to the expected utilities of each part of a sum within a list before they are
            added: none, zscore, minmax (to 0..1) or rank (share of texts that are worse).
        prior: the file of a prior over systems (`discorank train prior`), which weighs pseudo-references instead, by
            their field "system".
        prior_strength: how much a prior counts; 0 not at all, a large one chooses the best system.
        nbest: how many places a ranking has; "all" (in Python None) for every distinct text.
        strategy: where context comes from in lists of a document: what was chosen before ("sequential", which "auto" is
            for metrics with context) or stands first ("one-best").
        shortlist: the utility of a first stage that keeps `top_k` distinct texts.
        top_k: how many the first stage keeps.
        oracle: decide against the human references instead: what the best choice would be.
        keep_matrix: whether rankings carry their utility matrix.
        diverse: lambda of a diverse list of `nbest` places: how much likeness of its texts, by the same utility, counts
            against expected utility; without it the best ones.
        budget: a `Budget`, or its share alone: some of the pairs are computed; None for all.
    """

    utility: Annotated[MetricLike, Converted(load_metric)]
    weights: Annotated[str, Checked(checked_weights)] = "uniform"
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    self_pair: bool = True
    normalize_parts: Normalize = "none"
    prior: Annotated[Prior | str | None, Converted(load_prior)] = None
    prior_strength: Annotated[float, Field(ge=0, allow_inf_nan=False)] = STRENGTH
    nbest: Annotated[int, Field(ge=1)] | None = 1
    strategy: StrategySetting = "auto"
    shortlist: Annotated[MetricLike | None, Converted(_optional_metric)] = None
    top_k: Annotated[int, Field(ge=1)] = 16
    oracle: bool = False
    keep_matrix: bool = False
    diverse: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    budget: Annotated[Budget | float | None, Converted(load_budget)] = None

    def __post_init__(self) -> None:
        self._check_budget()
        self._check_diverse()
        self._check_normalized_parts()
        # refused now, not when the first list is decided
        _ = self.resolved_strategy
        check_strength(self.prior, self.prior_strength)
        if self.prior is not None and self.weights != "uniform":
            problem = (
                f"weights {self.weights!r} beside a prior, which weighs pseudo-references itself"
            )
            raise InputError(problem, where="prior", fix="Give one of them")

    def _check_budget(self) -> None:
        """Raises InputError for a budget with an oracle, or of a utility whose pairs cost next to nothing."""
        budget = load_budget(self.budget)
        if budget is None:
            return
        if self.oracle:
            problem = "beside an oracle, which says what the best choice would be"
            raise InputError(problem, where="budget", fix="Leave one of them out")
        budget.check(load_metric(self.utility))

    def _check_diverse(self) -> None:
        """Raises InputError for a diverse list of one place or all, or without the likeness of every two candidates."""
        if self.diverse is None:
            return
        if self.nbest is None or self.nbest < 2:
            problem = "a diverse list needs a number of places, at least 2"
            raise InputError(problem, where="diverse", fix="Give nbest")
        for name, is_there in (("an oracle", self.oracle), ("a budget", self.budget is not None)):
            if is_there:
                problem = f"beside {name}: not every two candidates are compared"
                raise InputError(problem, where="diverse", fix="Leave one of them out")
        if not any(
            p.info.needs_references for weight, p in load_metric(self.utility).parts if weight
        ):
            problem = "the utility compares no two candidates"
            raise InputError(problem, where="diverse", fix="Leave it out")

    def _check_normalized_parts(self) -> None:
        """Raises InputError for normalised parts where values are not those of whole lists."""
        if self.normalize_parts == "none":
            return
        refused = {
            "a budget, which computes some of the pairs": self.budget is not None,
            "a diverse list, which is of utilities as they are": self.diverse is not None,
        }
        for other, is_there in refused.items():
            if is_there:
                raise InputError(
                    f"beside {other}", where="normalize_parts", fix="Leave one of them out"
                )

    @property
    def metrics(self) -> tuple[Utility, ...]:
        """Every utility it uses, in the order of use."""
        budget = load_budget(self.budget)
        first = _optional_metric(self.shortlist)
        cheap = None if budget is None else budget.cheap
        before = tuple(metric for metric in (first, cheap) if metric is not None)
        return (*before, load_metric(self.utility))

    @property
    def width(self) -> int:
        """How many preceding sentences the utilities read."""
        return max(metric.reads.context for metric in self.metrics)

    @property
    def resolved_strategy(self) -> Strategy:
        """The strategy that "auto" stands for."""
        return resolve(self.strategy, self.width)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""
        first = _optional_metric(self.shortlist)
        budget = load_budget(self.budget)
        return {
            "decoder": "mbr",
            **self.expectation_settings,
            "nbest": self.nbest,
            "strategy": self.resolved_strategy,
            "shortlist": first and f"{first.signature()}, top {self.top_k}",
            "oracle": self.oracle,
            **({} if self.diverse is None else {"diverse": self.diverse}),
            **({} if budget is None else {"budget": budget.identity}),
        }

    @property
    def expectation_settings(self) -> dict[str, Any]:
        """The settings that expected utilities depend on; a prior stands by what is in its file."""
        prior = load_prior(self.prior)
        return {
            "utility": load_metric(self.utility).signature(),
            "weights": self.weights,
            "temperature": self.temperature,
            "self_pair": self.self_pair,
            **({} if self.normalize_parts == "none" else {"normalize_parts": self.normalize_parts}),
            **(
                {}
                if prior is None
                else {"prior": prior.digest, "prior_strength": self.prior_strength}
            ),
        }

    @overload
    def decode(
        self, lists: Iterable[Sequence[str]], engine: Engine | None = None
    ) -> Iterator[Ranking[str]]: ...

    @overload
    def decode(
        self, lists: Iterable[CandidateList | Mapping[str, Any]], engine: Engine | None = None
    ) -> Iterator[Ranking]: ...

    @overload
    def decode(
        self, lists: Iterable[Sequence[Any]], engine: Engine | None = None
    ) -> Iterator[Ranking]: ...

    def decode(
        self,
        lists: Iterable[CandidateList | Mapping[str, Any]] | Iterable[Sequence[Any]],
        engine: Engine | None = None,
    ) -> Iterator[Ranking]:
        """Rankings of any iterable of lists, streamed, in input order (lists that only lend context give none).

        A list is a `CandidateList`, its JSON form, or its candidates alone; one without an id has its number, from 0.
        A `datasets.Dataset` or `IterableDataset` is one too; `discorank.to_dataset` makes a dataset of the rankings.

        Raises:
            InputError: a list that cannot be decoded; the error names its id.
        """
        return decide_all(self, lists, engine)

    def outcomes(
        self, records: Iterable[Any], engine: Engine, accept: Accept = accept_all
    ) -> Iterator[tuple[Any, Outcome]]:
        """(tag, outcome) of (tag, record), errors as outcomes; see `Scheduler`."""
        return scheduled(self, records, engine, accept)

    def program(self, record: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        """The decision of one list, task by task."""
        return self.algorithm.program(record, context, flags)

    def weights_of(self, candidates: Sequence[Candidate]) -> FloatArray:
        """The weights of candidates as pseudo-references, [N]; raises InputError where one has none."""
        return self._weigh(candidates, where="candidates")

    @cached_property
    def algorithm(self) -> MBR:
        """The algorithm with these settings."""
        return MBR(
            load_metric(self.utility),
            self._weigh,
            self.self_pair,
            self.nbest,
            _optional_metric(self.shortlist),
            self.top_k,
            self.oracle,
            self.keep_matrix,
            self.diverse,
            load_budget(self.budget),
            self.normalize_parts,
        )

    @property
    def _weigh(self) -> Weigh:
        """How pseudo-references are weighed."""
        prior = load_prior(self.prior)
        if prior is not None:
            return partial(prior.of_candidates, strength=self.prior_strength)
        return partial(candidate_weights, weights=self.weights, temperature=self.temperature)


# keys of a list, not of the decoder
OF_LIST = ("source", "pseudo_references", "references", "document")


@overload
def decode(candidates: Sequence[str], utility: MetricLike, **settings: Any) -> Ranking[str]: ...


@overload
def decode(
    candidates: Sequence[Any] | CandidateList | Mapping[str, Any],
    utility: MetricLike,
    **settings: Any,
) -> Ranking: ...


def decode(
    candidates: Sequence[Any] | CandidateList | Mapping[str, Any],
    utility: MetricLike,
    **settings: Any,
) -> Ranking:
    """The decision for one list, with all its places.

    Args:
        candidates: texts, `Candidate` objects or their JSON form; or a whole list as `CandidateList` or mapping.
        utility: as for `MBRDecoder`.
        settings: of `MBRDecoder`, or of the list (``source=...``, ``pseudo_references=[...]``).

    Raises:
        InputError: settings or candidates that cannot be used.
    """
    list_keys = {key: settings.pop(key) for key in OF_LIST if key in settings}
    decoder = MBRDecoder(**{"utility": utility, "nbest": None, **settings})
    if isinstance(candidates, CandidateList | Mapping):
        return next(decoder.decode([candidates]))
    for name, value in list_keys.items():
        refuse_plain_documents([value] if name == "source" else value, name)
    record = {"id": "list", "candidates": candidates_of(candidates), **list_keys}
    return next(decoder.decode([record]))
