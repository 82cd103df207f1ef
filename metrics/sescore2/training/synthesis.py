"""From texts to pairs with a score: neighbours, mistakes, severity (Xu et al. 2023, section 4).

A text is given the mistakes that turn it into a similar text, and random drops; see `edits`. How bad they are is the
score of the pair; see `severity`. Similar texts are margin-based nearest neighbours of sentence vectors (Schwenk et
al. 2021; Xu et al. 2023, appendix B):

    m(x, y) = cos(x, y) / (sum_{z in NN_k(x)} cos(x, z) / 2k + sum_{z in NN_k(y)} cos(y, z) / 2k)

Search is exact, by tiles of a matrix product. A text is not a neighbour of itself, neither by number nor by text; the
released code counts it among its own k neighbours. A margin compares a pair with what is usual around both, so k has
to be large against the number of texts that say the same. Vectors are means of an encoder's last layer over all
tokens, of length 1.

Vectors, neighbours and pairs are files of a work folder, complete or not there, so that an interrupted run resumes
with the first that is missing. The name of a file is a digest of the settings it depends on and of the name of the
file before it: other texts or settings make other files.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...errors import InputError
from ...neural.models.encoder import device_of
from ...neural.models.files import model_files as files
from ...neural.models.pretrained import pretrained
from ...representations import Array, FloatArray, IntArray
from ...spec.checked_settings import Field, settings
from ...storage.atomic_files import complete_file
from ...storage.bounded_files import arrays_in
from ...storage.json_and_yaml import parse_small_json
from ...storage.line_source import LineSource
from ...text.texts import Item
from ..metric import reader_of
from .edits import (
    Edit,
    Words,
    applied,
    edits_between,
    identity_of,
    joined,
    mined,
    sampled,
    split_words,
    stop_words,
)
from .regression_training import SyntheticPair, vectors_of
from .severity import Judge, MaskedLM, Severity

TILE = 1 << 24  # similarities computed at a time
CHUNK = 1024  # anchors whose mistakes are judged together
MAX_TOKENS = 512  # of a text whose neighbours are searched
AGAIN = "Remove it and run the command again"
OnProgress = Callable[[int], None]


@settings
class Synthesis:
    """How texts are given mistakes.

    Args:
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

    max_words: Annotated[int, Field(ge=1)] = 100
    min_words: Annotated[int, Field(ge=1)] = 3
    encoder: str = "minilm"
    neighbours: Annotated[int, Field(ge=1)] = 128
    margin: float = 1.06
    anchors: Annotated[int, Field(ge=1)] | None = None
    samples: Annotated[int, Field(ge=1)] = 1
    drops: Annotated[float, Field(ge=0, le=1)] = 1 / 3
    seed: Annotated[int, Field(ge=0)] = 1


def usable_texts(
    pairs: Iterable[tuple[str, str | None]], settings: Synthesis
) -> tuple[dict[str, str], dict[str, int]]:
    """Keep the distinct texts of a usable length.

    Args:
        pairs: texts, each with the source that it translates or None; read once.
        settings: the settings.

    Returns:
        The texts with their sources, "" where there is none, and counts by name.

    Raises:
        InputError: fewer than two texts are left.
    """
    usable: dict[str, str] = {}
    counts = {"read": 0, "empty or too short": 0, "too long": 0, "duplicates": 0}
    for text, source in pairs:
        text = " ".join(text.split())
        counts["read"] += 1
        words = len(split_words(text))
        if text in usable:
            counts["duplicates"] += 1
        elif words < settings.min_words:
            counts["empty or too short"] += 1
        elif words > settings.max_words:
            counts["too long"] += 1
        else:
            usable[text] = source or ""
    if len(usable) < 2:
        problem = f"{len(usable)} usable texts of {counts['read']}"
        raise InputError(problem, where="texts", fix="Give more texts")
    return usable, {**counts, "kept": len(usable)}


def synthetic_pairs(
    work: Path,
    texts: Mapping[str, str],
    synthesis: Synthesis,
    severity: Severity,
    device: str | None = None,
    on_progress: OnProgress = lambda done: None,
) -> tuple[list[SyntheticPair], str]:
    """Make pairs of texts with scores, or read those that an earlier run has made.

    Args:
        work: the work folder.
        texts: texts with their sources, as `usable_texts` returns them.
        synthesis: how texts are given mistakes.
        severity: how mistakes are judged.
        device: where models run.
        on_progress: called with the number of texts that are encoded, searched for or given mistakes.

    Returns:
        The pairs, and the name of their file, which identifies them.

    Raises:
        InputError: a file of the work folder is damaged.
    """
    known = list(texts)
    content = json.dumps(list(texts.items())).encode()
    vectors_file = stage_file(
        work / "vectors.npz",
        texts=blake2b(content, digest_size=16).hexdigest(),
        encoder=files.digest(files.locate(synthesis.encoder)),
    )
    neighbours_file = stage_file(
        work / "neighbours.npz", before=vectors_file.name, neighbours=synthesis.neighbours
    )
    pairs_file = stage_file(
        work / "pairs.jsonl.gz",
        before=neighbours_file.name,
        **asdict(synthesis),
        **asdict(severity),
        words=identity_of(severity.stop_words),
        model=files.digest(files.locate(severity.mlm)) if severity.mlm else None,
    )

    def vectors() -> dict[str, Any]:
        return {"vectors": sentence_vectors(known, synthesis.encoder, device, on_progress)}

    def neighbours() -> dict[str, Any]:
        ids, cosines = nearest(
            _arrays(vectors_file, vectors)["vectors"],
            known,
            synthesis.neighbours,
            device,
            lambda done: on_progress(len(known) + done),
        )
        return {"ids": ids, "cosines": cosines}

    def pairs() -> Iterator[SyntheticPair]:
        known_neighbours = _arrays(neighbours_file, neighbours)
        ids, cosines = known_neighbours["ids"], known_neighbours["cosines"]
        model = MaskedLM(severity.mlm, device) if severity.mlm else None
        words = [split_words(text) for text in known]
        judge = Judge(severity, stop_words(severity.stop_words, words), words, model)
        anchors = _anchors(len(known), synthesis)
        mean = means(ids, cosines)
        for start in range(0, len(anchors), CHUNK):
            samples = []
            for anchor in anchors[start : start + CHUNK].tolist():
                passing = _passing(anchor, ids, cosines, mean, synthesis.margin)
                others = [words[i] for i in passing]
                for edits in mistaken(anchor, words[anchor], others, synthesis):
                    samples.append((words[anchor], texts[known[anchor]], edits))
            yield from judged(judge, samples)
            on_progress(2 * len(known) + start)

    return _pairs(pairs_file, pairs), pairs_file.name


def stage_file(path: Path, **settings: Any) -> Path:
    """The file of a stage, with the digest of what it depends on in its name."""
    canonical = json.dumps(settings, sort_keys=True).encode()
    digest = blake2b(canonical, digest_size=8).hexdigest()
    return path.with_name(f"{digest}-{path.name}")


def _arrays(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The arrays of a file, which is made if it is not there."""
    if not path.exists():
        arrays = make()
        with complete_file(path) as draft, open(draft, "wb") as file:
            np.savez(file, **arrays)
    try:
        return arrays_in(path)
    except Exception as error:  # damaged: many kinds
        problem = f"cannot be read: {type(error).__name__}"
        raise InputError(problem, where=str(path), fix=AGAIN) from error


def _pairs(path: Path, make: Callable[[], Iterable[SyntheticPair]]) -> list[SyntheticPair]:
    """The pairs of a file, which is made if it is not there."""
    if not path.exists():
        with complete_file(path) as draft, gzip.open(draft, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(pair._asdict()) + "\n" for pair in make())
    pairs = []
    for number, line in LineSource(path):
        row = parse_small_json(line, f"{path}:{number}", AGAIN)
        pairs.append(SyntheticPair(row["hypothesis"], row["reference"], float(row["score"])))
    return pairs


def sentence_vectors(
    texts: Sequence[str], model: str, device: str | None, on_progress: OnProgress
) -> Array:
    """Unit vectors of texts, float32 [n, d].

    Args:
        texts: the texts.
        model: minilm, a folder or a name on the hub.
        device: where it runs; the first GPU if there is one.
        on_progress: called with the number of texts that are encoded.

    Raises:
        ModelLoadError: the model is not there, or no encoder.
        InputError: a vector is zero or not finite.
    """
    folder = files.locate(model)
    encoder = pretrained(folder).train(False).to(device_of(device))
    reader = reader_of(folder, encoder, MAX_TOKENS)
    ids = reader.read([Item(text) for text in texts])["ids"]
    return unit(vectors_of(encoder, ids, on_progress).cpu().numpy())


def unit(vectors: Array) -> Array:
    """Vectors [n, d] of length 1; raises InputError where one is zero or not finite."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    good = np.isfinite(norms) & (norms > 0)  # [n, 1]
    if not good.all():
        first_bad = int(np.flatnonzero(~good[:, 0])[0])
        problem = "its vector is zero or not finite"
        raise InputError(problem, where=f"text {first_bad}", fix="Leave the text out")
    return np.ascontiguousarray(vectors / norms, np.float32)


def nearest(
    vectors: Array,
    texts: Sequence[str],
    k: int,
    device: str | None = None,
    on_progress: OnProgress = lambda done: None,
) -> tuple[Array, Array]:
    """The k most similar vectors of each, without those of equal texts; at most n - 1.

    Args:
        vectors: unit length, float32 [n, d].
        texts: the text of each; equal texts (but for space around them) are not neighbours. If there are none, each
            vector is among its own neighbours, as in the released code.
        k: the number of neighbours.
        device: where products are computed.
        on_progress: called with the number of vectors that are done.

    Returns:
        Numbers, -1 where there are fewer neighbours, and cosines [n, k], the most similar first.
    """
    import torch

    n = len(vectors)
    k = min(k, n - bool(texts))
    equals = _equals(texts)
    known = torch.from_numpy(vectors).to(device_of(device))
    ids: Array = np.empty((n, k), np.int32)
    cosines: Array = np.empty((n, k), np.float32)
    step = max(1, TILE // n)
    for start in range(0, n, step):
        part = slice(start, start + step)
        products = known[part] @ known.T  # [part, n]
        for row in range(start, min(n, start + step)):
            products[row - start, equals.get(row, [])] = -torch.inf
        best, places = (values.cpu().numpy() for values in products.topk(k, dim=1))
        cosines[part] = best
        ids[part] = np.where(np.isfinite(best), places, -1)
        on_progress(start)
    return ids, cosines


def _equals(texts: Sequence[str]) -> dict[int, list[int]]:
    """The rows that have the text of a row, itself among them."""
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        groups.setdefault(text.strip(), []).append(row)
    return {row: rows for rows in groups.values() for row in rows}


def means(ids: IntArray, cosines: FloatArray) -> FloatArray:
    """The mean cosine of every row's neighbours, [n]."""
    present = ids >= 0
    total = cosines.sum(axis=1, where=present, dtype=float)
    mean: FloatArray = total / np.maximum(present.sum(axis=1), 1)
    return mean


def margins(ids: IntArray, cosines: FloatArray, own: FloatArray, mean: FloatArray) -> FloatArray:
    """The margin of every neighbour; -inf where there is none.

    Args:
        ids: numbers of neighbours, [..., k].
        cosines: their cosines, [..., k].
        own: the mean cosine around the texts whose neighbours they are, [..., 1].
        mean: the mean cosine around every text, [n].
    """
    around = (own + mean[ids]) / 2
    margin: FloatArray = np.full(ids.shape, -np.inf)
    np.divide(cosines, around, out=margin, where=(ids >= 0) & (around > 0))
    return margin


def _passing(
    anchor: int, ids: IntArray, cosines: FloatArray, mean: FloatArray, least: float
) -> list[int]:
    """The neighbours of an anchor whose margin is large enough, the best first."""
    margin = margins(ids[anchor], cosines[anchor], mean[anchor], mean)
    best_first = np.argsort(-margin, kind="stable")
    passing: list[int] = ids[anchor][best_first[margin[best_first] >= least]].tolist()
    return passing


def _anchors(count: int, settings: Synthesis) -> IntArray:
    """The numbers of the texts that are given mistakes, ascending."""
    if settings.anchors is None or settings.anchors >= count:
        return np.arange(count)
    order = np.random.default_rng([settings.seed, count]).permutation(count)
    return np.sort(order[: settings.anchors])


def mistaken(
    anchor: int, words: Words, others: Sequence[Words], settings: Synthesis
) -> Iterator[list[Edit]]:
    """The mistakes of each synthetic text of an anchor, disjoint and sorted.

    Args:
        anchor: its number, which with the seed decides all draws.
        words: its words.
        others: the words of its neighbours.
        settings: the settings.
    """
    random = np.random.default_rng([settings.seed, anchor])
    order = random.permutation(len(others))
    original = joined(words)
    for number in range(settings.samples):
        proposals: list[Edit] = []
        if others:
            other = others[order[number % len(order)]]
            proposals = mined(edits_between(words, other))
        edits = sampled(proposals, len(words), random, settings.drops)
        if joined(applied(words, edits)) not in ("", original):
            yield edits


def judged(
    judge: Judge, samples: Sequence[tuple[Words, str, list[Edit]]]
) -> Iterator[SyntheticPair]:
    """Pairs of samples: (words of the anchor, its source or "", edits).

    A mistake that counts for none is not made; a text without any left is left out.
    """
    mistakes = [(words, edit, source) for words, source, edits in samples for edit in edits]
    scores = iter(judge.scores(mistakes))
    for words, _, edits in samples:
        counted = [(edit, score) for edit in edits if (score := next(scores)) is not None]
        if counted:
            hypothesis = joined(applied(words, [edit for edit, _ in counted]))
            score = round(sum(score for _, score in counted), 6)
            yield SyntheticPair(hypothesis, joined(words), score)
