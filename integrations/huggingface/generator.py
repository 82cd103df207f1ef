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
from ...metrics.neural.models.context_tokens import PlainTexts, control_tokens
from ...metrics.registry import MetricLike
from ...metrics.text.texts import Document, plain_value
from ...rerank.choice import Ranking
from ...rerank.engines.interface import Engine
from ...rerank.lists import Candidate
from ...rerank.mbr import MBRDecoder
from ...rerank.messages import user_text
from ...rerank.reranker import Reranker
from ...rerank.votes.confidence import TOKENS, TokenLogprobs, confidence_of
from ..generation.generator import Generated, Prompt, before_stop, decider_of, in_groups, lists_of
from ..scoring.list_prompts import LEAD
from .model_loading import (
    GenerationSettings,
    check_ids,
    check_length,
    checked_config,
    new_tokens,
)
from .token_generator import Ids, TokenGenerator

LEAD_TOKENS = 8  # the most that may be blanks


class PoolOutputs(NamedTuple):
    """One pool of what was generated for some inputs: everything [inputs][candidates], log-probabilities or None."""

    tokens: list[list[list[int]]]
    texts: list[list[str]]
    logprobs: list[list[float]] | None
    ended: list[list[bool]]
    leads: list[list[str]]
    distributions: list[list[TokenLogprobs]] | None = None

    def candidates(self, i: int) -> list[Candidate]:
        """The candidates of an input; those that became too long before they ended say so."""
        candidates = []
        for j, text in enumerate(self.texts[i]):
            logprob = None if self.logprobs is None else self.logprobs[i][j]
            fields: dict[str, Any] = {} if self.ended[i][j] else {"unfinished": True}
            if self.leads[i][j]:
                fields[LEAD] = self.leads[i][j]
            if self.distributions is not None:
                tokens = self.distributions[i][j]
                fields |= {**confidence_of(tokens), TOKENS: tokens}
            candidates.append(Candidate(text, logprob, fields))
        return candidates


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
        self.plain_text = PlainTexts(tokenizer, control_tokens(tokenizer)).without_special
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

    def ids_of(
        self, text: str, messages: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[list[int], int]:
        """The tokens that the model reads of a text, or of a conversation, and how many were cut off.

        Raises:
            InputError: a text that cannot be read or is too long.
        """
        ids = self.tokens_of(text, messages)
        num_cut = 0
        max_tokens = self.settings.max_input_tokens
        if max_tokens is not None and len(ids) > max_tokens:
            num_cut = len(ids) - max_tokens
            ids = self._shortened(text, max_tokens, bool(messages))
        check_ids(ids, self.tokenizer, not self.token_generator.encodes)
        check_length(self.model, len(ids), self.max_new_tokens)
        return ids, num_cut

    def outputs(self, inputs: Sequence[Ids]) -> list[PoolOutputs]:
        """The candidates of every pool of the settings for these token ids."""
        pools = []
        for pool in self.settings.pools:
            tokens = self.token_generator.outputs(inputs, pool, self.settings.seed)
            self.meter.count(tokens=sum(len(output) for outputs in tokens for output in outputs))
            texts, ended = self._texts(tokens)
            leads = [
                [self._lead(ids, output) for output in outputs]
                for ids, outputs in zip(inputs, tokens, strict=True)
            ]
            logprobs = None
            if self.settings.logprobs:
                logprobs = self.token_generator.log_probabilities(inputs, tokens)
            top, distributions = self.settings.top_logprobs, None
            if top is not None:
                distributions = self.token_generator.distributions(inputs, tokens, top)
            pools.append(PoolOutputs(tokens, texts, logprobs, ended, leads, distributions))
        return pools

    def _texts(self, tokens: list[list[list[int]]]) -> tuple[list[list[str]], list[list[bool]]]:
        """The texts of outputs [inputs][candidates][tokens], and whether each has come to its end.

        Texts are without special tokens, and end before the first stop string.
        """
        flat = [output for outputs in tokens for output in outputs]
        decoded = iter(self.tokenizer.batch_decode(flat, skip_special_tokens=True))
        texts: list[list[str]] = []
        ended: list[list[bool]] = []
        for outputs in tokens:
            whole = [next(decoded) for _ in outputs]
            stopped = [before_stop(text, self.settings.stop) for text in whole]
            texts.append(
                [
                    (text if before is None else before).strip()
                    for text, before in zip(whole, stopped, strict=True)
                ]
            )
            ended.append(
                [
                    before is not None or self.token_generator.ended(output)
                    for output, before in zip(outputs, stopped, strict=True)
                ]
            )
        return texts, ended

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
        inputs = [reading[0] for reading in readings if not isinstance(reading, DiscorankError)]
        pools = self.outputs(inputs) if inputs else []
        i = 0
        for prompt, reading in zip(prompts, readings, strict=True):
            if isinstance(reading, DiscorankError):
                yield reading
                continue
            _, num_cut = reading
            if num_cut:
                prompt = prompt.with_extra({"truncated_input_tokens": num_cut})
            yield prompt.generated(*(pool.candidates(i) for pool in pools))
            i += 1

    def _read(self, prompt: Prompt) -> tuple[list[int], int] | DiscorankError:
        """As `ids_of`, or the error of a text that cannot be read."""
        try:
            return self.ids_of(prompt.text, prompt.messages)
        except DiscorankError as error:
            return error

    def tokens_of(
        self, text: str, messages: Sequence[Mapping[str, Any]] = (), **options: Any
    ) -> list[int]:
        """The tokens of a text, in a chat template and in the source language where the settings say so.

        Raises:
            InputError: a conversation that the template does not take.
        """
        if messages or self.settings.chat:
            said = list(messages) or [{"role": "user", "content": text}]
            text = self._in_template(said)
            # the template wrote them
            options["add_special_tokens"] = False
        language_before = getattr(self.tokenizer, "src_lang", None)
        try:
            if self.settings.source_lang is not None:
                self.tokenizer.src_lang = self.settings.source_lang
            return list(self.tokenizer(text, **options)["input_ids"])
        finally:
            if self.settings.source_lang is not None:
                self.tokenizer.src_lang = language_before

    def _in_template(self, messages: list[Any]) -> str:
        """A conversation in the tokenizer's chat template; raises InputError where it has none."""
        if getattr(self.tokenizer, "chat_template", None) is None:
            fix = "Give texts, or a model made for conversations"
            raise InputError("the tokenizer has no chat template", where="texts", fix=fix)
        from jinja2 import TemplateError

        options: dict[str, Any] = {"add_generation_prompt": True, "tokenize": False}
        try:
            return str(self.tokenizer.apply_chat_template(messages, **options))
        except TemplateError as error:
            problem = f"the chat template refuses the conversation ({error})"
            raise InputError(problem, where="texts") from None

    def _shortened(self, text: str, max_tokens: int, is_chat: bool) -> list[int]:
        """The first tokens of a text, with the special ones around them."""
        if is_chat or self.settings.chat:
            raise InputError(
                f"more than {max_tokens} tokens in a chat",
                where="text",
                fix="Shorten it: a template is not cut",
            )
        return self.tokens_of(text, truncation=True, max_length=max_tokens)


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
        raise InputError(
            "the metric reads context, which texts without document do not have",
            where="texts",
            fix="Give Prompt objects with document and position, or set context=0",
        )
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
            raise InputError(
                "is a setting of shortlists, not of sampling",
                where=name,
                fix="Give utility=MBRDecoder(utility=..., shortlist=..., top_k=...)",
            )
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
