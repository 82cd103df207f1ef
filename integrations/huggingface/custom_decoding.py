"""A decoding method for transformers: what is chosen comes out of ``model.generate`` itself, and of pipelines.

`generate` calls a model with texts and returns rankings; here transformers calls with token ids, and gets
the chosen ones back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from types import FrameType
from typing import Any, cast

from ...metrics.errors import InputError
from ...metrics.registry import MetricLike
from ...rerank.choice import Ranking
from ...rerank.engines.interface import Engine
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import Reranker
from ..generation.generator import Prompt, warning_of_no_choice
from .generator import HuggingFaceGenerator, decider_and_settings
from .model_loading import GenerationSettings
from .token_generator import padded


def custom_generate(
    tokenizer: Any,
    utility: MetricLike | MBRDecoder | Reranker = "chrf",
    *,
    engine: Engine | None = None,
    num_return_sequences: int = 1,
    **settings: Any,
) -> CustomGenerate:
    """A decoding method for ``model.generate(..., custom_generate=...)`` and the text-generation pipeline.

    Arguments as `generate`. How candidates are drawn is set here: do_sample, num_beams, top_k and the like have no
    effect in ``model.generate``; lengths, special tokens and constraints such as no_repeat_ngram_size have. Of every
    input the best `num_return_sequences` come out, best first; equal texts stand behind all different ones.
    """
    if num_return_sequences < 1 or num_return_sequences > settings.get("num_candidates", 16):
        problem = f"found {num_return_sequences}, expected 1 to num_candidates"
        raise InputError(problem, where="num_return_sequences")
    decider, generation = decider_and_settings(utility, settings)
    if decider.width:
        raise InputError(
            "the metric reads context, which model.generate does not know",
            where="utility",
            fix="Use generate with Prompt objects, or set context=0",
        )
    return CustomGenerate(tokenizer, decider, generation, engine, num_return_sequences)


class CustomGenerate:
    """A decoding method for transformers; made by `custom_generate`."""

    def __init__(
        self,
        tokenizer: Any,
        decider: MBRDecoder | Reranker,
        settings: GenerationSettings,
        engine: Engine | None,
        num_return_sequences: int = 1,
    ) -> None:
        self.tokenizer = tokenizer
        self.num_return_sequences = num_return_sequences
        self.decider = decider.with_settings(nbest=None) if num_return_sequences > 1 else decider
        self.settings = settings
        self.engine = engine

    def __call__(
        self,
        model: Any,
        input_ids: Any,
        logits_processor: Any = (),
        stopping_criteria: Any = (),
        generation_config: Any = None,
        inputs_tensor: Any = None,
        stop_strings: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        """The chosen sequences [inputs * num_return_sequences, longest], as ``model.generate`` returns them.

        What has a name here, transformers hands over as it was given, and does not look at itself. A streamer gets what
        is chosen in one piece.

        Raises:
            InputError: num_return_sequences is set in two places, there is max_time, the inputs are embeddings, or more
                than sequences is asked for.
        """
        _check_outputs(generation_config)
        streamer = _streamer_of(sys._getframe(1))
        if generation_config.num_return_sequences != 1:
            problem = "is to be set in custom_generate, which draws the candidates"
            fix = "Write custom_generate(tokenizer, ..., num_return_sequences=K)"
            raise InputError(problem, where="num_return_sequences", fix=fix)
        import torch

        criteria = _own_criteria(stopping_criteria)
        if inputs_tensor is None or inputs_tensor.is_floating_point():
            raise InputError("the inputs are no token ids", where="inputs", fix="Give input_ids")
        inputs = _unpadded(inputs_tensor, model_kwargs.get("attention_mask"))
        settings = self.settings
        if stop_strings:
            strings = [stop_strings] if isinstance(stop_strings, str) else stop_strings
            settings = replace(settings, stop=(*settings.stop, *strings))
        if settings.max_new_tokens is None:
            max_new_tokens = int(generation_config.max_length) - input_ids.shape[1]
            settings = replace(settings, max_new_tokens=max_new_tokens)
        generator = HuggingFaceGenerator(
            model,
            self.tokenizer,
            settings,
            config=generation_config,
            processors=_own_processors(logits_processor),
            criteria=criteria,
        )
        tokens = self._chosen(generator, inputs)
        if streamer is not None:
            streamer.put(torch.tensor(tokens[0]))
            streamer.end()
        # outputs stand behind the whole input, or behind the decoder's start token
        encodes = generator.token_generator.encodes
        heads = input_ids[: len(inputs), :1] if encodes else inputs_tensor
        heads = heads.repeat_interleave(self.num_return_sequences, dim=0)
        padding = generator.token_generator.padding
        return _sequences(heads, tokens, padding, generation_config, encodes)

    def _chosen(self, generator: HuggingFaceGenerator, inputs: list[list[int]]) -> list[list[int]]:
        """The tokens of the candidates chosen for every input, best first."""
        pools = generator.outputs(inputs)
        texts = self.tokenizer.batch_decode(inputs, skip_special_tokens=True)
        lists = (
            Prompt(str(i), text, text).with_candidates(*map(generator.candidates, of_pools))
            for i, (text, *of_pools) in enumerate(zip(texts, *pools, strict=True))
        )
        rankings = self.decider.decode(warning_of_no_choice(lists), self.engine)
        tokens: list[list[int]] = []
        for outputs, ranking in zip(pools[0], rankings, strict=True):
            tokens += [outputs[i].tokens for i in _best(ranking, self.num_return_sequences)]
        return tokens


def _best(ranking: Ranking, number: int) -> list[int]:
    """The indices of the best candidates: one of every different text, then their copies."""
    first = [place.index for place in ranking.ranking]
    rank = {place.text: i for i, place in enumerate(ranking.ranking)}
    rest = [i for i in range(len(ranking.candidates)) if i not in first]
    texts = ranking.candidates
    copies = sorted(rest, key=lambda i: rank.get(texts[i].text, len(rank)))
    return [*first, *copies][:number]


def _check_outputs(config: Any) -> None:
    """Raises InputError for outputs of single steps, which candidates that were drawn together do not have."""
    for name in ("output_scores", "output_logits", "output_attentions", "output_hidden_states"):
        if getattr(config, name, False):
            problem = "is not there for what is chosen: its steps were taken among others"
            fix = "Leave it out; output_scores of a text are those of a forward pass over it"
            raise InputError(problem, where=name, fix=fix)


def _streamer_of(caller: FrameType) -> Any:
    """The streamer of the ``generate`` that calls, which transformers does not hand over; None if there is none."""
    is_generate = caller.f_code.co_name == "generate"
    return caller.f_locals.get("streamer") if is_generate else None


def _own_processors(processors: Iterable[Any]) -> list[Any]:
    """The logits processors that are not those of transformers, which its settings bring."""
    theirs = "transformers."
    return [one for one in processors if not type(one).__module__.startswith(theirs)]


def _own_criteria(criteria: Iterable[Any]) -> list[Any]:
    """The stopping criteria that do not come from lengths and special tokens; raises InputError for a limit of time."""
    from transformers.generation import stopping_criteria as kinds

    length_or_end = kinds.MaxLengthCriteria | kinds.EosTokenCriteria
    own = [criterion for criterion in criteria if not isinstance(criterion, length_or_end)]
    if any(isinstance(criterion, kinds.MaxTimeCriteria) for criterion in own):
        raise InputError(
            "candidates are not cut by time",
            where="max_time",
            fix="Set max_new_tokens; what is chosen must not depend on time",
        )
    return own


def _unpadded(ids: Any, mask: Any) -> list[list[int]]:
    """The token ids [inputs, longest] without padding; the mask may have several rows for each input, or be None."""
    if mask is None:
        return cast("list[list[int]]", ids.tolist())
    rows_per_input = len(mask) // len(ids)
    mask_of_input = mask[::rows_per_input].bool()
    return [row[is_token].tolist() for row, is_token in zip(ids, mask_of_input, strict=True)]


def _sequences(
    heads: Any,
    tokens: list[list[int]],
    padding: int,
    config: Any,
    encodes: bool,
) -> Any:
    """Heads [inputs, k] with tokens behind them, padded at the end; in an object if `config` asks for one."""
    import torch
    from transformers.generation.utils import (
        GenerateDecoderOnlyOutput,
        GenerateEncoderDecoderOutput,
    )

    tails, _ = padded(tokens, heads.device, max(map(len, tokens)), padding)
    sequences = torch.cat((heads, tails.to(heads.dtype)), dim=1)
    if not config.return_dict_in_generate:
        return sequences
    kind: Any = GenerateEncoderDecoderOutput if encodes else GenerateDecoderOnlyOutput
    return kind(sequences=sequences)
