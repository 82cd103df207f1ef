"""How good the discourse parser is on the test documents of a treebank, beside the baselines, and how fast.

    python -m benchmarks.metric_quality.discourse_parser TREEBANK [WEIGHTS]

TREEBANK is what `discorank train rst` reads; WEIGHTS what it writes (default: those that ship with discorank). F1 of
EDU boundaries inside sentences and RST-Parseval over gold EDUs, with 95 % intervals by document; the baselines cut
behind every comma, and build right-branching trees with the most frequent label of the training documents. Then the CPU
seconds of parsing 1000 sentences from plain text.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from benchmarks.support.measuring import peak_mebibytes, timed
from discorank.cli.commands.train.train_rst import figures_table
from discorank.metrics.rst.parser.evaluation import report
from discorank.metrics.rst.parser.parser import loaded
from discorank.metrics.rst.parser.treebank import read_treebank

SENTENCES = 1000


def main(treebank: str, weights: str | None = None) -> None:
    parts, parser = read_treebank(Path(treebank)), loaded(weights)
    labels = Counter(
        (cut.nuc, cut.rel) for sentence in parts["train"] for cut in sentence.cuts.values()
    )
    print(figures_table(report(parser, parts["test"], labels.most_common(1)[0][0])))
    distinct = dict.fromkeys(
        " ".join(sentence.words) for part in parts.values() for sentence in part
    )
    texts = list(distinct)[:SENTENCES]
    parser.document(texts[:2])
    parser.sentence.cache_clear()
    seconds, _ = timed(lambda: [parser.document([text]) for text in texts])
    words = sum(len(text.split()) for text in texts)
    print(
        f"{len(texts)} sentences, {words} words: {seconds:.1f} CPU seconds, peak {peak_mebibytes():.0f} MiB"
    )


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
