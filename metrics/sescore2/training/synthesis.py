"""From texts to synthetic pairs, stage by stage: texts, embed, search, mine, perturb (Xu et al. 2023, section 4.1).

Every stage is a folder of shards (see `job_stages`) in one work folder, made from that of the stage before. What
happens to an anchor depends on the seed and its number alone, so shards, interruptions and devices change nothing but
the last bits of similarities. Nothing here judges how bad a mistake is: see `severity`.

Margin-based nearest neighbours of sentence vectors (Schwenk et al. 2021; Xu et al. 2023, appendix B).

    m(x, y) = cos(x, y) / (sum_{z in NN_k(x)} cos(x, z) / 2k + sum_{z in NN_k(y)} cos(y, z) / 2k)

Search is exact: tiles of a matrix product, or a flat index of faiss where that is installed and there are many vectors.
A text is no neighbour of itself, neither by number nor by text; the released code counts it among its own k neighbours
(``count_self``). A margin compares a pair with what is usual around both, so k has to be large against the number of
texts that say the same.

Vectors are means of an encoder's last layer over all tokens, of length 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...execution.store import in_batches
from ...neural.comet.network import Mixer
from ...neural.models.context_tokens import Frame, Reader
from ...neural.models.encoder import Encoder, device_of
from ...neural.models.files import model_files as files
from ...neural.models.pretrained import pretrained, tokenizer_of
from ...representations import Array, FloatArray, IntArray
from ...spec.checked_settings import Field, settings
from ...text.texts import Item
from .edits import (
    Edit,
    Operations,
    Words,
    applied,
    edits_between,
    joined,
    mined,
    random_edits,
    sampled,
    word_splitter,
)
from .job_stages import OnProgress, Stage, finished, opened

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
    work: Path,
    pairs: Iterable[Pair],
    settings: Synthesis,
    on_progress: OnProgress = quiet,
) -> Stage:
    """Keeps the distinct texts of a usable length, with their sources if there are any.

    Args:
        work: the work folder.
        pairs: texts with their sources or None; read once.
        settings: the settings.
        on_progress: called with the number of texts read.
    """
    usable: dict[str, Row] = {}
    counts = {"read": 0, "empty or too short": 0, "too long": 0, "duplicates": 0}
    split = word_splitter(settings.words)
    digest = blake2b(digest_size=16)
    for text, source in pairs:
        text = " ".join(text.split())
        line = f"{text}\0{source or ''}\n"
        digest.update(line.encode("utf-8", "surrogatepass"))
        counts["read"] += 1
        on_progress(counts["read"])
        words = len(split(text))
        if text in usable:
            counts["duplicates"] += 1
        elif words < settings.min_words:
            counts["empty or too short"] += 1
        elif words > settings.max_words:
            counts["too long"] += 1
        else:
            source_field = {"source": source} if source else {}
            usable[text] = {"text": text, **source_field}
    rows = list(usable.values())
    if len(rows) < 2:
        problem = f"{len(rows)} usable texts of {counts['read']}"
        raise InputError(problem, where="texts", fix="Give more texts")
    identity = {"input": digest.hexdigest(), **_subset(settings, "words", "min_words", "max_words")}
    with opened(work / "texts", identity) as stage:
        if not stage.complete:
            for start in range(SHARD * len(stage.shards), len(rows), SHARD):
                stage.write(rows[start : start + SHARD])
            stage.finish({**counts, "kept": len(rows)})
        return stage


def embed(
    work: Path,
    settings: Synthesis,
    device: str | None = None,
    on_progress: OnProgress = quiet,
) -> Stage:
    """Makes the vectors of all texts."""
    texts = finished(work / "texts")
    identity = {"before": texts.digest, "encoder": digest_of(settings.encoder)}
    with opened(work / "embed", identity) as stage:
        if not stage.complete:
            encoder = SentenceEncoder(settings.encoder, device)
            for shard in texts.shards[len(stage.shards) :]:
                shard_texts = [row["text"] for row in texts.rows([shard])]
                stage.write(encoder(shard_texts))
                on_progress(SHARD * len(stage.shards))
            stage.finish({"texts": len(stage.array())})
        return stage


def search(
    work: Path,
    settings: Synthesis,
    device: str | None = None,
    on_progress: OnProgress = quiet,
) -> Stage:
    """Finds the nearest neighbours of all texts."""
    texts = finished(work / "texts")
    before = finished(work / "embed")
    identity = {"before": before.digest, **_subset(settings, "neighbours")}
    with opened(work / "search", identity) as stage:
        if not stage.complete:
            known = [row["text"] for row in texts.rows()]
            vectors = before.array()
            find = Search(vectors, known, settings.neighbours, device=device_of(device))
            for start in range(SHARD * len(stage.shards), len(known), SHARD):
                stop = min(start + SHARD, len(known))
                stage.write(find(np.arange(start, stop)))
                on_progress(start + SHARD)
            stage.finish({"texts": len(known)})
        return stage


def mine(
    work: Path,
    settings: Synthesis,
    on_progress: OnProgress = quiet,
) -> Stage:
    """Keeps the neighbours of every anchor that pass the margin, the best first.

    Rows: "anchor" (the number of its text), "neighbours" (theirs).
    """
    before = finished(work / "search")
    identity = {
        "before": before.digest,
        **_subset(settings, "margin", "min_cosine", "anchors", "seed"),
    }
    with opened(work / "mine", identity) as stage:
        if stage.complete:
            return stage
        # every text's mean, as a margin needs those of both texts
        all_means = np.concatenate([means(before.array([shard])) for shard in before.shards])
        anchors = _anchors(len(all_means), settings)
        done = before.shards[: len(stage.shards)]
        start = sum(len(before.array([shard])) for shard in done)  # first text of the next shard
        for shard in before.shards[len(stage.shards) :]:
            neighbours = before.array([shard])
            inside = (anchors >= start) & (anchors < start + len(neighbours))
            own = anchors[inside]
            stage.write(_passing(neighbours[own - start], own, all_means, settings))
            start += len(neighbours)
            on_progress(start)
        numbers = [len(row["neighbours"]) for row in stage.rows()]
        counts = {
            "anchors": len(numbers),
            "without neighbour": numbers.count(0),
            "neighbours": sum(numbers),
        }
        stage.finish(counts)
        return stage


def _passing(
    neighbours: Array,
    anchors: IntArray,
    all_means: FloatArray,
    settings: Synthesis,
) -> list[Row]:
    """The neighbours of some anchors that pass, the best first.

    Args:
        neighbours: `NEIGHBOUR` [anchors, k].
        anchors: the numbers of their texts, [anchors].
        all_means: the mean cosine of every text's neighbours, [texts].
        settings: the least margin and cosine.
    """
    ids = neighbours["id"]
    cosines = neighbours["cosine"]
    margin = margins(neighbours, all_means[anchors], all_means)
    near = (margin >= settings.margin) & (cosines >= settings.min_cosine)
    passes = near & (ids >= 0)
    rows: list[Row] = []
    for i, anchor in enumerate(anchors.tolist()):
        places = np.flatnonzero(passes[i])
        best_first = places[np.argsort(-margin[i, places], kind="stable")]
        rows.append({"anchor": anchor, "neighbours": ids[i, best_first].tolist()})
    return rows


def perturb(
    work: Path,
    settings: Synthesis,
    on_progress: OnProgress = quiet,
    folder: str = "perturb",
) -> Stage:
    """Gives the anchors mistakes.

    Rows: "anchor" (its number), "words" of the anchor, "edits" [[start, end, words], ...], disjoint and sorted, and
    "source" where there is one.
    """
    texts = finished(work / "texts")
    before = finished(work / "mine")
    names = ("words", "samples", "drops", "operations", "edits", "seed")
    identity = {"before": before.digest, **_subset(settings, *names)}
    with opened(work / folder, identity) as stage:
        if stage.complete:
            return stage
        known = list(texts.rows())
        maker = _MistakeMaker(known, settings)
        for shard in before.shards[len(stage.shards) :]:
            stage.write([text for row in before.rows([shard]) for text in maker(row)])
            on_progress(SHARD * len(stage.shards))
        with_mistakes = [row["anchor"] for row in stage.rows()]
        num_anchors = (before.counts or {})["anchors"]
        counts = {
            "synthetic texts": len(with_mistakes),
            "anchors without a mistake": num_anchors - len(set(with_mistakes)),
        }
        stage.finish(counts)
        return stage


class _MistakeMaker:
    """Makes the synthetic texts of an anchor."""

    def __init__(self, texts: list[dict[str, Any]], settings: Synthesis) -> None:
        self.texts = texts
        self.settings = settings
        self.split = word_splitter(settings.words)
        self.vocabulary: list[str] = []
        if settings.edits == "random":
            self.vocabulary = [word for row in texts for word in self.split(row["text"])]

    def __call__(self, row: Row) -> Iterator[Row]:
        """The rows of `perturb` of an anchor, a row of `mine`."""
        anchor = row["anchor"]
        neighbours = row["neighbours"]
        random = np.random.default_rng([self.settings.seed, anchor])
        original = self.texts[anchor]
        words = self.split(original["text"])
        order = random.permutation(len(neighbours))
        for number in range(self.settings.samples):
            neighbour = None
            if len(order):
                neighbour = neighbours[int(order[number % len(order)])]
            edits = self._edits(words, neighbour, random)
            text = joined(applied(words, edits))
            if text and text != original["text"]:
                plain = [[edit.start, edit.end, list(edit.words)] for edit in edits]
                source = {"source": original["source"]} if "source" in original else {}
                yield {"anchor": anchor, "words": list(words), "edits": plain, **source}

    def _edits(
        self,
        words: Words,
        neighbour: int | None,
        random: np.random.Generator,
    ) -> list[Edit]:
        """The mistakes of one synthetic text, from a neighbour (the number of its text) or random words."""
        proposals: list[Edit] = []
        if self.settings.edits == "random":
            proposals = random_edits(len(words), self.vocabulary, random)
        elif neighbour is not None:
            other = self.split(self.texts[neighbour]["text"])
            proposals = mined(edits_between(words, other))
        drops = self.settings.drops
        operations = self.settings.operations
        return sampled(proposals, len(words), random, drops, operations)


def _anchors(count: int, settings: Synthesis) -> IntArray:
    """The numbers of the texts that are given mistakes, ascending."""
    if settings.anchors is None or settings.anchors >= count:
        return np.arange(count)
    order = np.random.default_rng([settings.seed, count]).permutation(count)
    return np.sort(order[: settings.anchors])


def _subset(settings: Synthesis, *names: str) -> dict[str, Any]:
    """Some of the settings, by name."""
    values = asdict(settings)
    return {name: values[name] for name in names}


Floats = NDArray[np.float32]
NEIGHBOUR = np.dtype([("id", "<i4"), ("cosine", "<f4")])
TILE = 1 << 24  # similarities computed at a time
FAISS_FROM = 1 << 20  # vectors from which on faiss pays


def unit(vectors: Floats) -> Floats:
    """Vectors [n, d] of length 1; raises InputError where one is zero or not finite."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    good = np.isfinite(norms) & (norms > 0)  # [n, 1]
    if not good.all():
        first_bad = int(np.flatnonzero(~good[:, 0])[0])
        problem = "its vector is zero or not finite"
        raise InputError(problem, where=f"text {first_bad}", fix="Leave the text out")
    return np.ascontiguousarray(vectors / norms, np.float32)


class Search:
    """Finds the k most similar vectors, without those of equal texts.

    Args:
        vectors: unit length, float32 [n, d].
        texts: the text of each; equal texts (but for space around them) are not neighbours.
        k: the number of neighbours; there are n - 1 at most.
        count_self: whether a row and its equals are among its neighbours, as in the released code.
        device: where products are computed.

    Raises:
        InputError: there is only one vector.
    """

    def __init__(
        self,
        vectors: Floats,
        texts: Sequence[str],
        k: int,
        *,
        count_self: bool = False,
        device: Any = "cpu",
    ) -> None:
        import torch

        self.torch = torch
        self.vectors = vectors
        others = len(vectors) - (not count_self)
        self.k = min(k, others)
        if self.k < 1:
            problem = f"{len(vectors)} texts"
            fix = "Give more texts: neighbours are others"
            raise InputError(problem, where="neighbours", fix=fix)
        self.equals = {} if count_self else _equals(texts)
        self.index: Any = None
        if len(vectors) >= FAISS_FROM:
            self.index = _faiss_index(vectors)
        self.known: Any = None  # the vectors on the device, where there is no index
        if self.index is None:
            self.known = torch.from_numpy(vectors).to(device)

    def __call__(self, rows: IntArray) -> Array:
        """The neighbours of some rows, the most similar first, `NEIGHBOUR` [rows, k]; id -1 where there are fewer."""
        search = self._flat if self.index is None else self._faiss
        step = max(1, TILE // len(self.vectors))
        parts: list[Array] = [np.empty((0, self.k), NEIGHBOUR)]
        for start in range(0, len(rows), step):
            cosines, ids = search(rows[start : start + step], self.k)
            neighbours: Array = np.empty(cosines.shape, NEIGHBOUR)
            neighbours["cosine"] = cosines
            neighbours["id"] = np.where(np.isfinite(cosines), ids, -1)
            parts.append(neighbours)
        return np.concatenate(parts)

    def _flat(self, rows: IntArray, k: int) -> tuple[Floats, IntArray]:
        """Cosines and rows of the k most similar vectors, [rows, k] each, by a matrix product."""
        torch = self.torch
        known = self.known
        queries = known[torch.from_numpy(rows).to(known.device)]
        cosines = queries @ known.T  # [rows, n]
        for place, row in enumerate(rows.tolist()):
            if row in self.equals:
                cosines[place, self.equals[row]] = -torch.inf
        values, ids = cosines.topk(k, dim=1)
        return values.cpu().numpy(), ids.cpu().numpy()

    def _faiss(self, rows: IntArray, k: int) -> tuple[Floats, IntArray]:
        """The same by the index of faiss."""
        # equal texts are left out afterwards: ask for as many more
        num_equals = [len(self.equals.get(row, ())) for row in rows.tolist()]
        enough = k + max(num_equals, default=0)
        cosines, ids = self.index.search(self.vectors[rows], min(enough, len(self.vectors)))
        for place, row in enumerate(rows.tolist()):
            if row in self.equals:
                equal = np.isin(ids[place], self.equals[row])
                cosines[place, equal] = -np.inf
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        best_cosines = np.take_along_axis(cosines, order, 1)
        best_ids = np.take_along_axis(ids, order, 1)
        return best_cosines, best_ids


def means(neighbours: Array) -> FloatArray:
    """The mean cosine of every row's neighbours [rows], from `NEIGHBOUR` [rows, k]."""
    present = neighbours["id"] >= 0
    cosines = np.where(present, neighbours["cosine"], 0)
    total = cosines.sum(axis=1, dtype=float)
    mean: FloatArray = total / np.maximum(present.sum(axis=1), 1)
    return mean


def margins(
    neighbours: Array,
    own_means: FloatArray,
    all_means: FloatArray,
) -> FloatArray:
    """The margin of every neighbour [rows, k]; -inf where there is none.

    Args:
        neighbours: of some rows, `NEIGHBOUR` [rows, k].
        own_means: the mean of each of these rows [rows], as `means` gives it.
        all_means: the mean of all rows [n].
    """
    present = neighbours["id"] >= 0
    neighbour_means = all_means[neighbours["id"]]
    around = (own_means[:, None] + neighbour_means) / 2
    margin: FloatArray = np.full(neighbours.shape, -np.inf)
    defined = present & (around > 0)
    np.divide(neighbours["cosine"], around, out=margin, where=defined)
    return margin


def _equals(texts: Sequence[str]) -> dict[int, list[int]]:
    """The rows that have the text of a row, itself among them."""
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        groups.setdefault(text.strip(), []).append(row)
    return {row: rows for rows in groups.values() for row in rows}


def _faiss_index(vectors: Floats) -> Any | None:
    """A flat index of inner products; None where faiss is not installed."""
    if find_spec("faiss") is None:
        return None
    import faiss  # pyright: ignore[reportMissingImports]

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


class SentenceEncoder:
    """Makes vectors of texts.

    Args:
        model: minilm, a folder or a name on the hub.
        device: where it runs; the first GPU if there is one.
        batch_tokens: tokens in one batch, chosen by device if not given.

    Raises:
        ModelLoadError: it is not there, or no encoder.
    """

    def __init__(
        self,
        model: str,
        device: str | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        folder = files.locate(model)
        tokenizer = tokenizer_of(folder)
        self.encoder = Encoder(pretrained(folder), device, "float32")
        self.encoder.batch_tokens = batch_tokens or self.encoder.batch_tokens
        max_tokens = min(512, self.encoder.max_tokens)
        self.reader = Reader(tokenizer, Frame.of(tokenizer), max_tokens, "oldest-context")
        self.mixer = Mixer(None, None, False, "avg")

    def __call__(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, float32 [n, d]."""
        items = [Item(text) for text in texts]
        ids = self.reader.read(items)["ids"]

        def represent(rows: IntArray) -> Floats:
            vectors: Floats = self.mixer.vectors(self.encoder.states(ids[rows]), None).cpu().numpy()
            return vectors

        parts, places = in_batches(ids.lengths, self.encoder.batch_tokens, represent)
        return unit(np.concatenate(parts)[places])


def digest_of(model: str) -> str:
    """The digest of an encoder's files."""
    return files.digest(files.locate(model))
