"""The settings of the server: how candidates are drawn, what a request may choose, and how much is done at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Converted, Field, Rare, ValueRefusal, settings
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
            they could have more.
        over_limit: what becomes of a request that asks for more candidates or tokens than these bounds: ``refuse``
            it, or ``cap`` its numbers. They hold for what passes through as well.
        prefer: ``finished`` chooses among the candidates that the limit of tokens did not cut off, where there are any;
            ``any`` among all.
        tool_calls: ``choose`` votes over calls of tools; ``pass`` lets requests with tools pass through.
        ignore_arguments: an argument of tools that does not count when calls are compared.
        argument_text: an argument whose text the utility chooses by, where candidates agree in all others.
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
    over_limit: Annotated[Literal["refuse", "cap"], Rare()] = "refuse"
    prefer: Annotated[Literal["finished", "any"], Rare()] = "finished"
    tool_calls: Annotated[Literal["choose", "pass"], Rare()] = "choose"
    ignore_arguments: Annotated[tuple[str, ...], Rare()] = ()
    argument_text: Annotated[str | None, Rare()] = None
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


# what clients of OpenAI and Anthropic ask for beside texts to choose among
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
        window_seconds: how long a batch waits at most for what comes with it, such as 20ms.
        strip: what is cut off the ends of responses before they are scored, such as </s>.
    """

    heading: ClassVar = "scores"

    max_pairs: Annotated[Count, Rare()] = 1 << 16
    max_text_characters: Annotated[Count, Rare()] = 1 << 16
    window_seconds: Annotated[
        float, Converted(read_seconds), Field(ge=0, allow_inf_nan=False), Rare()
    ] = 0.02
    strip: Annotated[tuple[str, ...], Rare()] = ()
