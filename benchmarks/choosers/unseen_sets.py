"""The rules of choice on sets with MQM on which no rule was designed: nine of biomedical abstracts.

    python -m benchmarks.choosers.unseen_sets FOLDER --work WORK [--draws 20] [--seven]

FOLDER holds ``mt_mqm_bio.<pair>.jsonl.gz``. Utility, usual strength, designs of choosers and what they believe before
anything is judged come from seven other sets (news, talks, WMT23). 20 to 200 segments are drawn by documents to be
judged, and all others are chosen; a set counts where fifty or more are left. A figure is the mean MQM of what is chosen
over that of a random system, or of the best single system by the same judgements (lower is better), the macro mean over
sets with 95 % intervals by document, and on how many sets it is more than 2 % above that system. ``--seven`` has the
seven sets in their place, with what is believed of each from the six others. What was chosen is kept in WORK.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_set, measured_sets
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser.shipped import shipped
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .few_judgements import RULES, Beliefs, KeptTallies
from .set_beliefs import Others
from .set_ratios import line, ratios

JUDGED = ("20", "50", "100", "200")
LEFT = 50  # segments to be chosen
LEARNED = ("prior", "plain", "chooser", "careful")
ABOVE = 1.02  # the single system


class Believed(NamedTuple):
    """A set, and what is believed of it before anything is judged."""

    data: MeasuredSet
    beliefs: Beliefs


def unseen(folder: Path, work: Path) -> dict[str, Believed]:
    """The sets, of segments whose every system is rated, with the beliefs that are shipped."""
    beliefs = Beliefs(shipped().defaults(len(SURFACE)), shipped().gain)
    paths = sorted(folder.glob("mt_mqm_bio.*.jsonl.gz"))
    sets = [measured_set(path, UTILITY, SURFACE, work) for path in paths]
    return {data.name: Believed(data, beliefs) for data in sets}


def seven(folder: Path, work: Path) -> dict[str, Believed]:
    """The seven sets, each with the beliefs of the others."""
    sets = measured_sets(folder, UTILITY, SURFACE, work)
    others = [Others(data, sets) for data in sets]
    return {
        data.name: Believed(data, Beliefs(own.defaults, own.gain))
        for data, own in zip(sets, others, strict=True)
    }


def tally(own: Believed, kept: KeptTallies, judged: str, draws: int) -> dict[str, FloatArray]:
    """MQM [n] of what every rule takes."""
    opinions = own.data.data.scores[:, :, None]
    found = kept.tallied(own.data, opinions, judged, own.beliefs, draws)
    return {rule: values[:, 0] for rule, values in found.items()}


def without_judgements(sets: Sequence[Believed], kept: KeptTallies) -> list[list[str]]:
    """Rows of what needs no judgement, or all of them."""
    means = [tally(own, kept, "0", 1) for own in sets]
    data = [own.data for own in sets]
    rows = []
    for rule in ("mbr", "hindsight", "oracle"):
        rows.append([RULES[rule], *line(data, means, rule, "random")])
    return rows


def with_judgements(
    sets: Sequence[Believed], kept: KeptTallies, numbers: Sequence[str], draws: int
) -> tuple[list[list[str]], list[list[str]]]:
    """Rows of both tables, by number of judged segments: over a random system, and over the single system."""
    over_random, over_single = [], []
    for judged in numbers:
        large = [own for own in sets if len(own.data.ids) >= int(judged) + LEFT]
        if len(large) < len(sets) / 2:
            continue
        means = [tally(own, kept, judged, draws) for own in large]
        data = [own.data for own in large]
        which = f"{judged} ({len(large)} sets)"
        for rule in ("single", "mbr", *LEARNED):
            over_random.append([which, RULES[rule], line(data, means, rule, "random")[-1]])
        for rule in LEARNED:
            macro = line(data, means, rule, "single")[-1]
            over_single.append([which, RULES[rule], macro, above(data, means, rule)])
        against_prior = line(data, means, "chooser", "prior")[-1]
        over_single.append([which, "chooser against the prior", against_prior, ""])
    return over_random, over_single


def above(sets: Sequence[MeasuredSet], means: Sequence[dict[str, FloatArray]], rule: str) -> str:
    """On how many sets a rule is too far above the single system, and its highest ratio."""
    found = [
        ratios(data, own[rule], own["single"])[0] for data, own in zip(sets, means, strict=True)
    ]
    return f"{sum(np.array(found) > ABOVE)} of {len(sets)}, {max(found):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seven", action="store_true", help="the seven sets in place of these")
    options = parser.parse_args()
    kept = KeptTallies(options.work)
    found = (seven if options.seven else unseen)(options.folder, options.work)
    sets = list(found.values())
    sizes = [
        f"{name} ({len(own.data.ids)}, {len(own.data.systems)} systems)"
        for name, own in found.items()
    ]
    print(table(["over a random system", *sizes, "macro"], without_judgements(sets, kept)))
    over_random, over_single = with_judgements(sets, kept, JUDGED, options.draws)
    print(f"\n{table(['judged', 'chosen by', 'over a random system'], over_random)}")
    heads = ["judged", "chosen by", "over the single system", "more than 2 % above it, most"]
    print(f"\n{table(heads, over_single)}")


if __name__ == "__main__":
    main()
