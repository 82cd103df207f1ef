"""What a scripted server says and where it fails: all of it follows from a seed and the requests.

Texts come from a small grammar and depend on the prompt, the number of the request and the place of the choice; every
text ends with the marker of its prompt, so that whoever gets it can tell whose it is.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

Fault = Literal[
    "status-500",  # a status that may pass
    "status-429",
    "status-400",  # and one that will not
    "reset",  # the connection is cut before a reply
    "half-json",  # the body ends in the middle
    "stall",  # the reply begins and does not go on
    "few",  # fewer choices than asked for
    "many",  # more
    "ignore-n",  # one, whatever was asked
    "huge",  # a body without end
    "huge-length",  # and one that says how long it is
    "no-choices",
    "redirect",  # to another path of this server, which answers with a text that nobody asked for
]
FAULTS: tuple[str, ...] = Fault.__args__  # type: ignore[attr-defined]
WORDS = tuple(
    "the a small large old red quiet harbour station river bridge boat train waits under".split()  # noqa: SIM905
)


@dataclass
class Script:
    """How the server behaves.

    Args:
        faults: the share of requests that meet each fault.
        latency_seconds: how long every reply takes.
        slowest_seconds: replies take up to so much longer, drawn for each.
        gate: where there is one, replies wait until it is set.
        words: words of a text.
        seed: of texts, faults and latencies.
        answer: makes the texts of a request from its body and number, instead of the grammar; a whole choice stands for
            itself.
        fault: says which fault a request meets, instead of the shares.
        ignores_n: whether every reply has one choice.
        logprobs: whether choices carry log-probabilities where they are asked for.
        times: whether the usage says how many seconds the reply took, from the request to its JSON.
    """

    faults: Mapping[str, float] = field(default_factory=dict)
    latency_seconds: float = 0.0
    slowest_seconds: float = 0.0
    gate: threading.Event | None = None
    words: int = 25
    seed: int = 0
    answer: Callable[[Mapping[str, Any], int], list[Any]] | None = None
    fault: Callable[[Mapping[str, Any], int], str | None] | None = None
    ignores_n: bool = False
    logprobs: bool = True
    times: bool = False

    def random(self, *parts: object) -> random.Random:
        """Random numbers that depend on the parts alone."""
        digest = blake2b(repr((self.seed, *parts)).encode(), digest_size=8).digest()
        return random.Random(int.from_bytes(digest))

    def fault_of(self, body: Mapping[str, Any], number: int) -> str | None:
        """The fault that a request meets."""
        if self.fault is not None:
            return self.fault(body, number)
        draw = self.random("fault", number).random()
        for name, share in self.faults.items():
            draw -= share
            if draw < 0:
                return name
        return None

    def texts(self, body: Mapping[str, Any], number: int) -> list[Any]:
        """The texts of a request."""
        if self.answer is not None:
            return self.answer(body, number)
        prompt = prompt_of(body)
        theme = self.random("theme", prompt).sample(WORDS, 6)
        texts = []
        for place in range(count_of(body)):
            chance = self.random("text", prompt, number, place)
            words = [chance.choice((*theme * 3, *WORDS)) for _ in range(self.words)]
            texts.append(f"{' '.join(words)} {marker(prompt)}")
        return texts

    def choice(self, text: Any, index: int, chat: bool, has_logprobs: bool) -> dict[str, Any]:
        """A choice; its log-probabilities are higher the shorter it is."""
        if isinstance(text, Mapping):
            return {"logprobs": None, **text, "index": index}
        tokens = text.split() or [""]
        values = [-0.5 - 0.01 * i for i, _ in enumerate(tokens)]
        choice: dict[str, Any] = {"index": index, "finish_reason": "stop", "logprobs": None}
        if chat:
            choice["message"] = {"role": "assistant", "content": text}
            if has_logprobs:
                pairs = zip(tokens, values, strict=True)
                choice["logprobs"] = {"content": [{"token": t, "logprob": v} for t, v in pairs]}
            return choice
        choice["text"] = text
        if has_logprobs:
            choice["logprobs"] = {"tokens": tokens, "token_logprobs": values}
        return choice


def prompt_of(body: Mapping[str, Any]) -> str:
    """What a request asks for: its prompt, or its messages."""
    prompt = body.get("prompt", body.get("messages"))
    return prompt if isinstance(prompt, str) else json.dumps(prompt)


def count_of(body: Mapping[str, Any]) -> int:
    """How many texts a request asks for."""
    n = body.get("n")
    return n if isinstance(n, int) and 0 < n < 1000 else 1


def marker(prompt: str) -> str:
    """What texts of a prompt end with.

    >>> marker("a") == marker("a"), marker("a") == marker("b")
    (True, False)
    """
    return f"[{blake2b(prompt.encode(), digest_size=6).hexdigest()}]"


def reply_value(
    script: Script, path: str, body: Mapping[str, Any], number: int, fault: str | None
) -> dict[str, Any]:
    """The JSON of the reply to a request."""
    texts = script.texts(body, number)
    if fault == "few":
        texts = texts[: max(1, len(texts) // 2)]
    elif fault == "many":
        texts = [*texts, *texts]
    elif fault == "ignore-n" or script.ignores_n:
        texts = texts[:1]
    chat = "/chat/" in path
    has_logprobs = script.logprobs and bool(body.get("logprobs"))
    choices = [script.choice(text, i, chat, has_logprobs) for i, text in enumerate(texts)]
    completion_tokens = sum(len(str(text).split()) for text in texts)
    prompt_tokens = len(prompt_of(body).split())
    return {
        "id": f"scripted-{number}",
        "object": "chat.completion" if chat else "text_completion",
        "created": 0,
        "model": body.get("model", "scripted"),
        "choices": [] if fault == "no-choices" else choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def events_of(value: dict[str, Any], path: str) -> Iterator[bytes]:
    """A reply as events, word by word."""
    chat = path.endswith("chat/completions")
    head = {**value, "object": "chat.completion.chunk" if chat else value["object"]}
    head.pop("usage")
    for choice in value["choices"]:
        text = choice["message"]["content"] if chat else choice["text"]
        for word in text.split(" "):
            piece: dict[str, Any] = {"index": choice["index"], "finish_reason": None}
            piece |= {"delta": {"content": word + " "}} if chat else {"text": word + " "}
            yield b"data: " + json.dumps({**head, "choices": [piece]}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"
