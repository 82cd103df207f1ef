"""Log-probabilities of forced sequences by a model of transformers, and its `TextScorer`.

    log P = sum_{t >= first} log p(tokens_t | source, tokens_<t)

Texts become token ids (`ForcedReader`), and the passes of the model give them values. Lists are read ahead until their
tokens fill a batch. Decoder-only models (`CausalLM`) and those of the BART family (`Seq2Seq`) run packed, and what
sequences share is read once; any other encoder-decoder runs on sequences padded to a multiple of 16, on a CPU one at a
time. Either way a value is a function of its sequence alone, to the last bit on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.store import in_batches, in_halves
from ...metrics.neural.causal.prompted_sequences import first_ids
from ...metrics.neural.models.attention import ROWS
from ...metrics.neural.models.causal_lm import CausalLM
from ...metrics.neural.models.encoder import CPU_TOKENS, GPU_TOKENS
from ...metrics.neural.models.prompt_pass import Prompted, num_common
from ...metrics.neural.models.seq2seq import FAMILY, Seq2Seq, Targets
from ...metrics.representations import IntArray, Ragged
from ...metrics.spec.checked_settings import settings
from ..scoring.list_prompts import Answered, Asked, PromptedText, ScoredText
from .model_loading import PromptReader, check_ids, check_length, checked_config, ends_of
from .sampling import CELLS
from .token_generator import Encoded, encoded, padded


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
    """The tokens of a prompt and a text.

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
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.encodes = bool(model.config.is_encoder_decoder)
        self.start = config.decoder_start_token_id
        self.forced = config.forced_bos_token_id if self.encodes else None
        target = settings.target_lang
        if target is None and self.forced is not None and hasattr(tokenizer, "tgt_lang"):
            target = tokenizer.convert_ids_to_tokens(self.forced)
        languages = {"src_lang": settings.source_lang, "tgt_lang": target}
        self.prompts = PromptReader(tokenizer, settings.chat, languages)
        # the token that ends texts, None if there is none
        own, ends = tokenizer.eos_token_id, ends_of(config)
        self.end: int | None = own if own in ends or not ends else ends[0]

    def sequences(self, texts: Sequence[PromptedText]) -> list[ForcedSequence | InputError]:
        """The tokens of every text, or why there are none."""
        prompts = list(dict.fromkeys(text.prompt for text in texts))
        ids_of_prompt = dict(
            zip(prompts, self._read(map(self.prompts.framed, prompts)), strict=True)
        )
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
            # the last token is scored, and not read
            check_length(self.model, max(len(sequence.source), len(sequence.tokens) - 1))
        except InputError as error:
            return error
        return sequence

    def _targets(self, texts: Sequence[PromptedText]) -> list[list[int]]:
        """The ids of texts as targets; of a decoder-only model with the prompt before them."""
        own = [self.prompts.plain_text(text.text) + text.end_text for text in texts]
        if self.encodes:
            return list(self.prompts.ids(text_target=own))
        parts = zip(texts, own, strict=True)
        return self._read(
            self.prompts.framed(text.prompt) + text.lead + target for text, target in parts
        )

    def _read(self, texts: Iterable[str]) -> list[list[int]]:
        framed = list(texts)
        return list(self.prompts.ids(framed, is_framed=self.settings.chat)) if framed else []

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


def passes_of(model: Any, batch_tokens: int | None = None) -> ForcedPasses:
    """The passes of a loaded model, which is changed by it: it serves nothing else afterwards.

    Args:
        model: a transformers model, on its device.
        batch_tokens: tokens of a batch, chosen by device if not given.
    """
    if not model.config.is_encoder_decoder:
        return CausalPasses(model, batch_tokens)
    if model.config.model_type in FAMILY:
        return BartPasses(model, batch_tokens)
    return EncoderDecoderPasses(model, batch_tokens)


class CausalPasses:
    """Passes of a decoder-only model: what stands before the texts of a list once, the texts side by side.

    Args:
        model: the model.
        batch_tokens: tokens of a pass, chosen by device if not given.
    """

    def __init__(self, model: Any, batch_tokens: int | None = None) -> None:
        self.model = CausalLM(model, str(model.device), _dtype(model), batch_tokens)
        self.batch_tokens = self.model.batch_tokens

    def log_probabilities(self, sequences: Sequence[ForcedSequence]) -> list[float]:
        """The total natural log-probability of the scored tokens of every sequence."""
        first = np.array([sequence.first for sequence in sequences])
        prompted = Prompted(_ragged([sequence.tokens for sequence in sequences]), first)
        values = self.model.log_probabilities(prompted)
        return [float(of_row.sum()) for of_row in np.split(values.values, values.offsets[1:-1])]


class BartPasses:
    """Passes of a model of the BART family: every source once, texts of one source side by side.

    Args:
        model: the model.
        batch_tokens: tokens of a pass, chosen by device if not given.
    """

    def __init__(self, model: Any, batch_tokens: int | None = None) -> None:
        self.model = Seq2Seq(model, str(model.device), _dtype(model), batch_tokens)
        self.batch_tokens = self.model.batch_tokens

    def log_probabilities(self, sequences: Sequence[ForcedSequence]) -> list[float]:
        """The total natural log-probability of the scored tokens of every sequence."""
        sources = list(dict.fromkeys(sequence.source for sequence in sequences))
        number_of = {source: number for number, source in enumerate(sources)}
        states, rows = self._states(_ragged(sources))
        # the decoder starts from the last label, so the start token stands there
        labels = [(*sequence.tokens[1:], sequence.tokens[0]) for sequence in sequences]
        targets = Targets(
            _ragged(labels),
            np.array([sequence.first for sequence in sequences]),
            np.array([sequence.num_scored for sequence in sequences]),
        )
        pairs = [(rows[number_of[sequence.source]], i) for i, sequence in enumerate(sequences)]
        values = self.model.log_likelihoods(states, targets, np.array(pairs))
        return [float(value) for value in values]

    def _states(self, sources: Ragged) -> tuple[Ragged, IntArray]:
        """The encoder's states of all sources, and the row in which each stands."""

        def states_of(rows: IntArray) -> Ragged:
            return self.model.encode(sources[rows])

        batches, rows = in_batches(sources.lengths, self.batch_tokens, states_of)
        values = np.concatenate([batch.values for batch in batches])  # [tokens, d]
        lengths = np.concatenate([batch.lengths for batch in batches])  # [sources]
        return Ragged.of_lengths(values, lengths), rows


class EncoderDecoderPasses:
    """Passes of any encoder-decoder.

    Args:
        model: the model.
        batch_tokens: tokens of a batch on a GPU, padding counted.
    """

    def __init__(self, model: Any, batch_tokens: int | None = None) -> None:
        self.model = model.train(False)
        self.on_cpu = model.device.type == "cpu"
        self.batch_tokens = batch_tokens or (CPU_TOKENS if self.on_cpu else GPU_TOKENS)
        self.vocabulary = model.get_input_embeddings().weight.shape[0]
        # sources read last, and their states: texts of one source follow each other
        self.encoded: tuple[list[tuple[int, ...]], Encoded] | None = None

    def log_probabilities(self, sequences: Sequence[ForcedSequence]) -> list[float]:
        """The total natural log-probability of the scored tokens of every sequence."""
        import torch

        scored = [i for i, sequence in enumerate(sequences) if sequence.num_scored]
        order = sorted(scored, key=lambda i: _sort_key(sequences[i]))
        values: list[float] = []
        with torch.inference_mode():
            for batch in self._batches([sequences[i] for i in order]):
                values += in_halves(self._batch, batch)
        value_of = dict(zip(order, values, strict=True))
        return [value_of.get(i, 0.0) for i in range(len(sequences))]

    def _batches(self, sequences: Sequence[ForcedSequence]) -> list[list[ForcedSequence]]:
        """Sequences that are read together: on a CPU one, whatever stands beside it."""
        batches: list[list[ForcedSequence]] = []
        for sequence in sequences:
            longer = [*batches[-1], sequence] if batches else []
            if longer and not self._is_too_much(longer):
                batches[-1] = longer
            else:
                batches.append([sequence])
        return batches

    def _is_too_much(self, sequences: Sequence[ForcedSequence]) -> bool:
        num_tokens = len(sequences) * max(map(_num_tokens, sequences))
        cells = num_tokens * self.vocabulary
        return self.on_cpu or num_tokens > self.batch_tokens or cells > CELLS

    def _batch(self, sequences: Sequence[ForcedSequence]) -> list[float]:
        """The values of sequences that are read together."""
        # what pads a sequence stands behind it, where no state looks
        ids, _ = self._padded([sequence.tokens[:-1] for sequence in sequences])
        labels, _ = self._padded([sequence.tokens[1:] for sequence in sequences])
        logits = self._logits(sequences, ids).float()  # [sequences, longest, vocabulary]
        own = logits.gather(2, labels[..., None])[..., 0]  # [sequences, longest]
        # rounding may leave a probability above 1
        logprobs = (own - logits.logsumexp(dim=2)).clamp(max=0).double().cpu()
        totals = []
        for row, sequence in zip(logprobs, sequences, strict=True):
            # the state before a token scores it
            scored = row[sequence.first - 1 : len(sequence.tokens) - 1]
            totals.append(float(scored.sum()))
        return totals

    def _logits(self, sequences: Sequence[ForcedSequence], ids: Any) -> Any:
        """Logits [sequences, longest, vocabulary] of decoder inputs ids [sequences, longest]."""
        sources = list(dict.fromkeys(sequence.source for sequence in sequences))
        rows = [sources.index(sequence.source) for sequence in sequences]
        if self.encoded is None or self.encoded[0] != sources:
            self.encoded = sources, encoded(self.model, *self._padded(sources))
        arguments = self.encoded[1].of(rows)
        return self.model(**arguments, decoder_input_ids=ids, use_cache=False).logits

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Ids and mask [rows, longest, up to a multiple of 16 if there are positions], on the model's device."""
        longest = max(map(len, rows))
        spare = -longest % ROWS
        limit = getattr(self.model.config, "max_position_embeddings", None) or longest + spare
        return padded(rows, self.model.device, max(longest, min(longest + spare, limit)))


def _dtype(model: Any) -> Any:
    """The precision of a model as settings name it."""
    return str(model.dtype).removeprefix("torch.")


def _sort_key(sequence: ForcedSequence) -> tuple[Any, ...]:
    """Sequences of one source stand together, and of one length."""
    return len(sequence.source), sequence.source, len(sequence.tokens)


def _ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    """Rows of ids as one array."""
    lengths = np.array([len(row) for row in rows])
    values = np.array([token for row in rows for token in row], np.int64)
    return Ragged.of_lengths(values, lengths)


ForcedPasses = CausalPasses | BartPasses | EncoderDecoderPasses
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
        config = checked_config(model, tokenizer, settings)
        self.settings, self.name = settings, name
        self.reader = ForcedReader(model, tokenizer, config, settings)
        self.plain_text = self.reader.prompts.plain_text
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
        """The outcome of every list, in order; the error of a text that cannot be read is in its place."""
        for block in self._blocks(lists):
            before_work()
            yield from self._answers(block)

    def _blocks(self, lists: Iterable[Asked]) -> Iterator[list[_Read]]:
        """Lists whose tokens fill a batch together; a block ends early behind an error."""
        block: list[_Read] = []
        num_tokens = 0
        for asked in lists:
            read: _Read = (
                asked if isinstance(asked, DiscorankError) else self.reader.sequences(asked)
            )
            block.append(read)
            num_tokens += sum(map(_num_tokens, _sequences(read)))
            if isinstance(read, DiscorankError) or num_tokens >= self.passes.batch_tokens:
                yield block
                block, num_tokens = [], 0
        if block:
            yield block

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
    """The sequences of a list that can be scored."""
    if isinstance(read, DiscorankError):
        return []
    return [one for one in read if isinstance(one, ForcedSequence)]


def _num_tokens(sequence: ForcedSequence) -> int:
    return len(sequence.source) + len(sequence.tokens)
