"""The input of a command: which file, in which format; the metrics a command names."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...integrations.formats.format_table import ListOptions
from ...integrations.formats.open_lists import Lists, open_lists
from ...metrics.combination import Combination
from ...metrics.errors import InputError
from ...metrics.execution.close_at_end import close_at_end
from ...metrics.metric_settings import MetricSettings
from ...metrics.mixture import Utility
from ...metrics.registry import aliases_in, load_metric, without_aliases, wrapped
from ...metrics.spec.checked_settings import Field, Rare, settings
from ...metrics.storage.bounded_files import check_regular
from ...metrics.storage.checksums import digest_of
from ..terminal.console import say
from . import MODEL_OPTIONS, flag_of, needed

if TYPE_CHECKING:
    from ...metrics.execution.cache import Cache

JUDGE_OPTIONS = ("max_calls", "max_tokens")


@settings
class InputOptions:
    """Where candidate lists come from.

    Args:
        input: the file (.gz too; .csv, .tsv, .parquet, .arrow, .arrows, .feather), or - for stdin.
        input_format: its format: {formats}.
        num_candidates: {formats:num_candidates}: lines per source, read from the counts if not given.
        sources: {formats:sources}: the file of sources, one per line.
        documents: {formats:sources}: the file of document ids, one per line.
        requests: {formats:requests}: the file of requests that the output answers.
        human: {formats:human}: keys that hold human scores, such as mqm:lower.
        as_systems: {formats:as_systems}: references to treat as systems.
        include: {formats:include}: further keys that hold systems.
        columns: {formats:columns}: which column of a table, or key of JSON lines, is which key, such as id=prompt_id
            candidates=samples, or of a candidate a row text=output; =COLUMN leaves one out, id=# numbers the rows.
        language_pair: {formats:language_pair}: the language pair, where there are several.
        mqm_weights: {formats:mqm_weights}: what errors count, such as major=10 minor/style=0, where not as at WMT.
    """

    heading: ClassVar = "input"

    input: str | None = None
    input_format: str = "jsonl"
    num_candidates: int | None = None
    sources: str | None = None
    documents: str | None = None
    requests: Annotated[str | None, Rare()] = None
    human: tuple[str, ...] = ()
    as_systems: tuple[str, ...] = ()
    include: Annotated[tuple[str, ...], Rare()] = ()
    columns: Annotated[tuple[str, ...], Rare()] = ()
    language_pair: Annotated[str | None, Rare()] = None
    mqm_weights: Annotated[tuple[str, ...], Rare()] = ()


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


def open_input(values: Mapping[str, Any]) -> Lists:
    """The lists that the options name; errors as `open_lists`."""
    options = {
        field.name: values[field.name] for field in fields(ListOptions) if field.name in values
    }
    lists = open_lists(needed(values, "input", "INPUT"), values["input_format"], **options)
    lists.tell(lambda remark: say(remark, values["quiet"]))
    return lists


def metric_in(values: Mapping[str, Any], spec: Any) -> Utility:
    """The metric that an option names, with the language, device and model that are set; aliases are said."""
    say_aliases(spec, values)
    if isinstance(spec, str) and values.get("model"):
        spec = without_aliases(spec)
    return adapted(load_metric(spec, allow_code=values["allow_code"]), values)


def say_aliases(spec: Any, values: Mapping[str, Any]) -> None:
    """Says which metrics the aliases in a signature are."""
    for note in aliases_in(spec):
        say(note, values.get("quiet", False))


def adapted(metric: Utility, values: Mapping[str, Any]) -> Utility:
    """The metric with the language, device and model that are set, and what judges may spend and where they keep it.

    Metrics of segments are in the wrappers that options name.
    """
    names = (*MODEL_OPTIONS, *JUDGE_OPTIONS)
    named = {name: values[name] for name in names if values.get(name) is not None}
    answers = answers_folder(values)
    if answers is not None:
        named["answers"] = answers
    keeps_language = isinstance(metric, Combination)  # that of its training
    metric = metric.with_defaults(**named)
    if values["lang"] and not keeps_language:
        metric = metric.for_language(values["lang"])
    if values.get("windows"):
        metric = wrapped(metric, "windows", size=values["windows"])
    if values.get("align"):
        by = {"metric": None, "length": "length", "chrf": load_metric("chrf")}
        metric = wrapped(metric, "aligned", by=by[values["align"]])
    if values.get("split_sentences"):
        metric = wrapped(metric, "split", at=values["split_sentences"])
    return metric


def check_model(values: Mapping[str, Any], metrics: Collection[Any]) -> None:
    """Raises InputError if a model is named and no metric has one, or several kinds of metric would take it.

    Says which options have no effect.
    """
    parts = [part for metric in metrics if not isinstance(metric, str) for _, part in metric.parts]
    for name in ("model", "encoder_path", "tokenizer_path"):
        takers = {part.name for part in parts if hasattr(part.innermost, name)}
        if values[name] and len(takers) != 1:
            problem = "no metric takes it"
            if takers:
                problem = f"is meant for {', '.join(sorted(takers))}"
            raise InputError(
                problem,
                where=f"--{name.replace('_', '-')}",
                fix=f"Name it in each metric: {name}=..., or leave it out",
            )
    say_idle(values, metrics)


# what a metric has if an option has an effect on it, and what to say of one that has none
_EFFECTS = {
    "device": ("device", "runs no model"),
    "dtype": ("dtype", "runs no model"),
    "batch_tokens": ("batch_tokens", "runs no model"),
    "cache": ("device", "runs no model"),
    "max_calls": ("max_calls", "asks no server"),
    "max_tokens": ("max_tokens", "asks no server"),
}


def say_idle(values: Mapping[str, Any], metrics: Iterable[Any]) -> None:
    """Says which options have no effect on any of the metrics."""
    parts = [part for metric in metrics if not isinstance(metric, str) for _, part in metric.parts]
    inner = [part.innermost for part in parts]
    names = ", ".join(dict.fromkeys(part.name for part in parts))
    for option, (setting, why) in _EFFECTS.items():
        has_effect = any(hasattr(part, setting) for part in inner)
        if inner and values.get(option) is not None and not has_effect:
            say(f"{flag_of(option)} has no effect: {names} {why}", values.get("quiet", False))
    if (
        inner
        and values.get("strategy", "auto") != "auto"
        and not any(p.reads.context for p in parts)
    ):
        say(f"--strategy has no effect: {names} reads no context", values.get("quiet", False))
    plain = MetricSettings.for_language
    if values.get("lang") and all(type(part).for_language is plain for part in inner) and inner:
        say(f"--lang has no effect: {names} reads all languages alike", values.get("quiet", False))


def check_references(values: Mapping[str, Any], metrics: Iterable[Utility]) -> None:
    """Raises InputError where --hypotheses stand without --references and a metric needs some."""
    if not values["hypotheses"] or values["references"]:
        return
    parts = [part for metric in metrics for _, part in metric.parts]
    needing = [part.name for part in parts if part.info.needs_references]
    if needing:
        fix = "Add a file with a reference per line: --references FILE"
        problem = f"is missing, and {needing[0]} compares with references"
        raise InputError(problem, where="--references", fix=fix)


def answers_folder(values: Mapping[str, Any]) -> str | None:
    """Where judges keep answers: in the cache, or beside the output of a command that has a bound on calls."""
    if values.get("cache"):
        return str(values["cache"])
    output = values.get("output") if "max_calls" in values else values.get("decided_run")
    return None if output in (None, "", "-") else answers_beside(str(output))


def answers_beside(output: str) -> str:
    """The folder beside an output where answers are kept."""
    return f"{output}.answers"


def cache_in(values: Mapping[str, Any]) -> Cache | None:
    """The cache that the options name; closed at the end of the command."""
    if not values["cache"]:
        return None
    from ...metrics.execution.cache import Cache

    return close_at_end(Cache(values["cache"], values["cache_bytes"]))


READ_BESIDE = ("sources", "documents", "requests")  # options that name further files of the input


def reading_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that make other lists of the same bytes."""
    reading: dict[str, Any] = {}
    if values.get("utilities"):
        reading["utilities"] = file_key(
            values["utilities"], "Give a file that --save-utilities wrote"
        )
    digests = {
        name: file_key(values[name], "Give the file that belongs to the input")
        for name in READ_BESIDE
        if values.get(name) and os.path.isfile(values[name])
    }
    if digests:
        reading["files"] = digests
    for name in (
        "input_format",
        "num_candidates",
        "human",
        "as_systems",
        "include",
        "columns",
        "language_pair",
        "mqm_weights",
    ):
        value = values[name]
        if value not in (None, ()):
            reading[name] = list(value) if isinstance(value, tuple) else value
    return reading


def file_key(path: str, fix: str) -> str:
    """A digest of a file's bytes; raises InputError if it is none."""
    check_regular(path, fix)
    return digest_of(path, "blake2b").hex()[:32]
