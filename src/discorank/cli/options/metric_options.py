"""The metrics that a command names: how they are loaded, which options have an effect on them, and their cache."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from ...metrics.combination import Combination
from ...metrics.errors import InputError
from ...metrics.execution.close_at_end import close_at_end
from ...metrics.metric_settings import MetricSettings
from ...metrics.mixture import Utility
from ...metrics.registry import MetricLike, aliases_in, load_metric, without_aliases, wrapped
from ...metrics.spec.checked_settings import Composed, Field, Internal, Rare, settings
from ..terminal.console import say
from .command_options import ModelOptions, ReadingOptions, flag_of

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
        """The metric of a name or signature, with the language, device and model that are set; aliases are said."""
        self.say_aliases(spec)
        if isinstance(spec, str) and self.reading.model:
            spec = without_aliases(spec)
        return self.adapted(load_metric(spec, allow_code=self.code.allow_code))

    def load_all(self, specs: Iterable[MetricLike]) -> list[Utility]:
        """Several metrics, checked as in `check`."""
        metrics = [self.load(spec) for spec in specs]
        self.check(metrics)
        return metrics

    def say_aliases(self, spec: MetricLike) -> None:
        """Says which metrics the aliases in a signature are."""
        for note in aliases_in(spec):
            say(note)

    def adapted(self, metric: Utility) -> Utility:
        """The metric with the language, device and model that are set, in the wrappers that options name.

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
        if reading.windows:
            metric = wrapped(metric, "windows", size=reading.windows)
        if reading.align:
            by = {"metric": None, "length": "length", "chrf": load_metric("chrf")}
            metric = wrapped(metric, "aligned", by=by[reading.align])
        if reading.split_sentences:
            metric = wrapped(metric, "split", at=reading.split_sentences)
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
