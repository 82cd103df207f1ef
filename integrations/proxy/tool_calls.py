"""Which candidates call tools, how, and whether as their schemas say: what is voted over.

A list is decided in steps, each by the most votes, where of equal ones the first candidate's wins:

1. to call or to talk; where both have as many votes, to call
2. the names of the tools, a set where a candidate calls several
3. their arguments, as JSON values: the order of keys, white space and 1 or 1.0 do not count

A candidate that calls a tool which there is not, whose arguments are no JSON object or break the schema, or that does
not do what `tool_choice` and `parallel_tool_calls` ask, never wins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from ...rerank.messages import text_in, value_at
from ...rerank.stopping_rule import Rival, VoteStep
from .api_errors import ApiError
from .json_forms import NOTHING, checker, value_of

MAX_CALLS = 128  # of a candidate
MAX_TOOLS = 512


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a request.

    Args:
        schemas: of the arguments of each, by name; None where there is none.
        choice: ``auto``, ``none``, ``required``, or ``named`` for the one of `only`.
        only: the tool that has to be called.
        parallel: whether a candidate may call several.
    """

    schemas: Mapping[str, Any]
    choice: Literal["auto", "none", "required", "named"] = "auto"
    only: str | None = None
    parallel: bool = True


def tools_of(body: Mapping[str, Any]) -> Tools | None:
    """The tools of a request; None where they are not functions alone, or asked for in a form that is not known."""
    schemas: dict[str, Any] = {}
    tools = body.get("tools")
    if not isinstance(tools, list) or len(tools) > MAX_TOOLS:
        return None
    for tool in tools:
        function = value_at(tool, "function")
        name = value_at(function, "name")
        if not isinstance(name, str) or value_at(tool, "type") not in (None, "function"):
            return None
        schemas[name] = value_at(function, "parameters")
    parallel = body.get("parallel_tool_calls") is not False
    choice = body.get("tool_choice")
    if choice is None or choice in ("auto", "none", "required"):
        return Tools(schemas, choice or "auto", None, parallel)
    only = value_at(value_at(choice, "function"), "name")
    return Tools(schemas, "named", only, parallel) if isinstance(only, str) else None


class ToolCall(NamedTuple):
    """The call of a tool: its name and its arguments, `NOTHING` if they are no JSON object."""

    name: str
    arguments: Any


def calls_of(choice: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The calls of a choice; none where it talks."""
    calls = value_at(value_at(choice, "message"), "tool_calls")
    listed = calls if isinstance(calls, list) else []
    return tuple(map(_call, listed[: MAX_CALLS + 1]))


def _call(call: Any) -> ToolCall:
    function = value_at(call, "function")
    arguments = value_at(function, "arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    arguments = value_of(text) if text.strip() else {}
    return ToolCall(
        str(value_at(function, "name")), arguments if isinstance(arguments, dict) else NOTHING
    )


Verdict = Literal["valid", "unchecked", "invalid"]


def verdict(calls: Sequence[ToolCall], tools: Tools) -> Verdict:
    """Whether a candidate, whose calls may be none, does what its request asks for; unchecked where nobody can tell."""
    if not calls:
        return "invalid" if tools.choice in ("required", "named") else "valid"
    if tools.choice == "none" or len(calls) > (MAX_CALLS if tools.parallel else 1):
        return "invalid"
    if tools.only is not None and any(call.name != tools.only for call in calls):
        return "invalid"
    verdicts = [_verdict_of(call, tools) for call in calls]
    if "invalid" in verdicts:
        return "invalid"
    return "unchecked" if "unchecked" in verdicts else "valid"


def _verdict_of(call: ToolCall, tools: Tools) -> Verdict:
    """Whether a call has a tool and arguments as its schema says."""
    if call.name not in tools.schemas or call.arguments is NOTHING:
        return "invalid"
    schema = tools.schemas[call.name]
    if schema is None:
        return "valid"
    try:
        return "valid" if checker(schema)(call.arguments) else "invalid"
    except Exception:  # whatever a schema that nobody checked makes a library do
        return "unchecked"


def names_key(calls: Iterable[ToolCall]) -> str:
    """The names of calls, whatever their order."""
    return json.dumps(sorted(call.name for call in calls))


def arguments_key(calls: Iterable[ToolCall], ignored: Iterable[str] = ()) -> str:
    """Calls as JSON, whatever their order, without the arguments that do not count.

    >>> arguments_key([ToolCall("f", {"b": 1.0, "a": [2]})])
    '[["f", {"a": [2], "b": 1}]]'
    """
    left_out = frozenset(ignored)
    written = []
    for call in calls:
        counted = {key: value for key, value in call.arguments.items() if key not in left_out}
        written.append(json.dumps([call.name, _plain(counted)], sort_keys=True))
    return f"[{', '.join(sorted(written))}]"


def _plain(value: Any) -> Any:
    """A JSON value in which equal numbers are written alike."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class CallVote(NamedTuple):
    """A list decided as far as votes do.

    Args:
        decided: whether it calls or talks.
        numbers: of the candidates that are left to choose among, which all call the same tools, or talk.
        texts: what these are compared by; None where by what they say.
        by_utility: whether the texts are those of an argument, for the utility, and not for a vote.
        others: the rest of those that may answer, with the most votes first.
        votes: how many call, talk, and are invalid or unchecked; of how many kinds those are that may answer; votes of
            the tools and of the arguments that won.
        steps: the votes after each other that decided; empty where a utility decides.
    """

    decided: Literal["calls", "talk"]
    numbers: Sequence[int]
    texts: Sequence[str] | None
    by_utility: bool
    others: Sequence[int]
    votes: Mapping[str, int]
    steps: Sequence[VoteStep] = ()


def call_vote(
    choices: Sequence[Mapping[str, Any]],
    tools: Tools,
    ignored: Sequence[str] = (),
    text_key: str | None = None,
    weights: Sequence[float] | None = None,
) -> CallVote:
    """The vote over candidates that may call tools.

    Args:
        choices: the candidates, as the server gave them.
        tools: of the request.
        ignored: arguments that do not count.
        text_key: the argument whose text a utility is to choose by, where candidates agree in the others.
        weights: of the candidates' votes; 1 each if not given.

    Raises:
        ApiError: no candidate may answer.
    """
    calls = [calls_of(choice) for choice in choices]
    weights = [1.0] * len(calls) if weights is None else weights
    verdicts = [verdict(one, tools) for one in calls]
    is_checked = "valid" in [judged for judged, one in zip(verdicts, calls, strict=True) if one]
    usual = ("valid",) if is_checked else ("valid", "unchecked")
    valid = [number for number, judged in enumerate(verdicts) if judged in usual]
    calling = [number for number in valid if calls[number]]
    talking = [number for number in valid if not calls[number]]
    votes = {
        "calls": len(calling),
        "talk": len(talking),
        "invalid": verdicts.count("invalid"),
        "unchecked": verdicts.count("unchecked"),
        "kinds": len({_kind(choices[number], calls[number], ignored) for number in valid}),
    }
    if not valid:
        problem = f"none of {len(choices)} candidates calls the tools as the request and their schemas say"
        raise ApiError(503, problem, code="no_choice", retry_seconds=5)
    if _weight(talking, weights) > _weight(calling, weights):
        return CallVote("talk", talking, None, False, calling, votes)
    names = _grouped(calling, [names_key(calls[number]) for number in calling], weights)
    same_names, *other_names = names
    keys = [arguments_key(calls[number], ignored) for number in same_names]
    same_arguments, *_ = _grouped(same_names, keys, weights)
    votes |= {"same_tools": len(same_names), "same_arguments": len(same_arguments)}
    rest = [number for group in other_names for number in group] + talking
    if text_key is None:
        beside = (
            Rival(len(talking), 1.0, is_earlier=False),
            Rival(len(choices) - len(valid), 1.0, is_earlier=False, can_win=False),
        )
        first = VoteStep(len(calling), tuple(rival for rival in beside if rival.drawn))
        steps = (first, _step(names), _step(_grouped(same_names, keys, weights)))
        return CallVote("calls", same_names, keys, False, rest, votes, steps)
    left_out = (*ignored, text_key)
    other_keys = [arguments_key(calls[number], left_out) for number in same_names]
    alike, *unlike = _grouped(same_names, other_keys, weights)
    others = [number for group in unlike for number in group] + rest
    texts = [_text_of(calls[number], text_key) for number in alike]
    if any(text is None for text in texts):
        alike_keys = [arguments_key(calls[number], ignored) for number in alike]
        return CallVote("calls", alike, alike_keys, False, others, votes)
    return CallVote("calls", alike, [str(text) for text in texts], True, others, votes)


def _kind(choice: Mapping[str, Any], calls: Sequence[ToolCall], ignored: Sequence[str]) -> str:
    """What is the same in candidates that do the same: their calls, or what they say."""
    if calls:
        return arguments_key(calls, ignored)
    return str(text_in(choice))


def _weight(numbers: Iterable[int], weights: Sequence[float]) -> float:
    """The votes of some candidates together."""
    return sum(weights[number] for number in numbers)


def _grouped(
    numbers: Sequence[int], keys: Sequence[str], weights: Sequence[float]
) -> list[list[int]]:
    """Numbers of one key together, those with the most votes first, then those that come first."""
    groups: dict[str, list[int]] = {}
    for number, key in zip(numbers, keys, strict=True):
        groups.setdefault(key, []).append(number)
    return sorted(groups.values(), key=lambda group: _weight(group, weights), reverse=True)


def _step(groups: Sequence[Sequence[int]]) -> VoteStep:
    """The vote over groups, of which the first has won."""
    best, *others = groups
    rivals = (Rival(len(group), 1.0, is_earlier=group[0] < best[0]) for group in others)
    return VoteStep(len(best), tuple(rivals))


def _text_of(calls: Sequence[ToolCall], key: str) -> str | None:
    """The text of an argument, of all calls in lines; None where one has none."""
    texts = [call.arguments.get(key) for call in sorted(calls, key=attrgetter("name"))]
    if not all(isinstance(text, str) for text in texts):
        return None
    return "\n".join(texts)
