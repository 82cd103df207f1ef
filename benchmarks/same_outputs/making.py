"""Makes up texts, and candidate lists, documents and systems of them; the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]

SUBJECTS = ("The mayor", "A ferry", "The old fisherman", "The council", "Our library", "The café")
VERBS = ("reopened", "repaired", "praised", "sold", "left", "saw")
OBJECTS = (
    "the harbour",
    "a wooden bridge",
    "the new school",
    "two boats",
    "the sea wall",
    "a ship",
)
ENDS = (
    "on Monday",
    "after the storm",
    "because it rained",
    "for forty years",
    "near the river",
    "",
)
ROLE_NAMES = ("Main Event", "Consequence", "Current Context", "NA")


def sentence(chance: random.Random) -> str:
    """A sentence of words that come again in others."""
    parts = [chance.choice(part) for part in (SUBJECTS, VERBS, OBJECTS, ENDS)]
    return f"{' '.join(parts).strip()}."


def spoilt(chance: random.Random, text: str, share: float) -> str:
    """The text with a share of its words replaced."""
    vocabulary = " ".join((*SUBJECTS, *VERBS, *OBJECTS, *ENDS)).lower().split()
    words = []
    for word in text.split():
        replaced = chance.random() < share
        words.append(chance.choice(vocabulary) if replaced else word)
    return " ".join(words)


def made_lists(count: int, seed: int, width: int = 6) -> list[Row]:
    """Candidate lists of documents of four segments, some candidates twice."""
    chance = random.Random(seed)
    rows = []
    for i in range(count):
        best = sentence(chance)
        texts = [spoilt(chance, best, 0.1 * j) for j in range(width - 1)]
        texts.append(chance.choice(texts))
        candidates = []
        for text in texts:
            logprob = -round(20 * chance.random(), 3)
            votes = chance.randint(0, 5) + 1
            candidates.append({"text": text, "logprob": logprob, "votes": votes})
        document, position = divmod(i, 4)
        row = {
            "id": f"d{document}:{position}",
            "document": f"d{document}",
            "position": position,
            "source": spoilt(chance, best, 0.3),
            "candidates": candidates,
            "references": [best],
        }
        rows.append(row)
    return rows


def made_documents(seed: int, annotated: Callable[[random.Random, list[str]], Row]) -> list[Row]:
    """Lists whose candidates are arrays of sentences, with what `annotated` adds to each."""
    chance = random.Random(seed)
    rows = []
    for i in range(4):
        source = [sentence(chance) for _ in range(3)]
        candidates = []
        for j in range(4):
            texts = [spoilt(chance, text, 0.15 * j) for text in source]
            # the very last candidate is shorter than the others
            if i == j == 3:
                texts.pop()
            candidates.append({"text": texts, **annotated(chance, texts)})
        rows.append({"id": f"doc{i}", "source": source, "candidates": candidates})
    return rows


def without_annotation(chance: random.Random, texts: Sequence[str]) -> Row:
    """Nothing."""
    return {}


def with_roles(chance: random.Random, texts: Sequence[str]) -> Row:
    """Roles of sentences."""
    return {"roles": [chance.choice(ROLE_NAMES) for _ in texts]}


def with_foci(chance: random.Random, texts: Sequence[str]) -> Row:
    """The first word of each sentence as what it is about."""
    firsts = [text.split()[0] for text in texts]
    return {"foci": [[[first.lower(), 0, len(first)]] for first in firsts]}


def with_tree(chance: random.Random, texts: Sequence[str]) -> Row:
    """A discourse tree over sentences cut in two."""
    children = [made_tree(chance, text) for text in texts]
    return {"rst": {"nuc": "N" * len(texts), "rel": "Joint", "children": children}}


def made_tree(chance: random.Random, text: str) -> Row:
    """A tree of two leaves."""
    words = text.split()
    middle = len(words) // 2
    nucleus = chance.choice(("NS", "SN"))
    relation = chance.choice(("Elaboration", "Cause", "my own"))
    return {"nuc": nucleus, "rel": relation, "children": [words[:middle], words[middle:]]}


def made_systems(documents: int, seed: int) -> list[Row]:
    """A systems file: three systems, one reference, human scores where lower is better."""
    chance = random.Random(seed)
    shares = {"A": 0.1, "B": 0.25, "C_2": 0.4}
    rows = []
    for i in range(documents):
        reference = [sentence(chance) for _ in range(3)]
        systems = {}
        scores: dict[str, list[float | None]] = {}
        for name, share in shares.items():
            texts = [spoilt(chance, text, share) for text in reference]
            pairs = zip(texts, reference, strict=True)
            systems[name] = texts
            scores[name] = [float(wrong_words(text, right)) for text, right in pairs]
        if i % 4 == 3:
            scores["B"][1] = None
        row = {
            "id": f"s{i}",
            "source": [spoilt(chance, text, 0.5) for text in reference],
            "references": {"refA": reference},
            "systems": systems,
            "mqm": scores,
        }
        rows.append(row)
    return rows


def wrong_words(text: str, right: str) -> int:
    """How many words were replaced."""
    pairs = zip(text.split(), right.split(), strict=True)
    return sum(word != right_word for word, right_word in pairs)
