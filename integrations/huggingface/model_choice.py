"""Generates candidates for texts with a Hugging Face model and chooses among them, in one call: rankings come out.

`custom_decoding` has the same choice as a decoding method inside ``model.generate``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from ...metrics.errors import DiscorankError, InputError, excerpt, unknown
from ...metrics.registry import MetricLike
from ...metrics.text.texts import Document
from ...rerank.choice import Ranking
from ...rerank.engines.interface import Engine
from ...rerank.lists import CandidateList
from ...rerank.mbr_decoder import MBRDecoder
from ...rerank.reranker import Reranker
from ..generation.generator import Prompt
from ..generation.list_checks import warning_of_no_choice
from ..generation.utility_argument import decider_of, reads_logprobs
from .generator import HuggingFaceGenerator
from .settings import GenerationSettings

# names of settings: of GenerationSettings, and of MBRDecoder
GENERATION = frozenset(field.name for field in fields(GenerationSettings))
DECODING = frozenset({"weights", "self_pair", "nbest", "strategy", "oracle", "keep_matrix"})


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
    decider, generation = decider_and_settings(utility, settings)
    prompts = _prompts(texts)
    if decider.width and any(prompt.document is None for prompt in prompts):
        raise InputError(
            "the metric reads context, which texts without document do not have",
            where="texts",
            fix="Give Prompt objects with document and position, or set context=0",
        )
    generator = HuggingFaceGenerator(model, tokenizer, generation)
    _check_texts(generator, prompts)
    return list(decider.decode(warning_of_no_choice(_lists(generator, prompts)), engine))


def decider_and_settings(
    utility: MetricLike | MBRDecoder | Reranker, settings: dict[str, Any]
) -> tuple[MBRDecoder | Reranker, GenerationSettings]:
    """The decider and the generation settings that keyword arguments stand for.

    Raises:
        InputError: a setting of neither, or one with a wrong value.
    """
    for name in settings:
        # top_k means something else to those who sample
        if name in ("shortlist", "top_k"):
            raise InputError(
                "is a setting of shortlists, not of sampling",
                where=name,
                fix="Give utility=MBRDecoder(utility=..., shortlist=..., top_k=...)",
            )
        if name not in GENERATION | DECODING:
            raise unknown("setting", name, GENERATION | DECODING)
    decoding = {name: value for name, value in settings.items() if name in DECODING}
    generating = {name: value for name, value in settings.items() if name in GENERATION}
    generation = GenerationSettings(**generating)
    decider = decider_of(utility, decoding)
    if reads_logprobs(decider) and not generation.logprobs:
        generation = replace(generation, logprobs=True)
    return decider, generation


def _prompts(texts: Sequence[str | Prompt]) -> list[Prompt]:
    """The texts as prompts, named ``0``, ``1``, ... where they have no id."""
    if isinstance(texts, str | Document):
        raise InputError(
            f"found {excerpt(texts)}",
            where="texts",
            fix="Give a list of texts",
        )
    prompts = []
    for i, text in enumerate(texts):
        if not isinstance(text, str | Prompt):
            raise InputError(f"found {excerpt(text)}, expected a text", where=f"texts[{i}]")
        prompts.append(text if isinstance(text, Prompt) else Prompt(str(i), text, text))
    return prompts


def _check_texts(generator: HuggingFaceGenerator, prompts: Iterable[Prompt]) -> None:
    """Raises the error of the first text that cannot be read, with its id."""
    for prompt in prompts:
        try:
            generator.ids_of(prompt.text)
        except DiscorankError as error:
            raise error.inside(f"text {prompt.id!r}") from None


def _lists(generator: HuggingFaceGenerator, prompts: Iterable[Prompt]) -> Iterator[CandidateList]:
    """The candidate lists; the first error is raised."""
    for generated in generator.generate(prompts):
        if isinstance(generated, DiscorankError):
            raise generated
        yield generated
