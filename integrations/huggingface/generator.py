"""Candidate lists from a Hugging Face model: an encoder-decoder, or a decoder-only model whose prompt is stripped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any, NamedTuple

from ...metrics.errors import DiscorankError, InputError
from ...rerank.lists import Candidate
from ..generation.generator import Generated, Prompt
from .checks import (
    check_config,
    check_ids,
    check_length,
    check_model,
    check_settings,
    check_target,
    language_id,
    new_tokens,
)
from .decoding import Decoding, Ids
from .settings import GenerationSettings

BATCHES_AHEAD = 8  # how many batches are read ahead, to be sorted by length


class Outputs(NamedTuple):
    """One pool of what was generated for some inputs: everything [inputs][candidates], log-probabilities or None."""

    tokens: list[list[list[int]]]
    texts: list[list[str]]
    logprobs: list[list[float]] | None
    ended: list[list[bool]]

    def candidates(self, i: int) -> list[Candidate]:
        """The candidates of an input; those that became too long before they ended say so."""
        return [
            Candidate(
                text,
                None if self.logprobs is None else self.logprobs[i][j],
                {} if self.ended[i][j] else {"unfinished": True},
            )
            for j, text in enumerate(self.texts[i])
        ]


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
        check_model(model, tokenizer)
        check_settings(model, tokenizer, settings)
        self.model, self.tokenizer, self.settings, self.name = model, tokenizer, settings, name
        config = deepcopy(model.generation_config if config is None else config)
        check_config(config)
        if settings.target_lang is not None:
            config.forced_bos_token_id = language_id(tokenizer, settings.target_lang, "target_lang")
        check_target(tokenizer, config)
        if config.eos_token_id is None:
            config.eos_token_id = tokenizer.eos_token_id
        self.max_new_tokens = new_tokens(model, config, settings)
        padding = next(
            i
            for i in (tokenizer.pad_token_id, config.pad_token_id, tokenizer.eos_token_id, 0)
            if i is not None
        )
        at_once = settings.sequences_at_once
        self.decoding = Decoding(
            model, config, self.max_new_tokens, padding, at_once, processors, criteria
        )

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model's name and the settings that candidates depend on."""
        return {"generator": "huggingface", "model": self.name, **self.settings.identity}

    @property
    def prompts_at_once(self) -> int:
        """Some batches, so that texts of one length come together."""
        return max(
            1, BATCHES_AHEAD * self.settings.sequences_at_once // self.settings.num_candidates
        )

    def generate(self, prompts: Iterable[Prompt]) -> Iterator[Generated]:
        """The candidate list of every prompt, or the error that stands for it, in the order of the prompts."""
        source = iter(prompts)
        while some := list(islice(source, self.prompts_at_once)):
            yield from self._lists(some)

    def ids_of(self, text: str) -> tuple[list[int], int]:
        """The tokens that the model reads, and how many were cut off.

        Raises:
            InputError: a text that cannot be read or is too long.
        """
        ids = self._tokens(text)
        cut = 0
        if self.settings.max_input_tokens is not None and len(ids) > self.settings.max_input_tokens:
            cut = len(ids) - self.settings.max_input_tokens
            ids = self._shortened(text, self.settings.max_input_tokens)
        check_ids(ids, self.tokenizer, not self.decoding.encodes)
        check_length(self.model, len(ids), self.max_new_tokens)
        return ids, cut

    def outputs(self, inputs: Sequence[Ids]) -> list[Outputs]:
        """What every pool of the settings holds for these token ids."""
        found = []
        for pool in self.settings.pools:
            tokens = self.decoding.outputs(inputs, pool, self.settings.seed)
            flat = [output for outputs in tokens for output in outputs]
            texts = iter(self.tokenizer.batch_decode(flat, skip_special_tokens=True))
            logprobs = (
                self.decoding.log_probabilities(inputs, tokens) if self.settings.logprobs else None
            )
            ended = [[self.decoding.ended(output) for output in outputs] for outputs in tokens]
            found.append(
                Outputs(
                    tokens,
                    [[next(texts).strip() for _ in outputs] for outputs in tokens],
                    logprobs,
                    ended,
                )
            )
        return found

    def _lists(self, prompts: Sequence[Prompt]) -> Iterator[Generated]:
        read = [self._read(prompt) for prompt in prompts]
        good = [given for given in read if not isinstance(given, DiscorankError)]
        pools = self.outputs([ids for ids, _ in good]) if good else []
        at = 0
        for prompt, given in zip(prompts, read, strict=True):
            if isinstance(given, DiscorankError):
                yield given
                continue
            record = (
                prompt if not given[1] else prompt.with_extra({"truncated_input_tokens": given[1]})
            )
            yield record.with_candidates(*(pool.candidates(at) for pool in pools))
            at += 1

    def _read(self, prompt: Prompt) -> tuple[list[int], int] | DiscorankError:
        try:
            return self.ids_of(prompt.text)
        except DiscorankError as error:
            return error

    def _tokens(self, text: str, **options: Any) -> list[int]:
        if self.settings.chat:
            said = [{"role": "user", "content": text}]
            text = self.tokenizer.apply_chat_template(
                said, add_generation_prompt=True, tokenize=False
            )
            options["add_special_tokens"] = False  # the template wrote them
        before = getattr(self.tokenizer, "src_lang", None)
        try:
            if self.settings.source_lang is not None:
                self.tokenizer.src_lang = self.settings.source_lang
            return list(self.tokenizer(text, **options)["input_ids"])
        finally:
            if self.settings.source_lang is not None:
                self.tokenizer.src_lang = before

    def _shortened(self, text: str, most: int) -> list[int]:
        """The first tokens of a text, with the special ones around them."""
        if self.settings.chat:
            raise InputError(
                f"more than {most} tokens in a chat",
                where="text",
                fix="Shorten it: a template is not cut",
            )
        return self._tokens(text, truncation=True, max_length=most)
