"""A server in OpenAI's form that has no model: whatever it is asked, it says one sentence in many ways.

    python examples/fake_upstream.py [PORT]

It is there to try `discorank serve` without a model. Equal requests get equal texts.
"""

from __future__ import annotations

import json
import random
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# parts of the sentence, each with ways to say it, the first of which is the most likely
PARTS = (
    ("The committee", "The board", "A panel", "It"),
    ("approved", "passed", "agreed on", "rejected"),
    ("the new budget", "next year's budget", "the plan", "the building"),
    ("after a long debate", "after much debate", "at last", "quickly"),
    ("on Tuesday.", "this week.", "today.", "again."),
)
LIKELY = (5, 2, 1, 1)


def text(prompt: str, place: int) -> str:
    """The sentence, said in one of its ways."""
    chance = random.Random(f"{prompt} {place}")
    return " ".join(chance.choices(ways, LIKELY)[0] for ways in PARTS)


def reply(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The reply to a request."""
    chat = path.endswith("/chat/completions")
    prompt = json.dumps(body.get("messages", body.get("prompt")))
    n = body.get("n") or 1
    texts = [text(prompt, place) for place in range(n)]
    choices: list[dict[str, Any]] = []
    for index, said in enumerate(texts):
        content = {"message": {"role": "assistant", "content": said}} if chat else {"text": said}
        choices.append({"index": index, "finish_reason": "stop", **content})
    asked, said_words = len(prompt.split()), sum(len(said.split()) for said in texts)
    return {
        "id": "fake",
        "object": "chat.completion" if chat else "text_completion",
        "created": 0,
        "model": body.get("model", "fake"),
        "choices": choices,
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": said_words,
            "total_tokens": asked + said_words,
        },
    }


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Says which models there are: none, under one name."""
        self._send({"object": "list", "data": [{"id": "fake", "object": "model"}]})

    def do_POST(self) -> None:
        """Says the sentence."""
        length = int(self.headers.get("content-length", 0))
        self._send(reply(self.path, json.loads(self.rfile.read(length))))

    def _send(self, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Says nothing."""


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        sys.stdout.write(f"fake upstream at http://127.0.0.1:{server.server_port}/v1\n")
        sys.stdout.flush()
        server.serve_forever()
