"""The sets of systems with MQM that several studies read, and their segments whose every system is rated."""

from __future__ import annotations

from discorank.integrations.formats.open_lists import open_lists
from discorank.rerank.lists import CandidateList

SETS = (
    "newstest2021.en-de",
    "newstest2021.zh-en",
    "ted.en-de",
    "ted.zh-en",
    "wmt23.en-de",
    "wmt23.he-en",
    "wmt23.zh-en",
)


def rated(path: str) -> list[CandidateList]:
    """The lists whose every candidate has an MQM score."""
    with open_lists(path, "systems", human=["mqm:lower"]) as lists:
        records = [entry.record for entry in lists if entry.record is not None]
    return [
        record
        for record in records
        if all("mqm" in candidate.fields for candidate in record.candidates)
    ]
