"""Causal models: how likely every token of many texts is, given all before it.

Texts run without padding, one after the other in one row of tokens with their places; a prompt that several of them
share is read once. Only attention mixes tokens, and it knows where a text ends (see `attention`); the vocabulary
is looked at where something is scored, nowhere else, some rows at a time. What comes out for a text is a function of
its tokens alone, to the last bit on a CPU: the rows of every product are a multiple of 16.

That takes a model of transformers whose layers attend through its attention interface: full, causal, perhaps within a
window. Whether one does is tried on a few tokens when it is loaded; any other (state spaces, experts, biases by
distance, positions stretched with the longest text) runs one text at a time, exact and slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...errors import ModelLoadError
from ...execution.store import in_halves
from ...representations import Array, FloatArray, IntArray, Ragged
from .attention import ROWS, padded_rows, use_packed_attention
from .encoder import DType, PackedModel, Stack
from .prompt_pass import Attending, Prompted, PromptPass, batches

# Tokens of one pass on a CPU.
CPU_TOKENS = 2048
# Tokens times vocabulary looked at together.
CPU_CELLS, GPU_CELLS = 1 << 25, 1 << 29
# How far two passes may be apart at any of the tokens that are tried, by precision, and how far on their mean. In
# bfloat16 logits from 16 to 32 stand 1/8 apart, and products of another shape may round to the fourth from there on a
# GPU; on a CPU no pass of SmolLM2, Gemma 3, Llama, GPT-2 and Qwen 2 is apart at all. What is wrong moves most tokens.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
MEAN_TOLERANCE = 1 / 16  # of that
# Kinds of rotary positions that are stretched with the longest sequence.
STRETCHED = {"dynamic", "longrope"}
# Kinds of layers that can run packed.
LAYERS = {"full_attention", "sliding_attention"}
# Settings of configurations with experts, where the rows of a product are as many as tokens chose it.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
# Errors by which a model shows that it cannot run in some way.
UNFIT = (AttributeError, TypeError, ValueError, IndexError, RuntimeError)
# The values of a pass for every sequence, from its states [tokens and spare ones, d].
ReadOut = Callable[[Any, PromptPass], list[Array]]


class CausalModel(PackedModel):
    """A loaded model of which texts are read behind their prompts.

    Args:
        model: a causal transformers model, with or without a head.
        device, dtype, batch_tokens: as in `PackedModel`.
    """

    cpu_tokens = CPU_TOKENS

    def __init__(
        self, model: Any, device: str | None, dtype: DType, batch_tokens: int | None = None
    ) -> None:
        super().__init__(model, device, dtype, batch_tokens)
        self.dtype = dtype
        self.max_tokens = int(getattr(self.config, "max_position_embeddings", None) or 1 << 30)
        # Whether angles of positions depend on the longest sequence of a pass, or of an earlier one.
        self.is_stretched = not STRETCHED.isdisjoint(_rope_types(self.config))
        self.packed = False

    def check(self, read_out: ReadOut, where: str, packs: bool = True) -> None:
        """Tries whether the model is causal and, if it `packs` at all, runs packed; read_out: values of scored tokens.

        Raises:
            ModelLoadError: the values of a token depend on what stands behind it.
        """
        texts = tried_tokens(self.config.vocab_size, self.max_tokens)
        rows = list(range(len(texts.first)))
        plain = self._plain(read_out, texts, rows)
        longer, shorter, _ = plain
        if not self._agree(longer[: len(shorter)], shorter):
            fix = "Give a model that reads text from left to right"
            raise ModelLoadError("it is no causal model", where=where, fix=fix)
        packs = packs and not self.is_stretched
        if not packs or not _attends_over_interface(self.model, self.config):
            return
        plain_attention = self.config._attn_implementation
        try:
            use_packed_attention(self.model)
            packed = self._packed(read_out, texts, rows)
            self.packed = self._agree(np.concatenate(packed), np.concatenate(plain))
        except UNFIT:
            pass
        if not self.packed:
            self.model.set_attn_implementation(plain_attention)

    def values(self, read_out: ReadOut, texts: Prompted) -> list[Array]:
        """The values of every text with something to score; nothing for the others."""
        order = texts.in_order()
        run = partial(self._packed if self.packed else self._plain, read_out, texts)
        values: list[Array] = []
        for batch in batches(texts, order, self.batch_tokens):
            values += in_halves(run, batch)
        rows: list[Array] = [np.empty(0)] * len(texts.first)
        for row, of_row in zip(order, values, strict=True):
            rows[row] = of_row
        return rows

    def _agree(self, values: Array, others: Array) -> bool:
        """Whether values of the same tokens differ by no more than rounding does, beside the greatest above 1."""
        tolerance = TOLERANCE[self.dtype]
        differences = np.abs(values - others) / self.scale(others)
        # Written so that NaN does not agree.
        at_all = bool((differences <= tolerance).all())
        return at_all and bool(differences.mean() <= tolerance * MEAN_TOLERANCE)

    def scale(self, values: Array) -> float:
        """The size of values, beside which differences are small or large."""
        return max(1.0, float(np.abs(values).max()))

    def _packed(self, read_out: ReadOut, texts: Prompted, rows: Sequence[int]) -> list[Array]:
        """The values of some texts, all in one pass."""
        prompt_pass = PromptPass(texts, rows)
        with self.torch.inference_mode():
            tokens = self.tensor(padded_rows(prompt_pass.inputs))[None]
            # Spare tokens are no part of any text; their states are not looked at.
            out = self.model.base_model(
                input_ids=tokens,
                position_ids=self.tensor(padded_rows(prompt_pass.places))[None],
                use_cache=False,
                packing=Attending(prompt_pass, tokens.shape[1], self.device),
            )
            return read_out(out.last_hidden_state[0], prompt_pass)

    def _plain(self, read_out: ReadOut, texts: Prompted, rows: Sequence[int]) -> list[Array]:
        """The values of some texts, each in a pass of its own."""
        values = []
        for row in rows:
            prompt_pass = PromptPass(texts, [row])
            with self.torch.inference_mode():
                if self.is_stretched:
                    # A pass of one token takes back what a longer text stretched.
                    self.model(input_ids=self.tensor(prompt_pass.inputs[:1])[None], use_cache=False)
                # Nothing sees the spare tokens; there are none where these would need positions.
                padded = padded_rows(prompt_pass.inputs)
                fits = len(padded) <= self.max_tokens and not self.is_stretched
                tokens = self.tensor(padded if fits else prompt_pass.inputs)[None]
                values += read_out(self._run(tokens), prompt_pass)
        return values

    def _run(self, tokens: Any) -> Any:
        """States [tokens, d] of tokens [1, tokens] by the model as it is."""
        return self.model.base_model(input_ids=tokens, use_cache=False).last_hidden_state[0]


class CausalLM(CausalModel):
    """A loaded language model.

    Args:
        model: a transformers model with a vocabulary head.
        device, dtype, batch_tokens: as in `PackedModel`; probabilities are normalised in float32.

    Raises:
        ModelLoadError: the model has no vocabulary head, or reads what follows a token.
    """

    def __init__(
        self, model: Any, device: str | None, dtype: DType, batch_tokens: int | None = None
    ) -> None:
        super().__init__(model, device, dtype, batch_tokens)
        self.head = model.get_output_embeddings()
        where = str(model.config.name_or_path)
        if self.head is None:
            fix = "Give a model that generates text"
            raise ModelLoadError("it has no head", where=where, fix=fix)
        self.vocabulary = int(self.head.weight.shape[0])
        cells = CPU_CELLS if self.on_cpu else GPU_CELLS
        self.head_rows = max(1, cells // (self.vocabulary * ROWS)) * ROWS
        # Whether it is known what the head makes of a state, so that it need not be asked for all of them.
        self.knows_head = False
        if self.device.type != "meta":
            self.knows_head = self._knows_head()
            self.check(self._scored, where, packs=self.knows_head)

    def log_probabilities(self, texts: Prompted) -> Ragged:
        """Natural log-probability of every scored token given all before it in its sequence, float64, n rows."""
        return Ragged.of_rows(self.values(self._scored, texts))

    def scale(self, values: Array) -> float:
        """Differences of log-probabilities stand for themselves."""
        return 1.0

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
        tried = tried_tokens(self.vocabulary, self.max_tokens).ids.values[:2]
        padded = padded_rows(tried)
        fits = len(padded) <= self.max_tokens and not self.is_stretched
        tokens = self.tensor(padded if fits else tried)[None]
        try:
            with self.torch.inference_mode():
                logits = self._logits(super()._run(tokens))
                own = self.model(input_ids=tokens, use_cache=False).logits[0]
        except UNFIT:
            return False
        return bool(self.torch.equal(logits.float(), own.float()))

    def _run(self, tokens: Any) -> Any:
        """States [tokens, d], or all logits [tokens, vocabulary] where the head is not known."""
        if self.knows_head:
            return super()._run(tokens)
        return self.model(input_ids=tokens, use_cache=False).logits[0]

    def _scored(self, states: Any, prompt_pass: PromptPass) -> list[FloatArray]:
        """Log-probabilities of the scored tokens of every sequence, some states at a time.

        states: [tokens and spare ones, d], or their logits [tokens and spare ones, vocabulary].
        """
        if not self.knows_head:
            own = states.index_select(0, self.tensor(prompt_pass.states))
            return by_label(prompt_pass, own, len(own), _normalised)
        scoring = states.index_select(0, self.tensor(padded_rows(prompt_pass.states)))

        def of_states(states: Any, rows: Any, labels: Any) -> Any:
            return _normalised(self._logits(states), rows, labels)

        return by_label(prompt_pass, scoring, self.head_rows, of_states)

    def _logits(self, states: Any) -> Any:
        """The head over states [rows, d], with what some families do to its output, [rows, vocabulary]."""
        logits = self.head(states)
        cap = getattr(self.config, "final_logit_softcapping", None)
        if cap:
            logits = (logits / cap).tanh() * cap
        factor = getattr(self.config, "logit_scale", None) or 1.0
        divisor = getattr(self.config, "logits_scaling", None) or 1.0
        return logits if factor == divisor else logits * (factor / divisor)


def by_label(
    prompt_pass: PromptPass,
    scoring: Any,
    step: int,
    of_states: Callable[[Any, Any, Any], Any],
) -> list[FloatArray]:
    """Log-probabilities of the scored tokens of every sequence of a pass, from so many of the states at a time.

    Args:
        prompt_pass: what is scored.
        scoring: the states that score something, [states and spare ones, d].
        step: how many at a time.
        of_states: from some states, rows of these and labels [m], to the labels' log-probabilities under them, [m].
    """
    import torch

    numbers, parts = [], []
    for start in range(0, len(scoring), step):
        scored_by = prompt_pass.scored_by - start
        is_here = np.flatnonzero((scored_by >= 0) & (scored_by < step))
        rows, labels = (
            torch.from_numpy(values[is_here]).to(scoring.device)
            for values in (scored_by, prompt_pass.labels)
        )
        parts.append(of_states(scoring[start : start + step], rows, labels))
        numbers.append(is_here)
    values = np.empty(len(prompt_pass.labels))
    values[np.concatenate(numbers)] = torch.cat(parts).double().cpu().numpy()
    return prompt_pass.by_sequence(values)


def _normalised(logits: Any, rows: Any, labels: Any) -> Any:
    """Log-probabilities of labels [m] under the rows [m] of logits [states, vocabulary], which are used up."""
    logits = logits.float()
    own = logits[rows, labels]  # [m]
    # log sum exp in place: the logits are the largest array there is.
    greatest = logits.amax(dim=1, keepdim=True)  # [states, 1]
    total = logits.sub_(greatest).exp_().sum(dim=1)  # [states]
    normaliser = greatest[:, 0] + total.log()
    # Rounding may leave a probability above 1.
    return (own - normaliser[rows]).clamp(max=0)


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


def _attends_over_interface(model: Any, config: Any) -> bool:
    """Whether all layers of a model attend over the interface, as far as its class and configuration say."""
    layers = set(getattr(config, "layer_types", None) or ())
    if not layers <= LAYERS or any(getattr(config, name, None) for name in EXPERTS):
        return False
    return bool(getattr(type(model), "_supports_attention_backend", False))


def _rope_types(config: Any) -> set[str]:
    """The kinds of rotary positions that a configuration names, of all kinds of layers."""
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(parameters, Mapping):
        return set()
    of_layers = [value for value in parameters.values() if isinstance(value, Mapping)]
    kinds = [one.get("rope_type") or one.get("type") for one in (parameters, *of_layers)]
    return {str(kind) for kind in kinds if kind}
