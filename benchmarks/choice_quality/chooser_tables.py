"""What a chooser gains by how many segments were judged, on sets of translations with MQM, by nested cross-validation.

    python -m benchmarks.choice_quality.chooser_tables FOLDER --work WORK [--ablation | --singly] [--draws 20]

FOLDER holds systems files ``mt_mqm_<set>.<pair>.jsonl.gz``; what was measured and chosen is kept in WORK, so that the
same command goes on. Only segments whose every system is rated count. 20, 50 or 100 segments are drawn by documents
(sets of fewer than 25: by blocks of ten) and all others are chosen; "all" is five folds of documents, ten draws.
Defaults are of the six other sets, weights and strengths of the judged segments. A figure is the mean MQM of what is
chosen over that of a random system; intervals are by document (TED: by blocks of ten segments).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import numpy as np

from benchmarks.support.measured_sets import MeasuredSet, measured_sets
from benchmarks.support.resampling import Resampling, ends, shown
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.chooser import chooser_fit, gains, training
from discorank.rerank.chooser import defaults as defaults_module
from discorank.rerank.chooser.chooser_fit import Defaults, Fit, fit
from discorank.rerank.chooser.defaults import defaults_of
from discorank.rerank.chooser.gains import LEVEL, SMOOTH, measured_gain, shipping
from discorank.rerank.chooser.training import learn
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY, between_sets

JUDGED = ("0", "20", "50", "100", "all")
FOLD_DRAWS, FOLDS = 10, 5
PLAIN_STRENGTH = 6.0
ROWS = {
    "random": "random system",
    "single": "best single system by the judged",
    "hindsight": "best single system in hindsight",
    "mbr": "MBR",
    "prior": "prior, strength 6",
    "plain": "chooser, no features",
    "chooser": "chooser",
    "careful": "chooser, or the single system where it says so",
    "oracle": "oracle",
}


def splits(data: MeasuredSet, judged: str, draws: int) -> Iterator[tuple[IntArray, IntArray]]:
    """(judged segments, others) of every draw."""
    everything = np.arange(len(data.ids))
    if judged == "0":
        yield everything[:0], everything
        return
    seed = crc32(data.name.encode())
    if judged == "all":
        document = data.data.document
        for draw in range(FOLD_DRAWS):
            random = np.random.default_rng([draw, seed])
            fold = (random.permutation(int(document.max()) + 1) % FOLDS)[document]
            for held in np.unique(fold):
                yield np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        return
    for draw in range(draws):
        random = np.random.default_rng([draw, int(judged), seed])
        order = random.permutation(int(data.units.max()) + 1)
        taken = np.concatenate([np.flatnonzero(data.units == unit) for unit in order])
        size = int(judged)
        last = data.units[taken[size - 1]]
        rest = taken[size:]
        yield np.sort(taken[:size]), np.sort(rest[data.units[rest] != last])


def single_draws(data: MeasuredSet, size: int, draws: int) -> Iterator[tuple[IntArray, IntArray]]:
    """(judged segments, others) of every draw, segments drawn one by one over all documents."""
    for draw in range(draws):
        random = np.random.default_rng([draw, size, crc32(data.name.encode())])
        order = random.permutation(len(data.ids))
        yield np.sort(order[:size]), np.sort(order[size:])


def show_single_draws(sets: Sequence[MeasuredSet], draws: int) -> None:
    """The chooser and the single system after segments drawn one by one, beside draws by documents."""
    rows = [["judged", "drawn", "best single system by the judged", "chooser"]]
    beliefs = []
    for i in range(len(sets)):
        plain = [own.data._replace(columns=own.data.columns[:, :, :0]) for own in sets]
        defaults = defaults_of(plain[:i] + plain[i + 1 :])
        beliefs.append(without_features(defaults, sets[i].data.columns.shape[2]))
    for judged in JUDGED[1:-1]:
        for how in ("by documents", "one by one"):
            means = []
            for data, defaults in zip(sets, beliefs, strict=True):
                by_one = how == "one by one"
                pairs = (
                    single_draws(data, int(judged), draws)
                    if by_one
                    else splits(data, judged, draws)
                )
                means.append(_both(data, defaults, pairs))
            cells = [line(sets, means, name, "random")[-1] for name in ("single", "chooser")]
            rows.append([judged, how, *cells])
    print(table(rows))


def _both(
    data: MeasuredSet,
    defaults: Defaults,
    pairs: Iterator[tuple[IntArray, IntArray]],
) -> dict[str, FloatArray]:
    """Mean MQM of every segment when it is not judged."""
    sums = Sums(len(data.ids))
    for train, test in pairs:
        known, scores = data.data.rows(train), data.data.scores[test]
        sums.times[test] += 1
        sums.add("random", test, scores.mean(axis=1))
        sums.add("single", test, scores[:, int(known.errors.mean(axis=0).argmin())])
        sums.add("chooser", test, chosen(data, test, fit(known, defaults)))
    return sums.means()


def without_features(defaults: Defaults, num_features: int) -> Defaults:
    """Defaults under which features count nothing, for so many of them."""
    weights = np.zeros((len(defaults.weights), 1 + num_features))
    weights[:, 0] = defaults.weights[:, 0]
    return defaults._replace(weights=weights)


class Others:
    """What is believed of a set from the other ones."""

    def __init__(self, data: MeasuredSet, sets: Sequence[MeasuredSet]) -> None:
        others = [
            own.data._replace(columns=own.data.columns[:, :, :0]) for own in sets if own is not data
        ]
        self.defaults = defaults_of(others)
        found = []
        for i, own in enumerate(others):
            found.append(measured_gain(own, defaults_of(others[:i] + others[i + 1 :])))
        self.gain = between_sets(found)


class Sums:
    """Scores of what is chosen, summed over draws."""

    def __init__(self, size: int) -> None:
        self.totals: dict[str, FloatArray] = {}
        self.times = np.zeros(size)
        self.said: list[tuple[float, float, float, float]] = []  # ratio, low, high expected; found

    def add(self, name: str, rows: IntArray, scores: FloatArray) -> None:
        total = self.totals.setdefault(name, np.zeros(len(self.times)))
        total[rows] += scores

    def means(self) -> dict[str, FloatArray]:
        """[n] by row of the table, nan where a segment was never chosen."""
        tested = self.times > 0
        times = np.where(tested, self.times, 1)
        return {
            name: np.where(tested, total / times, np.nan) for name, total in self.totals.items()
        }


def chosen(data: MeasuredSet, rows: IntArray, learned: Fit) -> FloatArray:
    """MQM of what is chosen."""
    own = data.data.rows(rows)
    return np.asarray(own.scores[np.arange(len(rows)), learned.choices(own)])


def decided(data: MeasuredSet, judged: str, others: Others, draws: int) -> Sums:
    """All rows of the table for one set and number of judged segments."""
    sums = Sums(len(data.ids))
    num_features = data.data.columns.shape[2]
    defaults = without_features(others.defaults, num_features)
    scores = data.data.scores
    hindsight = int(scores.mean(axis=0).argmin())
    for train, test in splits(data, judged, draws):
        known = data.data.rows(train)
        sums.times[test] += 1
        learned, gain = learn(known, defaults, others.gain)
        consensus = np.eye(1 + num_features)[0]
        plain = fit(known._replace(columns=known.columns * 0), defaults)
        rows = {
            "random": scores[test].mean(axis=1),
            "oracle": scores[test].min(axis=1),
            "hindsight": scores[test, hindsight],
            "mbr": chosen(data, test, learned._replace(strength=0.0, weights=consensus)),
            "plain": chosen(data, test, plain),
            "chooser": chosen(data, test, learned),
        }
        if len(train):
            rows["single"] = scores[test, int(known.errors.mean(axis=0).argmin())]
            rows["prior"] = chosen(
                data, test, learned._replace(strength=PLAIN_STRENGTH, weights=consensus)
            )
            careful = shipping(learned) if gain.as_good else learned
            rows["careful"] = chosen(data, test, careful)
            found = (rows["chooser"].sum() + SMOOTH) / (rows["single"].sum() + SMOOTH)
            sums.said.append((gain.ratio, *gain.interval, float(found)))
        for name, values in rows.items():
            sums.add(name, test, values)
    return sums


def ablated(data: MeasuredSet, judged: str, others: Others, draws: int) -> Sums:
    """The chooser with all features, without each, and with each alone."""
    sums = Sums(len(data.ids))
    for train, test in splits(data, judged, draws):
        sums.times[test] += 1
        sums.add("random", test, data.data.scores[test].mean(axis=1))
        everything = range(len(SURFACE))
        kept = {"all": list(everything), "none": []}
        for i in everything:
            kept[f"without {SURFACE[i]}"] = [j for j in everything if j != i]
            kept[f"{SURFACE[i]} alone"] = [i]
        for name, features in kept.items():
            own = data._replace(data=data.data._replace(columns=data.data.columns[:, :, features]))
            learned = fit(own.data.rows(train), without_features(others.defaults, len(features)))
            sums.add(name, test, chosen(own, test, learned))
    return sums


class Kept:
    """What was decided, in a folder: made anew where the code that decides has changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        modules = (chooser_fit, defaults_module, gains, training)
        code = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)
        self.key = sha256(code + Path(__file__).read_bytes()).hexdigest()[:12]

    def path(self, *names: object) -> Path:
        """Where it lies."""
        return self.folder / f"{'.'.join(map(str, names))}.{self.key}.npz"


def read_or_made(
    kept: Kept, what: str, data: MeasuredSet, judged: str, others: Others, draws: int
) -> Sums:
    """The sums of one set and number of judged segments."""
    path = kept.path(what, data.name, judged, draws)
    if path.exists():
        with np.load(path) as file:
            sums = Sums(len(data.ids))
            sums.times = file["times"]
            sums.said = [tuple(row) for row in file["said"].tolist()]
            sums.totals = {name: file[name] for name in file.files if name not in ("times", "said")}
            return sums
    sums = (decided if what == "rows" else ablated)(data, judged, others, draws)
    said = np.array(sums.said).reshape(-1, 4)
    np.savez(path, times=sums.times, said=said, **sums.totals)  # type: ignore[arg-type]
    return sums


def ratios(data: MeasuredSet, values: FloatArray, base: FloatArray) -> tuple[float, FloatArray]:
    """The ratio of means, and its draws by document."""
    tested = ~np.isnan(values)
    groups = [str(number) for number in data.groups[tested]]
    means = Resampling(groups, seed=crc32(data.name.encode())).means(
        np.stack([values, base], axis=1)[tested]
    )
    return float(values[tested].mean() / base[tested].mean()), means[:, 0] / means[:, 1]


def line(
    sets: Sequence[MeasuredSet], means: Sequence[dict[str, FloatArray]], name: str, base: str
) -> list[str]:
    """A row of a table: every set, and the macro mean with its interval."""
    pairs = [ratios(data, own[name], own[base]) for data, own in zip(sets, means, strict=True)]
    macro = float(np.mean([value for value, _ in pairs]))
    draws = np.mean([draw for _, draw in pairs], axis=0)
    return [*(f"{value:.3f}" for value, _ in pairs), shown(macro, draws)]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as Markdown, the first its head."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"|{'---|' * len(rows[0])}", *body])


def show(sets: Sequence[MeasuredSet], others: Sequence[Others], kept: Kept, draws: int) -> None:
    names = [data.name for data in sets]
    said = []
    for judged in JUDGED:
        sums = [
            read_or_made(kept, "rows", d, judged, o, draws)
            for d, o in zip(sets, others, strict=True)
        ]
        means = [own.means() for own in sums]
        rows = [[f"{judged} judged", *names, "macro"]]
        for name, label in ROWS.items():
            if name in means[0]:
                rows.append([label, *line(sets, means, name, "random")])
        print(f"\n{table(rows)}", flush=True)
        if judged == "0":
            continue
        rows = [["against the single system", *names, "macro"]]
        for name in ("prior", "plain", "chooser", "careful"):
            rows.append([ROWS[name], *line(sets, means, name, "single")])
        rows.append(["chooser against the prior", *line(sets, means, "chooser", "prior")])
        print(f"\n{table(rows)}", flush=True)
        said.append([judged, *calibration([row for own in sums for row in own.said])])
    head = [
        "judged",
        "expected ratio",
        "found",
        "in the interval",
        "said to ship",
        "found then",
        "else",
    ]
    print(f"\nWhat the chooser says of itself\n\n{table([head, *said])}")


def calibration(said: Sequence[tuple[float, float, float, float]]) -> list[str]:
    """Mean expected and found ratios, the share within the interval, and what was found where it says to ship."""
    ratio, low, high, found = np.array(said).T
    inside = ((low <= found) & (found <= high)).mean()
    ships = low >= LEVEL
    of_ships = f"{_mean(found[ships]):.3f}" if ships.any() else "-"
    of_rest = f"{_mean(found[~ships]):.3f}" if not ships.all() else "-"
    return [
        f"{_mean(ratio):.3f}",
        f"{_mean(found):.3f}",
        f"{inside:.2f}",
        f"{ships.mean():.2f}",
        of_ships,
        of_rest,
    ]


def _mean(ratios_of_draws: FloatArray) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(ratios_of_draws).mean()))


def show_ablation(
    sets: Sequence[MeasuredSet], others: Sequence[Others], kept: Kept, draws: int
) -> None:
    columns: dict[str, list[str]] = {}
    for judged in JUDGED[1:]:
        sums = [
            read_or_made(kept, "ablation", d, judged, o, draws)
            for d, o in zip(sets, others, strict=True)
        ]
        means = [own.means() for own in sums]
        for name in means[0]:
            if name != "random":
                cells = columns.setdefault(name, [name])
                cells.append(_difference(sets, means, name))
    print(f"\n{table([['features', *JUDGED[1:]], *columns.values()])}")


def show_transfer(sets: Sequence[MeasuredSet]) -> None:
    """Without judgements, features weighted as the other sets teach."""
    everything = list(range(len(SURFACE)))
    kept = {"none": [], "all": everything, **{SURFACE[i]: [i] for i in everything}}
    rows = [["no judgements, weights of the other sets", *(data.name for data in sets), "macro"]]
    for name, features in kept.items():
        data = [own.data._replace(columns=own.data.columns[:, :, features]) for own in sets]
        means = []
        for i, own in enumerate(data):
            defaults = defaults_of(data[:i] + data[i + 1 :])
            learned = fit(own.rows(np.arange(0)), defaults)
            found = own.scores[np.arange(len(own.scores)), learned.choices(own)]
            means.append({"found": found, "random": own.scores.mean(axis=1)})
        rows.append([name, *line(sets, means, "found", "random")])
    print(f"\n{table(rows)}", flush=True)


def _difference(
    sets: Sequence[MeasuredSet], means: Sequence[dict[str, FloatArray]], name: str
) -> str:
    """The macro mean, and its difference from no features."""
    own = [ratios(data, m[name], m["random"]) for data, m in zip(sets, means, strict=True)]
    none = [ratios(data, m["none"], m["random"]) for data, m in zip(sets, means, strict=True)]
    value = np.mean([a for a, _ in own])
    difference = value - np.mean([a for a, _ in none])
    draws = np.mean([a - b for (_, a), (_, b) in zip(own, none, strict=True)], axis=0)
    low, high = ends(draws)
    return f"{value:.3f}; {difference:+.3f} [{low:+.3f}, {high:+.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--singly", action="store_true")
    options = parser.parse_args()
    sets = measured_sets(options.folder, UTILITY, SURFACE, options.work)
    if options.singly:
        show_single_draws(sets, options.draws)
        return
    if options.ablation:
        show_transfer(sets)
    others = [Others(data, sets) for data in sets]
    kept = Kept(options.work)
    if options.ablation:
        show_ablation(sets, others, kept, options.draws)
    else:
        show(sets, others, kept, options.draws)


if __name__ == "__main__":
    main()
