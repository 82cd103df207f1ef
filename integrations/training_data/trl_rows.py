"""Rows of the forms that TRL documents for data sets, standard and conversational, with where they come from beside.

    pairs      {"prompt", "chosen", "rejected"}        preferences with an explicit prompt
    sft        {"prompt", "completion"}                prompt and completion
    kto        {"prompt", "completion", "label"}       unpaired preferences
    ranking    {"prompt", "completions", "utilities"}  best first; TRL has no such form, losses over lists take it
In the standard form a prompt and a completion are texts, in the conversational one lists of messages. Beside them stand
`id`, the list; `utility`, the signature of what decided it; the values, and gaps.

Rows are made of decided lists; pairs of texts of unequal values, by these:

    z(h) = (mu(h) - mean) / sd        over the candidates of the list, copies counted
    gap(h, h') = z(h) - z(h')
The mean and the standard deviation are those of the list, so that a margin means the same in lists that are easy and
in lists that are hard. Texts whose values are as good as each other by the rule of ties are in no pair. A decided list
is every distinct text with its value, from a ranking, or from the rows of a run and its input.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import nlargest
from itertools import combinations, islice
from math import log2, sqrt
from typing import Annotated, Any, Literal, NamedTuple

from ...metrics.errors import InputError, excerpt
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource
from ...metrics.text.prompt_template import Template
from ...metrics.text.texts import NO_CONTEXT, Text
from ...rerank.choice import TIE, Ranking
from ...rerank.lists import CandidateList, finite
from ..files.entries import ListEntry

Kind = Literal["pairs", "sft", "ranking", "kto"]
Row = dict[str, Any]
_ROLES = frozenset({"system", "user", "assistant", "developer", "tool"})


@dataclass(frozen=True)
class RowPrompts:
    """The prompt of rows, and the form of completions beside it.

    Args:
        template: the prompt of a list, with the fields of ``discorank generate``.
        conversational: whether rows hold messages.
        system: a message before the prompt.
        messages: the key of lists that holds the messages of the conversation, in place of the template.

    Raises:
        InputError: messages in rows that hold texts, or a template that reads context.
    """

    template: Template
    conversational: bool = False
    system: str | None = None
    messages: str | None = None

    def __post_init__(self) -> None:
        if not self.conversational and (self.system is not None or self.messages is not None):
            where = "messages" if self.system is None else "system"
            problem = "is for rows that hold messages"
            raise InputError(problem, where=f"--{where}", fix="Add --conversational")
        if self.template.reads_context:
            problem = "reads the sentences before, which rows do not hold"
            raise InputError(problem, where="--prompt", fix="Put in a key of the lists")

    def prompt(self, decided: DecidedList) -> Any:
        """The prompt of a list.

        Raises:
            InputError: the list has no source, or nothing under a key.
        """
        if self.messages is not None:
            first = _messages(decided.extra, self.messages)
        else:
            text = self._text(decided)
            if not self.conversational:
                return text
            first = [{"role": "user", "content": text}]
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*system, *first]

    def completion(self, text: str) -> Any:
        """A text behind the prompt."""
        return [{"role": "assistant", "content": text}] if self.conversational else text

    def _text(self, decided: DecidedList) -> str:
        if decided.source is None and "source" in self.template.fields:
            problem = "no source, which the prompt reads"
            fix = "Give the run --sources, or --prompt with a key that lists have"
            raise InputError(problem, where="source", fix=fix)
        source = "" if decided.source is None else str(decided.source)
        return self.template.filled(source, NO_CONTEXT, decided.extra)


def _messages(extra: Mapping[str, Any], key: str) -> list[dict[str, str]]:
    """The messages under a key."""
    value = extra.get(key)
    fix = 'Messages are [{"role": "user", "content": "..."}]'
    if not isinstance(value, list) or not value:
        raise InputError(f"found {excerpt(value)}, expected messages", where=key, fix=fix)
    messages = []
    for i, message in enumerate(value):
        where = f"{key}[{i}]"
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if role not in _ROLES or not isinstance(content, str):
            problem = f"found {excerpt(message)}, expected a role and a text"
            raise InputError(problem, where=where, fix=fix)
        messages.append({"role": str(role), "content": content})
    return messages


def pair_rows(
    decided: DecidedList, prompts: RowPrompts, pairs: Sequence[PreferencePair], utility: str
) -> Iterator[Row]:
    """A row for every pair."""
    prompt = prompts.prompt(decided) if pairs else None
    for pair in pairs:
        yield {
            "prompt": prompt,
            "chosen": prompts.completion(pair.chosen.text),
            "rejected": prompts.completion(pair.rejected.text),
            "id": decided.id,
            "utility": utility,
            "chosen_utility": pair.chosen.utility,
            "rejected_utility": pair.rejected.utility,
            "gap": pair.gap,
            "standardised_gap": pair.standardised_gap,
        }


def label_rows(
    decided: DecidedList, prompts: RowPrompts, pairs: Sequence[PreferencePair], utility: str
) -> Iterator[Row]:
    """A row for every text that is only preferred in the pairs, or only the other; what is both has no label."""
    preferred = {pair.chosen: True for pair in pairs}
    others = {pair.rejected: False for pair in pairs}
    labels = preferred | others
    prompt = prompts.prompt(decided) if pairs else None
    for text, label in labels.items():
        if text in preferred and text in others:
            continue
        yield {
            "prompt": prompt,
            "completion": prompts.completion(text.text),
            "label": label,
            "id": decided.id,
            "utility": utility,
            "completion_utility": text.utility,
            "standardised_utility": text.standardised,
        }


def chosen_rows(decided: DecidedList, prompts: RowPrompts, utility: str) -> Iterator[Row]:
    """The row of the chosen text; none where nothing in the list has a value."""
    best = decided.standings[0]
    if best.utility is None:
        return
    yield {
        "prompt": prompts.prompt(decided),
        "completion": prompts.completion(best.text),
        "id": decided.id,
        "utility": utility,
        "completion_utility": best.utility,
        "gap": decided.gap,
    }


def ranking_rows(decided: DecidedList, prompts: RowPrompts, utility: str) -> Iterator[Row]:
    """The row of all texts, best first; none where they are all as good as each other."""
    texts = valued(decided.standings)
    if not texts or are_equal(texts[0].utility, texts[-1].utility):
        return
    yield {
        "prompt": prompts.prompt(decided),
        "completions": [prompts.completion(text.text) for text in texts],
        "utilities": [text.utility for text in texts],
        "id": decided.id,
        "utility": utility,
        "gap": texts[0].utility - texts[1].utility,
    }


_FORMS = {
    "pairs": "preference pairs: `prompt`, `chosen`, `rejected`",
    "sft": "prompts with the chosen text: `prompt`, `completion`",
    "kto": "texts with a label: `prompt`, `completion`, `label`",
    "ranking": "rankings: `prompt`, `completions` from the best to the worst, and their `utilities`",
}
CAUTION = (
    "These rows say what a metric prefers, not what people prefer. A metric that was optimised is biased: after "
    "training on its choices it will report a gain of which a part is its own taste (longer texts, certain words). "
    "Judge what was trained by metrics that played no part in the choice, and by people."
)


def card(export: Export, run: Mapping[str, Any], name: str) -> str:
    """The card as Markdown.

    Args:
        export: the export, after its last row.
        run: what the card tells of the run, by name.
        name: of the file of rows.
    """
    lines = [
        f"# {name}",
        "",
        f"JSON lines with {_FORMS[export.kind]}; beside them the `id` of the list, the signature `utility` of what "
        "decided, values and gaps.",
        "",
        "```python",
        f'datasets.load_dataset("json", data_files="{name}", split="train")',
        "```",
        "",
        CAUTION,
        "",
        "| from | |",
        "|---|---|",
        *(f"| {key} | {_cell(value)} |" for key, value in run.items()),
        *(f"| {key} | {_cell(value)} |" for key, value in export.as_settings().items()),
        "",
        "| counted | |",
        "|---|---|",
        *(f"| {key} | {count} |" for key, count in export.figures.counts.items()),
        *(f"| {key} | {mean:.4g} |" for key, mean in means(export.figures).items()),
    ]
    return "\n".join(lines) + "\n"


def means(figures: Figures) -> dict[str, float]:
    """The mean of everything that was added up over pairs."""
    num_pairs = figures.counts.get("pairs", 0)
    return {f"mean {name}": total / num_pairs for name, total in figures.sums.items()}


def _cell(value: Any) -> str:
    """A value in a cell of a table."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "\\n")
    return f"`{escaped}`"


@settings
class ExportSettings:
    """Which rows are made of decided lists.

    Args:
        pairs: pairs and kto: the best text against the worst, against each other, or all pairs.
        margin: pairs and kto: the least gap of a pair, in standard deviations of its list.
        max_pairs: pairs and kto: how many pairs of a list, those with the widest gaps.
        balance_lengths: pairs and kto: leave out pairs until preferred texts are longer as often as shorter.
        seed: of the draws of --balance-lengths.
    """

    pairs: Selection = "best-worst"
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    max_pairs: Annotated[int, Field(ge=1)] | None = None
    balance_lengths: bool = False
    seed: int = 0


@dataclass
class Figures:
    """Counts and sums of rows."""

    counts: dict[str, int] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)

    def count(self, name: str, number: int = 1) -> None:
        """Counts something."""
        self.counts[name] = self.counts.get(name, 0) + number

    def add(self, name: str, value: float) -> None:
        """Adds to a sum."""
        self.sums[name] = self.sums.get(name, 0.0) + value


class Export:
    """The rows of an export.

    Args:
        kind: of its rows.
        chosen: its settings.
        prompts: what stands in rows as prompt.
        utility: the signature of what decided.
    """

    def __init__(
        self, kind: Kind, chosen: ExportSettings, prompts: RowPrompts, utility: str
    ) -> None:
        self.kind, self.settings = kind, chosen
        self.prompts, self.utility = prompts, utility
        self.figures = Figures()
        self._balance: LengthBalance | None = None

    @property
    def has_pairs(self) -> bool:
        """Whether its rows come from pairs."""
        return self.kind in ("pairs", "kto")

    def balance(self, lists: Iterable[DecidedList]) -> None:
        """Counts lengths in a first pass; for `balance_lengths`."""
        self._balance = LengthBalance(self.settings.seed)
        for decided in lists:
            pairs, _ = self._pairs(decided)
            for pair in pairs:
                self._balance.count(pair)
        self._balance.counted()

    def rows(self, lists: Iterable[DecidedList]) -> Iterator[Row]:
        """The rows of all lists, in order.

        Raises:
            InputError: a list of which no row can be made, with its id.
        """
        for decided in lists:
            self.figures.count("lists")
            try:
                rows = list(self._rows_of(decided))
            except InputError as error:
                raise error.inside(f"list {decided.id!r:.80}") from None
            if not rows:
                self.figures.count("lists without a row")
            self.figures.count("rows", len(rows))
            yield from rows

    def _rows_of(self, decided: DecidedList) -> Iterator[Row]:
        if self.kind == "sft":
            return chosen_rows(decided, self.prompts, self.utility)
        if self.kind == "ranking":
            return ranking_rows(decided, self.prompts, self.utility)
        pairs = self._kept(decided)
        make: Callable[..., Iterator[Row]] = pair_rows if self.kind == "pairs" else label_rows
        rows = list(make(decided, self.prompts, pairs, self.utility))
        if self.kind == "kto":
            num_texts = len({text for pair in pairs for text in pair})
            self.figures.count("labelled true", sum(row["label"] for row in rows))
            self.figures.count(
                "texts preferred in one pair and not in another", num_texts - len(rows)
            )
        return iter(rows)

    def _kept(self, decided: DecidedList) -> Sequence[PreferencePair]:
        """The pairs of a list, with the figures of them."""
        pairs, num_over = self._pairs(decided)
        self.figures.count("pairs left out by --max-pairs", num_over)
        kept = pairs
        if self._balance is not None:
            kept = [pair for pair in pairs if self._balance.keeps(pair)]
            self.figures.count("pairs left out by --balance-lengths", len(pairs) - len(kept))
        for pair in kept:
            self.figures.count("pairs")
            self.figures.add("gap", pair.gap)
            self.figures.add("standardised gap", pair.standardised_gap)
            self.figures.add("characters of the preferred text", len(pair.chosen.text))
            self.figures.add("characters of the other text", len(pair.rejected.text))
        return kept

    def _pairs(self, decided: DecidedList) -> tuple[list[PreferencePair], int]:
        how = self.settings
        return pairs_in(decided.standings, how.pairs, how.margin, how.max_pairs)

    def as_settings(self) -> dict[str, Any]:
        """The settings that rows depend on, for the card."""
        prompts = self.prompts
        form = "conversational" if prompts.conversational else "standard"
        known: dict[str, Any] = {"kind": self.kind, "form": form}
        known |= {"prompt": prompts.template.text} if prompts.messages is None else {}
        known |= {} if prompts.messages is None else {"messages": prompts.messages}
        known |= {} if prompts.system is None else {"system": prompts.system}
        if self.has_pairs:
            known |= {"pairs": self.settings.pairs, "margin": self.settings.margin}
            known |= {"max-pairs": self.settings.max_pairs}
            known |= {"balance-lengths": self.settings.balance_lengths}
        return known


CLASSES_PER_OCTAVE = 4


class LengthBalance:
    """Counts all pairs first, and then says of each, in the same order, whether it is kept.

    Args:
        seed: of the draws.
    """

    def __init__(self, seed: int = 0) -> None:
        self._draw = random.Random(seed)
        self._left: Counter[int] = Counter()  # by class: pairs still to come
        self._wanted: Counter[int] = Counter()  # and how many of them are kept

    def count(self, pair: PreferencePair) -> None:
        """Counts a pair."""
        self._left[length_class(pair)] += 1

    def counted(self) -> None:
        """Ends the counting."""
        for number, count in self._left.items():
            self._wanted[number] = min(count, self._left.get(-number, 0))

    def keeps(self, pair: PreferencePair) -> bool:
        """Whether the next pair is kept."""
        number = length_class(pair)
        is_kept = self._draw.random() * self._left[number] < self._wanted[number]
        self._left[number] -= 1
        self._wanted[number] -= is_kept
        return is_kept


def length_class(pair: PreferencePair) -> int:
    """How much longer the preferred text is, in quarters of an octave; below 0 where it is shorter."""
    chosen, rejected = len(pair.chosen.text) + 1, len(pair.rejected.text) + 1
    return round(CLASSES_PER_OCTAVE * log2(chosen / rejected))


Selection = Literal["best-worst", "best-each", "all"]
MAX_PAIRS = 1_000_000  # of one list that are looked at


class Valued(NamedTuple):
    """A text with its value and its standardised value."""

    text: str
    utility: float
    standardised: float


class PreferencePair(NamedTuple):
    """A text that is preferred to another."""

    chosen: Valued
    rejected: Valued

    @property
    def gap(self) -> float:
        """By how much, in units of the utility."""
        return self.chosen.utility - self.rejected.utility

    @property
    def standardised_gap(self) -> float:
        """By how many standard deviations of the list."""
        return self.chosen.standardised - self.rejected.standardised


def valued(standings: Sequence[Standing]) -> list[Valued]:
    """The texts that have a value, best first.

    >>> [text.standardised for text in valued([Standing("a", 1, 3.0), Standing("b", 1, 1.0)])]
    [1.0, -1.0]
    """
    known = [(one.text, one.utility, one.copies) for one in standings if one.utility is not None]
    total = sum(copies for _, _, copies in known)
    mean = sum(utility * copies for _, utility, copies in known) / max(1, total)
    square = sum((utility - mean) ** 2 * copies for _, utility, copies in known) / max(1, total)
    deviation = sqrt(square) or 1.0
    texts = [Valued(text, utility, (utility - mean) / deviation) for text, utility, _ in known]
    return sorted(texts, key=lambda text: -text.utility)


def pairs_in(
    standings: Sequence[Standing],
    selection: Selection = "best-worst",
    margin: float = 0.0,
    max_pairs: int | None = None,
) -> tuple[list[PreferencePair], int]:
    """The pairs of a list, the widest gap first, and how many more there are than `max_pairs`.

    Args:
        standings: the texts of the list.
        selection: the best against the worst, against each other, or all pairs.
        margin: the least standardised gap.
        max_pairs: how many pairs are kept.

    Raises:
        InputError: more pairs than are looked at.
    """
    texts = valued(standings)
    if selection == "all" and len(texts) * (len(texts) - 1) // 2 > MAX_PAIRS:
        problem = f"{len(texts)} texts have more than {MAX_PAIRS} pairs"
        raise InputError(problem, where="pairs", fix="Take best-each")
    pairs = [pair for pair in _all_pairs(texts, selection) if _is_clear(pair, margin)]
    kept = nlargest(len(pairs) if max_pairs is None else max_pairs, pairs, key=_width)
    return kept, len(pairs) - len(kept)


def are_equal(one: float, other: float) -> bool:
    """Whether two values are as good as each other."""
    better, worse = max(one, other), min(one, other)
    return worse >= better - TIE * abs(better)


def _all_pairs(texts: Sequence[Valued], selection: Selection) -> Iterator[PreferencePair]:
    """The pairs of texts that are sorted, best first."""
    if selection == "all":
        yield from (PreferencePair(better, worse) for better, worse in combinations(texts, 2))
    elif len(texts) > 1:
        others = texts[1:] if selection == "best-each" else texts[-1:]
        yield from (PreferencePair(texts[0], worse) for worse in others)


def _is_clear(pair: PreferencePair, margin: float) -> bool:
    """Whether one of two texts is preferred."""
    chosen, rejected = pair
    if are_equal(chosen.utility, rejected.utility) or chosen.text == rejected.text:
        return False
    return pair.standardised_gap >= margin


def _width(pair: PreferencePair) -> float:
    return pair.standardised_gap


_FIX = "Give the input that the run had: --input FILE"


class Standing(NamedTuple):
    """A distinct text of a list: how often it is there, and the value that it was ranked by, None if it has none."""

    text: str
    copies: int
    utility: float | None


@dataclass(frozen=True, slots=True)
class DecidedList:
    """A list with what was decided.

    Args:
        id: of the list.
        source: of the list.
        extra: its other keys.
        standings: its texts, the chosen one first.
        gap: how much better the first is than the second.
    """

    id: str
    source: Text | None
    extra: Mapping[str, Any]
    standings: tuple[Standing, ...]
    gap: float | None

    @classmethod
    def of(cls, ranking: Ranking) -> DecidedList:
        """The list of a ranking, with as many texts as it has places."""
        places = ranking.ranking
        standings = tuple(Standing(str(p.text), p.count, p.utility) for p in places)
        return cls(ranking.id, ranking.source, ranking.extra, standings, ranking.gap)


class InputDigest(NamedTuple):
    """How many entries of its input a run has read, and their digest."""

    entries: int
    digest: str


def decided_lists(
    rows: LineSource, entries: Iterable[ListEntry], name: str, read: InputDigest
) -> Iterator[DecidedList]:
    """The lists of a run, streamed.

    Args:
        rows: the rows of the run.
        entries: its input.
        name: the name of the input.
        read: what the run says of the input that it read.

    Raises:
        InputError: a line that is no row, or an input that is not that of the run.
    """
    digest = blake2b(digest_size=16)
    num_entries = 0
    lines = iter(rows)
    number, row = _next_row(lines, rows.name)
    for entry in islice(entries, read.entries):
        digest.update(entry.raw + b"\n")
        num_entries += 1
        record = entry.record
        if record is None or record.context_only or row is None or row["id"] != record.id:
            continue
        try:
            decided = _decided(record, row)
        except InputError as error:
            raise error.inside(f"{rows.name}:{number}") from None
        yield decided
        number, row = _next_row(lines, rows.name)
    if row is not None:
        problem = f"no list {row['id']!r:.80} where {rows.name}:{number} has it"
        raise InputError(problem, where=name, fix=_FIX)
    if (num_entries, digest.hexdigest()) != read:
        raise InputError(f"is not the input that {rows.name} was made from", where=name, fix=_FIX)


def _next_row(lines: Iterator[tuple[int, bytes]], name: str) -> tuple[int, dict[str, Any] | None]:
    """The number and the value of the next line; None behind the last."""
    number, line = next(lines, (0, None))
    if line is None:
        return 0, None
    try:
        row = parse_json(line)
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise InputError(f"found {excerpt(row)}, expected a row of decode or rerank")
    except InputError as error:
        raise error.inside(f"{name}:{number}") from None
    return number, row


def _decided(record: CandidateList, row: Mapping[str, Any]) -> DecidedList:
    """A list with what its row says."""
    places = row.get("ranking")
    if not isinstance(places, list) or not places:
        raise InputError(f"found {excerpt(places)}, expected places", where="ranking")
    standings = []
    for i, place in enumerate(places):
        where = f"ranking[{i}]"
        values = place if isinstance(place, dict) else {}
        index, count = values.get("index"), values.get("count", 1)
        if type(index) is not int or not 0 <= index < len(record.candidates):
            problem = f"found {excerpt(index)}, expected one of {len(record.candidates)} candidates"
            raise InputError(problem, where=f"{where}.index")
        if type(count) is not int or count < 1:
            raise InputError(f"found {excerpt(count)}, expected a count", where=f"{where}.count")
        text = str(record.candidates[index].text)
        standings.append(Standing(text, count, finite(values.get("utility"))))
    gap = finite(row.get("gap"))
    return DecidedList(record.id, record.source, record.extra, tuple(standings), gap)
