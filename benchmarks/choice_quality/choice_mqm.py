"""Which candidates lexical MBR picks on real outputs, judged by people.

    python -m benchmarks.choice_quality.choice_mqm SYSTEMS_FILE

SYSTEMS_FILE has several systems per document and human MQM scores (lower is better) under the key ``mqm``. Only the
segments whose every system is rated count. First the picks of ``discorank decode`` with chrF are compared with a plain
sacrebleu double loop over all pairs; then the mean MQM of the picks of several utilities stands beside a random system,
the best single system (known in hindsight) and the oracle, with 95 % intervals by document bootstrap.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from benchmarks.support.lists import rated
from discorank.cli.main import main as main_command
from discorank.rerank.choice import in_order
from discorank.rerank.lists import CandidateList
from discorank.rerank.mbr import MBRDecoder

UTILITIES = ("chrf", "chrf(beta=1)", "chrf++", "bleu", "ter", "rouge-l", "chrf + bleu")
RESAMPLES = 2000


def decoded(path: str) -> dict[str, int]:
    """The index that the command ``discorank decode`` picks for every list."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.jsonl")
        if main_command(
            ["decode", path, "--from", "systems", "-u", "chrf", "-o", str(out), "--quiet"]
        ):
            raise SystemExit("discorank decode failed")
        return {
            row["id"]: row["index"]
            for row in map(json.loads, out.read_text(encoding="utf-8").splitlines())
        }


def plain_pick(record: CandidateList) -> int:
    """What a double loop over sacrebleu's sentence_score picks, ties to the lowest index."""
    metric = CHRF()
    texts = [str(candidate.text) for candidate in record.candidates]
    rows = [[metric.sentence_score(h, [r]).score for r in texts] for h in texts]
    return next(in_order(np.array(rows).mean(axis=1)))


def interval(values: np.ndarray[Any, Any], groups: list[str | None]) -> str:
    """Mean and 95 % interval by document."""
    names = sorted(set(map(str, groups)))
    sums = np.array(
        [[sum(v for v, g in zip(values, groups, strict=True) if str(g) == n)] for n in names]
    )[:, 0]
    counts = np.array([sum(str(g) == n for g in groups) for n in names])
    draws = np.random.default_rng(0).integers(len(names), size=(RESAMPLES, len(names)))
    means = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{values.mean():6.3f}  [{low:.3f}, {high:.3f}]"


def main(path: str) -> None:
    records = rated(path)
    mqm = np.array(
        [[float(candidate.fields["mqm"]) for candidate in record.candidates] for record in records]
    )
    groups = [record.document for record in records]
    print(
        f"{Path(path).name}: {len(records)} segments, {len(set(groups))} documents, {mqm.shape[1]} systems"
    )
    picks = {
        name: [r.index for r in MBRDecoder(utility=name).decode(records)] for name in UTILITIES
    }
    command = decoded(path)
    picks["chrf"] = [command[record.id] for record in records]
    same = sum(a == plain_pick(record) for a, record in zip(picks["chrf"], records, strict=True))
    print(
        f"discorank decode -u chrf picks what a plain sacrebleu double loop picks: {same} of {len(records)}"
    )
    print("mean MQM of the picks (lower is better), 95 % interval by document")
    print(f"  {'random system':24} {interval(mqm.mean(axis=1), groups)}")
    for name, indices in picks.items():
        print(f"  {'MBR ' + name:24} {interval(mqm[np.arange(len(mqm)), indices], groups)}")
    best = int(mqm.mean(axis=0).argmin())
    system = records[0].candidates[best].fields["system"]
    print(f"  {'best single ' + str(system):24} {interval(mqm[:, best], groups)}")
    print(f"  {'oracle':24} {interval(mqm.min(axis=1), groups)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
