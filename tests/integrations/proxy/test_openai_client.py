"""The official client of OpenAI's protocol against `discorank serve`: what is chosen, streamed, and passed through."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import openai
import pytest

from benchmarks.support.scripted_replies import Script, marker
from discorank import decode
from discorank.rerank.lists import Candidate
from discorank.rerank.mbr import MBRDecoder

from ...support.proxying import Proxy, openai_client, proxying

TEXTS = ["the red boat", "the red boat waits", "a green bus", "the red boat waits here"]
ASKED: list[Any] = [{"role": "user", "content": "Say it"}]


def fixed(body: Mapping[str, Any], number: int) -> list[str]:
    """Four texts, and then the same again."""
    return (TEXTS * 8)[: body.get("n") or 1]


def client(proxy: Proxy, key: str = "unused") -> openai.OpenAI:
    return openai_client(proxy.url, key)


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    deciders: dict[str, Any] = {
        name: MBRDecoder(utility=name, nbest=None) for name in ("chrf", "bleu", "rouge-l")
    }
    with proxying(Script(answer=fixed), deciders=deciders, max_n=8) as running:
        yield running


@pytest.fixture
def asking(proxy: Proxy) -> Iterator[openai.OpenAI]:
    proxy.upstream.seen.clear()
    with client(proxy) as made:
        yield made


def test_a_chat_is_answered_with_the_best_of_n(proxy: Proxy, asking: openai.OpenAI) -> None:
    raw = asking.chat.completions.with_raw_response.create(
        model="m", messages=ASKED, temperature=0.7, max_tokens=9
    )
    answer = raw.parse()
    best = decode(TEXTS, "chrf")
    assert [choice.message.content for choice in answer.choices] == [best.text]
    assert (answer.choices[0].index, answer.choices[0].finish_reason) == (0, "stop")
    assert raw.headers["x-discorank"] == "chosen; n=4; distinct=4; rounds=1"
    (seen,) = proxy.upstream.seen
    assert seen.path == "/v1/chat/completions"
    asked = {"model": "m", "messages": ASKED, "temperature": 0.7, "max_tokens": 9}
    assert seen.body == {**asked, "n": 4}
    assert answer.usage is not None
    assert answer.usage.completion_tokens == sum(len(text.split()) for text in TEXTS)
    about = answer.model_dump()["discorank"]
    assert about["index"] == best.index
    assert about["utility"] == pytest.approx(best.utility)
    assert about["gap"] == pytest.approx(best.gap)
    assert (about["n"], about["distinct"], about["rounds"]) == (4, 4, 1)
    (usage,) = about["usage"]
    assert usage["candidates"] == [0, 1, 2, 3]
    assert usage["completion_tokens"] == answer.usage.completion_tokens


def test_a_request_chooses_among_what_is_allowed(asking: openai.OpenAI) -> None:
    ours = {"discorank": {"utility": "bleu", "n": 8, "explain": True}}
    answer = asking.completions.create(model="m", prompt="p", extra_body=ours)
    best = decode(TEXTS * 2, "bleu")
    assert answer.choices[0].text == best.text
    about = answer.model_dump()["discorank"]
    assert (about["decoder"], about["n"], about["distinct"]) == ("bleu", 8, 4)
    explained = about["candidates"]
    assert [one["text"] for one in explained] == [place.text for place in best.ranking]
    assert [one["index"] for one in explained] == [place.index for place in best.ranking]
    assert [one["count"] for one in explained] == [2, 2, 2, 2]
    assert [one["utility"] for one in explained] == pytest.approx(
        [place.utility for place in best.ranking]
    )


def test_what_is_not_allowed_is_refused_with_its_key(proxy: Proxy, asking: openai.OpenAI) -> None:
    mistakes: list[tuple[Any, str, str]] = [
        ({"utility": "comet"}, "discorank.utility", "chrf"),
        ({"n": 9}, "discorank.n", "8"),
        ({"n": 0}, "discorank", "n"),
        ({"n": True}, "discorank", "n"),
        ({"upstream": "http://x"}, "discorank", "upstream"),
        ({"document": "d"}, "discorank", "position"),
        ({"document": "", "position": 0}, "discorank", "document"),
        ("chrf", "discorank", "chrf"),
    ]
    for field, key, fact in mistakes:
        with pytest.raises(openai.BadRequestError, match=fact) as raised:
            asking.completions.create(model="m", prompt="p", extra_body={"discorank": field})
        assert raised.value.param == key
    assert proxy.upstream.seen == []


def test_the_k_best_in_order(proxy: Proxy, asking: openai.OpenAI) -> None:
    answer = asking.chat.completions.create(model="m", messages=ASKED, n=3)
    best = [place.text for place in decode(TEXTS, "chrf").ranking][:3]
    assert [choice.message.content for choice in answer.choices] == best
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    # where there are fewer distinct texts, copies come behind them
    answer = asking.chat.completions.create(model="m", messages=ASKED, n=6)
    texts = [choice.message.content for choice in answer.choices]
    assert texts[:4] == [place.text for place in decode([*TEXTS, *TEXTS[:2]], "chrf").ranking]
    assert texts[4:] == TEXTS[:2]
    with pytest.raises(openai.BadRequestError, match="at most 8"):
        asking.chat.completions.create(model="m", messages=ASKED, n=9)


def test_what_is_chosen_is_streamed(proxy: Proxy, asking: openai.OpenAI) -> None:
    stream = asking.chat.completions.create(
        model="m", messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == decode(TEXTS, "chrf").text
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert [c.choices[0].finish_reason for c in chunks if c.choices] == [None, "stop"]
    assert chunks[-2].model_dump()["discorank"]["n"] == 4
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == sum(len(text.split()) for text in TEXTS)
    assert "stream" not in proxy.upstream.seen[0].body


def test_completions_are_streamed_too(asking: openai.OpenAI) -> None:
    chunks = list(asking.completions.create(model="m", prompt="p", n=2, stream=True))
    texts = {0: "", 1: ""}
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert list(texts.values()) == [place.text for place in decode(TEXTS, "chrf").ranking][:2]
    assert all(chunk.usage is None for chunk in chunks)


def test_many_at_once_without_waiting(proxy: Proxy) -> None:
    async def ask() -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=proxy.url, api_key="x", max_retries=0) as made:
            asked = [
                made.chat.completions.create(model="m", messages=ASKED, stream=False)
                for _ in range(20)
            ]
            answers = await asyncio.gather(*asked)
            stream = await made.chat.completions.create(model="m", messages=ASKED, stream=True)
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        return [*(answer.choices[0].message.content for answer in answers), "".join(pieces)]

    assert asyncio.run(ask()) == [decode(TEXTS, "chrf").text] * 21


TOOL: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
IMAGE: Any = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        ],
    }
]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"functions": [TOOL["function"]]}, "tools"),
        ({"messages": IMAGE}, "images"),
        ({"extra_body": {"prompt_logprobs": 1}}, "logprobs"),
        ({"temperature": 0}, "temperature=0"),
        ({"extra_body": {"discorank": {"n": 1}}}, "n=1"),
        ({"modalities": ["text", "audio"]}, "modalities"),
    ],
)
def test_other_than_plain_texts_passes_through(
    proxy: Proxy, asking: openai.OpenAI, more: dict[str, Any], reason: str
) -> None:
    request = {"model": "m", "messages": ASKED, **more}
    raw = asking.chat.completions.with_raw_response.create(**request)
    assert raw.headers["x-discorank"] == f"passed-through; reason={reason}"
    assert raw.parse().choices[0].message.content == TEXTS[0]
    assert "discorank" not in raw.text
    (seen,) = proxy.upstream.seen
    further = request.pop("extra_body", {})
    further.pop("discorank", None)
    assert seen.body == {**request, **further}


def test_a_single_candidate_streams_as_it_comes(asking: openai.OpenAI) -> None:
    stream = asking.chat.completions.create(
        model="m", messages=ASKED, stream=True, extra_body={"discorank": {"n": 1}}
    )
    pieces = [chunk.choices[0].delta.content for chunk in stream]
    assert pieces == ["the ", "red ", "boat "]


def test_models_and_embeddings_pass_through(proxy: Proxy, asking: openai.OpenAI) -> None:
    assert [model.id for model in asking.models.list()] == ["scripted"]
    embedded = asking.embeddings.create(model="m", input="text", encoding_format="float")
    assert embedded.data[0].embedding == [0.5, 0.25]
    assert [seen.path for seen in proxy.upstream.seen] == ["/v1/models", "/v1/embeddings"]


def test_the_source_is_what_the_user_said_last(asking: openai.OpenAI) -> None:
    seen = []

    def overlap(hypothesis: str, reference: str) -> float:
        return float(len(set(hypothesis) & set(reference)))

    class Spy(MBRDecoder):
        def program(self, record: Any, context: Any, flags: Any) -> Any:
            seen.append(record)
            return super().program(record, context, flags)

    spy: dict[str, Any] = {"spy": Spy(utility=overlap, nbest=None)}
    messages: Any = [
        {"role": "system", "content": "Translate."},
        {"role": "user", "content": "Eins"},
        {"role": "assistant", "content": "One"},
        {"role": "user", "content": [{"type": "text", "text": "Zwei"}]},
    ]
    with proxying(Script(answer=fixed), deciders=spy) as running, client(running) as made:
        made.chat.completions.create(model="m", messages=messages)
        made.completions.create(model="m", prompt="Drei")
        made.completions.create(
            model="m", prompt="German: Vier English:", extra_body={"discorank": {"source": "Vier"}}
        )
    assert [record.source for record in seen] == ["Zwei", "Drei", "Vier"]
    assert [one.text for one in seen[0].candidates] == TEXTS
    assert isinstance(seen[0].candidates[0], Candidate)


def test_candidates_of_two_requests_are_never_mixed() -> None:
    def ask(number: int, made: openai.AsyncOpenAI) -> Any:
        return made.completions.create(model="m", prompt=f"prompt {number}", max_tokens=50)

    async def ask_all(url: str) -> list[str]:
        async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as made:
            answers = await asyncio.gather(*(ask(i, made) for i in range(60)))
        return [answer.choices[0].text for answer in answers]

    script = Script(slowest_seconds=0.05)
    with proxying(script, num_candidates=6, candidates_per_request=2) as running:
        texts = asyncio.run(ask_all(running.url))
    for i, text in enumerate(texts):
        assert text.endswith(marker(f"prompt {i}"))
