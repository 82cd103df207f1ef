"""What a command decides with: metrics and how they are loaded, the decoder with its budget of pairs, the engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from ...metrics.combination import Combination
from ...metrics.errors import InputError
from ...metrics.execution.close_at_end import close_at_end
from ...metrics.metric_settings import MetricSettings
from ...metrics.mixture import Utility
from ...metrics.registry import MetricLike, Spec, load_metric
from ...metrics.spec.checked_settings import Composed, Field, Internal, Rare, settings
from ...rerank.budget.settings import CHEAP, Budget
from ...rerank.capabilities import (
    ALL_PAIRS,
    EVERY_VALUE,
    FIRST_STAGE,
    PLAIN_SUMS,
    PSEUDO_REFERENCES,
    Beside,
    Costs,
    Needs,
)
from ...rerank.choice import Choice
from ...rerank.engines.expectation import Normalize
from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.engines.ray.settings import RaySettings
from ...rerank.estimator import Estimator
from ...rerank.mbr import MBRDecoder
from ...rerank.order import Order
from ...rerank.pool import Pool
from ..terminal.console import say
from ..terminal.standard_streams import stdout_without
from .command_options import Grouped, ModelOptions, ReadingOptions, WorkerOptions, flag_of, needed

if TYPE_CHECKING:
    from ...metrics.execution.cache import Cache


MODELS = ("model", "encoder_path", "tokenizer_path")
# what a metric has if an option has an effect on it, and what to say of one that has none
_EFFECTS = {
    "device": ("device", "runs no model"),
    "dtype": ("dtype", "runs no model"),
    "batch_tokens": ("batch_tokens", "runs no model"),
    "cache": ("device", "runs no model"),
    "max_calls": ("max_calls", "asks no server"),
    "max_tokens": ("max_tokens", "asks no server"),
}

RAY_THREADS = "ray_"  # how the names of threads begin in which Ray prints, on stdout, what it has to say of workers


@settings
class CodeOptions:
    """Whose code files may name.

    Args:
        allow_code: modules whose functions and classes a file that is read (a combination, a run file) may name; what
            you name on the command line or in --config needs no leave.
    """

    heading: ClassVar = "general"

    allow_code: Annotated[tuple[str, ...], Rare()] = ()


@settings
class JudgeOptions:
    """Bounds of the spending of judges.

    Args:
        max_calls: how many calls each judge may make now; the run ends at the next, and the same command resumes.
        max_tokens: how many tokens of prompts and answers each judge may spend now.
    """

    heading: ClassVar = "utility"

    max_calls: Annotated[Annotated[int, Field(ge=1)] | None, Rare()] = None
    max_tokens: Annotated[Annotated[int, Field(ge=1)] | None, Rare()] = None


@settings
class MetricOptions:
    """How the metrics that a command names are loaded.

    Args:
        code: whose code files may name.
        judges: what judges may spend.
        reading: how metrics read texts, and with which model.
        models: how models run.
        answers: the folder in which judges keep answers; the cache, if not given.
    """

    code: Annotated[CodeOptions, Composed()] = CodeOptions()
    judges: Annotated[JudgeOptions, Composed()] = JudgeOptions()
    reading: Annotated[ReadingOptions, Composed()] = ReadingOptions()
    models: Annotated[ModelOptions, Composed()] = ModelOptions()
    answers: Annotated[str | None, Internal()] = None

    def beside(self, output: str | None) -> Self:
        """The same, where judges keep answers beside an output if there is no cache."""
        if output in (None, "", "-"):
            return self
        return replace(self, answers=f"{output}.answers")

    def load(self, spec: MetricLike) -> Utility:
        """The metric of a name or signature, with the language, device and model that are set; aliases are noted."""
        if isinstance(spec, str):
            spec = self.parsed(spec)
        return self.adapted(load_metric(spec, allow_code=self.code.allow_code))

    def parsed(self, text: str) -> Spec:
        """A name or signature by registered names, without models of aliases where one is set; aliases are noted."""
        spec = Spec.of(text, with_models=not self.reading.model)
        for alias, name in spec.aliases.items():
            say(f"{alias} is {name}")
        return spec

    def load_all(self, specs: Iterable[MetricLike]) -> list[Utility]:
        """Several metrics, checked as in `check`."""
        metrics = [self.load(spec) for spec in specs]
        self.check(metrics)
        return metrics

    def adapted(self, metric: Utility) -> Utility:
        """The metric with the language, device and model that are set.

        Judges also have what they may spend, and where they keep answers.
        """
        reading = self.reading
        named = {name: getattr(reading, name) for name in MODELS}
        named |= {name: getattr(self.models, name) for name in ("device", "dtype", "batch_tokens")}
        named |= {field.name: getattr(self.judges, field.name) for field in fields(self.judges)}
        named["answers"] = self.models.cache or self.answers
        keeps_language = isinstance(metric, Combination)  # that of its training
        metric = metric.with_defaults(**{name: v for name, v in named.items() if v is not None})
        if reading.lang and not keeps_language:
            metric = metric.for_language(reading.lang)
        return metric

    def without_model(self) -> Self:
        """The same without the model, which is that of another metric."""
        reading = replace(self.reading, model=None, encoder_path=None, tokenizer_path=None)
        return replace(self, reading=reading)

    def check(self, metrics: Iterable[Any], strategy: str = "auto") -> None:
        """Says which options have no effect on the metrics.

        Args:
            metrics: loaded ones; names of features are passed over.
            strategy: where context comes from.

        Raises:
            InputError: a model is named and no metric has one, or several kinds of metric would take it.
        """
        whole = [metric for metric in metrics if not isinstance(metric, str)]
        parts = [part for metric in whole for _, part in metric.parts]
        inner = [part.innermost for part in parts]
        for name in MODELS:
            takers = {
                part.name for part, own in zip(parts, inner, strict=True) if hasattr(own, name)
            }
            if getattr(self.reading, name) and len(takers) != 1:
                problem = "no metric takes it"
                if takers:
                    problem = f"is meant for {', '.join(sorted(takers))}"
                fix = f"Name it in each metric: {name}=..., or leave it out"
                raise InputError(problem, where=flag_of(name), fix=fix)
        names = ", ".join(dict.fromkeys(part.name for part in parts))
        given = {
            field.name: getattr(own, field.name)
            for own in (self.models, self.judges)
            for field in fields(own)
        }
        for option, (setting, why) in _EFFECTS.items():
            if inner and given[option] is not None and not any(hasattr(p, setting) for p in inner):
                say(f"{flag_of(option)} has no effect: {names} {why}")
        if inner and strategy != "auto" and not any(part.reads.context for part in parts):
            say(f"--strategy has no effect: {names} reads no context")
        plain = MetricSettings.for_language
        if inner and self.reading.lang and all(type(p).for_language is plain for p in inner):
            say(f"--lang has no effect: {names} reads all languages alike")

    def cache(self) -> Cache | None:
        """The cache that the options name; closed at the end of the command."""
        if not self.models.cache:
            return None
        from ...metrics.execution.cache import Cache

        return close_at_end(Cache(self.models.cache, self.models.cache_bytes))


def check_references(metrics: Iterable[Utility]) -> None:
    """Raises InputError, where there are outputs without references, if a metric needs some."""
    parts = [part for metric in metrics for _, part in metric.parts]
    needing = [part.name for part in parts if part.info.needs_references]
    if needing:
        fix = "Add a file with a reference per line: --references FILE"
        problem = f"is missing, and {needing[0]} compares with references"
        raise InputError(problem, where="--references", fix=fix)


@settings
class BudgetOptions:
    """A budget of pairs for utilities whose pairs are costly.

    Args:
        budget: compute at most this share of the pairs of each list, such as 0.1; discorank docs choosing.
        confidence: stop with a list when its choice is that of all pairs with at least this probability, such as 0.95.
        regret: stop with a list when its choice is expected to lose at most so many standard deviations of the list's
            expected utilities, such as 0.01; beside --confidence, when both are met.
        cheap_utility: a utility all of whose pairs are computed first and guide the search, or a sum, each part of
            which guides it.
        force_budget: allow a budget where pairs cost next to nothing, as with chrf or bertscore.
    """

    heading: ClassVar = "estimator"

    budget: Annotated[
        Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None,
        Needs(PSEUDO_REFERENCES),
        Costs(ALL_PAIRS, EVERY_VALUE),
    ] = None
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    regret: Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, Rare()] = None
    cheap_utility: Annotated[str, Rare()] = CHEAP
    force_budget: Annotated[bool, Rare()] = False

    def __post_init__(self) -> None:
        for field in fields(self):
            if self.budget is None and getattr(self, field.name) != field.default:
                raise InputError("is for a budget", where=field.name, fix="Add --budget SHARE")

    def loaded(self, metrics: MetricOptions) -> Budget | None:
        """The budget; None without one."""
        if self.budget is None:
            return None
        return Budget(
            self.budget,
            confidence=self.confidence,
            regret=self.regret,
            cheap_utility=metrics.without_model().adapted(load_metric(self.cheap_utility)),
            force=self.force_budget,
        )


NO_BUDGET = BudgetOptions()


@settings
class EstimatorOptions:
    """How expected utilities come from pairs.

    Args:
        normalize_parts: what is done to the expected utilities of each part of a sum within a list before they are
            added: none, zscore, minmax (to 0..1) or rank (share of texts that are worse).
        shortlist: the utility of a first stage that keeps `top_k` distinct texts.
        top_k: how many the first stage keeps.
    """

    heading: ClassVar = "estimator"

    normalize_parts: Annotated[Normalize, Needs(ALL_PAIRS), Costs(PLAIN_SUMS)] = "none"
    shortlist: Annotated[str | None, Needs(FIRST_STAGE), Costs(EVERY_VALUE)] = None
    top_k: Annotated[int, Field(ge=1), Needs(FIRST_STAGE), Beside("shortlist")] = 16


@settings
class PriorFile:
    """The file of the prior that a `Pool` has.

    Args:
        prior: its path.
    """

    prior: str | None = None


@settings
class DecoderOptions:
    """The settings of an `MBRDecoder`.

    Args:
        utility: a metric, its name or signature, or a function u(h, r).
        pool: which texts count as pseudo-references, and how much.
        file: where the prior of the pool is.
        estimator: how expected utilities come from pairs.
        choice: what is chosen.
        order: where context comes from in lists of a document.
    """

    heading: ClassVar = "utility"

    utility: str | None = None
    pool: Annotated[Pool, Composed()] = Pool()
    file: Annotated[PriorFile, Composed()] = PriorFile()
    estimator: Annotated[EstimatorOptions, Composed()] = EstimatorOptions()
    choice: Annotated[Choice, Composed()] = Choice()
    order: Annotated[Order, Composed()] = Order()

    def loaded(
        self,
        metrics: MetricOptions,
        budget: BudgetOptions = NO_BUDGET,
        utility: Utility | None = None,
        features: Collection[Any] = (),
    ) -> MBRDecoder:
        """The decoder.

        Args:
            metrics: how its metrics are loaded.
            budget: of pairs.
            utility: the utility, where it is not that of the options.
            features: of a reranker that it is one of.

        Raises:
            InputError: the utility is missing, or settings do not go together.
        """
        if utility is None:
            utility = metrics.load(needed(self.utility, "utility"))
        shortlist = self.estimator.shortlist and metrics.load(self.estimator.shortlist)
        used = [*features, utility, *([shortlist] if shortlist else [])]
        metrics.check(used, self.order.strategy)
        estimator = Estimator(
            self.estimator.normalize_parts, shortlist, self.estimator.top_k, budget.loaded(metrics)
        )
        return MBRDecoder(utility, self.pool, estimator, self.choice, self.order)


@settings
class EngineSettings:
    """What computes.

    Args:
        workers: which processes.
        ray: how Ray is used.
    """

    workers: Annotated[WorkerOptions, Composed()] = WorkerOptions()
    ray: Annotated[RaySettings, Grouped()] = RaySettings()

    @contextmanager
    def opened(self, cache: Cache | None) -> Iterator[Engine]:
        """The engine, stopped at the end of the block."""
        if self.workers.engine == "ray":
            from ...rerank.engines.ray.engine import RayEngine

            with stdout_without(RAY_THREADS), RayEngine(self.ray, cache) as engine:
                yield engine
        elif self.workers.jobs == 1:
            yield LocalEngine(cache)
        else:
            from ...rerank.engines.processes import ProcessEngine

            with ProcessEngine(self.workers.jobs, cache) as processes:
                yield processes
