"""How well SEScore2 agrees with people, beside chrF, BERTScore and the cosine of the untrained encoder.

    python -m benchmarks.metric_quality.sescore2 DATA --model FOLDER [--model FOLDER ...]
        [--segments 100] [--encoder minilm]

DATA holds d2t_bagel.jsonl.gz and mt_mqm_*-en.jsonl.gz. Segment-level Kendall (tau-b): BAGEL's three aspects against the
best of its references; MQM over all rated rows and, in brackets, within segments.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from pathlib import Path
from time import process_time

from benchmarks.support.rated import Score, agreement, into_english, of_cosine, of_metric
from discorank.metrics.errors import TruncationWarning


def table(data: Path, scorers: Mapping[str, Score], segments: int | None) -> None:
    """Prints a row per set and rating, a column per metric."""
    print(f"{'':34}{'rows':>6}" + "".join(f"{name:>18}" for name in scorers), flush=True)
    for rated in into_english(data, segments):
        taus = {
            name: agreement(rated, score(rated.hypotheses, rated.references))
            for name, score in scorers.items()
        }
        for aspect in rated.human:
            cells = [
                f"{tau[aspect]:.3f}" + (f" ({tau['within']:.3f})" if "within" in tau else "")
                for tau in taus.values()
            ]
            label = f"{rated.name} {aspect}"
            print(
                f"{label:34}{len(rated.hypotheses):6}" + "".join(f"{cell:>18}" for cell in cells),
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--no-peers", action="store_true", help="the models alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore", TruncationWarning)
    scorers: dict[str, Score] = {}
    if not options.no_peers:
        scorers = {
            "chrf": of_metric("chrf"),
            "bertscore": of_metric(f'bertscore(model="{options.encoder}")'),
            "cosine": of_cosine(options.encoder),
        }
    scorers |= {
        Path(model).name[-16:]: of_metric(f'sescore2(model="{model}")') for model in options.model
    }
    begun = process_time()
    table(options.data, scorers, options.segments or None)
    print(f"{process_time() - begun:.0f} CPU-s")


if __name__ == "__main__":
    main()
