"""Secrets in a request: a key of a server has its place in the environment, and would stay in run files from here.

It goes by the names of keys, and by what addresses and headers look like; of values that look like nothing it knows
nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ...metrics.errors import InputError

# endings of names, in small letters without what separates their words
_NAMES = re.compile(
    "((api|access|secret|private|auth|service|account)key|authorization|secret|password|passwd|passphrase|credentials?"
    "|bearer|cookie|^token|(api|access|auth|bearer|refresh|session|security|hf|hub)token)$"
)
_PARAMETER = re.compile(r"[?&;]([^=&;#\s]+)=[^&\s]")  # of an address: its name
_VALUE = re.compile(r"://[^/\s@]+@|^\s*(bearer|basic)\s+\S", re.IGNORECASE)


def refuse_secrets(value: Any, where: str) -> None:
    """Raises InputError for a secret anywhere in a JSON value; the message does not show it."""
    for place in _secrets(value, where):
        raise InputError(
            "holds a secret, which would stay in files",
            where=place,
            fix="Name the environment variable that holds the key of the server in key_variable (--key-variable)",
        )


def _secrets(value: Any, where: str) -> Iterator[str]:
    """The places of secrets."""
    if isinstance(value, dict):
        for name, inner in value.items():
            place = f"{where}.{name:.40}"
            if _is_secret_name(name) and inner not in (None, "", False):
                yield place
            else:
                yield from _secrets(inner, place)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _secrets(inner, f"{where}[{number}]")
    elif isinstance(value, str):
        yield from _in_text(value, where)


def _in_text(text: str, where: str) -> Iterator[str]:
    """The places of secrets in a text, which may be an address, a header, or JSON."""
    names = _PARAMETER.findall(text)
    if _VALUE.search(text) or any(map(_is_secret_name, names)):
        yield where
    if text.lstrip()[:1] in ("{", "["):
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            return
        yield from _secrets(inner, where)


def _is_secret_name(name: str) -> bool:
    return bool(_NAMES.search(re.sub("[^a-z0-9]", "", name.lower())))
