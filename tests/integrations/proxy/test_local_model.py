"""A tiny model in this process as the server upstream, asked by the official clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import openai
import pytest

from discorank.integrations.huggingface.generator import HuggingFaceGenerator
from discorank.integrations.huggingface.mixed_rows import MixedRows, RowText, TextRow
from discorank.integrations.huggingface.model_loading import GenerationSettings, ModelPool
from discorank.integrations.proxy.local_model import ADDRESS, LocalModel, LocalModelSettings
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.reranker import Reranker

from ...support.proxying import Proxy, proxying_local, send
from ...support.tiny_causal import POSITIONS, byte_tokenizer, causal_model
from ...support.waiting import PATIENCE_SECONDS, wait_until

SAID: list[Any] = [{"role": "user", "content": "the cat"}]
TEMPLATE = "<s>{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


@cache
def generator() -> HuggingFaceGenerator:
    import copy

    tokenizer = copy.deepcopy(byte_tokenizer())
    tokenizer.chat_template = TEMPLATE
    model = causal_model("llama", len(tokenizer))
    return HuggingFaceGenerator(model, tokenizer, GenerationSettings(num_candidates=1))


def local(**settings: Any) -> LocalModel:
    return LocalModel(generator(), "tiny", "sha256:0", LocalModelSettings(**settings))


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    deciders: Any = {
        "chrf": MBRDecoder(utility="chrf", nbest=None),
        "rerank": Reranker(features={"logprob": 1.0}, nbest=None),
    }
    with proxying_local(local(max_new_tokens=12), deciders, max_n=64) as running:
        yield running


def client(proxy: Proxy) -> openai.OpenAI:
    return openai.OpenAI(base_url=proxy.url, api_key="x", max_retries=0)


@pytest.fixture
def asking(proxy: Proxy) -> Iterator[openai.OpenAI]:
    with client(proxy) as made:
        yield made


def ids_of(text: str) -> tuple[int, ...]:
    return tuple(generator().tokens_of(text))


def row(text: str = "the cat", number: int = 0, **more: Any) -> TextRow:
    settings = {"seed": 0, "temperature": 1.0, "top_p": 1.0, "max_tokens": 12, **more}
    return TextRow(ids_of(text), number, **settings)


def own_texts(text: str, method: Any, cutoff: float | None, temperature: float) -> list[list[int]]:
    """The tokens of three texts as `generate` draws them."""
    pool = ModelPool("candidates", 3, method, cutoff, temperature)
    generator().token_generator.config.max_new_tokens = 12
    (outputs,) = generator().token_generator.outputs([ids_of(text)], pool, seed=7)
    return outputs


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("top_p", [1.0, 0.6])
def test_rows_are_drawn_as_candidates_are(top_p: float, temperature: float) -> None:
    """Those of another seed, length and prompt beside them change nothing."""
    method = "ancestral" if top_p == 1 else "nucleus"
    cutoff = None if top_p == 1 else top_p
    rows, expected = [], []
    for text in ("a man reads = the old house", "the cat"):
        rows += [row(text, j, seed=7, temperature=temperature, top_p=top_p) for j in range(3)]
        expected += own_texts(text, method, cutoff, temperature)
    rows += [row("a dog", 0, seed=1, max_tokens=40), row("a dog", 1, seed=2, temperature=0.0)]
    texts = MixedRows(generator()).texts(rows)
    decode = generator().tokenizer.decode
    assert [text.text for text in texts[:6]] == [
        decode(tokens, skip_special_tokens=True) for tokens in expected
    ]
    assert [text.num_tokens for text in texts[:6]] == list(map(len, expected))
    assert len({text.text for text in texts}) > 4


def test_a_batch_gives_what_each_row_gives_alone() -> None:
    rng = np.random.default_rng(0)
    rows = [
        row(
            ["the cat", "a dog", "the old house and a man ."][rng.integers(3)],
            int(rng.integers(2)),
            seed=int(rng.integers(3)),
            temperature=[0.0, 0.7, 1.0][rng.integers(3)],
            top_p=[0.0, 0.8, 1.0][rng.integers(3)],
            max_tokens=int(rng.integers(1, 20)),
            stop=[(), (" ",), ("e", "t")][rng.integers(3)],
        )
        for _ in range(40)
    ]
    made = MixedRows(generator())
    together = made.texts(rows)
    assert together == [made.texts([one])[0] for one in rows]
    assert {text.is_finished for text in together} == {True, False}
    for one, text in zip(rows, together, strict=True):
        assert text.num_tokens <= one.max_tokens
        assert not any(stop in text.text for stop in one.stop)


def test_log_probabilities_are_those_of_the_model() -> None:
    rows = [row(number=j, temperature=0.5, top_logprobs=j) for j in range(3)]
    texts = MixedRows(generator()).texts(rows)
    for one, text in zip(rows, texts, strict=True):
        tokens = [choice.token for choice in text.choices]
        ((total,),) = generator().token_generator.log_probabilities([one.ids], [[tokens]])
        assert sum(choice.logprob for choice in text.choices) == pytest.approx(total, abs=1e-3)
        assert {len(choice.likeliest) for choice in text.choices} == {one.top_logprobs}
        for choice in text.choices:
            values = [value for _, value in choice.likeliest]
            assert values == sorted(values, reverse=True)
            assert all(value >= choice.logprob for value in values[:1])


def test_where_memory_runs_out_a_batch_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(number=j) for j in range(7)]
    expected = MixedRows(generator()).texts(rows)
    model = generator().model
    plain, sizes = model.generate, []

    def generate(**given: Any) -> Any:
        sizes.append(len(given["input_ids"]))
        if sizes[-1] > 2:
            raise MemoryError
        return plain(**given)

    monkeypatch.setattr(model, "generate", generate)
    assert MixedRows(generator()).texts(rows) == expected
    assert max(sizes) == 7


def test_a_chat_is_answered_with_the_best_of_n(asking: openai.OpenAI) -> None:
    raw = asking.chat.completions.with_raw_response.create(
        model="tiny", messages=SAID, seed=3, extra_body={"discorank": {"explain": True}}
    )
    assert raw.headers["x-discorank"].startswith("chosen; n=4; distinct=")
    answer = raw.parse()
    about = answer.model_dump()["discorank"]
    drawn = {one["text"] for one in about["candidates"]}
    assert answer.choices[0].message.content in drawn
    assert len(drawn) > 1
    assert answer.model == "tiny"
    assert answer.system_fingerprint == "sha256:0"
    prompt = TEMPLATE.partition("{%")[0] + "user: the cat\n"
    num_tokens = len(generator().tokenizer(prompt, add_special_tokens=False)["input_ids"])
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == num_tokens
    assert 4 < answer.usage.completion_tokens <= 4 * 12
    again = asking.chat.completions.create(model="tiny", messages=SAID, seed=3)
    assert again.choices[0].message.content == answer.choices[0].message.content


def test_it_is_named(asking: openai.OpenAI) -> None:
    assert [model.id for model in asking.models.list()] == ["tiny"]
    assert asking.models.retrieve("tiny").owned_by == "discorank"
    with pytest.raises(openai.NotFoundError, match="the only model is 'tiny'") as raised:
        asking.chat.completions.create(model="other", messages=SAID)
    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


def test_completions_and_their_ends(asking: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "prompt": "the cat", "temperature": 0}
    long = asking.completions.create(**asked, max_tokens=30)
    assert (long.choices[0].finish_reason, long.usage and long.usage.completion_tokens) == (
        "length",
        30,
    )
    text = long.choices[0].text
    stop = text[len(text) // 2 :][:3]
    ended = asking.completions.create(**asked, max_tokens=30, stop=[stop])
    assert ended.choices[0].finish_reason == "stop"
    assert ended.choices[0].text == text[: text.index(stop)]
    usual = asking.completions.create(**asked).usage
    assert usual is not None
    assert usual.completion_tokens == 12


def test_seeds(asking: openai.OpenAI) -> None:
    def texts(**more: Any) -> list[str]:
        asked = {"model": "tiny", "prompt": "the cat", "n": 4, **more}
        return sorted(choice.text for choice in asking.completions.create(**asked).choices)

    assert texts(seed=5) == texts(seed=5)
    assert texts(seed=5) != texts(seed=6)
    assert texts() != texts()


def test_log_probabilities_come_back(asking: openai.OpenAI) -> None:
    chat = asking.chat.completions.create(
        model="tiny", messages=SAID, logprobs=True, top_logprobs=3, seed=4
    )
    logprobs = chat.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    written = "".join(token.token for token in logprobs.content)
    # of a character in two tokens each is a part
    assert written == chat.choices[0].message.content or "\ufffd" in written
    for token in logprobs.content:
        assert len(token.top_logprobs) == 3
        assert token.logprob <= token.top_logprobs[0].logprob <= 0
    plain = asking.completions.create(model="tiny", prompt="the cat", logprobs=2, seed=4)
    columns = plain.choices[0].logprobs
    assert columns is not None
    assert columns.tokens is not None
    assert columns.token_logprobs is not None
    assert len(columns.tokens) == len(columns.token_logprobs) == len(columns.text_offset or [])
    written = "".join(columns.tokens)
    assert written == plain.choices[0].text or "\ufffd" in written


def test_a_choice_by_log_probability(asking: openai.OpenAI) -> None:
    ours = {"discorank": {"utility": "rerank", "explain": True}}
    answer = asking.chat.completions.create(model="tiny", messages=SAID, extra_body=ours)
    about = answer.model_dump()["discorank"]
    best = max(about["candidates"], key=lambda one: one["logprob"])
    assert answer.choices[0].message.content == best["text"]
    assert answer.choices[0].logprobs is None


def test_a_stream_that_passes_through(asking: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": SAID, "temperature": 0}
    plain = asking.chat.completions.create(**asked)
    events = list(
        asking.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    pieces = [choice.delta.content or "" for event in events for choice in event.choices]
    assert "".join(pieces) == plain.choices[0].message.content
    assert events[-1].usage == plain.usage
    reasons = [choice.finish_reason for event in events for choice in event.choices]
    assert reasons[-1] == plain.choices[0].finish_reason


def test_other_forms_of_requests(proxy: Proxy, asking: openai.OpenAI) -> None:
    seeded = {"seed": 1}
    response = asking.responses.create(model="tiny", input="the cat", extra_body=seeded)
    assert response.output_text
    body = {"model": "tiny", "messages": SAID, "max_tokens": 9}
    message = send("POST", f"{proxy.url}/messages", json=body).json()
    assert message["stop_reason"] in ("end_turn", "max_tokens")
    assert message["usage"]["output_tokens"] <= 4 * 9


REFUSED: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "response_format": {"type": "json_object"},
    "frequency_penalty": 0.5,
    "logit_bias": {"3": 1},
    "top_k": 5,
    "stop": [1],
    "temperature": -1,
    "logprobs": 3,
    "max_tokens": POSITIONS,
    "messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}],
}
CODES = {"max_tokens": "context_length_exceeded", "messages": "unsupported_value"}
CODES |= dict.fromkeys(list(REFUSED)[:5], "unsupported_parameter")
PLACES = {"max_tokens": "messages", "messages": "messages[0].role"}


@pytest.mark.parametrize("key", REFUSED)
def test_what_it_does_not_do_is_refused(proxy: Proxy, asking: openai.OpenAI, key: str) -> None:
    asked = {"model": "tiny", "messages": SAID, key: REFUSED[key]}
    with pytest.raises(openai.BadRequestError) as raised:
        asking.post("/chat/completions", body=asked, cast_to=object)
    error = raised.value
    assert (error.code, error.param) == (
        CODES.get(key, "refused_upstream"),
        PLACES.get(key, key),
    )


def test_values_that_ask_for_nothing_pass(asking: openai.OpenAI) -> None:
    neutral: dict[str, Any] = {
        "response_format": {"type": "text"},
        "tools": [],
        "frequency_penalty": 0,
        "top_k": -1,
        "user": "u",
        "stop": None,
        "seed": 1,
    }
    parts = [{"type": "text", "text": "the cat"}]
    said = [{"role": "developer", "content": "short"}, {"role": "user", "content": parts}]
    body = {"model": "tiny", "messages": said, **neutral}
    answer: Any = asking.post("/chat/completions", body=body, cast_to=object)
    assert answer["choices"][0]["message"]["content"]


def test_other_paths_are_not_there(asking: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="does not answer POST /v1/embeddings"):
        asking.embeddings.create(model="tiny", input="x")


class HeldRows(MixedRows):
    """Rows whose first batch waits until it may go, or until nobody wants it."""

    def __init__(self) -> None:
        super().__init__(generator())
        self.batches: list[Sequence[TextRow]] = []
        self.may_go = threading.Event()

    def texts(self, rows: Sequence[TextRow]) -> list[RowText]:
        self.batches.append(rows)
        while len(self.batches) == 1 and not self.may_go.wait(0.01):
            if not any(one.is_wanted() for one in rows):
                break
        return super().texts(rows)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> tuple[LocalModel, HeldRows]:
    rows = HeldRows()
    model = "discorank.integrations.proxy.local_model.MixedRows"
    monkeypatch.setattr(model, lambda generator: rows)
    return local(max_new_tokens=6, max_sequences=24, sequences_at_once=16), rows


def ask_at_once(proxy: Proxy, count: int, outcomes: list[Any]) -> None:
    """Puts the outcomes of some requests, all open at the same time, into a list as they come."""

    async def ask(asking: openai.AsyncOpenAI, seed: int) -> None:
        try:
            outcomes.append(
                await asking.chat.completions.create(model="tiny", messages=SAID, seed=seed)
            )
        except openai.APIError as error:
            outcomes.append(error)

    async def ask_all() -> None:
        async with openai.AsyncOpenAI(base_url=proxy.url, api_key="x", max_retries=0) as asking:
            await asyncio.gather(*(ask(asking, seed) for seed in range(count)))

    asyncio.run(ask_all())


def test_what_waits_is_one_batch_and_what_finds_no_room_is_refused(held: Any) -> None:
    model, rows = held
    with proxying_local(model) as proxy:
        outcomes: list[Any] = []
        asking = threading.Thread(target=ask_at_once, args=(proxy, 9, outcomes))
        asking.start()
        # 24 texts have room: six requests for four
        wait_until(lambda: len(outcomes) == 3 or model._thread.num_waiting > 24)
        rows.may_go.set()
        asking.join(PATIENCE_SECONDS)
    refused = [one for one in outcomes if isinstance(one, openai.RateLimitError)]
    assert [one.code for one in refused] == ["too_many_texts"] * 3
    answered = [one for one in outcomes if not isinstance(one, Exception)]
    assert len(answered) == 6
    sizes = [len(batch) for batch in rows.batches]
    assert sum(sizes) == 24
    assert max(sizes) <= 16
    assert len({one.seed for one in rows.batches[1]}) > 1


def test_who_leaves_frees_its_place(held: Any) -> None:
    model, rows = held
    with proxying_local(model) as proxy, client(proxy) as asking:
        with pytest.raises(openai.APITimeoutError):
            asking.chat.completions.create(model="tiny", messages=SAID, timeout=0.5)
        wait_until(lambda: model._thread.num_waiting == 0)
        assert not any(one.is_wanted() for one in rows.batches[0])
        answer = asking.chat.completions.create(model="tiny", messages=SAID)
        assert answer.choices[0].message.content is not None


def test_a_row_that_nobody_wants_ends_with_the_next_token() -> None:
    num_steps = 0

    def is_wanted() -> bool:
        nonlocal num_steps
        num_steps += 1
        return num_steps < 5

    (text,) = MixedRows(generator()).texts([row(max_tokens=60, is_wanted=is_wanted)])
    assert text.num_tokens <= 5


def test_a_model_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, rows: Any) -> Any:
        raise RuntimeError("no luck")

    monkeypatch.setattr(MixedRows, "texts", fail)
    with proxying_local(local()) as proxy, client(proxy) as asking:
        with pytest.raises(openai.InternalServerError, match=r"RuntimeError: no luck") as raised:
            asking.chat.completions.create(model="tiny", messages=SAID)
        assert (raised.value.status_code, raised.value.code) == (502, "generation_failed")


def test_no_chat_template(monkeypatch: pytest.MonkeyPatch) -> None:
    with proxying_local(local()) as proxy, client(proxy) as asking:
        monkeypatch.setattr(generator().tokenizer, "chat_template", None)
        with pytest.raises(openai.BadRequestError, match="no chat template") as raised:
            asking.chat.completions.create(model="tiny", messages=SAID)
        assert raised.value.param == "messages"
        refuses = "{{ raise_exception('only user') }}"
        monkeypatch.setattr(generator().tokenizer, "chat_template", refuses)
        with pytest.raises(openai.BadRequestError, match=r"template refuses .*only user"):
            asking.chat.completions.create(model="tiny", messages=SAID)


def test_what_the_end_of_the_server_cut_off_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def cut_off(rows: MixedRows, wanted: Sequence[TextRow]) -> list[RowText]:
        begun.set()
        wait_until(lambda: not wanted[0].is_wanted())
        return [RowText("cut", 1, is_finished=False) for _ in wanted]

    monkeypatch.setattr(MixedRows, "texts", cut_off)

    async def asked() -> None:
        model = local()
        content = b'{"prompt": "the cat"}'
        sending = model.request("POST", f"{ADDRESS}/completions", (content,), {})
        answer = asyncio.ensure_future(sending.__aenter__())
        await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
        await model.close()
        with pytest.raises(asyncio.CancelledError):
            await answer

    asyncio.run(asked())


def test_a_model_without_positions_has_a_bound_too(
    monkeypatch: pytest.MonkeyPatch, proxy: Proxy
) -> None:
    monkeypatch.setattr("discorank.integrations.proxy.local_model.positions", lambda model: None)
    asked = {"model": "tiny", "messages": SAID, "max_tokens": 1 << 40}
    refused = send("POST", f"{proxy.url}/chat/completions", json=asked)
    assert refused.status_code == 400
    assert "at most 65536 new tokens" in refused.text
