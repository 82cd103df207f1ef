"""Makes and writes everything that commands read, the same for the same seed.

Candidate lists, documents, the formats of other tools and systems; what ``train`` reads; and files that are refused.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

OWN_METRICS = Path(__file__).parent / "own.py"
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
# words that show a role
SIGNS = {"Main Event": "cat", "Consequence": "tree", "NA": "mat"}
PRONOUNS = ("he", "she", "they")
WRONG = {
    "empty.jsonl": "",
    "nan.jsonl": '{"id": "a", "candidates": [{"text": "x", "logprob": NaN}]}\n',
    "none.jsonl": '{"id": "a", "candidates": []}\n',
    "negative.jsonl": '{"id": "a", "candidates": [{"text": "x", "votes": -1}, {"text": "y", "votes": 2}]}\n',
    "badtree.jsonl": '{"id": "a", "candidates": [{"text": ["x y"], "rst": ["x"]}, "z"]}\n',
    "short.txt": "one line\n",
    "broken.yaml": "nbest: [1\n",
    "unknown.yaml": "nbset: 1\n",
}
NO_JSON = "{broken\n"
NO_UTF8 = '{"id": "a", "candidates": ["café", "x"]}\n'.encode("latin-1")


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
    moses, marian, flat = [], [], []
    for i, row in enumerate(lists):
        texts = texts_of(row)
        scores = [candidate["logprob"] for candidate in row["candidates"]]
        for text, score in zip(texts, scores, strict=True):
            moses.append(f"{i} ||| {text} ||| LM0= {score} TM0= -1 -2.5 ||| {score / 2}")
            marian.append(f"{i} ||| {text} ||| F0= {score} ||| {score / 5}")
        flat += texts
    write_lines(folder / "nbest.moses", moses)
    write_lines(folder / "nbest.marian", marian)
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


def json_line(value: object) -> str:
    """A value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False) + "\n"


def write_rows(path: Path, rows: Iterable[object]) -> None:
    """Writes JSON lines."""
    write_text(path, "".join(json_line(row) for row in rows))


def write_lines(path: Path, texts: Iterable[str]) -> None:
    """Writes lines."""
    write_text(path, "".join(f"{text}\n" for text in texts))


def write_text(path: Path, text: str) -> None:
    """Writes a text."""
    path.write_text(text, encoding="utf-8")


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


def write_wrong(folder: Path, lists: Sequence[Row], long: Sequence[Row]) -> None:
    """Writes all of it, some from good lists."""
    for name, text in WRONG.items():
        write_text(folder / name, text)
    (folder / "latin1.jsonl").write_bytes(NO_UTF8)
    lines = [json_line(row) for row in lists]
    long_lines = [json_line(row) for row in long]
    # a broken line between two good ones, and in the place of a good one
    inserted = [lines[0], NO_JSON, *lines[1:]]
    replaced = [*long_lines[:30], NO_JSON, *long_lines[31:]]
    write_text(folder / "notjson.jsonl", "".join(inserted))
    write_text(folder / "long_broken.jsonl", "".join(replaced))
    # one id, twice
    write_text(folder / "twice.jsonl", 2 * lines[0])
    # an archive without its end
    whole = (folder / "lists.jsonl.gz").read_bytes()
    (folder / "truncated.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    # a system that lacks a document
    lacking = made_systems(3, seed=8)
    del lacking[2]["systems"]["B"]
    write_rows(folder / "lacking.jsonl", lacking)
