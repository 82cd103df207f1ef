"""Whether MBR chooses better when its metric reads the sentences before, and whose these should be.

    python -m benchmarks.choice_quality.context_choice FOLDER --work WORK [--utilities bertscore embedding]
        [--sets NAME ...] [--readings NAME ...] [--segments N [SET=N ...]] [--model minilm] [--only-kept]
        [--output TABLES.md]

FOLDER holds mt_mqm_* systems files with MQM (lower is better), of which those into English are read: MODEL is an
English encoder. Readings: ``alone``; ``chosen-k``, all candidates behind the k sentences that were chosen before, as
`decode` has it; ``reference-k``, behind those of the human reference, as if nothing had gone wrong so far;
``hypothesis-k``, each candidate behind those of its own system. Printed is the MQM of what is chosen relative to that
of a random candidate, for the other readings the paired difference from `alone`, with 95 % intervals by document (sets
of fewer than ten: by blocks of ten segments), and the share of choices that the context changes. `--segments N` takes
the first N judged segments of a set, `SET=N` of one. Utilities are kept in WORK, which `context_agreement` may share.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.choice_quality.fluency_tables import Chosen, Relative, cell, macro, relative
from benchmarks.support.context_readings import ALONE, KeptUtilities, Reading
from benchmarks.support.judged_segments import JudgedSegments, judged_sets
from benchmarks.support.markdown import table, write_or_print
from discorank.metrics.base import Metric
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.choice import in_order
from discorank.rerank.mbr_decoder import MBRDecoder

SETS = ("ted.zh-en", "newstest2021.zh-en", "wmt23.he-en", "wmt23.zh-en")
UTILITIES = ("bertscore", "embedding")
READINGS = (
    ALONE,
    *(f"chosen-{k}" for k in (1, 2, 3)),
    *(f"reference-{k}" for k in (1, 2, 3)),
    "hypothesis-2",
)


def sequential_picks(metric: Metric, data: JudgedSegments) -> IntArray:
    """What `decode` chooses from left to right, of the segments that count."""
    decoder = MBRDecoder(utility=metric)
    picks = [ranking.index for ranking in decoder.decode(data.records)]
    return np.array([picks[i] for i in data.rated])


def expected_picks(matrices: FloatArray) -> IntArray:
    """The best expected utility of every segment, from utilities [segments, systems, systems + 1]."""
    expected = matrices[:, :, :-1].mean(axis=2)
    return np.array([next(in_order(values)) for values in expected])


def picks_of(
    kept: KeptUtilities, data: JudgedSegments, utility: str, reading: Reading
) -> IntArray | None:
    """What is chosen in a reading, [segments]; None where only kept values are wanted and there are none."""
    if reading.whose != "chosen":
        matrices = kept.of(data, utility, reading)
        return None if matrices is None else expected_picks(matrices)
    metric = kept.metric(utility, reading.width)
    key = f"picks {data.key} {metric.signature()} {metric.info.version}"
    what = f"{data.name}.{utility}.chosen-{reading.width}"
    picks = kept.arrays.array(what, key, lambda: sequential_picks(metric, data).astype(float))
    return None if picks is None else picks.astype(int)


class Row(NamedTuple):
    """What a utility chooses in a set.

    Args:
        data: the set.
        picks: of every reading that is complete, `alone` first, [segments] each.
    """

    data: JudgedSegments
    picks: dict[str, IntArray]

    def chosen(self) -> Chosen:
        """MQM of the choices, a column for every reading."""
        mqm = np.array(self.data.mqm)
        columns = [mqm[np.arange(len(mqm)), own] for own in self.picks.values()]
        documents = len(set(self.data.documents))
        random = mqm.mean(axis=1)
        return Chosen(
            self.data.name, "", np.stack(columns, axis=1), random, self.data.groups, documents
        )

    def changed(self, reading: str) -> float:
        """The share of choices that are other texts than those without context."""
        pairs = zip(self.data.rated, self.picks[ALONE], self.picks[reading], strict=True)
        others = []
        for i, before, now in pairs:
            candidates = self.data.records[i].candidates
            others.append(candidates[before].text != candidates[now].text)
        return float(np.mean(others))


def rows_of(
    kept: KeptUtilities, sets: Sequence[JudgedSegments], utility: str, readings: Sequence[str]
) -> Iterator[Row]:
    """The sets whose values alone are there."""
    for data in sets:
        picks: dict[str, IntArray] = {}
        for name in (ALONE, *(own for own in readings if own != ALONE)):
            own = picks_of(kept, data, utility, Reading.of(name))
            if own is not None:
                picks[name] = own
        if ALONE in picks:
            yield Row(data, picks)


def utility_table(utility: str, rows: Sequence[Row]) -> str:
    """The table of a utility, in Markdown, of the readings that every set has."""
    readings = [name for name in rows[0].picks if all(name in row.picks for row in rows)]
    parts = [
        relative(row._replace(picks={n: row.picks[n] for n in readings}).chosen()) for row in rows
    ]
    lines = []
    for row, part in zip(rows, parts, strict=True):
        lines.append([row.data.name, *_cells(part, [row.changed(name) for name in readings])])
    if len(parts) > 1:
        shares = [float(np.mean([row.changed(name) for row in rows])) for name in readings]
        lines.append([f"macro ({len(parts)})", *_cells(macro(parts), shares)])
    return table([f"`{utility}`", *readings], lines)


def _cells(part: Relative, shares: Sequence[float]) -> Iterator[str]:
    """The value alone; then the differences and the shares of choices that change."""
    yield cell(part, 0)
    for k, share in enumerate(shares[1:], start=1):
        less = cell(part, k).partition("; ")[2]
        yield f"{less}, {share:.0%}"


def facts(rows: Sequence[Row]) -> str:
    """The sets."""
    head = ["set", "segments", "documents", "groups", "systems", "MQM, random", "MQM, oracle"]
    lines = []
    for data, _ in rows:
        mqm = np.array(data.mqm)
        counts = len(mqm), len(set(data.documents)), len(set(data.groups)), mqm.shape[1]
        means = mqm.mean(), mqm.min(axis=1).mean()
        lines.append([data.name, *map(str, counts), *(f"{mean:.3f}" for mean in means)])
    return table(head, lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--utilities", nargs="+", default=list(UTILITIES), choices=UTILITIES)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--readings", nargs="+", default=list(READINGS))
    parser.add_argument("--segments", nargs="+", default=[], metavar="N or SET=N")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--only-kept", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    sets = judged_sets(options.folder, options.sets, options.segments)
    kept = KeptUtilities(options.work / "utilities", options.only_kept, options.model)
    tables = []
    rows: list[Row] = []
    for utility in options.utilities:
        own = list(rows_of(kept, sets, utility, options.readings))
        if own:
            tables.append(utility_table(utility, own))
            rows = max(rows, own, key=len)
    markdown = "\n\n".join([*tables, facts(rows)]) if rows else "nothing yet"
    write_or_print(f"{markdown}\n", options.output)


if __name__ == "__main__":
    main()
