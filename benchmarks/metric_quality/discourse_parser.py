"""How good the discourse parser is on the test documents of a treebank, beside the baselines, and how fast.

    python -m benchmarks.metric_quality.discourse_parser TREEBANK [WEIGHTS]

TREEBANK is what `discorank train rst` reads; WEIGHTS what it writes (default: those that ship with discorank). First
the original Parseval of sentences from their words alone, beside right-branching trees over the same EDUs; then F1 of
EDU boundaries inside sentences and RST-Parseval over gold EDUs, beside baselines that cut behind every comma, and build
right-branching trees with the most frequent label of the training documents; all with 95 % intervals by document. Then
end to end by genre, the second part of names like GUM_news_flag, and the CPU seconds of parsing 1000 sentences.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmarks.support.measuring import peak_mebibytes, timed
from discorank.cli.commands.train.train_rst import figures_table
from discorank.metrics.rst.parser.evaluation import MEASURES, report
from discorank.metrics.rst.parser.parser import Parser, loaded
from discorank.metrics.rst.parser.treebank import Sentence, read_treebank
from discorank.tables import aligned

SENTENCES = 1000
RIGHT_BRANCHING = "end to end, right-branching over the same EDUs"


def main(treebank: str, weights: str | None = None) -> None:
    parts, parser = read_treebank(Path(treebank)), loaded(weights)
    labels = Counter(
        (cut.nuc, cut.rel) for sentence in parts["train"] for cut in sentence.cuts.values()
    )
    common = labels.most_common(1)[0][0]
    print(figures_table(report(parser, parts["test"], common)))
    print(_by_genre(parser, parts["test"], common))
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


def _by_genre(parser: Parser, sentences: Sequence[Sentence], common: tuple[str, str]) -> str:
    """End to end, a row for each genre: span, nuclearity and relation, and the spans of right-branching trees."""
    by_genre: dict[str, list[Sentence]] = defaultdict(list)
    for sentence in sentences:
        by_genre[sentence.document.split("_")[1]].append(sentence)
    rows = [["end to end", "documents", *MEASURES, "span, right-branching"]]
    for genre, own in sorted(by_genre.items()):
        figures = report(parser, own, common)
        ours, baseline = figures["end to end"], figures[RIGHT_BRANCHING]
        shown = [f"{ours[measure]['f1']:.1f}" for measure in MEASURES]
        rows.append([genre, str(figures["documents"]), *shown, f"{baseline['span']['f1']:.1f}"])
    return aligned(rows)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
