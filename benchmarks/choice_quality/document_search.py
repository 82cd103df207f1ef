"""What searching a document gains over deciding it from left to right, on real outputs judged by people.

    python -m benchmarks.choice_quality.document_search FOLDER SYSTEMS_FILE ... [--utilities 'embedding(context=2)']

Each file has several systems per document and human MQM scores (lower is better) under the key ``mqm``; segments whose
every system is rated count. Every document is decided from left to right, by beams, and by the exact search where it
has no more than ``--states`` contexts. FOLDER keeps what was decided, numbers alone, and representations, so that a
benchmark that was stopped goes on by the same command; ``--shown`` prints what is there and computes nothing.

Differences are to the decision from left to right, over the documents that both have decided: the expected utility of a
list, the share of choices that are others, MQM of a list and the length of the pick, with 95 % intervals by document
(blocks of ten segments where there are fewer than ten documents). Cost is how many contexts a list is decided in.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.mqm_lists import rated
from benchmarks.support.resampling import Resampling, groups_of, shown
from discorank.metrics.execution.cache import Cache
from discorank.metrics.mixture import Utility
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray
from discorank.rerank.choice import Ranking
from discorank.rerank.documents.search_counts import num_contexts
from discorank.rerank.engines.interface import Task
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.lists import CandidateList
from discorank.rerank.mbr_decoder import MBRDecoder
from discorank.rerank.reranker import Reranker

UTILITIES = ("embedding(context=2)", "embedding(context=1)")
BEAMS = (2, 4)
LEFT_TO_RIGHT, JOINT = "left to right", "joint"
STATES = 3000
Decider = MBRDecoder | Reranker


class CountingEngine(LocalEngine):
    """Counts the lists that it is given, each in its context."""

    num_tasks = 0

    def submit(self, key: int, task: Task) -> None:
        """Takes a list."""
        self.num_tasks += 1
        super().submit(key, task)


class DecidedDocument(NamedTuple):
    """What a strategy made of a document."""

    indices: list[int]
    values: list[float]
    num_tasks: int


class KeptDocuments:
    """Decided documents in a file of lines; one that a kill cut off is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, DecidedDocument] = {}
        if not path.exists():
            return
        whole = path.read_bytes()
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])
        for line in path.read_text(encoding="utf-8").splitlines():
            key, *values = json.loads(line)
            self.known[key] = DecidedDocument(*values)

    def add(self, key: str, decided: DecidedDocument) -> None:
        """Keeps one more."""
        self.known[key] = decided
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, *decided]) + "\n")


class Asked(NamedTuple):
    """A document to be decided under a utility."""

    file: str
    utility: Utility
    records: list[CandidateList]

    def key(self, strategy: str) -> str:
        """Of what comes out: texts, utility and strategy."""
        texts = [[str(c.text) for c in r.candidates] for r in self.records]
        plain = [texts, [r.position for r in self.records], str(self.records[0].source)]
        digest = sha256(json.dumps(plain).encode()).hexdigest()[:16]
        return f"{digest} {self.utility.signature()} {strategy}"

    def deciders(self, beams: Sequence[int], most_states: int) -> dict[str, Decider]:
        """Every strategy by its name."""
        plain = _decider(self.utility)
        strategies: dict[str, Decider] = {LEFT_TO_RIGHT: plain}
        for beam in beams:
            strategies[f"beam {beam}"] = replace(plain, strategy="beam", beam=beam)
        if sum(num_contexts(self.records, self.utility.reads.context)) <= most_states:
            strategies[JOINT] = replace(plain, strategy="joint")
        return strategies


def _decider(utility: Utility) -> Decider:
    """MBR for a utility of pairs, reranking by one without references."""
    if any(part.info.needs_references for _, part in utility.parts):
        return MBRDecoder(utility)
    return Reranker({utility: 1.0})


def documents(path: str) -> list[list[CandidateList]]:
    """The rated lists of every document of a file."""
    found: dict[str, list[CandidateList]] = {}
    for record in rated(path):
        found.setdefault(str(record.document), []).append(record)
    return list(found.values())


def decide(asked: Asked, decider: Decider, engine: CountingEngine) -> DecidedDocument:
    """Decides a document."""
    before = engine.num_tasks
    rankings: list[Ranking] = list(decider.decode(asked.records, engine))
    values = [ranking.utility or 0.0 for ranking in rankings]
    return DecidedDocument([r.index for r in rankings], values, engine.num_tasks - before)


def differences(
    of_file: Sequence[Asked], kept: Mapping[str, DecidedDocument], strategy: str
) -> Iterator[list[str]]:
    """The row of a strategy, if a document was decided by it and from left to right."""
    names = (strategy, LEFT_TO_RIGHT)
    both = [asked for asked in of_file if all(asked.key(name) in kept for name in names)]
    if not both:
        return
    rows: list[list[float]] = []
    places: list[str] = []
    tasks = np.zeros(2)
    for asked in both:
        own, plain = (kept[asked.key(name)] for name in names)
        tasks += own.num_tasks, plain.num_tasks
        for i, record in enumerate(asked.records):
            mqm = [float(candidate.fields["mqm"]) for candidate in record.candidates]
            a, b = own.indices[i], plain.indices[i]
            same_text = record.candidates[a].text == record.candidates[b].text
            lengths = [len(str(record.candidates[index].text)) for index in (a, b)]
            longer = 100.0 * (lengths[0] / max(1, lengths[1]) - 1)
            gained = own.values[i] - plain.values[i]
            others = 100.0 * (not same_text)
            rows.append([gained, others, mqm[a] - mqm[b], longer, plain.values[i]])
            places.append(f"{asked.file} {record.document}")
    matrix: FloatArray = np.array(rows)
    draws = Resampling(groups_of(places)).means(matrix)
    means = matrix.mean(axis=0)
    yield [
        strategy,
        f"{len(both)} / {len(rows)}",
        f"{means[4]:.4f}",
        shown(1000 * means[0], 1000 * draws[:, 0], 3, "+"),
        shown(means[1], draws[:, 1], 1),
        shown(means[2], draws[:, 2], 3, "+"),
        shown(means[3], draws[:, 3], 1, "+"),
        f"{tasks[0] / tasks[1]:.1f}",
    ]


def tables(everything: Sequence[Asked], kept: Mapping[str, DecidedDocument]) -> str:
    """A table per utility, of each file and of all."""
    head = ["strategy", "documents / lists", "utility", "gained x 1000", "other choices %"]
    head += ["MQM of the picks", "longer %", "cost"]
    lines: list[str] = []
    for signature in dict.fromkeys(asked.utility.signature() for asked in everything):
        of_utility = [asked for asked in everything if asked.utility.signature() == signature]
        lines += ["", f"**{signature}**", "", _row(["set", *head]), _row(["---"] * 9)]
        files = list(dict.fromkeys(asked.file for asked in of_utility))
        for name in [*files, "all"]:
            own = [asked for asked in of_utility if name in (asked.file, "all")]
            strategies = [key.split(" ", 1)[1] for key in kept]
            ends = {one.removeprefix(f"{signature} ") for one in strategies}
            for strategy in sorted(ends - {LEFT_TO_RIGHT}):
                lines += [_row([name, *row]) for row in differences(own, kept, strategy)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def everything_asked(files: Collection[str], utilities: Sequence[str]) -> list[Asked]:
    """All documents under all utilities, the short ones of every file first."""
    found = []
    for path in files:
        name = Path(path).name.removeprefix("mt_mqm_").removesuffix(".jsonl.gz")
        for spec in utilities:
            utility = load_metric(spec)
            found += [Asked(name, utility, records) for records in documents(path)]
    return sorted(found, key=lambda asked: sum(len(str(r.source)) for r in asked.records))


def main(arguments: Any) -> None:
    """Decides what is not there yet, and prints the tables."""
    arguments.folder.mkdir(parents=True, exist_ok=True)
    kept = KeptDocuments(arguments.folder / "decided.jsonl")
    everything = everything_asked(arguments.files, arguments.utilities)
    if not arguments.shown:
        engine = CountingEngine(Cache(str(arguments.folder / "cache")))
        for number, asked in enumerate(everything):
            for strategy, decider in asked.deciders(arguments.beams, arguments.states).items():
                key = asked.key(strategy)
                if key not in kept.known:
                    kept.add(key, decide(asked, decider, engine))
            print(f"{number + 1} of {len(everything)} documents", flush=True)
    order = {path: i for i, path in enumerate(arguments.files)}
    everything.sort(key=lambda asked: [i for path, i in order.items() if asked.file in path])
    print(tables(everything, kept.known))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="+", metavar="SYSTEMS_FILE")
    parser.add_argument("--utilities", nargs="+", default=UTILITIES)
    parser.add_argument("--beams", nargs="+", type=int, default=BEAMS)
    parser.add_argument("--states", type=int, default=STATES)
    parser.add_argument("--shown", action="store_true")
    main(parser.parse_args())
