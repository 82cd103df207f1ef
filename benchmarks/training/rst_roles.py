"""A sentence classifier whose roles are the relations of a treebank, for PDD where no articles with roles are at hand.

    python -m benchmarks.training.rst_roles TREEBANK FOLDER

TREEBANK is what `discorank train rst` reads (a document per line: edus, sent, tree, split). A sentence's role is the
relation of its head unit to a unit of another sentence, in the dependencies of the tree: the head of a span is that of
its first nucleus, and the heads of the others depend on it by the span's relation (Li et al. 2014); the head of the
document has the role Root. FOLDER is for ``pdd(model="FOLDER")``; the figures are on the treebank's test documents.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from discorank.metrics.discourse.roles.role_training import train
from discorank.metrics.discourse.roles.settings import RoleTraining

ROOT = "Root"
Links = dict[int, tuple[int, str]]  # governor and relation of every unit but the root's


def head(tree: Any, links: Links) -> int:
    """The head unit of a span, whose other units are added to the links.

    >>> links: Links = {}
    >>> head(["NS", "Elaboration", "", ["NN", "Joint", "", 0, 1], 2], links), links
    (0, {1: (0, 'Joint'), 2: (0, 'Elaboration')})
    """
    if isinstance(tree, int):
        return tree
    nuclearity, relation, _, *children = tree
    heads = [head(child, links) for child in children]
    first: int = heads[nuclearity.index("N")]
    links |= {unit: (first, relation) for unit in heads if unit != first}
    return first


def roles(tree: Any, sentence: Sequence[int]) -> list[str]:
    """The role of every sentence, in order, from the sentence of every unit."""
    links: Links = {}
    head(tree, links)
    nearest: dict[int, tuple[int, str]] = {}
    for unit, own in enumerate(sentence):
        governor, relation = links.get(unit, (-1, ROOT))
        if governor < 0 or sentence[governor] != own:  # of several, the one nearest to the root
            nearest[own] = min(
                (_depth(unit, links), relation), nearest.get(own, (len(sentence), relation))
            )
    return [nearest[own][1] for own in sorted(nearest)]


def _depth(unit: int, links: Links) -> int:
    depth = 0
    while unit in links:
        unit, depth = links[unit][0], depth + 1
    return depth


def articles(treebank: Path) -> Iterator[dict[str, Any]]:
    """Documents as `discorank train roles` reads them."""
    with gzip.open(treebank, "rt", encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            sentences: dict[int, list[str]] = {}
            for unit, own in zip(document["edus"], document["sent"], strict=True):
                sentences.setdefault(own, []).append(unit)
            texts = [" ".join(units) for _, units in sorted(sentences.items())]
            document_roles = roles(document["tree"], document["sent"])
            yield {
                "id": document["id"],
                "split": document["split"],
                "sentences": texts,
                "roles": document_roles,
            }


def main(treebank: Path, folder: Path) -> None:
    """Trains and prints."""
    documents = list(articles(treebank))
    names = tuple(sorted({role for document in documents for role in document["roles"]}))
    with TemporaryDirectory(dir=folder.parent) as scratch:
        data = Path(scratch) / "articles.jsonl"
        data.write_text(
            "".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8"
        )
        figures = train(RoleTraining(schema=names), data, folder, say=print)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
