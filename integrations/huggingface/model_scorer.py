"""The `TextScorer` of a Hugging Face model, encoder-decoder or decoder-only.

Texts become token ids (`ForcedReader`), and the passes of the model give them values. Lists are read ahead until their
tokens fill a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ..scoring.list_prompts import Answered, Asked, PromptedText, ScoredText
from .forced_passes import ForcedReader, ForcedSequence, ScoringSettings, passes_of
from .model_loading import check_model, check_target, language_id

# what is read of the texts of one list, or the error that stands for it
_Read = list[ForcedSequence | InputError] | DiscorankError


class HuggingFaceScorer:
    """Scores with a model and its tokenizer.

    Args:
        model: a transformers model that generates; it is prepared for scoring, and serves nothing else afterwards.
        tokenizer: its tokenizer.
        settings: how texts are read.
        name: what the model is called in the identity of a run.
        batch_tokens: tokens of a batch, chosen by device if not given.

    Raises:
        InputError: model, tokenizer and settings do not fit together.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        settings: ScoringSettings = ScoringSettings(),  # noqa: B008  immutable
        name: str = "",
        batch_tokens: int | None = None,
    ) -> None:
        check_model(model, tokenizer)
        _check_settings(model, tokenizer, settings)
        self.settings, self.name = settings, name
        config = deepcopy(model.generation_config)
        if settings.target_lang is not None:
            config.forced_bos_token_id = language_id(tokenizer, settings.target_lang, "target_lang")
        if model.config.is_encoder_decoder:
            check_target(tokenizer, config)
        self.reader = ForcedReader(model, tokenizer, config, settings)
        self.plain_text = self.reader.plain.without_special
        self.passes = passes_of(model, batch_tokens)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model's name and the settings that values depend on."""
        return {
            "scorer": "huggingface",
            "model": self.name,
            "languages": [self.settings.source_lang, self.settings.target_lang],
            "chat": self.settings.chat,
            "end": self.settings.scores_end,
        }

    def scored(self, lists: Iterable[Asked], before_work: Callable[[], None]) -> Iterator[Answered]:
        """The outcome of every list, in order; the error of a text that cannot be read stands in its place."""
        for block in self._blocks(lists):
            before_work()
            yield from self._answers(block)

    def _blocks(self, lists: Iterable[Asked]) -> Iterator[list[_Read]]:
        """Lists whose tokens fill a batch together; a block ends early behind an error."""
        block: list[_Read] = []
        num_tokens = 0
        for asked in lists:
            read = asked if isinstance(asked, DiscorankError) else self._read(asked)
            block.append(read)
            num_tokens += sum(map(_num_tokens, _sequences(read)))
            if isinstance(read, DiscorankError) or num_tokens >= self.passes.batch_tokens:
                yield block
                block, num_tokens = [], 0
        if block:
            yield block

    def _read(self, texts: Sequence[PromptedText]) -> _Read:
        """The sequences of the texts of a list."""
        return self.reader.sequences(texts)

    def _answers(self, block: list[_Read]) -> Iterator[Answered]:
        """The values of some lists; equal sequences are scored once."""
        distinct = dict.fromkeys(one for read in block for one in _sequences(read))
        sequences = list(distinct)
        values = self.passes.log_probabilities(sequences) if sequences else []
        value_of = dict(zip(sequences, values, strict=True))
        for read in block:
            if isinstance(read, DiscorankError):
                yield read
                continue
            yield [
                ScoredText(value_of[one], one.num_scored)
                if isinstance(one, ForcedSequence)
                else one
                for one in read
            ]


def _sequences(read: _Read) -> list[ForcedSequence]:
    """The texts of a list that can be scored."""
    if isinstance(read, DiscorankError):
        return []
    return [one for one in read if isinstance(one, ForcedSequence)]


def _num_tokens(sequence: ForcedSequence) -> int:
    return len(sequence.source) + len(sequence.tokens)


def _check_settings(model: Any, tokenizer: Any, settings: ScoringSettings) -> None:
    """Raises InputError for settings that this model or tokenizer cannot follow."""
    if settings.chat and not getattr(tokenizer, "chat_template", None):
        fix = "Leave chat out"
        raise InputError("the tokenizer has no chat template", where="chat", fix=fix)
    if settings.chat and model.config.is_encoder_decoder:
        raise InputError("an encoder-decoder is not talked to", where="chat", fix="Leave chat out")
    for name in ("source_lang", "target_lang"):
        code = getattr(settings, name)
        if code is not None:
            language_id(tokenizer, code, name)
