"""Reads a file whole (settings, a trained combination, a prior, a list of words) and refuses what is none.

What is larger than its limit, or no file at all but a folder, a device or a pipe, which may give bytes for ever, is
refused before more than the limit is read.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import InputError, excerpt
from .limits import limits, more

# What values stand behind, and texts, in which the same characters are no such marks.
_MARK_OR_TEXT = re.compile(rb'[,\[{]|"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_FEW_BYTES = 1 << 20


def check_regular(path: str | Path, fix: str = "Give a file") -> os.stat_result:
    """The state of a file that is to be read.

    Raises:
        InputError: there is none, it is a folder, a device, a pipe or a socket, or a link that leads to none.
    """
    where = str(path)
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(error, where, fix) from error
    if stat.S_ISDIR(status.st_mode):
        raise InputError("cannot be read: Is a directory", where=where, fix=fix)
    if not stat.S_ISREG(status.st_mode):
        raise InputError("is a device or a pipe, expected a file", where=where, fix=fix)
    return status


def read_small_file(
    path: str | Path,
    fix: str,
    max_bytes: int | None = None,
    name: str = "json_bytes",
) -> bytes:
    """The bytes of a file.

    Args:
        path: the file.
        fix: what to do where it cannot be read.
        max_bytes: the most that it may have, if that is no limit that can be raised.
        name: the limit on its bytes, if `max_bytes` is not given.

    Raises:
        InputError: it cannot be read, is a device, a pipe or a folder, or is larger than that; with what to do.
    """
    where = str(path)
    status = check_regular(path, fix)
    bound = getattr(limits(), name) if max_bytes is None else max_bytes
    data = b""
    try:
        if status.st_size <= bound:
            with open(path, "rb") as file:
                data = file.read(bound + 1)
    except OSError as error:
        raise _unreadable(error, where, fix) from error
    if max(status.st_size, len(data)) > bound:
        if max_bytes is None:
            fix = f"{fix} (or: --max {name}=NUMBER)" if fix else more(name)
        raise InputError(f"larger than {bound} bytes", where=where, fix=fix)
    return data


def read_small_text(path: str | Path, fix: str) -> str:
    """The text of a UTF-8 file within the limit text_bytes; errors as `read_small_file`."""
    data = read_small_file(path, fix, name="text_bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"cannot be read: not UTF-8 at byte {error.start}"
        raise InputError(problem, where=str(path), fix=fix) from error


def read_small_json(path: str | Path, fix: str) -> Any:
    """The value in a JSON file, read as it is: `read_small_file` and `parse_small_json`."""
    return parse_small_json(read_small_file(path, fix), str(path), fix)


def parse_small_json(
    data: bytes,
    where: str,
    fix: str,
    make_object: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """The value in the bytes of a JSON file; make_object: makes an object of its pairs, or raises ValueError.

    Raises:
        InputError: it is not JSON, nested too deep, or has more values than are read.
    """
    try:
        check_json_size(data)
        return json.loads(data, object_pairs_hook=make_object)
    except RecursionError:
        raise InputError("no JSON: nested too deeply", where=where, fix=fix) from None
    except InputError as error:
        raise error.inside(where) from None
    except ValueError as error:  # not JSON, not UTF-8, a number of too many digits
        raise InputError(f"no JSON: {excerpt(str(error))}", where=where, fix=fix) from None


def check_json_size(data: bytes) -> None:
    """Raises InputError for more values than are read, each of which stands behind one of these characters."""
    bound = limits().json_values
    if len(data) <= min(_FEW_BYTES, bound) or sum(map(data.count, (b",", b"[", b"{"))) <= bound:
        return
    # Those in texts are no values; only now is it worth while to tell them apart.
    marks = (match for match in _MARK_OR_TEXT.finditer(data) if data[match.start()] != ord('"'))
    if next(islice(marks, bound, None), None) is not None:
        problem = f"more than {bound} values in one line or file of JSON"
        raise InputError(problem, fix="Split it, or: --max json_values=NUMBER")


def _unreadable(error: Exception, where: str, fix: str) -> InputError:
    """The refusal of a file that the system cannot read."""
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot be read: {reason}", where=where, fix=fix)
