"""Part-of-speech tags for training only: the parser's own tagger learns from them, and is all that runs later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...errors import ModelLoadError

Tagger = Literal["auto", "hanta", "none"]
NO_TAG = "-"


def tagged(sentences: Sequence[Sequence[str]], tagger: Tagger = "auto") -> list[list[str]]:
    """The tags of every sentence; `NO_TAG` throughout with "none", or with "auto" where HanTa is not installed.

    Raises:
        ModelLoadError: "hanta" was asked for and is not installed.
    """
    if tagger != "none":
        try:
            from HanTa.HanoverTagger import HanoverTagger
        except ImportError:
            if tagger == "hanta":
                fix = "Install it: pip install HanTa"
                raise ModelLoadError("HanTa is not installed", where="tagger", fix=fix) from None
        else:
            model = HanoverTagger("morphmodel_en.pgz")
            return [_tags(model, words) for words in sentences]
    return [[NO_TAG] * len(words) for words in sentences]


def _tags(model: Any, words: Sequence[str]) -> list[str]:
    tokens = model.tag_sent(list(words))  # word, lemma, tag
    return [str(tag) for _, _, tag in tokens]
