"""The store and the lifting of documents: once per item, one bucket per batch, no value from its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import (
    CandidateList,
    Context,
    Document,
    InputError,
    MBRDecoder,
    Metric,
    Scorer,
    load_metric,
)
from discorank.metrics.execution import segment_scores
from discorank.metrics.execution import store as store_module
from discorank.metrics.execution.evaluate import Folded, is_joined, lift, matrices
from discorank.metrics.execution.store import Store
from discorank.metrics.representations import Block, FloatArray, IntArray, Reps
from discorank.metrics.scorer import Info, Reading
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.text.texts import NO_CONTEXT, Comparison, Item, paired
from discorank.rerank.lists import Candidate

from ...support.examples import examples

BOUNDED = examples(8)


@settings
class Recorder(Metric):
    """u(h, r) = 100 |h| + |r| + the characters of their contexts / 1024; records what its scorer was given."""

    context: int = 0
    context_from: str = "reference"
    bad: str = "\x00"
    name: ClassVar[str] = f"{__name__}:Recorder"
    info: ClassVar[Info] = Info(summary="toy", bucketed=True)

    @property
    def reads(self) -> Reading:
        return Reading(self.context, self.context_from)

    def load(self) -> RecordingScorer:
        return RecordingScorer(self)


class RecordingScorer(Scorer):
    def __init__(self, metric: Recorder) -> None:
        self.info, self.bad = metric.info, metric.bad
        self.prepared: list[list[Item]] = []
        self.batches: list[list[int]] = []
        self.compared: list[int] = []

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        if any(str(item.text) == self.bad for item in items):
            raise InputError("cannot be read")
        self.prepared.append(list(items))
        lengths = np.array([len(str(item.text)) for item in items], np.int64)
        context = np.array([len("".join(item.context)) for item in items], float)
        return Reps({"length": lengths, "context": context}), lengths

    def represent(self, prepared: Reps) -> Reps:
        self.batches.append(prepared["length"].tolist())
        return prepared

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        self.compared.append(len(blocks))
        value, context = reps["length"].astype(float), reps["context"] / 1024
        return [
            (100 * value + context)[b.hypotheses][:, None]
            + (value + context)[b.references][None, :]
            for b in blocks
        ]


def made(texts: Sequence[Any], references: Sequence[Any] | None = None) -> Comparison:
    return paired(texts, texts if references is None else references, None, NO_CONTEXT)


def test_each_distinct_item_is_prepared_once() -> None:
    metric = Recorder()
    store = Store(metric.scorer)
    blocks = store.add([made(["a", "bb", "a"]), made(["bb"], ["ccc", "a"])])
    assert [block.hypotheses.tolist() for block in blocks] == [[0, 1, 0], [1]]
    assert [block.references.tolist() for block in blocks] == [[0, 1, 0], [2, 0]]
    assert blocks[0].square
    assert not blocks[1].square
    later = store.add([made(["ccc", "dddd"], ["a"])])
    assert later[0].hypotheses.tolist() == [2, 3]
    assert isinstance(metric.scorer, RecordingScorer)
    assert [[item.text for item in items] for items in metric.scorer.prepared] == [
        ["a", "bb", "ccc"],
        ["dddd"],
    ]
    assert store.reps["length"].tolist() == store.lengths.tolist() == [1, 2, 3, 4]


def test_items_of_other_contexts_and_sides_are_distinct() -> None:
    metric = Recorder()
    store = Store(metric.scorer)
    items = (Item("a"), Item("a", ("c",)), Item("a", (), "source"), Item("a", ("c",)))
    block = store.add([Comparison(items[:2], items[3:], items[2])])[0]
    assert (block.hypotheses.tolist(), block.references.tolist(), block.source) == ([0, 1], [1], 2)


def test_an_item_that_failed_is_unknown_again() -> None:
    metric = Recorder(bad="bad")
    store = Store(metric.scorer)
    store.add([made(["x"])])
    with pytest.raises(InputError, match="cannot be read"):
        store.add([made(["y", "bad"])])
    block = store.add([made(["zz", "y", "x"])])[0]
    assert store.reps["length"][block.hypotheses].tolist() == [2, 1, 1]
    assert len(store.row) == len(store.reps) == len(store.lengths) == 3


@given(
    lengths=st.lists(st.integers(0, 200), min_size=1, max_size=60, unique=True),
    limit=st.integers(1, 600),
)
@BOUNDED
def test_batches_are_in_order_of_length_and_small(lengths: list[int], limit: int) -> None:
    metric = Recorder()
    scorer = metric.load()
    scorer.batch_tokens = limit
    store = Store(scorer)
    store.add([made(["x" * length for length in lengths])])
    assert store.reps["length"].tolist() == lengths
    assert [length for batch in scorer.batches for length in batch] == sorted(lengths)
    assert all(len(batch) == 1 or sum(batch) <= limit for batch in scorer.batches)
    assert all(sum(a) + b[0] > limit for a, b in pairwise(scorer.batches)), (
        "a batch could have been larger"
    )


@given(
    lists=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6), min_size=1, max_size=12),
    length=st.integers(1, 200),
    cells=st.integers(1, 60),
)
@BOUNDED
def test_groups_are_small_and_complete(lists: list[list[int]], length: int, cells: int) -> None:
    store = Store(Recorder().load())
    blocks = store.add([made(["x" * n for n in row]) for row in lists])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "GROUP_LENGTH", length)
        patch.setattr(store_module, "GROUP_CELLS", cells)
        groups = list(store.groups(blocks))
    assert [i for group in groups for i in range(group.start, group.stop)] == list(
        range(len(blocks))
    )
    for group in groups:
        part = blocks[group]
        assert len(part) == 1 or sum(block.cells for block in part) <= cells
        assert (
            len(part) == 1
            or sum(int(store.lengths[block.hypotheses].sum()) for block in part) <= length
        )
    assert list(store.groups([])) == []


WORDS = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a.", "mat", "猫"]), max_size=7).map(
    " ".join
)


@pytest.mark.parametrize("name", ["chrf", "chrf++", "bleu", "ter"])
@given(
    lists=st.lists(st.lists(WORDS, min_size=1, max_size=5), min_size=1, max_size=6),
    cells=st.integers(1, 40),
)
@examples(4)
def test_group_sizes_do_not_change_values(name: str, lists: list[list[str]], cells: int) -> None:
    metric = load_metric(name)
    assert isinstance(metric, Metric)
    comparisons = [made(row) for row in lists] + [made(row, lists[0]) for row in lists]
    segments = [made(row[:1], row) for row in lists]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "GROUP_CELLS", 1 << 40)
        patch.setattr(store_module, "GROUP_LENGTH", 1 << 40)
        whole = matrices(metric, comparisons)
        scores, statistics = segment_scores.scores_and_statistics(metric, segments)
        assert segment_scores.scores(metric, segments).tobytes() == scores.tobytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "GROUP_CELLS", cells)
        parts = matrices(metric, comparisons)
        assert segment_scores.scores(metric, segments).tobytes() == scores.tobytes()
        assert (
            segment_scores.scores_and_statistics(metric, segments)[1].tobytes()
            == statistics.tobytes()
        )
    assert [u.tobytes() for u in parts] == [u.tobytes() for u in whole]


@pytest.mark.parametrize("name", ["chrf", "chrf++", "bleu", "nist", "ter", "meteor"])
@given(rows=st.lists(st.lists(WORDS, min_size=2, max_size=4), min_size=1, max_size=5))
@examples(4)
def test_both_of_one_comparison_are_those_of_two(name: str, rows: list[list[str]]) -> None:
    metric = load_metric(name)
    assert isinstance(metric, Metric)
    metric = metric.fit([text for row in rows for text in row]) if name == "nist" else metric
    store = Store(metric.scorer)
    blocks = store.add([made(row[:1], row[1:]) for row in rows])
    values, statistics = metric.scorer.values_and_statistics(store.reps, blocks)
    one_by_one = metric.scorer.compare_multi(store.reps, blocks)
    assert values.tobytes() == np.concatenate(one_by_one).tobytes()
    assert statistics.tobytes() == metric.scorer.statistics(store.reps, blocks).tobytes()
    matrices_of_blocks = metric.scorer.compare(store.reps, blocks)
    best = [u.min() if name == "ter" else u.max() for u in matrices_of_blocks]
    if name in ("chrf", "chrf++", "meteor"):
        assert values.tolist() == best


def test_hundreds_of_lists_are_compared_in_one_call() -> None:
    metric = Recorder()
    scorer = metric.scorer
    assert isinstance(scorer, RecordingScorer)
    matrices(metric, [made([f"{i}", f"{i}x", f"{i}xx"]) for i in range(300)])
    assert scorer.compared == [300]


def test_repeated_rows_are_compared_once_in_order_of_appearance() -> None:
    distinct = Folded.of(Block(np.array([4, 1, 4, 2]), np.array([2, 2]), 7))
    assert distinct.block.hypotheses.tolist() == [4, 1, 2]
    assert distinct.block.references.tolist() == [2]
    assert distinct.block.source == 7
    assert distinct.spread(np.array([[40.0], [10], [20]])).tolist() == [
        [40, 40],
        [10, 10],
        [40, 40],
        [20, 20],
    ]
    rows = np.array([3, 1, 3])
    assert Folded.of(Block(rows, rows)).block.square
    single = Block(np.array([3, 1]), np.array([5]))
    assert Folded.of(single).block is single
    assert Folded.of(single).spread(np.ones((2, 1))).tolist() == [[1], [1]]


def test_documents_are_lifted_sentence_by_sentence() -> None:
    one, other = Document(["a1", "a2", "a3"]), Document(["b1", "b2", "b3"])
    source = Item(Document(["s1", "s2", "s3"]), ("s0",), "source")
    comparison = Comparison((Item(one, ("t0",)),), (Item(other, ("t0",)),), source)
    first, second, third = lift(Recorder(context=2), comparison)
    assert first == Comparison(
        (Item("a1", ("t0",)),), (Item("b1", ("t0",)),), Item("s1", ("s0",), "source")
    )
    assert second.hypotheses == (Item("a2", ("t0", "a1")),)
    assert second.references == (Item("b2", ("t0", "b1")),)
    assert third.hypotheses == (Item("a3", ("a1", "a2")),)
    assert third.source == Item("s3", ("s1", "s2"), "source")
    assert [unit.hypotheses[0].context for unit in lift(Recorder(), comparison)] == [(), (), ()]
    square = lift(Recorder(), made([one, other]))
    assert all(unit.references is unit.hypotheses for unit in square)


def test_documents_that_do_not_align_are_joined_or_refused() -> None:
    mixed = made([Document(["a", "b"]), Document(["c"])], ["d"])
    assert lift(Recorder(), mixed) == [made(["a b", "c"], ["d"])]
    with pytest.raises(InputError, match=r"a plain text, 1 sentences, 2 sentences"):
        lift(Recorder(), mixed, strict=True)


def test_flags_of_documents() -> None:
    for texts, flags in ((["c", "d"], ()), (["c"], ("joined",))):
        record = CandidateList("x", (Candidate(Document(["a", "b"])), Candidate(Document(texts))))
        assert next(MBRDecoder("chrf").decode([record])).flags == flags


def test_score_reads_the_hypothesis_in_the_reference_context() -> None:
    h, r = ["h", "hh"], ["rrr", "r"]
    assert Recorder(context=1).score(h, r, None, ["d", "d"]).tolist() == [103, 201 + 2 * 3 / 1024]
    own = Recorder(context=1, context_from="hypothesis").score(h, r, None, ["d", "d"])
    assert own.tolist() == [103, 201 + (1 + 3) / 1024]


def test_score_of_documents_reads_the_hypothesis_in_the_reference_context() -> None:
    """Only `pairwise` has another default for whole documents."""
    scores = Recorder(context=1).score(
        [Document(["h", "hh"])], [Document(["rrr", "r"])], None, ["d"]
    )
    assert scores[0] == pytest.approx((103 + 201 + 2 * 3 / 1024) / 2, abs=1e-12)


def test_pairwise_shares_the_context() -> None:
    matrix = Recorder(context=2).pairwise(
        ["h"], ["rr"], None, Context(target=("long ago", "abc", "d"))
    )
    assert matrix.tolist() == [[102 + 2 * 4 / 1024]]


def test_context_wants_equally_many_references() -> None:
    with pytest.raises(InputError, match="references"):
        Recorder(context=1).score(["a", "b"], [["a"], ["b", "c"]], None, ["d", "d"])
    assert Recorder().score(["a", "b"], [["a"], ["b", "cc"]]).tolist() == [101, 102]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("score", (["a"], [None])),
        ("score", (["a"], [5])),
        ("score", (["a"], Document(["a"]))),
        ("score", (["a", "b"], ["a"])),
        ("score", (["a", "b"], [["a"], ["b"], ["c"]])),
        ("score", (["a", "b"], "ab")),
        ("score", (["a", "b"], ["a", []])),
        ("pairwise", (["a"], None)),
        ("score", (None, ["a"])),
    ],
)
def test_what_is_no_list_of_texts(method: str, arguments: Any) -> None:
    with pytest.raises(InputError, match=r"references|hypotheses"):
        getattr(Recorder(), method)(*arguments)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([Document(["a", "b"]), Document(["c"])], True),
        (["c", Document(["a", "b"])], True),
        ([Document(["a", "b"]), Document(["c", "d"])], False),
        ([Document(["a"]), Document(["c"])], False),
        (["a", "b"], False),
    ],
)
def test_is_joined(texts: Any, expected: bool) -> None:
    assert is_joined(Recorder(), made(texts)) == expected


@settings
class Slope(Metric):
    """Linear: u(h, r) = f(r), whose sum shows the order it was made in."""

    name: ClassVar[str] = f"{__name__}:Slope"
    info: ClassVar[Info] = Info(summary="toy", linear=True)

    def load(self) -> SlopeScorer:
        return SlopeScorer()


class SlopeScorer(Scorer):
    info = Slope.info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        value = np.array([float(str(item.text)) for item in items])
        return Reps({"value": value}), np.ones(len(items), np.int64)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        return [np.tile(reps["value"][b.references], (len(b.hypotheses), 1)) for b in blocks]

    def expected(
        self, reps: Reps, blocks: Sequence[Block], weights: Sequence[FloatArray]
    ) -> list[FloatArray]:
        result = []
        for block, w in zip(blocks, weights, strict=True):
            total = 0.0
            for value, weight in zip(reps["value"][block.references], w, strict=True):
                total += value * weight
            result.append(np.full(len(block.hypotheses), total))
        return result


def test_lists_seen_before_do_not_change_a_linear_sum() -> None:
    """Documents repeat sentences, so that blocks hold repeated rows; the sum must still be in the list's own order."""

    def record(name: str, values: Sequence[str]) -> CandidateList:
        return CandidateList(
            name, tuple(Candidate(Document([value, str(i)])) for i, value in enumerate(values))
        )

    values = ["1e16", "1.0", "-1e16", "1.0", "3.0"]
    decoder = MBRDecoder(Slope())
    alone = next(decoder.decode([record("x", values)])).utility
    after = list(decoder.decode([record("w", values[::-1]), record("x", values)]))[1].utility
    assert after == alone


def test_a_linear_form_knows_when_nothing_remains() -> None:
    """A self pair that holds all but 1e-11 of the weight: the matrix gives no value, so the other text is chosen."""
    record = CandidateList("x", (Candidate("1", 0.0), Candidate("5", -25.0)))
    short, plain = (
        next(
            MBRDecoder(
                Slope(), weights="logprob", self_pair=False, nbest=None, keep_matrix=keep
            ).decode([record])
        )
        for keep in (False, True)
    )
    assert [place.utility for place in plain.ranking] == [1.0, None]
    assert [place.utility for place in short.ranking] == [1.0, None]


@pytest.mark.parametrize("name", ["chrf", "bleu", "ter", "meteor", "rouge-l", "vote"])
def test_strings_of_numpy_are_plain_texts(name: str) -> None:
    hypotheses, references = ["the cat sat", "a dog", ""], ["the cat sat down", "a dog", "dogs"]
    metric = load_metric(name)
    expected = metric.score(hypotheses, references)
    numpy_texts = list(np.array(hypotheses))
    assert type(numpy_texts[0]) is not str
    assert metric.score(numpy_texts, references).tolist() == expected.tolist()
    mixed = metric.score(hypotheses, list(np.array(references)))
    assert mixed.tolist() == expected.tolist()
