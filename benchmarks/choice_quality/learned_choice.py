"""What reference-free learned metrics are worth as choosers, alone and shrunk to the means of systems, on WMT23.

    python -m benchmarks.choice_quality.learned_choice FOLDER [--draws 200] [--only alone few ...] [--plot FILE.svg]

FOLDER holds ``mt_mqm_wmt23.<pair>.jsonl.gz`` (texts, human MQM) and ``qe_wmt23.<pair>.jsonl.gz`` (segment scores of
metrics for all systems), and for the table of judges ``judged_wmt22.<pair>.jsonl.gz``. Figures are mean MQM of the
choices over that of a random system, macro over the sets, lower is better; equal scores share a choice; 95 % intervals
are of a bootstrap by documents, the same draws for all rules. The table `command` runs ``discorank rerank`` itself.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.lists import rated
from benchmarks.support.measuring import table
from discorank.cli.main import main as main_command
from discorank.metrics.registry import load_metric
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.lists import write_list

PAIRS = ("en-de", "he-en", "zh-en")
CONSENSUS = "chrf + 100*rouge-l"
THREE = ("CometKiwi-XXL", "MetricX-23-QE", "XCOMET-QE-Ensemble")
KIWI, DOC_KIWI = "CometKiwi", "docWMT22CometKiwiDA"
THREE_QE, FOUR_QE = "three QE", f"three QE and {DOC_KIWI}"
TIES = "GEMBA-MQM, ties by consensus"
SHARES = (0.0, 0.5, 0.67, 0.75, 0.8, 0.9, 1.0)
SHARE = 0.75
BESIDE = (0.25, 0.5, 1.0)  # weights of consensus
JUDGED = (20, 50, 100)
TIE_WEIGHT = 1e-6  # of what breaks ties alone
STANDARD = "GPT4-DA-refA"  # the judge with a reference that stands for people in judged_wmt22
SHOWN = (KIWI, DOC_KIWI, "MetricX-23-QE", "GEMBA-MQM", THREE_QE)


class ScoredSet(NamedTuple):
    """n segments of S systems.

    Args:
        mqm: human scores, lower is better, [n, S].
        z: standardised scores of every metric, [n, S].
        document: its number, [n].
    """

    mqm: FloatArray
    z: dict[str, FloatArray]
    document: IntArray


class Outcome(NamedTuple):
    """What a rule chose in a set, in d draws of what it was given; 0 where a segment does not count.

    Args:
        errors: MQM of its choices, [d, n].
        random: that of a random system, [d, n].
        document: of every segment, [n].
    """

    errors: FloatArray
    random: FloatArray
    document: IntArray

    def figure(self, weight: FloatArray) -> float:
        """Errors relative to a random system's, with the weight [n] of every segment."""
        return float(np.mean((self.errors @ weight) / (self.random @ weight)))


Outcomes = list[Outcome]  # by set


def standardised(scores: FloatArray) -> FloatArray:
    """Scores standardised within each list, [n, S]."""
    centred = scores - scores.mean(axis=1, keepdims=True)
    spread = centred.std(axis=1, keepdims=True)
    z: FloatArray = np.divide(centred, spread, out=np.zeros(scores.shape), where=spread > 1e-12)
    return z


def shrunk(z: FloatArray, share: float, means: FloatArray | None = None) -> FloatArray:
    """v(c) of standardised scores [n, S], with means [S] of other lists if given."""
    means = z.mean(axis=0) if means is None else means
    return (1 - share) * z + share * means


def errors(values: FloatArray, mqm: FloatArray) -> FloatArray:
    """The MQM of the choice in every list, [n]; equal values share it."""
    best = values >= values.max(axis=1, keepdims=True) - 1e-12
    of_lists: FloatArray = (best * mqm).sum(axis=1) / best.sum(axis=1)
    return of_lists


def chosen(one: ScoredSet, values: FloatArray) -> Outcome:
    """What values [n, S] choose."""
    return Outcome(errors(values, one.mqm)[None], one.mqm.mean(axis=1)[None], one.document)


def by(sets: Sequence[ScoredSet], name: str, share: float = 0.0) -> Outcomes:
    """What a metric chooses, shrunk."""
    return [chosen(one, shrunk(one.z[name], share)) for one in sets]


def macro(outcomes: Outcomes) -> float:
    """The mean over sets of the errors relative to a random system's."""
    return float(np.mean([one.figure(np.ones(len(one.document))) for one in outcomes]))


def _resampled(outcomes: Outcomes, draws: int) -> FloatArray:
    """The macro figure of draws of documents, [draws]; equal draws for all rules on the same sets."""
    random, figures = np.random.default_rng(0), []
    for _ in range(draws):
        of_sets = []
        for one in outcomes:
            count = int(one.document.max()) + 1
            drawn = np.bincount(random.integers(count, size=count), minlength=count)
            of_sets.append(one.figure(drawn[one.document].astype(float)))
        figures.append(np.mean(of_sets))
    return np.array(figures)


def with_interval(outcomes: Outcomes, draws: int) -> str:
    """The figure and its interval."""
    low, high = np.quantile(_resampled(outcomes, draws), [0.025, 0.975])
    return f"{macro(outcomes):.3f} [{low:.3f}, {high:.3f}]"


def difference(first: Outcomes, second: Outcomes, draws: int) -> str:
    """The second figure less the first, and its interval."""
    gaps = _resampled(second, draws) - _resampled(first, draws)
    low, high = np.quantile(gaps, [0.025, 0.975])
    return f"{macro(second) - macro(first):+.3f} [{low:+.3f}, {high:+.3f}]"


def read_set(folder: Path, pair: str) -> ScoredSet:
    """The set of a pair of languages."""
    scores = scores_of(folder / f"qe_wmt23.{pair}.jsonl.gz")
    records = rated(str(folder / f"mt_mqm_wmt23.{pair}.jsonl.gz"))
    systems = tuple(str(candidate.fields["system"]) for candidate in records[0].candidates)
    metrics = next(iter(scores.values()))
    mqm = np.array([[float(c.fields["mqm"]) for c in record.candidates] for record in records])
    z: dict[str, FloatArray] = {}
    for name in metrics:
        rows = [
            [scores[str(record.document)][name][system][record.position or 0] for system in systems]
            for record in records
        ]
        z[name] = standardised(np.array(rows, float))
    utility = load_metric(CONSENSUS).for_language(pair.partition("-")[2])
    consensus = []
    for record in records:
        texts = [str(candidate.text) for candidate in record.candidates]
        matrix = sum(weight * part.pairwise(texts, texts) for weight, part in utility.parts)
        consensus.append(np.asarray(matrix).mean(axis=1))
    z["consensus"] = standardised(np.array(consensus))
    z[THREE_QE] = np.mean([z[name] for name in THREE], axis=0)
    z[FOUR_QE] = np.mean([z[name] for name in (*THREE, DOC_KIWI)], axis=0)
    z[TIES] = z["GEMBA-MQM"] + TIE_WEIGHT * z["consensus"]
    names = [str(record.document) for record in records]
    return ScoredSet(mqm, z, np.unique(names, return_inverse=True)[1])


def scores_of(path: Path) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Scores of every metric and system by document."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {row["id"]: row["scores"] for row in map(json.loads, lines)}


def alone(sets: Sequence[ScoredSet], draws: int) -> str:
    """Every metric alone and shrunk at every share, with intervals of two of them and of their difference."""
    rows = []
    for name in sets[0].z:
        by_share = {share: by(sets, name, share) for share in SHARES}
        figures = [f"{macro(by_share[share]):.3f}" for share in SHARES if share not in (0, SHARE)]
        plain, used = by_share[0.0], by_share[SHARE]
        intervals = [with_interval(plain, draws), with_interval(used, draws)]
        rows.append([name, *intervals, difference(plain, used, draws), *figures])
    others = [f"s = {share:g}" for share in SHARES if share not in (0, SHARE)]
    hindsight = [one.mqm.mean(axis=0).min() / one.mqm.mean() for one in sets]
    best = f"{', '.join(f'{value:.3f}' for value in hindsight)}; macro {np.mean(hindsight):.3f}"
    shown = table(["metric", "s = 0", f"s = {SHARE:g}", "gain", *others], rows)
    return f"{shown}\n\nbest single system in hindsight: {best}"


def by_set(sets: Sequence[ScoredSet], draws: int) -> str:
    """Metrics shown, by set, alone and shrunk; and what context adds to the same encoder."""
    rows = []
    for name in SHOWN:
        for share in (0.0, SHARE):
            cells = [with_interval(by([one], name, share), draws) for one in sets]
            rows.append([name, f"{share:g}", *cells])
    for share in (0.0, SHARE):
        cells = [
            difference(by([one], KIWI, share), by([one], DOC_KIWI, share), draws) for one in sets
        ]
        rows.append([f"{DOC_KIWI} less {KIWI}", f"{share:g}", *cells])
        gain = difference(by(sets, KIWI, share), by(sets, DOC_KIWI, share), draws)
        rows[-1][0] += f": {gain}"
    return table(["metric", "s", *PAIRS], rows)


def beside(sets: Sequence[ScoredSet], draws: int) -> str:
    """Metrics beside consensus at some weights, alone and shrunk as a sum."""
    rows = []
    for name in SHOWN:
        for share in (0.0, SHARE):
            cells = []
            for weight in BESIDE:
                sums = [one.z[name] + weight * one.z["consensus"] for one in sets]
                values = [chosen(one, shrunk(z, share)) for one, z in zip(sets, sums, strict=True)]
                cells.append(with_interval(values, draws))
            rows.append([name, f"{share:g}", *cells])
    return table(["metric", "s", *(f"+ {weight:g} consensus" for weight in BESIDE)], rows)


def _drawn(n: int, count: int, draws: int) -> Iterator[IntArray]:
    """Draws of some of n."""
    for draw in range(draws):
        yield np.random.default_rng([draw, n]).choice(n, count, replace=False)


def judged(sets: Sequence[ScoredSet], draws: int) -> str:
    """Means of systems by people on some segments in place of the metric's own, and the mean of both."""
    rows = []
    for name in SHOWN:
        cells = [with_interval(by(sets, name, SHARE), draws)]
        for count in JUDGED:
            for own_share in (0.0, 0.5):
                outcomes = [_with_judged(one, name, count, own_share, draws // 10) for one in sets]
                cells.append(with_interval(outcomes, draws))
        rows.append([name, *cells])
    head = [f"{count} judged{more}" for count in JUDGED for more in ("", " and own")]
    return table(["metric", "own means", *head], rows)


def _with_judged(one: ScoredSet, name: str, count: int, own_share: float, draws: int) -> Outcome:
    """What is chosen in all other segments where people judged some."""
    n, of_draws, counted = len(one.mqm), [], []
    own, z = one.z[name].mean(axis=0), one.z[name]
    for some in _drawn(n, count, draws):
        people = standardised(-one.mqm[some]).mean(axis=0)
        means = own_share * own + (1 - own_share) * people
        is_other = np.isin(np.arange(n), some, invert=True)
        of_draws.append(is_other * errors(shrunk(z, SHARE, means), one.mqm))
        counted.append(is_other * one.mqm.mean(axis=1))
    return Outcome(np.array(of_draws), np.array(counted), one.document)


def within_share(z: FloatArray) -> float:
    """The share of the variance of standardised scores [n, S] that lies within systems."""
    within = z.var(axis=0, ddof=1)
    between = z.mean(axis=0).var(ddof=1) - (within / len(z)).mean()
    return float(within.mean() / (within.mean() + max(0.0, between)))


def estimated(sets: Sequence[ScoredSet], draws: int) -> str:
    """One share for all against others: estimated without labels, and found with labels on the other sets."""
    rows = []
    for name in sets[0].z:
        shares = [within_share(one.z[name]) for one in sets]
        own = [
            chosen(one, shrunk(one.z[name], share)) for one, share in zip(sets, shares, strict=True)
        ]
        best_elsewhere = []
        for one in sets:
            others = [other for other in sets if other is not one]
            figures = [macro(by(others, name, share)) for share in SHARES]
            best_elsewhere.append(SHARES[int(np.argmin(figures))])
        elsewhere = [
            chosen(one, shrunk(one.z[name], share))
            for one, share in zip(sets, best_elsewhere, strict=True)
        ]
        fixed = by(sets, name, SHARE)
        rows.append([name, ", ".join(f"{share:.2f}" for share in shares)])
        rows[-1] += [f"{macro(fixed):.3f}", difference(fixed, own, draws)]
        rows[-1] += [", ".join(f"{share:g}" for share in best_elsewhere)]
        rows[-1] += [difference(fixed, elsewhere, draws)]
    head = ["metric", "s within systems", f"s = {SHARE:g}", "with these instead"]
    return table([*head, "best s of the two other sets", "with these instead"], rows)


def few(sets: Sequence[ScoredSet], draws: int) -> str:
    """Few systems and few lists: what is shrunk against what is not."""
    rows = []
    for name in (KIWI, DOC_KIWI, THREE_QE):
        for what, counts, given in (
            ("systems", (2, 3, 5, 8, 12), _of_systems),
            ("lists", (3, 10, 30, 100), _of_lists),
        ):
            for count in counts:
                cells = []
                plain = [given(one, name, count, 0.0, draws // 2) for one in sets]
                for share in (0.5, SHARE, 1.0):
                    outcomes = [given(one, name, count, share, draws // 2) for one in sets]
                    cells.append(difference(plain, outcomes, draws))
                rows.append([name, f"{count} {what}", f"{macro(plain):.3f}", *cells])
    shares = (f"s = {share:g}, gain" for share in (0.5, SHARE, 1.0))
    return table(["metric", "of", "s = 0", *shares], rows)


def _of_systems(one: ScoredSet, name: str, count: int, share: float, draws: int) -> Outcome:
    """What is chosen among some systems, over a random one of all."""
    of_draws = []
    for some in _drawn(one.mqm.shape[1], count, draws):
        z = standardised(one.z[name][:, some])
        of_draws.append(errors(shrunk(z, share), one.mqm[:, some]))
    random = np.repeat(one.mqm.mean(axis=1)[None], len(of_draws), axis=0)
    return Outcome(np.array(of_draws), random, one.document)


def _of_lists(one: ScoredSet, name: str, count: int, share: float, draws: int) -> Outcome:
    """What is chosen where some lists, whose own means are all there are, come again and again: one long draw."""
    total, random = np.zeros(len(one.mqm)), np.zeros(len(one.mqm))
    for some in _drawn(len(one.mqm), count, draws):
        total[some] += errors(shrunk(one.z[name][some], share), one.mqm[some])
        random[some] += one.mqm[some].mean(axis=1)
    return Outcome(total[None], random[None], one.document)


def judges(folder: Path, draws: int) -> str:
    """Language-model judges of WMT22, under the standard there (another judge with a reference), ties by consensus."""
    paths = sorted(folder.glob("judged_wmt22.*.jsonl.gz"))
    sets = [_judged_set(path) for path in paths]
    rows = []
    for name in [name for name in sets[0].z if name != "consensus"]:
        z = [one.z[name] for one in sets]
        tied = [one.z[name] + TIE_WEIGHT * one.z["consensus"] for one in sets]
        rules = [z, tied]
        rules += [[shrunk(of, share) for of in tied] for share in (0.5, SHARE)]
        plain, *others = (
            [chosen(one, of) for one, of in zip(sets, rule, strict=True)] for rule in rules
        )
        gains = [difference(plain, other, draws) for other in others]
        rows.append([name, with_interval(plain, draws), *gains])
    head = ["alone", "ties by consensus", "and s = 0.5", f"and s = {SHARE:g}"]
    return table(["judge", *head], rows)


def _judged_set(path: Path) -> ScoredSet:
    """Judges without a reference, and consensus; what the standard takes off a text stands for MQM."""
    utility = load_metric("chrf").for_language(path.name.split(".")[1].partition("-")[2])
    standard, consensus, documents = [], [], []
    scores: dict[str, list[list[float]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, row in enumerate(map(json.loads, lines)):
            systems = sorted(row["systems"])
            names = [name for name in row if name.endswith("-src")]
            for i in range(len(row["source"])):
                values = {
                    name: [row[name].get(s, [None] * (i + 1))[i] for s in systems]
                    for name in (STANDARD, *names)
                }
                if any(None in own for own in values.values()):
                    continue
                documents.append(number)
                standard.append(values[STANDARD])
                for name in names:
                    scores.setdefault(name, []).append(values[name])
                texts = [row["systems"][s][i] for s in systems]
                matrix = sum(weight * part.pairwise(texts, texts) for weight, part in utility.parts)
                consensus.append(np.asarray(matrix).mean(axis=1))
    z = {name: standardised(np.array(own, float)) for name, own in scores.items()}
    z["consensus"] = standardised(np.array(consensus))
    points = np.array(standard, float)
    return ScoredSet(points.max() - points, z, np.array(documents))


COMMANDS: dict[str, list[str]] = {
    "CometKiwi": ["field:CometKiwi"],
    "MetricX-23-QE": ["field:MetricX-23-QE"],
    "docWMT22CometKiwiDA": ["field:docWMT22CometKiwiDA"],
    THREE_QE: [f"field:{name}" for name in THREE],
    TIES: ["field:GEMBA-MQM", "expected*0.000001", "-u", CONSENSUS],
}


def command(folder: Path) -> str:
    """What ``discorank rerank`` chooses with the options of the guide, by set."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        sources = [_written_lists(folder, pair, Path(place)) for pair in PAIRS]
        for name, features in COMMANDS.items():
            for share in ("0", f"{SHARE:g}"):
                figures = []
                for pair, (source, mqm) in zip(PAIRS, sources, strict=True):
                    out = Path(place, f"{pair}.{name}.{share}".replace(" ", "-"))
                    options = [
                        "--normalize",
                        "zscore",
                        "--shrink",
                        share,
                        "--quiet",
                        "--lang",
                        pair[-2:],
                    ]
                    if main_command(
                        ["rerank", str(source), "-m", *features, *options, "-o", str(out)]
                    ):
                        raise SystemExit(f"{out}: rerank failed")
                    chosen = [json.loads(line)["index"] for line in out.read_text().splitlines()]
                    figures.append(mqm[np.arange(len(mqm)), chosen].mean() / mqm.mean())
                rows.append(
                    [name, share, *(f"{value:.3f}" for value in figures), f"{np.mean(figures):.3f}"]
                )
    return table(["features", "--shrink", *PAIRS, "macro"], rows)


def _written_lists(folder: Path, pair: str, place: Path) -> tuple[Path, FloatArray]:
    """The lists of a pair with the scores of metrics as fields, and their MQM [n, S]."""
    scores = scores_of(folder / f"qe_wmt23.{pair}.jsonl.gz")
    path, mqm = place / f"{pair}.jsonl", []
    with path.open("w", encoding="utf-8") as file:
        for record in rated(str(folder / f"mt_mqm_wmt23.{pair}.jsonl.gz")):
            own = scores[str(record.document)]
            row: dict[str, Any] = write_list(record)
            mqm.append([candidate.pop("mqm") for candidate in row["candidates"]])
            for candidate in row["candidates"]:
                system = candidate["system"]
                candidate |= {name: own[name][system][record.position or 0] for name in own}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path, np.array(mqm, float)


def plot(sets: Sequence[ScoredSet], path: Path) -> None:
    """Errors by share, a line per metric, and the level of the best single system."""
    import matplotlib

    matplotlib.use("svg")
    # letters stay letters, and names of parts are the same in every run
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "learned-choice"}
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.8))
    grid = np.linspace(0, 1, 11)
    for name in ("consensus", *SHOWN):
        errors_by_share = [macro(by(sets, name, float(share))) for share in grid]
        axes.plot(grid, errors_by_share, label=name, linewidth=1.6)
    hindsight = np.mean([one.mqm.mean(axis=0).min() / one.mqm.mean() for one in sets])
    label = "best single system in hindsight"
    axes.axhline(float(hindsight), color="grey", linestyle="--", linewidth=1, label=label)
    axes.axvline(SHARE, color="lightgrey", linewidth=1, zorder=0)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of the system's mean, s")
    axes.set_ylabel("errors relative to a random system's")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})


TABLES: dict[str, Callable[[Sequence[ScoredSet], int], str]] = {
    "alone": alone,
    "by-set": by_set,
    "beside": beside,
    "judged": judged,
    "estimated": estimated,
    "few": few,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=200, help="of documents, systems, lists")
    parser.add_argument("--only", nargs="*", choices=[*TABLES, "judges", "command"])
    parser.add_argument("--plot", type=Path, help="an SVG file")
    arguments = parser.parse_args()
    wanted = [*TABLES, "judges", "command"] if arguments.only is None else arguments.only
    others = {
        "judges": partial(judges, arguments.folder, arguments.draws),
        "command": partial(command, arguments.folder),
    }
    sets = []
    if arguments.plot or set(wanted) & set(TABLES):
        sets = [read_set(arguments.folder, pair) for pair in PAIRS]
    for name in wanted:
        shown = TABLES[name](sets, arguments.draws) if name in TABLES else others[name]()
        print(f"\n## {name}\n\n{shown}", flush=True)
    if arguments.plot:
        plot(sets, arguments.plot)


if __name__ == "__main__":
    main()
