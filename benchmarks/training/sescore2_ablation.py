"""What the parts of SEScore2's synthesis are worth (section 6.8 of the paper): edits, operations, severity, data size.

    python -m benchmarks.training.sescore2_ablation WORK DATA [--pairs 4000] [--sizes 1000 2000 5000 10000 20000]
        [--frozen-layers -1] [--epochs 2] [--segments 20] [--mlm FOLDER]

WORK is the work folder of a finished `discorank train sescore2` (its texts, vectors and neighbours serve all variants);
DATA as in `benchmarks.metric_quality.sescore2`. Every variant is trained with the same settings on the same number of
pairs. As in the
paper, random words and single operations are compared without severity: a text's score is then minus the number of its
mistakes. Columns: Kendall's tau-b on BAGEL's aspects; its mean over the MQM sets, over all rows and within segments.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.support.rated import Rated, agreement, into_english, of_metric
from discorank.metrics.errors import TruncationWarning
from discorank.metrics.sescore2.fitting import fit
from discorank.metrics.sescore2.labelling import label
from discorank.metrics.sescore2.severity import Severity
from discorank.metrics.sescore2.synthesis import Synthesis, perturb
from discorank.metrics.sescore2.training_settings import Training

ASPECTS = ("informativeness", "naturalness", "quality", "MQM", "within")


def variants(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any], Severity, int]]:
    """Name, what differs in the synthesis, severity, and number of pairs of every variant."""
    off, stops = Severity(severity="off"), Severity()
    yield "random words, no severity", {"edits": "random"}, off, options.pairs
    yield "retrieved, delete only, no severity", {"operations": "delete"}, off, options.pairs
    yield (
        "retrieved, insert/replace only, no severity",
        {"operations": "insert-replace"},
        off,
        options.pairs,
    )
    yield "retrieved, no severity", {}, off, options.pairs
    yield "retrieved, stop-list severity", {}, stops, options.pairs
    if options.mlm:
        for mode in ("paper", "code"):
            judged = Severity(severity=mode, mlm=options.mlm)
            yield f"retrieved, {mode} severity", {}, judged, options.pairs
    for size in options.sizes:
        if size != options.pairs:
            yield f"retrieved, stop-list severity, {size} pairs", {}, stops, size


def measured(model: Path, sets: list[Rated]) -> list[float]:
    """A model's agreement with people, in the order of ASPECTS."""
    score = of_metric(f'sescore2(model="{model}")')
    bagel, *others = [agreement(rated, score(rated.hypotheses, rated.references)) for rated in sets]
    own = [bagel[aspect] for aspect in ASPECTS[:3]]
    return [*own, *(float(np.mean([tau[name] for tau in others])) for name in ("mqm", "within"))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 2000, 5000, 10000, 20000])
    parser.add_argument("--frozen-layers", type=int, default=-1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--head-learning-rate", type=float, default=5e-4)
    parser.add_argument("--segments", type=int, default=20)
    parser.add_argument("--mlm")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    warnings.simplefilter("ignore", TruncationWarning)
    sets = into_english(options.data, options.segments)
    print(
        f"{'':48}{'pairs':>6}" + "".join(f"{name:>16}" for name in ASPECTS) + f"{'CPU-s':>8}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for stage in ("texts", "embed", "mine"):
            (work / stage).symlink_to((options.work / stage).resolve())
        for number, (variant, changed, severity, pairs) in enumerate(variants(options)):
            begun = process_time()
            synthesis = Synthesis(**changed)
            perturb(work, synthesis, folder=f"perturb{number}")
            label(
                work, severity, options.device, before=f"perturb{number}", folder=f"label{number}"
            )
            training = Training(
                pairs=pairs,
                epochs=options.epochs,
                frozen_layers=options.frozen_layers,
                learning_rate=options.learning_rate,
                head_learning_rate=options.head_learning_rate,
            )
            model = work / f"model{number}"
            fit(
                work,
                model,
                training,
                options.device,
                before=f"label{number}",
                folder=f"fit{number}",
            )
            taus = measured(model, sets)
            cells = "".join(f"{tau:16.3f}" for tau in taus)
            print(f"{variant:48}{pairs:6}{cells}{process_time() - begun:8.0f}", flush=True)


if __name__ == "__main__":
    main()
