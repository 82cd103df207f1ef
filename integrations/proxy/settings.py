"""The settings of the server: its upstreams, how candidates are drawn, who may connect, and how much at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

from ...metrics.errors import InputError, excerpt, unknown
from ...metrics.spec.checked_settings import Converted, Field, Rare, ValueRefusal, settings
from ...metrics.storage.limits import limits
from ...rerank.stopping_rule import StoppingRule, check_cap
from ..server.settings import further_keys

# keys that make a request what it is
_OURS = frozenset({"model", "messages", "prompt", "n", "stream", "stream_options", "tools"}) | {
    "discorank",
    "seed",
    "logprobs",
    "top_logprobs",
}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.*)", re.DOTALL)
_COUNT = re.compile("[1-9][0-9]{0,5}")
_SPEC_KEYS = ("model", "n", "key")
_SPEC_FIX = "Write NAME=URL, and behind it what there is of ,model=NAME,n=NUMBER,key=VARIABLE"
# paths that clients of OpenAI and Anthropic ask for
USUAL_PATHS = (
    "chat/completions",
    "completions",
    "responses",
    "messages",
    "models",
    "models/*",
    "embeddings",
    "moderations",
    "rerank",
    "score",
)


def read_seconds(value: Any) -> float:
    """Seconds from a number or a text such as 3s, 500ms or 2m.

    >>> read_seconds("500ms"), read_seconds(2)
    (0.5, 2.0)

    Raises:
        ValueRefusal: it is neither.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d*)?)(ms|s|m)", str(value).strip())
    if match is None:
        raise ValueRefusal("should be a number, or as 3s, 500ms or 2m", value)
    return float(match[1]) * _UNITS[match[2]]


Seconds = Annotated[float, Converted(read_seconds), Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class UpstreamSpec(NamedTuple):
    """An upstream as it is given: ``URL`` alone, or ``NAME=URL,model=...,n=...,key=...``.

    Args:
        name: of the model among others; empty for a single one without a name.
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


def read_upstreams(texts: Sequence[str]) -> tuple[UpstreamSpec, ...]:
    """Upstreams as they are written.

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
    """One upstream."""
    match = _NAMED.fullmatch(text)
    if match is None:
        if re.search(f",({'|'.join(_SPEC_KEYS)})=", text):
            raise _unnamed(text)
        return UpstreamSpec("", text)
    name, (url, *parts) = match[1], match[2].split(",")
    where = f"--upstream {name}"
    given: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key not in _SPEC_KEYS:
            raise unknown("key", key, _SPEC_KEYS, where=where)
        if not value or key in given or (key == "n" and not _COUNT.fullmatch(value)):
            raise InputError(f"found {excerpt(part)}", where=where, fix=_SPEC_FIX)
        given[key] = value
    size = int(given["n"]) if "n" in given else None
    limits().check("candidates", size or 0, where)
    return UpstreamSpec(name, url, given.get("model", ""), size, given.get("key"))


def _unnamed(text: str) -> InputError:
    return InputError(f"found {excerpt(text)} without a name", where="--upstream", fix=_SPEC_FIX)


@settings
class DrawingSettings:
    """How the candidates of a request are drawn.

    Args:
        num_candidates: candidates of a request that does not say how many.
        max_n: the most that a request may ask for; num_candidates if not given.
        sampling_temperature: divides logits, whatever the request says; without it the request's own counts, and one
            of temperature 0 passes through.
        candidates_per_request: candidates that one request to the upstream server asks for; all of a round if not
            given, or one where there is a deadline, so that what has come can be used.
        deadline_seconds: how long candidates may take, such as 3s; what has come by then is decided. Where nothing has,
            the server goes on waiting for one, which is the answer.
        adaptive: draw in rounds, and stop where the chance is small that more candidates change the choice.
        round_size: candidates of the first round.
        next_round_size: candidates of any other; fewer save more candidates, and ask the server more often.
        change_bound: the chance of another choice below which drawing stops; if not given, 0.03 of answers (`vote`),
            0.3 of other texts.
        change_margin: of other texts, the share of its risk by which a better choice counts as better.
        max_candidate_tokens: the most tokens that a request may ask of a candidate, and what is asked if it says
            nothing.
        max_request_tokens: the most tokens that all candidates of a request may have together: fewer are drawn where
            they could have more. These bounds hold for what passes through as well.
        quorum: how many of several models have to have given their candidates; then the others are not waited for. All
            that did not fail, if not given; --deadline ends the waiting too.
        ignore_arguments: an argument of tools that does not count when calls are compared.
        request: more keys of every request whose answer is chosen, as a JSON object, such as {"top_k": -1}; a request
            that has such a key itself keeps it.
    """

    heading: ClassVar = "candidates"

    num_candidates: Count = 16
    max_n: Count | None = None
    sampling_temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    candidates_per_request: Annotated[Count | None, Rare()] = None
    deadline_seconds: Seconds | None = None
    adaptive: bool = False
    round_size: Annotated[int, Field(ge=2), Rare()] = 4
    next_round_size: Annotated[int, Field(ge=1), Rare()] = 2
    change_bound: Annotated[Annotated[float, Field(gt=0, le=1)] | None, Rare()] = None
    change_margin: Annotated[float, Field(ge=0, allow_inf_nan=False), Rare()] = StoppingRule.margin
    max_candidate_tokens: Annotated[Count | None, Rare()] = None
    max_request_tokens: Annotated[Count | None, Rare()] = None
    quorum: Count | None = None
    ignore_arguments: Annotated[tuple[str, ...], Rare()] = ()
    request: str | None = None

    def __post_init__(self) -> None:
        if taken := _OURS & self.further.keys():
            problem = "is a key that requests or options of their own set"
            raise InputError(problem, where=f"request.{min(taken)}")
        if self.max_n is not None and self.max_n < self.num_candidates:
            problem = f"{self.max_n}, but {self.num_candidates} are drawn"
            raise InputError(problem, where="max_n", fix="Raise it, or lower num_candidates")
        if self.adaptive:
            check_cap(self.most_candidates, "num_candidates" if self.max_n is None else "max_n")

    @property
    def further(self) -> Mapping[str, Any]:
        """The further keys of a request."""
        return further_keys(self.request)

    @property
    def most_candidates(self) -> int:
        """The most that a request may ask for."""
        return self.num_candidates if self.max_n is None else self.max_n

    def rule(self, n: int) -> StoppingRule | None:
        """When a request for up to n candidates stops drawing; None where it draws all at once."""
        if not self.adaptive:
            return None
        return StoppingRule(
            cap=n,
            first=self.round_size,
            step=self.next_round_size,
            bound=self.change_bound,
            margin=self.change_margin,
        )

    @property
    def most_at_once(self) -> int | None:
        """For how many candidates a request upstream may be; None for as many as are missing."""
        if self.candidates_per_request is None and self.deadline_seconds is not None:
            return 1
        return self.candidates_per_request


@settings
class DoorSettings:
    """Who may come in, and how much is kept open.

    Args:
        host: the address that is listened at; 0.0.0.0 lets other machines in.
        port: the port; 0 takes a free one.
        access_key_variable: the environment variable that holds the key that requests must bring; none is asked for if
            it is not named.
        allow_path: a path beneath /v1 that passes through, such as audio/speech or models/*, where * stands for one
            part; these take the place of the usual ones.
        allow_host: a name in the Host header of requests, beside localhost, 127.0.0.1 and [::1]; other requests are
            refused if the server listens on loopback, or if a name is given.
        max_open: requests that are worked at at a time.
        max_waiting: requests that come in or wait beside them; more are answered by 429.
        body_seconds: how long the head of a request may take to come in whole, and how long its body; a connection that
            has neither a request nor an answer to wait for is dropped after it.
        choice_seconds: how long a choice may take, with its waiting.
        grace_seconds: how long open requests may take when the server is stopped.
        max_documents: documents whose state is kept.
        document_seconds: how long a document is kept that nothing comes for.
    """

    heading: ClassVar = "server"

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8484
    access_key_variable: str | None = None
    allow_path: Annotated[tuple[str, ...], Rare()] = USUAL_PATHS
    allow_host: Annotated[tuple[str, ...], Rare()] = ()
    max_open: Annotated[Count, Rare()] = 256
    max_waiting: Annotated[int, Field(ge=0), Rare()] = 256
    body_seconds: Annotated[Seconds, Rare()] = 30.0
    choice_seconds: Annotated[Seconds, Rare()] = 60.0
    grace_seconds: Annotated[Seconds, Rare()] = 30.0
    max_documents: Annotated[Count, Rare()] = 1024
    document_seconds: Annotated[Seconds, Rare()] = 600.0


@settings
class ScoreSettings:
    """How scores are answered.

    Args:
        max_pairs: the most pairs of texts that a request may ask for; four times as many may wait.
        max_text_characters: the longest text that is scored.
        strip: what is cut off the ends of responses before they are scored, such as </s>.
    """

    heading: ClassVar = "scores"

    max_pairs: Annotated[Count, Rare()] = 1 << 16
    max_text_characters: Annotated[Count, Rare()] = 1 << 16
    strip: Annotated[tuple[str, ...], Rare()] = ()
