"""CPU seconds of ``compare --tasks wmt23`` on an invented folder of WMT23's size, by one or two versions of discorank.

    python -m benchmarks.speed.metric_tasks [BEFORE AFTER] [--metrics 41] [--share 1.0] [--tasks wmt23]

BEFORE and AFTER are folders with an importable package ``discorank`` (the installed one if none is given); both read
one folder, in processes of their own, with one thread. Says how far their values, ranks and p are apart. SHARE makes
the folder smaller. Texts are invented, and so are all scores: a system's quality, a segment's, and noise.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.measuring import one_thread, table
from discorank.metrics.representations import FloatArray


class Size(NamedTuple):
    """Of a language pair: segments, those that people scored, systems, and outputs that are no systems."""

    segments: int
    rated: int
    systems: int
    references: tuple[str, ...]
    synthetic: tuple[str, ...] = ()


WMT23 = {
    "en-de": Size(557, 460, 12, ("refA",), ("synthetic_ref",)),
    "he-en": Size(1910, 820, 12, ("refA", "refB")),
    "zh-en": Size(1976, 1177, 15, ("refA",), ("synthetic_ref",)),
}
MAIN = {"he-en": "refB"}  # the reference that metrics read; refA elsewhere
DOCUMENT = 10  # segments


def write_folder(root: Path, metrics: int = 41, share: float = 1.0, seed: int = 0) -> Path:
    """Writes a test set under the name wmt23 in the form of mt-metrics-eval, and returns its folder."""
    folder = root / "wmt23"
    for number, (pair, size) in enumerate(WMT23.items()):
        random = np.random.default_rng([seed, number])
        segments, rated = (max(DOCUMENT, round(share * n)) for n in (size.segments, size.rated))
        _write_texts(folder, pair, size, segments)
        names = [*(f"system{s:02}" for s in range(size.systems)), *size.references, *size.synthetic]
        of_systems = random.normal(0, 1, (len(names), 1))
        quality = (
            of_systems + random.normal(0, 2, segments) + random.normal(0, 2, (len(names), segments))
        )
        errors = np.floor(np.maximum(0.0, 3 - quality))
        errors[:, rated:] = np.nan  # None in the file
        people = {
            name: -row
            for name, row in zip(names, errors, strict=True)
            if name != MAIN.get(pair, "refA") and name not in size.synthetic
        }
        _write_scores(folder / "human-scores" / f"{pair}.mqm", people)
        for m in range(metrics):
            noise = random.normal(0, 1 + m / 10, quality.shape)
            scores = dict(zip(names, np.round(quality + noise, 4), strict=True))
            if m % 3 == 2:
                base = f"metric{m:02}-src"
            else:
                base = f"metric{m:02}-{MAIN.get(pair, 'refA')}"
                del scores[MAIN.get(pair, "refA")]
            _write_scores(folder / "metric-scores" / pair / base, scores)
    return folder


def _write_texts(folder: Path, pair: str, size: Size, segments: int) -> None:
    """Sources, references, outputs and documents of a language pair."""
    names = [f"references/{pair}.{name}" for name in size.references]
    outputs = [*(f"system{s:02}" for s in range(size.systems)), *size.references, *size.synthetic]
    names += [f"system-outputs/{pair}/{name}" for name in outputs]
    for name in (f"sources/{pair}", *names):
        path = folder / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{path.stem} says {i}.\n" for i in range(segments)))
    path = folder / "documents" / f"{pair}.docs"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"news document{i // DOCUMENT}\n" for i in range(segments)))


def _write_scores(stem: Path, scores: Mapping[str, FloatArray]) -> None:
    """Scores of segments and of systems, which are means."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{stem}.seg.score").write_text(
        "".join(f"{name}\t{_shown(value)}\n" for name, row in scores.items() for value in row)
    )
    Path(f"{stem}.sys.score").write_text(
        "".join(f"{name}\t{_shown(float(np.nanmean(row)))}\n" for name, row in scores.items())
    )


def _shown(value: float) -> str:
    return "None" if np.isnan(value) else repr(float(value))


def run(source: str | None, folder: Path, tasks: str) -> tuple[float, dict[str, Any]]:
    """CPU seconds of a version, and what it prints."""
    environment = {**one_thread(), **({"PYTHONPATH": source} if source else {})}
    words = ["-m", "discorank", "compare", str(folder), "--tasks", tasks, "--format", "json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *words, "--quiet"], check=True, capture_output=True, env=environment
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, json.loads(done.stdout)


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    """How far two outputs are apart."""
    for table_name, field in (("values", "value"), ("values", "rank"), ("p", "p")):
        one, other = (_numbers(output[table_name], field) for output in (first, second))
        gaps = [abs(one[key] - other[key]) for key in one.keys() | other.keys()]
        yield f"{field}: {len(gaps)} numbers, at most {max(gaps):.2g} apart"


def _numbers(rows: list[dict[str, Any]], field: str) -> dict[tuple[str | None, ...], float]:
    """The numbers of a table by task and metric, or by task and pair of metrics."""
    names = ("task", "metric", "better", "worse")
    return {tuple(row.get(name) for name in names): row[field] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", metavar="SOURCE")
    parser.add_argument("--metrics", type=int, default=41)
    parser.add_argument("--share", type=float, default=1.0, help="of WMT23's segments")
    parser.add_argument("--tasks", default="wmt23")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = write_folder(Path(place), arguments.metrics, arguments.share)
        found = [run(source, folder, arguments.tasks) for source in arguments.versions or [None]]
    rows = [
        [source, f"{seconds:.1f}", f"{seconds / found[0][0]:.2f}"]
        for source, (seconds, _) in zip(arguments.versions or ["installed"], found, strict=True)
    ]
    print(table(["version", "CPU seconds", "ratio"], rows))
    if len(found) == 2:
        print("\n".join(_differences(found[0][1], found[1][1])))


if __name__ == "__main__":
    main()
