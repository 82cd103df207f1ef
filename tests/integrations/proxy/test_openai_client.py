"""The official client of OpenAI's protocol against `discorank serve`."""

from __future__ import annotations

from typing import Any

import openai

from benchmarks.support.scripted_upstream import Script
from discorank import decode

from ...support.proxying import Proxy, proxying

TEXTS = ["the red boat", "the red boat waits", "a green bus", "the red boat waits here"]


def fixed(body: Any, number: int) -> list[str]:
    return TEXTS[: body.get("n") or 1]


def client(proxy: Proxy, key: str = "unused") -> openai.OpenAI:
    return openai.OpenAI(base_url=proxy.url, api_key=key, max_retries=0)


def test_a_chat_is_answered_with_the_best_of_n() -> None:
    with proxying(Script(answer=fixed)) as proxy, client(proxy) as asking:
        raw = asking.chat.completions.with_raw_response.create(
            model="m", messages=[{"role": "user", "content": "Say it"}]
        )
        answer = raw.parse()
    assert [choice.message.content for choice in answer.choices] == [decode(TEXTS, "chrf").text]
    assert raw.headers["x-discorank"] == "chosen; n=4; distinct=4; rounds=1"
    assert proxy.upstream.num_requests == 1
