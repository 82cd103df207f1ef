"""An encoder-decoder of the BART family: how likely many targets are given many sources.

A source is encoded once. In a pass of the decoder the tokens of many pairs are rows of one matrix, and the states of
their sources, each once, are rows of another. The vocabulary is looked at where labels are scored, nowhere else. What
comes out for a text or a pair is a function of it alone, to the last bit on a CPU: nothing but attention mixes rows,
and that knows where a sequence ends (see `attention`); the rows of every product are a multiple of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...errors import ModelLoadError
from ...execution.store import in_halves
from ...representations import FloatArray, IntArray, Ragged
from .attention import ROWS, Attention, Spans, padded_rows
from .causal_lm import by_label
from .encoder import DType, PackedModel, Stack
from .prompt_pass import Prompted, PromptPass, batches

# `model_type` of a configuration: whether norms stand before what they feed.
FAMILY = {"bart": False, "mbart": True}
# Logits that are there at a time.
CPU_CELLS, GPU_CELLS = 1 << 23, 1 << 28


class Targets(NamedTuple):
    """Texts as labels, and which of these are scored."""

    ids: Ragged  # n rows of labels
    prefix_lengths: IntArray  # [n] labels up to the first scored one, itself counted
    num_scored: IntArray  # [n] labels that are scored, one after the other

    @property
    def sequences(self) -> Ragged:
        """The tokens that the decoder reads, and the last scored label: it starts from the last label of a text."""
        ends = self.ids.offsets[1:] - 1
        # Labels behind the first token; none where nothing is scored, which may begin behind the text.
        reads = np.where(self.num_scored, self.prefix_lengths + self.num_scored - 1, 0)  # [n]
        label = np.repeat(self.ids.offsets[:-1], reads) + Spans.of_lengths(reads).places
        starts = reads.cumsum() - reads
        tokens = np.insert(self.ids.values[label], starts, self.ids.values[ends])
        return Ragged.of_lengths(tokens, reads + 1)

    def num_tokens(self, rows: IntArray) -> int:
        """Number of tokens that the decoder reads of the targets in rows [m] for one source."""
        rows = rows[self.num_scored[rows] > 0]
        texts = Prompted(self.sequences[rows], self.prefix_lengths[rows])
        prompts = {texts.prompt_key(row): int(texts.first[row]) for row in range(len(rows))}
        return sum(prompts.values()) + int((texts.num_scored - 1).sum())


class Seq2Seq(PackedModel):
    """A loaded model.

    Args:
        model: a transformers model with a vocabulary head.
        device, dtype, batch_tokens: as in `PackedModel`.

    Raises:
        ModelLoadError: the model is of another family.
    """

    def __init__(
        self, model: Any, device: str | None, dtype: DType, batch_tokens: int | None = None
    ) -> None:
        from .linear_products import SLICE

        config = model.config
        if config.model_type not in FAMILY:
            raise ModelLoadError(
                f"a model of the type {config.model_type}, expected {' or '.join(FAMILY)}",
                where=str(config.name_or_path),
                fix="Such as facebook/bart-large-cnn, facebook/mbart-large-50",
            )
        super().__init__(model, device, dtype, batch_tokens)
        self.norm_first = FAMILY[config.model_type]
        self.max_tokens = int(config.max_position_embeddings)
        cells = CPU_CELLS if self.on_cpu else GPU_CELLS
        self.head_rows = max(1, cells // (SLICE * ROWS)) * ROWS

    def encode(self, ids: Ragged) -> Ragged:
        """The encoder's states of every text, float32 [tokens, d]; one pass."""
        if not len(ids):
            nothing = np.empty((0, self.model.config.d_model), np.float32)
            return Ragged(nothing, ids.offsets)
        encoder = self.model.get_encoder()
        spans = Spans.of_lengths(ids.lengths)
        with self.torch.inference_mode():
            x = self._embedded(encoder, ids.values, spans.places)  # [tokens and spare rows, d]
            to_itself = Attention(spans, spans, len(x), self.device)
            for layer in encoder.layers:
                attended = partial(_attended, layer.self_attn, to_itself)
                x = self._added(x, layer.self_attn_layer_norm, attended)
                x = self._added(x, layer.final_layer_norm, partial(_fed_forward, layer))
            x = self._finished(encoder, x)[: len(ids.values)]  # [tokens, d]
            states = x.float().cpu().numpy()
            return Ragged(states, ids.offsets)

    def flops(self, sources: IntArray, pairs: IntArray) -> float:
        """Floating point operations of a pass of the encoder per source and one of the decoder per pair.

        What pairs share counts for each of them, but for keys and values of the sources, which count once.

        Args:
            sources: tokens of each, [n].
            pairs: tokens of the source and of the target, [pairs, 2].
        """
        config = self.model.config
        width = config.d_model
        encoder = Stack(config.encoder_layers, width, width, config.encoder_ffn_dim)
        decoder = Stack(config.decoder_layers, width, width, config.decoder_ffn_dim)
        of_source, of_target = pairs.astype(np.float64).T
        # Attention to the source: query and what follows for every token of the target.
        to_source = 2 * width * width * of_target + 2 * width * of_source * of_target  # [pairs]
        keys_and_values = 2 * width * width * float(sources.sum())
        of_layers = config.decoder_layers * (to_source.sum() + keys_and_values)
        of_head = width * config.vocab_size * of_target.sum()
        flops = encoder.flops(sources) + decoder.flops(pairs[:, 1]) + 2 * (of_layers + of_head)
        return float(flops)

    def log_likelihoods(self, states: Ragged, targets: Targets, rows: IntArray) -> FloatArray:
        """Summed natural log-probabilities of the scored labels of targets, each given a source, float64 [n].

        rows: of the source among the `states` and of the target, [n, 2]. Where no label is scored, 0.
        """
        sources, targets_of = rows.T
        first = targets.prefix_lengths[targets_of]
        texts = Prompted(targets.sequences[targets_of], first, sources)
        order = texts.in_order(states.lengths)
        log_likelihoods = np.zeros(len(rows))
        for batch in batches(texts, order, self.batch_tokens, states.lengths):
            log_likelihoods[batch] = in_halves(partial(self._sums, states, texts), batch)
        return log_likelihoods

    def _sums(self, states: Ragged, texts: Prompted, rows: Sequence[int]) -> list[float]:
        """Summed log-probabilities of the texts of one pass."""
        decoder_pass = PromptPass(texts, rows)
        with self.torch.inference_mode():
            x = self._decoded(decoder_pass, states[decoder_pass.sources])
            scoring = x.index_select(0, self.tensor(padded_rows(decoder_pass.states)))
            values = by_label(decoder_pass, scoring, self.head_rows, self._log_probabilities)
        # Added up in order.
        return [float(np.cumsum(of_text)[-1]) for of_text in values]

    def _decoded(self, decoder_pass: PromptPass, states: Ragged) -> Any:
        """The decoder's states of a pass, [tokens and spare rows, d]; states: [tokens, d] of its sources."""
        decoder = self.model.get_decoder()
        x = self._embedded(decoder, decoder_pass.inputs, decoder_pass.places)
        # [source tokens and spare rows, d]
        memory = self.tensor(padded_rows(states.values)).to(x.dtype)

        # Every token attends to the prefix before its sequence and to the sequence up to itself, then to its source.
        spans = decoder_pass.spans
        sources = Spans.of_lengths(states.lengths)[decoder_pass.source_of]
        to_target = Attention(spans, decoder_pass.before, len(x), self.device, own=True)
        to_source = Attention(spans, sources, len(x), self.device)
        for layer in decoder.layers:
            of_target = partial(_attended, layer.self_attn, to_target)
            x = self._added(x, layer.self_attn_layer_norm, of_target)
            of_source = partial(_attended, layer.encoder_attn, to_source, memory=memory)
            x = self._added(x, layer.encoder_attn_layer_norm, of_source)
            x = self._added(x, layer.final_layer_norm, partial(_fed_forward, layer))
        return self._finished(decoder, x)

    def _log_probabilities(self, states: Any, rows: Any, labels: Any) -> Any:
        """Of labels [m] under the rows [m] of states [states, d], [m]."""
        from .linear_products import label_log_probabilities

        weight, bias = self.model.lm_head.weight, self.model.final_logits_bias[0]
        return label_log_probabilities(states, weight, bias, rows, labels)

    def _embedded(self, stack: Any, tokens: IntArray, places: IntArray) -> Any:
        """Tokens [tokens] at their places [tokens] as vectors, [tokens and spare rows, d]."""
        token_ids = self.tensor(padded_rows(tokens))  # [tokens and spare rows]
        position_ids = self.tensor(padded_rows(places))  # [tokens and spare rows]
        of_tokens = stack.embed_tokens(token_ids[None])  # [1, tokens and spare rows, d]
        of_places = stack.embed_positions(None, position_ids=position_ids)
        return stack.layernorm_embedding(of_tokens + of_places)[0]

    def _added(self, x: Any, norm: Any, part: Callable[[Any], Any]) -> Any:
        """A part of a layer with its residual connection, [rows, d] of x [rows, d]."""
        if self.norm_first:
            return x + part(norm(x))
        return norm(x + part(x))

    def _finished(self, stack: Any, x: Any) -> Any:
        """The last norm over x [rows, d], where norms stand first."""
        return stack.layer_norm(x) if self.norm_first else x


def _attended(module: Any, attend: Attention, x: Any, memory: Any = None) -> Any:
    """Attention of x [rows, d] to the memory [keys, d], or to itself; [rows, d]."""
    seen = x if memory is None else memory
    by_head = -1, module.num_heads, module.head_dim
    query = module.q_proj(x).view(by_head)  # [rows, heads, d/heads]
    key = module.k_proj(seen).view(by_head)  # [keys, heads, d/heads]
    value = module.v_proj(seen).view(by_head)  # [keys, heads, d/heads]
    attended = attend(query, key, value, module.scaling)  # [rows, heads, d/heads]
    return module.out_proj(attended.flatten(1))


def _fed_forward(layer: Any, x: Any) -> Any:
    """The two linear layers of a layer, [rows, d] of x [rows, d]."""
    hidden = layer.activation_fn(layer.fc1(x))
    return layer.fc2(hidden)
