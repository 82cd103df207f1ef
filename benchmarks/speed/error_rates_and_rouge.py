"""WER, CER and ROUGE-N against jiwer and rouge_score: the same values on real and hostile pairs, and pairs a second.

    python -m benchmarks.speed.error_rates_and_rouge SYSTEMS_FILE... --peer PYTHON [--pairs 10000]

Half of the pairs are candidates of one list of the files, the others made of letters that tokenizers stumble over.
PYTHON is an interpreter with jiwer and rouge_score. Both take CPU seconds in one process each, texts to values: pair by
pair as `score` does, and, on the last line of a metric, all pairs of lists of 32 texts as MBR decoding does, where the
peer is asked for a sample. Prints the pairs, the largest difference, pairs a second of both, and their ratio.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.support.lists import real, synthetic
from benchmarks.support.measuring import table, timed
from benchmarks.support.peers.process import Peer
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.registry import load_metric
from discorank.metrics.text.texts import NO_CONTEXT

Pairs = list[tuple[str, str]]
LETTERS = "ab  cd'!.<>[]-\t\n\r\x0b\x1c\x1f\\_\u0085\u00a0\u2028\u200b\ufeffÉéßİıǅ的猫か\u3099हि한🐈\u0301‘’“„%123"
WORDS = [
    "the",
    "cat's",
    "won't",
    "Running",
    "<unk>",
    "[laugh]",
    "a.b",
    "İstanbul",
    "x" * 70,
    "ﬁn",
    "it’s",
]
WIDTH, LISTS, SAMPLED_LISTS = 32, 50, 2


class Case(NamedTuple):
    """A metric, and how the peer is asked for the same."""

    metric: str
    call: str
    arguments: dict[str, Any]


CASES = (
    Case("wer", "wer", {"transform": "default"}),
    Case('wer(normalize="standardize")', "wer", {"transform": "standardize"}),
    Case("wer(lowercase=true,no_punct=true)", "wer", {"transform": "lowercase, no_punct"}),
    Case("cer", "cer", {}),
    *(
        Case(
            f'rouge(n={n},tokenizer="rouge_score",stemmer={str(stemmer).lower()})',
            "rouge",
            {"kind": f"rouge{n}", "stemmer": stemmer},
        )
        for n in (1, 2, 3)
        for stemmer in (False, True)
    ),
)


def hostile(count: int) -> Pairs:
    """Pairs of odd texts, of which the second is often the first with changes."""
    chance = random.Random(40)

    def text() -> str:
        if chance.random() < 0.5:
            return "".join(chance.choices(LETTERS, k=chance.randrange(60)))
        return " ".join(chance.choice([*WORDS, *LETTERS]) for _ in range(chance.randrange(30)))

    pairs = []
    for _ in range(count):
        first, second = text(), text()
        at = chance.randrange(len(first) + 1)
        pairs.append((first, chance.choice([second, first[:at] + second[:9] + first[at:], ""])))
    return pairs


def pairs_of_lists(lists: Sequence[Sequence[str]], count: int) -> Pairs:
    """Pairs of two candidates of one list."""
    chance = random.Random(0)
    several = [texts for texts in lists if len(texts) > 1]
    return [tuple(chance.sample(list(chance.choice(several)), 2)) for _ in range(count)]  # type: ignore[misc]


def by_pair(case: Case, pairs: Pairs, peer: Peer) -> list[str]:
    """A line of the table: `score`."""
    metric: Any = load_metric(case.metric)
    metric.score(["a b"], ["a"])
    hypotheses, references = map(list, zip(*pairs, strict=True))
    seconds, values = timed(lambda: metric.score(hypotheses, references), repeats=3)
    peer(case.call, pairs=pairs[:10], **case.arguments)
    other = peer(case.call, pairs=pairs, **case.arguments)
    worst = max(abs(a - b) for a, b in zip(values.tolist(), other.value, strict=True))
    return _line(f"{case.metric}, pairs", len(pairs), worst, seconds, other.cpu_seconds)


def all_pairs(case: Case, peer: Peer) -> list[str]:
    """A line of the table: all pairs of lists."""
    metric: Any = load_metric(case.metric)
    lists = [synthetic(WIDTH, seed) for seed in range(LISTS)]
    comparisons = [metric.comparison(texts, list(texts), None, NO_CONTEXT) for texts in lists]
    seconds, values = timed(lambda: matrices(metric, comparisons), repeats=3)
    sample = [(h, r) for texts in lists[:SAMPLED_LISTS] for h in texts for r in texts]
    other = peer(case.call, pairs=sample, **case.arguments)
    own = [value for matrix in values[:SAMPLED_LISTS] for value in matrix.ravel().tolist()]
    worst = max(abs(a - b) for a, b in zip(own, other.value, strict=True))
    num_pairs = LISTS * WIDTH * WIDTH
    scaled = other.cpu_seconds * num_pairs / len(sample)
    return _line(f"{case.metric}, lists of {WIDTH}", num_pairs, worst, seconds, scaled)


def _line(name: str, num_pairs: int, worst: float, seconds: float, of_peer: float) -> list[str]:
    rates = [f"{num_pairs / s:,.0f}" for s in (seconds, of_peer)]
    return [name, f"{num_pairs:,}", f"{worst:.1e}", *rates, f"{of_peer / seconds:.1f}x"]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="SYSTEMS_FILE")
    parser.add_argument("--peer", required=True, metavar="PYTHON")
    parser.add_argument("--pairs", type=int, default=10_000)
    options = parser.parse_args()
    lists = [texts for file in options.files for texts in real(file)]
    half = options.pairs // 2
    pairs = pairs_of_lists(lists, half) + hostile(options.pairs - half)
    peer = Peer(options.peer, "benchmarks.support.peers.lexical")
    rows = []
    for case in CASES:
        rows += [by_pair(case, pairs, peer), all_pairs(case, peer)]
    wer: Any = load_metric("wer")
    together = wer.corpus([h for h, _ in pairs], [r for _, r in pairs])
    difference = abs(together - peer("wer_of_corpus", pairs=pairs).value)
    peer.close()
    head = ("metric", "pairs", "difference", "pairs/s", "peer's pairs/s", "ratio")
    print(table(head, rows))
    print(f"wer of all pairs together: difference {difference:.1e}")


if __name__ == "__main__":
    main()
