"""Candidates as JSON: which have the form that a request asks for, which call tools, how, and what is voted over.

Schemas are judged in bounded steps, as anybody may write them. A list of candidates that may call tools is decided in
steps, each by the most votes, where of equal ones the first candidate's wins:

1. to call or to talk; where both have as many votes, to call
2. the names of the tools, a set where a candidate calls several
3. their arguments, as JSON values: the order of keys, white space and 1 or 1.0 do not count

A candidate never wins that calls an unknown tool, whose arguments are not a JSON object or break the schema, or that
does not do what `tool_choice` and `parallel_tool_calls` ask.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import regex

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_json
from ...rerank.messages import text_in, value_at
from ...rerank.stopping_rule import Rival, VoteStep
from .api_errors import ApiError

MAX_CALLS = 128  # of a candidate
MAX_TOOLS = 512
MAX_STEPS = 20_000  # in all texts of a request
COMPARED_PER_STEP = 20  # pairs of items that are compared in the time of a step
PATTERN_SECONDS = 0.05  # for one search
NOTHING = object()
Verdict = Literal["valid", "unchecked", "invalid"]


class _UnusableSchemaError(Exception):
    """A schema that is not used."""


def with_form(texts: Sequence[str], response_format: Mapping[str, Any]) -> list[int] | None:
    """Numbers of the texts that have the form; None where that cannot be told, as with grammars."""
    kind = response_format.get("type")
    values = [value_of(text) for text in texts]
    if kind == "json_object":
        return [i for i, value in enumerate(values) if isinstance(value, dict)]
    wrapper = response_format.get("json_schema")
    schema = wrapper.get("schema") if isinstance(wrapper, Mapping) else None
    if kind != "json_schema" or not isinstance(schema, Mapping):
        return None
    try:
        fits = checker(schema)
        return [i for i, value in enumerate(values) if value is not NOTHING and fits(value)]
    except Exception:  # whatever a schema that nobody checked makes a library do
        return None


def value_of(text: str) -> Any:
    """The JSON value of a text; `NOTHING` if it is not JSON, or has NaN, Infinity or a number beyond all bounds."""
    try:
        value = parse_json(text.encode())
        json.dumps(value, allow_nan=False)
    except (InputError, ValueError):
        return NOTHING
    return value


def _without_dialects(schema: Any) -> Any:
    """A schema without the names of dialects, which have rules of their own.

    Raises:
        _UnusableSchemaError: it has patterns for keys.
    """
    if isinstance(schema, list):
        return [_without_dialects(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    if "patternProperties" in schema:
        raise _UnusableSchemaError
    is_dialect = isinstance(schema.get("$schema"), str)
    return {
        key: _without_dialects(inner)
        for key, inner in schema.items()
        if not (is_dialect and key == "$schema")
    }


class _Steps:
    """The budget that a judgement still has.

    A keyword costs a step and one for each of its values, a pattern one for each character when it is first read, items
    that have to differ what it takes to compare all pairs.
    """

    def __init__(self) -> None:
        self._left = MAX_STEPS
        self._patterns: set[str] = set()

    def take(self, name: str, value: Any, instance: Any) -> None:
        """Takes the steps of a keyword; raises _UnusableSchemaError where there are none left."""
        self._left -= 1
        if isinstance(value, list | dict):
            self._left -= len(value)
        if name == "uniqueItems" and isinstance(instance, list):
            self._left -= len(instance) ** 2 // COMPARED_PER_STEP
        if name == "pattern" and value not in self._patterns:
            self._left -= len(value)
            self._patterns.add(value)
        if self._left < 0:
            raise _UnusableSchemaError


def checker(schema: Any) -> Callable[[Any], bool]:
    """Tells whether a value fits a schema, in a bounded number of steps.

    Raises (also from what is returned):
        Exception: the schema cannot be used.
    """
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    steps = _Steps()

    def counted(name: str, keyword: Callable[..., Any]) -> Callable[..., Any]:
        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            steps.take(name, value, instance)
            return keyword(validator, value, instance, schema)

        return check

    keywords = {**Draft202012Validator.VALIDATORS, "pattern": _pattern}
    bounded = {name: counted(name, keyword) for name, keyword in keywords.items()}
    judge = validators.extend(Draft202012Validator, bounded)(
        _without_dialects(schema), registry=Registry()
    )

    def fits(value: Any) -> bool:
        return bool(judge.is_valid(value))

    return fits


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    """The keyword `pattern`, in bounded time."""
    from jsonschema import ValidationError

    if isinstance(value, str) and not regex.search(pattern, value, timeout=PATTERN_SECONDS):
        yield ValidationError("does not match")


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
        texts: the calls of these as JSON, to vote over; None for a choice by what they say.
        others: the rest of those that may answer, with the most votes first.
        votes: how many call, talk, and are invalid or unchecked; of how many kinds those are that may answer; votes of
            the tools and of the arguments that won.
        steps: the votes after each other that decided; empty where a utility decides.
    """

    decided: Literal["calls", "talk"]
    numbers: Sequence[int]
    texts: Sequence[str] | None
    others: Sequence[int]
    votes: Mapping[str, int]
    steps: Sequence[VoteStep] = ()


def call_vote(
    choices: Sequence[Mapping[str, Any]],
    tools: Tools,
    ignored: Sequence[str] = (),
    weights: Sequence[float] | None = None,
) -> CallVote:
    """The vote over candidates that may call tools.

    Args:
        choices: the candidates, as the server gave them.
        tools: of the request.
        ignored: arguments that do not count.
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
    if not valid:
        problem = f"none of {len(choices)} candidates calls the tools as the request and their schemas say"
        raise ApiError(503, problem, code="no_choice")
    calling = [number for number in valid if calls[number]]
    talking = [number for number in valid if not calls[number]]
    keys = {number: arguments_key(calls[number], ignored) for number in calling}
    kinds = {*keys.values(), *(str(text_in(choices[number])) for number in talking)}
    votes = {
        "calls": len(calling),
        "talk": len(talking),
        "invalid": verdicts.count("invalid"),
        "unchecked": verdicts.count("unchecked"),
        "kinds": len(kinds),
    }
    if _weight(talking, weights) > _weight(calling, weights):
        return CallVote("talk", talking, None, calling, votes)
    by_names = _grouped(calling, [names_key(calls[number]) for number in calling], weights)
    same_names, *other_names = by_names
    texts = [keys[number] for number in same_names]
    by_arguments = _grouped(same_names, texts, weights)
    votes |= {"same_tools": len(same_names), "same_arguments": len(by_arguments[0])}
    rest = [number for group in other_names for number in group] + talking
    rivals = (
        Rival(len(talking), 1.0, is_earlier=False),
        Rival(len(choices) - len(valid), 1.0, is_earlier=False, can_win=False),
    )
    first = VoteStep(len(calling), tuple(rival for rival in rivals if rival.drawn))
    steps = (first, _step(by_names), _step(by_arguments))
    return CallVote("calls", same_names, texts, rest, votes, steps)


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
