"""What one degenerate candidate does to a choice: a text that repeats itself is added to every list.

    python -m benchmarks.choice_quality.looping_candidates FOLDER [--articles N] [--utilities UTILITY ...]

FOLDER holds summ_summeval (.jsonl.gz). Of each article every utility chooses one system's summary by its mean utility
against the others', once as they are and once with "the man said . " sixty times among them. Printed is how many
choices change, and of these how many became the added text itself.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from benchmarks.choice_quality.summary_choice import read
from discorank.rerank.lists import Candidate, CandidateList
from discorank.rerank.mbr_decoder import MBRDecoder

LOOP = "the man said . " * 60
UTILITIES = (
    "ds-focus",
    'ds-focus(norm="l2")',
    'ds-focus(norm="squared")',
    'ds-focus(compat="reference")',
    "ds-sent",
    "chrf",
    "rouge-l(stemmer=true)",
)


def with_loop(record: CandidateList) -> CandidateList:
    """The list with the degenerate candidate behind its own."""
    return replace(record, candidates=(*record.candidates, Candidate(LOOP)))


def choices(utility: str, records: list[CandidateList]) -> list[int]:
    """The place of each list's choice."""
    decoder = MBRDecoder(utility=utility, self_pair=False)
    return [ranking.index for ranking in decoder.decode(records)]


def main(folder: str, articles: int | None, utilities: tuple[str, ...]) -> None:
    """The table."""
    records = read(folder, "summeval")[0][:articles]
    added = [with_loop(record) for record in records]
    print(f"| utility | choices of {len(records)} that change | of these the added text |")
    print("| --- | --- | --- |")
    for utility in utilities:
        before = choices(utility, records)
        after = choices(utility, added)
        changed = sum(a != b for a, b in zip(before, after, strict=True))
        own = sum(
            place == len(record.candidates) for place, record in zip(after, records, strict=True)
        )
        print(f"| `{utility}` | {changed} | {own} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--articles", type=int, help="the first so many alone")
    parser.add_argument("--utilities", nargs="+", default=list(UTILITIES))
    given = parser.parse_args()
    main(given.folder, given.articles, tuple(given.utilities))
