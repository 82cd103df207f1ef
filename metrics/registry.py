"""Metrics by name: a name is parsed once (`Spec`) and loaded once (`load_metric`).

Names are those of `names`, with those that other packages add by the entry-point group ``discorank.metrics``. A `Spec`
from a file imports no code that the user has not allowed (`load_from_data`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from .base import Metric
from .combination import Combination
from .errors import DiscorankError, InputError, ModelLoadError, excerpt, unknown
from .mixture import NEGATED, Function, Mix, Utility, rewards_errors
from .names import ALIASES, BUILT_IN, SETTINGS, WRAPPERS, Registration, letters, meaning_of
from .spec.checked_settings import build
from .spec.signature import Call, parse, written_sum
from .spec.user_code import AllowedCode, CodeRefusedError, user_module
from .storage.json_and_yaml import read_yaml

GROUP = "discorank.metrics"
YAML = (".yaml", ".yml")
_EXAMPLE = 'Write {"name": "chrf", ...}'


class Spec(NamedTuple):
    """A metric or a sum of metrics as it was named, by registered names.

    Args:
        terms: the terms of the sum, whose names may be unknown.
        where: the text or file, for errors.
        aliases: the registered names of the aliases in it.
    """

    terms: tuple[Call, ...]
    where: str
    aliases: Mapping[str, str] = {}

    @classmethod
    def parse(cls, text: str, *, with_models: bool = True) -> Spec:
        """Parse a name or a signature.

        Args:
            text: such as ``chrf + 0.5*cometkiwi``.
            with_models: whether an alias stands for a model too, where none is given.

        Raises:
            InputError: the text is not a signature, or has a metric inside of what is not a wrapper.
        """
        aliases: dict[str, str] = {}

        def registered(call: Call) -> Call:
            name = registered_name(call.name)
            brought = {}
            if name != call.name and letters(call.name) in ALIASES:
                aliases[call.name] = name
                brought = dict(SETTINGS.get(letters(call.name), {}))
                if not with_models:
                    brought.pop("model", None)
            if call.inner and name not in WRAPPERS:
                fix = f"Settings are name=value; only {', '.join(WRAPPERS)} take a metric"
                raise InputError("is not a wrapper", where=call.name, fix=fix)
            inner = tuple(map(registered, call.inner))
            return call._replace(name=name, settings={**brought, **call.settings}, inner=inner)

        return cls(tuple(map(registered, parse(text))), text, aliases)

    @classmethod
    def of(
        cls, given: str | Path | Mapping[str, Any], /, *, with_models: bool = True, **settings: Any
    ) -> Spec:
        """Read a name, a signature, a mapping or a YAML file, and further settings; errors as `load_metric`."""
        if not isinstance(given, Mapping):
            text = str(given)
            if text.endswith(".json"):
                fix = f"A trained combination is named combination(model={json.dumps(text, ensure_ascii=False)})"
                raise InputError("is a file, expected a metric", where=text, fix=fix)
            if not text.endswith(YAML):
                return cls.parse(text, with_models=with_models)._with(settings)
        where = "metric" if isinstance(given, Mapping) else str(given)
        values = {**(given if isinstance(given, Mapping) else read_yaml(given)), **settings}
        name = values.pop("name", None)
        if not isinstance(name, str) or name.endswith(YAML) or "allow_code" in values:
            raise InputError(
                f"found {excerpt({'name': name, **values})}", where=where, fix=_EXAMPLE
            )
        return cls.parse(name, with_models=with_models)._with(values)

    def _with(self, settings: Mapping[str, Any]) -> Spec:
        """Add settings to a single metric."""
        if not settings:
            return self
        if not self.is_single:
            problem = f"settings {sorted(settings)} beside a mix"
            raise InputError(problem, where=self.where, fix="Write them into the terms")
        call = self.terms[0]
        return self._replace(terms=(call._replace(settings={**call.settings, **settings}),))

    @property
    def is_single(self) -> bool:
        """True for one metric without a weight."""
        return len(self.terms) == 1 and self.terms[0].weight == 1

    @property
    def calls(self) -> Iterator[Call]:
        """All terms, those inside of wrappers after these."""
        return (call for term in self.terms for call in term.every)

    def check_names(self) -> None:
        """Raises InputError for an unknown name; imports no metric."""
        for call in self.calls:
            if ":" not in call.name and not _registration(call.name):
                raise unknown_metric(call.name)

    @property
    def text(self) -> str:
        """The signature, with all settings as they were given."""
        return written_sum([(term.weight, term.text) for term in self.terms])


MetricLike = str | Path | Mapping[str, Any] | Spec | Utility | Callable[..., float]


@cache
def names() -> Mapping[str, Registration]:
    """All registered names; a plug-in may not take a built-in name, which means the built-in metric anyhow."""
    from importlib.metadata import entry_points

    plug_ins = {point.name: Registration(point.value) for point in entry_points(group=GROUP)}
    clashes = sorted(plug_ins.keys() & (BUILT_IN.keys() | WRAPPERS.keys()))
    if clashes:
        problem = f"a plug-in registers the built-in name {clashes[0]!r}"
        raise InputError(problem, where=GROUP, fix="Uninstall it")
    return {**BUILT_IN, **plug_ins}


def _registration(name: str) -> Registration | None:
    """The entry of a name; plug-ins are looked for where it is not built in."""
    return BUILT_IN.get(name) or WRAPPERS.get(name) or names().get(name)


@cache
def _by_letters() -> Mapping[str, str]:
    """Registered names by their plain letters, and by those of their aliases."""
    return {**ALIASES, **{letters(name): name for name in (*WRAPPERS, *names())}}


def registered_name(name: str) -> str:
    """The registered name that this is in other letters, BLEU or doc_comet, or an alias of; others stay."""
    if ":" in name or _registration(name):
        return name
    return _by_letters().get(letters(name), name)


def as_typed(signature: str) -> str:
    """A signature by the names under which settings are registered, as people type it; other texts stay.

    >>> as_typed("chrf(word_order=2) + -0.5*rouge(n=1)")
    'chrf++ - 0.5*rouge-1'
    >>> as_typed('comet(model="m",context=2)'), as_typed("bertscore(context=1)")
    ('doc-comet(model="m")', 'doc-bertscore(context=1)')
    """
    try:
        terms = parse(signature)
    except InputError:
        return signature
    return written_sum([(term.weight, _typed(term).text) for term in terms])


def _typed(call: Call) -> Call:
    """A call by the registered name with the most of its settings; any context fits a name with some."""
    own, given = _registration(call.name), call.settings
    best, fixed = call.name, Registration("").settings
    for name, entry in names().items() if own else ():
        fits = all(
            given.get(key) == value or (key == "context" and given.get(key))
            for key, value in entry.settings.items()
        )
        is_better = (len(entry.settings), name) > (len(fixed), best)
        if own and entry.target == own.target and fits and is_better:
            best, fixed = name, entry.settings
    if not fixed:
        best = call.name
    rest = {key: value for key, value in given.items() if fixed.get(key) != value}
    return call._replace(name=best, settings=rest, inner=tuple(map(_typed, call.inner)))


def is_unknown(name: str) -> bool:
    """Whether nothing is known of a name: it is neither a metric's nor a model's, nor the start of advice."""
    return name not in names() and not any(meaning_of(name))


def unknown_metric(name: str) -> InputError:
    """The error for an unknown name: what it means, or the signature to write for a model."""
    problem, fix = meaning_of(name)
    return InputError(problem, where="metric", fix=fix) if fix else unknown("metric", name, names())


def metric_class(name: str) -> type[Metric | Combination]:
    """The class of a registered name or a ``module:Class``.

    Raises:
        InputError: there is no such name.
        ModelLoadError: its module cannot be imported.
    """
    target = _object(name)
    if not (isinstance(target, type) and issubclass(target, Metric | Combination)):
        raise _not_a_metric(name)
    return target


def _not_a_metric(name: str) -> InputError:
    fix = "Give a subclass of discorank.Metric, or a function"
    return InputError(f"{name!r} is not a metric", where="metric", fix=fix)


def papers_of(name: str, settings: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The papers of a built-in metric with some settings; None for other metrics."""
    built_in = BUILT_IN.get(name) or WRAPPERS.get(name)
    if built_in is None:
        return None
    return metric_class(name).cited({**built_in.settings, **settings})


def load_metric(
    spec: MetricLike, /, *, allow_code: str | Sequence[str] = (), **settings: Any
) -> Utility:
    """A metric from its name, its signature, a mapping, a YAML file, a Python function or a ``module:Class``.

    Args:
        spec: ``"chrf"``, ``'bleu(tokenize="zh")'``, ``"chrf + 0.5*bleu"``, ``{"name": "chrf", "beta": 1}``,
            ``"metric.yaml"`` (such a mapping), ``"package.module:Class"``, a function ``u(h, r)``, or a metric.
        allow_code: modules whose code a combination may name; `spec` itself may name any.
        settings: further settings, for a name alone.

    Raises:
        InputError: an unknown name or setting (with its nearest matches), a value out of range, or a combination that
            names code of a module that is not allowed.
        ModelLoadError: the module of a plug-in cannot be imported.
    """
    if isinstance(spec, Metric | Mix):
        return spec
    loader = _Loader(AllowedCode.of(allow_code))
    if isinstance(spec, Spec):
        return loader.utility(spec)
    if isinstance(spec, str | Path | Mapping):
        return loader.utility(Spec.of(spec, **settings))
    if isinstance(spec, type):
        fix = f"Make one: {spec.__name__}()"
        raise InputError(f"found the class {spec.__name__}", where="metric", fix=fix)
    if callable(spec):
        return Function(spec)
    fix = "Give a name such as 'chrf'"
    raise InputError(f"found {excerpt(spec)}, expected a metric", where="metric", fix=fix)


def load_from_data(
    text: str, allowed: AllowedCode, settings: Mapping[str, Any] | None = None
) -> Utility:
    """The metric of a signature from a file, and further settings, with code only from allowed modules.

    Raises:
        CodeRefusedError: it names other code, which was not imported.
        InputError, ModelLoadError: as `load_metric`.
    """
    return _Loader(allowed, is_data=True).utility(Spec.parse(text)._with(settings or {}))


def load_without_code(spec: str) -> Utility:
    """The metric of a name, a signature or a YAML file, as `load_metric`, but only if discorank's own code makes it.

    Raises:
        CodeRefusedError: it needs code of the user's own, or of a plug-in, which was not imported.
        InputError: as `load_metric`.
    """
    allowed = AllowedCode(plug_ins=False, users_own=True)
    return _Loader(allowed, is_data=True).utility(Spec.of(spec))


class _Loader(NamedTuple):
    """Makes metrics of specs.

    Args:
        allowed: code that a file may name.
        is_data: whether the specs themselves are from a file.
    """

    allowed: AllowedCode
    is_data: bool = False

    def utility(self, spec: Spec) -> Utility:
        """A metric, or a mix of several terms or with a weight."""
        if self.is_data:
            for call in spec.calls:
                self._check(call)
        if spec.is_single:
            return self._metric(spec.terms[0])
        utilities = [self._metric(term) for term in spec.terms]
        _check_directions(spec.terms, utilities)
        parts: list[tuple[float, Metric]] = []
        for term, utility in zip(spec.terms, utilities, strict=True):
            parts += [(term.weight * weight, metric) for weight, metric in utility.parts]
        return Mix(tuple(parts))

    def _check(self, call: Call) -> None:
        """Raises CodeRefusedError for a name or a setting that is not allowed, before its code is imported."""
        if not self._is_known(call.name):
            code = names()[call.name].target if call.name in names() else call.name
            if ":" in code:
                self.allowed.check(code)
        self.allowed.check_settings(call.settings)

    def _is_known(self, name: str) -> bool:
        """Whether a name needs no leave in a file: it is built in, or a plug-in, or the class that one registers."""
        if name in BUILT_IN or name in WRAPPERS:
            return True
        plug_ins = {key: entry.target for key, entry in names().items() if key not in BUILT_IN}
        return self.allowed.plug_ins and (name in plug_ins or name in plug_ins.values())

    def _metric(self, call: Call) -> Utility:
        """The metric of one term with its settings."""
        target = _object(call.name)
        if self.is_data and not self._is_known(call.name):
            self.allowed.check_home(target, call.name)
        if call.name in WRAPPERS:
            return self._wrapped(target, call)
        if target is Combination:
            in_file = self.allowed._replace(users_own=False)
            return Combination.make(call.settings, lambda text: load_from_data(text, in_file))
        if isinstance(target, type) and issubclass(target, Metric):
            if self.is_data and not self.allowed.users_own:
                _check_users_own(target, call)
            entry = _registration(call.name)
            return build(target, {**(entry.settings if entry else {}), **call.settings})
        if isinstance(target, type) or not callable(target):
            raise _not_a_metric(call.name)
        if call.settings:
            raise InputError(f"{call.name} is a function and has no settings", where="metric")
        unlabelled = Function(target)
        return unlabelled if unlabelled.name == call.name else Function(target, call.name)

    def _wrapped(self, target: Any, call: Call) -> Utility:
        """A wrapper around every part of the sum in it; an alignment may be found by another metric."""
        if not call.inner:
            fix = f"Write it around a metric: {call.name}(chrf)"
            raise InputError("has no metric in it", where=call.name, fix=fix)
        settings = dict(call.settings)
        by = settings.get("by")
        if isinstance(by, str) and by != "length":
            settings["by"] = self.utility(Spec.parse(by))
        utility = self.utility(Spec(call.inner, call.name))
        return utility.mapped(lambda metric: build(target, {"metric": metric, **settings}))


def _check_users_own(target: type[Metric], call: Call) -> None:
    """Raises CodeRefusedError for settings in a file that only the user may give: where texts and keys are sent."""
    for setting in target.users_own:
        if setting in call.settings:
            where = f"{call.name}.{setting}"
            fix = f"Take it out of the file; discorank metrics {call.name} says how to give it"
            raise CodeRefusedError("is not for a file to say", where=where, fix=fix)


def _check_directions(terms: Sequence[Call], utilities: Sequence[Utility]) -> None:
    """Raises InputError for a minus in front of a metric where lower is better, with the sum that is meant."""
    pairs = list(zip(terms, utilities, strict=True))
    wrong = [term for term, utility in pairs if rewards_errors(term.weight, utility)]
    if wrong:
        meant = [(abs(term.weight) if term in wrong else term.weight, term.text) for term in terms]
        problem = f"{written_sum([(wrong[0].weight, wrong[0].text)])!r}: {NEGATED}"
        raise InputError(problem, where="utility", fix=f"Write {written_sum(meant)!r}")


def _object(name: str) -> Any:
    """The class or function of a registered name or a ``module:Class``."""
    registration = _registration(name)
    if registration is None and ":" not in name:
        raise unknown_metric(name)
    module, _, attribute = (registration.target if registration else name).partition(":")
    try:
        target: Any = import_module(module) if registration else user_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except DiscorankError:
        raise
    except (Exception, SystemExit) as error:  # another's module may raise anything, or leave
        problem, where = f"{type(error).__name__}: {error}", f"metric {name!r}"
        raise ModelLoadError(problem, where=where, fix="Is its package installed?") from error
    return target
