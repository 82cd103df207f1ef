"""From texts to synthetic pairs, stage by stage: texts, embed, search, mine, perturb (Xu et al. 2023, section 4.1).

Every stage is a folder of shards (see `stages`) in one work folder, made from that of the stage before. What happens to
an anchor depends on the seed and its number alone, so shards, interruptions and devices change nothing but the last
bits of similarities. Nothing here judges how bad a mistake is: see `severity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ..errors import InputError
from ..neural.models.encoder import device_of
from ..representations import Array, FloatArray, IntArray
from ..spec.checked_settings import settings
from .edit_sampling import Operations, mined, random_edits, sampled
from .edits import Edit, applied, edits_between
from .embedding import SentenceEncoder, digest_of
from .job_stages import OnProgress, Stage, finished, opened
from .neighbours import Search, margins, means
from .spaced_words import Words, joined, word_splitter

SHARD = 1024  # texts
Row = Mapping[str, Any]
Pair = tuple[str, str | None]  # a text, and the source that it translates


@settings
class Synthesis:
    """How texts are given mistakes.

    Args:
        words: how texts are split into words: unicode, whitespace, or a function of yours, module:function.
        max_words: longer texts are left out.
        min_words: shorter texts are left out.
        encoder: what finds similar texts: minilm, a folder or a name on the hub.
        neighbours: k of the margin.
        margin: the least margin of a neighbour.
        min_cosine: the least cosine of a neighbour.
        anchors: how many texts are given mistakes, drawn at random; all if not given. All serve as neighbours.
        samples: synthetic texts per anchor, each from a neighbour of its own as far as there are any.
        drops: the share of random word drops among mistakes.
        operations: which mistakes are made: all, delete or insert-replace.
        edits: where mistakes come from: retrieved neighbours, or random words (an ablation).
        seed: of all draws.
    """

    words: str = "unicode"
    max_words: Annotated[int, Field(ge=1)] = 100
    min_words: Annotated[int, Field(ge=1)] = 3
    encoder: str = "minilm"
    neighbours: Annotated[int, Field(ge=1)] = 128
    margin: float = 1.06
    min_cosine: float = -1.0
    anchors: Annotated[int, Field(ge=1)] | None = None
    samples: Annotated[int, Field(ge=1)] = 1
    drops: Annotated[float, Field(ge=0, le=1)] = 1 / 3
    operations: Operations = "all"
    edits: Literal["retrieved", "random"] = "retrieved"
    seed: Annotated[int, Field(ge=0)] = 1


def quiet(done: int) -> None:
    """Shows nothing."""


def write_texts(
    work: Path, pairs: Iterable[Pair], how: Synthesis, on_progress: OnProgress = quiet
) -> Stage:
    """Keeps the distinct texts of a usable length, with their sources if there are any.

    Args:
        work: the work folder.
        pairs: texts with their sources or None; read once.
        how: the settings.
        on_progress: called with the number of texts read.
    """
    kept: dict[str, Row] = {}
    counts = {"read": 0, "empty or too short": 0, "too long": 0, "duplicates": 0}
    split = word_splitter(how.words)
    digest = blake2b(digest_size=16)
    for text, source in pairs:
        text = " ".join(text.split())
        digest.update(f"{text}\0{source or ''}\n".encode("utf-8", "surrogatepass"))
        counts["read"] += 1
        on_progress(counts["read"])
        words = len(split(text))
        if text in kept:
            counts["duplicates"] += 1
        elif words < how.min_words:
            counts["empty or too short"] += 1
        elif words > how.max_words:
            counts["too long"] += 1
        else:
            kept[text] = {"text": text} | ({"source": source} if source else {})
    rows = list(kept.values())
    if len(rows) < 2:
        raise InputError(
            f"{len(rows)} usable texts of {counts['read']}", where="texts", fix="Give more texts"
        )
    identity = {"input": digest.hexdigest(), **_some(how, "words", "min_words", "max_words")}
    with opened(work / "texts", identity) as stage:
        if not stage.complete:
            for start in range(SHARD * len(stage.shards), len(rows), SHARD):
                stage.write(rows[start : start + SHARD])
            stage.finish({**counts, "kept": len(rows)})
        return stage


def embed(
    work: Path, how: Synthesis, device: str | None = None, on_progress: OnProgress = quiet
) -> Stage:
    """Makes the vectors of all texts."""
    texts = finished(work / "texts")
    identity = {"before": texts.digest, "encoder": digest_of(how.encoder)}
    with opened(work / "embed", identity) as stage:
        if not stage.complete:
            encoder = SentenceEncoder(how.encoder, device)
            for i, shard in list(enumerate(texts.shards))[len(stage.shards) :]:
                stage.write(encoder([row["text"] for row in texts.rows([shard])]))
                on_progress(SHARD * (i + 1))
            stage.finish({"texts": len(stage.array())})
        return stage


def search(
    work: Path, how: Synthesis, device: str | None = None, on_progress: OnProgress = quiet
) -> Stage:
    """Finds the nearest neighbours of all texts."""
    texts, before = finished(work / "texts"), finished(work / "embed")
    with opened(work / "search", {"before": before.digest, **_some(how, "neighbours")}) as stage:
        if not stage.complete:
            known = [row["text"] for row in texts.rows()]
            find = Search(before.array(), known, how.neighbours, device=device_of(device))
            for start in range(SHARD * len(stage.shards), len(known), SHARD):
                stage.write(find(np.arange(start, min(start + SHARD, len(known)))))
                on_progress(start + SHARD)
            stage.finish({"texts": len(known)})
        return stage


def mine(work: Path, how: Synthesis, on_progress: OnProgress = quiet) -> Stage:
    """Keeps the neighbours of every anchor that pass the margin, the best first.

    Rows: "anchor" (the number of its text), "neighbours" (theirs).
    """
    before = finished(work / "search")
    identity = {"before": before.digest, **_some(how, "margin", "min_cosine", "anchors", "seed")}
    with opened(work / "mine", identity) as stage:
        if stage.complete:
            return stage
        every = np.concatenate([means(before.array([shard])) for shard in before.shards])
        anchors = _anchors(len(every), how)
        start = sum(len(before.array([shard])) for shard in before.shards[: len(stage.shards)])
        for shard in before.shards[len(stage.shards) :]:
            found = before.array([shard])
            own = anchors[(anchors >= start) & (anchors < start + len(found))]
            stage.write(_kept(found[own - start], own, every, how))
            start += len(found)
            on_progress(start)
        kept = [len(row["neighbours"]) for row in stage.rows()]
        stage.finish(
            {"anchors": len(kept), "without neighbour": kept.count(0), "neighbours": sum(kept)}
        )
        return stage


def _kept(found: Array, anchors: IntArray, every: FloatArray, how: Synthesis) -> list[Row]:
    """The neighbours of some anchors that pass."""
    margin = margins(found, every[anchors], every)
    good = (margin >= how.margin) & (found["cosine"] >= how.min_cosine) & (found["id"] >= 0)
    rows: list[Row] = []
    for i, anchor in enumerate(anchors.tolist()):
        best = sorted(np.flatnonzero(good[i]).tolist(), key=lambda place: -margin[i, place])
        rows.append(
            {"anchor": anchor, "neighbours": [int(found["id"][i, place]) for place in best]}
        )
    return rows


def perturb(
    work: Path, how: Synthesis, on_progress: OnProgress = quiet, folder: str = "perturb"
) -> Stage:
    """Gives the anchors mistakes.

    Rows: "anchor" (its number), "words" of the anchor, "edits" [[start, end, words], ...], disjoint and sorted, and
    "source" where there is one.
    """
    texts, before = finished(work / "texts"), finished(work / "mine")
    names = ("words", "samples", "drops", "operations", "edits", "seed")
    with opened(work / folder, {"before": before.digest, **_some(how, *names)}) as stage:
        if stage.complete:
            return stage
        known = list(texts.rows())
        maker = _Maker(known, how)
        for i, shard in list(enumerate(before.shards))[len(stage.shards) :]:
            stage.write([made for row in before.rows([shard]) for made in maker(row)])
            on_progress(SHARD * (i + 1))
        made = [row["anchor"] for row in stage.rows()]
        anchors = (before.counts or {})["anchors"]
        stage.finish(
            {"synthetic texts": len(made), "anchors without a mistake": anchors - len(set(made))}
        )
        return stage


class _Maker:
    """Makes the synthetic texts of an anchor."""

    def __init__(self, texts: list[dict[str, Any]], how: Synthesis) -> None:
        self.texts, self.how, self.split = texts, how, word_splitter(how.words)
        self.vocabulary: list[str] = []
        if how.edits == "random":
            self.vocabulary = [word for row in texts for word in self.split(row["text"])]

    def __call__(self, row: Row) -> Iterator[Row]:
        anchor, neighbours = row["anchor"], row["neighbours"]
        random = np.random.default_rng([self.how.seed, anchor])
        held = self.texts[anchor]
        words = self.split(held["text"])
        order = random.permutation(len(neighbours))
        for number in range(self.how.samples):
            other = neighbours[int(order[number % len(order)])] if len(order) else None
            edits = self._edits(words, other, random)
            text = joined(applied(words, edits))
            if text and text != held["text"]:
                plain = [[edit.start, edit.end, list(edit.words)] for edit in edits]
                source = {"source": held["source"]} if "source" in held else {}
                yield {"anchor": anchor, "words": list(words), "edits": plain, **source}

    def _edits(self, words: Words, other: int | None, random: np.random.Generator) -> list[Edit]:
        if self.how.edits == "random":
            proposals = random_edits(len(words), self.vocabulary, random)
        else:
            proposals = (
                []
                if other is None
                else mined(edits_between(words, self.split(self.texts[other]["text"])))
            )
        return sampled(proposals, len(words), random, self.how.drops, self.how.operations)


def _anchors(count: int, how: Synthesis) -> IntArray:
    if how.anchors is None or how.anchors >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng([how.seed, count]).permutation(count)[: how.anchors])


def _some(how: Synthesis, *names: str) -> dict[str, Any]:
    values = asdict(how)
    return {name: values[name] for name in names}
