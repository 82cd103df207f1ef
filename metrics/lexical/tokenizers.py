"""Tokenizers and stemmers of other packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ModelLoadError, unknown
from ..optional_packages import imported

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
    from sacrebleu.metrics.bleu import _TOKENIZERS, BLEU

    if name not in BLEU.TOKENIZERS:
        raise unknown("tokenizer", name, _TOKENIZERS, where=where)
    try:
        return BLEU(tokenize=name).tokenizer
    except (ImportError, RuntimeError, OSError) as error:
        where = f"tokenizer {name!r}"
        raise ModelLoadError(f"{error}", where=where, fix="Install what it names") from error


def porter_stemmer(where: str) -> Callable[[str], str]:
    """The Porter stemmer (English).

    Raises:
        ModelLoadError: nltk is not installed.
    """
    porter = imported("nltk.stem.porter", f"{where}(stemmer=True)")
    stem: Callable[[str], str] = porter.PorterStemmer().stem
    return stem
