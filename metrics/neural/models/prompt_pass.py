"""Passes of a causal model over many texts, each behind a prompt: what several of them share, and what is scored.

    log p(x_a ... x_b | x_<a) = sum_{t=a..b} log p(x_t | x_<t)

What stands before the first scored token a is the prompt, read once for all texts that stand behind the same one; the
rest of every text follows. `PromptPass` holds arrays alone and knows no model.

`Attending` is the attention of a pass, for every layer of a model that runs packed (see `attention`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...representations import FloatArray, IntArray, Ragged
from .attention import Attention, Spans


class Prompted(NamedTuple):
    """Texts behind their prompts, as tokens."""

    ids: Ragged  # n sequences
    first: IntArray  # [n] place of the first scored token, at least 1; all behind it are scored too

    @property
    def num_scored(self) -> IntArray:
        """Number of scored tokens, [n]."""
        return self.ids.lengths - self.first

    def prompt_key(self, row: int) -> bytes:
        """The tokens of the prompt: sequences of one key share it."""
        start = self.ids.offsets[row]
        end = start + self.first[row]
        return self.ids.values[start:end].tobytes()

    def in_order(self) -> list[int]:
        """The rows with something to score, those that share a prompt next to each other, the shortest first."""
        num_scored = self.num_scored
        keys = [
            (int(self.first[row]), self.prompt_key(row), int(num_scored[row]), row)
            for row in np.flatnonzero(num_scored > 0).tolist()
        ]
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


def batches(texts: Prompted, order: Sequence[int], budget: int) -> Iterator[Sequence[int]]:
    """Consecutive rows that are at most `budget` tokens together, a shared prompt once (one row may be more)."""
    num_scored = texts.num_scored
    start = used = 0
    last_key = b""
    for i, row in enumerate(order):
        key = texts.prompt_key(row)
        prompt, rest = int(texts.first[row]), int(num_scored[row]) - 1
        is_shared = i > start and key == last_key
        added = rest if is_shared else prompt + rest
        if i > start and used + added > budget:
            yield order[start:i]
            # A new batch shares nothing with the last one.
            start = i
            used = 0
            added = prompt + rest
        used += added
        last_key = key
    if order:
        yield order[start:]


class PromptPass:
    """The tokens that the model reads for some sequences: first every prompt, then the rest of every sequence.

    The state before a token scores it: of n scored tokens, the prompt's last state scores one, the rest n - 1.

    Attributes:
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
        row_with = {texts.prompt_key(row): row for row in reversed(rows)}
        prompt_rows = list(reversed(row_with.values()))
        numbers = {texts.prompt_key(row): number for number, row in enumerate(prompt_rows)}
        prompt_of = np.array([numbers[texts.prompt_key(row)] for row in rows])
        num_prompts = len(prompt_rows)
        row = np.array([*prompt_rows, *rows])  # [parts]
        is_prompt = np.arange(len(row)) < num_prompts  # [parts]
        self.num_scored = texts.num_scored[np.array(rows)]

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
        """Of values of the scored tokens [scored], those of each sequence."""
        ends = self.num_scored.cumsum()
        return np.split(values, ends[:-1])


# Kinds of layers that can run packed.
LAYERS = {"full_attention", "sliding_attention"}
# Settings of configurations with experts, where the rows of a product are as many as tokens chose it.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def attends_over_interface(model: Any, config: Any) -> bool:
    """Whether all layers of a model attend over the interface, as far as its class and configuration say."""
    layers = set(getattr(config, "layer_types", None) or ())
    if not layers <= LAYERS or any(getattr(config, name, None) for name in EXPERTS):
        return False
    return bool(getattr(type(model), "_supports_attention_backend", False))


def rope_types(config: Any) -> set[str]:
    """The kinds of rotary positions that a configuration names, of all kinds of layers."""
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(parameters, Mapping):
        return set()
    of_layers = [value for value in parameters.values() if isinstance(value, Mapping)]
    kinds = [one.get("rope_type") or one.get("type") for one in (parameters, *of_layers)]
    return {str(kind) for kind in kinds if kind}


class Attending:
    """The attention of one pass, for layers with windows and without."""

    def __init__(self, prompt_pass: PromptPass, rows: int, device: Any) -> None:
        self.prompt_pass, self.rows, self.device = prompt_pass, rows, device
        self.by_window: dict[int | None, Attention] = {}

    def __call__(self, query: Any, key: Any, value: Any, scaling: float, window: int | None) -> Any:
        """States [rows, heads, d] in a layer with a window of so many tokens; as `Attention`."""
        if window not in self.by_window:
            spans, before = self.prompt_pass.spans, self.prompt_pass.before
            self.by_window[window] = Attention(
                spans, before, self.rows, self.device, own=True, window=window
            )
        return self.by_window[window](query, key, value, scaling)
