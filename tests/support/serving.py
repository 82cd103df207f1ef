"""A server that speaks OpenAI's protocol, and misbehaves in every way a test asks for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What the server does with a request.

    Args:
        body: JSON, or bytes as they are.
        status, headers: of the reply.
        length: the Content-Length that is claimed; a longer one than the body breaks the connection.
        hold: set when the reply may be sent.
        drip: whether the body comes byte by byte, for ever.
    """

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    hold: threading.Event | None = None
    drip: bool = False


@dataclass
class Seen:
    """A request: its path, its JSON, and its Authorization header."""

    path: str
    body: dict[str, Any]
    key: str | None


class Server:
    """The requests that came, and how they are answered."""

    def __init__(self, answer: Callable[[Seen, int], Reply]) -> None:
        self.answer, self.seen = answer, []  # type: tuple[Callable[[Seen, int], Reply], list[Seen]]
        self.lock, self.open, self.most_open = threading.Lock(), 0, 0
        self.ended = threading.Event()
        self.url = ""

    def reply(self, path: str, body: dict[str, Any], key: str | None) -> Reply:
        with self.lock:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            self.seen.append(Seen(path, body, key))
            number = len(self.seen) - 1
        return self.answer(self.seen[number], number)


@contextmanager
def serving(answer: Callable[[Seen, int], Reply]) -> Iterator[Server]:
    """A running server that answers request number i, counted from 0, with ``answer(request, i)``."""
    server = Server(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            try:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            except ValueError:
                return  # the client has gone before it had said all
            reply = server.reply(self.path, body, self.headers["Authorization"])
            try:
                send(self, reply, server.ended)
            except OSError:
                pass  # the client has gone
            finally:
                with server.lock:
                    server.open -= 1

        def do_GET(self) -> None:
            send(self, server.reply(self.path, {}, self.headers["Authorization"]), server.ended)
            with server.lock:
                server.open -= 1

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    try:
        yield server
    finally:
        server.ended.set()
        http.shutdown()
        http.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, reply: Reply, ended: threading.Event) -> None:
    if reply.hold is not None:
        while not (reply.hold.wait(0.01) or ended.is_set()):
            pass
    content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    handler.send_response(reply.status)
    for name, value in reply.headers.items():
        handler.send_header(name, value)
    handler.send_header(
        "Content-Length", str(len(content) if reply.length is None else reply.length)
    )
    handler.end_headers()
    handler.wfile.write(content)
    while reply.drip and not ended.wait(0.01):
        handler.wfile.write(b" ")
    if reply.length is not None:
        handler.close_connection = True


def completion(
    texts: list[str], logprobs: list[float] | None = None, **more: Any
) -> dict[str, Any]:
    """The body of a good reply of /completions."""
    given = {} if logprobs is None else {"logprobs": {"token_logprobs": logprobs}}
    return {
        "choices": [{"index": i, "text": text, **given, **more} for i, text in enumerate(texts)]
    }


def echo(seen: Seen, number: int) -> Reply:
    """As many texts as are asked for; each says which prompt, seed and place it has."""
    prompt, seed = seen.body["prompt"], seen.body.get("seed")
    return Reply(completion([f"{prompt} {seed} {i}" for i in range(seen.body["n"])]))
