"""How BLEURT reads a pair: the reference first, then the hypothesis.

    [CLS] r [SEP] h [SEP],   token types 0 up to the first [SEP], then 1

What is too long loses tokens at the end, one by one from the longer of the two, from the hypothesis where they are
equally long. Texts are cut by SentencePiece alone (BLEURT-20) or by BERT's WordPiece (older models); special tokens
written out in a text stay text. transformers' own tokenizers do otherwise for empty hypotheses and at the cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import ModelLoadError
from ...representations import IntArray
from ...storage.bounded_files import read_small_file
from ..models.files.json_settings import FileSettings, read_settings

SENTENCEPIECE, WORDPIECE, WORDPIECE_SETTINGS = "spm.model", "vocab.txt", "tokenizer_config.json"
# Special tokens of a pair: [CLS] and two [SEP].
SPECIAL = 3
# BERT reads a longer word as unknown.
MAX_WORD = 200


class PairTokens(ABC):
    """A tokenizer: ids of texts without special tokens, and the ids of these."""

    cls: int
    sep: int

    @abstractmethod
    def ids(self, texts: Sequence[str]) -> list[IntArray]:
        """The ids of every text."""


class SentencePieceTokens(PairTokens):
    """SentencePiece, cased, nothing cleaned; BLEURT-20.

    Raises:
        ModelLoadError: the file is damaged, or lacks a special token.
    """

    def __init__(self, file: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        try:
            self.processor = SentencePieceProcessor(model_file=str(file))
        except (RuntimeError, OSError) as error:
            problem = f"no model of SentencePiece: {error}"
            raise ModelLoadError(problem, where=str(file), fix="Fetch it again") from error
        self.cls, self.sep = (self._special(file, name) for name in ("[CLS]", "[SEP]"))

    def _special(self, file: Path, name: str) -> int:
        number = int(self.processor.piece_to_id(name))
        if self.processor.id_to_piece(number) != name:
            raise ModelLoadError(f"has no piece {name}", where=str(file), fix="Is it BLEURT's?")
        return number

    def ids(self, texts: Sequence[str]) -> list[IntArray]:
        """The ids of every text."""
        return [np.array(ids, np.int64) for ids in self.processor.encode(list(texts))]


class WordPieceTokens(PairTokens):
    """BERT's WordPiece over words and marks, in lower case and without accents unless the settings say otherwise.

    Raises:
        ModelLoadError: the vocabulary lacks a special token, or the settings are no JSON.
    """

    def __init__(self, file: Path) -> None:
        from tokenizers import Tokenizer
        from tokenizers.models import WordPiece
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer

        entries = read_small_file(file, "Fetch it again").decode("utf-8", "replace").split("\n")
        vocabulary = {entry.removesuffix("\r"): i for i, entry in enumerate(entries)}
        for name in ("[CLS]", "[SEP]", "[UNK]"):
            if name not in vocabulary:
                raise ModelLoadError(f"has no {name}", where=str(file), fix="Is it BLEURT's?")
        self.cls, self.sep = vocabulary["[CLS]"], vocabulary["[SEP]"]
        lower = _is_lower_case(file.parent / WORDPIECE_SETTINGS)
        pieces = WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD)  # noqa: S106  no password
        tokenizer: Any = Tokenizer(pieces)
        tokenizer.normalizer = BertNormalizer(lowercase=lower)
        tokenizer.pre_tokenizer = BertPreTokenizer()
        self.tokenizer = tokenizer

    def ids(self, texts: Sequence[str]) -> list[IntArray]:
        """The ids of every text."""
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int64) for encoding in encodings]


class TokenizerSettings(FileSettings):
    """tokenizer_config.json."""

    do_lower_case: bool = True


def _is_lower_case(file: Path) -> bool:
    """Whether texts are read in lower case, as a folder says; they are if it does not."""
    return read_settings(file, TokenizerSettings).do_lower_case if file.exists() else True


def tokens_of(folder: Path) -> PairTokens:
    """The tokenizer of a converted model.

    Raises:
        ModelLoadError: there is none, or it is damaged.
    """
    if (folder / SENTENCEPIECE).is_file():
        return SentencePieceTokens(folder / SENTENCEPIECE)
    if (folder / WORDPIECE).is_file():
        return WordPieceTokens(folder / WORDPIECE)
    problem = f"no tokenizer: neither {SENTENCEPIECE} (BLEURT-20) nor {WORDPIECE} (older models)"
    raise ModelLoadError(problem, where=str(folder), fix="Give the folder of the whole model")


class Lengths(NamedTuple):
    """How many tokens are read of the reference and of the hypothesis of each pair, [pairs] each."""

    reference: IntArray
    hypothesis: IntArray


def kept_lengths(reference: IntArray, hypothesis: IntArray, max_tokens: int) -> Lengths:
    """What is left of texts of these lengths [pairs] in sequences of at most `max_tokens`."""
    excess = np.maximum(reference + hypothesis + SPECIAL - max_tokens, 0)
    # The longer one loses tokens until both are equally long ...
    of_reference = np.minimum(np.maximum(reference - hypothesis, 0), excess)
    of_hypothesis = np.minimum(np.maximum(hypothesis - reference, 0), excess)
    # ... then they take turns, the hypothesis first.
    rest = excess - of_reference - of_hypothesis
    return Lengths(
        reference - of_reference - rest // 2,
        hypothesis - of_hypothesis - (rest + 1) // 2,
    )
