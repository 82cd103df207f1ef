"""What reference-free learned metrics are worth as choosers, alone and shrunk to the means of systems, on WMT23.

    python -m benchmarks.choice_quality.learned_choice FOLDER [--draws 200] [--only alone few ...]

FOLDER holds ``mt_mqm_wmt23.<pair>.jsonl.gz`` (texts, human MQM) and ``qe_wmt23.<pair>.jsonl.gz`` (segment scores of
metrics for all systems), and for the table of judges ``judged_wmt22.<pair>.jsonl.gz``. Figures are mean MQM of the
choices over that of a random system, macro over the sets, lower is better; equal scores share a choice; intervals are
of a bootstrap by documents. The table `command` runs ``discorank rerank`` itself.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Callable, Sequence
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
THREE_QE, TIES = "three QE", "GEMBA-MQM, ties by consensus"
SHARES = (0.0, 0.5, 0.67, 0.75, 0.8, 0.9, 1.0)
SHARE = 0.75
BESIDE = (0.25, 0.5, 1.0)  # weights of consensus
JUDGED = (20, 50, 100)
TIE_WEIGHT = 1e-6  # of what breaks ties alone
SHOWN = ("CometKiwi", "docWMT22CometKiwiDA", "MetricX-23-QE", "GEMBA-MQM", THREE_QE)


class ScoredSet(NamedTuple):
    """n segments of S systems.

    Args:
        mqm: human scores, lower is better, [n, S].
        z: standardised scores of every metric, [n, S].
        document: its number, [n].
        systems: their names.
    """

    mqm: FloatArray
    z: dict[str, FloatArray]
    document: IntArray
    systems: tuple[str, ...]

    def taken(self, segments: IntArray, systems: IntArray) -> ScoredSet:
        """Some segments of some systems."""
        grid = np.ix_(segments, systems)
        z = {name: standardised(values[grid]) for name, values in self.z.items()}
        names = tuple(self.systems[s] for s in systems)
        return ScoredSet(self.mqm[grid], z, self.document[segments], names)


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
    z[TIES] = z["GEMBA-MQM"] + TIE_WEIGHT * z["consensus"]
    names = [str(record.document) for record in records]
    return ScoredSet(mqm, z, np.unique(names, return_inverse=True)[1], systems)


def scores_of(path: Path) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Scores of every metric and system by document."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {row["id"]: row["scores"] for row in map(json.loads, lines)}


Rule = Callable[[ScoredSet], FloatArray]  # values [n, S] of a set


def macro(sets: Sequence[ScoredSet], rule: Rule) -> float:
    """The mean over sets of the error relative to a random system's."""
    return float(np.mean([errors(rule(one), one.mqm).mean() / one.mqm.mean() for one in sets]))


def interval(sets: Sequence[ScoredSet], rules: Sequence[Rule], draws: int) -> tuple[float, float]:
    """The 95 % interval of `macro`, by documents; of two rules that of their difference, the second less the first."""
    random = np.random.default_rng(0)
    picked = [[errors(rule(one), one.mqm) for rule in rules] for one in sets]
    means = []
    for _ in range(draws):
        total = 0.0
        for one, of_rules in zip(sets, picked, strict=True):
            weights = np.bincount(
                random.integers(one.document.max() + 1, size=one.document.max() + 1),
                minlength=one.document.max() + 1,
            )
            weight = weights[one.document]
            base = (weight * one.mqm.mean(axis=1)).sum()
            values = [(weight * own).sum() / base for own in of_rules]
            total += values[-1] - (values[0] if len(values) > 1 else 0.0)
        means.append(total / len(sets))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def by(name: str, share: float = 0.0) -> Rule:
    """A metric, shrunk."""
    return lambda one: shrunk(one.z[name], share)


def alone(sets: Sequence[ScoredSet], draws: int) -> str:
    """Every metric alone and shrunk at every share, with intervals of two of them and of their difference."""
    head = [
        "metric",
        *(f"s = {share:g}" for share in SHARES),
        "95 % at 0",
        f"95 % at {SHARE:g}",
        "gain",
    ]
    rows = []
    for name in sets[0].z:
        figures = [f"{macro(sets, by(name, share)):.3f}" for share in SHARES]
        bounds = [
            interval(sets, rules, draws)
            for rules in ([by(name)], [by(name, SHARE)], [by(name), by(name, SHARE)])
        ]
        rows.append([name, *figures, *(f"{low:.3f} to {high:.3f}" for low, high in bounds)])
    hindsight = [f"{one.mqm.mean(axis=0).min() / one.mqm.mean():.3f}" for one in sets]
    best = np.mean([one.mqm.mean(axis=0).min() / one.mqm.mean() for one in sets])
    return f"{table(head, rows)}\n\nbest single system in hindsight: {', '.join(hindsight)}; macro {best:.3f}"


def by_set(sets: Sequence[ScoredSet], draws: int) -> str:
    """Metrics shown, by set, alone and shrunk; and what context adds to the same encoder."""
    rows = []
    for name in SHOWN:
        for share in (0.0, SHARE):
            own = [macro([one], by(name, share)) for one in sets]
            rows.append(
                [name, f"{share:g}", *(f"{value:.3f}" for value in own), f"{np.mean(own):.3f}"]
            )
    lines = [table(["metric", "s", *PAIRS, "macro"], rows)]
    for share in (0.0, SHARE):
        rules = [by("CometKiwi", share), by("docWMT22CometKiwiDA", share)]
        low, high = interval(sets, rules, draws)
        gain = macro(sets, rules[1]) - macro(sets, rules[0])
        lines.append(
            f"docWMT22CometKiwiDA less CometKiwi at s = {share:g}: {gain:+.3f} [{low:+.3f}, {high:+.3f}]"
        )
    return "\n".join(lines)


def beside(sets: Sequence[ScoredSet], draws: int) -> str:
    """Metrics beside consensus at some weights, alone and shrunk as a sum."""

    def summed(name: str, weight: float, share: float) -> Rule:
        return lambda one: shrunk(one.z[name] + weight * one.z["consensus"], share)

    head = [
        "metric",
        *(f"+ {w:g} consensus" for w in BESIDE),
        *(f"+ {w:g}, shrunk" for w in BESIDE),
    ]
    rows = []
    for name in SHOWN:
        figures = [
            macro(sets, summed(name, weight, share)) for share in (0.0, SHARE) for weight in BESIDE
        ]
        rows.append([name, *(f"{value:.3f}" for value in figures)])
    return table(head, rows)


def judged(sets: Sequence[ScoredSet], draws: int) -> str:
    """Means of systems by people on some segments in place of the metric's own, and the mean of both."""
    rows = []
    for name in SHOWN:
        figures = [f"{macro(sets, by(name, SHARE)):.3f}"]
        for count in JUDGED:
            for both in (False, True):
                figures.append(
                    f"{np.mean([_with_judged(sets, name, count, both, d) for d in range(max(1, draws // 10))]):.3f}"
                )
        rows.append([name, *figures])
    head = ["metric", "own means"]
    head += [f"{count} judged{more}" for count in JUDGED for more in ("", " and own")]
    return table(head, rows)


def _with_judged(sets: Sequence[ScoredSet], name: str, count: int, both: bool, draw: int) -> float:
    """The macro figure where people judged some segments of every set, on all others."""
    figures = []
    for one in sets:
        random = np.random.default_rng([draw, len(one.mqm)])
        chosen = random.choice(len(one.mqm), count, replace=False)
        others = np.setdiff1d(np.arange(len(one.mqm)), chosen)
        means = standardised(-one.mqm[chosen]).mean(axis=0)
        own = one.z[name].mean(axis=0)
        means = (means + own) / 2 if both else means
        mqm = one.mqm[others]
        figures.append(errors(shrunk(one.z[name][others], SHARE, means), mqm).mean() / mqm.mean())
    return float(np.mean(figures))


def estimated(sets: Sequence[ScoredSet], draws: int) -> str:
    """One share for all against one that is estimated without labels: the share of variance within systems."""

    def share_of(z: FloatArray) -> float:
        between = z.mean(axis=0).var(ddof=1) - (z.var(axis=0, ddof=1) / len(z)).mean()
        within = z.var(axis=0, ddof=1).mean()
        return float(within / (within + max(0.0, between)))

    rows = []
    for name in sets[0].z:
        shares = [share_of(one.z[name]) for one in sets]
        own = macro(sets, lambda one, name=name: shrunk(one.z[name], share_of(one.z[name])))  # type: ignore[misc]
        figures = [macro(sets, by(name, share)) for share in SHARES]
        best = SHARES[int(np.argmin(figures))]
        fixed = macro(sets, by(name, SHARE))
        rows.append(
            [
                name,
                ", ".join(f"{s:.2f}" for s in shares),
                f"{own:.3f}",
                f"{fixed:.3f}",
                f"{min(figures):.3f} at {best:g}",
            ]
        )
    return table(
        ["metric", "estimated s, by set", "with these", f"s = {SHARE:g}", "best share"], rows
    )


def few(sets: Sequence[ScoredSet], draws: int) -> str:
    """Few systems and few lists: what is shrunk against what is not."""
    names = ("CometKiwi", "docWMT22CometKiwiDA", THREE_QE)
    rows = []
    for name in names:
        for count in (2, 3, 5, 8, 12):
            figures = [
                _of_drawn(sets, name, count, share, draws) for share in (0.0, 0.5, SHARE, 1.0)
            ]
            rows.append([name, f"{count} systems", *(f"{value:.3f}" for value in figures)])
        for count in (3, 10, 30, 100):
            figures = [
                _of_few_lists(sets, name, count, share, draws) for share in (0.0, 0.5, SHARE, 1.0)
            ]
            rows.append([name, f"{count} lists", *(f"{value:.3f}" for value in figures)])
    return table(["metric", "of", "s = 0", "0.5", f"{SHARE:g}", "1"], rows)


def _of_drawn(sets: Sequence[ScoredSet], name: str, count: int, share: float, draws: int) -> float:
    """The macro figure over draws of some systems; relative to a random one of all systems."""
    figures = []
    for one in sets:
        for draw in range(max(1, draws // 5)):
            random = np.random.default_rng([draw, len(one.mqm)])
            systems = random.choice(len(one.systems), count, replace=False)
            own = one.taken(np.arange(len(one.mqm)), systems)
            figures.append(
                errors(shrunk(own.z[name], share), own.mqm).mean()
                / one.mqm.mean()
                / len(sets)
                / max(1, draws // 5)
            )
    return float(np.sum(figures))


def _of_few_lists(
    sets: Sequence[ScoredSet], name: str, count: int, share: float, draws: int
) -> float:
    """The macro figure over draws of some lists, whose own means are all there are."""
    figures = []
    for one in sets:
        own = []
        for draw in range(max(1, draws)):
            random = np.random.default_rng([draw, len(one.mqm)])
            segments = random.choice(len(one.mqm), count, replace=False)
            own.append(errors(shrunk(one.z[name][segments], share), one.mqm[segments]).mean())
        figures.append(np.mean(own) / one.mqm.mean())
    return float(np.mean(figures))


def judges(folder: Path) -> str:
    """Language-model judges of WMT22, under the standard there (another judge with a reference), ties by consensus."""
    rows = []
    for path in sorted(folder.glob("judged_wmt22.*.jsonl.gz")):
        standard, by_judge, consensus = _judged_set(path)
        loss = standard.max() - standard  # what the standard takes off
        for name, z in by_judge.items():
            values = [
                z,
                z + TIE_WEIGHT * consensus,
                shrunk(z, SHARE),
                shrunk(z + TIE_WEIGHT * consensus, SHARE),
                shrunk(z, 0.5),
            ]
            figures = [errors(value, loss).mean() / loss.mean() for value in values]
            rows.append([path.name.split(".")[1], name, *(f"{value:.3f}" for value in figures)])
    head = [
        "set",
        "judge",
        "alone",
        "ties by consensus",
        f"s = {SHARE:g}",
        f"ties, s = {SHARE:g}",
        "s = 0.5",
    ]
    return table(head, rows)


STANDARD = "GPT4-DA-refA"


def _judged_set(path: Path) -> tuple[FloatArray, dict[str, FloatArray], FloatArray]:
    """The standard's scores [n, S], standardised ones of every judge without reference, and those of consensus."""
    language = path.name.split(".")[1].partition("-")[2]
    utility = load_metric("chrf").for_language(language)
    standard, consensus = [], []
    scores: dict[str, list[list[float]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            systems = sorted(row["systems"])
            names = [name for name in row if name.endswith("-src")]
            for i in range(len(row["source"])):
                values = {
                    name: [row[name].get(s, [None] * (i + 1))[i] for s in systems]
                    for name in (STANDARD, *names)
                }
                if any(None in own for own in values.values()):
                    continue
                standard.append(values[STANDARD])
                for name in names:
                    scores.setdefault(name, []).append(values[name])
                texts = [row["systems"][s][i] for s in systems]
                matrix = sum(weight * part.pairwise(texts, texts) for weight, part in utility.parts)
                consensus.append(np.asarray(matrix).mean(axis=1))
    z = {name: standardised(np.array(own, float)) for name, own in scores.items()}
    return np.array(standard, float), z, standardised(np.array(consensus))


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
    """Errors by share, a line per metric."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.6))
    grid = np.linspace(0, 1, 21)
    for name in (*SHOWN, "consensus"):
        axes.plot(grid, [macro(sets, by(name, float(share))) for share in grid], label=name)
    axes.set_xlabel("share of the system's mean, s")
    axes.set_ylabel("MQM of the choice / of a random system")
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


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
    parser.add_argument("--only", nargs="+", choices=[*TABLES, "judges", "command"])
    parser.add_argument("--plot", type=Path, help="an SVG file")
    arguments = parser.parse_args()
    wanted = arguments.only or [*TABLES, "judges", "command"]
    sets = [read_set(arguments.folder, pair) for pair in PAIRS]
    for name in wanted:
        if name in TABLES:
            shown = TABLES[name](sets, arguments.draws)
        else:
            shown = (judges if name == "judges" else command)(arguments.folder)
        print(f"\n## {name}\n\n{shown}")
    if arguments.plot:
        plot(sets, arguments.plot)


if __name__ == "__main__":
    main()
