"""lm, doc-lm and lm-pair: prompts, ends, normalisation and context by hand, over a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from discorank import Context, InputError, MBRDecoder, load_metric
from discorank.metrics.errors import TruncationWarning
from discorank.metrics.execution.store import Store
from discorank.metrics.neural.causal.metric import LM, CausalScorer
from discorank.metrics.neural.causal.prompted_sequences import FewShotPrompt, SequenceReader
from tests.support.tiny_causal import byte_tokenizer, causal_model, write_causal

H = "the cat sat on a mat ."
SOURCE = "a man reads"
BEFORE = Context(source=("the dog", "a man"), target=("der Hund", "ein Mann"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_causal(tmp_path_factory.mktemp("llama"), "llama"))


@pytest.fixture(scope="module")
def headless(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose tokenizer has no beginning-of-text token."""
    return str(write_causal(tmp_path_factory.mktemp("qwen2"), "qwen2", begins=False))


def by_hand(string: str, prompt: str, family: str = "llama", *, begins: bool = True) -> Any:
    """Log-probabilities of the ids behind those that a string shares with its prompt, by transformers."""
    tokenizer = byte_tokenizer()
    first = [tokenizer.bos_token_id] if begins else []
    whole = first + tokenizer(string, add_special_tokens=False).input_ids
    alone = first + tokenizer(prompt, add_special_tokens=False).input_ids
    start = next(
        (i for i, (a, b) in enumerate(zip(whole, alone, strict=False)) if a != b), len(alone)
    )
    start = max(1, start)
    with torch.no_grad():
        logits = causal_model(family, len(tokenizer))(torch.tensor([whole])).logits[0]
    values = logits.double().log_softmax(-1).numpy()
    return values[np.arange(start - 1, len(whole) - 1), whole[start:]]


def lm(model: str, **settings: Any) -> LM:
    """The metric."""
    return LM(model=model, **settings)


def value(model: str, h: str = H, **settings: Any) -> float:
    metric = lm(model, **settings)
    return float(metric.pairwise([h], [], SOURCE)[0, 0])


def test_fluency_is_the_mean_over_the_tokens_and_the_line_break(model: str) -> None:
    assert value(model) == pytest.approx(by_hand(f"{H}\n", "").mean(), rel=1e-5)


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "qwen2"])
def test_the_value_is_the_loss_of_transformers(family: str, tmp_path: Path) -> None:
    """Its own cross-entropy of the same ids, of which those of the prompt have no label."""
    tokenizer = byte_tokenizer()
    whole, alone = (
        [tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False).input_ids]
        for text in (f"{SOURCE} = {H}\n", f"{SOURCE} =")
    )
    ids = torch.tensor([whole])
    labels = ids.clone()
    labels[0, : len(alone)] = -100
    with torch.no_grad():
        loss = float(causal_model(family, len(tokenizer))(ids, labels=labels).loss)
    folder = str(write_causal(tmp_path, family))
    assert -value(folder, given="source") == pytest.approx(loss, rel=1e-5)


def test_ends(model: str) -> None:
    assert value(model, end="none") == pytest.approx(by_hand(H, "").mean(), rel=1e-5)
    assert value(model, end="token") == pytest.approx(by_hand(f"{H}</s>", "").mean(), rel=1e-5)
    other = value(model, separator=" .")
    assert other == pytest.approx(by_hand(f"{H} .", "").mean(), rel=1e-5)


def test_normalisations(model: str) -> None:
    values = by_hand(f"{SOURCE} = {H}\n", f"{SOURCE} = ")
    settings = {"given": "source"}
    assert value(model, **settings) == pytest.approx(values.mean(), rel=1e-5)
    assert value(model, normalize="sum", **settings) == pytest.approx(values.sum(), rel=1e-5)


def test_a_token_that_prompt_and_text_share_is_the_texts(model: str) -> None:
    """The blank that ends the prompt is part of the first word's token."""
    tokenizer = byte_tokenizer()
    reader = SequenceReader(tokenizer, 100, "none", "\n")
    sequence = reader.read([FewShotPrompt(1, lambda _: "a = ")], ["the"])
    tokens = tokenizer.convert_ids_to_tokens(sequence.prompted.ids.values.tolist())
    assert tokens == ["<s>", "a", "Ġ=", "Ġthe"]
    assert sequence.prompted.first.tolist() == [3]


def test_context_stands_before_the_text(model: str) -> None:
    in_context = load_metric("doc-lm", model=model).pairwise([H], [], None, BEFORE)[0, 0]
    prompt = "der Hund ein Mann "
    assert in_context == pytest.approx(by_hand(f"{prompt}{H}\n", prompt).mean(), rel=1e-5)
    first = load_metric("doc-lm", model=model).pairwise([H], [], None)[0, 0]
    assert first == value(model)


def test_pairs_before_stand_as_few_shot_examples(model: str, tmp_path: Path) -> None:
    examples = tmp_path / "examples.jsonl"
    examples.write_text('{"source": "yes", "target": "ja"}\n', "utf-8")
    prompt = "yes = ja\n\nthe dog = der Hund\n\na man = ein Mann\n\na man reads = "
    expected = by_hand(f"{prompt}{H}\n\n", prompt).mean()
    settings: dict[str, Any] = {"given": "source+context", "context": 2, "examples": str(examples)}
    metric = lm(model, **settings)
    assert metric.pairwise([H], [], SOURCE, BEFORE)[0, 0] == pytest.approx(expected, rel=1e-5)
    assert metric.explain(H, [], SOURCE, BEFORE)[0]["hypothesis_given_source"]["prompt"] == (
        f"<s>{prompt.rstrip()}"
    )


def test_pairs_given_the_reference(model: str) -> None:
    h, r = "a man sees", "the man reads"
    prompt = f"{r} In other words: "
    precision = by_hand(f"{prompt}{h}\n", prompt).mean()
    turned = f"{h} In other words: "
    recall = by_hand(f"{turned}{r}\n", turned).mean()
    expected = {"precision": precision, "recall": recall, "f": (precision + recall) / 2}
    for direction, wanted in expected.items():
        metric = load_metric("lm-pair", model=model, direction=direction)
        assert metric.pairwise([h], [r])[0, 0] == pytest.approx(wanted, rel=1e-5)


def test_empty_texts(model: str) -> None:
    assert value(model, "") == pytest.approx(by_hand("\n", "").mean(), rel=1e-5)
    nothing = -np.log(len(byte_tokenizer()))
    assert value(model, "", end="none") == pytest.approx(nothing)
    assert value(model, "", end="none", normalize="sum") == 0


def test_without_a_first_token_the_first_id_is_not_scored(headless: str) -> None:
    expected = by_hand(f"{H}\n", "", "qwen2", begins=False)
    assert value(headless) == pytest.approx(expected.mean(), rel=1e-5)


def test_what_is_too_long_loses_the_oldest_first(model: str) -> None:
    metric = load_metric("doc-lm", model=model, max_tokens=20)
    with pytest.warns(TruncationWarning, match="0 lost text and 1 some context"):
        in_context = metric.pairwise([H], [], None, BEFORE)[0, 0]
    prompt = "ein Mann "
    assert in_context == pytest.approx(by_hand(f"{prompt}{H}\n", prompt).mean(), rel=1e-5)


def test_a_text_that_is_too_long_is_cut_on_the_right(model: str) -> None:
    reader = SequenceReader(byte_tokenizer(), 8, "separator", "\n")
    behind_prompt = byte_tokenizer()(f" {H}\n", add_special_tokens=False).input_ids
    cut = reader.read([FewShotPrompt(1, lambda _: "the dog sees a man ")], [H])
    # The first token, nothing of the prompt, and the first of the text.
    np.testing.assert_array_equal(cut.prompted.ids.values[1:], behind_prompt[:7])
    assert cut.truncation.tolist() == [2]
    assert cut.prompted.ids.lengths.tolist() == [8]
    kept_prompt = load_metric("lm", model=model, given="source", max_tokens=12)
    with pytest.warns(TruncationWarning, match="1 lost text"):
        kept_prompt.pairwise([H], [], SOURCE * 20)


def test_control_tokens_in_examples_and_fields_are_words(model: str, tmp_path: Path) -> None:
    examples = tmp_path / "examples.jsonl"
    examples.write_text('{"source": "yes </s>", "target": " ja </s>"}\n', "utf-8")
    settings = {"given": "source", "examples": str(examples), "prompt": "</s>{source} ="}
    (explained,) = lm(model, **settings).explain(H, [], "dog <s>")
    prompt = explained["hypothesis_given_source"]["prompt"]
    assert prompt == "<s></s>yes < /s> = ja < /s>\n\n</s>dog < s> ="


def test_least_likely_tokens_are_shown(model: str) -> None:
    (explained,) = lm(model).explain(H)
    values = by_hand(f"{H}\n", "")
    shown = explained["hypothesis"]
    assert shown["tokens"] == len(values)
    assert shown["logprob"] == pytest.approx(values.sum(), rel=1e-5)
    least = shown["least_likely"]
    assert [token["place"] for token in least] == np.argsort(values)[:5].tolist()
    assert json.dumps(shown)


def test_check_counts_the_prompt_once(model: str) -> None:
    metric = lm(model, given="source")
    scorer = metric.unloaded()
    assert isinstance(scorer, CausalScorer)
    comparison = metric.comparison([H, "a man"], [], SOURCE, Context())
    store = Store(scorer)
    (block,) = store.add([comparison])
    lengths = scorer.passes(store.reps, block).lengths.tolist()
    prompt = len(byte_tokenizer()("a man reads =", add_special_tokens=False).input_ids) + 1
    rests = [
        len(byte_tokenizer()(f" {text}\n", add_special_tokens=False).input_ids) - 1
        for text in (H, "a man")
    ]
    assert sorted(lengths) == sorted([prompt, *rests])


def test_documents_are_decoded_behind_what_was_chosen(model: str) -> None:
    lists: list[dict[str, Any]] = [
        {"id": f"{i}", "document": "d", "position": i, "candidates": texts}
        for i, texts in enumerate(
            [["the cat", "a man"], ["sat on", "reads"], ["a mat", "the house"]]
        )
    ]
    chosen: list[str] = []
    for row in MBRDecoder(load_metric("doc-lm", model=model)).decode(lists):
        candidates = lists[len(chosen)]["candidates"]
        prompt = " ".join(chosen[-2:])
        prompt = f"{prompt} " if prompt else ""
        values = [by_hand(f"{prompt}{text}\n", prompt).mean() for text in candidates]
        best = candidates[int(np.argmax(values))]
        assert row.ranking[0].text == best
        assert row.ranking[0].utility == pytest.approx(max(values), rel=1e-5)
        chosen.append(best)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"given": "context"}, "context"),
        ({"given": "source", "context": 1}, "context=1"),
        ({"prompt": "{source}"}, "{source}"),
        ({"given": "source", "prompt": "x"}, "{source}"),
        ({"given": "source", "prompt": "{source"}, "prompt"),
        ({"given": "source", "prompt": "{source!r}"}, "{source!r}"),
        ({"separator": ""}, "separator"),
        ({"end": "line"}, "end"),
        ({"examples": "x.jsonl"}, "given"),
    ],
)
def test_settings_that_are_refused(model: str, settings: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError, match=found):
        load_metric("lm", model=model, **settings)


def test_examples_are_part_of_the_signature(model: str, tmp_path: Path) -> None:
    examples = tmp_path / "examples.jsonl"
    examples.write_text('{"source": "yes", "target": "ja"}\n', "utf-8")
    metric = load_metric("lm", model=model, given="source", examples=str(examples))
    assert load_metric(metric.signature()) == metric
    signature = metric.signature()
    examples.write_text('{"source": "yes", "target": "nein"}\n', "utf-8")
    with pytest.raises(InputError, match="digest"):
        load_metric(signature)
    examples.write_text('{"source": "yes"}\n', "utf-8")
    with pytest.raises(InputError, match=r"examples.jsonl:1: no target"):
        value(model, given="source", examples=str(examples))
