"""The answer to a request: the chosen choices as they came from upstream, the usage of all, and how it was decided."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...rerank.choice import RankedText, Ranking
from ...rerank.decider import Decider
from ...rerank.lists import Candidate, finite
from .candidate_draw import MAX_TOKENS, CandidateDraw, Drawn
from .questions import FIELD, Question
from .tool_calls import CallVote, calls_of


class ChosenReply(NamedTuple):
    """The answer to a request.

    Args:
        body: the answer in one piece.
        header: how it came about.
        is_chosen: whether it was chosen among others.
        request_id: that the upstream gave the request that brought it.
    """

    body: dict[str, Any]
    header: str
    is_chosen: bool = True
    request_id: str | None = None


class Eligible(NamedTuple):
    """The candidates that are chosen among.

    Args:
        numbers: which of those drawn.
        candidates: what they are compared by.
        decider: what chooses.
        vote: the vote, if candidates may call tools.
        left_out: entries about others that could not be used.
        num_valid: how many have the form that the request asks for; None if it asks for none, or if it is unknown.
        num_unfinished: others, which were cut off while these were not.
    """

    numbers: Sequence[int]
    candidates: tuple[Candidate, ...]
    decider: Decider
    vote: CallVote | None
    left_out: Sequence[Mapping[str, Any]] = ()
    num_valid: int | None = None
    num_unfinished: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for a request.

    Args:
        question: the request.
        draw: drew the candidates.
        drawn: the candidates in the order of the requests upstream.
        eligible: those that were chosen among.
        ranking: the decision.
        rounds: how often candidates were drawn.
        hides_logprobs: whether log-probabilities were asked for that the request did not ask for.
    """

    question: Question
    draw: CandidateDraw
    drawn: Sequence[Drawn]
    eligible: Eligible
    ranking: Ranking
    rounds: int
    hides_logprobs: bool

    @property
    def num_distinct(self) -> int:
        """How many kinds of texts or calls were chosen among, or would have been."""
        vote = self.eligible.vote
        return len(self.ranking.ranking) if vote is None else vote.votes["kinds"]

    @property
    def ranked(self) -> list[tuple[int, RankedText]]:
        """The number of the candidate at every rank, best first."""
        return [(self.eligible.numbers[ranked.index], ranked) for ranked in self.ranking.ranking]

    @property
    def chosen(self) -> list[int]:
        """Numbers of the candidates that answer: the best distinct texts, then the others."""
        vote, best = self.eligible.vote, [number for number, _ in self.ranked]
        others = [number for number in self.eligible.numbers if number not in best]
        others += [] if vote is None else vote.others
        return [*best, *others][: self.question.wanted]

    @property
    def left_out(self) -> list[Mapping[str, Any]]:
        """Entries about the choices of replies that could not be used."""
        return [*self.draw.left_out, *self.eligible.left_out]

    @property
    def header(self) -> str:
        """How it was decided, in one line."""
        parts: dict[str, int | str] = {
            "n": len(self.drawn),
            "distinct": self.num_distinct,
            "rounds": self.rounds,
        }
        further = {"left-out": len(self.left_out), "unfinished": self.eligible.num_unfinished}
        if self.eligible.vote is not None:
            names = ("calls", "talk", "invalid", "unchecked")
            further |= {name: self.eligible.vote.votes[name] for name in names}
        parts |= {name: count for name, count in further.items() if count}
        if costs := self.draw.costs:
            answered = sum(cost["outcome"] == "answered" for cost in costs)
            system = self.drawn[self.chosen[0]].reply.system
            parts |= {"system": system, "models": f"{answered}/{len(costs)}"}
        return "; ".join(["chosen", *(f"{name}={count}" for name, count in parts.items())])

    def choices(self) -> list[dict[str, Any]]:
        """The choices of the answer."""
        hidden = {"logprobs": None} if self.hides_logprobs else {}
        return [
            {**self.drawn[number].choice, "index": index, **hidden}
            for index, number in enumerate(self.chosen)
        ]

    def about(self) -> dict[str, Any]:
        """How it was decided: the field of ours."""
        ranking, vote = self.ranking, self.eligible.vote
        is_vote = vote is not None and vote.texts is not None
        about: dict[str, Any] = {
            "index": self.chosen[0],
            "utility": ranking.utility,
            "gap": ranking.gap,
            **({} if ranking.votes is None else ranking.votes.as_json()),
            "n": len(self.drawn),
            "distinct": self.num_distinct,
            "rounds": self.rounds,
            "decoder": "vote" if is_vote else self.question.own.utility,
            "flags": list(ranking.flags),
            "usage": list(self._usages()),
        }
        if costs := self.draw.costs:
            about |= {**self.drawn[self.chosen[0]].reply.named, "models": costs}
        if self.question.response_format is not None:
            about["valid"] = self.eligible.num_valid
        if self.eligible.num_unfinished:
            about["unfinished"] = self.eligible.num_unfinished
        if vote is not None:
            about["tools"] = {"decided": vote.decided, **vote.votes}
        if self.left_out:
            about["left_out"] = self.left_out
        if self.question.own.explain:
            about["candidates"] = [self._explained(*ranked) for ranked in self.ranked]
        return about

    def _usages(self) -> Iterator[dict[str, Any]]:
        """The usage of every request upstream, with the candidates that it brought."""
        for reply in self.draw.replies:
            numbers = [i for i, drawn in enumerate(self.drawn) if drawn.reply is reply]
            usage = reply.value.get("usage")
            known = {} if reply.request_id is None else {"request_id": reply.request_id}
            known |= reply.named
            yield {"candidates": numbers, **(usage if isinstance(usage, Mapping) else {}), **known}

    def _explained(self, number: int, ranked: RankedText) -> dict[str, Any]:
        """A candidate: which it is, how often its text is in the list, and its expected utility."""
        drawn = self.drawn[number]
        calls = calls_of(drawn.choice) if self.question.tools is not None else ()
        return {
            "index": number,
            **drawn.reply.named,
            "count": ranked.count,
            "utility": ranked.utility,
            "text": drawn.candidate.text,
            **({"calls": [call._asdict() for call in calls]} if calls else {}),
            "logprob": finite(drawn.candidate.logprob),
            "finish_reason": drawn.choice.get("finish_reason"),
        }

    def answer(self) -> ChosenReply:
        """The reply that the chosen candidate came in, with the chosen ones alone."""
        reply = self.drawn[self.chosen[0]].reply
        body = {
            **reply.value,
            "choices": self.choices(),
            "usage": total_usage(reply.value.get("usage") for reply in self.draw.replies),
            FIELD: self.about(),
        }
        return ChosenReply(body, self.header, request_id=reply.request_id)


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
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_TOKENS
    )


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
