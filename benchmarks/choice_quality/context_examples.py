"""How many of the bundled context examples are decided right, with and without context.

    python -m benchmarks.choice_quality.context_examples [MODEL]

The examples (examples/context.jsonl) are made for it: every two candidates stand in two contexts, in each of which
another one is right, so that whoever does not read context is right in half of them, or in those where the first is
taken. Printed are the first candidate, `lm` and `doc-lm` with a language model, smollm2 by default, by kind.
"""

from __future__ import annotations

import sys
from collections import Counter

import discorank


def main() -> None:
    """Prints a row for each way of choosing."""
    model = sys.argv[1] if len(sys.argv) > 1 else "smollm2"
    records = discorank.read("examples:context.jsonl")
    asked = [record for record in records if not record.context_only]
    chosen = {"first": {record.id: record.candidates[0].text for record in asked}}
    for name in ("lm", "doc-lm"):
        metric = discorank.load_metric(name, model=model)
        rankings = discorank.rerank(records, {metric: 1.0})
        chosen[name] = {ranking.id: ranking.text for ranking in rankings}
    kinds = Counter(str(record.extra["kind"]) for record in asked)
    print("chosen by | right | " + " | ".join(f"{kind} ({n})" for kind, n in kinds.items()))
    for name, texts in chosen.items():
        right = Counter(
            str(record.extra["kind"])
            for record in asked
            if texts[record.id] == record.references[0]
        )
        by_kind = " | ".join(str(right[kind]) for kind in kinds)
        print(f"{name} | {right.total()} of {len(asked)} | {by_kind}")


if __name__ == "__main__":
    main()
