"""All rows of an export, streamed, and the counts that its card shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, settings
from .decided_lists import DecidedList
from .length_balance import LengthBalance
from .preference_pairs import PreferencePair, Selection, pairs_in
from .trl_rows import Kind, Row, RowPrompts, chosen_rows, label_rows, pair_rows, ranking_rows


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
    """What was counted and added up."""

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
