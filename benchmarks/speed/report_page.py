"""The page of a large comparison: how long it takes to make, how large it is, how soon a browser shows it.

    python -m benchmarks.speed.report_page [--systems 15] [--documents 100] [--segments 10]
        [--metrics chrf bleu ter rouge-l]

Compares systems that spoil the same texts at different rates, saves the run, and makes the page through the command
line. Load times are the browser's own (Chromium's navigation timing, from the start to the end of the load event; and
until two frames after it are drawn), the best and the worst of five; the browser is found as the tests find it.
"""

from __future__ import annotations

import argparse
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

from discorank.cli.main import main as discorank
from tests.support.browser import Browser, browser_path
from tests.support.comparisons import sentence, spoilt

LOADED = """new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const [entry] = performance.getEntriesByType('navigation');
  done([entry.domInteractive, entry.loadEventEnd, performance.now()]);
})))"""
REPEATS = 5


def write_systems(path: Path, systems: int, documents: int, segments: int) -> None:
    """A systems file with human scores that count the spoilt words, with some missing."""
    random = Random(1)
    with open(path, "w", encoding="utf-8") as file:
        for d in range(documents):
            reference = [sentence(random, random.randint(8, 30)) for _ in range(segments)]
            texts = {
                f"System-{s:02}": [spoilt(random, r, 0.05 + 0.03 * s) for r in reference]
                for s in range(systems)
            }
            mqm = {
                name: [
                    float(random.randrange(10)) if random.random() < 0.9 else None
                    for _ in reference
                ]
                for name in texts
            }
            source = [text.upper() for text in reference]
            row = {
                "id": f"d{d}",
                "source": source,
                "references": {"refA": reference},
                "systems": texts,
                "mqm": mqm,
            }
            file.write(json.dumps(row) + "\n")


def load_times(page: Path, program: str) -> list[tuple[float, float, float]]:
    """Milliseconds until the page can be used, is loaded, and is drawn, of some runs."""
    times = []
    with Browser(program) as browser:
        for _ in range(REPEATS):
            with browser.page(page) as shown:
                times.append(tuple(shown.run(LOADED)))
    return times


def main() -> None:
    """Makes and loads the page."""
    parser = argparse.ArgumentParser()
    for name, default in (("systems", 15), ("documents", 100), ("segments", 10), ("draws", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--metrics", nargs="+", default=["chrf", "bleu", "ter", "rouge-l"])
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        systems, run, page = folder / "systems.jsonl", folder / "run", folder / "report.html"
        write_systems(systems, options.systems, options.documents, options.segments)
        compared = [
            "compare",
            str(systems),
            "-m",
            *options.metrics,
            "--human",
            "mqm:lower",
            "--draws",
            str(options.draws),
        ]
        with redirect_stdout(io.StringIO()):
            discorank([*compared, "--save", str(run), "--quiet"])
        start = perf_counter()
        discorank(["report", str(run), "-o", str(page), "--quiet"])
        seconds = perf_counter() - start
        size = f"{options.systems} systems, {options.documents} documents"
        print(f"\n{size}, {options.segments} segments, {options.metrics}")
        print(f"made in       {seconds:8.2f} s")
        print(f"size          {page.stat().st_size / 1e6:8.2f} MB")
        program = browser_path()
        if program is None:
            print("no browser found: load times not measured")
            return
        for label, times in zip(
            ("usable", "loaded", "drawn"), zip(*load_times(page, program), strict=True), strict=True
        ):
            print(f"{label:<12} {min(times):6.0f} to {max(times):.0f} ms")


if __name__ == "__main__":
    main()
