"""A server that ``generate`` asks for texts: makes them of the words of the prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class CompletionHandler(BaseHTTPRequestHandler):
    """Answers a request for completions with the prompt's words, turned round once more for every text."""

    def do_POST(self) -> None:
        """Answers."""
        length = int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(length))
        answer = json.dumps(completions(request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def completions(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    words = str(request["prompt"]).split()
    choices = []
    for i in range(int(request.get("n", 1))):
        text = " ".join(words[i:] + words[:i])
        choices.append({"index": i, "text": text, "finish_reason": "stop"})
    return {"model": "m", "choices": choices}


@contextmanager
def text_server() -> Iterator[str]:
    """Runs the server, and gives its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), CompletionHandler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
