"""A causal language model: how likely every token of many texts is, given all before it.

Texts run without padding, one after the other in one row of tokens with their places; a prompt that several of them
share is read once. Only attention mixes tokens, and it knows where a text ends (see `attention`); the vocabulary
is looked at where something is scored, nowhere else, some rows at a time. What comes out for a text is a function of
its tokens alone, to the last bit on a CPU: the rows of every product are a multiple of 16.

That takes a model of transformers whose layers attend through its attention interface: full, causal, perhaps within a
window (`prompt_pass`). Whether one does is tried on a few tokens when it is loaded; any other (state spaces,
experts, biases by distance, positions stretched with the longest text) runs one text at a time, exact and slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...errors import ModelLoadError
from ...execution.store import in_halves
from ...representations import FloatArray, IntArray, Ragged
from .attention import ROWS, padded_rows, use_packed_attention
from .encoder import DType, Stack, device_of
from .prompt_pass import (
    Attending,
    Prompted,
    PromptPass,
    attends_over_interface,
    batches,
    rope_types,
)

# Tokens of one pass.
CPU_TOKENS, GPU_TOKENS = 2048, 1 << 15
# Tokens times vocabulary looked at together.
CPU_CELLS, GPU_CELLS = 1 << 25, 1 << 29
# How far two passes may be apart at any of the tokens that are tried, by precision, and how far on their mean. In
# bfloat16 logits from 16 to 32 stand 1/8 apart, and products of another shape may round to the fourth from there on a
# GPU; on a CPU no pass of SmolLM2, Gemma 3, Llama, GPT-2 and Qwen 2 is apart at all. What is wrong moves most tokens.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
MEAN_TOLERANCE = 1 / 16  # of that
# Kinds of rotary positions that are stretched with the longest sequence.
STRETCHED = {"dynamic", "longrope"}


class CausalLM:
    """A loaded model.

    Args:
        model: a transformers model with a vocabulary head.
        device: where it runs; the first GPU if there is one, else the CPU, if not given.
        dtype: in which precision; probabilities are normalised in float32.
        batch_tokens: tokens of a pass, chosen by device if not given.

    Raises:
        ModelLoadError: the model has no vocabulary head, or reads what follows a token.
    """

    def __init__(
        self, model: Any, device: str | None, dtype: DType, batch_tokens: int | None = None
    ) -> None:
        import torch

        from .elementwise import use_elementwise
        from .linear_products import use_linear_products

        self.torch = torch
        self.device = device_of(device)
        self.model = model.to(self.device, getattr(torch, dtype)).train(False)
        self.config = model.config.get_text_config()
        self.head = model.get_output_embeddings()
        if self.head is None:
            fix = "Give a model that generates text"
            raise ModelLoadError("it has no head", where=str(model.config.name_or_path), fix=fix)
        on_cpu = self.device.type == "cpu"
        self.batch_tokens = batch_tokens or (CPU_TOKENS if on_cpu else GPU_TOKENS)
        self.vocabulary = int(self.head.weight.shape[0])
        cells = CPU_CELLS if on_cpu else GPU_CELLS
        self.head_rows = max(1, cells // (self.vocabulary * ROWS)) * ROWS
        # Whether angles of positions depend on the longest sequence of a pass, or of an earlier one.
        self.is_stretched = not STRETCHED.isdisjoint(rope_types(self.config))
        # Whether it is known what the head makes of a state, so that it need not be asked for all of them.
        self.knows_head = False
        self.packed = False
        if self.device.type != "meta":
            use_linear_products(model)
            use_elementwise(model)
            self.head = model.get_output_embeddings()
            self.knows_head = self._knows_head()
            self._check_causal(TOLERANCE[dtype])
            self.packed = self._can_be_packed(TOLERANCE[dtype])

    @property
    def max_tokens(self) -> int:
        """The longest sequence that it has positions for."""
        return int(getattr(self.config, "max_position_embeddings", None) or 1 << 30)

    def log_probabilities(self, texts: Prompted) -> Ragged:
        """Natural log-probability of every scored token given all before it in its sequence, float64, n rows."""
        order = texts.in_order()
        rows: list[FloatArray] = [np.empty(0)] * len(texts.first)
        forward = self._packed if self.packed else self._plain
        values: list[FloatArray] = []
        for batch in batches(texts, order, self.batch_tokens):
            values += in_halves(partial(forward, texts), batch)
        for row, of_row in zip(order, values, strict=True):
            rows[row] = of_row
        return Ragged.of_rows(rows)

    def flops(self, prompts: IntArray, rests: IntArray) -> float:
        """Floating point operations of a pass of each prompt and of each rest behind its prompt.

        Args:
            prompts: tokens of each distinct prompt, [prompts].
            rests: tokens of the prompt and of the scored part of each sequence, [n, 2].
        """
        stack = decoder_stack(self.config)
        of_prompt, of_rest = rests.astype(np.float64).T
        to_prompt = 2 * stack.heads_width * of_prompt * of_rest  # [n]
        of_head = stack.width * self.vocabulary * (len(prompts) + float((of_rest - 1).sum()))
        shared = 2 * (stack.layers * float(to_prompt.sum()) + of_head)
        return stack.flops(prompts) + stack.flops(rests[:, 1]) + float(shared)

    def _knows_head(self) -> bool:
        """Whether the head over the states of some made-up tokens gives the model's own logits, to the last bit."""
        tokens = self._row(
            self._with_spare(tried_tokens(self.vocabulary, self.max_tokens).ids.values[:2])
        )
        try:
            with self.torch.inference_mode():
                body = self.model.base_model(input_ids=tokens, use_cache=False)
                logits = self._logits(body.last_hidden_state[0])
                own = self.model(input_ids=tokens, use_cache=False).logits[0]
        except (AttributeError, TypeError, ValueError, IndexError, RuntimeError):
            return False
        return bool(self.torch.equal(logits.float(), own.float()))

    def _check_causal(self, tolerance: float) -> None:
        """Raises ModelLoadError if a token is more or less likely for what stands behind it."""
        longer, shorter, _ = self._plain(tried_tokens(self.vocabulary, self.max_tokens), range(3))
        if not _agree(longer[: len(shorter)], shorter, tolerance):
            fix = "Give a model that generates text from left to right"
            where = str(self.model.config.name_or_path)
            raise ModelLoadError("it is no causal model", where=where, fix=fix)

    def _can_be_packed(self, tolerance: float) -> bool:
        """Whether the model runs packed, and gives some made-up tokens the probabilities that it gives them alone."""
        if self.is_stretched or not attends_over_interface(self.model, self.config):
            return False
        plain_attention = self.config._attn_implementation
        texts = tried_tokens(self.vocabulary, self.max_tokens)
        rows = list(range(len(texts.first)))
        plain = np.concatenate(self._plain(texts, rows))
        try:
            use_packed_attention(self.model)
            packed = np.concatenate(self._packed(texts, rows))
            if _agree(packed, plain, tolerance):
                return True
        except (TypeError, ValueError, IndexError, RuntimeError):
            pass
        self.model.set_attn_implementation(plain_attention)
        return False

    def _packed(self, texts: Prompted, rows: Sequence[int]) -> list[FloatArray]:
        """The values of some sequences, all in one pass."""
        prompt_pass = PromptPass(texts, rows)
        with self.torch.inference_mode():
            tokens = self._row(padded_rows(prompt_pass.inputs))
            # Spare tokens are no part of any text; their states are not looked at.
            places = self._row(padded_rows(prompt_pass.places))
            out = self.model.base_model(
                input_ids=tokens,
                position_ids=places,
                use_cache=False,
                packing=Attending(prompt_pass, tokens.shape[1], self.device),
            )
            states = out.last_hidden_state[0]  # [tokens and spare ones, d]
            values = self._scored(states, prompt_pass)
        return prompt_pass.by_sequence(values)

    def _plain(self, texts: Prompted, rows: Sequence[int]) -> list[FloatArray]:
        """The values of some sequences, each in a pass of its own; by all logits where the head is not known."""
        values = []
        for row in rows:
            prompt_pass = PromptPass(texts, [row])
            with self.torch.inference_mode():
                if self.is_stretched:
                    # A pass of one token takes back what a longer text stretched.
                    self.model(input_ids=self._row(prompt_pass.inputs[:1]), use_cache=False)
                tokens = self._row(self._with_spare(prompt_pass.inputs))
                if self.knows_head:
                    body = self.model.base_model(input_ids=tokens, use_cache=False)
                    values.append(self._scored(body.last_hidden_state[0], prompt_pass))
                    continue
                logits = self.model(input_ids=tokens, use_cache=False).logits[0]
                scoring = self.torch.from_numpy(prompt_pass.states).to(self.device)
                own = logits.index_select(0, scoring)
                values.append(self._normalised(own, prompt_pass, 0, len(scoring)))
        return values

    def _with_spare(self, inputs: IntArray) -> IntArray:
        """Tokens with spare ones behind them, which nothing sees; without where these would need positions."""
        padded = padded_rows(inputs)
        fits = len(padded) <= self.max_tokens and not self.is_stretched
        return padded if fits else inputs

    def _scored(self, states: Any, prompt_pass: PromptPass) -> FloatArray:
        """Log-probabilities of the scored tokens, [scored], some states at a time.

        states: [tokens and spare ones, d].
        """
        scoring = self.torch.from_numpy(padded_rows(prompt_pass.states)).to(self.device)
        values = np.empty(len(prompt_pass.labels))
        for start in range(0, len(scoring), self.head_rows):
            end = start + self.head_rows
            logits = self._logits(states.index_select(0, scoring[start:end]))
            is_here = (prompt_pass.scored_by >= start) & (prompt_pass.scored_by < end)
            values[is_here] = self._normalised(logits, prompt_pass, start, end)
        return values

    def _logits(self, states: Any) -> Any:
        """The head over states [rows, d], with what some families do to its output, [rows, vocabulary]."""
        logits = self.head(states)
        cap = getattr(self.config, "final_logit_softcapping", None)
        if cap:
            logits = (logits / cap).tanh() * cap
        factor = getattr(self.config, "logit_scale", None) or 1.0
        divisor = getattr(self.config, "logits_scaling", None) or 1.0
        return logits if factor == divisor else logits * (factor / divisor)

    def _normalised(self, logits: Any, prompt_pass: PromptPass, start: int, end: int) -> FloatArray:
        """Log-probabilities of the tokens that the states `start` to `end` score, [tokens].

        logits: of these states, [states, vocabulary].
        """
        is_here = (prompt_pass.scored_by >= start) & (prompt_pass.scored_by < end)
        rows = self.torch.from_numpy(prompt_pass.scored_by[is_here] - start).to(self.device)
        labels = self.torch.from_numpy(prompt_pass.labels[is_here]).to(self.device)
        logits = logits.float()
        own = logits[rows, labels]  # [tokens]
        # log sum exp in place: the logits are the largest array there is.
        greatest = logits.amax(dim=1, keepdim=True)  # [states, 1]
        total = logits.sub_(greatest).exp_().sum(dim=1)  # [states]
        normaliser = greatest[:, 0] + total.log()
        of_label = own - normaliser[rows]
        # Rounding may leave a probability above 1.
        values: FloatArray = of_label.clamp(max=0).double().cpu().numpy()
        return values

    def _row(self, values: IntArray) -> Any:
        """Values [tokens] as a batch of one, [1, tokens]."""
        return self.torch.from_numpy(values)[None].to(self.device)


def decoder_stack(config: Any) -> Stack:
    """The sizes of a decoder's layers, by its configuration."""
    width = int(config.hidden_size)
    heads = int(config.num_attention_heads)
    head_width = int(getattr(config, "head_dim", None) or width // heads)
    feed_forward = int(getattr(config, "intermediate_size", None) or 4 * width)
    gated = 2 if config.model_type in ("gpt2", "gpt_neox", "opt") else 3
    return Stack(int(config.num_hidden_layers), width, heads * head_width, feed_forward, gated)


def tried_tokens(vocabulary: int, max_tokens: int) -> Prompted:
    """Made-up tokens: two prompts, with two texts behind one and one behind the other."""
    longest = max(4, min(40, max_tokens))
    tokens = (np.arange(longest) * 7919 + 11) % vocabulary
    half = longest // 2
    ids = Ragged.of_rows([tokens, tokens[: longest - 1], tokens[::-1].copy()])
    return Prompted(ids, np.array([half, half, 1]))


def _agree(values: FloatArray, others: FloatArray, tolerance: float) -> bool:
    """Whether log-probabilities of the same tokens [tokens] differ by no more than rounding does."""
    differences = np.abs(values - others)
    # Written so that NaN does not agree.
    at_all = bool((differences <= tolerance).all())
    return at_all and bool(differences.mean() <= tolerance * MEAN_TOLERANCE)
