"""The lane of a document: what each sentence is read after, against the rule written out plainly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discorank.metrics.text.texts import NO_CONTEXT, Context
from discorank.rerank.order import DocumentStream


def sentence(
    lane: DocumentStream, position: int | None, after_gap: bool = False
) -> tuple[bool, Context]:
    """Whether the sentence at a position is cut off, and its context; the sentence then counts as chosen."""
    is_cut = lane.enter(position, after_gap)
    context = lane.context
    lane.extend(f"s{position}", f"t{position}")
    return is_cut, context


def test_the_last_two_sentences() -> None:
    lane = DocumentStream(2)
    assert sentence(lane, 1) == (False, NO_CONTEXT)
    assert sentence(lane, 2) == (False, Context(("s1",), ("t1",)))
    assert sentence(lane, 3) == (False, Context(("s1", "s2"), ("t1", "t2")))
    assert sentence(lane, 4) == (False, Context(("s2", "s3"), ("t2", "t3")))


def test_a_jump_in_position_empties_the_context() -> None:
    lane = DocumentStream(2)
    sentence(lane, 1)
    assert sentence(lane, 3) == (True, NO_CONTEXT)
    assert sentence(lane, 4, after_gap=True) == (False, Context(("s3",), ("t3",)))


def test_a_gap_counts_where_positions_are_not_known() -> None:
    lane = DocumentStream(1)
    assert sentence(lane, None, after_gap=True) == (False, NO_CONTEXT)  # nothing to lose
    assert sentence(lane, None) == (False, Context(("sNone",), ("tNone",)))
    assert sentence(lane, None, after_gap=True) == (True, NO_CONTEXT)


def test_after_a_lost_sentence_the_next_begins_anew() -> None:
    lane = DocumentStream(1)
    sentence(lane, 1)
    lane.enter(2, after_gap=False)
    lane.lose()
    assert sentence(lane, 3) == (True, NO_CONTEXT)
    assert sentence(lane, 4) == (False, Context(("s3",), ("t3",)))


def test_without_width_nothing_is_kept_and_nothing_cut() -> None:
    lane = DocumentStream(0)
    assert sentence(lane, 1) == (False, NO_CONTEXT)
    assert sentence(lane, 9) == (False, NO_CONTEXT)


@given(
    positions=st.lists(st.integers(0, 9) | st.none(), max_size=12),
    gaps=st.lists(st.booleans(), min_size=12, max_size=12),
    width=st.integers(0, 3),
)
def test_a_lane_reads_what_follows_on(
    positions: list[int | None], gaps: list[bool], width: int
) -> None:
    lane = DocumentStream(width)
    before: list[int] = []  # numbers of the sentences since the last cut
    last: int | None = None
    for number, (position, gap) in enumerate(zip(positions, gaps, strict=False)):
        are_known = last is not None and position is not None
        follows = position == (last or 0) + 1 if are_known else not gap
        expected_cut = not follows and bool(before[-width:] if width else [])
        if not follows:
            before = []
        assert lane.enter(position, gap) == expected_cut
        wanted = tuple(str(n) for n in (before[-width:] if width else []))
        assert lane.context == Context(wanted, wanted)
        lane.extend(str(number), str(number))
        before.append(number)
        last = position
