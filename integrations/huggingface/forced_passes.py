"""Log-probabilities of forced sequences by a model of transformers.

    log P = sum_{t >= first} log p(tokens_t | source, tokens_<t)

Decoder-only models (`CausalLM`) and those of the BART family (`Seq2Seq`) run packed, and what sequences share is read
once; any other encoder-decoder runs on sequences padded to a multiple of 16, on a CPU one at a time. Either way a value
is a function of its sequence alone, to the last bit on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...metrics.execution.batches import in_batches, in_halves
from ...metrics.neural.models.causal_lm import CausalLM
from ...metrics.neural.models.encoder import CPU_TOKENS, GPU_TOKENS
from ...metrics.neural.models.packed_attention import ROWS
from ...metrics.neural.models.prompt_pass import Prompted
from ...metrics.neural.models.seq2seq import FAMILY, Seq2Seq
from ...metrics.neural.models.shared_prefix import Targets
from ...metrics.representations import IntArray, Ragged
from .forced_sequences import ForcedSequence
from .token_draws import CELLS


class ForcedPasses(Protocol):
    """What computes log-probabilities."""

    batch_tokens: int

    def log_probabilities(self, sequences: Sequence[ForcedSequence]) -> list[float]:
        """The total natural log-probability of the scored tokens of every sequence."""


def passes_of(model: Any, batch_tokens: int | None = None) -> ForcedPasses:
    """The passes of a loaded model, which is changed by it: it serves nothing else afterwards.

    Args:
        model: a transformers model, on its device.
        batch_tokens: tokens of a batch, chosen by device if not given.
    """
    if not model.config.is_encoder_decoder:
        return CausalPasses(model, batch_tokens)
    if model.config.model_type in FAMILY:
        return BartPasses(model, batch_tokens)
    return EncoderDecoderPasses(model, batch_tokens)


class CausalPasses:
    """Passes of a decoder-only model: what stands before the texts of a list once, the texts side by side.

    Args:
        model: the model.
        batch_tokens: tokens of a pass, chosen by device if not given.
    """

    def __init__(self, model: Any, batch_tokens: int | None = None) -> None:
        self.model = CausalLM(model, str(model.device), _dtype(model), batch_tokens)
        self.batch_tokens = self.model.batch_tokens

    def log_probabilities(self, sequences: Sequence[ForcedSequence]) -> list[float]:
        """The total natural log-probability of the scored tokens of every sequence."""
        first = np.array([sequence.first for sequence in sequences])
        prompted = Prompted(_ragged([sequence.tokens for sequence in sequences]), first)
        values = self.model.log_probabilities(prompted)
        return [float(of_row.sum()) for of_row in np.split(values.values, values.offsets[1:-1])]


class BartPasses:
    """Passes of a model of the BART family: every source once, texts of one source side by side.

    Args:
        model: the model.
        batch_tokens: tokens of a pass, chosen by device if not given.
    """

    def __init__(self, model: Any, batch_tokens: int | None = None) -> None:
        self.model = Seq2Seq(model, str(model.device), _dtype(model), batch_tokens)
        self.batch_tokens = self.model.batch_tokens

    def log_probabilities(self, sequences: Sequence[ForcedSequence]) -> list[float]:
        """The total natural log-probability of the scored tokens of every sequence."""
        sources = list(dict.fromkeys(sequence.source for sequence in sequences))
        number_of = {source: number for number, source in enumerate(sources)}
        states, rows = self._states(_ragged(sources))
        # the decoder starts from the last label, so the start token stands there
        labels = [(*sequence.tokens[1:], sequence.tokens[0]) for sequence in sequences]
        targets = Targets(
            _ragged(labels),
            np.array([sequence.first for sequence in sequences]),
            np.array([sequence.num_scored for sequence in sequences]),
        )
        pairs = [(rows[number_of[sequence.source]], i) for i, sequence in enumerate(sequences)]
        values = self.model.log_likelihoods(states, targets, np.array(pairs))
        return [float(value) for value in values]

    def _states(self, sources: Ragged) -> tuple[Ragged, IntArray]:
        """The encoder's states of all sources, and the row in which each stands."""

        def encoded(rows: IntArray) -> Ragged:
            return self.model.encode(sources[rows])

        batches, rows = in_batches(sources.lengths, self.batch_tokens, encoded)
        values = np.concatenate([batch.values for batch in batches])  # [tokens, d]
        lengths = np.concatenate([batch.lengths for batch in batches])  # [sources]
        return Ragged.of_lengths(values, lengths), rows


class EncoderDecoderPasses:
    """Passes of any encoder-decoder.

    Args:
        model: the model.
        batch_tokens: tokens of a batch on a GPU, padding counted.
    """

    def __init__(self, model: Any, batch_tokens: int | None = None) -> None:
        self.model = model.train(False)
        self.on_cpu = model.device.type == "cpu"
        self.batch_tokens = batch_tokens or (CPU_TOKENS if self.on_cpu else GPU_TOKENS)
        self.vocabulary = model.get_input_embeddings().weight.shape[0]
        # sources read last, their states and mask: texts of one source follow each other
        self.encoded: tuple[list[tuple[int, ...]], Any, Any] | None = None

    def log_probabilities(self, sequences: Sequence[ForcedSequence]) -> list[float]:
        """The total natural log-probability of the scored tokens of every sequence."""
        import torch

        scored = [i for i, sequence in enumerate(sequences) if sequence.num_scored]
        order = sorted(scored, key=lambda i: _sort_key(sequences[i]))
        values: list[float] = []
        with torch.inference_mode():
            for batch in self._batches([sequences[i] for i in order]):
                values += in_halves(self._batch, batch)
        value_of = dict(zip(order, values, strict=True))
        return [value_of.get(i, 0.0) for i in range(len(sequences))]

    def _batches(self, sequences: Sequence[ForcedSequence]) -> list[Sequence[ForcedSequence]]:
        """Sequences that are read together: on a CPU one, whatever stands beside it."""
        if self.on_cpu:
            return [[sequence] for sequence in sequences]
        batches: list[Sequence[ForcedSequence]] = []
        batch: list[ForcedSequence] = []
        for sequence in sequences:
            longer = [*batch, sequence]
            longest = max(len(one.source) + len(one.tokens) for one in longer)
            num_tokens = longest * len(longer)
            is_full = num_tokens > self.batch_tokens or num_tokens * self.vocabulary > CELLS
            if batch and is_full:
                batches.append(batch)
                longer = [sequence]
            batch = longer
        return [*batches, batch] if batch else batches

    def _batch(self, sequences: Sequence[ForcedSequence]) -> list[float]:
        """The values of sequences that are read together."""
        # what pads a sequence stands behind it, where no state looks
        ids, _ = self._padded([sequence.tokens[:-1] for sequence in sequences])
        labels, _ = self._padded([sequence.tokens[1:] for sequence in sequences])
        logits = self._logits(sequences, ids).float()  # [sequences, longest, vocabulary]
        own = logits.gather(2, labels[..., None])[..., 0]  # [sequences, longest]
        # rounding may leave a probability above 1
        logprobs = (own - logits.logsumexp(dim=2)).clamp(max=0).double().cpu()
        totals = []
        for row, sequence in zip(logprobs, sequences, strict=True):
            # the state before a token scores it
            scored = row[sequence.first - 1 : len(sequence.tokens) - 1]
            totals.append(float(scored.sum()))
        return totals

    def _logits(self, sequences: Sequence[ForcedSequence], ids: Any) -> Any:
        """Logits [sequences, longest, vocabulary] of decoder inputs ids [sequences, longest]."""
        from transformers.modeling_outputs import BaseModelOutput

        sources = list(dict.fromkeys(sequence.source for sequence in sequences))
        rows = [sources.index(sequence.source) for sequence in sequences]
        if self.encoded is None or self.encoded[0] != sources:
            self.encoded = (sources, *self._states(sources))
        _, states, mask = self.encoded
        result = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=states[rows]),
            attention_mask=mask[rows],
            decoder_input_ids=ids,
            use_cache=False,
        )
        return result.logits

    def _states(self, sources: Sequence[tuple[int, ...]]) -> tuple[Any, Any]:
        """The encoder's states [sources, longest, d] and the mask of what they are of."""
        ids, mask = self._padded(sources)
        encoder = self.model.get_encoder()
        return encoder(input_ids=ids, attention_mask=mask).last_hidden_state, mask

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Ids and mask [rows, longest, up to a multiple of 16 if there are positions], on the model's device."""
        import torch

        longest = max(map(len, rows))
        spare = -longest % ROWS
        limit = getattr(self.model.config, "max_position_embeddings", None) or longest + spare
        width = max(longest, min(longest + spare, limit))
        ids = [[*row, *[0] * (width - len(row))] for row in rows]
        mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
        device = self.model.device
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _dtype(model: Any) -> Any:
    """The precision of a model as settings name it."""
    return str(model.dtype).removeprefix("torch.")


def _sort_key(sequence: ForcedSequence) -> tuple[Any, ...]:
    """Sequences of one source stand together, and of one length."""
    return len(sequence.source), sequence.source, len(sequence.tokens)


def _ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    """Rows of ids as one array."""
    lengths = np.array([len(row) for row in rows])
    values = np.array([token for row in rows for token in row], np.int64)
    return Ragged.of_lengths(values, lengths)
