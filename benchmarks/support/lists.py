"""Candidate lists to measure on: synthetic ones with and without duplicates, and those of systems files, with MQM."""

from __future__ import annotations

import random
from pathlib import Path

from discorank.integrations.formats.open_lists import open_lists
from discorank.rerank.lists import CandidateList

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SETS = (
    "newstest2021.en-de",
    "newstest2021.zh-en",
    "ted.en-de",
    "ted.zh-en",
    "wmt23.en-de",
    "wmt23.he-en",
    "wmt23.zh-en",
)


def synthetic(n: int, seed: int, words: int = 25, change: float = 0.3) -> list[str]:
    """n texts that each have `change` of the words of one base text replaced, from a vocabulary of 400."""
    r = random.Random(seed)
    vocabulary = ["".join(r.choice(LETTERS) for _ in range(r.randint(2, 9))) for _ in range(400)]
    base = [r.choice(vocabulary) for _ in range(words)]
    return [
        " ".join(r.choice(vocabulary) if r.random() < change else w for w in base) for _ in range(n)
    ]


def with_duplicates(n: int, seed: int, share: float = 0.4) -> list[str]:
    """n texts of which about `share` repeat another, as samples at low temperature do."""
    distinct = synthetic(max(1, round(n * (1 - share))), seed)
    r = random.Random(seed)
    return distinct + [r.choice(distinct) for _ in range(n - len(distinct))]


def documents(n: int, seed: int, characters: int = 3000) -> list[str]:
    """n documents of about `characters` characters, one in ten words replaced."""
    return synthetic(n, seed, words=characters * 2 // 13, change=0.1)


def real(path: str | Path) -> list[list[str]]:
    """The candidate texts of every segment of a systems file."""
    with open_lists(path, "systems") as lists:
        records = [entry.record for entry in lists if entry.record is not None]
    return [[str(candidate.text) for candidate in record.candidates] for record in records]


def rated(path: str) -> list[CandidateList]:
    """The lists whose every candidate has an MQM score."""
    with open_lists(path, "systems", human=["mqm:lower"]) as lists:
        records = [entry.record for entry in lists if entry.record is not None]
    return [
        record
        for record in records
        if all("mqm" in candidate.fields for candidate in record.candidates)
    ]
