"""Searches over documents: what is chosen is the best of all sequences of choices, whatever the engine does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank import (
    Budget,
    CandidateList,
    Context,
    DiscorankError,
    InputError,
    MBRDecoder,
    Ranking,
    Reranker,
    ResumeError,
    load_metric,
    use_limits,
)
from discorank.rerank.choice import LOOKED_AHEAD
from discorank.rerank.documents import document_scheduler
from discorank.rerank.documents.document_scheduler import DocumentScheduler
from discorank.rerank.documents.document_search import DocumentSearch, History
from discorank.rerank.documents.search_counts import num_contexts
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.runs.rows import json_row, text_row
from discorank.rerank.scheduler import Decided, accept_all

from ...support.contextual import NewLetters
from ..test_scheduler import Echo, Shuffled, counted, documents, record

BOUNDED = bounded(max_examples=20, deadline=None, database=None, print_blob=True)
GOLDEN = Path(__file__).parents[2] / "golden"
MODELS = GOLDEN / "docmetrics" / "models"
TINY = f'model="{MODELS}/tiny-bert",layer=2'
COMET = f'model="{MODELS}/tiny-comet-ref",encoder_path="{MODELS}/tiny-xlmr"'
HUGE = 1024
Decider = MBRDecoder | Reranker
Outcomes = list[Ranking | DiscorankError | None]


def outcomes_of(decider: Decider, records: Sequence[Any], engine: Any = None) -> Outcomes:
    found = decider.outcomes(enumerate(records), engine or LocalEngine())
    pairs = list(found)
    expected = [i for i, entry in enumerate(records) if not isinstance(entry, Decided)]
    assert [tag for tag, _ in pairs] == expected
    return [outcome for _, outcome in pairs]


def searched(
    decider: Decider, beam: int | None, records: Sequence[Any], engine: Any = None
) -> Outcomes:
    """What a search of this beam makes of records, also one of 1, which `strategy` stands for in another way."""
    search = DocumentSearch(
        replace(decider, nbest=None).program, decider.width, beam, decider.nbest
    )
    scheduler = DocumentScheduler(search, engine or LocalEngine())
    return [outcome for _, outcome in scheduler.run(enumerate(records))]


def written(outcomes: Outcomes) -> list[bytes | str | None]:
    """Rows as they are written, but for the total."""
    rows: list[bytes | str | None] = []
    for outcome in outcomes:
        if isinstance(outcome, Ranking):
            rows.append(json_row(replace(outcome, total=None)))
        else:
            rows.append(None if outcome is None else str(outcome))
    return rows


def decided(decider: Decider, record: CandidateList, context: Context) -> Ranking | DiscorankError:
    """A list in a context, alone."""
    program = replace(decider, nbest=None).program(record, context, ())
    engine = LocalEngine()
    try:
        task = next(program)
        while True:
            engine.submit(0, task)
            ((_, result),) = engine.collect()
            if isinstance(result, DiscorankError):
                return result
            task = program.send(result)
    except StopIteration as end:
        ranking: Ranking = end.value
        return ranking
    except DiscorankError as error:
        return error


class AllSequences:
    """Every sequence of choices of a document, valued in the plainest way."""

    def __init__(self, decider: Decider, records: Sequence[CandidateList]) -> None:
        self.decider, self.records = decider, records
        self.known: dict[tuple[int, Context], Ranking | DiscorankError] = {}

    def best(self) -> tuple[list[str | None], float]:
        """The texts of the best one, None for a list that failed or lends context, and its total."""
        every = list(self._from(0, Context(), None))
        fewest = min(lacking for lacking, *_ in every)
        usable = [one for one in every if one[0] == fewest]
        top = max(total for _, total, _, _ in usable)
        ties = [one for one in usable if one[1] >= top - 1e-9 * abs(top)]
        _, total, _, texts = min(ties, key=lambda one: one[2])
        return texts, total

    def _from(
        self, i: int, context: Context, position: int | None
    ) -> Iterator[tuple[int, float, list[int], list[str | None]]]:
        """(lists without a value, total, indices, texts) of every sequence from list i on."""
        if i == len(self.records):
            yield 0, 0.0, [], []
            return
        own = self.records[i]
        if position is not None and own.position is not None and own.position != position + 1:
            context = Context()
        for lacking, value, index, text, lent in self._choices(i, context):
            source, target = (*context.source, str(own.source or "")), (*context.target, lent)
            after = Context(source, target).last(self.decider.width)
            for rest in self._from(i + 1, after, own.position):
                yield lacking + rest[0], value + rest[1], [index, *rest[2]], [text, *rest[3]]

    def _choices(self, i: int, context: Context) -> list[tuple[int, float, int, str | None, str]]:
        own = self.records[i]
        first = str(own.candidates[0].text)
        if own.context_only:
            return [(0, 0.0, 0, None, first)]
        if (i, context) not in self.known:
            self.known[i, context] = decided(self.decider, own, context)
        ranking = self.known[i, context]
        if isinstance(ranking, DiscorankError):
            return [(1, 0.0, 0, None, first)]
        places = [place for place in ranking.ranking if place.utility is not None]
        if not places:
            return [(1, 0.0, ranking.index, str(ranking.text), str(ranking.text))]
        return [(0, p.utility or 0.0, p.index, str(p.text), str(p.text)) for p in places]


def in_documents(records: Sequence[CandidateList]) -> list[list[CandidateList]]:
    groups: dict[str | None, list[CandidateList]] = {}
    for one in records:
        groups.setdefault(one.document, []).append(one)
    return list(groups.values())


def check_best(decider: Decider, records: Sequence[CandidateList], outcomes: Outcomes) -> None:
    """What was found is what all sequences have as their best."""
    rows = iter(outcomes)
    for together in in_documents(records):
        texts, total = AllSequences(decider, together).best()
        own = [next(rows) for _ in together]
        found = [str(row.text) if isinstance(row, Ranking) else None for row in own]
        assert found == texts
        rankings = [row for row in own if isinstance(row, Ranking)]
        if rankings:
            last = rankings[-1].total
            assert last is not None
            assert isclose(last, total, rel_tol=1e-9, abs_tol=1e-12)


def joint(width: int, **more: Any) -> MBRDecoder:
    return MBRDecoder(Echo(width), strategy="joint", **more)


def of_new_letters(strategy: Any, width: int = 1, **more: Any) -> Reranker:
    return Reranker({NewLetters(width): 1.0, "length": -0.125}, strategy=strategy, **more)


@given(records=documents(), width=st.integers(1, 2))
@BOUNDED
def test_joint_is_the_best_of_all_sequences(records: list[CandidateList], width: int) -> None:
    check_best(joint(width), records, outcomes_of(joint(width), records))
    by_features = of_new_letters("joint", width)
    check_best(by_features, records, outcomes_of(by_features, records))


@pytest.mark.parametrize(
    "utility",
    [
        "contextual",
        f"bertscore(context=1,{TINY})",
        f"bertscore(context=2,{TINY})",
        f"comet(context=1,{COMET})",
        f"comet(context=2,{COMET}) + 0.5*chrf",
    ],
)
def test_joint_of_models_is_the_best_of_all_sequences(utility: str) -> None:
    from ...support.contextual import Echo as Cosine

    metric = Cosine(2) if utility == "contextual" else load_metric(utility)
    decoder = MBRDecoder(metric, strategy="joint", self_pair=False, nbest=None)
    records = made_document(4)
    outcomes = outcomes_of(decoder, records)
    check_best(decoder, records, outcomes)
    for outcome, own in zip(outcomes, records, strict=True):
        assert isinstance(outcome, Ranking)
        alone = decided(decoder, own, outcome.context)
        assert isinstance(alone, Ranking)
        values = {place.index: place.utility for place in alone.ranking}
        assert {place.index: place.utility for place in outcome.ranking} == values


def test_joint_of_a_language_model_is_the_best_of_all_sequences() -> None:
    model = GOLDEN / "causal" / "models" / "tiny-gemma3"
    metric = load_metric(f'doc-lm(context=1,model="{model}")')
    reranker = Reranker({metric: 1.0}, strategy="joint")
    records = made_document(4)
    check_best(reranker, records, outcomes_of(reranker, records))


WORDS = [
    "the",
    "ferry",
    "leaves",
    "when",
    "fog",
    "lifts",
    "over",
    "a",
    "harbour",
    "and",
    "ships",
    "wait",
    "by",
    "it",
]


def made_document(n: int, num_candidates: int = 3, name: str = "d") -> list[CandidateList]:
    """A document of made-up texts."""
    random = np.random.default_rng(7)

    def text() -> str:
        return " ".join(random.choice(WORDS, random.integers(2, 6)))

    return [
        record(
            f"{name}:{i}",
            *[text() for _ in range(num_candidates)],
            document=name,
            position=i,
            source=text(),
        )
        for i in range(n)
    ]


@given(records=documents(), width=st.integers(1, 3), seed=st.integers(0, 999))
@BOUNDED
def test_a_huge_beam_is_joint_and_merging_changes_nothing(
    records: list[CandidateList], width: int, seed: int
) -> None:
    decider = joint(width, nbest=2)
    exact = outcomes_of(decider, records)
    assert written(searched(decider, HUGE, records, Shuffled(seed))) == written(exact)
    few = [own for together in in_documents(records) for own in together[:3]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(History, "key", property(lambda history: object()))
        unmerged = searched(decider, None, few)
    assert written(unmerged) == written(outcomes_of(decider, few))


@given(records=documents(), width=st.integers(1, 3), seed=st.integers(0, 999))
@BOUNDED
def test_a_beam_of_one_is_sequential(records: list[CandidateList], width: int, seed: int) -> None:
    for decider in (
        MBRDecoder(Echo(width), nbest=2, strategy="sequential"),
        of_new_letters("sequential", width, nbest=None),
    ):
        expected = outcomes_of(decider, records)
        assert written(searched(decider, 1, records, Shuffled(seed))) == written(expected)
        one = replace(decider, strategy="beam", beam=1)
        assert one.identity == decider.identity
        assert written(outcomes_of(one, records)) == written(expected)


@given(
    records=documents(),
    beam=st.integers(1, 5),
    window=st.integers(1, 5),
    seed=st.integers(0, 999),
)
@BOUNDED
def test_neither_the_engine_nor_the_window_matters(
    records: list[CandidateList], beam: int, window: int, seed: int
) -> None:
    decider = joint(2, nbest=None)
    expected = searched(decider, beam, records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_scheduler, "WINDOW_RECORDS", window)
        assert written(searched(decider, beam, records, Shuffled(seed))) == written(expected)


@given(records=documents(), seed=st.integers(0, 999))
@BOUNDED
def test_a_wider_beam_never_loses_to_all_histories(records: list[CandidateList], seed: int) -> None:
    """No beam has a higher total than the exact search, with as few lists that failed."""
    decider = joint(2)

    def totals(outcomes: Outcomes) -> list[tuple[int, float]]:
        rows, found = iter(outcomes), []
        for together in in_documents(records):
            own = [next(rows) for _ in together]
            failed = sum(isinstance(row, DiscorankError) for row in own)
            sums = [row.total for row in own if isinstance(row, Ranking)]
            found.append((-failed, sums[-1] or 0.0 if sums else 0.0))
        return found

    exact = totals(outcomes_of(decider, records))
    for beam in (1, 2, 3):
        for one, best in zip(totals(searched(decider, beam, records)), exact, strict=True):
            assert one <= (best[0], best[1] + 1e-9)


def letters(*choices: tuple[str, ...], **more: Any) -> list[CandidateList]:
    return [record(str(i), *texts, position=i, **more) for i, texts in enumerate(choices)]


def test_a_search_looks_ahead() -> None:
    """By hand: abc is worth 3 - 3/8, but de leaves abcf its 4 letters: 2 - 2/8 + 4 - 4/8 against 2.625 + 1 - 4/8."""
    records = letters(("abc", "de"), ("abcf",))
    greedy = [
        o.text for o in outcomes_of(of_new_letters("sequential"), records) if isinstance(o, Ranking)
    ]
    assert greedy == ["abc", "abcf"]
    for reranker in (of_new_letters("joint", nbest=2), of_new_letters("beam", beam=2, nbest=2)):
        first, second = outcomes_of(reranker, records)
        assert isinstance(first, Ranking)
        assert isinstance(second, Ranking)
        assert [(p.text, p.utility) for p in first.ranking] == [("de", 1.75), ("abc", 2.625)]
        assert (first.gap, first.flags, first.total) == (-0.875, (LOOKED_AHEAD,), 1.75)
        assert (second.text, second.utility, second.total) == ("abcf", 3.5, 5.25)
        assert (second.flags, second.context.target) == ((), ("de",))


def test_of_equally_good_histories_the_lowest_index_wins() -> None:
    records = letters(("ab", "cd", "ab"), ("ef", "gh"))
    for beam in (None, 2, 3):
        found = searched(of_new_letters("joint"), beam, records)
        assert [row.index for row in found if isinstance(row, Ranking)] == [0, 0]


def test_a_jump_decides_what_stands_before_it_by_itself() -> None:
    records = letters(("abc", "de"), ("abcf",))
    apart = [records[0], replace(records[1], position=5)]
    found = [o for o in outcomes_of(of_new_letters("joint"), apart) if isinstance(o, Ranking)]
    assert [o.text for o in found] == ["abc", "abcf"]
    assert [o.flags for o in found] == [(), ("context-cut",)]


def test_lists_that_fail_are_avoided_where_another_history_does_not() -> None:
    """Echo fails for the text "broken" as a source: in every history; a choice that cannot be written in its own."""
    records = letters(("abc\n", "de"), ("abcf",))
    search = DocumentSearch(of_new_letters("joint", nbest=None).program, 1, None, 1)
    found = [
        o for _, o in DocumentScheduler(search, LocalEngine(), text_row).run(enumerate(records))
    ]
    assert [o.text for o in found if isinstance(o, Ranking)] == ["de", "abcf"]
    one = replace(search, beam=1)
    failed = [o for _, o in DocumentScheduler(one, LocalEngine(), text_row).run(enumerate(records))]
    assert isinstance(failed[0], InputError)
    assert "line break" in str(failed[0])
    assert isinstance(failed[1], Ranking)
    assert failed[1].flags == ("context-of-failed",)


def test_a_line_that_could_not_be_read_cuts_the_context() -> None:
    records: list[Any] = [replace(r, position=None) for r in letters(("abc", "de"), ("abcf",))]
    error = InputError("no JSON")
    found = outcomes_of(of_new_letters("joint"), [error, records[0], error, records[1], error])
    assert [found[i] for i in (0, 2, 4)] == [error] * 3
    assert [o.text for o in found if isinstance(o, Ranking)] == ["abc", "abcf"]


@given(records=documents(), data=st.data())
@BOUNDED
def test_a_search_goes_on_in_the_middle_of_a_document(
    records: list[CandidateList], data: st.DataObject
) -> None:
    decider = replace(joint(2), strategy="beam", beam=2)
    whole = outcomes_of(decider, records)
    cut = data.draw(st.integers(0, len(records)))
    # a run hands over the lists of its last document alone
    start = next((i for i in range(cut) if records[i].document == records[cut - 1].document), cut)
    before = []
    for own, row in zip(records[start:cut], whole[start:cut], strict=True):
        failed = isinstance(row, DiscorankError)
        text = row.text if isinstance(row, Ranking) else own.candidates[0].text
        before.append(Decided(own, text, failed))
    found = outcomes_of(decider, [*before, *records[cut:]], Shuffled(cut))
    assert [row and str(row) for row in written(found)] == [
        row and str(row) for row in written(whole[cut:])
    ]


def test_a_document_that_was_decided_without_its_end_is_refused() -> None:
    records = letters(("abc", "de"), ("abcf",))
    reranker = of_new_letters("joint")
    with pytest.raises(ResumeError, match="list '0': its document has other lines than when"):
        outcomes_of(reranker, [Decided(records[0], "abc"), records[1]])
    assert len(outcomes_of(reranker, [Decided(records[0], "de"), records[1]])) == 1


def test_without_context_nothing_is_searched() -> None:
    for strategy in ("beam", "joint"):
        decoder = MBRDecoder("chrf", strategy=strategy)
        assert decoder.search is None
        assert decoder.identity == MBRDecoder("chrf").identity
        assert Reranker({"length": 1.0}, strategy=strategy).resolved_strategy == "independent"
    assert joint(1).identity["strategy"] == "joint"
    assert MBRDecoder(Echo(1), strategy="beam").identity["beam"] == 4


def test_what_leaves_out_candidates_is_refused() -> None:
    with pytest.raises(InputError, match="budget: beside strategy 'joint', which needs the value"):
        MBRDecoder(Echo(1), strategy="joint", budget=Budget(0.5, force=True))
    with pytest.raises(InputError, match="diverse: beside strategy 'beam'"):
        MBRDecoder(Echo(1), strategy="beam", diverse=0.5, nbest=3)
    with pytest.raises(InputError, match="beam"):
        MBRDecoder(Echo(1), strategy="beam", beam=0)


def test_the_number_of_states_is_known_beforehand() -> None:
    records = letters(("a", "b", "a"), ("c", "d", "e"), ("f", "g"), ("h",))
    assert list(num_contexts(records, 1)) == [1, 2, 3, 2]
    assert list(num_contexts(records, 2)) == [1, 2, 6, 6]
    assert list(num_contexts([*records[:2], None, *records[2:]], 2)) == [1, 2, 6, 6]
    assert list(num_contexts([records[0], replace(records[1], position=3)], 2)) == [1, 1]
    asked: list[Context] = []
    decider = joint(2, nbest=None)

    def program(own: CandidateList, context: Context, flags: tuple[str, ...]) -> Any:
        asked.append(context)
        return decider.program(own, context, flags)

    search = DocumentSearch(program, 2, None, 1)
    list(DocumentScheduler(search, LocalEngine(), accept_all).run(enumerate(records)))
    assert len(asked) == sum(num_contexts(records, 2))


def test_too_many_states_and_too_long_documents_are_errors_of_their_document() -> None:
    records = [*letters(("a", "b"), ("c", "d"), ("e", "f")), record("9", "a", document="e")]
    with use_limits(states=6):
        found = outcomes_of(joint(2), records)
        assert all(isinstance(o, Ranking) for o in outcomes_of(joint(1), records))
    assert [isinstance(o, InputError) for o in found] == [True] * 3 + [False]
    assert str(found[0]) == (
        "document 'd': 7 contexts in which its lists would be decided, at most 6. "
        "Choose --strategy beam, give fewer candidates, or: --max states=NUMBER"
    )
    with use_limits(document_lists=2):
        found = outcomes_of(joint(1), records)
    assert [isinstance(o, InputError) for o in found] == [True] * 3 + [False]
    assert "document 'd': more than 2 lists, and a document that is searched" in str(found[0])


def test_only_a_window_is_read_ahead() -> None:
    read = [0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_scheduler, "WINDOW_RECORDS", 50)
        found = MBRDecoder(Echo(), strategy="joint").decode(counted(1_000_000, read))
        for n in range(10):
            assert next(found).id == str(n)
    assert read[0] <= 50 + 10


def test_what_was_read_before_an_error_is_decided() -> None:
    def broken() -> Iterator[CandidateList]:
        yield from letters(("abc", "de"), ("abcf",))
        raise OSError("gone")

    found = of_new_letters("joint").decode(broken())
    assert [next(found).text, next(found).text] == ["de", "abcf"]
    with pytest.raises(OSError, match="gone"):
        next(found)
