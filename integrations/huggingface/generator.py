"""The `Generator` of a Hugging Face model: an encoder-decoder, or a decoder-only model whose prompt is stripped.

Prompts become token ids, `TokenGenerator` generates, and its outputs become candidate lists. Nothing is chosen here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from typing import Any, NamedTuple

from ...metrics.errors import DiscorankError, InputError, excerpt
from ...metrics.execution.meter import Meter
from ...metrics.registry import MetricLike
from ...metrics.text.texts import Document, plain_value
from ...rerank.choice import Ranking
from ...rerank.engines.interface import Engine
from ...rerank.lists import Candidate
from ...rerank.mbr import MBRDecoder
from ...rerank.messages import user_text
from ...rerank.reranker import Reranker
from ...rerank.votes.confidence import TOKENS, confidence_of
from ..generation.generator import Generated, Prompt, before_stop, decider_of, in_groups, lists_of
from ..scoring.list_prompts import LEAD
from .model_loading import (
    GenerationSettings,
    PromptReader,
    check_ids,
    check_length,
    checked_config,
    new_tokens,
)
from .token_generator import Ids, OutputScores, TokenGenerator

LEAD_TOKENS = 8  # the most that may be blanks


class Output(NamedTuple):
    """One generated output: its tokens and text, whether it has come to its end, and how likely it is."""

    tokens: list[int]
    text: str
    ended: bool
    lead: str  # the blanks between the prompt and the text
    scores: OutputScores | None = None

    def candidate(self, logprobs: bool) -> Candidate:
        """The output in a candidate list, with its log-probability if `logprobs`; one that did not end says so."""
        fields: dict[str, Any] = {} if self.ended else {"unfinished": True}
        if self.lead:
            fields[LEAD] = self.lead
        if self.scores is None:
            return Candidate(self.text, None, fields)
        tokens = self.scores.distributions
        if tokens is not None:
            fields |= {**confidence_of(tokens), TOKENS: tokens}
        return Candidate(self.text, self.scores.logprob if logprobs else None, fields)


class PromptIds(NamedTuple):
    """The token ids of a prompt, and how many were cut off."""

    ids: list[int]
    num_cut: int = 0


class HuggingFaceGenerator:
    """Generates with a model and its tokenizer.

    Args:
        model: a transformers model that generates.
        tokenizer: its tokenizer.
        settings: how candidates are drawn.
        name: what the model is called in the identity of a run.
        config: a generation configuration; the model's own if not given.
        processors: further logits processors.
        criteria: further stopping criteria.

    Raises:
        InputError: model, tokenizer and settings do not fit together.
    """

    makes_batches = True  # a matrix product of bfloat16 may round by the number of its rows

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        settings: GenerationSettings,
        name: str = "",
        config: Any = None,
        processors: Sequence[Any] = (),
        criteria: Sequence[Any] = (),
    ) -> None:
        config = checked_config(model, tokenizer, settings, config)
        for key in ("stop_strings", "force_words_ids", "constraints"):
            if getattr(config, key, None):
                where = f"generation_config.{key}"
                fix = "Take it out; stop=[...] and eos_token_id end candidates"
                raise InputError("cannot be followed", where=where, fix=fix)
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.reader = PromptReader(tokenizer, settings.chat, {"src_lang": settings.source_lang})
        self.plain_text = self.reader.plain_text
        self.name, self.meter = name, Meter()
        self.max_new_tokens = new_tokens(model, config, settings)
        paddings = (tokenizer.pad_token_id, config.pad_token_id, tokenizer.eos_token_id, 0)
        self.token_generator = TokenGenerator(
            model,
            config,
            max_new_tokens=self.max_new_tokens,
            padding=next(token for token in paddings if token is not None),
            sequences_at_once=settings.sequences_at_once,
            processors=processors,
            criteria=criteria,
            stopped=self._stopped if settings.stop else None,
        )

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model's name and the settings that candidates depend on."""
        return {"generator": "huggingface", "model": self.name, **self.settings.identity}

    @property
    def prompts_at_once(self) -> int:
        """The prompts of one batch, so that no list waits for another batch."""
        return max(1, self.settings.sequences_at_once // self.settings.num_candidates)

    def generate(self, prompts: Iterable[Prompt]) -> Iterator[Generated]:
        """The candidate list of every prompt, or the error that stands for it, in the order of the prompts."""
        source = iter(prompts)
        while block := list(islice(source, self.prompts_at_once)):
            yield from self._lists(block)

    def ids_of(self, text: str, messages: Sequence[Mapping[str, Any]] = ()) -> PromptIds:
        """The tokens that the model reads of a text, or of a conversation.

        Raises:
            InputError: a text that cannot be read or is too long.
        """
        is_chat = bool(messages) or self.settings.chat
        framed = self.reader.framed(text, messages)
        ids, num_cut = list(self.reader.ids(framed, is_framed=is_chat)), 0
        max_tokens = self.settings.max_input_tokens
        if max_tokens is not None and len(ids) > max_tokens:
            num_cut = len(ids) - max_tokens
            if is_chat:
                problem = f"more than {max_tokens} tokens in a chat"
                fix = "Shorten it: a template is not cut"
                raise InputError(problem, where="text", fix=fix)
            ids = list(self.reader.ids(text, truncation=True, max_length=max_tokens))
        check_ids(ids, self.tokenizer, not self.token_generator.encodes)
        check_length(self.model, len(ids), self.max_new_tokens)
        return PromptIds(ids, num_cut)

    def outputs(self, inputs: Sequence[Ids]) -> list[list[list[Output]]]:
        """The outputs of every pool of the settings for these token ids, [pools][inputs][candidates]."""
        pools = []
        for pool in self.settings.pools:
            tokens = self.token_generator.outputs(inputs, pool, self.settings.seed)
            self.meter.count(tokens=sum(len(output) for outputs in tokens for output in outputs))
            of_inputs = [
                self._outputs(ids, outputs) for ids, outputs in zip(inputs, tokens, strict=True)
            ]
            if self.settings.logprobs or self.settings.top_logprobs:
                scores = self.token_generator.scores(inputs, tokens, self.settings.top_logprobs)
                of_inputs = [
                    [one._replace(scores=own) for one, own in zip(outputs, of_input, strict=True)]
                    for outputs, of_input in zip(of_inputs, scores, strict=True)
                ]
            pools.append(of_inputs)
        return pools

    def _outputs(self, ids: Ids, outputs: list[list[int]]) -> list[Output]:
        """The outputs of an input; their texts are without special tokens, and end before the first stop string."""
        made = []
        for tokens in outputs:
            text = self.tokenizer.decode(tokens, skip_special_tokens=True)
            before = before_stop(text, self.settings.stop)
            ended = before is not None or self.token_generator.ended(tokens)
            text = text if before is None else before
            made.append(Output(tokens, text.strip(), ended, self._lead(ids, tokens)))
        return made

    def candidates(self, outputs: Sequence[Output]) -> list[Candidate]:
        """The candidates of outputs, with log-probabilities where the settings say so."""
        return [output.candidate(self.settings.logprobs) for output in outputs]

    def _lead(self, before: Ids, output: Ids) -> str:
        """The blanks between a prompt and the text generated behind it, which the text is without."""
        if self.token_generator.encodes:
            return ""
        last = list(before[-1:])
        pair = [last, [*last, *output[:LEAD_TOKENS]]]
        start, both = self.tokenizer.batch_decode(pair, skip_special_tokens=True)
        behind = both.removeprefix(start) if both.startswith(start) else ""
        return str(behind[: len(behind) - len(behind.lstrip())])

    def _stopped(self, tokens: Ids) -> bool:
        """Whether the text of generated tokens holds a stop string."""
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return before_stop(text, self.settings.stop) is not None

    def _lists(self, prompts: Sequence[Prompt]) -> Iterator[Generated]:
        """The lists of prompts that are generated for together, or the errors that stand for them."""
        readings = [self._read(prompt) for prompt in prompts]
        inputs = [reading.ids for reading in readings if isinstance(reading, PromptIds)]
        pools = self.outputs(inputs) if inputs else []
        of_inputs = zip(*pools, strict=True)
        for prompt, reading in zip(prompts, readings, strict=True):
            if isinstance(reading, DiscorankError):
                yield reading
                continue
            if reading.num_cut:
                prompt = prompt.with_extra({"truncated_input_tokens": reading.num_cut})
            yield prompt.generated(*map(self.candidates, next(of_inputs)))

    def _read(self, prompt: Prompt) -> PromptIds | DiscorankError:
        """As `ids_of`, or the error of a text that cannot be read."""
        try:
            return self.ids_of(prompt.text, prompt.messages)
        except DiscorankError as error:
            return error


# names of settings: of GenerationSettings, and of MBRDecoder
GENERATION = frozenset(field.name for field in fields(GenerationSettings))
DECODING = frozenset({"weights", "self_pair", "nbest", "strategy", "oracle", "keep_matrix"})


def generate(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str | Prompt | Sequence[Mapping[str, Any]]] | Sequence[Mapping[str, Any]],
    utility: MetricLike | MBRDecoder | Reranker = "chrf",
    *,
    engine: Engine | None = None,
    **settings: Any,
) -> list[Ranking]:
    """Generates candidates for every text and chooses among them.

    Args:
        model: a transformers model that generates, encoder-decoder or decoder-only.
        tokenizer: its tokenizer.
        texts: what the model reads: strings, conversations (lists of messages with role and content), or `Prompt`
            objects for documents and references.
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
    texts = plain_value(texts)
    if isinstance(texts, str | Document):
        raise InputError(f"found {excerpt(texts)}", where="texts", fix="Give a list of texts")
    is_conversation = bool(texts) and isinstance(texts[0], Mapping)
    every = [texts] if is_conversation else texts
    prompts = [_prompt(text, i) for i, text in enumerate(every)]
    if decider.width and any(prompt.document is None for prompt in prompts):
        problem = "the metric reads context, which texts without document do not have"
        fix = "Give Prompt objects with document and position, or set context=0"
        raise InputError(problem, where="texts", fix=fix)
    generator = HuggingFaceGenerator(model, tokenizer, generation)
    _check_texts(generator, prompts)
    return list(decider.decode(lists_of(generator, prompts), engine))


def _prompt(text: Any, number: int) -> Prompt:
    """What the model reads; raises InputError for what is neither text, conversation nor prompt."""
    if isinstance(text, Prompt):
        return text
    if isinstance(text, str):
        return Prompt(str(number), text, text)
    is_list = isinstance(text, list | tuple) and bool(text)
    if not is_list or not all(isinstance(m, Mapping) and "role" in m for m in text):
        problem = f"found {excerpt(text)}, expected a text, or messages with role and content"
        raise InputError(problem, where=f"texts[{number}]")
    source = user_text(text)
    return Prompt(str(number), source or "", source, messages=tuple(text))


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
            fix = "Give utility=MBRDecoder(utility=..., shortlist=..., top_k=...)"
            raise InputError("is a setting of shortlists, not of sampling", where=name, fix=fix)
    generating, decoding = in_groups(settings, GENERATION, DECODING)
    generation = GenerationSettings(**generating)
    decider = decider_of(utility, decoding)
    if decider.reads_logprobs and not generation.logprobs:
        generation = replace(generation, logprobs=True)
    return decider, generation


def _check_texts(generator: HuggingFaceGenerator, prompts: Iterable[Prompt]) -> None:
    """Raises the error of the first text that cannot be read, with its id."""
    for prompt in prompts:
        try:
            generator.ids_of(prompt.text, prompt.messages)
        except DiscorankError as error:
            raise error.inside(f"text {prompt.id!r}") from None
