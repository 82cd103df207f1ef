"""Writes everything that commands read: candidate lists, documents, the formats of other tools, systems.

What training reads is in `training_inputs`, what is refused in `wrong_inputs`.
"""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.same_outputs.files import write_lines, write_rows
from benchmarks.same_outputs.making import (
    Row,
    made_documents,
    made_lists,
    made_systems,
    made_tree,
    with_foci,
    with_roles,
    with_tree,
    without_annotation,
)
from benchmarks.same_outputs.training_inputs import write_training
from benchmarks.same_outputs.wrong_inputs import write_wrong

OWN_METRICS = Path(__file__).parent / "own.py"


def write_inputs(folder: Path, checkout: Path) -> None:
    """Writes everything that commands read."""
    folder.mkdir()
    copy_from(checkout, folder)
    lists = made_lists(12, seed=1)
    long = made_lists(60, seed=2, width=4)
    write_lists(folder, lists, long)
    write_documents(folder)
    write_other_formats(folder, lists)
    write_scored(folder, lists)
    write_systems(folder)
    write_training(folder)
    write_wrong(folder, lists, long)
    shutil.copyfile(OWN_METRICS, folder / "own.py")
    settings = ["input: lists.jsonl", "utility: chrf + bleu", "nbest: 2"]
    write_lines(folder / "settings.yaml", settings)


def copy_from(checkout: Path, folder: Path) -> None:
    """Copies the demo files, wherever this checkout has them, and the tiny models."""
    for name in ("demo.jsonl", "summaries.jsonl"):
        places = [checkout / "examples" / name, checkout / "configs" / name]
        present = [path for path in places if path.exists()]
        if not present:
            raise SystemExit(f"{checkout}: no {name} in examples; give a checkout as --inputs")
        shutil.copyfile(present[0], folder / name)
    shutil.copytree(checkout / "tests" / "golden", folder / "golden")


def texts_of(row: Row) -> list[str]:
    """The texts of a list's candidates."""
    return [candidate["text"] for candidate in row["candidates"]]


def write_lists(folder: Path, lists: Sequence[Row], long: Sequence[Row]) -> None:
    """Candidate lists of segments."""
    write_rows(folder / "lists.jsonl", lists)
    compressed = gzip.compress((folder / "lists.jsonl").read_bytes(), mtime=0)
    (folder / "lists.jsonl.gz").write_bytes(compressed)
    write_rows(folder / "long.jsonl", long)
    pseudo, context, sentences = [], [], []
    for i, row in enumerate(lists):
        texts = texts_of(row)
        pseudo.append({"id": f"p{i}", "candidates": texts[:4], "pseudo_references": texts[3:]})
        context.append(row | {"context_only": True} if i % 4 == 1 else row)
        sentences.append({"id": f"t{i}", "candidates": texts})
    write_rows(folder / "pseudo.jsonl", pseudo)
    write_rows(folder / "context.jsonl", context)
    write_rows(folder / "sentences.jsonl", sentences)
    chance = random.Random(3)
    distinct = {text for row in lists for text in texts_of(row)}
    trees = [made_tree(chance, text) for text in sorted(distinct)]
    write_rows(folder / "trees.dis.jsonl", trees)


def write_documents(folder: Path) -> None:
    """Candidate lists of whole documents, plain and with annotations."""
    write_rows(folder / "documents.jsonl", made_documents(4, without_annotation))
    write_rows(folder / "roles.jsonl", made_documents(5, with_roles))
    write_rows(folder / "foci.jsonl", made_documents(6, with_foci))
    write_rows(folder / "trees.jsonl", made_documents(7, with_tree))


def write_other_formats(folder: Path, lists: Sequence[Row]) -> None:
    """N-best lists as other tools write them, their sources and documents, and what generate reads."""
    moses, marian, sockeye, flat = [], [], [], []
    for i, row in enumerate(lists):
        texts = texts_of(row)
        scores = [candidate["logprob"] for candidate in row["candidates"]]
        for text, score in zip(texts, scores, strict=True):
            moses.append(f"{i} ||| {text} ||| LM0= {score} TM0= -1 -2.5 ||| {score / 2}")
            marian.append(f"{i} ||| {text} ||| F0= {score} ||| {score / 5}")
        source = {"sentence_id": i, "text": row["source"]}
        sockeye.append({**source, "translations": texts, "scores": scores})
        flat += texts
    write_lines(folder / "nbest.moses", moses)
    write_lines(folder / "nbest.marian", marian)
    write_rows(folder / "nbest.sockeye", sockeye)
    write_lines(folder / "flat.txt", flat)
    write_lines(folder / "src.txt", [row["source"] for row in lists])
    write_lines(folder / "ids.txt", [row["document"] for row in lists])
    keys = ("id", "document", "position", "source")
    inputs = [{key: row[key] for key in keys} for row in lists]
    write_rows(folder / "inputs.jsonl", inputs)


def write_scored(folder: Path, lists: Sequence[Row]) -> None:
    """What score reads."""
    first, second, references, lowered, segments = [], [], [], [], []
    for row in lists:
        texts = texts_of(row)
        reference = row["references"][0]
        first.append(texts[1])
        second.append(texts[3])
        references.append(reference)
        lowered.append(texts[0].lower())
        segment = {
            "hypothesis": {"A": texts[1], "B": texts[3]},
            "references": [reference, reference.lower()],
            "source": row["source"],
        }
        segments.append(segment)
    write_lines(folder / "a.txt", first)
    write_lines(folder / "b.txt", second)
    write_lines(folder / "ref.txt", references)
    write_lines(folder / "second.txt", lowered)
    write_rows(folder / "segments.jsonl", segments)
    write_rows(folder / "contrastive.jsonl", [contrastive_item(row) for row in lists])


def contrastive_item(row: Row) -> Row:
    """An item with two wrong translations."""
    texts = texts_of(row)
    return {
        "id": row["id"],
        "source": row["source"],
        "correct": texts[0],
        "contrastive": [texts[2], texts[4]],
        "context_source": ["The ferry left."],
        "context_target": ["A ferry left."],
        "phenomenon": ("pronoun", "tense")[row["position"] % 2],
        "distance": row["position"],
        "reference": row["references"][0],
    }


def write_systems(folder: Path) -> None:
    """What compare reads."""
    systems = made_systems(10, seed=8)
    write_rows(folder / "systems.jsonl", systems)
    write_rows(folder / "other.jsonl", made_systems(6, seed=9))
    rankings = [ranking_of(row, i) for row in systems for i in range(3)]
    write_rows(folder / "rankings.jsonl", rankings)


def ranking_of(row: Row, segment: int) -> Row:
    """How people rank the systems on a segment of a document."""
    scores = {name: values[segment] for name, values in row["mqm"].items()}
    ranks = {name: score for name, score in scores.items() if score is not None}
    return {"id": f"{row['id']}:{segment}", "ranks": ranks}
