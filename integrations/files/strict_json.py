"""The JSON value on one line, read strictly: no key twice, no halves of characters, bounded depth and size.

``NaN`` and ``Infinity`` come through as floats, for the record's own checks to name where they stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ...metrics.errors import InputError
from ...metrics.spec.small_files import check_json_size, unique_members

DEPTH = 400
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def parse_json(line: bytes) -> Any:
    """The value in a line of UTF-8.

    Raises:
        InputError: the line is not UTF-8, or not JSON, an object has a key twice, a text holds a lone surrogate, a
            whole number has more digits than Python converts, it is nested deeper than `DEPTH`, or has too many values.
    """
    check_json_size(line)
    try:
        value = _DECODER.decode(line.decode())
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg} at column {error.colno}"
        raise InputError(problem, fix="Write one object per line") from error
    except RecursionError as error:
        raise _too_deep() from error
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}", fix="Save it as UTF-8") from error
    except ValueError as error:
        problem = "a whole number with too many digits"
        raise InputError(problem, fix="Write it as text or as 1e9") from error
    if line.count(b"[") + line.count(b"{") > DEPTH:
        _check_depth(value)
    if surrogate := _ESCAPED_SURROGATE.search(line):
        _check_surrogates(value, surrogate.group().decode())
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=unique_members)


def _check_surrogates(value: Any, first: str) -> None:
    """Raises InputError for text that UTF-8 cannot hold; `first` is the first escape that may be the cause."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        problem = f"half of a surrogate pair (escapes from {first} on), which is no character"
        raise InputError(problem, fix="Escape whole pairs") from error


def _check_depth(value: Any) -> None:
    """Raises InputError below `DEPTH`, which leaves room for those who walk the value by recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH):
        level = [child for parent in level for child in _nested(parent)]
        if not level:
            return
    raise _too_deep()


def _nested(parent: dict[str, Any] | list[Any]) -> Iterator[dict[str, Any] | list[Any]]:
    """The objects and arrays directly inside an object or array."""
    children = parent.values() if isinstance(parent, dict) else parent
    for child in children:
        if isinstance(child, dict | list):
            yield child


def _too_deep() -> InputError:
    return InputError("nested too deeply", fix=f"Expected at most {DEPTH} levels")
