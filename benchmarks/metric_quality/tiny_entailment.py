"""A tiny entailment model for `entail`, trained on made pairs: it shows how faithfulness is measured, and no more.

    python -m benchmarks.metric_quality.tiny_entailment TEXTS.jsonl.gz OUT [--encoder FOLDER] [--layers 2] [--minutes 8]

TEXTS has a document a line, {"sentences": [...]}. A window of one or two sentences entails one of them, whole or with
some words left out; it does not entail a sentence in which names, numbers or long words are others of the document,
two are exchanged, a negation is put in or taken out, or one from elsewhere in the document. The first layers of an
encoder (MiniLM if not given) and a head learn to tell them apart. OUT is a folder as transformers writes them; accuracy
is of pairs of every tenth document, which are not trained on. Then, for files of judged summaries:

    python -m discorank compare SUMMEVAL --human consistency --choosers chrf ds-focus entail 'chrf + entail'
        --normalize-parts zscore --model OUT
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers as library

from discorank.metrics.neural.models.files.model_files import locate

transformers: Any = library
LABELS = ("not_entailment", "entailment")
WORDS = range(7, 41)  # of a sentence that is used
BATCH, MAX_TOKENS, LEARNING_RATE = 32, 96, 1e-4
NEGATED = re.compile(
    r"\b(is|are|was|were|has|have|had|can|will|would|could|should|do|does|did)\b( not)?"
)


class Example(NamedTuple):
    """A window, a sentence, and whether the one entails the other."""

    window: str
    sentence: str
    label: int


def examples_of(document: Sequence[str], chance: random.Random) -> list[Example]:
    """Pairs of one document, as many of either label."""
    kept = [i for i, sentence in enumerate(document) if len(sentence.split()) in WORDS]
    pool = sorted({word for sentence in document for word in sentence.split() if _counts(word)})
    made = []
    for i in kept:
        own = document[i]
        neighbours = [own, document[min(i + 1, len(document) - 1)]][: chance.choice((1, 2))]
        window = " ".join(neighbours)
        true = own if chance.random() < 0.4 else shortened(own, chance)
        false = chance.choice((exchanged, replaced, negated))(own, pool, chance)
        if chance.random() < 0.2:
            false = document[chance.choice(kept)]
        if false not in window:
            made += [Example(window, true, 1), Example(window, false, 0)]
    return made


def _counts(word: str) -> bool:
    """Whether a word says who, how many or what."""
    return word[:1].isupper() or word[:1].isdigit() or len(word) > 6


def shortened(sentence: str, chance: random.Random) -> str:
    """The sentence without what stands behind a comma, or without a few small words."""
    parts = sentence.split(", ")
    if len(parts) > 1 and chance.random() < 0.6:
        kept = sorted(chance.sample(range(len(parts)), len(parts) - 1))
        return ", ".join(parts[i] for i in kept)
    return " ".join(w for w in sentence.split() if _counts(w) or chance.random() > 0.2)


def replaced(sentence: str, pool: Sequence[str], chance: random.Random) -> str:
    """The sentence with one to three of its words others of the document."""
    words = sentence.split()
    places = [i for i, word in enumerate(words) if _counts(word)]
    for i in chance.sample(places, min(len(places), chance.randint(1, 3))):
        words[i] = chance.choice(pool)
    return " ".join(words)


def exchanged(sentence: str, pool: Sequence[str], chance: random.Random) -> str:
    """The sentence with two of its words in each other's place."""
    words = sentence.split()
    places = [i for i, word in enumerate(words) if _counts(word)]
    if len(places) < 2:
        return replaced(sentence, pool, chance)
    i, j = chance.sample(places, 2)
    words[i], words[j] = words[j], words[i]
    return " ".join(words)


def negated(sentence: str, pool: Sequence[str], chance: random.Random) -> str:
    """The sentence with its first verb of a few negated, or no longer."""
    changed, count = NEGATED.subn(
        lambda found: found[1] if found[2] else f"{found[1]} not", sentence, count=1
    )
    return changed if count else replaced(sentence, pool, chance)


def model_of(folder: str, layers: int) -> Any:
    """The first layers of an encoder, with a new head."""
    torch.manual_seed(0)
    names = dict(enumerate(LABELS))
    return transformers.AutoModelForSequenceClassification.from_pretrained(
        folder,
        num_labels=len(LABELS),
        id2label=names,
        label2id={name: i for i, name in names.items()},
        num_hidden_layers=layers,
    )


def loss_of(model: Any, tokenizer: Any, batch: Sequence[Example]) -> tuple[Any, int]:
    """The loss of some pairs, and how many are told right."""
    windows, sentences, labels = zip(*batch, strict=True)
    read = tokenizer(
        list(windows),
        list(sentences),
        padding=True,
        truncation="only_first",
        max_length=MAX_TOKENS,
        return_tensors="pt",
    )
    out = model(**read, labels=torch.tensor(labels))
    return out.loss, int((out.logits.argmax(1) == torch.tensor(labels)).sum())


def train(model: Any, tokenizer: Any, examples: Sequence[Example], minutes: float) -> int:
    """Trains for so many minutes, or once over all pairs; returns the number of pairs."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    end = time.monotonic() + 60 * minutes
    model.train()
    seen = 0
    for start in range(0, len(examples), BATCH):
        loss, _ = loss_of(model, tokenizer, examples[start : start + BATCH])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen += len(examples[start : start + BATCH])
        if time.monotonic() > end:
            break
    return seen


def accuracy(model: Any, tokenizer: Any, examples: Sequence[Example]) -> float:
    """The share of pairs that are told right."""
    model.train(False)
    right = 0
    with torch.inference_mode():
        for start in range(0, len(examples), BATCH):
            right += loss_of(model, tokenizer, examples[start : start + BATCH])[1]
    return right / max(1, len(examples))


def main() -> None:
    """Trains, writes, and prints the accuracy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=8)
    options = parser.parse_args()
    folder = str(locate(options.encoder))
    chance = random.Random(0)
    with gzip.open(options.texts, "rt", encoding="utf-8") as file:
        documents = [json.loads(line)["sentences"] for line in file]
    held = [e for document in documents[::10] for e in examples_of(document, chance)][:1000]
    rest = [document for i, document in enumerate(documents) if i % 10]
    examples = [e for _ in range(3) for document in rest for e in examples_of(document, chance)]
    chance.shuffle(examples)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = model_of(folder, options.layers)
    seen = train(model, tokenizer, examples, options.minutes)
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)
    right = accuracy(model, tokenizer, held)
    print(
        f"{seen} pairs, {options.layers} layers; accuracy on {len(held)} held-out pairs: {right:.3f}"
    )


if __name__ == "__main__":
    main()
