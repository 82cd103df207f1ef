"""The rules of choice on sets with MQM on which no rule was designed: nine of biomedical abstracts.

    python -m benchmarks.choice_quality.unseen_sets FOLDER --work WORK [--draws 20]

FOLDER holds ``mt_mqm_bio.<pair>.jsonl.gz``. Utility, usual strength, designs of choosers and what they believe before
anything is judged come from seven other sets (news, talks, WMT23). 20, 50 or
100 segments are drawn by documents to be judged, and all others are chosen; a set counts where at least as many are
left. A figure is the mean MQM of what is chosen over that of a random system, or of the best single system by the
same judgements (lower is better), the macro mean over sets with 95 % intervals by document, and on how many sets it is
more than 2 % above that system. What was chosen is kept in WORK.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_set
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser.shipped import shipped
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .chooser_tables import line, ratios
from .few_judgements import RULES, Beliefs, KeptTallies

JUDGED = ("20", "50", "100")
LEARNED = ("prior", "plain", "chooser", "careful")
ABOVE = 1.02  # the single system


def unseen(folder: Path, work: Path) -> list[MeasuredSet]:
    """The sets, of segments whose every system is rated."""
    paths = sorted(folder.glob("mt_mqm_bio.*.jsonl.gz"))
    return [measured_set(path, UTILITY, SURFACE, work) for path in paths]


def without_judgements(sets: Sequence[MeasuredSet], kept: KeptTallies) -> list[list[str]]:
    """Rows of what needs no judgement, or all of them."""
    means = [tally(data, kept, "0", 1) for data in sets]
    rows = []
    for rule in ("mbr", "hindsight", "oracle"):
        rows.append([RULES[rule], *line(sets, means, rule, "random")])
    return rows


def tally(data: MeasuredSet, kept: KeptTallies, judged: str, draws: int) -> dict[str, FloatArray]:
    """MQM [n] of what every rule takes."""
    opinions = data.data.scores[:, :, None]
    beliefs = Beliefs(shipped().defaults(len(SURFACE)), shipped().gain)
    found = kept.tallied(data, opinions, judged, beliefs, draws)
    return {rule: values[:, 0] for rule, values in found.items()}


def with_judgements(
    sets: Sequence[MeasuredSet], kept: KeptTallies, numbers: Sequence[str], draws: int
) -> tuple[list[list[str]], list[list[str]]]:
    """Rows of both tables, by number of judged segments: over a random system, and over the single system."""
    over_random, over_single = [], []
    for judged in numbers:
        large = [data for data in sets if len(data.ids) >= 2 * int(judged)]
        means = [tally(data, kept, judged, draws) for data in large]
        which = f"{judged} ({len(large)} sets)"
        for rule in ("single", "mbr", *LEARNED):
            macro = line(large, means, rule, "random")[-1]
            over_random.append([which, RULES[rule], macro])
        for rule in LEARNED:
            own = [
                ratios(data, found[rule], found["single"])[0]
                for data, found in zip(large, means, strict=True)
            ]
            above = f"{sum(np.array(own) > ABOVE)} of {len(large)}, {max(own):.2f}"
            macro = line(large, means, rule, "single")[-1]
            over_single.append([which, RULES[rule], macro, above])
        against_prior = line(large, means, "chooser", "prior")[-1]
        over_single.append([which, "chooser against the prior", against_prior, ""])
    return over_random, over_single


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    kept = KeptTallies(options.work)
    sets = unseen(options.folder, options.work)
    sizes = [f"{data.name} ({len(data.ids)}, {len(data.systems)} systems)" for data in sets]
    print(table(["over a random system", *sizes, "macro"], without_judgements(sets, kept)))
    over_random, over_single = with_judgements(sets, kept, JUDGED, options.draws)
    print(f"\n{table(['judged', 'chosen by', 'over a random system'], over_random)}")
    heads = ["judged", "chosen by", "over the single system", "more than 2 % above it, most"]
    print(f"\n{table(heads, over_single)}")


if __name__ == "__main__":
    main()
