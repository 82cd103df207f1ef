"""TER, METEOR, ROUGE-W and n-grams of small lists: the kernels in C, numpy alone, an earlier version, and sacrebleu.

    python -m benchmarks.speed.edit_and_order [SYSTEMS_FILE] [--before SRC] [--rounds 3] [--only NAME]

Each version runs in a process of its own, by turns, on the same lists: texts to values, CPU seconds, the least of all
rounds. With a systems file paragraphs are its segments of 60 to 120 words and documents segments in a row; without one
both are made up of frequent and rare words, with blocks moved. sacrebleu's TER is timed on a sample of pairs. Prints
microseconds a pair, the first version's against the kernels', and whether all values are the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sacrebleu.metrics.ter import TER

from benchmarks.support.lists import documents, real, synthetic
from benchmarks.support.measuring import timed

Lists = list[list[str]]
WIDTH = 12  # candidates of a paragraph or document
LONG = 260  # words of a document, as of a dozen sentences
SAMPLED_PAIRS = 6
HERE = Path(__file__).parents[2] / "src"

WORKER = """
import hashlib, json, sys, time
from discorank import load_metric
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.text.texts import NO_CONTEXT
name, path = sys.argv[1:]
lists = json.load(open(path))
metric = load_metric(name)
def run(lists):
    return matrices(metric, [metric.comparison(x, x, None, NO_CONTEXT) for x in lists])
run([["a b c", "b a c"]])
start = time.process_time()
values = run(lists)
seconds = time.process_time() - start
print(seconds, hashlib.sha256(b"".join(u.tobytes() for u in values)).hexdigest())
"""


class Case(NamedTuple):
    """Lists and the metrics that compare them."""

    name: str
    lists: Lists
    metrics: tuple[str, ...]


def made_up(words: int, seed: int) -> list[str]:
    """Variants of one text of frequent and rare words: some replaced, some blocks elsewhere."""
    chance = random.Random(seed)

    def word() -> str:
        return f"w{int(2000 * chance.random() ** 4)}"

    base = [word() for _ in range(words)]
    texts = []
    for _ in range(WIDTH):
        text = [word() if chance.random() < 0.3 else old for old in base]
        for _ in range(words // 20):
            start, size = chance.randrange(len(text)), chance.randint(1, 6)
            block = text[start : start + size]
            text[start : start + size] = []
            target = chance.randint(0, len(text))
            text[target:target] = block
        texts.append(" ".join(text))
    return texts


def long_texts(segments: Lists) -> Iterator[list[str]]:
    """Segments in a row joined to texts of at least `LONG` words."""
    parts: Lists = []
    for texts in segments:
        parts.append(texts)
        joined = [" ".join(column) for column in zip(*parts, strict=True)]
        if min(len(text.split()) for text in joined) >= LONG:
            yield joined
            parts = []


def cases(path: str | None) -> list[Case]:
    if path:
        segments = [texts[:WIDTH] for texts in real(path)]
        paragraphs = [s for s in segments if all(60 <= len(text.split()) <= 120 for text in s)]
        joined = list(long_texts(segments))
    else:
        paragraphs = [made_up(84, seed) for seed in range(24)]
        joined = [made_up(300, seed) for seed in range(2)]
    order = ("ter", "meteor", "rouge-w")
    small = [
        Case(f"{count} lists of {width}", [synthetic(width, s) for s in range(count)], ("chrf",))
        for width, count in ((8, 1000), (15, 500), (32, 150))
    ]
    return [
        Case("paragraphs", paragraphs[:24], order),
        Case("segments joined to 260 words", joined[:1], order),
        Case("64 documents of 3000 characters", [documents(64, 0)], order[1:]),
        *small,
        Case("1000 lists of 8", small[0].lists, ("bleu", "meteor", "rouge-w")),
    ]


def run(source: str, pure: bool, metric: str, lists: Path) -> tuple[float, str]:
    """CPU seconds, and a digest of all values."""
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "DISCORANK_PURE": "1" if pure else ""}
    done = subprocess.run(
        [sys.executable, "-c", WORKER, metric, str(lists)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    seconds, digest = done.stdout.split()
    return float(seconds), digest


def sacrebleu_seconds_per_pair(lists: Lists) -> float:
    metric, chance = TER(), random.Random(0)
    sample = [chance.sample(chance.choice(lists), 2) for _ in range(SAMPLED_PAIRS)]
    seconds, _ = timed(lambda: [metric.sentence_score(h, [r]) for h, r in sample])
    return seconds / SAMPLED_PAIRS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("systems", nargs="?")
    parser.add_argument("--before")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="cases with this in their name")
    arguments = parser.parse_args()
    versions = {"numpy": (str(HERE), True), "kernels": (str(HERE), False)}
    if arguments.before:
        versions = {"before": (arguments.before, True), **versions}
    print(f"{'':42} {'sacrebleu':>9}", *(f"{name:>9}" for name in versions), "us a pair", sep=" ")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lists.json")
        for case in cases(arguments.systems):
            if arguments.only not in case.name:
                continue
            path.write_text(json.dumps(case.lists))
            pairs = sum(len(texts) ** 2 for texts in case.lists)
            for metric in case.metrics:
                best = dict.fromkeys(versions, float("inf"))
                digests = set()
                for _ in range(arguments.rounds):
                    for name, (source, pure) in versions.items():
                        seconds, digest = run(source, pure, metric, path)
                        best[name] = min(best[name], seconds)
                        digests.add(digest)
                peer = sacrebleu_seconds_per_pair(case.lists) if metric == "ter" else None
                columns = [f"{peer * 1e6:9.0f}" if peer else " " * 9]
                columns += [f"{seconds / pairs * 1e6:9.2f}" for seconds in best.values()]
                ratio = next(iter(best.values())) / best["kernels"]
                same = "same values" if len(digests) == 1 else "OTHER VALUES"
                print(
                    f"{case.name + ', ' + metric:42}", *columns, f"{ratio:7.1f}x", same, flush=True
                )


if __name__ == "__main__":
    main()
