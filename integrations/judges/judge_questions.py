"""Questions to a judge as requests of an OpenAI-compatible server, and the keys by which their answers are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...metrics.execution import cache

FORM = "judge 1"  # changed if the same key were to stand for another request
REMINDER = "That is not the form that was asked for. Answer again, in that form alone."


class JudgeQuestion(NamedTuple):
    """A filled prompt, and the number of the judgement."""

    prompt: str
    number: int


@dataclass(frozen=True)
class Requests:
    """How a server is asked.

    Args:
        model: its name on the server.
        chat: whether prompts go to /chat/completions, instead of to /completions.
        temperature: divides logits; None: not sent.
        seed: of the first judgement, the others have the numbers behind it; None: none is sent.
        answer_tokens: the longest answer; None: not sent.
        top_logprobs: how many likely tokens are asked for; 0: none.
        further: more keys.
    """

    model: str
    chat: bool
    temperature: float | None
    seed: int | None
    answer_tokens: int | None
    top_logprobs: int
    further: Mapping[str, Any]

    def body(
        self, question: JudgeQuestion, earlier: Sequence[str] = ()
    ) -> tuple[str, dict[str, Any], str]:
        """Path, JSON and text of the request for a question that had some answers without a value."""
        body: dict[str, Any] = {"model": self.model}
        if self.chat:
            path, messages = "chat/completions", self._messages(question, earlier)
            body["messages"] = messages
            text = "\n".join(message["content"] for message in messages)
        else:
            path = "completions"
            text = body["prompt"] = "\n\n".join((question.prompt, *[REMINDER] * len(earlier)))
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.seed is not None:
            body["seed"] = self.seed + question.number
        if self.answer_tokens is not None:
            body["max_tokens"] = self.answer_tokens
        body.update(self._logprobs())
        return path, {**body, **self.further}, text

    def key(self, question: JudgeQuestion, earlier: Sequence[str] = ()) -> bytes:
        """What the answer is kept under: all that it depends on, and no address.

        The number of the judgement counts also where no seed is sent.
        """
        path, body, _ = self.body(question, earlier)
        content = json.dumps(body, ensure_ascii=True, sort_keys=True)
        return cache.key(FORM, path, str(question.number), content)

    def _logprobs(self) -> dict[str, Any]:
        """What asks for likely tokens."""
        if not self.top_logprobs:
            return {}
        if self.chat:
            return {"logprobs": True, "top_logprobs": self.top_logprobs}
        return {"logprobs": self.top_logprobs}

    @staticmethod
    def _messages(question: JudgeQuestion, earlier: Sequence[str]) -> list[dict[str, str]]:
        """The question as a chat, with the answers that it had."""
        messages = [{"role": "user", "content": question.prompt}]
        for answer in earlier:
            if answer.strip():
                messages.append({"role": "assistant", "content": answer})
                messages.append({"role": "user", "content": REMINDER})
            else:
                last = messages.pop()
                content = f"{last['content']}\n\n{REMINDER}"
                messages.append({**last, "content": content})
        return messages
