"""Comparison of texts by how likely a causal language model finds one of them behind a prompt.

    u = mean over some directions (y | x) of log p(y | prompt(x)) / n
    log p(y | prompt) = sum_t log p(y_t | prompt, y_<t)

A direction says which text is the target y and which the condition x that the prompt tells of, if it tells of any. What
n is, and whether log p(y) behind nothing is taken away, `Normalize` says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ...representations import Block, FloatArray, IntArray, Ragged, Reps, by_block
from ...scorer import Passes, Scorer
from ...text.texts import Item, Truncation
from ..likelihood.likelihood_scorer import Direction, Side, side_rows
from ..models.causal_lm import CausalLM
from ..models.prompt_pass import Prompted
from ..models.settings import ModelMetric
from .prompted_sequences import NO_PROMPT, FewShotPrompt, Prompts, SequenceReader, Sequences

# token, character: what the sum is divided by; sum: nothing; pmi: the sum less that behind nothing.
Normalize = Literal["token", "character", "sum", "pmi"]
# How many of its least likely tokens are told of a text.
SHOWN_TOKENS = 5


class Loaded(NamedTuple):
    """A model, and what makes its sequences."""

    model: CausalLM
    reader: SequenceReader
    prompts: Prompts


class _Pairs(NamedTuple):
    """Texts behind prompts: rows of both among the representations, [n, 2], and their sequences."""

    rows: IntArray
    sequences: Sequences


class CausalScorer(Scorer):
    """Represents a text by itself; compares by the model.

    Args:
        metric: the settings.
        loaded: the model and its readers.
        directions: what is averaged.
        normalize: what becomes of the sum.
        multi_reference: how several references combine.
    """

    def __init__(
        self,
        metric: ModelMetric,
        loaded: Loaded,
        directions: Sequence[Direction],
        normalize: Normalize,
        multi_reference: Literal["mean", "best"] = "mean",
    ) -> None:
        self.info = replace(metric.info, multi_reference=multi_reference)
        self.model, self.reader, self.prompts = loaded
        self.directions = tuple(directions)
        self.normalize = normalize
        self.batch_tokens = self.model.batch_tokens
        self.identity = metric.identity(self.model.device)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Texts and context as they are, since tokens follow from the prompt; about how many tokens a text has."""
        texts = []
        for item in items:
            plain = [str(item.text), *item.context]
            texts.append(np.frombuffer(json.dumps(plain).encode(), np.uint8))
        lengths = self.reader.num_tokens([self.prompts.plain(str(item.text)) for item in items])
        return Reps({"texts": Ragged.of_rows(texts), "tokens": lengths}), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The mean over the directions, [H, R] of every block ([H, 1] without references)."""
        rows = side_rows(self.info, blocks)
        pairs, places = self._pairs(reps, rows)
        values = self._values(reps, pairs)[places]  # [directions * cells]
        means = values.reshape(len(self.directions), -1).mean(axis=0)  # [cells]
        return by_block(means, blocks)

    def _pairs(self, reps: Reps, rows: dict[Side, IntArray]) -> tuple[_Pairs, IntArray]:
        """The distinct pairs of condition and target, and which of them every direction of every cell is."""
        both = [
            np.stack((rows[direction.condition], rows[direction.target]), axis=1)
            for direction in self.directions
        ]
        distinct, places = np.unique(np.concatenate(both), axis=0, return_inverse=True)
        return _Pairs(distinct, self._sequences(reps, distinct)), places.reshape(-1)

    def _sequences(self, reps: Reps, pairs: IntArray) -> Sequences:
        """The sequences of targets behind the prompts of their conditions; pairs: [n, 2]."""
        items = {row: _item(reps["texts"], row) for row in np.unique(pairs).tolist() if row >= 0}
        prompts: dict[tuple[int, tuple[str, ...]], FewShotPrompt] = {}
        of_pairs, texts = [], []
        for condition, target in pairs.tolist():
            key = condition, items[target].context
            if key not in prompts:
                given = items[condition] if condition >= 0 else None
                prompts[key] = self.prompts.of(given, items[target].context)
            of_pairs.append(prompts[key])
            texts.append(self.prompts.plain(str(items[target].text)))
        return self.reader.read(of_pairs, texts)

    def _values(self, reps: Reps, pairs: _Pairs) -> FloatArray:
        """The value of every pair, [n]."""
        sums, num_tokens = self._sums(pairs.sequences.prompted)
        if self.normalize == "sum":
            return sums
        if self.normalize == "pmi":
            return sums - self._unconditional(reps, pairs.rows[:, 1])
        numbers = num_tokens
        if self.normalize == "character":
            numbers = self._num_characters(reps, pairs.rows[:, 1])
        # A text of which nothing is scored counts as one token of a model that knows nothing.
        is_empty = (num_tokens == 0) | (numbers == 0)
        means = sums / np.where(is_empty, 1, numbers)
        return np.where(is_empty, -np.log(self.model.vocabulary), means)

    def _sums(self, prompted: Prompted) -> tuple[FloatArray, IntArray]:
        """Summed log-probabilities of texts and how many tokens they sum up, [n] each."""
        of_tokens = self.model.log_probabilities(prompted)
        parts = np.split(of_tokens.values, of_tokens.offsets[1:-1])
        return np.array([part.sum() for part in parts]), of_tokens.lengths

    def _unconditional(self, reps: Reps, targets: IntArray) -> FloatArray:
        """Summed log-probabilities of the texts in rows [n] behind nothing, [n]."""
        distinct, places = np.unique(targets, return_inverse=True)
        sums, _ = self._sums(self._behind_nothing(reps, distinct))
        of_targets: FloatArray = sums[places]
        return of_targets

    def _behind_nothing(self, reps: Reps, targets: IntArray) -> Prompted:
        """The sequences of the texts in rows [n] without a prompt."""
        items = [_item(reps["texts"], row) for row in targets.tolist()]
        texts = [self.prompts.plain(str(item.text)) for item in items]
        return self.reader.read([NO_PROMPT] * len(texts), texts).prompted

    def _num_characters(self, reps: Reps, targets: IntArray) -> IntArray:
        """Characters of the texts in rows [n], one more where an end is scored, [n]."""
        numbers = {}
        for row in np.unique(targets).tolist():
            text = self.prompts.plain(str(_item(reps["texts"], row).text))
            numbers[row] = len(text) + self.reader.has_end
        return np.array([numbers[row] for row in targets.tolist()], np.int64)

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """About the tokens that the model reads for a block: every condition once, and the texts behind it."""
        tokens = reps["tokens"]
        cost = 0
        for direction in self.directions:
            sides = {
                "hypothesis": block.hypotheses,
                "reference": block.references,
                "source": np.array([block.source] if block.source >= 0 else [], np.int64),
            }
            conditions, targets = sides[direction.condition], sides[direction.target]
            cost += int(tokens[conditions].sum())
            cost += max(1, len(conditions)) * int(tokens[targets].sum())
        return cost

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every distinct prompt, and one for the rest of every text behind it."""
        pairs, _ = self._pairs(reps, side_rows(self.info, [block]))
        prompted = [pairs.sequences.prompted]
        if self.normalize == "pmi":
            prompted.append(self._behind_nothing(reps, np.unique(pairs.rows[:, 1])))
        lengths, flops = [], 0.0
        for texts in prompted:
            prompt_rows = list({texts.prompt_key(row): row for row in texts.in_order()}.values())
            prompts = texts.first[np.array(prompt_rows, np.int64)]
            rests = np.stack((texts.first, np.maximum(1, texts.num_scored)), axis=1)
            lengths += [prompts, rests[:, 1] - 1]
            flops += self.model.flops(prompts, rests)
        return Passes(np.concatenate(lengths), flops)

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """The most that a sequence of a block loses."""
        pairs, _ = self._pairs(reps, side_rows(self.info, [block]))
        return Truncation(int(pairs.sequences.truncation.max(initial=0)))

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """In every direction the prompt, the sum over how many tokens, and the least likely of them."""
        h = block.hypotheses[hypothesis : hypothesis + 1]
        r = block.references[reference : reference + 1]
        rows = side_rows(self.info, [Block(h, r, block.source)])
        explained = {}
        for target, condition in self.directions:
            pair = np.stack((rows[condition], rows[target]), axis=1)
            prompted = self._sequences(reps, pair).prompted
            values = self.model.log_probabilities(prompted).values
            name = f"{target}_given_{condition}" if rows[condition][0] >= 0 else target
            explained[name] = self._shown(prompted, values)
        return explained

    def _shown(self, prompted: Prompted, values: FloatArray) -> dict[str, Any]:
        """The explanation of one sequence by the log-probabilities of its scored tokens."""
        start = int(prompted.first[0])
        prompt, labels = prompted.ids.values[:start], prompted.ids.values[start:]
        decode = self.reader.tokenizer.decode
        least = np.argsort(values, kind="stable")[:SHOWN_TOKENS]
        tokens = [
            {"token": decode([int(labels[i])]), "place": int(i), "logprob": float(values[i])}
            for i in least
        ]
        return {
            "prompt": decode(prompt.tolist()),
            "logprob": float(values.sum()),
            "tokens": len(values),
            "least_likely": tokens,
        }


def _item(texts: Ragged, row: int) -> Item:
    """The text of a row and its context."""
    start, end = texts.offsets[row], texts.offsets[row + 1]
    text, *context = json.loads(texts.values[start:end].tobytes())
    return Item(text, tuple(context))
