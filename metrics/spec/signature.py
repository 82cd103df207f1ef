"""Metrics as text: ``chrf``, ``bleu(tokenize="zh")``, ``chrf + 0.5*bleu``.

    mix     = term { ("+" | "-") term }
    term    = [weight "*"] call | call "*" weight
    call    = name [ "(" [ part { "," part } ] ")" ]
    part    = setting "=" JSON value
            | mix                       the first part of a wrapper: aligned(chrf), windows(chrf,size=4)

A text may stand in single quotes too where it has no quotes and no backslash in it.

A signature is written in this form, read back to an equal metric, and is what ``-u`` and ``-m`` take. Names may hold
``-``, so a minus between two metrics needs spaces around it, and ``/``, as features of reranking do. Nothing is ever
evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import InputError
from ..storage.limits import limits
from .checked_settings import changed

_NAME = re.compile(r"[A-Za-z_][\w.:<>/-]*(?:\+\+)?")
_KEY = re.compile(r"[A-Za-z_]\w*")
_WEIGHT = re.compile(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)\s*\*\s*")
_FACTOR = re.compile(r"\*\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.*])")
_QUOTED = re.compile(r"'([^'\"\\\x00-\x1f]*)'")  # what means the same in both quotes
_LONE_BACKSLASH = re.compile(r'"[^"\\]*(?:\\["\\/bfnrtu][^"\\]*)*\\[^"\\/bfnrtu]')
_BARE = re.compile(r"[A-Za-z][^,()'\"\s]*")
_SETTING = re.compile(r"[A-Za-z_]\w*\s*=")
_NAME_OR_WEIGHT = re.compile(r"[-A-Za-z_\d.]")
MAX_DEPTH = 8  # of wrappers in one another
_SPACE = re.compile(r"\s*")
_JSON = json.JSONDecoder()


class Call(NamedTuple):
    """One term of a parsed signature."""

    weight: float
    name: str
    settings: Mapping[str, Any]
    inner: tuple[Call, ...] = ()  # the terms that a wrapper stands around

    @property
    def every(self) -> Iterator[Call]:
        """This call and all inside it."""
        yield self
        for call in self.inner:
            yield from call.every

    @property
    def text(self) -> str:
        """The call as a signature, without its weight."""
        terms = [(term.weight, term.text) for term in self.inner]
        return call(self.name, self.settings, written_sum(terms) if terms else "")


def written_sum(terms: Iterable[tuple[float, str]]) -> str:
    """A sum as people write it, from the weight and the text of every term.

    >>> written_sum([(1.0, "chrf"), (-0.5, "bleu")])
    'chrf - 0.5*bleu'
    """
    text = ""
    for weight, own in terms:
        size = abs(weight)
        factor = "" if size == 1 else f"{size:g}*"
        sign = "-" if weight < 0 else "+"
        lead = f" {sign} " if text else sign.strip("+")
        text += f"{lead}{factor}{own}"
    return text


def write(metric: Any, stamped: Mapping[str, str]) -> str:
    """The signature of a plain metric: its name, the settings that differ from the defaults, and the `stamped` ones.

    A class from outside discorank is named by where it is found, as its name may be another's too.
    """
    kind = type(metric)
    ours = kind.__module__.startswith(f"{__name__.partition('.')[0]}.")
    name = metric.name if ours else f"{kind.__module__}:{kind.__qualname__}"
    return call(name, {**changed(metric), **stamped})


def portable(text: str) -> str:
    """A signature in which files stand by their digests alone, wherever they are.

    >>> portable('comet(model="models/wmt22@sha256:0123456789abcdef")')
    'comet(model="@sha256:0123456789abcdef")'
    """
    return re.sub(r'"[^"]*(@sha256:[0-9a-f]+")', r'"\1', text)


def call(name: str, settings: Mapping[str, Any], inner: str = "") -> str:
    """A name and its settings as one term, behind the metric that a wrapper stands around.

    >>> call("bleu", {"tokenize": "zh"})
    'bleu(tokenize="zh")'
    >>> call("windows", {"size": 4}, "chrf")
    'windows(chrf,size=4)'
    """
    texts = [inner] if inner else []
    texts += [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]
    return f"{name}({','.join(texts)})" if texts else name


def parse(text: str) -> list[Call]:
    """The terms of a signature.

    >>> parse('chrf + 0.5*bleu(tokenize="zh")')[1]
    Call(weight=0.5, name='bleu', settings={'tokenize': 'zh'}, inner=())

    Raises:
        InputError: the text is not of the form above; the error shows the place.
    """
    return _Parser(text).mix()


class _Parser:
    """Reads a signature from left to right; `at` is the place reached."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def mix(self, ends: str = "") -> list[Call]:
        """Terms up to the end of the text, or to one of these marks."""
        sign = -1.0 if self.skip("-") else 1.0
        terms = [self.term(sign)]
        while self.text[self.at : self.at + 1] not in ends:
            if self.skip("+"):
                terms.append(self.term(-1.0 if self.skip("-") else 1.0))
            elif self.skip("-"):
                terms.append(self.term(-1.0))
            else:
                raise self.error("expected + or the end")
            limits().check("systems", len(terms), "signature", what="metrics")
        return terms

    def term(self, sign: float) -> Call:
        weight = self.match(_WEIGHT)
        name = self.match(_NAME)
        if not name:
            raise self.error("expected the name of a metric")
        inner: list[Call] = []
        settings: dict[str, Any] = {}
        if self.skip("(") and not self.skip(")"):
            inner = self.inner()
            if not inner or self.skip(","):
                settings = self.settings()
            elif not self.skip(")"):
                raise self.error("expected , or )")
        return Call(sign * self.number(weight), name, settings, tuple(inner))

    def number(self, weight: str) -> float:
        """The weight of a term: the number in front of it, or behind it."""
        factor = self.match(_FACTOR)
        if factor and weight:
            raise self.error("the weight is given twice")
        return float((weight or factor or "1").replace("*", " "))

    def inner(self) -> list[Call]:
        """The terms in front of the settings, where there are some."""
        if _SETTING.match(self.text, self.at) or not _NAME_OR_WEIGHT.match(self.text, self.at):
            return []
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} wrappers around a metric")
        terms = self.mix(",)")
        self.depth -= 1
        return terms

    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        while True:
            key = self.match(_KEY)
            if not key or not self.skip("="):
                raise self.error("expected setting=value")
            if key in settings:
                raise self.error(f"{key} is given twice")
            settings[key] = self.value()
            if self.skip(")"):
                return settings
            if not self.skip(","):
                raise self.error("expected , or )")

    def value(self) -> Any:
        quoted = self.match(_QUOTED)
        if quoted:
            return quoted[1:-1]
        try:
            value, self.at = _JSON.raw_decode(self.text, self.at)
        except (ValueError, RecursionError):
            raise self.error(self.expected()) from None
        self.match(_SPACE)
        return value

    def expected(self) -> str:
        """Advice on the value that belongs here instead of one that is no JSON."""
        bare = _BARE.match(self.text, self.at)
        if bare and len(bare.group()) <= 100:
            what = f'expected text in quotes: "{bare.group()}"'
            return f"{what} (a shell keeps them where the whole stands in single quotes)"
        if _LONE_BACKSLASH.match(self.text, self.at):
            return 'expected a backslash to be doubled in quotes: "\\\\d+" stands for \\d+'
        return 'expected a JSON value: 3, 0.5, true, null, "text" or [1, 2]'

    def match(self, pattern: re.Pattern[str]) -> str:
        """Steps over the text that matches here and the space behind it; returns that text, empty if there is none."""
        match = pattern.match(self.text, self.at)
        if not match:
            return ""
        self.at = _SPACE.match(self.text, match.end()).end()  # type: ignore[union-attr]
        return match.group()

    def skip(self, mark: str) -> bool:
        """Steps over a mark; whether it stood here."""
        self.match(_SPACE)
        return bool(self.match(re.compile(re.escape(mark))))

    def error(self, problem: str) -> InputError:
        rest = self.text[self.at : self.at + 20]
        return InputError(
            f"{problem}, found {rest!r} at character {self.at + 1} of {self.text[:200]!r}",
            where="signature",
            fix='Examples: chrf++, bleu(tokenize="zh"), chrf + 0.5*bleu',
        )
