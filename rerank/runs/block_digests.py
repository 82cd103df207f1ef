"""Digests of the blocks of a file that only grows, so that damage is seen, and placed, when the file is read again.

The file is cut into leaves of 64 KiB. A block is 1, 2, 4, ... leaves: where there would be `MAX_BLOCKS` of them, every
two neighbours become one, whose digest is that of their two digests (a Merkle tree, of which one level is kept). So a
file of any size has few digests, and no byte of it is read twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from ...metrics.storage.checksums import DIGEST_BYTES

LEAF_BYTES = 1 << 16
MAX_BLOCKS = 256


@dataclass(frozen=True, slots=True)
class BlockDigests:
    """The digests of the bytes so far; never changed, `extended` makes others.

    Args:
        num_bytes: how many bytes there are.
        block_bytes: how many a full block has.
        full: the digests of the full blocks.
        subtrees: of the block that is not full: bytes and digest of its parts, ever smaller, each a power of two of
            leaves.
        leaf: the hash of the bytes behind all of these, less than a leaf.
    """

    num_bytes: int = 0
    block_bytes: int = LEAF_BYTES
    full: tuple[bytes, ...] = ()
    subtrees: tuple[tuple[int, bytes], ...] = ()
    leaf: Any = field(default_factory=lambda: blake2b(digest_size=DIGEST_BYTES))

    def extended(self, data: bytes) -> BlockDigests:
        """The digests of the bytes so far and of these behind them."""
        digests = self
        for part in _parts(data, LEAF_BYTES - self.num_bytes % LEAF_BYTES):
            leaf = digests.leaf.copy()
            leaf.update(part)
            num_bytes = digests.num_bytes + len(part)
            digests = BlockDigests(
                num_bytes, digests.block_bytes, digests.full, digests.subtrees, leaf
            )
            if num_bytes % LEAF_BYTES == 0:
                digests = digests._with_full_leaf()
        return digests

    @property
    def all(self) -> tuple[str, ...]:
        """The digests of the full blocks and of what stands behind them, in hexadecimal digits."""
        parts = [digest for _, digest in self.subtrees]
        rest = _joined(*parts, self.leaf.digest())
        return (*(digest.hex() for digest in self.full), rest.hex())

    def _with_full_leaf(self) -> BlockDigests:
        """The same bytes, with the leaf as a part of the tree."""
        size, digest = LEAF_BYTES, self.leaf.digest()
        subtrees = list(self.subtrees)
        while subtrees and subtrees[-1][0] == size:
            _, before = subtrees.pop()
            size, digest = 2 * size, _joined(before, digest)
        if size < self.block_bytes:
            subtrees.append((size, digest))
            return BlockDigests(self.num_bytes, self.block_bytes, self.full, tuple(subtrees))
        full, block_bytes = (*self.full, digest), self.block_bytes
        if len(full) == MAX_BLOCKS:
            neighbours = zip(full[::2], full[1::2], strict=True)
            full, block_bytes = tuple(_joined(*two) for two in neighbours), 2 * block_bytes
        return BlockDigests(self.num_bytes, block_bytes, full)


def _joined(*digests: bytes) -> bytes:
    return blake2b(b"".join(digests), digest_size=DIGEST_BYTES).digest()


def _parts(data: bytes, first_bytes: int) -> Iterator[memoryview]:
    """The data up to the end of a leaf, then leaf by leaf."""
    view = memoryview(data)
    start, end = 0, first_bytes
    while start < len(view):
        yield view[start:end]
        start, end = end, end + LEAF_BYTES
