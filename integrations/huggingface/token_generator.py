"""Runs ``model.generate`` over token ids: sampled continuations, a beam, and log-probabilities of the outputs.

Encoder-decoders and decoder-only models alike; what is returned for an input is the generated part alone, up to and
with its end-of-sequence token. An input is read once per batch, whatever the number of its candidates. It knows
nothing of texts: `HuggingFaceGenerator` turns prompts into token ids and outputs into candidate lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from inspect import signature
from math import log
from typing import Any, NamedTuple

import numpy as np

from ...metrics.execution.store import in_halves
from ...rerank.votes.confidence import TokenLogprobs
from .model_loading import ModelPool, ends_of
from .sampling import CELLS, drawing, uniforms

Ids = Sequence[int]
Draw = tuple[int, int]  # an input, and the number of a candidate
# no warping by transformers, and none of its other ways to decode
NEUTRAL: dict[str, Any] = {
    "do_sample": False,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "min_p": None,
    "top_h": None,
    "num_beams": 1,
    "num_return_sequences": 1,
    "max_length": None,
    "max_time": None,
    "prompt_lookup_num_tokens": None,
    "assistant_early_exit": None,
    "use_mtp": None,
    "penalty_alpha": None,
    "dola_layers": None,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "token_healing": False,
    "stop_strings": None,  # these three are refused unless they are empty
    "force_words_ids": None,
    "constraints": None,
    "return_dict_in_generate": False,
    "output_scores": False,
    "output_logits": False,
    "output_attentions": False,
    "output_hidden_states": False,
}


class OutputScores(NamedTuple):
    """The total natural log-probability of an output, and the distributions of its tokens where they are wanted."""

    logprob: float
    distributions: TokenLogprobs | None = None


class TokenGenerator:
    """Generates token ids with a model, and knows how its outputs end.

    Args:
        model: a transformers model that generates.
        config: its generation configuration: special tokens and constraints such as no_repeat_ngram_size count, its
            ways of sampling do not.
        max_new_tokens: longest output, its end included.
        padding: the id that fills up batches.
        sequences_at_once: sequences in one batch.
        processors: further logits processors, which come before the cut.
        criteria: further stopping criteria; an output ends with the first token at which one holds.
        stopped: whether generated tokens hold a stop string; an output ends with the first token that completes one.
    """

    def __init__(
        self,
        model: Any,
        config: Any,
        max_new_tokens: int,
        padding: int,
        sequences_at_once: int,
        processors: Sequence[Any] = (),
        criteria: Sequence[Any] = (),
        stopped: Callable[[Ids], bool] | None = None,
    ) -> None:
        self.model = model
        self.padding = padding
        self.at_once = sequences_at_once
        self.encodes = bool(model.config.is_encoder_decoder)
        self.processors = list(processors)
        self.criteria = list(criteria)
        self.stopped = stopped
        self.config = deepcopy(config)
        self.config.update(**NEUTRAL, max_new_tokens=max_new_tokens, pad_token_id=padding)
        self.ends = frozenset(ends_of(self.config))

    def outputs(
        self,
        inputs: Sequence[Ids],
        pool: ModelPool,
        seed: int,
    ) -> list[list[list[int]]]:
        """The generated tokens of every candidate of every input, [inputs][pool.size][tokens]."""
        # inputs of one length stand together, so that little is padding
        by_length = sorted(range(len(inputs)), key=lambda i: len(inputs[i]))
        if pool.method == "beam":
            # one search gives all candidates of an input
            batch_size = max(1, self.at_once // pool.size)
            draws = [(i, 0) for i in by_length]
        else:
            batch_size = self.at_once
            draws = [(i, j) for i in by_length for j in range(pool.size)]

        def run(batch: Sequence[Draw]) -> list[list[list[int]]]:
            if pool.method == "beam":
                return self._beams([inputs[i] for i, _ in batch], pool.size)
            return [[output] for output in self._samples(inputs, batch, pool, seed)]

        outputs: list[list[list[int]]] = [[] for _ in inputs]
        with _prepared(self.model, self.config):
            for start in range(0, len(draws), batch_size):
                batch = draws[start : start + batch_size]
                for (i, _), outputs_of_draw in zip(batch, in_halves(run, batch), strict=True):
                    outputs[i] += outputs_of_draw
        return outputs

    def _samples(
        self,
        inputs: Sequence[Ids],
        draws: Sequence[Draw],
        pool: ModelPool,
        seed: int,
    ) -> list[list[int]]:
        """One sampled output of every draw."""
        steps = self.config.max_new_tokens
        rows_of_chance = [uniforms(seed, pool.name, inputs[i], j, steps) for i, j in draws]
        chance = np.stack(rows_of_chance)  # [draws, steps]
        distinct = list(dict.fromkeys(i for i, _ in draws))
        rows = [distinct.index(i) for i, _ in draws]
        model_inputs = self._model_inputs([inputs[i] for i in distinct], rows)
        if not self.encodes:
            states = self._prompt_states([inputs[i] for i in distinct], rows)
            if states is not None:
                model_inputs["past_key_values"] = states
        draws = drawing(chance, pool.method, pool.cutoff, pool.temperature)
        processors = [*self.processors, draws]
        return self._generated(model_inputs, self.config, processors)

    def _beams(self, inputs: Sequence[Ids], size: int) -> list[list[list[int]]]:
        """The `size` best outputs of a beam search for every input."""
        config = deepcopy(self.config)
        config.update(num_beams=size, num_return_sequences=size)
        model_inputs = self._model_inputs(inputs, list(range(len(inputs))))
        outputs = self._generated(model_inputs, config, self.processors)
        return [outputs[start : start + size] for start in range(0, len(outputs), size)]

    def _model_inputs(self, inputs: Sequence[Ids], rows: list[int]) -> dict[str, Any]:
        """The arguments of the model: `rows` of the inputs, padded; for an encoder-decoder the encoder's states."""
        import torch

        ids, mask = self._padded(inputs, left=not self.encodes)
        if not self.encodes:
            return {"input_ids": ids[rows], "attention_mask": mask[rows]}
        with torch.inference_mode():
            return encoded(self.model, ids, mask).of(rows)

    def _prompt_states(self, prompts: Sequence[Ids], rows: Sequence[int]) -> Any:
        """Keys and values of a decoder-only model for all but the last token of `rows` of the prompts.

        None where that would not pay, as no prompt has several rows; where a prompt is one token; and where the model
        keeps anything else than keys and values, or does not say how it counts the places of padded prompts.
        """
        import torch

        lengths = set(map(len, prompts))
        pays = len(rows) > len(prompts) and min(lengths) > 1
        if not pays or not self.config.use_cache or self.config.cache_implementation is not None:
            return None
        known = signature(self.model.forward).parameters
        if len(lengths) > 1 and "position_ids" not in known:
            return None
        ids, mask = self._padded([prompt[:-1] for prompt in prompts], left=True)
        places = (mask.cumsum(dim=1) - 1).clamp(min=0)  # [prompts, longest - 1]
        arguments: dict[str, Any] = {"position_ids": places, "logits_to_keep": 1}
        arguments = {name: value for name, value in arguments.items() if name in known}
        with torch.inference_mode():
            result = self.model(input_ids=ids, attention_mask=mask, use_cache=True, **arguments)
            states: Any = getattr(result, "past_key_values", None)
            if not _keeps_keys_and_values(states):
                return None
            states.batch_select_indices(torch.tensor(rows, device=ids.device))
        return states

    def _generated(
        self,
        model_inputs: dict[str, Any],
        config: Any,
        processors: list[Any],
    ) -> list[list[int]]:
        """The generated tokens of every row of the inputs, or several of each if `config` asks for them."""
        import torch
        from transformers import LogitsProcessorList, StoppingCriteriaList

        # a decoder-only model repeats its input; an encoder-decoder begins with a start token
        start = 1 if self.encodes else model_inputs["input_ids"].shape[1]
        criteria = list(self.criteria)
        if self.stopped is not None:
            criteria.append(_criterion(self.stopped, start))
        stopping = StoppingCriteriaList(criteria)
        with torch.inference_mode():
            # [rows, longest]
            sequences = self.model.generate(
                **model_inputs,
                generation_config=config,
                logits_processor=LogitsProcessorList(processors),
                stopping_criteria=stopping,
            )
            lengths = [sequences.shape[1]] * len(sequences)
            if criteria:
                lengths = _lengths(sequences, start, stopping)
        rows = zip(sequences.tolist(), lengths, strict=True)
        return [self._cut(row[start:length]) for row, length in rows]

    def _cut(self, tokens: list[int]) -> list[int]:
        """The tokens up to and with the first that ends them."""
        for i, token in enumerate(tokens):
            if token in self.ends:
                return tokens[: i + 1]
        return tokens

    def ended(self, tokens: Ids) -> bool:
        """Whether an output came to its end before it became too long."""
        return not self.ends or (bool(tokens) and tokens[-1] in self.ends)

    def scores(
        self, inputs: Sequence[Ids], outputs: Sequence[Sequence[Ids]], top: int | None = None
    ) -> list[list[OutputScores]]:
        """The log-probability of every output [inputs][outputs] given its input, under the model as it is.

        The sum over its tokens, the end included where there is one, without temperature, cut or constraint. A first
        token that the configuration forces is given and does not count.

        Args:
            inputs: token ids.
            outputs: the generated tokens of every input.
            top: of how many of the likeliest tokens log-probabilities are kept, if the distributions are wanted too.
        """
        results = []
        with _prepared(self.model, self.config):
            for ids, outputs_of_input in zip(inputs, outputs, strict=True):
                # equal outputs are scored once
                distinct = list(dict.fromkeys(map(tuple, outputs_of_input)))
                scores_of = self._of_input(ids, distinct, top)
                results.append([scores_of[tuple(tokens)] for tokens in outputs_of_input])
        return results

    def _of_input(
        self, ids: Ids, outputs: list[tuple[int, ...]], top: int | None
    ) -> dict[tuple[int, ...], OutputScores]:
        """As `scores`, of one input: its batches are the same whatever stands beside it in a run."""
        # outputs of one length stand together
        outputs.sort(key=len)
        # a batch has logits [outputs, longest, vocabulary]
        longest = max((len(tokens) + len(ids) for tokens in outputs), default=1)
        vocabulary = self.model.get_input_embeddings().weight.shape[0]
        batch_size = max(1, min(self.at_once, CELLS // (longest * vocabulary)))
        scores_of: dict[tuple[int, ...], OutputScores] = {}
        for start in range(0, len(outputs), batch_size):
            batch = outputs[start : start + batch_size]
            scores = in_halves(lambda part: self._passed(ids, part, top), batch)
            scores_of.update(zip(batch, scores, strict=True))
        return scores_of

    def _passed(
        self, source: Ids, outputs: Sequence[tuple[int, ...]], top: int | None
    ) -> list[OutputScores]:
        """The scores of outputs of one input, by one forward pass."""
        import torch

        rows = [0] * len(outputs)
        # what stands before the output in the decoder: the start token, or the whole input
        head = [self.config.decoder_start_token_id] if self.encodes else list(source)
        states = None if self.encodes else self._prompt_states([source], rows)
        if states is not None:
            # the last token of the input predicts the first of the output
            head = head[-1:]
        # [outputs, longest]
        ids, mask = self._padded([[*head, *tokens] for tokens in outputs], left=False)
        scores = []
        with torch.inference_mode():
            if self.encodes:
                encoder = encoded(self.model, *self._padded([source], left=False)).of(rows)
                result = self.model(**encoder, decoder_input_ids=ids)
            elif states is None:
                result = self.model(input_ids=ids, attention_mask=mask)
            else:
                before = mask.new_ones(len(outputs), states.get_seq_length())
                mask = torch.cat([before, mask], dim=1)
                result = self.model(input_ids=ids, attention_mask=mask, past_key_values=states)
            forced = self.config.forced_bos_token_id
            for row, tokens in enumerate(outputs):
                is_forced = forced is not None and tokens[:1] == (forced,)
                first, end = len(head) + is_forced, len(head) + len(tokens)
                # position t predicts token t + 1
                logits = result.logits[row, first - 1 : end - 1].float()  # [tokens, vocabulary]
                scores.append(_scores(logits, ids[row, first:end], top))
        return scores

    def _padded(self, rows: Sequence[Ids], left: bool) -> tuple[Any, Any]:
        """Token ids and mask [rows, longest] on the model's device."""
        return padded(rows, self.model.device, max(map(len, rows)), self.padding, left)


def padded(
    rows: Sequence[Ids], device: Any, width: int, padding: int = 0, left: bool = False
) -> tuple[Any, Any]:
    """Token ids and mask [rows, width] on a device, the padding in front of them or behind."""
    import torch

    ids, mask = [], []
    for row in rows:
        gap, own = [padding] * (width - len(row)), [1] * len(row)
        zeros = [0] * len(gap)
        ids.append([*gap, *row] if left else [*row, *gap])
        mask.append([*zeros, *own] if left else [*own, *zeros])
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


class Encoded(NamedTuple):
    """The encoder's states [inputs, longest, d], and the mask [inputs, longest] of what they are of."""

    states: Any
    mask: Any

    def of(self, rows: Sequence[int]) -> dict[str, Any]:
        """The arguments of the model for these rows of the inputs."""
        from transformers.modeling_outputs import BaseModelOutput

        states = BaseModelOutput(last_hidden_state=self.states[rows])
        return {"encoder_outputs": states, "attention_mask": self.mask[rows]}


def encoded(model: Any, ids: Any, mask: Any) -> Encoded:
    """The states of an encoder-decoder for ids and mask [inputs, longest]."""
    return Encoded(model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state, mask)


def _scores(logits: Any, tokens: Any, top: int | None) -> OutputScores:
    """The scores of tokens [tokens] under logits [tokens, vocabulary]."""
    own = logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(dim=1)
    total = min(0.0, float(own.double().cpu().sum()))
    if top is None:
        return OutputScores(total)
    logprobs = logits.log_softmax(dim=1)  # [tokens, vocabulary]
    chosen = logprobs.gather(1, tokens[:, None])[:, 0]
    largest = logprobs.topk(min(top, logits.shape[1]), dim=1).values
    certainty = -logprobs.double().mean(dim=1) - log(logits.shape[1])
    entropy = -(logprobs.exp() * logprobs).nan_to_num(0.0).sum(dim=1)
    arrays = (chosen, largest, certainty, entropy)
    return OutputScores(total, TokenLogprobs(*(array.float().cpu().numpy() for array in arrays)))


def _keeps_keys_and_values(states: Any) -> bool:
    """Whether what a model keeps of tokens are keys and values alone, of all of them or of those in a window."""
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

    if type(states) is not DynamicCache:
        return False
    return all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in states.layers)


def _criterion(stopped: Callable[[Ids], bool], start: int) -> Any:
    """A stopping criterion that holds for the rows whose tokens from `start` on hold a stop string."""
    import torch
    from transformers import StoppingCriteria

    class StopStrings(StoppingCriteria):  # type: ignore[misc, unused-ignore]
        def __call__(self, input_ids: Any, scores: Any, **more: Any) -> Any:
            """Token ids [rows, length]: whether each row is to end, [rows]."""
            ended = [stopped(row[start:]) for row in input_ids.tolist()]
            return torch.tensor(ended, device=input_ids.device)

    return StopStrings()


def _lengths(sequences: Any, start: int, stopping: Any) -> list[int]:
    """The length of every row of sequences [rows, longest] up to the first token at which a criterion holds.

    Tokens before `start` do not count; a row at which none holds keeps its length.
    """
    longest = sequences.shape[1]
    lengths = [longest] * len(sequences)
    # from long to short, so that the shortest length at which a criterion holds is set last
    for length in range(longest, start, -1):
        for i, is_done in enumerate(stopping(sequences[:, :length], None).tolist()):
            if is_done:
                lengths[i] = length
    return lengths


@contextmanager
def _prepared(model: Any, config: Any) -> Iterator[None]:
    """Without dropout, and with a configuration that transformers does not fill up from the model's own."""
    was_training = model.training
    own_config = model.generation_config
    model.train(False)
    model.generation_config = config
    try:
        yield
    finally:
        model.train(was_training)
        model.generation_config = own_config
