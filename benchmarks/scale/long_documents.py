"""Memory and time of choosing among documents that no model reads whole: 32 candidates of 2,000 words in windows.

    python -m benchmarks.scale.long_documents SENTENCES [--metric embedding] [--windows 6] [--stride 3]
        [--candidates 32] [--words 2000] [--equal] [--align]

SENTENCES, JSONL (.gz too), has `sentences` in every line. Each candidate is the same text with a tenth of its sentences
left out, said twice or moved, so that numbers of sentences differ; with `--equal` a tenth is put in place of others.
Printed: sentences, windows and tokens, wall and CPU seconds of all utilities, the peak of memory and how much of it the
model and its libraries take, and the flags that a decode would give.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from benchmarks.support.measuring import peak_mebibytes
from discorank import Document, load_metric
from discorank.metrics.base import Metric
from discorank.metrics.execution.evaluate import matrices, plan_of
from discorank.metrics.execution.store import Store
from discorank.metrics.reading_plan import comparisons_of
from discorank.metrics.text.texts import NO_CONTEXT, Truncation

CHANGED = 0.1


def text_of(path: Path, words: int) -> tuple[list[str], list[str]]:
    """Sentences that have so many words together, and others."""
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "rt", encoding="utf-8") as file:
        sentences = [sentence for line in file for sentence in json.loads(line)["sentences"]]
    total = np.cumsum([len(sentence.split()) for sentence in sentences])
    count = int(np.searchsorted(total, words)) + 1
    return sentences[:count], sentences[count:]


def changed(sentences: Sequence[str], others: Sequence[str], number: int, equal: bool) -> list[str]:
    """A candidate, by its number."""
    random = np.random.default_rng(number)
    result = []
    for sentence in sentences:
        if random.random() >= CHANGED:
            result.append(sentence)
        elif equal:
            result.append(others[int(random.integers(len(others)))])
        else:
            result += [sentence] * (2 * random.integers(2))
    if not equal and len(result) > 2:
        at, to = random.integers(len(result), size=2)
        result.insert(to, result.pop(at))
    return result


def measure(metric: Metric, texts: Sequence[Document]) -> None:
    """Prints what the utilities of all pairs take."""
    metric.pairwise(["a"], ["a"])
    before = peak_mebibytes()
    store = Store(metric.scorer)
    comparison = metric.comparison(texts, texts, None, NO_CONTEXT)
    wall, cpu = perf_counter(), process_time()
    (matrix,) = matrices(metric, [comparison], store)
    wall, cpu = perf_counter() - wall, process_time() - cpu
    truncation = store.truncation_of(comparisons_of([plan_of(metric, comparison)]))
    counts = [len(text.sentences) for text in texts]
    words = np.mean([len(str(text).split()) for text in texts])
    print(f"{metric.signature():.100}")
    print(f"{len(texts)} candidates of {words:.0f} words, {min(counts)} to {max(counts)} sentences")
    print(f"{len(store.lengths)} texts read, {int(store.lengths.sum())} tokens")
    print(f"{wall:.1f} s wall, {cpu:.1f} s CPU")
    print(f"peak {peak_mebibytes():.0f} MiB, {before:.0f} before")
    print(
        f"truncation: {Truncation(truncation).name.lower()}; choice {matrix.mean(axis=1).argmax()}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--metric", default="embedding")
    parser.add_argument("--windows", type=int, default=6)
    parser.add_argument("--stride", type=int)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--equal", action="store_true")
    parser.add_argument("--align", action="store_true")
    options = parser.parse_args()
    base, others = text_of(options.sentences, options.words)
    texts = [Document(changed(base, others, i, options.equal)) for i in range(options.candidates)]
    stride = f",stride={options.stride}" if options.stride else ""
    windows = f"windows({options.metric},size={options.windows}{stride})"
    metric = load_metric(f"aligned({windows})" if options.align else windows)
    assert isinstance(metric, Metric)
    measure(metric, texts)


if __name__ == "__main__":
    main()
