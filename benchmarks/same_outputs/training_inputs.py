"""Writes what ``train`` reads: articles with roles, a treebank, texts, rated pairs."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

from benchmarks.same_outputs.files import write_lines, write_rows
from benchmarks.same_outputs.making import Row, sentence

# words that show a role
SIGNS = {"Main Event": "cat", "Consequence": "tree", "NA": "mat"}
PRONOUNS = ("he", "she", "they")


def write_training(folder: Path) -> None:
    """Writes all of it."""
    chance = random.Random(10)
    articles = [made_article(chance, i) for i in range(12)]
    write_rows(folder / "articles.jsonl", articles)
    splits = ["train"] * 12 + ["dev", "test"] * 2
    treebank = [tree_document(i, split) for i, split in enumerate(splits)]
    write_rows(folder / "treebank.jsonl", treebank)
    sentences = [sentence(chance) for _ in range(80)]
    texts = list(dict.fromkeys(sentences))
    write_lines(folder / "texts.txt", texts)
    rated = []
    for i, (hypothesis, reference) in enumerate(pairwise(texts[:13])):
        rated.append({"hypothesis": hypothesis, "reference": reference, "score": i})
    write_rows(folder / "rated.jsonl", rated)


def made_article(chance: random.Random, number: int) -> Row:
    """An article whose sentences show their roles by their words."""
    roles = [chance.choice(list(SIGNS)) for _ in range(5)]
    signs = [SIGNS[role] for role in roles]
    texts = [f"the {sign} {sign} {sign} ." for sign in signs]
    split = ("train", "train", "test")[number % 3]
    return {"id": f"a{number}", "sentences": texts, "roles": roles, "split": split}


def tree_document(number: int, split: str) -> Row:
    """A document of a treebank."""
    who = PRONOUNS[number % 3]
    what = PRONOUNS[(number + 1) % 3]
    edus = [f"{who} said", f"{what} fell ,", "because it rained .", f"{what} left ."]
    inner = ["SN", "attribution-positive", 0, ["NS", "causal-cause", 1, 2]]
    tree = ["NN", "joint-list", "x", inner, 3]
    return {"id": f"r{number}", "split": split, "edus": edus, "sent": [1, 1, 1, 2], "tree": tree}
