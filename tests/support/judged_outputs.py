"""Outputs of four systems, A the best and D the worst, with human scores of errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from discorank.rerank.selection.system_scores import DocumentOutputs

WORDS = ["the", "cat", "sat", "on", "a", "mat", "today", "3", "dogs", "ran", ".", "?"]


def outputs(documents: int = 8, judged: int = 8, seed: int = 0) -> list[DocumentOutputs]:
    """Documents of five segments; a system garbles more words the later it stands, and people count them."""
    random = np.random.default_rng(seed)
    made = []
    for d in range(documents):
        texts: dict[str, list[str]] = {name: [] for name in "ABCD"}
        scores: dict[str, list[float | None]] = {name: [] for name in "ABCD"}
        source = []
        for _ in range(5):
            words = [str(word) for word in random.choice(WORDS, 8)]
            source.append(" ".join(words))
            for k, name in enumerate("ABCD"):
                wrong = random.random(8) < 0.08 * (k + 1)
                garbled = [f"{w}x{name}" if bad else w for w, bad in zip(words, wrong, strict=True)]
                texts[name].append(" ".join(garbled))
                scores[name].append(float(wrong.sum()) if d < judged else None)
        systems = {name: tuple(own) for name, own in texts.items()}
        human = {"mqm": {name: tuple(own) for name, own in scores.items()}}
        made.append(DocumentOutputs(f"d{d}", False, tuple(source), systems, {}, human))
    return made


def systems_file(path: Path, documents: list[DocumentOutputs]) -> Path:
    rows = []
    for document in documents:
        systems = {name: list(texts) for name, texts in document.systems.items()}
        mqm = {name: list(scores) for name, scores in document.human["mqm"].items()}  # type: ignore[arg-type]
        rows.append({"id": document.id, "source": document.source, "systems": systems, "mqm": mqm})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
