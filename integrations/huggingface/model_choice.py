"""Generates and chooses in one call: around ``model.generate``, or inside it and inside pipelines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from ...metrics.errors import DiscorankError, InputError, excerpt, unknown
from ...metrics.registry import MetricLike
from ...metrics.text.texts import Document
from ...rerank.choice import Ranking
from ...rerank.engines.interface import Engine
from ...rerank.lists import CandidateList
from ...rerank.mbr_decoder import MBRDecoder
from ...rerank.reranker import Reranker
from ..generation.decider_setting import decider_of, reads_logprobs
from ..generation.generator import Prompt
from .generator import HuggingFaceGenerator
from .settings import GenerationSettings

GENERATION = frozenset(f.name for f in fields(GenerationSettings))
DECODING = frozenset(
    {"weights", "self_pair", "nbest", "strategy", "oracle", "keep_matrix"}
)  # of MBRDecoder


def generate(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str | Prompt],
    utility: MetricLike | MBRDecoder | Reranker = "chrf",
    *,
    engine: Engine | None = None,
    **settings: Any,
) -> list[Ranking]:
    """Generates candidates for every text and chooses among them.

    Args:
        model: a transformers model that generates, encoder-decoder or decoder-only.
        tokenizer: its tokenizer.
        texts: what the model reads: strings, or `Prompt` objects for documents and references.
        utility: what an `MBRDecoder` takes; or a whole MBRDecoder or Reranker. A Reranker with the feature logprob, and
            weights="logprob", make log-probabilities be computed; nothing else does but ``logprobs=True``.
        engine: what values the lists.
        settings: of `GenerationSettings` (num_candidates, sampling, seed, ...) and of `MBRDecoder` (weights, nbest,
            ...; ``temperature`` is that of sampling).

    Returns:
        one ranking per text, in order, with every distinct candidate as a place.

    Raises:
        InputError: settings, model and tokenizer that do not fit together, before anything is generated; a text that
            cannot be read.
    """
    decider, generation = _parts(utility, settings)
    prompts = _prompts(texts)
    if decider.width and any(prompt.document is None for prompt in prompts):
        raise InputError(
            "the metric reads context, which texts without document do not have",
            where="texts",
            fix="Give Prompt objects with document and position, or set context=0",
        )
    generator = HuggingFaceGenerator(model, tokenizer, generation)
    for prompt in prompts:
        _inside(prompt, lambda text=prompt.text: generator.ids_of(text))
    return list(decider.decode(_lists(generator, prompts), engine))


def custom_generate(
    tokenizer: Any,
    utility: MetricLike | MBRDecoder | Reranker = "chrf",
    *,
    engine: Engine | None = None,
    **settings: Any,
) -> CustomGenerate:
    """What ``model.generate(..., custom_generate=...)`` and the text-generation pipeline take: it returns the choice.

    Arguments as `generate`. How candidates are drawn is set here: do_sample, num_beams, top_k and the like have no
    effect in ``model.generate``; lengths, special tokens and constraints such as no_repeat_ngram_size have.
    """
    decider, generation = _parts(utility, settings)
    if decider.width:
        fix = "Use generate with Prompt objects, or set context=0"
        raise InputError(
            "the metric reads context, which model.generate does not know", where="utility", fix=fix
        )
    return CustomGenerate(tokenizer, decider, generation, engine)


class CustomGenerate:
    """A decoding method for transformers; made by `custom_generate`."""

    def __init__(
        self,
        tokenizer: Any,
        decider: MBRDecoder | Reranker,
        settings: GenerationSettings,
        engine: Engine | None,
    ) -> None:
        self.tokenizer, self.decider, self.settings, self.engine = (
            tokenizer,
            decider,
            settings,
            engine,
        )

    def __call__(
        self,
        model: Any,
        input_ids: Any,
        logits_processor: Any = (),
        stopping_criteria: Any = (),
        generation_config: Any = None,
        inputs_tensor: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        """The chosen sequences [inputs, longest], as ``model.generate`` returns them.

        Raises:
            InputError: num_return_sequences is not 1, there is max_time, or the inputs are embeddings.
        """
        if generation_config.num_return_sequences != 1:
            fix = "Set num_candidates in custom_generate"
            raise InputError(
                "one sequence is chosen for each input", where="num_return_sequences", fix=fix
            )
        criteria = _own_criteria(stopping_criteria)
        if inputs_tensor is None or inputs_tensor.is_floating_point():
            raise InputError("the inputs are no token ids", where="inputs", fix="Give input_ids")
        inputs = _unpadded(inputs_tensor, model_kwargs.get("attention_mask"))
        settings = self.settings
        if settings.max_new_tokens is None:
            settings = replace(
                settings, max_new_tokens=int(generation_config.max_length) - input_ids.shape[1]
            )
        own = [
            one for one in logits_processor if not type(one).__module__.startswith("transformers.")
        ]
        generator = HuggingFaceGenerator(
            model, self.tokenizer, settings, "", generation_config, own, criteria
        )
        candidates, *others = generator.outputs(inputs)
        texts = self.tokenizer.batch_decode(inputs, skip_special_tokens=True)
        lists = (
            Prompt(str(i), text, text).with_candidates(
                candidates.candidates(i), *(pool.candidates(i) for pool in others)
            )
            for i, text in enumerate(texts)
        )
        chosen = [ranking.index for ranking in self.decider.decode(lists, self.engine)]
        tokens = [some[index] for some, index in zip(candidates.tokens, chosen, strict=True)]
        heads = inputs_tensor if not generator.decoding.encodes else input_ids[: len(inputs), :1]
        return _sequences(
            heads, tokens, generator.decoding.padding, generation_config, generator.decoding.encodes
        )


def _parts(
    utility: MetricLike | MBRDecoder | Reranker, settings: dict[str, Any]
) -> tuple[MBRDecoder | Reranker, GenerationSettings]:
    """The decider and the generation settings that keyword arguments stand for."""
    for name in settings:
        if name in ("shortlist", "top_k"):  # top_k also means something else to those who sample
            fix = "Give utility=MBRDecoder(utility=..., shortlist=..., top_k=...)"
            raise InputError("is a setting of shortlists, not of sampling", where=name, fix=fix)
        if name not in GENERATION | DECODING:
            raise unknown("setting", name, GENERATION | DECODING)
    decoding = {name: settings[name] for name in settings if name in DECODING}
    generation = GenerationSettings(
        **{name: settings[name] for name in settings if name in GENERATION}
    )
    decider = decider_of(utility, decoding)
    needed = reads_logprobs(decider) and not generation.logprobs
    return decider, replace(generation, logprobs=True) if needed else generation


def _prompts(texts: Sequence[str | Prompt]) -> list[Prompt]:
    if isinstance(texts, str | Document):
        raise InputError(f"found {excerpt(texts)}", where="texts", fix="Give a list of texts")
    found = []
    for i, text in enumerate(texts):
        if not isinstance(text, str | Prompt):
            raise InputError(f"found {excerpt(text)}, expected a text", where=f"texts[{i}]")
        found.append(text if isinstance(text, Prompt) else Prompt(str(i), text, text))
    return found


def _lists(generator: HuggingFaceGenerator, prompts: Iterable[Prompt]) -> Iterator[CandidateList]:
    for found in generator.generate(prompts):
        if isinstance(found, DiscorankError):
            raise found
        yield found


def _inside(prompt: Prompt, check: Any) -> None:
    try:
        check()
    except DiscorankError as error:
        raise error.inside(f"text {prompt.id!r}") from None


def _own_criteria(criteria: Iterable[Any]) -> list[Any]:
    """The stopping criteria that do not come from lengths and special tokens; raises InputError for a limit of time."""
    from transformers.generation import stopping_criteria as kinds

    found = [
        one
        for one in criteria
        if not isinstance(one, kinds.MaxLengthCriteria | kinds.EosTokenCriteria)
    ]
    if any(isinstance(one, kinds.MaxTimeCriteria) for one in found):
        fix = "Set max_new_tokens; what is chosen must not depend on time"
        raise InputError("candidates are not cut by time", where="max_time", fix=fix)
    return found


def _unpadded(ids: Any, mask: Any) -> list[list[int]]:
    """The rows of ids that a mask, expanded or not, leaves."""
    if mask is None:
        return cast("list[list[int]]", ids.tolist())
    kept = mask[:: len(mask) // len(ids)].bool()
    return [row[seen].tolist() for row, seen in zip(ids, kept, strict=True)]


def _sequences(
    heads: Any, tokens: list[list[int]], padding: int, config: Any, encodes: bool
) -> Any:
    """Heads [n, k] with tokens behind them, padded at the end; in an object if `config` asks for one."""
    import torch
    from transformers.generation.utils import (
        GenerateDecoderOnlyOutput,
        GenerateEncoderDecoderOutput,
    )

    width = max(map(len, tokens))
    rows = [row + [padding] * (width - len(row)) for row in tokens]
    found = torch.cat((heads, torch.tensor(rows, dtype=heads.dtype, device=heads.device)), dim=1)
    if not config.return_dict_in_generate:
        return found
    kind: Any = GenerateEncoderDecoderOutput if encodes else GenerateDecoderOnlyOutput
    return kind(sequences=found)
