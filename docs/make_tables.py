"""Writes tables in docs/ from the code: ``make docs``.

Metrics and limits declare what they are. What `serve` chooses, and what passes, is asked of the code that reads
requests, with a request for each thing that may be asked for.

A table stands between ``<!-- NAME: make docs writes this list -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from discorank.cli.options import field_helps
from discorank.integrations.proxy.api_errors import ApiError
from discorank.integrations.proxy.questions import (
    CHOSEN_PATHS,
    OTHER_KEYS,
    Allowed,
    Question,
    read_question,
)
from discorank.integrations.proxy.score_endpoints import FORMS, SHARED
from discorank.integrations.proxy.settings import USUAL_PATHS, DrawingSettings
from discorank.metrics.names import BUILT_IN
from discorank.metrics.registry import metric_class
from discorank.metrics.storage.limits import Limits

sys.path.insert(0, str(Path(__file__).parent / "site"))

from metric_pages import facts, facts_of, inputs_of, room_of

ROOT = Path(__file__).parents[1]
HEAD = ("name", "what it is", "reads beside the text", "better", "languages")


def table_of_metrics() -> str:
    """A Markdown table of the metrics of each room, under its title."""
    rooms = defaultdict(list)
    for name in BUILT_IN:
        rooms[room_of(name)].append(name)
    parts = []
    for room, names in rooms.items():
        rows = [row_of(name) for name in names]
        table = "\n".join(f"| {' | '.join(row)} |" for row in (HEAD, ("---",) * len(HEAD), *rows))
        parts.append(f"## {facts()['rooms'][room]['title']}\n\n{table}\n")
    return "\n".join(parts).rstrip()


def row_of(name: str) -> tuple[str, ...]:
    """What there is to know of a metric before one takes it."""
    info = metric_class(name).info
    better = "higher" if info.higher_is_better else "lower"
    reads = ", ".join(inputs_of(info)[1:]) or "the text alone"
    return (f"`{name}`", info.summary, reads, better, facts_of(name)["languages"])


def table_of_limits() -> str:
    """A Markdown table with a row per bound on what is read."""
    helps = field_helps(Limits)
    rows = ["| limit | default | what it bounds |", "|---|---|---|"]
    for name, value in asdict(Limits()).items():
        bound = in_units(value, name.endswith("_bytes"))
        rows.append(f"| `{name}` | {bound} | {helps[name].rstrip('.')} |")
    return "\n".join(rows)


def in_units(value: int, is_bytes: bool) -> str:
    """A number as people read it: bytes in MiB or KiB where they are whole ones.

    >>> in_units(1 << 25, True), in_units(1 << 16, True), in_units(32768, False)
    ('32 MiB', '64 KiB', '32,768')
    """
    if is_bytes and value % (1 << 20) == 0:
        return f"{value >> 20} MiB"
    if is_bytes and value % (1 << 10) == 0:
        return f"{value >> 10} KiB"
    return f"{value:,}"


SAID = [{"role": "user", "content": "Hello"}]
PLAIN: Mapping[str, Mapping[str, Any]] = {
    "chat/completions": {"messages": SAID},
    "completions": {"prompt": "Hello"},
}
IMAGE = {"type": "image_url", "image_url": {"url": "x"}}


class Feature(NamedTuple):
    """Something that a request may ask for.

    Args:
        what: it is called.
        keys: of the request, by path; of every path that is not named, those of "".
        options: of `serve`.
    """

    what: str
    keys: Mapping[str, Mapping[str, Any]]
    options: Mapping[str, Any] = {}

    def outcome(self, path: str) -> str:
        """What becomes of a request to a path."""
        keys = self.keys.get(path, self.keys.get(""))
        return "" if keys is None else outcome(path, {**PLAIN[path], **keys}, self.options)


def said_with(part: Mapping[str, Any]) -> dict[str, Any]:
    """What a user says, with a part that is no text."""
    return {"role": "user", "content": [part]}


FUNCTION = {"type": "function", "function": {"name": "f"}}
FUNCTIONS: Mapping[str, Mapping[str, Any]] = {"": {"tools": [FUNCTION]}}
CHAT, COMPLETION = PLAIN
FEATURES = (
    Feature("a text", {"": {}}),
    Feature("the k best of n: `n`", {CHAT: {"n": 2}, COMPLETION: {"n": 2}}),
    Feature("a stream: `stream`", {"": {"stream": True}}),
    Feature("temperature 0", {"": {"temperature": 0}}),
    Feature(
        "temperature 0 with `--sampling-temperature`",
        {"": {"temperature": 0}},
        {"sampling_temperature": 1.0},
    ),
    Feature("one candidate: `discorank.n` or `-n` is 1", {"": {"discorank": {"n": 1}}}),
    Feature("log-probabilities", {CHAT: {"logprobs": True}, COMPLETION: {"logprobs": 1}}),
    Feature("JSON, or a schema of it", {"": {"response_format": {"type": "json_object"}}}),
    Feature("calls of functions: `tools`", FUNCTIONS),
    Feature("other tools", {"": {"tools": [{"type": "custom", "name": "custom"}]}}),
    Feature("pictures", {CHAT: {"messages": [said_with(IMAGE)]}}),
    Feature(
        "sound, files and other parts of messages",
        {CHAT: {"messages": [said_with({"type": "input_audio"})]}},
    ),
    Feature("messages of another form", {CHAT: {"messages": "x"}}),
    Feature("several prompts", {COMPLETION: {"prompt": ["a", "b"]}}),
    Feature("`modalities` beside text", {CHAT: {"modalities": ["audio"]}}),
    Feature("keys that are not known", {"": {"a_new_key": 1}}),
)


def every_feature() -> Iterator[Feature]:
    """All that may be asked for: the rows of the table, but for its head."""
    yield from FEATURES
    reasons = defaultdict(list)
    for key, reason in OTHER_KEYS.items():
        reasons[reason].append(key)
    for keys in reasons.values():
        asked = {keys[0]: 2}
        what = ", ".join(f"`{key}`" for key in keys)
        yield Feature(what, {CHAT: asked, COMPLETION: asked})


def outcome(path: str, keys: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """What becomes of a request, as the code that reads it says."""
    drawing = DrawingSettings(**options)
    allowed = Allowed(frozenset({"chrf"}), "chrf", drawing)
    try:
        question = read_question(json.dumps(keys).encode(), path, allowed)
    except ApiError as error:
        return f"is refused ({error.status})"
    if not isinstance(question, Question):
        return f"passes: `{question.reason}`"
    if question.tools is not None:
        return "chosen by votes"
    return "chosen" if question.response_format is None else "chosen among those that fit"


def table_of_choices() -> str:
    """A Markdown table with a row for each thing that requests may ask for, and a column for each path."""
    heads = ["asked for", *(f"`/v1/{path}`" for path in CHOSEN_PATHS)]
    rows: list[Sequence[str]] = [heads, ["---"] * len(heads)]
    rows += [[one.what, *map(one.outcome, CHOSEN_PATHS)] for one in every_feature()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def table_of_paths() -> str:
    """A Markdown table with a row for each kind of path."""
    passing = [f"/v1/{path}" for path in USUAL_PATHS if path not in CHOSEN_PATHS]
    own = [path for path in FORMS if path not in SHARED]
    rows = {
        "chosen, or passed through (below)": [f"/v1/{path}" for path in CHOSEN_PATHS],
        "scored by the metrics of `serve`": own,
        "scored where `model` names such a metric, else passed through": sorted(SHARED),
        "passed through": [path for path in passing if path not in SHARED],
        "of this server": ["/healthz", "/metrics"],
        "refused (404), but for those that `--allow-path` names": ["any other"],
    }
    lines = ["| path | its requests are |", "|---|---|"]
    for what, paths in rows.items():
        named = ", ".join(f"`{path}`" if path.startswith("/") else path for path in paths)
        lines.append(f"| {named} | {what} |")
    return "\n".join(lines)


def with_tables(text: str) -> str:
    """A page with its tables made anew."""
    makers = {
        "table of metrics": table_of_metrics,
        "table of limits": table_of_limits,
        "table of paths": table_of_paths,
        "table of choices": table_of_choices,
    }
    for name, make in makers.items():
        begin = f"<!-- {name}: make docs writes this list -->"
        pattern = re.compile(f"{re.escape(begin)}\n.*?<!-- end -->", re.DOTALL)
        block = f"{begin}\n{make()}\n<!-- end -->"
        text = pattern.sub(lambda _, block=block: block, text)  # type: ignore[misc]
    return text


PAGES = sorted((ROOT / "docs").glob("*.md"))


def main() -> None:
    """Writes the pages."""
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
