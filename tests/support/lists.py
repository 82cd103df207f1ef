"""Made-up candidate lists for tests: deterministic, with duplicates, ragged, some unicode."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = [
    "the",
    "ferry",
    "leaves",
    "fog",
    "harbour",
    "café",
    "über",
    "船",
    "ship",
    "waits",
    "only",
    "when",
    "it",
    "lifts",
    "all",
    "by",
    "a",
    "an",
    "of",
    "...",
    "40",
]


def made_lists(n: int, width: int = 8, seed: int = 0) -> Iterator[dict[str, Any]]:
    """n candidate lists of up to `width` candidates."""
    r = random.Random(seed)
    for i in range(n):
        base = [r.choice(WORDS) for _ in range(r.randint(3, 15))]
        texts = [
            " ".join(r.choice(WORDS) if r.random() < 0.3 else w for w in base)
            for _ in range(r.randint(1, width))
        ]
        candidates = [
            {"text": text, "logprob": -round(r.random() * 20, 3)}
            for text in [*texts, r.choice(texts)]
        ]
        yield {
            "id": f"d{i // 7}:{i % 7}",
            "document": f"d{i // 7}",
            "position": i % 7,
            "candidates": candidates,
        }


def write_lists(path: Path, rows: Any) -> Path:
    """The rows as JSONL."""
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def different_texts(n: int, seed: int = 0) -> list[str]:
    """n different texts of a few words."""
    r = random.Random(seed)
    texts: dict[str, None] = {}
    while len(texts) < n:
        texts[" ".join(r.choices(WORDS, k=r.randint(2, 9)))] = None
    return list(texts)
