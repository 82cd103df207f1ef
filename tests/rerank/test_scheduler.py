"""The scheduler: whatever order results come in, a run equals deciding one record after the other."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank import (
    Candidate,
    CandidateList,
    Context,
    DiscorankError,
    InputError,
    MBRDecoder,
    Metric,
    Ranking,
    Scorer,
)
from discorank.metrics.representations import Block, FloatArray, IntArray, Reps
from discorank.metrics.scorer import Info, Reading
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.text.texts import Item
from discorank.rerank import scheduler
from discorank.rerank.choice import choose
from discorank.rerank.engines.interface import Result, Task
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.status import Status
from discorank.rerank.order import StrategySetting
from discorank.rerank.scheduler import Decided, Program, Scheduler

BOUNDED = bounded(max_examples=20, deadline=None, database=None, print_blob=True)


@settings
class Echo(Metric):
    """u(h, r) = letters of h that its k sentences of context lack, source context counting too, + |h & r| / 8."""

    context: int = 2
    name: ClassVar[str] = f"{__name__}:Echo"
    info: ClassVar[Info] = Info(summary="toy", needs_source=True)

    @property
    def reads(self) -> Reading:
        return Reading(self.context)

    def load(self) -> EchoScorer:
        return EchoScorer()


class EchoScorer(Scorer):
    info = Echo.info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        own, before = (np.empty(len(items), object) for _ in range(2))
        for i, item in enumerate(items):
            if item.text == "broken":
                raise InputError("a broken source")
            own[i], before[i] = frozenset(str(item.text)), frozenset("".join(item.context))
        return Reps({"own": own, "before": before}), np.array(
            [len(letters) for letters in own], np.int64
        )

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        own, before = reps["own"], reps["before"]
        return [
            np.array(
                [
                    [
                        len(own[h] - before[h] - before[b.source]) + len(own[h] & own[r]) / 8
                        for r in b.references
                    ]
                    for h in b.hypotheses
                ]
            )
            for b in blocks
        ]


class Shuffled:
    """An engine that gives results back in random order and in portions of any size."""

    def __init__(self, seed: int) -> None:
        self.random, self.inner = random.Random(seed), LocalEngine()
        self.waiting: list[tuple[int, Task]] = []
        self.most = 0

    def load(self, metrics: Sequence[Any]) -> None:
        self.inner.load(metrics)

    def submit(self, key: int, task: Task) -> None:
        self.waiting.append((key, task))
        self.most = max(self.most, len(self.waiting))

    def collect(self) -> list[tuple[int, Result | DiscorankError]]:
        assert self.waiting, "collect without anything submitted would wait for ever"
        self.random.shuffle(self.waiting)
        n = self.random.randint(1, len(self.waiting))
        portion, self.waiting = self.waiting[:n], self.waiting[n:]
        results = []
        for key, task in portion:
            self.inner.submit(key, task)
            results += self.inner.collect()
        return results

    def forget(self, keys: Collection[int]) -> None:
        self.waiting = [(key, task) for key, task in self.waiting if key not in keys]

    def status(self) -> Status:
        return self.inner.status()


def one_after_the_other(
    records: Sequence[CandidateList], strategy: str, width: int
) -> list[tuple[str, str, tuple[str, ...]] | None]:
    """(id, chosen text or error, flags) of every record, in the plainest way; None where it only lends context."""
    metric = Echo(width)
    result: list[tuple[str, str, tuple[str, ...]] | None] = []
    document: str | None = None
    before: list[str] = []
    source: list[str] = []
    failed: list[bool] = []
    position: int | None = None
    cut = False
    for record in records:
        if record.document != document:
            document, before, source, failed, position, cut = (
                record.document,
                [],
                [],
                [],
                None,
                False,
            )
        flags = []
        if position is not None and record.position is not None and record.position != position + 1:
            before, source, failed, cut = [], [], [], True
        if cut:
            flags.append("context-cut")
        if any(failed[-width:]):
            flags.append("context-of-failed")
        texts = [str(candidate.text) for candidate in record.candidates]
        chosen = texts[0]
        failed.append(False)
        if record.context_only:
            result.append(None)
        else:
            try:
                u = metric.pairwise(
                    texts, texts, record.source, Context(tuple(source), tuple(before))
                )
                counts = u.mean(axis=1)
                best = texts[
                    next(i for i, v in enumerate(counts) if v >= counts.max() * (1 - 1e-9))
                ]
                chosen = texts[0] if strategy == "one-best" else best
                result.append((record.id, best, tuple(flags)))
                cut = False
            except InputError:
                failed[-1] = strategy == "sequential"
                cut = cut and strategy == "sequential"
                result.append((record.id, "error", ()))
        before, source, position = (
            [*before, chosen],
            [*source, str(record.source or "")],
            record.position,
        )
    return result


def run(
    records: Iterable[Any], engine: Any, strategy: StrategySetting = "sequential", width: int = 2
) -> list[tuple[str, str, tuple[str, ...]] | None]:
    decoder = MBRDecoder(Echo(width), strategy=strategy)
    outcomes: list[tuple[str, str, tuple[str, ...]] | None] = []
    for tag, outcome in decoder.outcomes(
        ((getattr(r, "id", i), r) for i, r in enumerate(records)), engine
    ):
        if isinstance(outcome, Ranking):
            outcomes.append((tag, str(outcome.text), outcome.flags))
        else:
            outcomes.append(None if outcome is None else (tag, "error", ()))
    return outcomes


WORDS = st.text("abcdefgh", min_size=1, max_size=5)


@st.composite
def documents(draw: st.DrawFn) -> list[CandidateList]:
    records = []
    for d in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, 3))
        for s in range(draw(st.integers(1, 6))):
            source = draw(WORDS)
            if draw(st.integers(0, 5)) == 0:
                source = "broken"
            records.append(
                CandidateList(
                    f"{d}:{s}",
                    tuple(map(Candidate, draw(st.lists(WORDS, min_size=1, max_size=4)))),
                    source,
                    document=f"d{d}",
                    position=position,
                    context_only=draw(st.integers(0, 4)) == 0,
                )
            )
            position += 1 + (draw(st.integers(0, 4)) == 0) * draw(st.integers(1, 2))
    return records


@given(records=documents(), width=st.integers(1, 3), seed=st.integers(0, 999))
@BOUNDED
def test_sequential_equals_one_after_the_other(
    records: list[CandidateList], width: int, seed: int
) -> None:
    expected = one_after_the_other(records, "sequential", width)
    assert run(records, LocalEngine(), "sequential", width) == expected
    assert run(records, Shuffled(seed), "sequential", width) == expected


@given(records=documents(), width=st.integers(1, 3), seed=st.integers(0, 999))
@BOUNDED
def test_one_best_equals_one_after_the_other(
    records: list[CandidateList], width: int, seed: int
) -> None:
    expected = one_after_the_other(records, "one-best", width)
    assert run(records, LocalEngine(), "one-best", width) == expected
    assert run(records, Shuffled(seed), "one-best", width) == expected


@given(
    records=documents(), width=st.integers(1, 3), window=st.integers(1, 5), seed=st.integers(0, 999)
)
@BOUNDED
def test_the_window_does_not_matter(
    records: list[CandidateList], width: int, window: int, seed: int
) -> None:
    expected = run(records, LocalEngine(), "sequential", width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "WINDOW_RECORDS", window)
        engine = Shuffled(seed)
        assert run(records, engine, "sequential", width) == expected
        assert engine.most <= window
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "WINDOW_CHARACTERS", window)
        assert run(records, Shuffled(seed), "sequential", width) == expected


def record(
    identity: str,
    *texts: str,
    document: str | None = "d",
    position: int | None = None,
    source: str = "x",
    **more: Any,
) -> CandidateList:
    return CandidateList(identity, tuple(map(Candidate, texts)), source, document, position, **more)


def contexts(records: Iterable[Any], strategy: str, width: int = 2) -> list[tuple[Any, ...]]:
    """(id, target context, source context, flags) that every decision saw."""
    seen: list[tuple[Any, ...]] = []

    def decide(given: CandidateList, context: Context, flags: tuple[str, ...]) -> Program:
        seen.append((given.id, context.target, context.source, flags))
        yield Task(given.id, Echo(), (), np.ones(1))
        # the last candidate
        return choose(given, np.arange(len(given.candidates), dtype=float), 1, flags)

    class Nothing:
        def __init__(self) -> None:
            self.keys: list[int] = []

        def submit(self, key: int, task: Task) -> None:
            self.keys.append(key)

        def collect(self) -> list[tuple[int, Any]]:
            done, self.keys = self.keys, []
            return [(key, Result(np.zeros((1, 1)))) for key in done]

    list(Scheduler(decide, Nothing(), strategy, width).run((i, r) for i, r in enumerate(records)))  # type: ignore[arg-type]
    return sorted(seen)


THREE = [record(str(i), f"a{i}", f"b{i}", source=f"s{i}", position=i) for i in range(4)]


def test_contexts_of_strategies() -> None:
    assert [target for _, target, _, _ in contexts(THREE, "sequential")] == [
        (),
        ("b0",),
        ("b0", "b1"),
        ("b1", "b2"),
    ]
    assert [target for _, target, _, _ in contexts(THREE, "one-best")] == [
        (),
        ("a0",),
        ("a0", "a1"),
        ("a1", "a2"),
    ]
    assert [target for _, target, _, _ in contexts(THREE, "independent")] == [(), (), (), ()]
    assert [source for _, _, source, _ in contexts(THREE, "sequential")] == [
        (),
        ("s0",),
        ("s0", "s1"),
        ("s1", "s2"),
    ]


def test_documents_do_not_lend_each_other_context() -> None:
    records = [
        record("0", "a"),
        record("1", "b", document="e"),
        record("2", "c", document="e"),
        record("3", "d"),
    ]
    assert [target for _, target, _, _ in contexts(records, "sequential")] == [(), (), ("b",), ()]


def test_a_record_without_a_document_has_no_context_to_read() -> None:
    records = [record("0", "a"), record("1", "b", document=None), record("2", "c", document=None)]
    outcomes = [
        outcome for _, outcome in MBRDecoder(Echo()).outcomes(enumerate(records), LocalEngine())
    ]
    assert [isinstance(outcome, InputError) for outcome in outcomes] == [False, True, True]
    assert "no document, but" in str(outcomes[1])
    free = [
        outcome for _, outcome in MBRDecoder(Echo(0)).outcomes(enumerate(records), LocalEngine())
    ]
    assert not any(isinstance(outcome, InputError) for outcome in free)


def test_a_jump_cuts_the_context_and_is_flagged() -> None:
    records = [
        record(str(i), f"a{i}", position=position)
        for i, position in enumerate([0, 1, 3, 4, 2, None, 9])
    ]
    choices = contexts(records, "sequential")
    assert [(target, flags) for _, target, _, flags in choices] == [
        ((), ()),
        (("a0",), ()),
        ((), ("context-cut",)),
        (("a2",), ()),
        ((), ("context-cut",)),
        (("a4",), ()),  # no position is no jump
        (("a4", "a5"), ()),
    ]


def test_context_only_lends_its_first_candidate_and_has_no_outcome() -> None:
    records = [
        record("0", "a", "b", context_only=True),
        record("1", "c", "d"),
        record("2", "e", context_only=True),
    ]
    records += [record("3", "f")]
    for strategy in ("sequential", "one-best"):
        chosen = "d" if strategy == "sequential" else "c"
        choices = contexts(records, strategy)
        assert [(identity, target) for identity, target, _, _ in choices] == [
            ("1", ("a",)),
            ("3", (chosen, "e")),
        ]
    assert [row if row is None else row[0] for row in run(records, LocalEngine())] == [
        None,
        "1",
        None,
        "3",
    ]


@pytest.mark.parametrize("strategy", ["sequential", "one-best"])
def test_a_broken_line_cuts_the_context(strategy: str) -> None:
    records: list[Any] = [record(str(i), f"a{i}", position=None) for i in range(3)]
    records.insert(1, InputError("no JSON"))
    choices = contexts(records, strategy)
    assert [(target, flags) for _, target, _, flags in choices] == [
        ((), ()),
        ((), ("context-cut",)),
        (("a1",), ()),
    ]
    resumed = contexts([Decided(records[0], "a0"), Decided(None), *records[2:]], strategy)
    assert resumed == choices[1:]


def test_a_failing_record_lends_its_first_candidate_and_flags_its_readers() -> None:
    records = [
        record("0", "ab", "cd"),
        record("1", "aaa", "efgh", source="broken"),
        record("2", "aaa", "bcd"),
        record("3", "efg"),
    ]
    shown = run(records, LocalEngine())
    assert shown == one_after_the_other(records, "sequential", 2)
    assert shown[1] == ("1", "error", ())
    assert [row[2] for row in shown if row] == [
        (),
        (),
        ("context-of-failed",),
        ("context-of-failed",),
    ]
    outcomes = [o for _, o in MBRDecoder(Echo()).outcomes(enumerate(records), LocalEngine())]
    assert isinstance(outcomes[1], InputError)
    assert "a broken source" in str(outcomes[1])


def test_a_list_that_fails_at_once_frees_those_behind_it() -> None:
    """A decision may fail before its first task."""
    records = [record(str(i), "a", "b", references=() if i % 2 else ("a",)) for i in range(6)]
    decoder = MBRDecoder(Echo(), oracle=True)
    outcomes = [outcome for _, outcome in decoder.outcomes(enumerate(records), Shuffled(1))]
    assert [isinstance(outcome, InputError) for outcome in outcomes] == [False, True] * 3
    assert [o.flags for o in outcomes if isinstance(o, Ranking)] == [
        (),
        ("context-of-failed",),
        ("context-of-failed",),
    ]


def test_errors_pass_through_in_order() -> None:
    error = InputError("malformed")
    outcomes = list(
        MBRDecoder(Echo()).outcomes(
            [(0, record("0", "a")), (1, error), (2, record("1", "b"))], Shuffled(2)
        )
    )
    assert [tag for tag, _ in outcomes] == [0, 1, 2]
    assert outcomes[1][1] is error


@pytest.mark.parametrize("strategy", ["sequential", "one-best"])
@given(records=documents(), width=st.integers(1, 3), data=st.data())
@BOUNDED
def test_decided_records_replay(
    strategy: StrategySetting, records: list[CandidateList], width: int, data: st.DataObject
) -> None:
    """A run that goes on after any number of decided records gives the rest of the whole run."""
    whole = run(records, LocalEngine(), strategy, width)
    cut = data.draw(st.integers(0, len(records)))
    decided = [
        Decided(
            r,
            r.candidates[0].text if row is None or row[1] == "error" else row[1],
            bool(row and row[1] == "error"),
        )
        for r, row in zip(records[:cut], whole[:cut], strict=True)
    ]
    assert run([*decided, *records[cut:]], Shuffled(cut), strategy, width) == whole[cut:]


def test_a_decided_record_that_failed_flags_the_next() -> None:
    records = [record("0", "ab", source="broken"), record("1", "cd", "ab")]
    whole = run(records, LocalEngine())
    assert whole[1] == ("1", "cd", ("context-of-failed",))
    assert run([Decided(records[0], "ab", True), records[1]], LocalEngine()) == whole[1:]


def test_a_failed_decided_record_flags_as_the_whole_run_does() -> None:
    records = [record("0", "ab", source="broken"), record("1", "cd", "ab")]
    whole = run(records, LocalEngine(), "one-best")
    assert (
        run([Decided(records[0], "ab", True), records[1]], LocalEngine(), "one-best") == whole[1:]
    )


def test_documents_go_side_by_side() -> None:
    """Sequential documents wait for themselves alone: as many lists are with the engine as there are documents."""
    records = [record(f"{d}:{s}", "ab", "cd", document=str(d)) for d in range(20) for s in range(5)]
    engine = Shuffled(0)
    run(records, engine)
    assert engine.most == 20


def counted(n: int, read: list[int]) -> Iterator[CandidateList]:
    for i in range(n):
        read[0] += 1
        yield record(str(i), "a", "b", document=str(i // 4))


def test_only_a_window_is_read_ahead() -> None:
    read = [0]
    outcomes = MBRDecoder(Echo()).outcomes(enumerate(counted(1_000_000, read)), LocalEngine())
    for n in range(10):
        assert next(outcomes)[0] == n
    assert read[0] <= scheduler.WINDOW_RECORDS + 10


def test_an_engine_forgets_what_a_decoder_left_behind() -> None:
    decoder, engine = MBRDecoder(utility="chrf"), LocalEngine()
    rows = [{"id": str(i), "candidates": ["a b", f"a {i}", "c"]} for i in range(5)]
    expected = [ranking.text for ranking in decoder.decode(rows)]
    engine.wave = 1
    begun = decoder.decode(rows, engine)
    next(begun)
    with pytest.raises(InputError, match="at work for two decoders at once"):
        next(decoder.decode(rows, engine))
    with pytest.raises(InputError, match="at work for two decoders at once"):
        list(begun)
    next(again := decoder.decode(rows, engine))
    again.close()  # type: ignore[attr-defined]
    assert [ranking.text for ranking in decoder.decode(rows, engine)] == expected
