"""The answer to a request: the chosen choices as they came from upstream, the usage of all, and how it was decided."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...rerank.choice import RankedText, Ranking
from ...rerank.lists import finite
from .candidate_draw import Drawn, LeftOut, UpstreamCall
from .panel import MAX_COUNT, SYSTEM, ModelCost
from .questions import FIELD, Question
from .tool_calls import CallVote, calls_of


@dataclass(frozen=True, slots=True)
class ChosenReply:
    """The answer to a request.

    Args:
        body: the answer in one piece.
        header: how it came about.
        is_chosen: whether it was chosen among others.
        request_id: that the server upstream gave the request that brought it.
        is_copy: whether all candidates were the same.
        costs: of each model, in one line; empty where there is one without a name.
    """

    body: dict[str, Any]
    header: str
    is_chosen: bool = True
    request_id: str | None = None
    is_copy: bool = False
    costs: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for a request.

    Args:
        question: the request.
        drawn: the candidates in the order of the requests upstream.
        replies: what the servers answered, by request.
        ranking: the decision.
        allowed: numbers of the candidates that were chosen among, in the order of the ranking's list.
        rounds: how often candidates were drawn.
        hides_logprobs: whether log-probabilities were asked for that the request did not ask for.
        num_valid: how many have the form that the request asks for; None where it asks for none, or nobody can tell.
        left_out: choices of the replies that were not chosen among, as they could not be used.
        num_unfinished: candidates that were not chosen among, as they were cut off and others were not.
        call_vote: the vote, where candidates may call tools.
        request_ids: that the servers gave the requests.
        costs: of each model; none where there is one without a name.
    """

    question: Question
    drawn: Sequence[Drawn]
    replies: Mapping[UpstreamCall, Mapping[str, Any]]
    ranking: Ranking
    allowed: Sequence[int]
    rounds: int
    hides_logprobs: bool
    num_valid: int | None = None
    left_out: Sequence[LeftOut] = ()
    num_unfinished: int = 0
    call_vote: CallVote | None = None
    request_ids: Mapping[UpstreamCall, str] = field(default_factory=dict)
    costs: Sequence[ModelCost] = ()

    @property
    def system(self) -> str:
        """The name of the model whose candidate answers; empty where there is one without a name."""
        return self.drawn[self.chosen[0]].call.system

    @property
    def num_distinct(self) -> int:
        """How many kinds of texts or calls were chosen among, or would have been."""
        vote = self.call_vote
        return len(self.ranking.ranking) if vote is None else vote.votes["kinds"]

    @property
    def ranked(self) -> list[tuple[int, RankedText]]:
        """The number of the candidate at every rank, best first."""
        return [(self.allowed[ranked.index], ranked) for ranked in self.ranking.ranking]

    @property
    def chosen(self) -> list[int]:
        """Numbers of the candidates that answer: the best distinct texts, then what there is besides."""
        best = [number for number, _ in self.ranked]
        if len(best) >= self.question.wanted:
            return best[: self.question.wanted]
        others = [number for number in self.allowed if number not in best]
        if self.call_vote is not None:
            others += self.call_vote.others
        return [*best, *others][: self.question.wanted]

    @property
    def header(self) -> str:
        """How it was decided, in one line."""
        parts: dict[str, int | str] = {
            "n": len(self.drawn),
            "distinct": self.num_distinct,
            "rounds": self.rounds,
        }
        further = {"left-out": len(self.left_out), "unfinished": self.num_unfinished}
        if self.call_vote is not None:
            names = ("calls", "talk", "invalid", "unchecked")
            further |= {name: self.call_vote.votes[name] for name in names}
        parts |= {name: count for name, count in further.items() if count}
        if self.costs:
            answered = sum(cost.outcome == "answered" for cost in self.costs)
            parts |= {"system": self.system, "models": f"{answered}/{len(self.costs)}"}
        return "; ".join(["chosen", *(f"{name}={count}" for name, count in parts.items())])

    def choices(self) -> list[dict[str, Any]]:
        """The choices of the answer."""
        choices = []
        for index, number in enumerate(self.chosen):
            choice = {**self.drawn[number].choice, "index": index}
            if self.hides_logprobs:
                choice["logprobs"] = None
            choices.append(choice)
        return choices

    def about(self) -> dict[str, Any]:
        """How it was decided: the field of ours."""
        ranking = self.ranking
        about: dict[str, Any] = {
            "index": self.chosen[0],
            "utility": ranking.utility,
            "gap": ranking.gap,
            **({} if ranking.votes is None else ranking.votes.as_json()),
            "n": len(self.drawn),
            "distinct": self.num_distinct,
            "rounds": self.rounds,
            "decoder": self.decoder,
            "flags": list(ranking.flags),
            "usage": list(self._usages()),
        }
        if self.costs:
            about |= {SYSTEM: self.system, "models": [cost.as_json() for cost in self.costs]}
        if self.question.response_format is not None:
            about["valid"] = self.num_valid
        if self.num_unfinished:
            about["unfinished"] = self.num_unfinished
        if self.call_vote is not None:
            about["tools"] = {"decided": self.call_vote.decided, **self.call_vote.votes}
        if self.left_out:
            about["left_out"] = [one.as_json() for one in self.left_out]
        if self.question.own.explain:
            about["candidates"] = [self._explained(*ranked) for ranked in self.ranked]
        return about

    @property
    def decoder(self) -> str:
        """What chose in the end."""
        vote = self.call_vote
        is_vote = vote is not None and vote.texts is not None and not vote.by_utility
        return "vote" if is_vote else self.question.utility

    def _usages(self) -> Iterator[dict[str, Any]]:
        """The usage of every request upstream, with the candidates that it brought."""
        for call, reply in sorted(self.replies.items()):
            numbers = [i for i, drawn in enumerate(self.drawn) if drawn.call == call]
            usage = reply.get("usage")
            known = {"request_id": self.request_ids[call]} if call in self.request_ids else {}
            if call.system:
                known[SYSTEM] = call.system
            yield {"candidates": numbers, **(usage if isinstance(usage, Mapping) else {}), **known}

    def _explained(self, number: int, ranked: RankedText) -> dict[str, Any]:
        """A candidate: which it is, how often its text stands in the list, and what it is worth."""
        drawn = self.drawn[number]
        calls = calls_of(drawn.choice) if self.question.tools is not None else ()
        return {
            "index": number,
            **({SYSTEM: drawn.call.system} if drawn.call.system else {}),
            "count": ranked.count,
            "utility": ranked.utility,
            "text": drawn.candidate.text,
            **({"calls": [call._asdict() for call in calls]} if calls else {}),
            "logprob": finite(drawn.candidate.logprob),
            "finish_reason": drawn.choice.get("finish_reason"),
        }

    def answer(self) -> ChosenReply:
        """The reply that the chosen candidate came in, with the chosen ones alone."""
        call = self.drawn[self.chosen[0]].call
        reply = self.replies[call]
        body = {
            **reply,
            "choices": self.choices(),
            "usage": total_usage(reply.get("usage") for reply in self.replies.values()),
            FIELD: self.about(),
        }
        is_copy = len(self.drawn) > 1 and self.num_distinct == 1
        return ChosenReply(
            body, self.header, request_id=self.request_ids.get(call), is_copy=is_copy
        )


def untouched(reply: Mapping[str, Any], question: Question) -> ChosenReply:
    """The answer to a request whose reply has no text: the reply, with as many choices as were asked for."""
    choices = reply["choices"][: question.wanted]
    numbered = [{**choice, "index": index} for index, choice in enumerate(choices)]
    body = {**reply, "choices": numbered}
    return ChosenReply(body, "passed-through; reason=no-text", is_chosen=False)


def total_usage(usages: Iterator[Any]) -> dict[str, Any] | None:
    """The sum of what requests used, key by key; None where none says.

    >>> total_usage(iter([{"a": 1, "of": {"b": 2}}, {"a": 3, "of": None}]))
    {'a': 4, 'of': {'b': 2}}
    """
    total: dict[str, Any] = {}
    is_known = False
    for usage in usages:
        if isinstance(usage, Mapping):
            is_known = True
            _add(total, usage)
    return total if is_known else None


def _add(total: dict[str, Any], usage: Mapping[str, Any]) -> None:
    """Adds the numbers of one usage to a total."""
    for key, value in usage.items():
        if isinstance(value, Mapping):
            inner = total.get(key)
            total[key] = dict(inner) if isinstance(inner, Mapping) else {}
            _add(total[key], value)
        elif _is_count(value):
            before = total.get(key)
            total[key] = value + (before if _is_count(before) else 0)
        else:
            total.setdefault(key, value)


def _is_count(value: Any) -> bool:
    """Whether a value may be how much was used: no number that sums would not hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_COUNT


def reply_events(reply: Mapping[str, Any], chat: bool, with_usage: bool) -> Iterator[bytes]:
    """The events of a reply in one piece, whose last has the usage if it is asked for."""
    body = dict(reply)
    choices, usage = body.pop("choices"), body.pop("usage", None)
    about = {FIELD: body.pop(FIELD)} if FIELD in body else {}
    if chat:
        body["object"] = "chat.completion.chunk"
    head = {**body, "usage": None} if with_usage else body
    for choice in choices:
        yield event({**head, "choices": [_opening(choice, chat)]})
    for choice in choices:
        ending = {**head, "choices": [_ending(choice, chat)]}
        is_last = choice is choices[-1]
        yield event({**ending, **about} if is_last else ending)
    if with_usage:
        yield event({**body, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def event(value: Mapping[str, Any]) -> bytes:
    """One event."""
    return b"data: " + as_json(value) + b"\n\n"


def as_json(value: Mapping[str, Any]) -> bytes:
    """The body of an answer as JSON.

    What a server upstream wrote and UTF-8 or JSON cannot hold costs nothing else: half of a surrogate pair is escaped,
    as it came, and a number beyond all bounds is null.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_with_finite_numbers(value), allow_nan=False).encode()


def _with_finite_numbers(value: Any) -> Any:
    """A JSON value with null in place of infinite numbers and of those that are none."""
    if isinstance(value, Mapping):
        return {key: _with_finite_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_finite_numbers(inner) for inner in value]
    return finite(value) if isinstance(value, float) else value


def _opening(choice: Mapping[str, Any], chat: bool) -> dict[str, Any]:
    """A choice with its text, not finished yet."""
    opened = {**choice, "finish_reason": None}
    if chat:
        opened["delta"] = _delta(opened.pop("message"))
    return opened


def _delta(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message as a piece of a stream, where every call says which it is."""
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    if not isinstance(calls, list):
        return message
    numbered = [
        {**call, "index": index} if isinstance(call, Mapping) else call
        for index, call in enumerate(calls)
    ]
    return {**message, "tool_calls": numbered}


def _ending(choice: Mapping[str, Any], chat: bool) -> dict[str, Any]:
    """The end of a choice."""
    ending = {"index": choice["index"], "finish_reason": choice.get("finish_reason")}
    return {**ending, "delta": {}} if chat else {**ending, "text": "", "logprobs": None}
