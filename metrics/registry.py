"""Names of metrics, and the one way to a metric: `load_metric`.

A name stands for a class, imported when it is asked for, and the settings it fixes. Other packages add names by the
entry-point group ``discorank.metrics``. Signatures that stand in files come by `load_from_data`, which imports no code
that the user has not allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from .aliases import alias_of, remark_on, settings_of
from .base import Metric
from .combination import Combination
from .errors import DiscorankError, InputError, ModelLoadError, excerpt, unknown
from .metric_settings import metric_of_model
from .mixture import NEGATED, Function, Mix, Utility, rewards_errors
from .spec.checked_settings import build
from .spec.signature import Call, parse, written_sum
from .spec.user_code import AllowedCode, CodeRefusedError, user_module
from .storage.json_and_yaml import read_yaml

GROUP = "discorank.metrics"
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")  # a model's, never a metric's
MetricLike = str | Path | Mapping[str, Any] | Utility | Callable[..., float]


class Registration(NamedTuple):
    """Where a name leads: ``module:Class`` (relative to this package if it starts with a dot), and fixed settings."""

    target: str
    settings: Mapping[str, Any] = {}


BUILT_IN: Mapping[str, Registration] = {
    "chrf": Registration(".lexical.chrf:ChrF"),
    "chrf++": Registration(".lexical.chrf:ChrF", {"word_order": 2}),
    "bleu": Registration(".lexical.bleu:BLEU"),
    "ter": Registration(".lexical.ter:TER"),
    "rouge-1": Registration(".lexical.rouge:RougeN", {"n": 1}),
    "rouge-2": Registration(".lexical.rouge:RougeN", {"n": 2}),
    "rouge": Registration(".lexical.rouge:RougeN"),
    "rouge-l": Registration(".lexical.rouge:RougeL"),
    "rouge-lsum": Registration(".lexical.rouge:RougeLsum"),
    "rouge-w": Registration(".lexical.rouge:RougeW"),
    "wer": Registration(".lexical.error_rate:WER"),
    "cer": Registration(".lexical.error_rate:CER"),
    "nist": Registration(".lexical.nist:NIST"),
    "meteor": Registration(".lexical.meteor:METEOR"),
    "vote": Registration(".lexical.vote:Vote"),
    "dr": Registration(".rst.metric:DR"),
    "dr-nolex": Registration(".rst.metric:DR"),
    "dr-lex": Registration(".rst.metric:DRLex"),
    "discotk-light": Registration(".rst.metric:DiscoTKLight"),
    "ds-focus": Registration(".discourse.coherence.ds_focus:DSFocus"),
    "ds-sent": Registration(".discourse.coherence.ds_sent:DSSent"),
    "cohesion": Registration(".discourse.coherence.cohesion:Cohesion"),
    "entity-graph": Registration(".discourse.coherence.entity_graph:EntityGraph"),
    "lexical-chain": Registration(".discourse.coherence.lexical_chain:LexicalChain"),
    "pdd": Registration(".discourse.roles.pdd:PDD"),
    "role-match": Registration(".discourse.roles.pdd:RoleMatch"),
    "combination": Registration(".combination:Combination"),
    "bertscore": Registration(".neural.bertscore:BERTScore"),
    "doc-bertscore": Registration(".neural.bertscore:BERTScore", {"context": 2}),
    "comet": Registration(".neural.comet.metric:Comet"),
    "doc-comet": Registration(".neural.comet.metric:Comet", {"context": 2}),
    "comet-qe": Registration(".neural.comet.metric:CometQE"),
    "doc-comet-qe": Registration(".neural.comet.metric:CometQE", {"context": 2}),
    "comet-poly": Registration(".neural.comet.metric:CometPoly"),
    "xcomet": Registration(".neural.xcomet:XComet"),
    "doc-xcomet": Registration(".neural.xcomet:XComet", {"context": 1}),
    "xcomet-qe": Registration(".neural.xcomet:XCometQE"),
    "metricx": Registration(".neural.metricx.metric:MetricX"),
    "doc-metricx": Registration(".neural.metricx.metric:MetricX", {"context": 2}),
    "metricx-qe": Registration(".neural.metricx.metric:MetricXQE"),
    "doc-metricx-qe": Registration(".neural.metricx.metric:MetricXQE", {"context": 2}),
    "embedding": Registration(".neural.embedding.metric:Embedding"),
    "doc-embedding": Registration(".neural.embedding.metric:Embedding", {"context": 2}),
    "embedding-qe": Registration(".neural.embedding.metric:EmbeddingQE"),
    "bleurt": Registration(".neural.bleurt.metric:BLEURT"),
    "doc-bleurt": Registration(".neural.bleurt.metric:BLEURT", {"context": 2}),
    "sescore2": Registration(".sescore2.metric:SEScore2"),
    "score-server": Registration("..integrations.server.score_server:ScoreServer"),
    "score-server-qe": Registration("..integrations.server.score_server:ScoreServerQE"),
    "reward-server": Registration("..integrations.server.score_server:RewardServer"),
    "judge": Registration("..integrations.judges.judge:JudgeWithReference"),
    "doc-judge": Registration("..integrations.judges.judge:JudgeWithReference", {"context": 2}),
    "judge-qe": Registration("..integrations.judges.judge:JudgeWithoutReference"),
    "doc-judge-qe": Registration(
        "..integrations.judges.judge:JudgeWithoutReference", {"context": 2}
    ),
    "lm": Registration(".neural.causal.metric:LM"),
    "doc-lm": Registration(".neural.causal.metric:LM", {"context": 2}),
    "lm-pair": Registration(".neural.causal.metric:LMPair"),
    "entail": Registration(".neural.entail:Entail"),
    "reward": Registration(".neural.reward:Reward"),
    "prism": Registration(".neural.likelihood:Prism"),
    "doc-prism": Registration(".neural.likelihood:Prism", {"context": 2}),
    "bartscore": Registration(".neural.likelihood:BARTScore"),
    "bartscore-faithfulness": Registration(".neural.likelihood:BARTScoreFaithfulness"),
}

# what stands around a metric: ``aligned(chrf)``
WRAPPERS: Mapping[str, Registration] = {
    "aligned": Registration(".documents.aligned:Aligned"),
    "windows": Registration(".documents.windows:Windows"),
    "split": Registration(".documents.wrapper:Split"),
}


@cache
def names() -> Mapping[str, Registration]:
    """All registered names; a plug-in may not take a built-in name, which means the built-in metric anyhow."""
    from importlib.metadata import entry_points

    plug_ins = {point.name: Registration(point.value) for point in entry_points(group=GROUP)}
    clashes = sorted(plug_ins.keys() & (BUILT_IN.keys() | WRAPPERS.keys()))
    if clashes:
        raise InputError(
            f"a plug-in registers the built-in name {clashes[0]!r}",
            where=GROUP,
            fix="Uninstall it",
        )
    return {**BUILT_IN, **plug_ins}


def _registration(name: str) -> Registration | None:
    """The entry of a name; plug-ins are looked for where it is not built in."""
    return BUILT_IN.get(name) or WRAPPERS.get(name) or names().get(name)


def registered_name(name: str) -> str:
    """The registered name that this is in other letters, BLEU or doc_comet, or an alias of; what is none stays."""
    if _registration(name) or ":" in name:
        return name
    plain = name.lower().replace("_", "-")
    if _registration(plain):
        return plain
    alias = alias_of(name)
    return alias if alias and _registration(alias) else name


def aliases_in(spec: Any) -> list[str]:
    """A note on every alias in a signature, ``discoscore is ds-focus``; none for what is no signature."""
    if not isinstance(spec, str) or spec.endswith((".yaml", ".yml", ".json")):
        return []
    try:
        terms = parse(spec)
    except InputError:
        return []
    written = dict.fromkeys(call.name for term in terms for call in term.every)
    meant = {name: registered_name(name) for name in written if alias_of(name)}
    return [f"{name} is {metric}" for name, metric in meant.items() if metric != name]


def without_aliases(spec: str) -> str:
    """A signature by registered names, without the models that aliases bring.

    >>> without_aliases("chrf + 0.5*cometkiwi")
    'chrf + 0.5*comet-qe'
    """

    def registered(match: re.Match[str]) -> str:
        brings_model = not settings_of(match[0]).keys() - {"model"}
        is_replaced = alias_of(match[0]) and brings_model
        return registered_name(match[0]) if is_replaced else match[0]

    return re.sub(r"\"[^\"]*\"|'[^']*'|[A-Za-z_][\w.:<>/-]*(?:\+\+)?", registered, spec)


def as_typed(signature: str) -> str:
    """A signature by the names under which settings are registered, as people type it; what is none stays.

    >>> as_typed("chrf(word_order=2) + -0.5*rouge(n=1)")
    'chrf++ - 0.5*rouge-1'
    >>> as_typed('comet(model="m",context=2)'), as_typed("bertscore(context=1)")
    ('doc-comet(model="m")', 'doc-bertscore(context=1)')
    """
    try:
        terms = parse(signature)
    except InputError:
        return signature
    return written_sum([(term.weight, _typed_call(term).text) for term in terms])


def _typed_call(call: Call) -> Call:
    """A call by the registered name with the most of its settings; one in context has the name for that."""
    inner = tuple(map(_typed_call, call.inner))
    own = _registration(call.name)
    fits = [
        (len(entry.settings), name)
        for name, entry in names().items()
        if own is not None and entry.target == own.target and _has_settings(call, entry.settings)
    ]
    if own is None or not fits:
        return call._replace(inner=inner)
    num_settings, name = max(fits)
    if not num_settings:
        return call._replace(inner=inner)
    fixed = names()[name].settings
    rest = {key: value for key, value in call.settings.items() if fixed.get(key) != value}
    return call._replace(name=name, settings=rest, inner=inner)


def _has_settings(call: Call, fixed: Mapping[str, Any]) -> bool:
    """Whether a call has these settings; any context is one."""
    own = call.settings
    return all(
        own.get(key) == value or (key == "context" and own.get(key)) for key, value in fixed.items()
    )


def is_known_otherwise(name: str) -> bool:
    """Whether more is known of a name that is no metric's: it means something, or is a model's."""
    return remark_on(name) is not None or metric_of_model(name) is not None


def unknown_metric(name: str) -> InputError:
    """The error for a name of no metric: what it means, or the signature to write, where a model has this name."""
    if remark := remark_on(name):
        return InputError(f"unknown metric {name!r}", fix=remark)
    signature = metric_of_model(name)
    if signature is None:
        return unknown("metric", name, names())
    fix = f"Name the metric that reads it: '{signature}'"
    return InputError(f"{name!r} is a model", where="metric", fix=fix)


def metric_class(name: str) -> type[Metric | Combination]:
    """The class behind a registered name or a ``module:Class``.

    Raises:
        InputError: there is no such name.
        ModelLoadError: its module cannot be imported.
    """
    target = _object(name)
    if not (isinstance(target, type) and issubclass(target, Metric | Combination)):
        raise InputError(
            f"{name!r} is not a metric",
            where="metric",
            fix="A metric is a subclass of discorank.Metric",
        )
    return target


def papers_of(name: str, settings: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The papers of a built-in metric with some settings; None for a metric that is not built in."""
    if name not in BUILT_IN and name not in WRAPPERS:
        return None
    fixed = (BUILT_IN.get(name) or WRAPPERS[name]).settings
    return metric_class(name).cited({**fixed, **settings})


def load_metric(
    spec: MetricLike, /, *, allow_code: str | Sequence[str] = (), **settings: Any
) -> Utility:
    """A metric from its name, its signature, a mapping, a YAML file, a Python function or a ``module:Class``.

    Args:
        spec: ``"chrf"``, ``'bleu(tokenize="zh")'``, ``"chrf + 0.5*bleu"``, ``{"name": "chrf", "beta": 1}``,
            ``"metric.yaml"`` (such a mapping), ``"package.module:Class"``, a function ``u(h, r)``, or a metric.
        allow_code: modules whose code a combination may name; what `spec` itself names needs no leave.
        settings: further settings, for a name alone.

    Raises:
        InputError: an unknown name or setting (with its nearest matches), a value out of range, or a combination that
            names code of a module that is not allowed.
        ModelLoadError: the module of a plug-in cannot be imported.
    """
    if isinstance(spec, Metric | Mix):
        return spec
    if isinstance(spec, Mapping):
        return _from_mapping({**spec, **settings}, allow_code)
    if isinstance(spec, Path) or (isinstance(spec, str) and spec.endswith((".yaml", ".yml"))):
        return _from_mapping({**read_yaml(spec), **settings}, allow_code, where=str(spec))
    if isinstance(spec, str):
        if spec.endswith(".json"):
            fix = f"A trained combination is named combination(model={json.dumps(spec, ensure_ascii=False)})"
            raise InputError("is a file, expected a metric", where=spec, fix=fix)
        return _from_terms(_terms(spec), spec, settings, AllowedCode.of(allow_code))
    if isinstance(spec, type):
        raise InputError(
            f"found the class {spec.__name__}",
            where="metric",
            fix=f"Make one: {spec.__name__}()",
        )
    if callable(spec):
        return Function(spec)
    raise InputError(
        f"found {excerpt(spec)}, expected a metric",
        where="metric",
        fix="Give a name such as 'chrf'",
    )


def load_from_data(
    text: str, allowed: AllowedCode, settings: Mapping[str, Any] | None = None
) -> Utility:
    """The metric of a signature that stands in a file, and further settings, code only from what is allowed.

    Raises:
        CodeRefusedError: it names other code; nothing was imported.
        InputError, ModelLoadError: as `load_metric`.
    """
    terms = _terms(text)
    every = [call for term in terms for call in term.every]
    for call in every:
        _check_name(call.name, allowed)
    for values in (*(call.settings for call in every), settings or {}):
        allowed.check_settings(values)
    return _from_terms(terms, text, settings or {}, allowed, in_data=True)


def load_without_code(spec: str) -> Utility:
    """The metric of a name, a signature or a YAML file, as `load_metric`, but only if discorank's own code makes it.

    Raises:
        CodeRefusedError: it needs code of the user's own, or of a plug-in; nothing was imported.
        InputError: as `load_metric`.
    """
    allowed = AllowedCode(plug_ins=False, users_own=True)
    if not spec.endswith((".yaml", ".yml")):
        return load_from_data(spec, allowed)
    values = read_yaml(spec)
    name = values.pop("name", None)
    if not isinstance(name, str):
        raise InputError(f"found {excerpt(values)}", where=spec, fix='Write {"name": "chrf", ...}')
    return load_from_data(name, allowed, values)


def _terms(text: str) -> list[Call]:
    """The terms of a signature, by their registered names."""
    if HUB_NAME.fullmatch(text):
        raise unknown_metric(text)
    try:
        terms = parse(text)
    except InputError as error:
        raise _with_second_plus(error, text) from None
    return list(map(_registered, terms))


def _registered(call: Call) -> Call:
    """A call by registered names, inside too."""
    name = registered_name(call.name)
    if call.inner and name not in WRAPPERS:
        fix = f"Settings are name=value; a metric stands in {', '.join(WRAPPERS)} alone"
        raise InputError("is no wrapper", where=call.name, fix=fix)
    settings = call.settings
    if name != call.name:
        settings = {**settings_of(call.name), **settings}
    return call._replace(name=name, settings=settings, inner=tuple(map(_registered, call.inner)))


def _with_second_plus(error: InputError, text: str) -> InputError:
    """The error of a signature; where a name ends in one + and is known with two, as chrf+, it says so."""
    for name in re.findall(r"([\w.-]+)\+(?=\s*(?:\+|$))", text):
        if f"{name}++" in names():
            fix = f"Did you mean {name}++? {error.fix}"
            return InputError(error.problem, where=error.where, fix=fix)
    return error


def _check_name(name: str, allowed: AllowedCode) -> None:
    """Raises CodeRefusedError for the name of a metric that is neither built in nor allowed."""
    if name in BUILT_IN or name in WRAPPERS or (allowed.plug_ins and _is_plug_in(name)):
        return
    code = names()[name].target if name in names() else name
    if ":" in code:
        allowed.check(code)


def _check_users_own(target: type[Metric], call: Call) -> None:
    """Raises CodeRefusedError for settings in a file that only the user may give: where texts and keys are sent."""
    for setting in target.users_own:
        if setting in call.settings:
            fix = f"Take it out of the file; discorank metrics {call.name} says how to give it"
            raise CodeRefusedError(
                "is not for a file to say", where=f"{call.name}.{setting}", fix=fix
            )


def _is_plug_in(name: str) -> bool:
    """Whether a name is that of a plug-in, or of the class that it registers, which stands in signatures."""
    targets = [registration.target for registration in names().values()]
    return (name in names() or name in targets) and name not in BUILT_IN


def _from_terms(
    terms: Sequence[Call],
    text: str,
    settings: Mapping[str, Any],
    allowed: AllowedCode,
    in_data: bool = False,
) -> Utility:
    """The metric of a signature; a mix where it has several terms or a weight."""
    if len(terms) == 1 and terms[0].weight == 1:
        only = terms[0]._replace(settings={**terms[0].settings, **settings})
        return _utility_of(only, allowed, in_data)
    if settings:
        raise InputError(
            f"settings {sorted(settings)} beside a mix",
            where=text,
            fix="Write them into the terms",
        )
    utilities = [_utility_of(term, allowed, in_data) for term in terms]
    _check_directions(terms, utilities)
    parts: list[tuple[float, Metric]] = []
    for term, utility in zip(terms, utilities, strict=True):
        parts += [(term.weight * weight, metric) for weight, metric in utility.parts]
    return Mix(tuple(parts))


def _check_directions(terms: Sequence[Call], utilities: Sequence[Utility]) -> None:
    """Raises InputError for a minus in front of a metric where lower is better, with the sum that is meant."""
    pairs = list(zip(terms, utilities, strict=True))
    wrong = [term for term, utility in pairs if rewards_errors(term.weight, utility)]
    if wrong:
        meant = [(abs(term.weight) if term in wrong else term.weight, term.text) for term in terms]
        raise InputError(
            f"{written_sum([(wrong[0].weight, wrong[0].text)])!r}: {NEGATED}",
            where="utility",
            fix=f"Write {written_sum(meant)!r}",
        )


def _from_mapping(
    values: Mapping[str, Any], allow_code: str | Sequence[str], where: str = "metric"
) -> Utility:
    name = values.get("name")
    if not isinstance(name, str):
        raise InputError(
            f"found {excerpt(dict(values))}",
            where=where,
            fix='Write {"name": "chrf", ...}',
        )
    if name.endswith((".yaml", ".yml")):
        fix = "Write the metric's own name and settings"
        raise InputError(f"names the file {excerpt(name)}", where=where, fix=fix)
    settings = {str(key): value for key, value in values.items() if key != "name"}
    if "allow_code" in settings:
        fix = "Give it to load_metric, or as --allow-code"
        raise InputError("allow_code is no setting of a metric", where=where, fix=fix)
    return load_metric(name, allow_code=allow_code, **settings)


def _utility_of(call: Call, allowed: AllowedCode, in_data: bool) -> Utility:
    """The metric of one term of a signature, with its settings."""
    target = _object(call.name)
    if call.name in WRAPPERS:
        return _wrapped(target, call, allowed, in_data)
    if in_data and call.name not in BUILT_IN and not _is_plug_in(call.name):
        allowed.check_home(target, call.name)
    if target is Combination:
        from_file = partial(load_from_data, allowed=allowed._replace(users_own=False))
        return Combination.make(call.settings, from_file)
    registration = _registration(call.name)
    fixed = registration.settings if registration else {}
    if isinstance(target, type) and issubclass(target, Metric):
        if in_data and not allowed.users_own:
            _check_users_own(target, call)
        return build(target, {**fixed, **call.settings})
    if isinstance(target, type) or not callable(target):
        raise InputError(
            f"{call.name!r} is not a metric",
            fix="Give a subclass of discorank.Metric or a function",
        )
    if call.settings:
        raise InputError(f"{call.name} is a function and has no settings", where="metric")
    unlabelled = Function(target)
    return unlabelled if unlabelled.name == call.name else Function(target, call.name)


def wrapped(utility: Utility, name: str, **settings: Any) -> Utility:
    """A utility whose metrics of segments are each in a wrapper, but for those that are in one of the kind already.

    Args:
        utility: a metric or a sum.
        name: of the wrapper; windows come to stand inside of others.
        settings: of the wrapper.
    """
    from .documents.wrapper import Wrapper

    kind = _object(name)

    def change(metric: Metric) -> Metric:
        if type(metric) is kind or metric.info.unit == "document":
            return metric
        if isinstance(metric, Wrapper) and (name == "windows" or kind in metric.kinds):
            return replace(metric, metric=change(metric.metric))
        made: Metric = build(kind, {"metric": metric, **settings})
        return made

    return utility.mapped(change)


def _wrapped(target: Any, call: Call, allowed: AllowedCode, in_data: bool) -> Utility:
    """A wrapper around every part of what stands in it; a proxy metric is named by its signature."""
    if not call.inner:
        fix = f"Write it around a metric: {call.name}(chrf)"
        raise InputError("has no metric in it", where=call.name, fix=fix)
    settings = dict(call.settings)
    proxy = settings.get("by")
    if isinstance(proxy, str) and proxy != "length":
        is_data = in_data and not allowed.users_own
        settings["by"] = (
            load_from_data(proxy, allowed)
            if is_data
            else _from_terms(_terms(proxy), proxy, {}, allowed)
        )
    utility = _from_terms(call.inner, call.name, {}, allowed, in_data)
    return utility.mapped(lambda metric: build(target, {"metric": metric, **settings}))


def _object(name: str) -> Any:
    """The class or function of a registered name or a ``module:Class``."""
    registration = _registration(name)
    if registration is None and ":" not in name:
        raise unknown_metric(name)
    module, _, attribute = (registration.target if registration else name).partition(":")
    try:
        is_own = registration is not None
        target: Any = import_module(module, __package__) if is_own else user_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except DiscorankError:
        raise
    except (Exception, SystemExit) as error:  # another's module may raise anything, or leave
        raise ModelLoadError(
            f"{type(error).__name__}: {error}",
            where=f"metric {name!r}",
            fix="Is its package installed?",
        ) from error
    return target
