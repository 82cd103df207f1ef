"""Laws that every metric obeys: all registered names, and toy metrics for the kinds that no registered one is yet.

A new metric gets them by registering.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import (
    Context,
    Document,
    InputError,
    MBRDecoder,
    Metric,
    ModelLoadError,
    Scorer,
    load_metric,
)
from discorank.metrics.documents.aligned import Aligned
from discorank.metrics.execution.evaluate import matrices, plan_of, tiles_of
from discorank.metrics.execution.meter import Meter
from discorank.metrics.execution.store import Fresh, Store
from discorank.metrics.lexical.answers import math_version
from discorank.metrics.names import BUILT_IN
from discorank.metrics.reading_plan import comparisons_of
from discorank.metrics.registry import as_typed, names
from discorank.metrics.representations import Block, FloatArray, IntArray, Ragged, Reps
from discorank.metrics.scorer import Info, Reading
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.spec.signature import portable
from discorank.metrics.text.texts import Item, is_blank
from discorank.rerank.engines.interface import Task
from discorank.rerank.engines.ray.worker import Share

from ..support.examples import examples

# the tiny models read 128 tokens, which some drawn texts exceed: that is told, and the laws hold all the same
pytestmark = [
    pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning"),
    pytest.mark.filterwarnings("ignore:The given NumPy array is not writable"),
]

FEW = examples(2)


@settings
class Coverage(Metric):
    """Reference-free, reads source and context: words of h in the source side less words of h in the target context."""

    context: int = 0
    name: ClassVar[str] = f"{__name__}:Coverage"
    info: ClassVar[Info] = Info(
        summary="toy",
        needs_source=True,
        needs_references=False,
        bounds=(-1, 1),
        unit="segment",
    )

    @property
    def reads(self) -> Reading:
        return Reading(self.context, "hypothesis")

    def load(self) -> CoverageScorer:
        return CoverageScorer()


class CoverageScorer(Scorer):
    info = Coverage.info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        own, before = (np.empty(len(items), object) for _ in range(2))
        for i, item in enumerate(items):
            own[i] = frozenset(str(item.text).split())
            before[i] = frozenset(" ".join(item.context).split())
        return Reps({"own": own, "before": before}), np.array(
            [len(words) for words in own], np.int64
        )

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        return [
            np.array([[self._value(reps, h, block.source)] for h in block.hypotheses])
            for block in blocks
        ]

    def _value(self, reps: Reps, h: int, source: int) -> float:
        words = reps["own"][h]
        known = reps["own"][source] | reps["before"][source]
        return (len(words & known) - len(words & reps["before"][h])) / max(1, len(words))


@settings
class Cosine(Metric):
    """Linear and symmetric: the cosine of letter counts, 0 for texts without letters."""

    name: ClassVar[str] = f"{__name__}:Cosine"
    info: ClassVar[Info] = Info(
        summary="toy", bounds=(0, 1), symmetric=True, multi_reference="mean", linear=True
    )

    def load(self) -> CosineScorer:
        return CosineScorer()


class CosineScorer(Scorer):
    info = Cosine.info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        counts = np.array(
            [[str(item.text).count(letter) for letter in "abcdeot "] for item in items], float
        )
        norms = np.sqrt((counts**2).sum(axis=1, keepdims=True))
        return Reps({"unit": counts / np.where(norms > 0, norms, 1)}), np.array(
            [len(str(i.text)) for i in items]
        )

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        unit = reps["unit"]
        return [
            (unit[b.hypotheses][:, None, :] * unit[b.references][None, :, :]).sum(axis=2)
            for b in blocks
        ]

    def expected(
        self, reps: Reps, blocks: Sequence[Block], weights: Sequence[FloatArray]
    ) -> list[FloatArray]:
        unit = reps["unit"]
        return [
            (unit[b.hypotheses] * (w[:, None] * unit[b.references]).sum(axis=0)).sum(axis=1)
            for b, w in zip(blocks, weights, strict=True)
        ]


@settings
class Height(Metric):
    """A bucketed distance: |mean code point of h - mean code point of r|, 0 for an empty text."""

    name: ClassVar[str] = f"{__name__}:Height"
    info: ClassVar[Info] = Info(
        summary="toy",
        higher_is_better=False,
        bounds=(0, inf),
        symmetric=True,
        bucketed=True,
    )

    def load(self) -> HeightScorer:
        return HeightScorer()


class HeightScorer(Scorer):
    info = Height.info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        texts = [str(item.text) for item in items]
        lengths = np.array([len(text) for text in texts], np.int64)
        values = np.array([ord(letter) for text in texts for letter in text], float)
        return Reps({"points": Ragged.of_lengths(values, lengths)}), lengths

    def represent(self, prepared: Reps) -> Reps:
        points = prepared["points"]
        assert list(points.lengths) == sorted(points.lengths), "batches are in order of length"
        rows = np.split(points.values, points.offsets[1:-1])
        return Reps({"mean": np.array([row.sum() / max(1, len(row)) for row in rows])})

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        mean = reps["mean"]
        return [abs(mean[b.hypotheses][:, None] - mean[b.references][None, :]) for b in blocks]


MODELS = Path(__file__).parents[1] / "golden" / "docmetrics" / "models"
ENCODER = {"encoder_path": str(MODELS / "tiny-xlmr")}
GOLDEN = MODELS.parents[1]
EMBEDDINGS = GOLDEN / "sentence_embedding" / "models"
CLASSIFIERS = GOLDEN / "classifiers" / "models"
METRICX: dict[str, Any] = {
    "tokenizer_path": str(GOLDEN / "metricx" / "models" / "tiny-mt5-tokenizer"),
    "regression_token_id": 11,
}
XCOMET = {"encoder_path": str(GOLDEN / "xcomet" / "models" / "tiny-xlmr-xl")}
TINY: dict[
    str, dict[str, Any]
] = {  # settings of metrics with a model, so that they run on a tiny one
    "bertscore": {"model": str(MODELS / "tiny-bert"), "layer": 2},
    "doc-bertscore": {"model": str(MODELS / "tiny-xlmr"), "layer": 2},
    "comet": {"model": str(MODELS / "tiny-unite"), **ENCODER},
    "comet-poly": {"model": str(MODELS / "tiny-comet-poly"), **ENCODER},
    "doc-comet": {"model": str(MODELS / "tiny-comet-ref"), **ENCODER},
    "comet-qe": {"model": str(MODELS / "tiny-cometkiwi"), **ENCODER},
    "doc-comet-qe": {"model": str(MODELS / "tiny-comet-qe"), **ENCODER},
    "bleurt": {"model": str(GOLDEN / "bleurt" / "models" / "tiny-bleurt-20")},
    "doc-bleurt": {"model": str(GOLDEN / "bleurt" / "models" / "tiny-bleurt-wordpiece")},
    "embedding": {"model": str(EMBEDDINGS / "tiny-st-dense")},
    "doc-embedding": {"model": str(EMBEDDINGS / "tiny-st-mean")},
    "embedding-qe": {"model": str(EMBEDDINGS / "tiny-st-lasttoken")},
    "metricx": {**METRICX, "model": str(GOLDEN / "metricx" / "models" / "tiny-metricx-24")},
    "doc-metricx": {**METRICX, "model": str(GOLDEN / "metricx" / "models" / "tiny-metricx-23")},
    "metricx-qe": {**METRICX, "model": str(GOLDEN / "metricx" / "models" / "tiny-metricx-24")},
    "doc-metricx-qe": {
        **METRICX,
        "model": str(GOLDEN / "metricx" / "models" / "tiny-metricx-23-qe"),
    },
    "xcomet": {**XCOMET, "model": str(GOLDEN / "xcomet" / "models" / "tiny-xcomet")},
    "doc-xcomet": {**XCOMET, "model": str(GOLDEN / "xcomet" / "models" / "tiny-xcomet-sparsemax")},
    "xcomet-qe": {**XCOMET, "model": str(GOLDEN / "xcomet" / "models" / "tiny-xcomet")},
    "sescore2": {
        "model": str(MODELS.parents[1] / "sescore2" / "tiny_sescore2.ckpt"),
        "encoder_path": str(MODELS.parents[1] / "sescore2" / "tiny_encoder"),
    },
    "prism": {"model": str(MODELS / "tiny-mbart50"), "lang": "en"},
    "doc-prism": {"model": str(MODELS / "tiny-mbart50"), "lang": "de"},
    "lm": {"model": str(GOLDEN / "causal" / "models" / "tiny-gemma3")},
    "doc-lm": {"model": str(GOLDEN / "causal" / "models" / "tiny-gemma3")},
    "lm-pair": {"model": str(GOLDEN / "causal" / "models" / "tiny-gemma3")},
    "rouge": {"n": 3},
    "reward": {"model": str(CLASSIFIERS / "tiny-llama-reward")},
    "entail": {"model": str(CLASSIFIERS / "tiny-roberta-nli")},
    "nist": {"information": str(MODELS.parents[1] / "sentences.txt")},
    "bartscore": {"model": str(MODELS / "tiny-bart")},
    "bartscore-faithfulness": {"model": str(MODELS / "tiny-bart")},
    "ds-focus": {"model": str(MODELS / "tiny-bert")},
    "ds-sent": {"model": str(MODELS / "tiny-xlmr")},
    "pdd": {
        "model": str(MODELS.parents[1] / "pdd" / "tiny-roles"),
        "encoder_path": str(MODELS / "tiny-bert"),
    },
    "role-match": {
        "model": str(MODELS.parents[1] / "pdd" / "tiny-roles"),
        "encoder_path": str(MODELS / "tiny-bert"),
    },
}


# computations that are settings of a metric
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "entail without contradiction": (
        "entail",
        {
            "model": str(CLASSIFIERS / "tiny-roberta-nli"),
            "contradiction": True,
            "agg": "min",
            "window_words": 8,
        },
    ),
    "dr-lex by nuclearity": ("dr-lex", {"words": "nuclearity"}),
    "dr-lex by relation": ("dr-lex", {"words": "relation"}),
    "dr-lex by both": ("dr-lex", {"words": "both"}),
    "ds-sent by greedy alignment": (
        "ds-sent",
        {"model": str(MODELS / "tiny-xlmr"), "align": "greedy", "adjacency": False},
    ),
    "ds-sent by optimal alignment": (
        "ds-sent",
        {"model": str(MODELS / "tiny-xlmr"), "align": "optimal"},
    ),
    "cohesion by rc": ("cohesion", {"measure": "rc"}),
    "entity-graph of similar nouns": (
        "entity-graph",
        {"focus": "entity", "model": str(MODELS / "tiny-bert")},
    ),
}


def registered() -> dict[str, Any]:
    """Every registered metric by its name; None where its package or its model is missing."""
    plain = {name: (name, TINY.get(name, {})) for name in sorted(names())}
    metrics: dict[str, Any] = {}
    for name, (metric, values) in {**plain, **VARIANTS}.items():
        try:
            metrics[name] = load_metric(metric, **values)
        except (ModelLoadError, InputError):
            metrics[name] = None
    return metrics


@cache
def is_loaded(name: str) -> bool:
    """Whether a metric has its model and its packages; it keeps its scorer for all laws."""
    try:
        METRICS[name].scorer  # noqa: B018
    except (ModelLoadError, InputError):
        return False
    return True


@pytest.fixture(scope="module")
def metric(request: pytest.FixtureRequest) -> Metric:
    """The metric of a name, loaded once."""
    if not is_loaded(request.param):
        pytest.skip(f"{request.param} cannot be loaded here, so no law is tried on it")
    loaded: Metric = METRICS[request.param]
    return loaded


REGISTERED = registered()
TOYS = [Coverage(), Coverage(context=2), Cosine(), Height()]
METRICS: dict[str, Any] = {
    **{name: metric for name, metric in REGISTERED.items() if metric is not None},
    **{toy.signature().partition(":")[2]: toy for toy in TOYS},
}


def metrics_with(condition: Callable[[Metric], bool]) -> pytest.MarkDecorator:
    """The metrics of which a law speaks."""
    chosen = [name for name, metric in METRICS.items() if condition(metric)]
    return pytest.mark.parametrize("metric", chosen, indirect=True)


# trained, or by weights of n-grams
IDENTITY_IS_NOT_BEST = {
    "comet",
    "comet-poly",
    "prism",
    "bartscore",
    "nist",
    "sescore2",
    "bleurt",
    "metricx",
    "xcomet",
    "lm-pair",
}

every_metric = metrics_with(lambda metric: True)
every_segment_metric = metrics_with(lambda metric: metric.info.unit == "segment")

WORDS = [
    "the",
    "cat",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    ".",
    "The",
    "Cat,",
    "tree-top",
    "x" * 20,
    "的",
    "猫坐",
    "🐈",
    "a.b",
]
ODD = "ab .,\n\t\x1c\x1f\u2028\u00a0\ud800的猫🐈é%"
texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join),
    st.text(st.sampled_from(ODD), max_size=12),
    st.text(max_size=12),
)
some = st.lists(texts, min_size=1, max_size=4)
SOURCE = "the cat sat on a mat"
CONTEXT = Context(source=("the tree", "a dog"), target=("cat sat", "the a"))


def utilities(metric: Metric, hypotheses: Sequence[Any], references: Sequence[Any]) -> FloatArray:
    """`pairwise` with the source and context that a metric needs."""
    return metric.pairwise(
        hypotheses, references, SOURCE, CONTEXT if metric.reads.context else None
    )


def scored(
    metric: Metric, hypotheses: Sequence[Any], references: Sequence[Any], source: Any = SOURCE
) -> FloatArray:
    """`score` of segments that are documents of their own."""
    ids = [str(i) for i in range(len(hypotheses))]
    return metric.score(hypotheses, references, [source] * len(hypotheses), ids)


def same_bytes(values: FloatArray, expected: FloatArray) -> bool:
    """Whether two arrays are equal to the last bit."""
    return values.tobytes() == np.ascontiguousarray(expected).tobytes()


def in_bounds(metric: Metric, values: FloatArray) -> bool:
    """Whether scores are finite and in the bounds of their metric."""
    low, high = metric.info.bounds
    inside = (values >= low - 1e-9) & (values <= high + 1e-9)
    return bool(np.isfinite(values).all() and inside.all())


@every_metric
@given(hypotheses=some, references=some, data=st.data())
@FEW
def test_a_matrix(
    metric: Metric, hypotheses: list[str], references: list[str], data: st.DataObject
) -> None:
    """Values are finite and in bounds, and depend on their pair alone, to the last bit."""
    free = not metric.info.needs_references
    u = utilities(metric, hypotheses, references)
    assert u.dtype == np.float64
    assert u.shape == (len(hypotheses), 1 if free else len(references))
    assert in_bounds(metric, metric.utility_sign * u)
    # two pairs alone, the last hypothesis and another one
    for i in {data.draw(st.integers(0, len(hypotheses) - 1)), len(hypotheses) - 1}:
        j = data.draw(st.integers(0, u.shape[1] - 1))
        alone = utilities(metric, [hypotheses[i]], [references[j]])
        assert same_bytes(alone, u[i : i + 1, j : j + 1])
    # another order
    rows = data.draw(st.permutations(range(len(hypotheses))))
    columns = data.draw(st.permutations(range(len(references))))
    shuffled = utilities(metric, [hypotheses[i] for i in rows], [references[j] for j in columns])
    assert same_bytes(shuffled, u[rows] if free else u[rows][:, columns])
    # duplicates
    doubled = utilities(metric, hypotheses + hypotheses[::-1], references + references[:1])
    n = len(hypotheses)
    assert same_bytes(doubled[:n, : u.shape[1]], u)
    assert same_bytes(doubled[n:][::-1].copy(), doubled[:n])
    assert free or same_bytes(doubled[:, -1].copy(), doubled[:, 0])
    # a list against itself, which is a square block of its own
    both = hypotheses + references
    square = utilities(metric, both, both)
    assert same_bytes(
        utilities(metric, both, [*both, "another one"])[:, : square.shape[1]].copy(), square
    )
    assert same_bytes(square[:n, n:].copy(), u) or free
    if metric.symmetric:
        np.testing.assert_allclose(square, square.T, rtol=1e-12, atol=1e-12)


@every_metric
@given(lists=st.lists(st.tuples(some, some), min_size=2, max_size=3), data=st.data())
@FEW
def test_other_lists_do_not_matter(
    metric: Metric, lists: list[tuple[list[str], list[str]]], data: st.DataObject
) -> None:
    """Neither those of the same call, nor their order, nor those the store has seen before."""
    context = CONTEXT.last(metric.reads.context)
    comparisons = [metric.comparison(h, r, SOURCE, context) for h, r in lists]
    alone = [matrices(metric, [comparison])[0].tobytes() for comparison in comparisons]
    order = data.draw(st.permutations(range(len(lists))))
    together = matrices(metric, [comparisons[i] for i in order])
    assert [u.tobytes() for u in together] == [alone[i] for i in order]
    store = Store(metric.scorer)
    later = [matrices(metric, [comparisons[i]], store)[0].tobytes() for i in order]
    assert later == [alone[i] for i in order]


@every_metric
@given(
    pairs=st.lists(
        st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=5
    ),
    data=st.data(),
)
@FEW
def test_scores(metric: Metric, pairs: list[tuple[str, list[str]]], data: st.DataObject) -> None:
    """Scores are in bounds, know no other segment, and count several references as declared."""
    if metric.reads.context:  # such metrics want equally many references everywhere
        pairs = [(h, r[:1]) for h, r in pairs]
    hypotheses, references = [h for h, _ in pairs], [r for _, r in pairs]
    together = scored(metric, hypotheses, references)
    assert together.dtype == np.float64
    assert together.shape == (len(pairs),)
    assert in_bounds(metric, together)
    (h, several), place = pairs[0], len(pairs) - 1
    assert same_bytes(scored(metric, [hypotheses[place]], [references[place]]), together[[place]])
    if not metric.info.needs_references:
        return
    singles = scored(metric, [h] * len(several), several)
    pairwise_ = metric.pairwise([h], several, SOURCE)[0]
    np.testing.assert_allclose(singles, metric.utility_sign * pairwise_, rtol=1e-13, atol=1e-13)
    if metric.info.multi_reference == "best":
        best = singles.max() if metric.info.higher_is_better else singles.min()
        assert together[0] == best
    elif metric.info.multi_reference == "mean":
        assert together[0] == pytest.approx(singles.mean(), rel=1e-12, abs=1e-12)
    shuffled = data.draw(st.permutations(several))
    orders = scored(metric, [h, h], [shuffled, several[:1] * len(several)])
    assert orders == pytest.approx([together[0], singles[0]], rel=1e-12, abs=1e-12)


@every_metric
@given(
    seed=st.integers(0, 99), square=st.booleans(), chunks=st.integers(1, 5), count=st.integers(1, 6)
)
@FEW
def test_tiles_equal_the_whole(
    metric: Metric, seed: int, square: bool, chunks: int, count: int
) -> None:
    """Of texts represented in chunks and compared in tiles, from memory that cannot be written."""
    r = random.Random(seed)
    on_pairs = type(metric.scorer).pair_cost is not Scorer.pair_cost  # a forward pass each
    h = list(dict.fromkeys(" ".join(r.choices(WORDS, k=r.randint(0, 9))) for _ in range(50)))[
        : 18 if on_pairs or metric.costly_pairs else 37
    ]
    references = h[:3] if on_pairs else h if square else h[::2]
    comparison = metric.comparison(h, references, SOURCE, CONTEXT.last(metric.reads.context))
    task = Task("x", metric, (comparison,), np.ones(len(references)), keep_matrix=True)
    share = Share(metric, [task], Meter())
    parts = [share.represent(k, chunks, None) for k in range(chunks)]
    fresh = Fresh.concat([part for part in parts if part is not None])
    for array in (*(array for _, array in fresh.reps.arrays()), fresh.lengths, fresh.truncation):
        array.setflags(write=False)
    wide = len(references) if metric.info.needs_references else 1
    steps = tiles_of(0, len(h), wide, wide == len(h), count)
    tiles = [tile for step in steps for tile in share.compare(fresh, step)]
    (expectation,) = share.reduce(fresh, tiles).values()
    u = expectation.matrix
    store = Store(metric.scorer)
    assert u is not None
    assert u.tobytes() == matrices(metric, [comparison], store)[0].tobytes()
    assert expectation.truncation == store.truncation_of(
        comparisons_of([plan_of(metric, comparison)])
    )


@metrics_with(
    lambda metric: metric.info.needs_references and metric.name not in IDENTITY_IS_NOT_BEST
)
@given(x=texts, others=some)
@FEW
def test_identity_is_best(metric: Metric, x: str, others: list[str]) -> None:
    own, *rest = utilities(metric, [x, *others], [x])[:, 0]
    assert own >= max(rest) - 1e-9


@every_metric
def test_empty_texts_and_lists(metric: Metric) -> None:
    empties = ["", " ", "\u2028", "\n\t\x1c", ".", "a"]
    assert np.isfinite(utilities(metric, empties, empties)).all()
    assert np.isfinite(scored(metric, empties, empties)).all()
    assert np.isfinite(scored(metric, [""], [["", "", "a"]])).all()
    cases: list[tuple[list[str], list[str]]] = [([], []), ([], ["a"]), (["a"], [])]
    for hypotheses, references in cases:
        columns = len(references) if metric.info.needs_references else 1
        assert utilities(metric, hypotheses, references).shape == (len(hypotheses), columns)
    scores = metric.score([], [], [], [])
    assert (scores.dtype, scores.shape) == (np.dtype(np.float64), (0,))
    with pytest.raises(InputError):
        metric.corpus([], [], [], [])


@every_segment_metric
@given(sentences=st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4))
@FEW
def test_documents_score_as_the_mean_of_their_sentences(
    metric: Metric, sentences: list[tuple[str, str, str]]
) -> None:
    h, r, s = (list(side) for side in zip(*sentences, strict=True))
    ids = ["d"] * len(h)
    by_sentence = metric.score(h, r, s, ids)
    of_document = metric.score([Document(h)], [Document(r)], [Document(s)], ["d"])[0]
    assert of_document == pytest.approx(by_sentence.mean(), rel=1e-12, abs=1e-12)
    corpus = metric.corpus([Document(h)], [Document(r)], [Document(s)], ["d"])
    assert corpus == pytest.approx(metric.corpus(h, r, s, ids), rel=1e-12, abs=1e-12)
    if not metric.reads.context:
        matrix = metric.pairwise([Document(h)], [Document(r)], Document(s))
        assert metric.utility_sign * matrix[0, 0] == pytest.approx(
            of_document, rel=1e-12, abs=1e-12
        )


@every_segment_metric
def test_unequal_documents_raise_in_score_and_are_joined_in_pairwise(metric: Metric) -> None:
    two, three = Document(["the cat sat .", "a mat"]), Document(["the cat", "sat .", "on the mat"])
    sides: list[tuple[Any, Any]] = [(three, three)]
    if metric.info.needs_references:
        sides = [(three, Document(["a", "b"])), ("the cat", Document(["a", "b"]))]
    for reference, source in sides if metric.needs_source or metric.info.needs_references else []:
        with pytest.raises(InputError, match="2 sentences"):
            scored(metric, [two], [reference], source)
    mixed, plain = [two, three, "cat"], [str(two), str(three), "cat"]
    matrix = utilities(metric, mixed, [three, two])
    assert same_bytes(matrix, utilities(metric, plain, [str(three), str(two)]))


@every_segment_metric
def test_aligned_documents_are_compared_pair_by_pair(metric: Metric) -> None:
    """In any company, to the last bit; by lengths where each pair costs much."""
    metric = Aligned(metric, by="length" if metric.costly_pairs else None)
    two, three = Document(["the cat sat .", "a mat"]), Document(["the cat", "sat .", "on the mat"])
    texts: list[str | Document] = [two, three, "cat"]
    source = Document(["the cat sat", "on", "the mat"])
    matrix = metric.pairwise(texts, texts, source)
    assert np.isfinite(matrix).all()
    columns = range(3) if metric.info.needs_references else range(1)
    for i, j in {(0, columns[-1] and 1), (1, 0), (2, columns[-1])}:
        assert metric.pairwise([texts[i]], [texts[j]], source)[0, 0] == matrix[i, j]


@every_metric
def test_input_that_is_refused(metric: Metric) -> None:
    wants_references, lists = metric.info.needs_references, ["b", "c"]
    refused: list[tuple[str, Callable[[], object]]] = [
        (r"hypotheses\[1\].*Document", lambda: utilities(metric, ["a", lists], ["a"])),
        (r"hypotheses\[0\].*Document", lambda: scored(metric, [lists], ["a"])),
        ("hypotheses: .*one text", lambda: utilities(metric, "text", ["a"])),
        ("hypotheses: .*one text", lambda: metric.score("text", ["a"], ["a"], ["d"])),
        ("1 documents for 2", lambda: metric.score(["a"] * 2, ["a"] * 2, ["a"] * 2, ["d"])),
    ]
    if wants_references:
        refused += [
            (r"references\[0\].*Document", lambda: utilities(metric, ["a"], [tuple(lists)])),
            (r"references\[0\]\[0\].*Document", lambda: scored(metric, ["a"], [[lists]])),
        ]
    if metric.needs_source:
        refused += [(r"sources\[0\].*Document", lambda: scored(metric, ["a"], ["a"], lists))]
    if wants_references or metric.needs_source:
        name = "references" if wants_references else "sources"
        refused += [
            (f"1 {name} for 2", lambda: metric.score(["a", "b"], ["a"], ["a"], ["d", "d"])),
            (f"needs {name}", lambda: metric.score(["a", "b"])),
        ]
    if metric.reads.context:
        ids = ["d", "e", "d"]
        refused += [
            ("documents", lambda: metric.score(["a"], ["a"], ["a"])),
            (r"documents\[2\]", lambda: metric.score(["a"] * 3, ["a"] * 3, ["a"] * 3, ids)),
        ]
    else:
        refused += [("context", lambda: metric.pairwise(["a"], ["a"], "a", CONTEXT))]
    for found, call in refused:
        with pytest.raises(InputError, match=found):
            call()


@every_metric
def test_a_metric_is_a_value(metric: Metric) -> None:
    again = load_metric(metric.signature())
    assert load_metric(f"0.5*{metric.signature()}").parts == ((0.5, metric),)
    assert metric.parts == ((1.0, metric),)
    assert "device" not in metric.signature()
    assert "scorer" in vars(metric)
    copy = pickle.loads(pickle.dumps(metric))
    assert "scorer" not in vars(copy)
    assert len({metric, copy, again}) == 1
    assert same_bytes(
        utilities(copy, ["a cat"], ["cat a"]), utilities(metric, ["a cat"], ["cat a"])
    )
    with pytest.raises((AttributeError, TypeError), match=r"cannot assign|frozen"):
        metric.name2 = "x"  # type: ignore[attr-defined]


@every_metric
def test_declarations_are_those_of_the_scorer(metric: Metric) -> None:
    info, scorer = metric.info, type(metric.scorer)
    assert info.bounds[0] < info.bounds[1]
    assert info.version >= 1
    assert info.summary
    assert info.papers or metric.name not in BUILT_IN

    def overrides(method: Callable[..., Any]) -> bool:
        return getattr(scorer, method.__name__) is not method

    assert overrides(Scorer.expected) == info.linear
    assert info.multi_reference != "custom" or overrides(Scorer.compare_multi)
    assert metric.utility_sign == (1.0 if info.higher_is_better else -1.0)
    if info.needs_references:  # a model that reads pairs, and the known searches, make pairs costly
        searches = metric.name in SEARCHES or getattr(metric, "align", None) == "optimal"
        assert metric.costly_pairs == (overrides(Scorer.pair_cost) or searches)


@every_metric
@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=6), data=st.data())
@FEW
def test_corpus_order_does_not_matter(
    metric: Metric, pairs: list[tuple[str, str]], data: st.DataObject
) -> None:
    def corpus(pairs: Sequence[tuple[str, str]]) -> float:
        hypotheses, references = ([pair[side] for pair in pairs] for side in (0, 1))
        return metric.corpus(
            hypotheses, references, [SOURCE] * len(pairs), [str(i) for i in range(len(pairs))]
        )

    score = corpus(pairs)
    assert np.isfinite(score)
    assert corpus(data.draw(st.permutations(pairs))) == pytest.approx(score, rel=1e-12, abs=1e-12)


@metrics_with(lambda metric: metric.info.linear)
@given(candidates=st.lists(texts, min_size=1, max_size=6), self_pair=st.booleans(), data=st.data())
@FEW
def test_the_linear_form_equals_the_matrix(
    metric: Metric, candidates: list[str], self_pair: bool, data: st.DataObject
) -> None:
    logprobs = st.floats(-20, 0)
    record: dict[str, Any] = {
        "id": "x",
        "candidates": [{"text": text, "logprob": data.draw(logprobs)} for text in candidates],
    }
    if metric.reads.context:
        record |= {"document": "d", "position": 0}
    weights = data.draw(st.sampled_from(["uniform", "logprob"]))
    short, plain = (
        next(
            MBRDecoder(
                metric, weights=weights, self_pair=self_pair, nbest=None, keep_matrix=keep
            ).decode([record])
        )
        for keep in (False, True)
    )
    by_text = {place.text: place.utility for place in plain.ranking}
    for place in short.ranking:
        expected = by_text[place.text]
        assert place.utility == (
            None if expected is None else pytest.approx(expected, rel=1e-6, abs=1e-6)
        )


@metrics_with(lambda metric: not metric.reads.context)
@given(candidates=st.lists(texts, min_size=1, max_size=5), self_pair=st.booleans())
@FEW
def test_decoding_averages_pairwise(metric: Metric, candidates: list[str], self_pair: bool) -> None:
    """Weights and the self pair mean nothing to a metric without references."""
    n = len(candidates)
    u = np.broadcast_to(utilities(metric, candidates, candidates), (n, n))
    weights = np.ones((n, n)) - (np.eye(n) if metric.info.needs_references and not self_pair else 0)
    record = {"id": "x", "source": SOURCE, "candidates": candidates}
    ranking = next(MBRDecoder(metric, self_pair=self_pair, nbest=None).decode([record]))
    for place in ranking.ranking:
        mass = weights[place.index].sum()
        expected = float((u * weights)[place.index].sum() / mass) if mass else None
        assert place.utility == (
            None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-9)
        )
    # empty texts come after all others
    places = [place for place in ranking.ranking if place.utility is not None]
    are_empty = [is_blank(place.text) for place in places]
    assert are_empty == sorted(are_empty)
    for is_empty in (False, True):
        of_kind = zip(places, are_empty, strict=True)
        values = [place.utility or 0.0 for place, empty in of_kind if empty == is_empty]
        assert all(b <= a + 2e-9 * abs(a) for a, b in pairwise(values))


FROZEN: dict[str, str] = {
    "bartscore": 'bartscore(model="@sha256:85101182ce1b9580")',
    "bartscore-faithfulness": 'bartscore-faithfulness(model="@sha256:85101182ce1b9580")',
    "bertscore": 'bertscore(model="@sha256:2162f708afb7ed95",layer=2)',
    "bleurt": 'bleurt(model="@sha256:803ced4ff2c5aca5")',
    "doc-bleurt": 'bleurt(model="@sha256:e81029d9ed508f5c",context=2)',
    "doc-embedding": 'embedding(model="@sha256:9a333e37ccee2f16",context=2)',
    "doc-metricx": 'metricx(model="@sha256:6e6be69359173cb6",tokenizer_path="@sha256:ff385195d344c03a",'
    "regression_token_id=11,context=2)",
    "doc-metricx-qe": 'metricx-qe(model="@sha256:fc426f8e5e0ed61a",tokenizer_path="@sha256:ff385195d344c03a",'
    "regression_token_id=11,context=2)",
    "doc-xcomet": 'xcomet(model="@sha256:bfe24883508432c2",context=1,encoder_path="@sha256:2584645a3add3732")',
    "embedding": 'embedding(model="@sha256:6c3183d67b8e9232")',
    "embedding-qe": 'embedding-qe(model="@sha256:56c5b10d4e356e48")',
    "metricx": 'metricx(model="@sha256:d2731b469df092ec",tokenizer_path="@sha256:ff385195d344c03a",'
    "regression_token_id=11)",
    "metricx-qe": 'metricx-qe(model="@sha256:d2731b469df092ec",tokenizer_path="@sha256:ff385195d344c03a",'
    "regression_token_id=11)",
    "xcomet": 'xcomet(model="@sha256:3e0e7ea4b156e07b",encoder_path="@sha256:2584645a3add3732")',
    "xcomet-qe": 'xcomet-qe(model="@sha256:3e0e7ea4b156e07b",encoder_path="@sha256:2584645a3add3732")',
    "bleu": "bleu",
    "chrf": "chrf",
    "chrf++": "chrf(word_order=2)",
    "discotk-light": "discotk-light",
    "ds-focus": 'ds-focus(model="@sha256:2162f708afb7ed95",norm="relative")',
    "ds-sent": 'ds-sent(model="@sha256:bb13ed768c1130e7")',
    "entity-graph": "entity-graph",
    "cohesion": "cohesion",
    "lexical-chain": "lexical-chain",
    "dr": "dr",
    "dr-lex": "dr-lex",
    "dr-lex by nuclearity": 'dr-lex(words="nuclearity")',
    "dr-lex by relation": 'dr-lex(words="relation")',
    "dr-lex by both": 'dr-lex(words="both")',
    "ds-sent by greedy alignment": 'ds-sent(model="@sha256:bb13ed768c1130e7",adjacency=false,align="greedy")',
    "ds-sent by optimal alignment": 'ds-sent(model="@sha256:bb13ed768c1130e7",align="optimal")',
    "cohesion by rc": 'cohesion(measure="rc")',
    "entity-graph of similar nouns": 'entity-graph(model="@sha256:2162f708afb7ed95",focus="entity")',
    "dr-nolex": "dr",
    "comet": 'comet(model="@sha256:5e0dfe8ac7bfd0f0",encoder_path="@sha256:9026ac1908ab09ae")',
    "comet-poly": 'comet-poly(model="@sha256:11d9499d135c3888",encoder_path="@sha256:9026ac1908ab09ae")',
    "comet-qe": 'comet-qe(model="@sha256:f31f0ec2b4cfe32a",encoder_path="@sha256:9026ac1908ab09ae")',
    "doc-bertscore": 'bertscore(model="@sha256:bb13ed768c1130e7",context=2,layer=2)',
    "doc-comet": 'comet(model="@sha256:d0efe56455cbdf42",context=2,encoder_path="@sha256:9026ac1908ab09ae")',
    "doc-comet-qe": 'comet-qe(model="@sha256:22b1728478801dd4",context=2,encoder_path="@sha256:9026ac1908ab09ae")',
    "doc-prism": 'prism(model="@sha256:ffe6fd168adbb50d",context=2,lang="de_DE")',
    "pdd": 'pdd(model="@sha256:779bb3f4b629e4e0")',
    "lm": 'lm(model="@sha256:99c3f85c44cc820d")',
    "doc-lm": 'lm(model="@sha256:99c3f85c44cc820d",context=2)',
    "lm-pair": 'lm-pair(model="@sha256:99c3f85c44cc820d")',
    "meteor": "meteor",
    "nist": 'nist(information="@sha256:1893d3a05f6bd90e")',
    "prism": 'prism(model="@sha256:ffe6fd168adbb50d",lang="en_XX")',
    "role-match": 'role-match(model="@sha256:779bb3f4b629e4e0")',
    "reward": 'reward(model="@sha256:eb651e7a0bd36113")',
    "entail": 'entail(model="@sha256:b52d59acf5fd9912")',
    "entail without contradiction": 'entail(model="@sha256:b52d59acf5fd9912",contradiction=true,agg="min",'
    "window_words=8)",
    "rouge-1": "rouge(n=1)",
    "rouge-2": "rouge(n=2)",
    "rouge": "rouge(n=3)",
    "wer": "wer",
    "cer": "cer",
    "rouge-l": "rouge-l",
    "rouge-lsum": "rouge-lsum",
    "rouge-w": "rouge-w",
    "sescore2": 'sescore2(model="@sha256:46c084e2bdef77fd",encoder_path="@sha256:c4382ab6bf653ed5")',
    "ter": "ter",
    "vote": "vote" if math_version() is None else f'vote(agree="math@{math_version()}")',
}


# comparing runs no model, but a search or all pairs of nodes
SEARCHES = {
    "rouge-lsum",
    "ter",
    "dr",
    "dr-nolex",
    "dr-lex",
    "discotk-light",
}


@pytest.mark.parametrize("name", sorted(REGISTERED))
def test_signatures_of_plain_names_are_frozen(name: str) -> None:
    """A change here breaks resuming of runs and comparing of papers: raise `Info.version` and say so."""
    if name not in METRICS or not is_loaded(name):
        pytest.skip(f"{name} cannot be loaded here, so no law is tried on it")
    assert portable(REGISTERED[name].signature()) == FROZEN[name]


def test_the_registered_metrics_are_under_the_laws() -> None:
    assert {name for name in REGISTERED if name in METRICS and is_loaded(name)} >= set(FROZEN)


IN_CONTEXT = sorted(name for name in TINY if name.startswith("doc-"))


@pytest.mark.parametrize("name", IN_CONTEXT)
def test_without_context_a_metric_in_context_is_the_plain_one(name: str) -> None:
    """Of the first sentence of a document, to the last digit."""
    texts = ["The old mill turned.", "A mill near the river", "It is cold today.", ""]
    references, sources = texts[2:] + texts[:2], texts[1:] + texts[:1]
    documents = [str(i) for i in range(len(texts))]
    in_context = load_metric(name, **TINY[name]).score(texts, references, sources, documents)
    plain = load_metric(name.removeprefix("doc-"), **TINY[name]).score(texts, references, sources)
    np.testing.assert_array_equal(in_context, plain)


@pytest.mark.parametrize("name", sorted(REGISTERED.keys() - VARIANTS.keys()))
def test_a_metric_has_the_name_that_it_was_asked_by(name: str) -> None:
    """`chrf++` is a setting of `chrf`, and no table may call it so; `dr-nolex` is `dr`, without any."""
    metric = REGISTERED[name]
    if metric is None:
        pytest.skip(f"{name} cannot be loaded here, so no law is tried on it")
    typed = as_typed(metric.signature())
    assert typed.partition("(")[0] == {"dr-nolex": "dr"}.get(name, name)
    assert load_metric(typed) == metric


@pytest.mark.parametrize(
    ("signature", "typed"),
    [
        ("chrf", "chrf"),
        ("chrf(beta=1.0,word_order=2)", "chrf++(beta=1.0)"),
        ("aligned(chrf(word_order=2))", "aligned(chrf++)"),
        ("chrf(word_order=2) + -0.5*rouge(n=1) + 2.0*bleu", "chrf++ - 0.5*rouge-1 + 2*bleu"),
        ("not a signature", "not a signature"),
        ("my.module:Metric(n=1)", "my.module:Metric(n=1)"),
    ],
)
def test_signatures_as_people_type_them(signature: str, typed: str) -> None:
    assert as_typed(signature) == typed
