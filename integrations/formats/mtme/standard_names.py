"""What the WMT metrics task took for granted in its test sets: main references, human scores, outliers."""

from __future__ import annotations

from typing import NamedTuple


class KnownStandards(NamedTuple):
    """Of one test set and language pair."""

    reference: str | None = None
    human_scores: str | None = None
    outliers: frozenset[str] = frozenset()


_SYNTHETIC = frozenset({"synthetic_ref"})
_KNOWN = {
    ("wmt22", "en-de"): KnownStandards(outliers=frozenset({"M2M100_1.2B-B4"})),
    ("wmt23", "en-de"): KnownStandards("refA", "mqm", _SYNTHETIC),
    ("wmt23", "he-en"): KnownStandards("refB", "mqm"),
    ("wmt23", "zh-en"): KnownStandards("refA", "mqm", _SYNTHETIC),
    ("wmt24", "en-de"): KnownStandards("refB"),
}


def known_names(test_set: str, language_pair: str) -> KnownStandards:
    """What is known of a test set, nothing of most.

    >>> known_names("wmt23", "he-en").reference
    'refB'
    """
    return _KNOWN.get((test_set, language_pair), KnownStandards())
