"""The choice: from a value of every candidate to the ranking of the list.

    h* = argmax_h value(h)
Everything within 1e-9 (relative) of the best is equally good and the lowest index wins. A value that is not finite
never wins, whatever its sign. Nor does an empty text, unless all are: error rates bound it from above (deleting every
word costs 1 a word, a wrong text may cost more), and so may log-probabilities. It is ranked last, and its list has the
flag ``empty``; as a pseudo-reference it counts like any other.

The tie rule of the project: wherever only the verdict "as good as" is needed, this one limit holds, for utilities of
candidates, and for draws of a test against the observed difference. Standardised scores are
about 1 in size, so there it is an absolute limit. Where ties themselves are counted, as by Kendall's tau, the limit is
narrower: two scores that a metric tells apart must not become one, only the rounding of sums may be dropped.

A diverse k-best list has texts of high expected utility that are unlike each other (Jinnai et al. 2024b, DMBR):

    C* = argmax over C of k texts of  F(C) = sum over h in C of mu(h) - lambda / k  sum over h != h' in C of u(h, h')
The second sum has every pair in both directions. Utility and similarity are of one matrix and so of one scale; with
lambda = 0 it is the plain k-best list. The best set is searched for greedily, text by text, and then by swaps of a text
in the set for one outside, the best swap first, until none gains. Sums over the set are kept up to date: O(k N) a step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf, isfinite, isinf
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    cast,
)

import numpy as np
from numpy.typing import NDArray

from ..metrics.errors import DiscorankError, InputError
from ..metrics.mixture import Utility
from ..metrics.optional_packages import imported
from ..metrics.representations import FloatArray, IntArray
from ..metrics.spec.checked_settings import Field, Internal, settings
from ..metrics.text.texts import NO_CONTEXT, Context, Document, Text
from .capabilities import (
    ALL_PAIRS,
    EVERY_VALUE,
    MATRIX,
    OWN_CONTEXT,
    PLAIN_SUMS,
    PSEUDO_REFERENCES,
    SEVERAL_PLACES,
    SINGLE_LISTS,
    Costs,
    Needs,
)
from .lists import NOTHING, Candidate, CandidateList, Distinct, plain, short_number, short_text
from .votes.answer_shares import Votes

if TYPE_CHECKING:
    from pandas import DataFrame
    from typing_extensions import TypeVar

    TextT = TypeVar("TextT", bound=Text, default=Text, covariant=True)
else:  # without the default, which type checkers alone read
    from typing import TypeVar

    TextT = TypeVar("TextT", bound=Text, covariant=True)  # str where candidates are plain

TIE = 1e-9  # relative: as good as the best
ROUNDING = 1e-12  # relative: sums of scores that only rounding tells apart
EMPTY = "empty"  # flag: some candidates are empty, and others are not
SHOWN_RANKS = 10  # rows of a table in a notebook
COLUMNS = ("id", "index", "text", "utility", "gap", "flags")  # of a data frame of choices
RANK_COLUMNS = ("id", "rank", "index", "count", "utility", "text")
Row = Mapping[str, Any]


class Spent(NamedTuple):
    """The computed share of a list's utility matrix under a budget, and the loss that may come of it.

    Args:
        pairs: how many pairs were computed.
        of: how many there are.
        confidence: the least probability that all of them would choose the same.
        regret: the most that is expected to be lost in expected utility by what was chosen.
        spread: the standard deviation of the candidates' expected utilities, as estimated.
        computed: which pairs were, [distinct candidates, distinct pseudo-references].
    """

    pairs: int
    of: int
    confidence: float
    regret: float
    spread: float
    computed: NDArray[np.bool_]

    def __repr__(self) -> str:
        figures = {name: short_number(value) for name, value in self.as_json().items()}
        return f"Spent({', '.join(f'{name}={value}' for name, value in figures.items())})"

    @classmethod
    def everything(cls, values: FloatArray, pairs: int, computed: NDArray[np.bool_]) -> Spent:
        """All pairs were computed, so that the expected utilities [H] are known."""
        finite = values[np.isfinite(values)]
        spread = float(finite.std()) if len(finite) else np.nan
        return cls(pairs, pairs, 1.0, 0.0, spread, computed)

    def as_json(self) -> dict[str, Any]:
        """The figures, as a row has them."""
        figures = self._asdict()
        del figures["computed"]
        return figures


class Expected(NamedTuple):
    """Expected utilities [H], what the list's reader should know, and the utility matrix [H, R] if it was kept.

    Under a budget also what was computed.
    """

    values: FloatArray
    flags: tuple[str, ...]
    matrix: FloatArray | None
    spent: Spent | None = None


@dataclass(frozen=True, slots=True)
class RankedText:
    """A rank of an n-best list: a distinct text, how often it stands in the list, and its expected utility.

    `utility` is None where it is not a number.
    """

    index: int
    count: int
    utility: float | None
    text: Text

    def __repr__(self) -> str:
        return (
            f"RankedText(index={self.index}, count={self.count}, utility={short_number(self.utility)}, "
            f"text={short_text(self.text)})"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranking(Generic[TextT]):
    """The decision for one list.

    It prints as its id, choice, expected utility and gap, and in a notebook as a table of its best texts.

    Args:
        id: the list's id.
        ranking: distinct texts, best first.
        gap: how much better the first is than the second, None if there is one distinct text.
        candidates: the list's candidates.
        flags: what was done to the list that its reader should know of.
        extra: the list's other keys.
        matrix: utilities [distinct candidates, distinct pseudo-references], if asked for; under a budget, NaN for pairs
            that were not computed.
        budget: what was computed, if there was a budget.
        source, references: of the list.
        context: the sentences before, in which it was decided.
        votes: the answers of the list, where the utility compares answers; the gap is then that between answers.
    """

    id: str
    ranking: tuple[RankedText, ...]
    gap: float | None
    candidates: tuple[Candidate, ...]
    flags: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    matrix: FloatArray | None = None
    budget: Spent | None = None
    source: Text | None = None
    references: tuple[Text, ...] = ()
    context: Context = NO_CONTEXT
    votes: Votes | None = None

    @property
    def answer(self) -> str | None:
        """The answer of the chosen text; None where it has none, or the utility compares no answers."""
        return None if self.votes is None else self.votes.answer

    @property
    def index(self) -> int:
        """Index of the chosen candidate."""
        return self.ranking[0].index

    @property
    def text(self) -> TextT:
        """The chosen text."""
        return cast(TextT, self.ranking[0].text)

    @property
    def utility(self) -> float | None:
        """Expected utility of the chosen text."""
        return self.ranking[0].utility

    @property
    def utilities(self) -> list[float | None]:
        """The expected utility of every candidate, in the order of the list.

        None where it is not a number, or the text has no place.
        """
        of_text = {ranked.text: ranked.utility for ranked in self.ranking}
        return [of_text.get(candidate.text) for candidate in self.candidates]

    def with_votes(self, votes: Votes) -> Ranking:
        """The ranking with the votes of its list; their gap is the ranking's where they alone decide.

        Raises:
            InputError: the list has a key by the name of one that votes have in a row.
        """
        for key in votes.as_json():
            if key in self.extra:
                fix = "Give the input's key another name"
                raise InputError("is a key that a vote writes", where=key, fix=fix)
        gap = self.gap if votes.gap is None or not votes.decide else votes.gap
        return replace(self, votes=votes, gap=gap, flags=(*self.flags, *votes.flags))

    def to_dict(self) -> dict[str, Any]:
        """The row that a run writes of it, as values of JSON, with the list's other keys."""
        row: dict[str, Any] = {
            "id": self.id,
            "index": self.index,
            "text": plain(self.text),
            "utility": self.utility,
            "gap": self.gap,
            **({} if self.votes is None else self.votes.as_json()),
            "ranking": [
                {"index": p.index, "count": p.count, "utility": p.utility} for p in self.ranking
            ],
        }
        if self.flags:
            row["flags"] = list(self.flags)
        if self.budget is not None:
            row["budget"] = self.budget.as_json()
        return {**row, **self.extra}

    def __repr__(self) -> str:
        flags = f", flags={self.flags}" if self.flags else ""
        answer = "" if self.votes is None else f"answer={self.answer!r}, "
        return (
            f"Ranking(id={short_text(self.id)}, {answer}text={short_text(self.text)}, "
            f"utility={short_number(self.utility)}, gap={short_number(self.gap)}{flags})"
        )

    def _repr_html_(self) -> str:
        """The best texts as a table for a notebook, escaped, without style or script."""
        from html import escape

        def line(tag: str, cells: Sequence[str]) -> str:
            marked = [f'<{tag} dir="auto">{escape(cell)}</{tag}>' for cell in cells]
            return f"<tr>{''.join(marked)}</tr>"

        lines = [line("th", ["rank", "text", "expected utility", "times"])]
        for rank, ranked in enumerate(self.ranking[:SHOWN_RANKS], start=1):
            utility = short_number(ranked.utility)
            lines.append(line("td", [str(rank), str(ranked.text), utility, str(ranked.count)]))
        caption = f"{self.id:.80}"
        if len(self.ranking) > SHOWN_RANKS:
            caption += f": {SHOWN_RANKS} of {len(self.ranking)} texts"
        return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"


Accept = Callable[[Ranking], object]  # raises InputError for a ranking that cannot be written


@settings
class Choice:
    """The choice: how many texts a ranking has, and how alike they may be.

    Args:
        nbest: how many texts a ranking has; "all" (in Python None) for every distinct text.
        diverse: lambda of a diverse list of `nbest` texts: how much likeness of its texts, by the same utility, counts
            against expected utility; without it the best ones.
        choose: segment: from every list its best text; document: for all lists of a document the sentences of one
            system, or of one sample.
        keep_matrix: whether rankings carry their utility matrix.
    """

    heading: ClassVar = "choice"

    nbest: Annotated[Annotated[int, Field(ge=1)] | None, Needs(SEVERAL_PLACES)] = 1
    diverse: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None,
        Needs(MATRIX, ALL_PAIRS, PSEUDO_REFERENCES, PLAIN_SUMS, SEVERAL_PLACES),
        Costs(EVERY_VALUE),
    ] = None
    choose: Annotated[Literal["segment", "document"], Needs(OWN_CONTEXT), Costs(SINGLE_LISTS)] = (
        "segment"
    )
    keep_matrix: Annotated[bool, Internal()] = False

    def __post_init__(self) -> None:
        if self.diverse is not None and (self.nbest is None or self.nbest < 2):
            problem = "a diverse list needs a number of texts, at least 2"
            raise InputError(problem, where="diverse", fix="Give nbest")

    @property
    def needs_matrix(self) -> bool:
        """Whether the utility matrix is used after expected utilities are known."""
        return self.keep_matrix or self.diverse is not None

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run's results depend on."""
        identity: dict[str, Any] = {"nbest": self.nbest}
        if self.diverse is not None:
            identity["diverse"] = self.diverse
        if self.choose == "document":
            identity["choice"] = self.choose
        return identity

    def check(self, utility: Utility) -> None:
        """Raises InputError for a diverse list by a utility that compares no two candidates."""
        compares = [part.info.needs_references for weight, part in utility.parts if weight]
        if self.diverse is not None and not any(compares):
            problem = "the utility compares no two candidates"
            raise InputError(problem, where="diverse", fix="Leave it out")

    def refuse_diverse(self) -> None:
        """Raises InputError for a diverse list of candidates that are not compared with each other."""
        if self.diverse is not None:
            problem = "candidates are compared with these, and a diverse list needs them compared with each other"
            fix = "Leave out --diverse, or these"
            raise InputError(problem, where="pseudo_references", fix=fix)

    def ranking(
        self,
        record: CandidateList,
        distinct: Distinct,
        kept: IntArray,
        expected: Expected,
        context: Context,
    ) -> Ranking:
        """The ranking of a list by the expected utilities of those of its distinct texts that were kept."""
        values = np.full(len(distinct), np.nan)
        values[kept] = expected.values
        left_out = {*range(len(distinct))} - {*kept.tolist()}
        if self.diverse is not None and self.nbest is not None and expected.matrix is not None:
            choosable = np.where(distinct.can_win[kept], expected.values, np.nan)
            chosen = diverse(choosable, expected.matrix, self.nbest, self.diverse)
            left_out |= {*np.delete(kept, chosen)}
        return choose(
            record,
            values[distinct.of],
            self.nbest,
            expected.flags,
            distinct,
            left_out,
            matrix=expected.matrix if self.keep_matrix else None,
            budget=expected.spent,
            context=context,
        )


def choose(
    record: CandidateList,
    values: FloatArray,
    nbest: int | None,
    flags: Sequence[str] = (),
    distinct: Distinct | None = None,
    left_out: Collection[int] = (),
    **more: Any,
) -> Ranking:
    """The ranking of a list by the value of every candidate, higher is better.

    Values that are not finite come last, and empty texts after them.

    Args:
        record: the list.
        values: of its candidates, [N].
        nbest: how many texts are ranked; None for all.
        flags: what the list's reader should know already.
        distinct: the distinct texts of the list, where they are at hand.
        left_out: numbers of distinct texts that get no rank.
        more: further fields of the ranking.
    """
    distinct = distinct or Distinct(record.candidates)
    number = distinct.of.tolist()
    counts = np.bincount(distinct.of).tolist()
    ranking: list[RankedText] = []
    seen = set(left_out)
    wanted = len(distinct) if nbest is None else nbest
    for index in _by_rank(values, distinct):
        text = number[index]
        if text not in seen:
            seen.add(text)
            value = float(values[index])
            utility = value if isfinite(value) else None
            ranking.append(RankedText(index, counts[text], utility, distinct.texts[text]))
            if len(ranking) >= max(2, wanted):
                break
    gap = None
    if len(ranking) > 1 and ranking[0].utility is not None and ranking[1].utility is not None:
        gap = max(0.0, ranking[0].utility - ranking[1].utility)
    return Ranking(
        record.id,
        tuple(ranking[:wanted]),
        gap,
        record.candidates,
        _flagged(flags, ranking[0], values, distinct, left_out),
        record.extra,
        source=record.source,
        references=record.references,
        **more,
    )


def _flagged(
    flags: Sequence[str],
    best: RankedText,
    values: FloatArray,
    distinct: Distinct,
    left_out: Collection[int],
) -> tuple[str, ...]:
    """The flags of a list, with those of its values [N] and of its empty texts."""
    more = []
    if len(distinct) - len(left_out) > 1:
        if best.utility is None:
            more.append("no-utility")
        elif not {*distinct.of[~np.isfinite(values)].tolist()} <= {*left_out}:
            more.append("not-finite")
    if not distinct.can_win.all():
        more.append(EMPTY)
    return with_flags(flags, more)


def with_flags(flags: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """The flags with those of others, each once."""
    return tuple(dict.fromkeys((*flags, *more)))


def _by_rank(values: FloatArray, distinct: Distinct) -> Iterator[int]:
    """All indices, best value first, those of empty texts last where there are others."""
    can_win = distinct.can_win[distinct.of]
    if can_win.all():
        yield from in_order(values)
        return
    for indices in (np.flatnonzero(can_win), np.flatnonzero(~can_win)):
        for rank in in_order(values[indices]):
            yield int(indices[rank])


def in_order(expected: FloatArray) -> Iterator[int]:
    """All indices, best value first; of those within TIE of the best that is left, the lowest index.

    Behind them stands what is not finite: -inf, then NaN and +inf, which are no values of anything.
    """
    values: list[float] = expected.tolist()
    usable = [i for i, value in enumerate(values) if value < inf]
    # stable: of equal ones the lowest index is first
    order = sorted(usable, key=values.__getitem__, reverse=True)
    taken: set[int] = set()
    window: list[int] = []  # heap of indices as good as the best that is left
    best = ahead = 0
    while len(taken) < len(order):
        while order[best] in taken:
            best += 1
        top = values[order[best]]
        limit = top if isinf(top) else top - TIE * abs(top)
        while ahead < len(order) and values[order[ahead]] >= limit:
            heappush(window, order[ahead])
            ahead += 1
        index = heappop(window)
        taken.add(index)
        yield index
    yield from (i for i, value in enumerate(values) if not value < inf)


def objective(
    values: FloatArray, similarity: FloatArray, chosen: IntArray, penalty: float
) -> float:
    """F of some texts, higher is better.

    Args:
        values: expected utilities, [N].
        similarity: u(h, h'), [N, N]; its diagonal does not count.
        chosen: which texts, [k].
        penalty: lambda.
    """
    pairs = _of_pairs(similarity)[np.ix_(chosen, chosen)]
    return float(values[chosen].sum() - penalty / len(chosen) * pairs.sum() / 2)


def diverse(values: FloatArray, similarity: FloatArray, count: int, penalty: float) -> IntArray:
    """The texts of a diverse k-best list [k], the highest expected utility first, of equal ones the lowest index.

    Texts whose expected utility or similarity to others is not finite come last, without being searched.

    Args:
        values: expected utilities, [N].
        similarity: u(h, h'), [N, N]; its diagonal does not count.
        count: k; all texts if it is more than N.
        penalty: lambda, at least 0.
    """
    pairs = _of_pairs(similarity)
    is_usable = np.isfinite(values) & np.isfinite(pairs).all(axis=1)
    usable, others = np.flatnonzero(is_usable), np.flatnonzero(~is_usable)
    size = min(count, len(usable))
    costs = penalty / max(size, 1) * pairs[np.ix_(usable, usable)]
    chosen = _swapped(values[usable], costs, _greedy(values[usable], costs, size))
    best_first = np.lexsort((usable[chosen], -values[usable[chosen]]))
    return np.concatenate([usable[chosen][best_first], others])[:count]


def _of_pairs(similarity: FloatArray) -> FloatArray:
    """The similarity of every two texts in both directions, 0 of a text with itself, [N, N]."""
    both = similarity + similarity.T
    np.fill_diagonal(both, 0.0)
    return both


def _greedy(values: FloatArray, costs: FloatArray, count: int) -> IntArray:
    """Texts [count], each the one that adds most to F of those before."""
    gains = values.copy()
    chosen = []
    for _ in range(count):
        best = int(np.argmax(gains))
        chosen.append(best)
        gains -= costs[best]
        gains[best] = -np.inf
    return np.array(chosen, np.int64)


def _swapped(values: FloatArray, costs: FloatArray, chosen: IntArray) -> IntArray:
    """The texts after the swaps that add most to F; a gain within rounding is none, so that the search ends."""
    if not 0 < len(chosen) < len(values):
        return chosen
    of_set = costs[:, chosen].sum(axis=1)  # what each text shares with the set
    scale = float(np.abs(values).max() + np.abs(of_set).max())
    while True:
        outside = np.setdiff1d(np.arange(len(values)), chosen)
        entering = values[outside] - of_set[outside]
        leaving = values[chosen] - of_set[chosen]
        # the entering text no longer shares anything with the one that leaves
        gains = entering - leaving[:, None] + costs[np.ix_(chosen, outside)]
        place, number = np.unravel_index(int(np.argmax(gains)), gains.shape)
        if gains[place, number] <= TIE * scale:
            return chosen
        old, new = chosen[place], outside[number]
        of_set += costs[:, new] - costs[:, old]
        chosen = np.sort(np.append(np.delete(chosen, place), new))


def to_pandas(rankings: Iterable[Ranking] | Ranking, *, ranks: bool = False) -> DataFrame:
    """Rankings as a data frame, a row per list in the order given.

    Args:
        rankings: of `MBRDecoder.decode` or `Reranker.decode`, or the one of `discorank.decode`.
        ranks: a row per rank of every ranking instead, from 1.

    Returns:
        columns id, index, text, utility, gap, flags and the other keys of the lists; or id, rank, index, count,
        utility, text. The text of a document is a list of its sentences.

    Raises:
        ModelLoadError: the package pandas is not installed.
        DiscorankError: what `rankings` raises.
    """
    pandas = imported("pandas", "to_pandas")
    if isinstance(rankings, Ranking):
        rankings = [rankings]
    if ranks:
        places = [
            (ranking.id, rank, place.index, place.count, place.utility, plain(place.text))
            for ranking in rankings
            for rank, place in enumerate(ranking.ranking, start=1)
        ]
        return pandas.DataFrame(places, columns=list(RANK_COLUMNS))
    rows = [{**ranking.to_dict(), "flags": list(ranking.flags)} for ranking in rankings]
    extra = dict.fromkeys(key for row in rows for key in row if key not in (*COLUMNS, "ranking"))
    return pandas.DataFrame(rows, columns=[*COLUMNS, *extra])


class RowForm(Protocol):
    """How a run writes its rows: the form yields JSON rows, or bytes of any number of lines, each ending in a newline.

    Attributes:
        format: its name.
        one_line: whether every row is one line.
    """

    format: str
    one_line: bool = True

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that the bytes depend on."""
        return {"format": self.format}

    def row(self, ranking: Ranking) -> Row | bytes:
        """The row of a list.

        Raises:
            InputError: it cannot be written in this form.
        """

    @property
    def accept(self) -> Accept | None:
        """Raises InputError for a ranking where `row` would; None where it never does."""
        return self.row

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """The chosen text of a list, read back from the next lines that `row` made, as context of the next."""

    def resume(self, lines: Iterator[str], counts: Mapping[str, int]) -> None:
        """Takes note of the lines and the counts of an earlier run; here no row depends on another."""


class JsonRows(RowForm):
    """One JSON object per list."""

    format = "jsonl"
    accept = None

    def row(self, ranking: Ranking) -> Row:
        """The row of a list."""
        return ranking.to_dict()

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """The chosen text of the next row."""
        text = json.loads(next(lines))["text"]
        return Document(tuple(text)) if isinstance(text, list) else text


class TextRows(RowForm):
    """The chosen texts alone, one per line."""

    format = "text"

    def row(self, ranking: Ranking) -> bytes:
        """The line of a list; raises InputError for a text that holds a line break."""
        text = str(ranking.text)
        if "\n" in text or "\r" in text:
            problem = "the chosen text holds a line break"
            fix = "Write --format jsonl" + ", or --format answers" * (ranking.votes is not None)
            raise InputError(problem, where="text", fix=fix)
        return text.encode("utf-8") + b"\n"

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """The next line without its end."""
        return next(lines).rstrip("\n")


class AnswerRows(RowForm):
    """The answers of the chosen texts, one per line; an empty line where there is none."""

    format = "answers"

    def row(self, ranking: Ranking) -> bytes:
        """The line of a list, in which line breaks of the answer are blanks; InputError where there are no answers."""
        if ranking.votes is None:
            fix = "Decide by vote, or write --format jsonl"
            raise InputError("the utility compares no answers", where="format", fix=fix)
        return " ".join((ranking.answer or "").split()).encode("utf-8", "replace") + b"\n"

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """Raises InputError: an answer does not have its text."""
        problem = "lists that are context of others cannot be gone on with from their answers"
        raise InputError(problem, where="format", fix="Write --format jsonl")


FORMS: Mapping[str, type[RowForm]] = {
    form.format: form for form in (JsonRows, TextRows, AnswerRows)
}


def written_row(
    outcome: Ranking | DiscorankError | None, form: RowForm
) -> tuple[dict[str, Row | bytes], dict[str, int]]:
    """The row of an outcome and its counts, none of a list that is only context; raises the error that it ended in."""
    if isinstance(outcome, DiscorankError):
        raise outcome
    if outcome is None:
        return {}, {"context_only": 1}
    row = form.row(outcome)
    num_candidates = len(outcome.candidates)
    distinct = len({candidate.text for candidate in outcome.candidates})
    counts = {"rows": 1, "candidates": num_candidates, "duplicates": num_candidates - distinct}
    if isinstance(row, bytes) and not form.one_line:
        counts["row_lines"] = row.count(b"\n")
    return {"rows": row}, counts | dict.fromkeys(outcome.flags, 1)
