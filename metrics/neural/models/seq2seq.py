"""An encoder-decoder of the BART family: how likely many targets are given many sources.

A source is encoded once. In a pass of the decoder the tokens of many pairs are rows of one matrix, and the states of
their sources, each once, are rows of another. The vocabulary is looked at where labels are scored, nowhere else. What
comes out for a text or a pair is a function of it alone, to the last bit on a CPU: nothing but attention mixes rows,
and that knows where a sequence ends (see `attending`); the rows of every product are a multiple of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...errors import ModelLoadError
from ...execution.batches import in_halves
from ...representations import FloatArray, IntArray, Ragged
from .encoder import CPU_TOKENS, GPU_TOKENS, DType, device_of
from .packed_attention import ROWS
from .shared_prefix import Pair, Pass, Targets, batches, pairs_of
from .span_attention import Attention, Spans

FAMILY = {
    "bart": False,
    "mbart": True,
}  # `model_type` of a configuration; whether norms stand before what they feed
CPU_CELLS, GPU_CELLS = 1 << 24, 1 << 28  # tokens times vocabulary looked at together


class Seq2Seq:
    """A loaded model.

    Args:
        model: a transformers model with a vocabulary head.
        device: where it runs; the first GPU if there is one, else the CPU, if not given.
        dtype: in which precision.
        batch_tokens: tokens of a pass, chosen by device if not given.

    Raises:
        ModelLoadError: the model is of another family.
    """

    def __init__(
        self, model: Any, device: str | None, dtype: DType, batch_tokens: int | None = None
    ) -> None:
        import torch

        config = model.config
        if config.model_type not in FAMILY:
            raise ModelLoadError(
                f"a model of the type {config.model_type}, expected {' or '.join(FAMILY)}",
                where=str(config.name_or_path),
                fix="Such as facebook/bart-large-cnn, facebook/mbart-large-50",
            )
        self.torch, self.norm_first = torch, FAMILY[config.model_type]
        self.device = device_of(device)
        self.model = model.to(self.device, getattr(torch, dtype)).train(False)
        on_cpu = self.device.type == "cpu"
        self.batch_tokens = batch_tokens or (CPU_TOKENS if on_cpu else GPU_TOKENS)
        self.max_tokens = int(config.max_position_embeddings)
        cells = CPU_CELLS if on_cpu else GPU_CELLS
        self.head_rows = max(1, cells // (config.vocab_size * ROWS)) * ROWS

    def encode(self, ids: Ragged) -> Ragged:
        """The encoder's states of every text, float32 [tokens, d]; one pass."""
        if not len(ids):
            return Ragged(np.empty((0, self.model.config.d_model), np.float32), ids.offsets)
        stack, spans = self.model.get_encoder(), Spans.of_lengths(ids.lengths)
        with self.torch.inference_mode():
            x = self._embedded(stack, ids.values, spans.places)
            itself = Attention(spans, spans, len(x), self.device)
            for layer in stack.layers:
                x = self._added(
                    x, layer.self_attn_layer_norm, partial(_attended, layer.self_attn, itself)
                )
                x = self._added(x, layer.final_layer_norm, partial(_fed_forward, layer))
            x = self._finished(stack, x)[: len(ids.values)]
            return Ragged(x.float().cpu().numpy(), ids.offsets)

    def log_likelihoods(self, states: Ragged, targets: Targets, rows: IntArray) -> FloatArray:
        """Summed natural log-probabilities of the scored labels of targets, each given a source, float64 [n].

        rows: of the source among the `states` and of the target, [n, 2]. Where no label is scored, 0.
        """
        pairs = pairs_of(rows, states.lengths, targets)
        order = [i for i in sorted(range(len(pairs)), key=pairs.__getitem__) if pairs[i].scored]
        found = np.zeros(len(pairs))
        run = partial(self._scored, states, targets)
        parts = batches([pairs[i] for i in order], targets, self.batch_tokens)
        found[order] = [value for part in parts for value in in_halves(run, part)]
        return found

    def _scored(self, states: Ragged, targets: Targets, pairs: Sequence[Pair]) -> list[float]:
        """Summed log-probabilities of the pairs of one pass."""
        one = Pass(pairs, targets)
        with self.torch.inference_mode():
            x = self._decoded(one, states[one.sources])
            found = self._log_probabilities(x, one.scored, one.labels)
        return list(one.sums(found))

    def _decoded(self, one: Pass, states: Ragged) -> Any:
        """The decoder's states of a pass, [tokens and spare rows, d]."""
        stack = self.model.get_decoder()
        x = self._embedded(stack, one.inputs, one.places)
        memory = self._tensor(_padded(states.values)).to(x.dtype)
        itself = Attention(one.spans, one.before, len(x), self.device, own=True)
        source = Attention(
            one.spans, Spans.of_lengths(states.lengths)[one.source], len(x), self.device
        )
        for layer in stack.layers:
            x = self._added(
                x, layer.self_attn_layer_norm, partial(_attended, layer.self_attn, itself)
            )
            of_source = partial(_attended, layer.encoder_attn, source, memory=memory)
            x = self._added(x, layer.encoder_attn_layer_norm, of_source)
            x = self._added(x, layer.final_layer_norm, partial(_fed_forward, layer))
        return self._finished(stack, x)

    def _log_probabilities(self, x: Any, scored: IntArray, labels: IntArray) -> FloatArray:
        """Of the label that follows each scored state, [scored]."""
        rows, wanted = self._tensor(_padded(scored)), self._tensor(_padded(labels))
        found = []
        for part, label in zip(
            rows.split(self.head_rows), wanted.split(self.head_rows), strict=True
        ):
            logits = (
                self.model.lm_head(x.index_select(0, part)) + self.model.final_logits_bias
            ).float()
            own = logits.gather(1, label[:, None])[:, 0]
            found.append((own - logits.logsumexp(dim=1)).clamp(max=0))
        return self.torch.cat(found)[: len(scored)].double().cpu().numpy()

    def _embedded(self, stack: Any, tokens: IntArray, places: IntArray) -> Any:
        """Tokens at their places as vectors, [tokens and spare rows, d]."""
        x = stack.embed_tokens(self._tensor(_padded(tokens))[None])
        at = stack.embed_positions(None, position_ids=self._tensor(_padded(places)))
        return stack.layernorm_embedding(x + at)[0]

    def _added(self, x: Any, norm: Any, part: Callable[[Any], Any]) -> Any:
        """A part of a layer with its residual connection."""
        return x + part(norm(x)) if self.norm_first else norm(x + part(x))

    def _finished(self, stack: Any, x: Any) -> Any:
        return stack.layer_norm(x) if self.norm_first else x

    def _tensor(self, values: Any) -> Any:
        return self.torch.from_numpy(values).to(self.device)


def _attended(module: Any, attend: Attention, x: Any, memory: Any = None) -> Any:
    """What an attention module makes of `x` [rows, d], which looks at the memory, or at itself."""
    seen = x if memory is None else memory
    heads = -1, module.num_heads, module.head_dim
    query, key, value = (
        module.q_proj(x).view(heads),
        module.k_proj(seen).view(heads),
        module.v_proj(seen).view(heads),
    )
    return module.out_proj(attend(query, key, value, module.scaling).flatten(1))


def _fed_forward(layer: Any, x: Any) -> Any:
    return layer.fc2(layer.activation_fn(layer.fc1(x)))


def _padded(values: Any) -> Any:
    """The last row again and again up to a multiple of 16."""
    spare = -len(values) % ROWS
    return np.pad(values, [(0, spare)] + [(0, 0)] * (values.ndim - 1), mode="edge")
