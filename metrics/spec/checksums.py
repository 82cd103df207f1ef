"""Checksums of the JSON objects that discorank writes, so that damage is seen when one is read again.

An object's checksum stands in it under ``"checksum"`` and covers all its other keys and values, not the layout of the
file. It tells of damage, not of intent: who can change the object can change the checksum.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from warnings import warn

from ..errors import InputError

KEY = "checksum"
DIGEST_BYTES = 16


class UncheckedWarning(UserWarning):
    """A file was written without a checksum, so damage in it cannot be seen."""


def checksum_of(values: Mapping[str, Any]) -> str:
    """The checksum of an object without its own ``"checksum"``, in hexadecimal digits.

    Raises:
        TypeError, ValueError: it is no object of JSON.
    """
    as_read = json.loads(json.dumps({key: value for key, value in values.items() if key != KEY}))
    canonical = json.dumps(as_read, sort_keys=True, separators=(",", ":"))
    return blake2b(canonical.encode("ascii"), digest_size=DIGEST_BYTES).hexdigest()


def with_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its checksum as last key."""
    without = {key: value for key, value in values.items() if key != KEY}
    return {**without, KEY: checksum_of(without)}


def check(values: Mapping[str, Any], where: str, fix: str) -> None:
    """Warns where an object has no checksum, once for each place in a process.

    Raises:
        InputError: its checksum is that of another object; with what to do.
    """
    if KEY not in values:
        warn_once(where)
        return
    try:
        expected = checksum_of(values)
    except RecursionError:
        raise InputError("is nested too deeply", where=where, fix=fix) from None
    if values[KEY] != expected:
        problem = "is damaged or was edited: its checksum does not fit what it holds"
        raise InputError(problem, where=where, fix=fix)


@lru_cache(maxsize=1024)
def warn_once(where: str) -> None:
    """Says that damage in an object would not be seen; nothing where it was said before."""
    problem = f'{where}: has no "{KEY}", so damage in it would not be seen'
    warn(problem, UncheckedWarning, stacklevel=4)
