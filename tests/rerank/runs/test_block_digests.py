"""Block digests: the same however the bytes came, few however many there are, and other ones for other bytes."""

from __future__ import annotations

import random
from hashlib import blake2b

import pytest

from discorank.rerank.runs import block_digests
from discorank.rerank.runs.block_digests import BlockDigests


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves of four bytes, at most four blocks."""
    monkeypatch.setattr(block_digests, "LEAF_BYTES", 4)
    monkeypatch.setattr(block_digests, "MAX_BLOCKS", 4)


def begun() -> BlockDigests:
    return BlockDigests(block_bytes=block_digests.LEAF_BYTES)


def test_blocks_by_hand(small: None) -> None:
    digests = begun().extended(b"abcdefghij")
    assert digests.full == tuple(bytes.fromhex(digest(part)) for part in (b"abcd", b"efgh"))
    assert digests.all[:2] == (digest(b"abcd"), digest(b"efgh"))
    assert digests.all[2] == digest(bytes.fromhex(digest(b"ij")))
    # a fourth block: every two are one
    digests = digests.extended(b"klmnop")
    assert digests.block_bytes == 8
    first = bytes.fromhex(digest(b"abcd") + digest(b"efgh"))
    second = bytes.fromhex(digest(b"ijkl") + digest(b"mnop"))
    assert digests.all[:2] == (digest(first), digest(second))


def test_nothing_is_changed(small: None) -> None:
    before = begun().extended(b"abc")
    digests = before.all
    before.extended(b"defgh")
    assert before.all == digests


def test_pieces_do_not_matter(small: None) -> None:
    r = random.Random(1)
    data = r.randbytes(1000)
    for length in (0, 1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 500, 1000):
        whole = begun().extended(data[:length])
        pieces = begun()
        start = 0
        while start < length:
            end = min(length, start + r.randint(0, 9))
            pieces = pieces.extended(data[start:end])
            start = end
        assert (pieces.all, pieces.block_bytes) == (whole.all, whole.block_bytes)
        assert pieces.num_bytes == whole.num_bytes == length
        assert len(whole.full) == length // whole.block_bytes < 4


@pytest.mark.parametrize("length", [1, 4, 9, 16, 37, 100])
def test_every_byte_counts_in_its_block(small: None, length: int) -> None:
    data = bytes(range(length))
    whole = begun().extended(data)
    for place in range(length):
        other = begun().extended(data[:place] + b"\xff" + data[place + 1 :])
        differing = [
            number
            for number, (before, now) in enumerate(zip(whole.all, other.all, strict=True))
            if before != now
        ]
        assert differing == [place // whole.block_bytes]


def test_digests_are_few() -> None:
    digests = BlockDigests()
    block = bytes(1 << 20)
    for _ in range(100):
        digests = digests.extended(block)
    assert digests.num_bytes == 100 << 20
    assert digests.block_bytes == 1 << 19
    assert len(digests.all) == 201
    # those of three outputs leave a run file small, however long the run
    assert 3 * len(" ".join(digests.all[:1] * block_digests.MAX_BLOCKS)) < 1 << 15
