"""Tokenizers and stemmers of other packages, and sacrebleu's 13a several times as fast."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..errors import ModelLoadError, unknown
from ..optional_packages import imported

# mteval-v13a: marks that always stand alone; full stops, commas and dashes do so beside some characters only
ALONE = str.maketrans({mark: f" {mark} " for mark in '!"#$%&()*+/:;<=>?@[\\]^_`{|}~'})
ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
AFTER_NO_DIGIT = re.compile(r"([^0-9])([.,])")
BEFORE_NO_DIGIT = re.compile(r"([.,])([^0-9])")
REMEMBERED_STEMS = 1 << 16  # words, as texts have the same ones
LANGUAGE_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}


def tokenizer_for(lang: str) -> str | None:
    """The tokenizer that sacrebleu takes for a language (BCP 47), where it is not 13a."""
    return LANGUAGE_TOKENIZERS.get(lang.partition("-")[0])


def sacrebleu_tokenizer(name: str, where: str) -> Any:
    """One of sacrebleu's tokenizers: called with a text, it returns its words with spaces between.

    Raises:
        InputError: there is none of this name.
        ModelLoadError: it needs a package or a file that is not there.
    """
    if name == "13a":
        return words_13a
    from sacrebleu.metrics.bleu import _TOKENIZERS, BLEU

    if name not in BLEU.TOKENIZERS:
        raise unknown("tokenizer", name, _TOKENIZERS, where=where)
    try:
        return BLEU(tokenize=name).tokenizer
    except (ImportError, RuntimeError, OSError) as error:
        where = f"tokenizer {name!r}"
        raise ModelLoadError(f"{error}", where=where, fix="Install what it names") from error


def word_splitter(tokenizer: str, lowercase: bool, where: str) -> Callable[[str], list[str]]:
    """A function that returns the words of a text by one of sacrebleu's tokenizers; errors as `sacrebleu_tokenizer`."""
    tokenized = sacrebleu_tokenizer(tokenizer, where)

    def split(text: str) -> list[str]:
        text = text.rstrip()
        words: list[str] = tokenized(text.lower() if lowercase else text).split()
        return words

    return split


def words_13a(text: str) -> str:
    """The words of a text with spaces between, as sacrebleu's tokenizer 13a splits them.

    >>> words_13a("It's 3.5%, or 4-5...")
    "It's 3.5 % , or 4 - 5 . . ."
    """
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    if "&" in text:
        for entity, mark in ENTITIES:
            text = text.replace(entity, mark)
    text = f" {text.translate(ALONE)} "
    if "." in text or "," in text:
        text = AFTER_NO_DIGIT.sub(r"\1 \2 ", text)
        text = BEFORE_NO_DIGIT.sub(r" \1 \2", text)
    if "-" in text:
        for digit in "0123456789":
            text = text.replace(f"{digit}-", f"{digit} - ")
    return " ".join(text.split())


def porter_stemmer(where: str) -> Callable[[str], str]:
    """The Porter stemmer (English).

    Raises:
        ModelLoadError: nltk is not installed.
    """
    porter = imported("nltk.stem.porter", f"{where}(stemmer=True)")
    stem: Callable[[str], str] = lru_cache(REMEMBERED_STEMS)(porter.PorterStemmer().stem)
    return stem
