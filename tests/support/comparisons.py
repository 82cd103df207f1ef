"""Small comparisons and runs to report on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from discorank import load_metric
from discorank.cli.main import main
from discorank.rerank.selection.comparison import (
    MetaEvaluation,
    ScoreCube,
    SystemComparison,
    compare_systems,
)
from discorank.rerank.selection.ratings import People
from discorank.rerank.selection.significance import SystemPair, Verdicts
from discorank.rerank.selection.system_scores import DocumentOutputs

SETTINGS = {"input": "systems.jsonl", "level": 0.05, "draws": 300, "seed": 0}
TEXT = (
    "the cat sat on a mat and saw two dogs run by "
    "it then slept while rain fell over old roofs of quiet towns"
)
WORDS = TEXT.split()
EVIL = "</script><!--<img src=x onerror=alert(1)><script>window.ran=1</script>\u2028'\"&amp;{{7*7}}${x}"


def sentence(random: Random, words: int = 12) -> str:
    return " ".join(random.choices(WORDS, k=words))


def spoilt(random: Random, text: str, rate: float) -> str:
    return " ".join(
        random.choice(WORDS) if random.random() < rate else word for word in text.split()
    )


def wrong(text: str, reference: str) -> float:
    """How many words differ."""
    return float(sum(a != b for a, b in zip(text.split(), reference.split(), strict=True)))


def outputs(
    systems: Sequence[str], documents: int, segments: int = 2, names: str = "d"
) -> list[DocumentOutputs]:
    """Documents whose systems are the worse the later they stand, judged with errors that are counted."""
    random = Random(3)
    made = []
    for d in range(documents):
        reference = tuple(sentence(random) for _ in range(segments))
        texts = {
            name: tuple(spoilt(random, r, 0.1 + 0.25 * s) for r in reference)
            for s, name in enumerate(systems)
        }
        errors = {name: tuple(map(wrong, text, reference)) for name, text in texts.items()}
        human = {"mqm": errors}
        source = tuple(text.upper() for text in reference)
        made.append(
            DocumentOutputs(f"{names}{d}", False, source, texts, {"refA": reference}, human)
        )
    return made


def comparison(
    systems: Sequence[str] = ("A", "B", "C"),
    documents: int = 8,
    metrics: Sequence[str] = ("chrf", "ter"),
    judged: bool = True,
    names: str = "d",
) -> SystemComparison:
    """A comparison as ``compare --save`` keeps it."""
    human = [("mqm", True)] if judged else []
    loaded = [load_metric(name) for name in metrics]
    made = outputs(systems, documents, names=names)
    found = compare_systems(loaded, made, human, input="systems.jsonl", draws=300)
    return replace(found, settings=SETTINGS)


def large(systems: int, documents: int, segments: int, metrics: int) -> SystemComparison:
    """A comparison of that size with invented scores."""
    random = Random(1)
    names = tuple(f"System-{s}" for s in range(systems))
    texts = [
        {
            name: tuple(sentence(random, 20) for _ in range(segments))
            for name in (*names, "refA", "source")
        }
        for _ in range(documents)
    ]
    made = []
    for d, text in enumerate(texts):
        people = {
            name: tuple(float(random.randrange(20)) for _ in range(segments)) for name in names
        }
        source, references = text.pop("source"), {"refA": text.pop("refA")}
        made.append(DocumentOutputs(f"doc-{d}", False, source, text, references, {"mqm": people}))
    verdicts = tuple(_scores(f"metric-{m}", names, random) for m in range(metrics))
    human = MetaEvaluation(_scores("mqm", names, random), (), ())
    layers = (*(one.name for one in verdicts), "mqm")
    values = np.random.default_rng(1).random((len(layers), systems, documents * (1 + segments)))
    scores = ScoreCube(layers, names, (segments,) * documents, values)
    return SystemComparison(SETTINGS, {}, verdicts, (human,), People(), tuple(made), scores)


def _scores(name: str, systems: tuple[str, ...], random: Random) -> Verdicts:
    n = len(systems)
    values = tuple(random.random() for _ in systems)
    low, high = tuple(x - 0.1 for x in values), tuple(x + 0.1 for x in values)
    pairs = tuple(
        SystemPair(a, b, values[a] - values[b], random.random() / 5, -0.1, 0.1)
        for a in range(n)
        for b in range(a + 1, n)
    )
    return Verdicts(name, True, systems, values, low, high, (1,) * n, pairs, False)


def run_of(folder: Path, lists: Sequence[dict[str, Any]], *arguments: str) -> Path:
    """What ``decode`` (or the subcommand named first) makes of lists."""
    source, out = folder / "lists.jsonl", folder / "chosen.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in lists), encoding="utf-8")
    command = arguments if arguments[0] == "rerank" else ("decode", *arguments)
    assert main([command[0], str(source), *command[1:], "-o", str(out), "--quiet"]) in (0, 3)
    return out


LISTS: list[dict[str, Any]] = [
    {
        "id": "one",
        "source": "s",
        "candidates": ["the cat sat", {"text": "the cat ran", "logprob": -1.5}, "a dog", "a dog"],
    },
    {"id": "two", "source": "t", "candidates": ["it slept well", "it slept", "it did sleep well"]},
    {"id": "three", "source": "u", "candidates": ["only one text"]},
]
