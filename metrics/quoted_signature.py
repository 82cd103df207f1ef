"""Signatures as papers quote them, in the style of sacrebleu: ``chrf|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|...``.

The keys of chrF, BLEU and TER, and their short forms, are sacrebleu's, with all settings; of other metrics the settings
that differ from the defaults stand by their names, and a model by its name and digest. It is made of the text of a
signature (`spec.signature`): no metric is loaded, and only the settings of the three are looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

from .names import BUILT_IN
from .registry import metric_class, registered_name
from .spec.signature import Call, parse


class _Key(NamedTuple):
    """A key of sacrebleu's signatures."""

    setting: str  # "" where the value is always the same
    long: str
    short: str
    words: Mapping[Any, str] = MappingProxyType({})  # for values


_YES = MappingProxyType({True: "yes", False: "no"})
_NO = MappingProxyType({True: "no", False: "yes"})
_LOWER = MappingProxyType({True: "lc", False: "mixed"})
_CHRF = (
    _Key("lowercase", "case", "c", _LOWER),
    _Key("eps_smoothing", "eff", "e", _NO),
    _Key("char_order", "nc", "nc"),
    _Key("word_order", "nw", "nw"),
    _Key("whitespace", "space", "s", _YES),
)
KEYS: Mapping[str, tuple[_Key, ...]] = MappingProxyType(
    {
        "chrf": _CHRF,
        "chrf++": _CHRF,
        "bleu": (
            _Key("lowercase", "case", "c", _LOWER),
            # of a corpus: every order counts there
            _Key("", "eff", "e", MappingProxyType({None: "no"})),
            _Key("tokenize", "tok", "tok"),
            _Key("smooth_method", "smooth", "s"),
        ),
        "ter": (
            _Key("case_sensitive", "case", "c", MappingProxyType({True: "mixed", False: "lc"})),
            _Key("", "tok", "t", MappingProxyType({None: "tercom"})),
            _Key("normalized", "norm", "nr", _YES),
            _Key("no_punct", "punct", "pn", _NO),
            _Key("asian_support", "asian", "as", _YES),
        ),
    }
)


def quoted(
    signature: str, version: str, num_references: int | None = None, *, short: bool = False
) -> str:
    """A signature to quote: every term of a sum with its settings, the digest of its model, and the version.

    Args:
        signature: as `signature` of a metric gives it.
        version: of discorank.
        num_references: how many references each text has, where that is known.
        short: with short keys.

    Raises:
        InputError: it is no signature.

    >>> quoted("chrf++", "1.0", 1)
    'chrf++|nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:discorank-1.0'
    >>> quoted("0.5*bleu", "1.0", 1, short=True)
    '0.5*bleu|#:1|c:mixed|e:no|tok:13a|s:exp|v:discorank-1.0'
    """
    references = [] if num_references is None else [_pair("nrefs", "#", num_references, short)]
    end = _pair("version", "v", f"discorank-{version}", short)
    terms = []
    for term in parse(signature):
        weight = "" if term.weight == 1 else f"{term.weight!r}*"
        pairs = [*references, *_settings(term, short), end]
        terms.append("|".join([f"{weight}{_name(term)}", *pairs]))
    return " + ".join(terms)


def _name(term: Call) -> str:
    """The name of a metric, of a wrapper with what stands in it."""
    inner = "+".join(map(_name, term.inner))
    return f"{term.name}({inner})" if inner else term.name


def _settings(term: Call, short: bool) -> Iterator[str]:
    """The settings of a term, as pairs of key and value."""
    name = registered_name(term.name)
    keys = KEYS.get(name, ())
    settings = dict(term.settings)
    if keys:
        settings = {**_defaults(name), **settings}
        for key in keys:
            value = settings.pop(key.setting, None)
            yield _pair(key.long, key.short, key.words.get(value, value), short)
        settings = {key: value for key, value in settings.items() if key in term.settings}
    for setting, value in settings.items():
        yield from _other(setting, value)
    for inner in term.inner:
        yield from _settings(inner, short)


def _defaults(name: str) -> dict[str, Any]:
    """The settings of a metric that has keys, as its name alone gives them."""
    values = {field.name: field.default for field in fields(metric_class(name))}
    known = {key: value for key, value in values.items() if value is not MISSING}
    return {**known, **BUILT_IN[name].settings}


def _other(key: str, value: Any) -> Iterator[str]:
    """A setting by its own name; of what has a digest, the name of the file and the digest."""
    path, mark, digest = str(value).partition("@sha256:")
    if mark:
        yield f"{key}:{PurePath(path).name or path}"
        yield f"sha256:{digest}"
        return
    yield f"{key}:{_YES.get(value, value) if isinstance(value, bool) else value}"


def _pair(long: str, short_key: str, value: Any, short: bool) -> str:
    return f"{short_key if short else long}:{value}"
