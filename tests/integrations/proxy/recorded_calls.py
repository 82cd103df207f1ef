"""Lists of candidates that call tools, written here; the second value are arguments that do not count."""

from __future__ import annotations

import json
from typing import Any


def calling(*calls: tuple[str, Any], content: str | None = None) -> dict[str, Any]:
    """A choice that calls tools."""
    listed = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": listed}
    return {"message": message, "finish_reason": "tool_calls"}


def talking(text: str) -> dict[str, Any]:
    """A choice that says something."""
    return {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}


def weather(city: str, **more: Any) -> dict[str, Any]:
    return calling(("weather", {"city": city, **more}))


LISTS: dict[str, tuple[list[dict[str, Any]], tuple[str, ...]]] = {
    "one call": ([weather("Oslo"), weather("Oslo"), weather("Bergen")], ()),
    "the name first": (
        # the most frequent call alone is that of the clock, but most candidates ask for the weather
        [
            calling(("clock", {"zone": "CET"})),
            calling(("clock", {"zone": "CET"})),
            weather("Oslo"),
            weather("Bergen"),
            weather("Bergen", days=3),
            weather("Bergen"),
            weather("Oslo", days=1),
        ],
        (),
    ),
    "arguments as values": (
        [
            calling(("weather", '{"city": "Oslo", "days": 2}')),
            calling(("weather", '{ "days":2,\n "city":"Oslo" }')),
            weather("Bergen", days=2),
            calling(("weather", '{"city": "Oslo", "days": 2.0}')),
        ],
        (),
    ),
    "an argument left out": (
        [
            weather("Bergen", reason="it rains there"),
            weather("Oslo", reason="the user lives there"),
            weather("Oslo", reason="it is the capital"),
        ],
        ("reason",),
    ),
    "most call": ([talking("Hello"), weather("Oslo"), talking("Hello"), weather("Oslo")], ()),
    "most talk": ([talking("Hello"), weather("Oslo"), talking("Hello"), talking("Hello")], ()),
}
# the candidates that the hierarchical rule of its_hub 1.2.0 (tool_vote="tool_hierarchical") may choose, which takes one
# of equal ones by chance
ITS_HUB: dict[str, set[int]] = {
    "one call": {0, 1},
    "the name first": {3, 5},
    "arguments as values": {0, 1, 3},
    "an argument left out": {1, 2},
    "most call": {1, 3},
    "most talk": {0, 2, 3},
}
