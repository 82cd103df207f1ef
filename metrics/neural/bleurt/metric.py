"""BLEURT (Sellam et al. 2020; Pu et al. 2021): a regression on human ratings, over reference and hypothesis together.

    score = w2 . tanh(W1 x_0 + b1) + b2,   x = BERT([CLS] r [SEP] h [SEP])

Read are converted models, BLEURT-20 and its distilled forms (SentencePiece) as the older ones (WordPiece). Mostly
between 0 and 1 but unbounded, higher is better, not symmetric; an empty text is scored like any other. Scores of two
models are not comparable. With ``context=k``, windows of k + 1 sentences, joined by blanks, are scored as one text; a
document is the mean of its windows.

The reference comes first, with token types 0 up to the first [SEP], then 1. What is too long loses tokens at the end,
one by one from the longer of the two, from the hypothesis where they are equally long. Texts are cut by SentencePiece
alone (BLEURT-20) or by BERT's WordPiece (older models); special tokens written out in a text stay text. transformers'
own tokenizers do otherwise for empty hypotheses and at the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...errors import ModelLoadError
from ...execution.store import in_batches
from ...representations import Block, FloatArray, IntArray, Ragged, Reps, by_block, cell_rows
from ...scorer import Info, Scorer
from ...spec.checked_settings import Field, settings
from ...storage.bounded_files import read_small_file
from ...text.texts import Item
from ..comet.network import Head
from ..models.encoder import Encoder
from ..models.files.folder_contents import read_settings
from ..models.settings import JoinedScorer, ModelMetric, WindowMetric

SENTENCEPIECE, WORDPIECE, WORDPIECE_SETTINGS = "spm.model", "vocab.txt", "tokenizer_config.json"
# Special tokens of a pair: one [CLS] and two [SEP].
SPECIAL, SPECIAL_NAMES, UNKNOWN = 3, ("[CLS]", "[SEP]"), "[UNK]"
# BERT reads a longer word as unknown.
MAX_WORD = 200

# Models whose names end so were trained on sequences of 128 tokens, though they have positions for more.
SHORT, SHORT_TOKENS = "-128", 128


@settings
class BLEURT(WindowMetric):
    """A converted model, such as BLEURT-20.

    Args:
        model: the folder of a converted model (config.json with model_type bleurt), or a name on the hub.
        gelu: erf, as the converted models are run, or tanh, as in the public code for TensorFlow; scores differ by
            about 0.1 %.
        context: sentences before each one that are read with it as one window, at most 2.
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

    default_model: ClassVar[str] = "lucadiliello/BLEURT-20"
    max_context: ClassVar[int] = 2
    gelu: Literal["erf", "tanh"] = "erf"
    context: Annotated[int, Field(ge=0)] = 0
    context_from: Literal["reference", "hypothesis"] | None = None
    name: ClassVar[str] = "bleurt"
    info: ClassVar[Info] = Info(
        summary="trained regression over reference and hypothesis read together",
        papers=("sellam2020bleurt", "pu2021bleurt20"),
        bucketed=True,
        costly_pairs=True,
        version=2,
    )

    def load(self) -> Scorer:
        """The converted model."""
        from .bert import read_config, read_network

        folder = self.model_path()
        config = read_config(folder)
        tokens = tokens_of(folder)
        network = read_network(folder, config, self.gelu)
        encoder = Encoder(network.encoder, self.device, self.dtype, batch_tokens=self.batch_tokens)
        max_tokens = min(self.max_tokens or 1 << 30, encoder.max_tokens)
        if self.max_tokens is None and self.named("model").rstrip("/").endswith(SHORT):
            max_tokens = min(max_tokens, SHORT_TOKENS)
        layers = [
            (weight.float().to(encoder.device), bias.float().to(encoder.device))
            for weight, bias in network.layers
        ]
        head = Head(layers, encoder.torch.Tensor.tanh_, None)
        return BleurtScorer(self, tokens, encoder, head, max_tokens)


class BleurtScorer(JoinedScorer):
    """Represents a text by its ids; compares by the encoder and the head."""

    def __init__(
        self, metric: ModelMetric, tokens: PairTokens, encoder: Encoder, head: Head, max_tokens: int
    ) -> None:
        super().__init__(metric, encoder, max_tokens)
        self.tokens, self.encoder, self.head = tokens, encoder, head

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids of every window: the sentence behind its context, a blank between sentences."""
        windows = [item.window for item in items]
        whole = [window.encode("utf-8", "replace").decode() for window in windows]
        ids = Ragged.of_rows(self.tokens.ids(whole))
        return Reps({"ids": ids}), ids.lengths

    def sequence_lengths(self, lengths: IntArray, block: Block) -> IntArray:
        """One for every pair."""
        hypotheses, references = cell_rows([block])
        return lengths[references] + lengths[hypotheses] + SPECIAL

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block."""
        hypotheses, references = cell_rows(blocks)
        lengths = reps["ids"].lengths
        kept = kept_lengths(lengths[references], lengths[hypotheses], self.max_tokens)

        def first_states(pairs: IntArray) -> Any:
            of_pairs = Lengths(kept.reference[pairs], kept.hypothesis[pairs])
            return self._first_states(reps["ids"], references[pairs], hypotheses[pairs], of_pairs)

        batches, places = in_batches(
            kept.reference + kept.hypothesis + SPECIAL, self.batch_tokens, first_states
        )
        with self.encoder.torch.inference_mode():
            first = self.encoder.torch.cat(batches)[self.encoder.tensor(places)]  # [pairs, d]
            return by_block(self.head.whole(first), blocks)

    def _first_states(
        self, ids: Ragged, references: IntArray, hypotheses: IntArray, kept: Lengths
    ) -> Any:
        """State of the first token of pairs, [pairs, d]; rows of the texts, [pairs], and their kept lengths."""
        # [CLS] reference [SEP] hypothesis [SEP]; type 1 from the hypothesis on
        sequences, types = [], []
        sep = [self.tokens.sep]
        for r, h, num_r, num_h in zip(references, hypotheses, *kept, strict=True):
            start_r, start_h = ids.offsets[r], ids.offsets[h]
            reference = ids.values[start_r : start_r + num_r]
            hypothesis = ids.values[start_h : start_h + num_h]
            sequence = np.concatenate(([self.tokens.cls], reference, sep, hypothesis, sep))
            sequences.append(sequence)
            types.append((np.arange(len(sequence)) >= num_r + 2).astype(np.int64))
        states = self.encoder.states(Ragged.of_rows(sequences), types=Ragged.of_rows(types))
        return states.packing.firsts(states.last)


class Lengths(NamedTuple):
    """Numbers of tokens that are read of the reference and the hypothesis of each pair, [pairs] each."""

    reference: IntArray
    hypothesis: IntArray


def kept_lengths(reference: IntArray, hypothesis: IntArray, max_tokens: int) -> Lengths:
    """Lengths after truncation of texts of these lengths [pairs], in sequences of at most `max_tokens`."""
    excess = np.maximum(reference + hypothesis + SPECIAL - max_tokens, 0)
    # The longer one loses tokens until both are equally long ...
    of_reference = np.minimum(np.maximum(reference - hypothesis, 0), excess)
    of_hypothesis = np.minimum(np.maximum(hypothesis - reference, 0), excess)
    # ... then they take turns, the hypothesis first.
    rest = excess - of_reference - of_hypothesis
    return Lengths(
        reference - of_reference - rest // 2, hypothesis - of_hypothesis - (rest + 1) // 2
    )


def tokens_of(folder: Path) -> PairTokens:
    """The tokenizer of a converted model.

    Raises:
        ModelLoadError: there is none, or it is damaged.
    """
    if (folder / SENTENCEPIECE).is_file():
        return sentencepiece_tokens(folder / SENTENCEPIECE)
    if (folder / WORDPIECE).is_file():
        return wordpiece_tokens(folder / WORDPIECE)
    problem = f"no tokenizer: neither {SENTENCEPIECE} (BLEURT-20) nor {WORDPIECE} (older models)"
    raise ModelLoadError(problem, where=str(folder), fix="Give the folder of the whole model")


class PairTokens(NamedTuple):
    """A tokenizer: ids of texts without special tokens, and the ids of these."""

    ids: Callable[[Sequence[str]], list[IntArray]]
    cls: int
    sep: int


def sentencepiece_tokens(file: Path) -> PairTokens:
    """SentencePiece, cased, nothing cleaned; BLEURT-20.

    Raises:
        ModelLoadError: the file is damaged, or lacks a special token.
    """
    from sentencepiece import SentencePieceProcessor

    try:
        processor = SentencePieceProcessor(model_file=str(file))
    except (RuntimeError, OSError) as error:
        problem = f"not a model of SentencePiece: {error}"
        raise ModelLoadError(problem, where=str(file), fix="Fetch it again") from error
    pieces = {name: int(processor.piece_to_id(name)) for name in SPECIAL_NAMES}
    for name, number in pieces.items():
        if processor.id_to_piece(number) != name:
            raise ModelLoadError(f"has no piece {name}", where=str(file), fix="Is it BLEURT's?")

    def ids(texts: Sequence[str]) -> list[IntArray]:
        return [np.array(row, np.int64) for row in processor.encode(list(texts))]

    return PairTokens(ids, *pieces.values())


def wordpiece_tokens(file: Path) -> PairTokens:
    """BERT's WordPiece over words and marks, in lower case and without accents unless the settings say otherwise.

    Raises:
        ModelLoadError: the vocabulary lacks a special token, or the settings are not JSON.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    entries = read_small_file(file, "Fetch it again").decode("utf-8", "replace").split("\n")
    vocabulary = {entry.removesuffix("\r"): i for i, entry in enumerate(entries)}
    for name in (*SPECIAL_NAMES, UNKNOWN):
        if name not in vocabulary:
            raise ModelLoadError(f"has no {name}", where=str(file), fix="Is it BLEURT's?")
    about = file.parent / WORDPIECE_SETTINGS
    settings = read_settings(about, TokenizerSettings) if about.exists() else TokenizerSettings()
    pieces = WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=MAX_WORD)
    tokenizer: Any = Tokenizer(pieces)
    tokenizer.normalizer = BertNormalizer(lowercase=settings.do_lower_case)
    tokenizer.pre_tokenizer = BertPreTokenizer()

    def ids(texts: Sequence[str]) -> list[IntArray]:
        encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int64) for encoding in encodings]

    return PairTokens(ids, *(vocabulary[name] for name in SPECIAL_NAMES))


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """tokenizer_config.json."""

    do_lower_case: bool = True
