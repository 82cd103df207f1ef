"""Replies of a real server: kept as it gives them, and given again from a file where it is not there."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from .serving import Reply, Seen
from .waiting import PATIENCE_SECONDS

HEADERS = ("content-type",)
FOLDER = re.compile(r"(?:/[\w.-]+)+/(?=\w+\.py)")  # of the server's own files, in its errors


class Recording:
    """What a server replied to which requests, in order.

    Args:
        about: the server, in words.
    """

    def __init__(self, about: str = "") -> None:
        self.about = about
        self._replies: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._given: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    @classmethod
    def of_file(cls, path: Path) -> Recording:
        """The recording that a file holds."""
        data = json.loads(path.read_text(encoding="utf-8"))
        made = cls(data["about"])
        for exchange in data["exchanges"]:
            key = _key(Seen(exchange["path"], exchange["asked"], None))
            made._replies[key] = exchange["replies"]
        return made

    def write(self, path: Path) -> None:
        """Writes it."""
        exchanges = []
        for key, replies in self._replies.items():
            place, asked = json.loads(key)
            exchanges.append({"path": place, "asked": asked, "replies": replies})
        data = {"about": self.about, "exchanges": exchanges}
        path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def again(self, seen: Seen, number: int) -> Reply:
        """The next reply to a request; of the last one, the last again."""
        key = _key(seen)
        with self._lock:
            replies = self._replies.get(key)
            if not replies:
                return Reply({"error": {"message": f"not recorded: {key[:2000]}"}}, 418)
            kept = replies[min(self._given[key], len(replies) - 1)]
            self._given[key] += 1
        return Reply(kept["body"].encode(), kept["status"], kept["headers"])

    def kept_from(self, url: str) -> Callable[[Seen, int], Reply]:
        """What answers as the server at an address does, and keeps it."""

        def answer(seen: Seen, number: int) -> Reply:
            method = "POST" if seen.body else "GET"
            with httpx2.Client(verify=False, trust_env=False, timeout=PATIENCE_SECONDS) as client:
                reply = client.request(method, url + seen.path, json=seen.body or None)
            headers = {name: reply.headers[name] for name in HEADERS if name in reply.headers}
            kept = {
                "status": reply.status_code,
                "headers": headers,
                "body": FOLDER.sub("", reply.text),
            }
            with self._lock:
                self._replies[_key(seen)].append(kept)
            return Reply(reply.content, reply.status_code, headers)

        return answer


def _key(seen: Seen) -> str:
    """A request as text."""
    return json.dumps([seen.path, seen.body], sort_keys=True, ensure_ascii=False)
