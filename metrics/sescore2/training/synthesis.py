"""From texts to synthetic pairs, stage by stage: texts, embed, search, perturb (Xu et al. 2023, section 4.1).

Every stage is a folder of shards (see `job_stages`) in one work folder, made from that of the stage before. What
happens to an anchor depends on the seed and its number alone, so shards, interruptions and devices change nothing but
the last bits of similarities. Nothing here judges how bad a mistake is: see `severity`.

Margin-based nearest neighbours of sentence vectors (Schwenk et al. 2021; Xu et al. 2023, appendix B).

    m(x, y) = cos(x, y) / (sum_{z in NN_k(x)} cos(x, z) / 2k + sum_{z in NN_k(y)} cos(y, z) / 2k)

Search is exact, by tiles of a matrix product. A text is not a neighbour of itself, neither by number nor by text; the
released code counts it among its own k neighbours (``count_self``). A margin compares a pair with what is usual around
both, so k has to be large against the number of texts that say the same.

Vectors are means of an encoder's last layer over all tokens, of length 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from hashlib import blake2b
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
from . import job_stages
from .edits import Edit, applied, edits_between, joined, mined, sampled, word_splitter
from .job_stages import OnProgress, Row, Stage, finished, made, opened

Pair = tuple[str, str | None]  # a text, and the source that it translates


@settings
class Synthesis:
    """How texts are given mistakes.

    Args:
        words: how texts are split into words: unicode, or whitespace for texts that are split already.
        max_words: longer texts are left out.
        min_words: shorter texts are left out.
        encoder: what finds similar texts: minilm, a folder or a name on the hub.
        neighbours: k of the margin.
        margin: the least margin of a neighbour.
        anchors: how many texts are given mistakes, drawn at random; all if not given. All serve as neighbours.
        samples: synthetic texts per anchor, each from a neighbour of its own as far as there are any.
        drops: the share of random word drops among mistakes.
        seed: of all draws.
    """

    words: Literal["unicode", "whitespace"] = "unicode"
    max_words: Annotated[int, Field(ge=1)] = 100
    min_words: Annotated[int, Field(ge=1)] = 3
    encoder: str = "minilm"
    neighbours: Annotated[int, Field(ge=1)] = 128
    margin: float = 1.06
    anchors: Annotated[int, Field(ge=1)] | None = None
    samples: Annotated[int, Field(ge=1)] = 1
    drops: Annotated[float, Field(ge=0, le=1)] = 1 / 3
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
            size = job_stages.SHARD
            for start in range(size * len(stage.digests), len(rows), size):
                stage.write(rows[start : start + size])
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
    identity = {"encoder": files.digest(files.locate(settings.encoder))}

    def start() -> Callable[[int], Array]:
        encoder = SentenceEncoder(settings.encoder, device)
        return lambda shard: encoder([row["text"] for row in texts.rows(shard)])

    def count(stage: Stage) -> dict[str, int]:
        return {"texts": len(stage.array())}

    return made(work / "embed", texts, identity, start, count, on_progress)


def search(
    work: Path,
    settings: Synthesis,
    device: str | None = None,
    on_progress: OnProgress = quiet,
) -> Stage:
    """Finds the nearest neighbours of all texts."""
    texts = finished(work / "texts")
    before = finished(work / "embed")

    def start() -> Callable[[int], Array]:
        known = [row["text"] for row in texts.rows()]
        find = Search(before.array(), known, settings.neighbours, device=device_of(device))
        rows = np.arange(len(known))
        return lambda shard: find(rows[job_stages.SHARD * shard :][: job_stages.SHARD])

    def count(stage: Stage) -> dict[str, int]:
        return {"texts": len(stage.array())}

    return made(work / "search", before, _subset(settings, "neighbours"), start, count, on_progress)


def perturb(
    work: Path,
    settings: Synthesis,
    on_progress: OnProgress = quiet,
    folder: str = "perturb",
) -> Stage:
    """Gives the anchors mistakes, from those of their neighbours that pass the margin.

    Rows: "anchor" (its number), "words" of the anchor, "edits" [[start, end, words], ...], disjoint and sorted, and
    "source" where there is one.
    """
    texts = finished(work / "texts")
    before = finished(work / "search")
    identity = _subset(settings, "words", "margin", "anchors", "samples", "drops", "seed")
    anchors = _anchors((texts.counts or {})["kept"], settings)

    def start() -> Callable[[int], Iterator[Row]]:
        # every text's mean, as a margin needs those of both texts
        all_means = np.concatenate([means(before.array(i)) for i in range(len(before.digests))])
        maker = _MistakeMaker(list(texts.rows()), settings)

        def perturbed(shard: int) -> Iterator[Row]:
            first = job_stages.SHARD * shard
            neighbours = before.array(shard)
            own = anchors[(anchors >= first) & (anchors < first + len(neighbours))]
            passing = _passing(neighbours[own - first], own, all_means, settings.margin)
            for anchor, ids in zip(own.tolist(), passing, strict=True):
                yield from maker(anchor, ids)

        return perturbed

    def count(stage: Stage) -> dict[str, int]:
        with_mistakes = [row["anchor"] for row in stage.rows()]
        return {
            "synthetic texts": len(with_mistakes),
            "anchors without a mistake": len(anchors) - len(set(with_mistakes)),
        }

    return made(work / folder, before, identity, start, count, on_progress)


def _passing(
    neighbours: Array,
    anchors: IntArray,
    all_means: FloatArray,
    least: float,
) -> Iterator[list[int]]:
    """The neighbours of each anchor that pass, the best first.

    Args:
        neighbours: `NEIGHBOUR` [anchors, k].
        anchors: the numbers of their texts, [anchors].
        all_means: the mean cosine of every text's neighbours, [texts].
        least: the least margin.
    """
    all_margins = margins(neighbours, all_means[anchors], all_means)
    for ids, margin in zip(neighbours["id"], all_margins, strict=True):
        places = np.flatnonzero((margin >= least) & (ids >= 0))
        best_first = places[np.argsort(-margin[places], kind="stable")]
        yield ids[best_first].tolist()


class _MistakeMaker:
    """Makes the synthetic texts of an anchor."""

    def __init__(self, texts: list[dict[str, Any]], settings: Synthesis) -> None:
        self.texts = texts
        self.settings = settings
        self.split = word_splitter(settings.words)

    def __call__(self, anchor: int, neighbours: Sequence[int]) -> Iterator[Row]:
        """The rows of `perturb` of an anchor with its neighbours, numbers of texts."""
        random = np.random.default_rng([self.settings.seed, anchor])
        original = self.texts[anchor]
        words = self.split(original["text"])
        order = random.permutation(len(neighbours))
        for number in range(self.settings.samples):
            proposals: list[Edit] = []
            if len(order):
                neighbour = neighbours[int(order[number % len(order)])]
                other = self.split(self.texts[neighbour]["text"])
                proposals = mined(edits_between(words, other))
            edits = sampled(proposals, len(words), random, self.settings.drops)
            text = joined(applied(words, edits))
            if text and text != original["text"]:
                plain = [[edit.start, edit.end, list(edit.words)] for edit in edits]
                source = {"source": original["source"]} if "source" in original else {}
                yield {"anchor": anchor, "words": list(words), "edits": plain, **source}


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
        others = len(vectors) - (not count_self)
        self.k = min(k, others)
        if self.k < 1:
            problem = f"{len(vectors)} texts"
            fix = "Give more texts: neighbours are others"
            raise InputError(problem, where="neighbours", fix=fix)
        self.equals = {} if count_self else _equals(texts)
        self.vectors = torch.from_numpy(vectors).to(device)

    def __call__(self, rows: IntArray) -> Array:
        """The neighbours of some rows, the most similar first, `NEIGHBOUR` [rows, k]; id -1 where there are fewer."""
        neighbours: Array = np.empty((len(rows), self.k), NEIGHBOUR)
        step = max(1, TILE // len(self.vectors))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            queries = self.vectors[self.torch.from_numpy(part).to(self.vectors.device)]
            cosines = queries @ self.vectors.T  # [part, n]
            for place, row in enumerate(part.tolist()):
                if row in self.equals:
                    cosines[place, self.equals[row]] = -self.torch.inf
            best, ids = (values.cpu().numpy() for values in cosines.topk(self.k, dim=1))
            neighbours["cosine"][start : start + step] = best
            neighbours["id"][start : start + step] = np.where(np.isfinite(best), ids, -1)
        return neighbours


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
