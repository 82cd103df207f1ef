"""The share that some seconds stand for, with times that are given."""

from __future__ import annotations

from typing import Any

import pytest

from discorank import InputError, MBRDecoder
from discorank.rerank import timed_share as timing
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.lists import read_list
from discorank.rerank.timed_share import FIRST_SHARE, Totals, timed_share

LISTS = [
    read_list({"id": "a", "candidates": [*"abcdefghij", "a"]}),
    read_list({"id": "b", "candidates": list("abcd"), "pseudo_references": list("xyzx")}),
]
OF_TEXT, OF_PAIR = 0.5, 0.1


@pytest.fixture
def totals(monkeypatch: pytest.MonkeyPatch) -> Totals:
    """Ten times the lists; half a second for a text, a tenth for a pair."""
    counted = Totals(MBRDecoder("ter", budget=0.5))
    for record in LISTS * 10:
        counted.add(record)

    def timed(decoder: Any, records: Any, share: float, engine: Any) -> tuple[int, float]:
        pairs = round(share * 1000)
        texts = 17 * OF_TEXT if share == FIRST_SHARE else 0.0
        return pairs, pairs * OF_PAIR + texts

    monkeypatch.setattr(timing, "_timed", timed)
    return counted


def test_totals_are_of_distinct_texts(totals: Totals) -> None:
    assert totals.texts == 10 * (10 + 4 + 3)
    assert totals.pairs == 10 * (10 * 10 + 4 * 3)
    short = Totals(MBRDecoder("ter", budget=0.5, shortlist="chrf", top_k=3))
    short.add(LISTS[0])
    assert (short.texts, short.pairs) == (10, 9)


def test_what_texts_leave_is_for_pairs(totals: Totals) -> None:
    """170 texts take 85 seconds, 1120 pairs 112."""
    decoder = MBRDecoder("ter", budget=0.5)
    for seconds, share in ((85 + 11.2, 0.1), (85 + 56, 0.5), (85 + 112, 1.0), (1e4, 1.0)):
        found = timed_share(decoder, LISTS, totals, seconds, LocalEngine())
        assert found == pytest.approx(share, rel=1e-9)


def test_too_little_time_for_the_texts_is_refused(totals: Totals) -> None:
    decoder = MBRDecoder("ter", budget=0.5)
    with pytest.raises(InputError, match="80 s, but reading all texts once takes about 85 s"):
        timed_share(decoder, LISTS, totals, 80, LocalEngine())


def test_lists_are_timed_on_the_engine() -> None:
    """Without given times: a share in its range."""
    decoder = MBRDecoder("ter", budget=0.5)
    counted = Totals(decoder)
    for record in LISTS:
        counted.add(record)
    assert 0 < timed_share(decoder, LISTS, counted, 1e6, LocalEngine()) <= 1
