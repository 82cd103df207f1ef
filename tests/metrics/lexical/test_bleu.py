"""BLEU beside the table of cases: its tokenizers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from discorank import InputError, load_metric
from discorank.metrics.lexical.tokenizers import words_13a


def test_an_unknown_tokenizer_is_named() -> None:
    with pytest.raises(InputError, match=r"'zj'.*'zh'"):
        load_metric("bleu", tokenize="zj").score(["a"], ["a"])


PIECES = [*".,-1a9$& \n\"'é—٣x/(", "<skipped>", "&amp;", "&lt;", "-\n", "&quot;"]


@bounded(max_examples=300, deadline=None, database=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text())
def test_13a_is_sacrebleus(text: str) -> None:
    tokenizer: Any = Tokenizer13a
    assert words_13a(text) == tokenizer()(text)
