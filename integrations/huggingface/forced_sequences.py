"""The token ids of a text behind a prompt, as the model has them in training: what is read, and what of it is scored.

An encoder-decoder reads the prompt with its encoder; its decoder reads the start token, then the text as the tokenizer
makes it as a target: special tokens, the token of the language, the end. A decoder-only model reads prompt and text as
one string, with what the tokenizer itself puts before it, as `generate` reads it (`lm` puts the beginning-of-text token
before all); the text begins at the first id in which it differs from the prompt alone. Nothing is cut.

Tokens that control the model, such as </s>, are broken up where a text has them written out, as `lm` does. Prompt and
end text are the user's, who may want such a token: there they are what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.neural.causal.sequences import first_ids
from ...metrics.neural.models.context_tokens import PlainTexts, control_tokens
from ...metrics.neural.models.prompt_pass import num_common
from ...metrics.spec.checked_settings import settings
from ..scoring.text_scorer import PromptedText
from .checks import check_ids, positions


@settings
class ScoringSettings:
    """How a model reads texts that it scores.

    Args:
        source_lang: language code of the prompts, for tokenizers that have them (de_DE).
        target_lang: language code of the texts (en_XX).
        chat: whether the prompt is put into the tokenizer's chat template as what the user says.
        end: whether the end of a whole text is scored with it; if not given, where the model has one (servers give
            none).
    """

    source_lang: str | None = None
    target_lang: str | None = None
    chat: bool = False
    end: bool | None = None

    @property
    def scores_end(self) -> bool:
        """Whether ends are scored."""
        return self.end is not False


class ForcedSequence(NamedTuple):
    """What a model reads of a prompt and a text.

    Args:
        source: token ids of the encoder; none for a decoder-only model.
        tokens: of the decoder, from its first on.
        first: the place among them of the first that is scored; 1 at the least.
    """

    source: tuple[int, ...]
    tokens: tuple[int, ...]
    first: int

    @property
    def num_scored(self) -> int:
        """How many tokens are scored."""
        return len(self.tokens) - self.first


class ForcedReader:
    """Turns prompts and texts into ids.

    Args:
        model: a transformers model, for its configuration.
        tokenizer: its tokenizer.
        config: the generation configuration: how the decoder starts, what it is forced to begin with, how texts end.
        settings: how texts are read.
    """

    def __init__(self, model: Any, tokenizer: Any, config: Any, settings: ScoringSettings) -> None:
        self.tokenizer, self.settings = tokenizer, settings
        self.plain = PlainTexts(tokenizer, control_tokens(tokenizer))
        self.encodes = bool(model.config.is_encoder_decoder)
        self.start = config.decoder_start_token_id
        self.forced = config.forced_bos_token_id if self.encodes else None
        self.max_positions = positions(model)
        ends = config.eos_token_id
        self.ends = [ends] if isinstance(ends, int) else list(ends or [])
        self.end = self._end()

    def _end(self) -> int | None:
        """The token that ends texts, None if there is none."""
        own = self.tokenizer.eos_token_id
        if own in self.ends or not self.ends:
            return None if own is None else int(own)
        return int(self.ends[0])

    def sequences(self, texts: Sequence[PromptedText]) -> list[ForcedSequence | InputError]:
        """What is read of every text, or why it cannot be."""
        prompts = list(dict.fromkeys(text.prompt for text in texts))
        ids_of_prompt = dict(zip(prompts, self._prompts(prompts), strict=True))
        targets = self._targets(texts)
        return [
            self._checked(text, ids_of_prompt[text.prompt], target)
            for text, target in zip(texts, targets, strict=True)
        ]

    def _checked(
        self, text: PromptedText, prompt: list[int], target: list[int]
    ) -> ForcedSequence | InputError:
        """The sequence of a text, or why it cannot be read."""
        try:
            if text.prompt or self.encodes:
                check_ids(prompt, self.tokenizer, not self.encodes)
            has_end = text.ends and self.settings.scores_end
            make = self._encoded if self.encodes else self._continued
            sequence = make(prompt, target, has_end)
            self._check_length(sequence)
        except InputError as error:
            return error
        return sequence

    def _prompts(self, prompts: Sequence[str]) -> list[list[int]]:
        """The ids of prompts by themselves."""
        return self._read([self._framed(prompt) for prompt in prompts])

    def _targets(self, texts: Sequence[PromptedText]) -> list[list[int]]:
        """The ids of texts as targets; of a decoder-only model with the prompt before them."""
        own = [self.plain.without_special(text.text) + text.end_text for text in texts]
        if not self.encodes:
            prompts = [self._framed(text.prompt) for text in texts]
            whole = [prompt + target for prompt, target in zip(prompts, own, strict=True)]
            return self._read(whole)
        with self._languages():
            return self._ids(self.tokenizer(text_target=own))

    def _framed(self, prompt: str) -> str:
        """A prompt in the chat template, where there is one."""
        if not self.settings.chat:
            return prompt
        messages = [{"role": "user", "content": prompt}]
        return str(
            self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        )

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        # a chat template writes special tokens itself
        options = {"add_special_tokens": False} if self.settings.chat else {}
        with self._languages():
            return self._ids(self.tokenizer(list(texts), **options))

    def _ids(self, read: Any) -> list[list[int]]:
        return [list(ids) for ids in read["input_ids"]]

    @contextmanager
    def _languages(self) -> Iterator[None]:
        """The tokenizer in the languages of the settings, and as it was afterwards."""
        target = self.settings.target_lang
        if target is None and self.forced is not None and hasattr(self.tokenizer, "tgt_lang"):
            target = self.tokenizer.convert_ids_to_tokens(self.forced)
        wanted = {"src_lang": self.settings.source_lang, "tgt_lang": target}
        wanted = {name: code for name, code in wanted.items() if code is not None}
        before = {name: getattr(self.tokenizer, name, None) for name in wanted}
        try:
            for name, code in wanted.items():
                setattr(self.tokenizer, name, code)
            yield
        finally:
            for name, code in before.items():
                setattr(self.tokenizer, name, code)

    def _encoded(self, prompt: list[int], target: list[int], has_end: bool) -> ForcedSequence:
        """The prompt for the encoder; for the decoder the start, what is forced, the text, and its end."""
        labels = self._without_end(target)
        first = 1
        if self.forced is not None:
            # given, so it does not count
            labels = labels if labels[:1] == [self.forced] else [self.forced, *labels]
            first = 2
        if has_end and self.end is not None:
            labels = [*labels, self.end]
        return ForcedSequence(tuple(prompt), (self.start, *labels), first)

    def _without_end(self, target: list[int]) -> list[int]:
        """A target without its last token if that ends it, and without a token of the language behind that."""
        languages = set(getattr(self.tokenizer, "lang_code_to_id", {}).values())
        if target[-1:] and target[-1] in languages and target[-2:-1] == [self.end]:
            target = target[:-1]
        return target[:-1] if target[-1:] == [self.end] else target

    def _continued(self, prompt: list[int], whole: list[int], has_end: bool) -> ForcedSequence:
        """Prompt and text as one string, and its end."""
        first = num_common(prompt, whole)
        if not first:
            start = first_ids(self.tokenizer)
            if not start:
                problem = "nothing stands before it, and the model has no beginning-of-text token"
                raise InputError(problem, where="text", fix="Give a prompt")
            whole, first = [*start, *whole], 1
        if has_end and self.end is not None:
            whole = [*whole, self.end]
        return ForcedSequence((), tuple(whole), first)

    def _check_length(self, sequence: ForcedSequence) -> None:
        """Raises InputError for a sequence that the model has no positions for."""
        # the last token is scored, and not read
        num_read = max(len(sequence.source), len(sequence.tokens) - 1)
        if self.max_positions is not None and num_read > self.max_positions:
            problem = f"{num_read} tokens to read, the model has {self.max_positions} positions"
            fix = "Shorten prompt or text, or take a model that reads more"
            raise InputError(problem, where="text", fix=fix)
