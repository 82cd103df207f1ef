"""JSON and YAML of files that may be hostile, read strictly: size, depth, repeated keys and aliases are bounded.

``NaN`` and ``Infinity`` of JSON come through as floats, for the record's own checks to name where they stand.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..errors import InputError, excerpt
from .bounded_files import YAML_BYTES, read_small_file, read_small_text
from .limits import limits

DEPTH = 400
# What values stand behind, and texts, in which the same characters are no such marks.
_MARK_OR_TEXT = re.compile(rb'[,\[{]|"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_FEW_BYTES = 1 << 20
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
# what PyYAML raises, beside its own errors, on dates and numbers out of range and on strange keys
_YAML_ERRORS = (ValueError, TypeError, AttributeError, OverflowError, KeyError, IndexError)


def read_small_json(path: str | Path, fix: str) -> Any:
    """The value in a JSON file, read as it is: `read_small_file` and `parse_small_json`."""
    return parse_small_json(read_small_file(path, fix), str(path), fix)


def parse_small_json(
    data: bytes,
    where: str,
    fix: str,
    make_object: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """The value in the bytes of a JSON file; make_object: makes an object of its pairs, or raises InputError.

    Raises:
        InputError: as `parse_json`; halves of surrogate pairs are left in it, repeated keys to make_object.
    """
    try:
        return _value(data.removeprefix(BOM_UTF8), make_object, fix, "surrogatepass")
    except InputError as error:
        raise error.inside(where) from None


def unique_members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The object of JSON that pairs of keys and values make; raises InputError for a key that stands twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated, _ = counts.most_common(1)[0]
        problem = f"key {repeated!r:.80} stands twice in one object"
        raise InputError(problem, fix="Keep one of them")
    return members


def check_json_size(data: bytes) -> None:
    """Raises InputError for more values than are read, each of which stands behind one of these characters."""
    bound = limits().rows
    if len(data) <= min(_FEW_BYTES, bound) or sum(map(data.count, (b",", b"[", b"{"))) <= bound:
        return
    # Those in texts are no values; only now is it worth while to tell them apart.
    marks = (match for match in _MARK_OR_TEXT.finditer(data) if data[match.start()] != ord('"'))
    if next(islice(marks, bound, None), None) is not None:
        problem = f"more than {bound} values in one line or file of JSON"
        raise InputError(problem, fix="Split it, or: --max rows=NUMBER")


def parse_json(line: bytes, surrogates: bool = False) -> Any:
    """The value in a line of UTF-8.

    Args:
        line: its bytes.
        surrogates: whether texts may hold half of a surrogate pair, escaped, which UTF-8 cannot write.

    Raises:
        InputError: the line is not UTF-8, or not JSON, an object has a key twice, a text holds a lone surrogate, a
            whole number has more digits than Python converts, it is nested deeper than `DEPTH`, or has too many values.
    """
    value = _value(line, unique_members)
    escape = None if surrogates else _ESCAPED_SURROGATE.search(line)
    if escape:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            first = escape.group().decode()
            problem = f"half of a surrogate pair (escapes from {first} on), which is no character"
            raise InputError(problem, fix="Escape whole pairs") from error
    return value


def _value(
    data: bytes,
    make_object: Callable[[list[tuple[str, Any]]], Any] | None,
    fix: str = "",
    errors: str = "strict",
) -> Any:
    """The value in JSON of which size and depth are bounded."""
    check_json_size(data)
    try:
        value = json.loads(data.decode(errors=errors), object_pairs_hook=make_object)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg} at column {error.colno}"
        raise InputError(problem, fix=fix or "Write one object per line") from error
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 at byte {error.start}"
        raise InputError(problem, fix=fix or "Save it as UTF-8") from error
    except ValueError as error:
        problem = "a whole number with too many digits"
        raise InputError(problem, fix=fix or "Write it as text or as 1e9") from error
    except RecursionError:
        raise _too_deep(fix) from None
    if data.count(b"[") + data.count(b"{") > DEPTH and _is_deep(value):
        raise _too_deep(fix)
    return value


def _too_deep(fix: str) -> InputError:
    return InputError("nested too deeply", fix=fix or f"Expected at most {DEPTH} levels")


def _is_deep(value: Any) -> bool:
    """Whether a value is nested below `DEPTH`, which leaves room for those who walk it by recursion."""
    level = [value]
    for _ in range(DEPTH):
        level = [parent for parent in level if isinstance(parent, dict | list)]
        if not level:
            return False
        children = (one.values() if isinstance(one, dict) else one for one in level)
        level = list(chain.from_iterable(children))
    return any(isinstance(parent, dict | list) for parent in level)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        InputError: the file cannot be read, is too large, is not UTF-8, is not YAML or not a mapping, or holds an
            alias (aliases can make a small file expand without bound) or a key twice.
    """
    text = read_small_text(path, "Give a YAML file of settings, which are small", YAML_BYTES)
    try:
        return parse_yaml(text)
    except InputError as error:
        raise error.inside(str(path)) from None


def parse_yaml(text: str) -> dict[str, Any]:
    """The mapping in a YAML text; errors as `read_yaml`."""
    mapping = parse_yaml_value(text)
    if not isinstance(mapping, dict) or not all(isinstance(key, str) for key in mapping):
        raise InputError(
            f"found {excerpt(mapping)}, expected a mapping with text keys",
            fix="Write it as key: value lines",
        )
    return mapping


def parse_yaml_value(text: str) -> Any:
    """The value that a YAML text holds; errors as `read_yaml`."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Plain data only, every node written out once."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError(f"alias in line {self.line + 1}: write the value out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            mapping = super().construct_mapping(node, deep=deep)
            if len(mapping) != len(node.value):
                line = node.start_mark.line + 1
                raise yaml.YAMLError(f"a key stands twice in the mapping at line {line}")
            return mapping

    try:
        loader = Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except RecursionError as error:
        raise InputError("nested too deeply", fix="Settings are flat") from error
    except (yaml.YAMLError, *_YAML_ERRORS) as error:
        message = " ".join(str(error).split())[:200]
        raise InputError(f"not YAML: {message}", fix="Check the syntax") from error
