"""The settings of minimum Bayes risk decoding, and the decoder that users make of them; the algorithm is in `mbr`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Annotated, Any, overload

from ..metrics.errors import InputError
from ..metrics.mixture import Utility
from ..metrics.registry import MetricLike, load_metric
from ..metrics.representations import FloatArray
from ..metrics.spec.checked_settings import Checked, Converted, Field, settings
from ..metrics.text.texts import Context
from .budget.settings import Budget, load_budget
from .choice import Ranking
from .decider import decide_all, scheduled
from .engines.interface import Engine
from .lists import Candidate, CandidateList
from .mbr import MBR
from .normalization import Normalize
from .prior import STRENGTH, Prior, check_strength, load_prior
from .pseudo_references import Weigh, candidate_weights, checked_weights
from .scheduler import Accept, Outcome, Program, accept_all
from .strategies import Strategy, StrategySetting, resolve


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
