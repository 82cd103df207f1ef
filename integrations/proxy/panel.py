"""Several models behind one address: where they are, what each was asked for, and what it cost.

Every model is asked for candidates of the same request, and all of these are decided together; each carries its
model's name as ``system``, by which priors (`prior`) go. Waiting ends when a quorum of models has given its candidates,
when the others have failed, or at the deadline, with what has come.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...metrics.errors import InputError, excerpt, unknown
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.storage.limits import limits
from ...rerank.decider import Decider
from ...rerank.lists import Candidate
from ...rerank.mbr import MBRDecoder
from ...rerank.messages import value_at
from ...rerank.reranker import Reranker
from ..server.settings import Connection

SYSTEM = "system"  # the field of a candidate that names its model
MAX_COUNT = 1 << 53  # more is no count; up to here, floats are exact
Outcome = Literal["answered", "failed", "dropped"]
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.*)", re.DOTALL)
_COUNT = re.compile("[1-9][0-9]{0,5}")
_KEYS = ("model", "n", "key")
_FIX = "Write NAME=URL, and behind it what there is of ,model=NAME,n=NUMBER,key=VARIABLE"


@settings
class PanelSettings:
    """Several models upstream.

    Args:
        quorum: how many of several models have to have given their candidates; then the others are not waited for. All
            that did not fail, if not given; --deadline ends the waiting too.
    """

    heading: ClassVar = "server"

    quorum: Annotated[int, Field(ge=1)] | None = None


class UpstreamSpec(NamedTuple):
    """A server upstream as it is given: ``URL`` alone, or ``NAME=URL,model=...,n=...,key=...``.

    Args:
        name: of the model among others; empty where there is one without a name.
        url: its address.
        model: what the server calls it; empty for what a request says.
        n: candidates of it; None for as many as of any.
        key_variable: the environment variable that holds the key of the server.
    """

    name: str
    url: str
    model: str = ""
    n: int | None = None
    key_variable: str | None = None


class PanelModel(NamedTuple):
    """A server upstream, and how it is reached."""

    spec: UpstreamSpec
    connection: Connection


def read_upstreams(texts: Sequence[str]) -> tuple[UpstreamSpec, ...]:
    """Servers upstream as they are written.

    >>> read_upstreams(["small=http://a/v1,model=s,n=4"])
    (UpstreamSpec(name='small', url='http://a/v1', model='s', n=4, key_variable=None),)

    Raises:
        InputError: one of several has no name, a name comes twice, or what follows it cannot be read.
    """
    limits().check("systems", len(texts), "--upstream")
    specs = tuple(map(_read_upstream, texts))
    names = [spec.name for spec in specs]
    if len(specs) > 1 and "" in names:
        raise _unnamed(specs[names.index("")].url)
    for name in names:
        if names.count(name) > 1:
            fix = "Give each model a name of its own"
            raise InputError(f"{name} comes twice", where="--upstream", fix=fix)
    return specs


def _read_upstream(text: str) -> UpstreamSpec:
    """A server upstream."""
    match = _NAMED.fullmatch(text)
    if match is None:
        if re.search(f",({'|'.join(_KEYS)})=", text):
            raise _unnamed(text)
        return UpstreamSpec("", text)
    name, (url, *parts) = match[1], match[2].split(",")
    where = f"--upstream {name}"
    given: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key not in _KEYS:
            raise unknown("key", key, _KEYS, where=where)
        if not value or key in given or (key == "n" and not _COUNT.fullmatch(value)):
            raise InputError(f"found {excerpt(part)}", where=where, fix=_FIX)
        given[key] = value
    size = int(given["n"]) if "n" in given else None
    limits().check("candidates", size or 0, where)
    return UpstreamSpec(name, url, given.get("model", ""), size, given.get("key"))


def _unnamed(text: str) -> InputError:
    return InputError(f"found {excerpt(text)} without a name", where="--upstream", fix=_FIX)


class ModelCost(NamedTuple):
    """What a model was asked for by one request, and what came of it.

    Args:
        system: the name of the model.
        outcome: whether it gave something, gave nothing, or was not waited for any more.
        candidates: that it gave.
        requests: that were sent to it.
        prompt_tokens, completion_tokens: as its server counts them, in the replies that came.
        seconds: until its last reply, or until it was not waited for any more.
        problem: why it gave nothing; empty if it gave something.
    """

    system: str
    outcome: Outcome
    candidates: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """As the answer tells it."""
        known = {name: value for name, value in self._asdict().items() if value != ""}
        return {**known, "seconds": round(self.seconds, 4)}


def header_of(costs: Iterable[ModelCost]) -> str:
    """What each model cost, in one line.

    >>> header_of([ModelCost("a", "answered", 4, 1, 9, 40, 0.25)])
    'a; answered; n=4; requests=1; prompt-tokens=9; completion-tokens=40; seconds=0.250'
    """
    return ", ".join(
        f"{cost.system}; {cost.outcome}; n={cost.candidates}; requests={cost.requests}; "
        f"prompt-tokens={cost.prompt_tokens}; completion-tokens={cost.completion_tokens}; seconds={cost.seconds:.3f}"
        for cost in costs
    )


def tokens_of(reply: Any) -> tuple[int, int]:
    """Tokens of the prompt and of the texts of a reply, as the server counts them; 0 where it does not say."""
    usage = value_at(reply, "usage")
    counts = [value_at(usage, f"{kind}_tokens") for kind in ("prompt", "completion")]
    prompt, completion = (
        count if isinstance(count, int) and 0 < count < MAX_COUNT else 0 for count in counts
    )
    return prompt, completion


class Panel(NamedTuple):
    """The servers upstream: one without a name, or models by their names.

    Args:
        models: the servers, the first of which gets what passes through.
        quorum: how many of several are waited for; None for all.
    """

    models: Sequence[PanelModel]
    quorum: int | None = None

    def check(self, deciders: Iterable[Decider], adaptive: bool) -> None:
        """Raises InputError for settings that do not go with these models."""
        names = [model.spec.name for model in self.models]
        if self.quorum is not None and self.quorum > len(names):
            problem = f"{self.quorum} of {len(names)} models"
            raise InputError(problem, where="quorum", fix="Lower it, or name more models")
        if adaptive and names[0]:
            problem = "draws from one model until more would not change the choice"
            raise InputError(problem, where="adaptive", fix="Leave it out, or name one upstream")
        for decider in deciders if names[0] else ():
            _check_names(decider, names)


def _check_names(decider: Decider, names: Sequence[str]) -> None:
    """Raises InputError where a prior or means do not know a model, or there are no means to shrink towards."""
    pools = decider if isinstance(decider, MBRDecoder) else getattr(decider, "decoder", None)
    if isinstance(pools, MBRDecoder) and pools.pool.prior is not None:
        candidates = [Candidate("", None, {SYSTEM: name}) for name in names]
        pools.pool.weights_of(candidates, "--upstream")
    if not isinstance(decider, Reranker) or not decider.shrinkage.shrink:
        return
    means = decider.shrinkage.means
    if means is None:
        fix = "Name the file of an earlier run of rerank (--system-means), or leave --shrink out"
        raise InputError("has no means of these models", where="shrink", fix=fix)
    means.shrunk(np.zeros(len(names)), names, 1.0)
