"""What a prior over systems gains when candidates come from several systems and people judged a few documents.

    python -m benchmarks.choice_quality.system_prior FOLDER [CACHE]

FOLDER holds systems files ``mt_mqm_<set>.<pair>.jsonl.gz`` with MQM scores (lower is better); utility matrices are kept
in CACHE. Only segments whose every system is rated count, and references are hidden. Priors and combinations are
trained on the other documents (five folds, mean of several draws of folds; sets of three documents: leave one out), as
``discorank train prior`` and ``train combination`` do it, and the MBR decoder chooses. Printed: mean MQM of what is
chosen, beside single systems and the oracle; the macro average of the ratio to the system of the least mean root error
on the same training documents; the strength of the prior chosen on the other sets; and the curve over judged segments.
Intervals are by document (sets of three documents: by blocks of 10 segments).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from zlib import crc32

import numpy as np

from benchmarks.choice_quality.fully_rated_sets import LEXICAL, Set
from benchmarks.support.mqm_lists import SETS
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.prior import STRENGTH

UTILITIES = {
    "chrf": "chrf",
    "+rouge": LEXICAL,
    "+bertscore": f"{LEXICAL} (+ 250*bertscore into English)",
    "learned": "combination",
}
CURVE = ("chrf", "+rouge", "+bertscore")
STRENGTHS = (0.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0)
JUDGED = (20, 50, 100)
DRAWS, CURVE_DRAWS, RESAMPLES = 10, 20, 2000
FEW = 25  # sets of fewer documents give blocks of segments to the curve
FAIR = "best single, mean root error"
Values = dict[
    str, FloatArray
]  # MQM of what every chooser chose, [segments]; nan where a segment is not tested


def splits(data: Set, draw: int) -> Iterator[tuple[IntArray, IntArray]]:
    """(training segments, test segments) of every fold."""
    names = np.random.default_rng([draw, crc32(data.name.encode())]).permutation(
        int(data.number.max()) + 1
    )
    fold = (names % 5)[data.number]
    for held in np.unique(fold):
        yield np.flatnonzero(fold != held), np.flatnonzero(fold == held)


def singles(data: Set, train: IntArray, test: IntArray) -> Values:
    """The system that the training segments would choose."""
    by = {FAIR: np.sqrt(data.mqm[train]), "best single, mean MQM": data.mqm[train]}
    return {name: data.mqm[test, int(errors.mean(axis=0).argmin())] for name, errors in by.items()}


def crossed(data: Set) -> Values:
    """MQM of every chooser's choices, [segments], the mean over draws of folds."""
    draws = 1 if data.is_tiny else DRAWS
    values_of: Values = defaultdict(lambda: np.zeros(len(data.lists)))
    for draw in range(draws):
        for train, test in splits(data, draw):
            prior, learned = data.prior(train), data.combination(train)
            for name, values in singles(data, train, test).items():
                values_of[name][test] += values / draws
            for name in UTILITIES:
                for strength in STRENGTHS:
                    utility = learned if name == "learned" else data.utility(name)
                    values_of[f"{name} {strength:g}"][test] += (
                        data.chosen(test, utility, prior, strength) / draws
                    )
    values_of["random"] = data.mqm.mean(axis=1)
    values_of["best single, hindsight"] = data.mqm[:, int(data.mqm.mean(axis=0).argmin())]
    values_of["oracle"] = data.mqm.min(axis=1)
    return dict(values_of)


def curve(data: Set, size: int) -> Values:
    """The same for the fair baseline and prior-weighted MBR after so many judged segments, tested on the others."""
    units = data.blocks if int(data.number.max()) < FEW else data.number
    total: Values = defaultdict(lambda: np.zeros(len(data.lists)))
    times = np.zeros(len(data.lists))
    for draw in range(CURVE_DRAWS):
        order = np.random.default_rng([draw, size, crc32(data.name.encode())]).permutation(
            int(units.max()) + 1
        )
        taken = np.concatenate([np.flatnonzero(units == unit) for unit in order])
        last = units[taken[size - 1]]
        train, test = np.sort(taken[:size]), np.sort(taken[size:][units[taken[size:]] != last])
        prior = data.prior(train)
        times[test] += 1
        total[FAIR][test] += singles(data, train, test)[FAIR]
        for name in CURVE:
            total[f"{name} {STRENGTH:g}"][test] += data.chosen(
                test, data.utility(name), prior, STRENGTH
            )
    return {
        name: np.divide(sums, times, out=np.full(len(sums), np.nan), where=times > 0)
        for name, sums in total.items()
    }


def resampled(data: Set, columns: Sequence[FloatArray]) -> FloatArray:
    """Bootstrap means over documents, [resamples, columns]."""
    tested = ~np.isnan(columns[0])
    sums = np.stack(
        [np.bincount(data.groups[tested], c[tested], data.groups.max() + 1) for c in columns],
        axis=1,
    )
    counts = np.bincount(data.groups[tested], minlength=len(sums))
    random = np.random.default_rng(crc32(data.name.encode()))
    draws = random.integers(len(sums), size=(RESAMPLES, len(sums)))
    return np.asarray(sums[draws].sum(axis=1) / counts[draws].sum(axis=1)[:, None])


def macro(sets: Sequence[Set], set_values: Sequence[Values], name: str, base: str = FAIR) -> str:
    """The macro average of the ratio to a baseline, less 1, with its interval."""
    pairs = [(np.nanmean(own[name]), np.nanmean(own[base])) for own in set_values]
    draws = [
        resampled(data, [own[name], own[base]]) for data, own in zip(sets, set_values, strict=True)
    ]
    ratios = np.mean([draw[:, 0] / draw[:, 1] for draw in draws], axis=0)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return f"{100 * (np.mean([a / b for a, b in pairs]) - 1):+6.1f} % [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]"


def differences(sets: Sequence[Set], set_values: Sequence[Values], name: str) -> str:
    """The difference to the fair baseline in every set, with intervals."""
    cells = []
    for data, own in zip(sets, set_values, strict=True):
        draw = resampled(data, [own[name], own[FAIR]])
        low, high = np.quantile(draw[:, 0] - draw[:, 1], [0.025, 0.975])
        cells.append(f"{data.name} {np.mean(own[name] - own[FAIR]):+.3f} [{low:+.3f}, {high:+.3f}]")
    return "; ".join(cells)


def left_out(set_values: Sequence[Values], names: Sequence[str]) -> tuple[list[Values], list[str]]:
    """Every set with the utility and strength that are best on the others, and these."""
    tried = [f"{name} {k:g}" for name in names for k in STRENGTHS]
    ratios = np.array(
        [[own[name].mean() / own[FAIR].mean() for name in tried] for own in set_values]
    )
    best = [
        tried[int(np.delete(ratios, i, axis=0).mean(axis=0).argmin())]
        for i in range(len(set_values))
    ]
    return [{**own, "chosen": own[name]} for own, name in zip(set_values, best, strict=True)], best


def row(label: str, sets: Sequence[Set], set_values: Sequence[Values], name: str) -> str:
    """A line of the table."""
    cells = "".join(f"{np.nanmean(own[name]):20.3f}" for own in set_values)
    return f"{label:64}{cells}   {macro(sets, set_values, name)}"


def show(sets: Sequence[Set], set_values: Sequence[Values]) -> None:
    print(f"\nmean MQM of the chosen segments (lower is better); macro average against {FAIR!r}")
    print(f"{'':64}" + "".join(f"{data.name:>20}" for data in sets))
    own = {f"MBR {about}": f"{name} 0" for name, about in UTILITIES.items()}
    own |= {f"prior, {about}": f"{name} {STRENGTH:g}" for name, about in UTILITIES.items()}
    fixed = ("random", "best single, mean MQM", FAIR, "best single, hindsight")
    for label, name in {**{name: name for name in fixed}, **own, "oracle": "oracle"}.items():
        print(row(label, sets, set_values, name))
    for label, name in own.items():
        if not name.endswith(" 0"):
            print(f"\n{label} less {FAIR}\n  {differences(sets, set_values, name)}")
            against_hindsight = macro(sets, set_values, name, "best single, hindsight")
            print(f"  macro against the best single in hindsight {against_hindsight}")
    print(
        f"\nmacro average by strength of the prior; strength {STRENGTH:g} and the utilities were found on these sets"
    )
    for name in UTILITIES:
        for strength in STRENGTHS:
            print(f"  {name:12} {strength:4g} {macro(sets, set_values, f'{name} {strength:g}')}")
    print("\nutility and strength that are best on the other sets")
    for label, names in {
        **{name: [name] for name in UTILITIES},
        "any utility": list(UTILITIES),
    }.items():
        chosen, best = left_out(set_values, names)
        print(row(f"  {label}, left one set out", sets, chosen, "chosen"))
        print(f"    {', '.join(best)}")


def show_curve(sets: Sequence[Set], set_values: Sequence[Values]) -> None:
    print("\nby the number of judged segments, tested on the others (all: five folds)")
    names: dict[str, Callable[[Set], Values]] = {str(n): partial(curve, size=n) for n in JUDGED}
    for label in (*names, "all"):
        own = [names[label](data) for data in sets] if label in names else set_values
        for name in (FAIR, *(f"{utility} {STRENGTH:g}" for utility in CURVE)):
            print(row(f"{label:>4} {name}", sets, own, name), flush=True)


def main(folder: str, cache: str | None = None) -> None:
    sets = [Set(name, Path(folder), Path(cache) if cache else None) for name in SETS]
    for data in sets:
        counts = len(data.lists), int(data.number.max()) + 1, data.mqm.shape[1]
        print("{}: {} segments, {} documents, {} systems".format(data.name, *counts), flush=True)
    set_values = []
    for data in sets:
        set_values.append(crossed(data))
        print(f"{data.name} done", flush=True)
    show(sets, set_values)
    show_curve(sets, set_values)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
