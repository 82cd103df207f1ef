"""Where a text begins among the tokens of prompt and text, with tokenizers that merge across the border."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from discorank.metrics.neural.causal.prompted_sequences import FewShotPrompt, SequenceReader
from tests.support.tiny_causal import TEXTS, byte_tokenizer

KINDS = ("bytes", "words behind a mark", "no words")
SPECIAL = ["<unk>", "<s>", "</s>"]
MARK = "▁"


@cache
def tokenizer_of(kind: str) -> Any:
    """Byte-level; SentencePiece as of Llama, with a blank put before a text; BPE over whole lines, as of Gemma."""
    if kind == "bytes":
        return byte_tokenizer()
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    if kind == "words behind a mark":
        made.pre_tokenizer = pre_tokenizers.Metaspace(MARK, prepend_scheme="first")
    else:
        made.normalizer = normalizers.Replace(" ", MARK)
    trainer = trainers.BpeTrainer(vocab_size=90, special_tokens=SPECIAL, show_progress=False)
    texts = [f"{text}\n{text} = " for text in TEXTS * 3]
    made.train_from_iterator(texts, trainer)
    library: Any = PreTrainedTokenizerFast
    return library(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def plain_ids(kind: str, text: str) -> list[int]:
    """The ids of a string, nothing around them."""
    ids: list[int] = tokenizer_of(kind)(text, add_special_tokens=False).input_ids
    return ids


def read(kind: str, prompt: str, text: str) -> tuple[list[int], int]:
    """The ids of a sequence, and the place of the first scored one."""
    reader = SequenceReader(tokenizer_of(kind), 1000, "separator", "\n")
    sequences = reader.read([FewShotPrompt(1, lambda _: prompt)], [text]).prompted
    return sequences.ids.values.tolist(), int(sequences.first[0])


def characters(kind: str, ids: list[int]) -> str:
    """What ids stand for."""
    joined = "".join(tokenizer_of(kind).convert_ids_to_tokens(ids))
    return joined.replace("Ġ", " ").replace("Ċ", "\n").replace(MARK, " ")


pieces = st.sampled_from(["the", "cat", " ", "sat", ".", "\n", "a", "=", "do", "g", "ho", "use"])
strings = st.lists(pieces, max_size=8).map("".join)


@pytest.mark.parametrize("kind", KINDS)
@given(prompt=strings, text=strings)
@settings(max_examples=20, deadline=None, database=None)
def test_a_text_begins_at_the_first_id_that_differs(kind: str, prompt: str, text: str) -> None:
    """Prompt, text and end are one string; nothing of the text is left to the prompt."""
    ids, first = read(kind, prompt, text)
    alone = plain_ids(kind, prompt)
    assert ids == [tokenizer_of(kind).bos_token_id, *plain_ids(kind, f"{prompt}{text}\n")]
    assert ids[1:first] == alone[: first - 1]
    assert first == len(ids) or ids[first] not in alone[first - 1 : first]
    assert characters(kind, ids[first:]).endswith(f"{text}\n")


@pytest.mark.parametrize(
    ("kind", "prompt", "text", "before", "scored"),
    [
        ("bytes", "the c", "at", "the", " cat\n"),
        ("words behind a mark", "the c", "at", " the", " cat\n"),
        ("words behind a mark", "a man reads = ", "the", " a man reads =", " the\n"),
        ("no words", "a man reads = ", "the", "a man reads = ", "the\n"),
        ("no words", "the d", "og", "the ", "dog\n"),
        # all of it is one token: nothing of the prompt is left
        ("no words", "the cat sat on a ma", "t .", "", "the cat sat on a mat .\n"),
    ],
)
def test_a_token_across_the_border_is_the_texts(
    kind: str, prompt: str, text: str, before: str, scored: str
) -> None:
    ids, first = read(kind, prompt, text)
    assert characters(kind, ids[1:first]) == before
    assert characters(kind, ids[first:]) == scored
