"""Ways in which files are damaged, for the law of all readers: every one is named, and made again from its name."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Damaged(NamedTuple):
    """The bytes of a damaged file.

    Args:
        name: of the damage, with its place.
        data: of the file.
        intact: indices of the parts that are still whole.
        bad_line: number of a line that nobody can read; 0 where the damage may pass for another value.
    """

    name: str
    data: bytes
    intact: frozenset[int]
    bad_line: int = 0


ODD: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: True,
    lambda: -1,
    lambda: 10**400,
    lambda: 0.5,
    lambda: "",
    lambda: "x" * 2000,
    lambda: "\u2028",
    list,
    dict,
    lambda: [[]],
    lambda: [None],
    lambda: {"text": 1},
    lambda: {"text": ["a"], "roles": "x"},
    lambda: {"nuc": "N", "rel": "r", "children": []},
    lambda: [["a", 1]],
    lambda: nested(50),
    lambda: nested(380),
    lambda: nested_objects(150),
)
# what no Python value becomes, in the place of one; all but the first three are never JSON of ours
TOKENS = {
    "NaN": "NaN",
    "infinity": "-Infinity",
    "1e999": "1e999",
    "endless number": "9" * 5000,
    "half a pair": '"\\ud800"',
    "deep array": "[" * 3000 + "]" * 3000,
    "deep object": '{"a":' * 3000 + "1" + "}" * 3000,
    "open array": "[" * 2000,
}
# ends of the names of damage to JSON that no reader may take for a value
NEVER = (*(f"= {token}" for token in list(TOKENS)[3:]), "there twice", "garbage before")
CELLS = (
    "",
    "x",
    "nan",
    "-inf",
    "1e999",
    "1_0",
    "9" * 5000,
    "a b",
    "7",
    " ",
    "|||",
    '{"a": 1}',
    '"',
)
PIECES = (
    *("\\ud800", "\\ud83d\\ude80", "\x00", "\ufeff", " ||| ", "|||", "NaN", "1e999", "\r", "\r\n"),
    *("\n\n", '"', "{", "}", "[", "]", ",", ":", "null", "9" * 5000, "[" * 2000, '{"a":' * 500),
    *('{"id": "a"}', "= ", "\u2029", "\t", "<", "</seg>", "&", "-Infinity"),
)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def nested_objects(depth: int) -> Any:
    value: Any = ["w"]
    for _ in range(depth):
        value = {"nuc": "N", "rel": "r", "children": [value]}
    return value


def spoiled(value: Any, draw: random.Random, depth: int = 0) -> Any:
    """The value with one node exchanged, renamed, doubled or left out."""
    if not isinstance(value, dict | list) or not value or depth > 20 or draw.random() < 0.1:
        return draw.choice(ODD)()
    if isinstance(value, list):
        at, items = draw.randrange(len(value)), list(value)
        other = spoiled(items[at], draw, depth + 1)
        items[at : at + 1] = draw.choice([[], [items[at]] * 2, [other], [other]])
        return items
    key = draw.choice(list(value))
    changed = {**value, key: spoiled(value[key], draw, depth + 1)}
    if draw.random() < 0.2:
        name = draw.choice(["text", "document", "position", "candidates", "id", "logprob", "é"])
        changed[name] = changed.pop(key)
    return changed


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The bytes after one to four accidents."""
    for _ in range(draw.randrange(1, 5)):
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + draw.choice([0, 1, 1, 8, 100]))
        kind = draw.randrange(6)
        new = {
            0: bytes(draw.randrange(256) for _ in range(end - start)),
            1: b"",
            2: data[start:end] * 2,
            3: draw.choice(PIECES).encode(),
            4: data[: draw.randrange(len(data) + 1)],
        }.get(kind)
        data = data[:start] if new is None else data[:start] + new + data[end:]
    return data


def damages(head: str, parts: tuple[str, ...], tail: str, separator: str) -> Iterator[Damaged]:
    """A file of a head, parts of whole lines and a tail, damaged in every way that is not a matter of bytes."""
    yield from _cuts(head, parts, tail)
    shapes: set[Any] = set()
    for at, part in enumerate(parts):
        around = head + "".join(parts[:at]), "".join(parts[at + 1 :]) + tail
        others = frozenset(range(len(parts))) - {at}
        for name, changed, number in _changed(part, separator, shapes):
            data = changed.join(around).encode(errors="surrogatepass")
            bad_line = number and number + around[0].count("\n")
            yield Damaged(f"part {at}, {name}", data, others, bad_line)
        again = head + "".join([*parts, part]) + tail
        yield Damaged(f"part {at} again", again.encode(), others)


def _cuts(head: str, parts: tuple[str, ...], tail: str) -> Iterator[Damaged]:
    data = (head + "".join(parts) + tail).encode()
    ends = [len((head + "".join(parts[: i + 1])).encode()) for i in range(len(parts))]
    for length in range(0, len(data), max(1, len(data) // 60)):
        whole = frozenset(i for i, end in enumerate(ends) if end <= length)
        yield Damaged(f"cut at {length}", data[:length], whole)


def _changed(part: str, separator: str, shapes: set[Any]) -> Iterator[tuple[str, str, int]]:
    """Changed parts with their bad line; a path in JSON, and a line of cells of one shape, is changed once."""
    lines = [f"{line}\n" for line in part.split("\n")[:-1]]
    for i, whole in enumerate(lines):
        line = whole.rstrip("\n")
        changes = [
            ("garbage before", f"garbage\n{line}\n"),
            ("an empty line before", f"\n{line}\n"),
            ("twice", f"{line}\n{line}\n"),
            ("left out", ""),
        ]
        value = json.loads(line) if line.startswith("{") else None
        shape = (line.count(separator or "\n"), line[:1])
        if value:
            changes += changed_json(value, shapes)
        elif shape not in shapes:
            changes += changed_cells(line, separator)
        shapes.add(shape)
        for name, changed in changes:
            is_bad = value is not None and name.endswith(NEVER)
            text = "".join([*lines[:i], changed, *lines[i + 1 :]])
            yield f"line {i}, {name}", text, (i + 1) * is_bad


def changed_cells(line: str, separator: str) -> Iterator[tuple[str, str]]:
    """A line with one cell exchanged for odd ones, left out, or there twice."""
    cells = line.split(separator) if separator else []
    for i, cell in enumerate(cells):
        for new in CELLS[i % 2 :: 2]:
            yield f"cell {i} = {new!r:.12}", _joined(cells, i, [new], separator)
        yield f"no cell {i}", _joined(cells, i, [], separator)
        yield f"cell {i} twice", _joined(cells, i, [cell, cell], separator)


def _joined(cells: list[str], at: int, new: list[str], separator: str) -> str:
    return separator.join([*cells[:at], *new, *cells[at + 1 :]]) + "\n"


def changed_json(value: Any, known: set[Any]) -> Iterator[tuple[str, str]]:
    """A JSON value with one node exchanged for odd ones, left out, or there twice.

    A third of the odd values at one node, the next third at the next; none where a path is known.
    """
    for n, path in enumerate(_paths(value)):
        if path in known:
            continue
        known.add(path)
        name = ".".join(map(str, path))
        for i in range(n % 3, len(ODD), 3):
            yield f"{name} = odd {i}", _dumped(_with(value, path, ODD[i]()))
        for token in list(TOKENS)[n % 3 :: 3]:
            marked = _dumped(_with(value, path, "@@"))
            yield f"{name} = {token}", marked.replace('"@@"', TOKENS[token])
        yield f"no {name}", _dumped(_without(value, path))
        key = path[-1]
        if isinstance(key, str):
            marked = _dumped(_with(value, path, "@@"))
            again = f"0, {json.dumps(key)}: 0"
            yield f"{name} there twice", marked.replace('"@@"', again)
            longer = _with(value, path, _at(value, path))
            _at(longer, path[:-1])["another"] = [1]
            yield f"{name} beside another", _dumped(longer)


def _dumped(value: Any) -> str:
    """The line of a JSON value."""
    return json.dumps(value, ensure_ascii=False) + "\n"


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places in a JSON value, of the first and last items of arrays."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for i in sorted({0, len(value) - 1} & set(range(len(value)))):
            yield from _paths(value[i], (*path, i))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    copy = json.loads(json.dumps(value))
    _at(copy, path[:-1])[path[-1]] = new
    return copy


def _without(value: Any, path: tuple[Any, ...]) -> Any:
    copy = json.loads(json.dumps(value))
    del _at(copy, path[:-1])[path[-1]]
    return copy
