"""Sentences with their gold EDUs and trees, read from documents with discourse trees.

A line of the JSONL is a document: ``id``; ``edus``, a text or list of words each; ``sent``, the number of the sentence
of each EDU; ``tree``, where a leaf is the place of an EDU and a node ``[nuclearity, relation, ..., child, child, ...]``
(texts between relation and children are ignored); ``split``, "train", "dev" or "test", else drawn by the id. A sentence
whose EDUs are a constituent of the document's tree has a gold tree; of the others, the constituents inside are used.

Part-of-speech tags for training only: the parser's own tagger learns from them, and is all that runs later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

from ....errors import InputError, ModelLoadError, excerpt
from ....storage.json_and_yaml import parse_small_json
from ....text.sentence_splitting import numbered_lines
from ...trees import coarse, split_right
from ..parser import Cut, Cuts

Tagger = Literal["auto", "hanta", "none"]
NO_TAG = "-"


def tagged(sentences: Sequence[Sequence[str]], tagger: Tagger = "auto") -> list[list[str]]:
    """The tags of every sentence; `NO_TAG` throughout with "none", or with "auto" where HanTa is not installed.

    Raises:
        ModelLoadError: "hanta" was asked for and is not installed.
    """
    if tagger != "none":
        try:
            from HanTa.HanoverTagger import HanoverTagger
        except ImportError:
            if tagger == "hanta":
                fix = "Install it: pip install HanTa"
                raise ModelLoadError("HanTa is not installed", where="tagger", fix=fix) from None
        else:
            model = HanoverTagger("morphmodel_en.pgz")
            return [_tags(model, words) for words in sentences]
    return [[NO_TAG] * len(words) for words in sentences]


def _tags(model: Any, words: Sequence[str]) -> list[str]:
    tokens = model.tag_sent(list(words))  # word, lemma, tag
    return [str(tag) for _, _, tag in tokens]


SPLITS = ("train", "dev", "test")
_FIX = "See the module discorank.metrics.rst.parser.training.treebank for the form"
# what a line that is JSON, but not of the form, may raise
_BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: its words, where its EDUs start (and its end), the gold nodes inside, and whether they are a tree."""

    document: str
    words: list[str]
    starts: list[int]
    cuts: Cuts
    whole: bool


def read_treebank(path: Path) -> dict[str, list[Sentence]]:
    """The sentences of every split.

    Raises:
        InputError: the file cannot be read, a line is not of the form, or a split is empty.
    """
    parts: dict[str, list[Sentence]] = {split: [] for split in SPLITS}
    for number, line in numbered_lines(path, _FIX):
        where = f"{path}:{number}"
        try:
            document = parse_small_json(line.encode("utf-8", "surrogatepass"), where, _FIX)
            parts[_split(document, where)] += list(_sentences(document))
        except InputError:
            raise
        except _BROKEN as error:
            problem = f"{type(error).__name__}: {str(error)[:200]}"
            raise InputError(problem, where=where, fix=_FIX) from None
    for split, sentences in parts.items():
        if not any(sentence.whole for sentence in sentences):
            problem = f"no trees of sentences in the split {split!r}"
            raise InputError(problem, where=str(path), fix=_FIX)
    return parts


def _split(document: Mapping[str, Any], where: str) -> str:
    """The split of a document; where it names none, 80 % are for training, 10 % each for choosing and testing."""
    tenth = crc32(str(document["id"]).encode()) % 10
    split = document.get("split") or ("dev", "test", *["train"] * 8)[tenth]
    if split not in SPLITS:
        fix = f"Expected {', '.join(SPLITS)}, or none"
        raise InputError(f"found the split {excerpt(split)}", where=where, fix=fix)
    return str(split)


def _sentences(document: Mapping[str, Any]) -> Iterator[Sentence]:
    """The sentences of a document; its EDUs, sentence numbers and tree are checked first."""
    edus = [edu.split() if isinstance(edu, str) else list(edu) for edu in document["edus"]]
    numbers = document["sent"]
    if len(numbers) != len(edus):
        raise ValueError(f"{len(numbers)} sentence numbers for {len(edus)} EDUs")
    if not all(edus):
        raise ValueError(f"EDU {edus.index([])} has no words: leave it and its leaf out")
    cuts: Cuts = {}
    first, last = binary_span(document["tree"], cuts)
    if (first, last) != (0, len(edus) - 1):
        raise ValueError(f"a tree over EDUs {first} to {last} of {len(edus)}")
    begin = 0
    for end in range(1, len(edus) + 1):
        if end == len(edus) or numbers[end] != numbers[begin]:
            yield _sentence(str(document["id"]), edus[begin:end], begin, cuts)
            begin = end


def _sentence(document: str, edus: list[list[str]], begin: int, cuts: Cuts) -> Sentence:
    """The sentence of these EDUs, of which the document's EDU `begin` is the first."""
    starts = [0]
    for edu in edus:
        starts.append(starts[-1] + len(edu))
    end = begin + len(edus) - 1
    inside: Cuts = {}
    for i in range(begin, end):
        for j in range(i + 1, end + 1):
            cut = cuts.get((i, j))
            if cut is not None:
                inside[i - begin, j - begin] = cut._replace(middle=cut.middle - begin)
    words = [word for edu in edus for word in edu]
    whole = len(edus) > 1 and (begin, end) in cuts
    return Sentence(document, words, starts, inside, whole)


def binary_span(node: Any, cuts: Cuts) -> tuple[int, int]:
    """First and last EDU of a node; the nodes of its binary form go to `cuts`."""
    if isinstance(node, int):
        return node, node
    nuc, rel, *rest = node
    spans = [binary_span(child, cuts) for child in rest if not isinstance(child, str)]
    adjacent = all(right[0] == left[1] + 1 for left, right in pairwise(spans))
    if len(nuc) != len(spans) or len(spans) < 2 or not adjacent:
        raise ValueError(f"node {nuc} {rel} over {spans}")
    _cut(nuc, coarse(rel), spans, cuts)
    return spans[0][0], spans[-1][1]


def _cut(nuc: str, rel: str, spans: list[tuple[int, int]], cuts: Cuts) -> None:
    """The binary nodes of one node, from the outside in."""
    while len(spans) > 1:
        at, letters = (1, nuc) if len(spans) == 2 else split_right(nuc)
        first, last = spans[0][0], spans[-1][1]
        middle = spans[at - 1][1]
        cuts[first, last] = Cut(middle, letters, rel)
        # the part that has more than one child: all but the last, or all but the first
        remaining = slice(0, at) if at > 1 else slice(1, None)
        nuc, spans = nuc[remaining], spans[remaining]
