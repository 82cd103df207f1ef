"""Which words the taggers' nouns are."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from discorank.metrics.discourse.coherence import nouns
from discorank.metrics.discourse.coherence.nouns import Nouns


def test_numbers_and_marks_are_no_nouns(monkeypatch: pytest.MonkeyPatch) -> None:
    """HanTa names what it does not know, numbers too."""

    def tagged(words: list[str]) -> list[tuple[str, str, str]]:
        return [(word, word, "NP0") for word in words]

    tagger = SimpleNamespace(tag_sent=tagged)
    module = SimpleNamespace(HanoverTagger=lambda _: tagger)
    monkeypatch.setitem(sys.modules, "HanTa", SimpleNamespace(HanoverTagger=module))
    monkeypatch.setitem(sys.modules, "HanTa.HanoverTagger", module)
    find = nouns._hanta("en")
    words = ["Townsend", "0-0", "1998", "%", "B52", "café", "1,000"]
    assert find(words) == ["Townsend", None, None, None, "B52", "café", None]


def test_nouns_of_a_sentence_with_numbers() -> None:
    pytest.importorskip("HanTa")
    nouns = Nouns("hanta:en").of("The B52 flew 5-2 and 40% of 1,000 people saw 3 teams.")
    assert [noun.key for noun in nouns] == ["people", "team"]
