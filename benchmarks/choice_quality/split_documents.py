"""Whether the choice among whole documents stays when some of them are split or merged at the ends of sentences.

    python -m benchmarks.choice_quality.split_documents SYSTEMS_FILE ... [--trials 500] [--one]
        [--candidates 8] [--sentences 8]

A trial takes consecutive segments of a document by some systems, and the choice of MBR among these. Then about half of
the candidates (with --one a single one) get other sentence ends: two neighbours become one, or a segment of several
sentences becomes two (at a sentence end of the rule of `discorank.metrics.text.sentence_splitting`). Counted is how
often the text chosen is the same, with a 95 % interval (Wilson), by form of alignment; beside it how much utilities
moved on average.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from discorank import Document, load_metric
from discorank.metrics.text.sentence_splitting import sentences

FORMS = (
    'chrf(align="monotone")',
    'chrf(align="monotone",align_weights="sentences")',
    "chrf",
)


def changed(r: random.Random, texts: list[str]) -> list[str]:
    """The same text with one sentence end less, or one more."""
    several = [i for i, text in enumerate(texts) if len(sentences(text)) > 1]
    if several and r.random() < 0.5:
        i = r.choice(several)
        parts = sentences(texts[i])
        cut = r.randrange(1, len(parts))
        return [*texts[:i], " ".join(parts[:cut]), " ".join(parts[cut:]), *texts[i + 1 :]]
    i = r.randrange(len(texts) - 1)
    return [*texts[:i], f"{texts[i]} {texts[i + 1]}", *texts[i + 2 :]]


def trials(path: str, count: int, num_candidates: int, length: int, one: bool) -> list[Any]:
    """Documents of the candidates, before and after."""
    with gzip.open(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if len(row["source"]) >= length]
    r = random.Random(1)
    drawn = []
    for _ in range(count):
        row = r.choice(rows)
        start = r.randrange(len(row["source"]) - length + 1)
        systems = r.sample(sorted(row["systems"]), min(num_candidates, len(row["systems"])))
        before = [row["systems"][system][start : start + length] for system in systems]
        odd = r.randrange(len(before))
        is_changed = [i == odd if one else r.random() < 0.5 for i in range(len(before))]
        after = []
        for texts, to_change in zip(before, is_changed, strict=True):
            after.append(changed(r, texts) if to_change else texts)
        drawn.append(([Document(texts) for texts in before], [Document(texts) for texts in after]))
    return drawn


def interval(kept: int, count: int) -> tuple[float, float]:
    """Of Wilson, 95 %."""
    z, share = 1.96, kept / count
    middle, width = (
        share + z * z / (2 * count),
        z * np.sqrt(share * (1 - share) / count + z * z / (4 * count**2)),
    )
    return (middle - width) / (1 + z * z / count), (middle + width) / (1 + z * z / count)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--sentences", type=int, default=8)
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--forms", nargs="+", default=list(FORMS))
    options = parser.parse_args()
    for path in options.files:
        drawn = trials(path, options.trials, options.candidates, options.sentences, options.one)
        print(
            f"{Path(path).name}: {len(drawn)} trials, {options.candidates} candidates, {options.sentences} segments"
        )
        for form in options.forms:
            metric = load_metric(form)
            kept, moved = 0, []
            for before, after in drawn:
                first, second = (
                    metric.pairwise(texts, texts).mean(axis=1) for texts in (before, after)
                )
                kept += int(first.argmax() == second.argmax())
                moved.append(np.abs(first - second).mean())
            low, high = interval(kept, len(drawn))
            print(
                f"  {form:50} {100 * kept / len(drawn):5.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
                f"  utilities moved by {np.mean(moved):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
