"""A judge on a server: its verdict depends on the texts in the prompt alone, its words on what a test asks for."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

from discorank import Metric, load_metric

from .serving import Reply, Seen, Server
from .waiting import PATIENCE_SECONDS

Answer = Callable[[Seen, int], Reply]
MODEL = "m"


def verdict(*texts: str) -> int:
    """The number from 0 to 100 that the judge has for some texts."""
    return crc32("|".join(texts).encode()) % 101


def prompt_of(seen: Seen) -> str:
    """The prompt of a request, without what came after it."""
    if "messages" in seen.body:
        return str(seen.body["messages"][0]["content"])
    return str(seen.body["prompt"])


def read_in(prompt: str, name: str) -> str:
    """What stands between the tags of a field; nothing where there are none."""
    tag = rf"^<{name}-(\w{{16}})>\n(.*?)\n</{name}-\1>$"
    found = re.search(tag, prompt, re.DOTALL | re.MULTILINE)
    return found[2] if found else ""


def texts_of(seen: Seen) -> tuple[str, ...]:
    """What a request is about: source, reference and hypothesis."""
    prompt = prompt_of(seen)
    return tuple(read_in(prompt, name) for name in ("source", "reference", "hypothesis"))


def replied(text: str | None, finish: str = "stop", **message: Any) -> Reply:
    """A chat's reply."""
    choice = {"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 100, "completion_tokens": 2, "total_tokens": 102}
    return Reply({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})


def judged(seen: Seen, number: int = 0) -> Reply:
    """The number alone."""
    return replied(str(verdict(*texts_of(seen))))


def compared(seen: Seen, number: int = 0) -> Reply:
    """A, B or C, with a leaning to whatever stands first."""
    prompt = prompt_of(seen)
    first, second = (verdict(read_in(prompt, name)) for name in ("first", "second"))
    return replied("A" if first + 20 > second else "B")


def asked(server: Server) -> Counter[str]:
    """How often every request was made, by its whole body."""
    return Counter(json.dumps(seen.body, sort_keys=True) for seen in server.seen)


def judge(server: Server | str, name: str = "judge-qe", **settings: Any) -> Metric:
    """A judge on a server."""
    url = server if isinstance(server, str) else server.url
    chosen = {
        "backoff_seconds": 0.0,
        "connections": 4,
        "timeout_seconds": PATIENCE_SECONDS,
        **settings,
    }
    loaded = load_metric(name, model=MODEL, base_url=url, **chosen)
    assert isinstance(loaded, Metric)
    return loaded


def spec(server: Server | str, name: str = "judge-qe", **settings: Any) -> str:
    """The same as an argument of a command."""
    url = server if isinstance(server, str) else server.url
    chosen = {"backoff_seconds": 0.001, "retries": 1, "base_url": url, **settings}
    rest = ",".join(f"{key}={json.dumps(setting)}" for key, setting in chosen.items())
    return f'{name}(model="{MODEL}",{rest})'


def kept(folder: Path) -> dict[str, str]:
    """The setting that keeps answers, without which there is a warning."""
    return {"answers": str(folder / "answers")}
