"""Passes of a decoder over many texts, each behind a prompt: what several of them share, and what is scored.

    log p(x_a ... x_b | x_<a) = sum_{t=a..b} log p(x_t | x_<t)

What stands before the first scored token a is the prompt, read once for all texts that stand behind the same one, given
the same source; the rest of every text follows. `PromptPass` holds arrays alone and knows no model, and `Attending` is
its attention, for every layer of a model that runs packed (see `attention`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...representations import FloatArray, IntArray, Ragged
from .attention import Attention, Spans


class Prompted(NamedTuple):
    """Texts behind their prompts, as tokens."""

    ids: Ragged  # n sequences
    first: IntArray  # [n] place of the first scored token, at least 1; all behind it are scored too
    given: IntArray | None = (
        None  # [n] the source of each, None where texts are given nothing but their prompts
    )

    @property
    def num_scored(self) -> IntArray:
        """Number of scored tokens, [n]."""
        return self.ids.lengths - self.first

    def prompt_key(self, row: int) -> tuple[int, bytes]:
        """The source and the tokens of the prompt: sequences of one key share it."""
        start = self.ids.offsets[row]
        end = start + self.first[row]
        return 0 if self.given is None else int(self.given[row]), self.ids.values[
            start:end
        ].tobytes()

    def in_order(self, source_lengths: IntArray | None = None) -> list[int]:
        """The rows with something to score, those that share a prompt next to each other, the shortest first.

        source_lengths: tokens of the sources, [sources].
        """
        num_scored = self.num_scored
        keys = []
        for row in np.flatnonzero(num_scored > 0).tolist():
            source, prompt = self.prompt_key(row)
            of_source = 0 if source_lengths is None else int(source_lengths[source])
            shared = of_source, source, int(self.first[row]), prompt
            keys.append((*shared, int(num_scored[row]), row))
        return [key[-1] for key in sorted(keys)]


def num_common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix of ids: a text behind a prompt begins where it differs from the prompt.

    >>> num_common([1, 2, 3], [1, 2, 4, 5]), num_common([1], [1, 2])
    (2, 1)
    """
    for i, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return i
    return min(len(a), len(b))


def batches(
    texts: Prompted, order: Sequence[int], budget: int, source_lengths: IntArray | None = None
) -> Iterator[Sequence[int]]:
    """Consecutive rows that are at most `budget` tokens together, a shared prompt and source once (one may be more).

    source_lengths: tokens of the sources that texts are given, [sources].
    """
    num_scored = texts.num_scored
    start = used = 0
    seen: set[Any] = set()
    for i, row in enumerate(order):
        key = texts.prompt_key(row)
        parts: dict[Any, int] = {key: int(texts.first[row])}
        if source_lengths is not None:
            parts[key[0]] = int(source_lengths[key[0]])
        rest = int(num_scored[row]) - 1
        added = rest + sum(tokens for part, tokens in parts.items() if part not in seen)
        if i > start and used + added > budget:
            yield order[start:i]
            # A new batch shares nothing with the last one.
            start = i
            used = 0
            seen = set()
            added = rest + sum(parts.values())
        used += added
        seen.update(parts)
    if order:
        yield order[start:]


class PromptPass:
    """The tokens that the model reads for some sequences: first every prompt, then the rest of every sequence.

    The state before a token scores it: of n scored tokens, the prompt's last state scores one, the rest n - 1.

    Attributes:
        sources: the sources that texts are given, each once, [sources].
        source_of: place among them of that of each part, [parts].
        spans: the parts, one after the other: prompts, then as many rests as sequences.
        before: for each of them the prompt that it follows, an empty one if it is a prompt itself.
        inputs: tokens read, [tokens].
        places: their places in their sequences, [tokens].
        states: the tokens whose states score something, [states].
        scored_by: for every scored token the place in `states` of what scores it, [scored].
        labels: the scored tokens, [scored], one sequence after the other.
        num_scored: how many of each sequence, [sequences].
    """

    def __init__(self, texts: Prompted, rows: Sequence[int]) -> None:
        # A prompt is read once; any sequence behind it has its tokens.
        keys = [texts.prompt_key(row) for row in rows]
        row_with = dict(zip(reversed(keys), reversed(rows), strict=True))
        prompt_rows = list(reversed(row_with.values()))
        numbers = {texts.prompt_key(row): number for number, row in enumerate(prompt_rows)}
        prompt_of = np.array([numbers[key] for key in keys])
        num_prompts = len(prompt_rows)
        row = np.array([*prompt_rows, *rows])  # [parts]
        is_prompt = np.arange(len(row)) < num_prompts  # [parts]
        self.num_scored = texts.num_scored[np.array(rows)]
        given = np.zeros(len(row), np.int64) if texts.given is None else texts.given[row]
        self.sources, self.source_of = np.unique(given, return_inverse=True)

        first = texts.first[row]  # [parts]
        # The last token of a sequence is scored, not read.
        length = np.where(is_prompt, first, texts.num_scored[row] - 1)
        self.spans = Spans.of_lengths(length)
        self.before = self.spans.behind(prompt_of)

        # A prompt begins at the first place of its sequence, a rest behind the prompt.
        first_place = np.where(is_prompt, 0, first)  # [parts]
        self.places = self.spans.places + np.repeat(first_place, length)
        first_token = np.repeat(texts.ids.offsets[row], length)  # [tokens]
        self.inputs = texts.ids.values[first_token + self.places]

        # Scoring are the last state of every prompt and all states of the rests.
        prompt_ends = (self.spans.start + length - 1)[:num_prompts]  # [prompts]
        first_rest = int(length[is_prompt].sum())
        rests = np.arange(first_rest, len(self.inputs))  # [tokens of rests]
        self.states = np.concatenate((prompt_ends, rests))

        # Every sequence has a token scored by its prompt, then one by each token of its rest.
        scored = Spans(
            texts.ids.offsets[np.array(rows)] + texts.first[np.array(rows)], self.num_scored
        )
        self.labels = texts.ids.values[scored.rows]
        is_first = scored.places == 0  # [scored]
        self.scored_by = np.empty(len(self.labels), np.int64)
        self.scored_by[is_first] = prompt_of
        self.scored_by[~is_first] = num_prompts + np.arange(len(rests))

    def by_sequence(self, values: FloatArray) -> list[FloatArray]:
        """Of values of the scored tokens [scored, ...], those of each sequence."""
        ends = self.num_scored.cumsum()
        return np.split(values, ends[:-1])


class Attending:
    """The attention of one pass, for layers with windows and without."""

    def __init__(self, prompt_pass: PromptPass, rows: int, device: Any) -> None:
        self.prompt_pass, self.rows, self.device = prompt_pass, rows, device
        self.by_window: dict[int | None, Attention] = {}

    def __call__(
        self, query: Any, key: Any, value: Any, scaling: float, window: int | None = None
    ) -> Any:
        """States [rows, heads, d] in a layer with a window of so many tokens; as `Attention`."""
        if window not in self.by_window:
            spans, before = self.prompt_pass.spans, self.prompt_pass.before
            self.by_window[window] = Attention(
                spans, before, self.rows, self.device, own=True, window=window
            )
        return self.by_window[window](query, key, value, scaling)
