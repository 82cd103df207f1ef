"""A key taken out of bytes that come piece by piece: servers quote in their errors what they were sent."""

from __future__ import annotations

from collections.abc import AsyncIterator

SHOWN = b"[key]"


async def without(key: str | None, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces, with "[key]" in place of every key; a piece that ends in what may be its start waits for the next."""
    if not key:
        async for piece in pieces:
            yield piece
        return
    secret, kept = key.encode(), b""
    async for piece in pieces:
        shown = (kept + piece).replace(secret, SHOWN)
        length = _length_of_start(shown, secret)
        kept = shown[len(shown) - length :]
        if length < len(shown):
            yield shown[: len(shown) - length]
    if kept:
        yield kept


def _length_of_start(text: bytes, secret: bytes) -> int:
    """The length of the longest end of a text that the secret begins with.

    >>> _length_of_start(b"of abab", b"abac")
    2
    """
    longest = min(len(text), len(secret) - 1)
    return next((n for n in range(longest, 0, -1) if secret.startswith(text[-n:])), 0)
