"""Scores of COMET by unbabel-comet's own `predict`.

PYTHON -m benchmarks.support.peers.comet_predict FOLDER THREADS
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from benchmarks.support.peers.process import serve

BATCH = 16


def main(folder: str, threads: str) -> None:
    """Answers `scores`: of texts, references and sources of segments."""
    import torch
    from comet import load_from_checkpoint  # type: ignore[import-not-found]

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.set_num_threads(int(threads))
    model: Any = load_from_checkpoint(str(Path(folder, "checkpoints", "model.ckpt")))

    def scores(hypotheses: list[str], references: list[str], sources: list[str]) -> list[float]:
        triples = []
        for hypothesis, reference, source in zip(hypotheses, references, sources, strict=True):
            triples.append({"src": source, "mt": hypothesis, "ref": reference})
        predicted = model.predict(
            triples, batch_size=BATCH, gpus=0, num_workers=0, progress_bar=False
        )
        return [float(score) for score in predicted.scores]

    serve({"scores": scores})


if __name__ == "__main__":
    main(*sys.argv[1:])
