"""The JSON value on one line, read strictly: no key twice, no halves of characters, bounded depth and size.

``NaN`` and ``Infinity`` come through as floats, for the record's own checks to name where they stand.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from ...metrics.errors import InputError

VALUES = 1_000_000
DEPTH = 400
_LARGE_BYTES = 1 << 20
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def parse_json(line: bytes) -> Any:
    """The value in a line of UTF-8.

    Raises:
        InputError: the line is not JSON, an object has a key twice, a text holds a lone surrogate, a whole number has
            more digits than Python converts, it is nested deeper than `DEPTH` or has more than about `VALUES` values.
    """
    if len(line) > _LARGE_BYTES and sum(map(line.count, (b",", b"[", b"{"))) > VALUES:
        raise InputError(f"more than {VALUES} values in one line", fix="Split the list")
    try:
        value = _DECODER.decode(line.decode())
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg} at column {error.colno}", fix="Write one object per line"
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            "a whole number with too many digits", fix="Write it as text or as 1e9"
        ) from error
    if line.count(b"[") + line.count(b"{") > DEPTH:
        _check_depth(value)
    if found := _ESCAPED_SURROGATE.search(line):
        _check_surrogates(value, found.group().decode())
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InputError(f"key {twice!r:.80} stands twice in one object", fix="Keep one of them")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def _check_surrogates(value: Any, first: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"half of a surrogate pair (escapes from {first} on), which is no character",
            fix="Escape whole pairs",
        ) from error


def _check_depth(value: Any) -> None:
    """Raises InputError below `DEPTH`, which leaves room for those who walk the value by recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH):
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [
            child for children in inner for child in children if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> InputError:
    return InputError("nested too deeply", fix=f"Expected at most {DEPTH} levels")
