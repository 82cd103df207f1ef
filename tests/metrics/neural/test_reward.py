"""Reward models: the outputs of transformers' own forward passes, chat templates, heads, truncation, refusals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import load_metric
from discorank.metrics.errors import InputError, ModelLoadError, TruncationWarning
from discorank.metrics.neural.models.pretrained import quietly
from discorank.metrics.neural.models.sequence_classifier import (
    DecoderClassifier,
    load_sequence_classifier,
)

from ...support.tiny_classifiers import CHAT, DECODERS, write_classifier

PROMPT = "the dog sees a man . "
REPLIES = [
    "the cat sat on a mat .",
    "a man reads",
    "",
    "猫 </s> <s>🐈",
    "a man reads = the old house",
]
SAID = [text.replace("</s>", "< /s>").replace("<s>", "< s>") for text in REPLIES]


def loaded(name: str, **settings: Any) -> Any:
    return load_metric(name, **settings)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a model, made once."""
    folders: dict[str, Path] = {}

    def make(family: str, labels: Any = 1, chat: bool = True) -> Path:
        key = f"{family}-{labels}-{chat}"
        if key not in folders:
            folder = tmp_path_factory.mktemp("model")
            folders[key] = write_classifier(folder, family, labels, chat)
        return folders[key]

    return make


def by_transformers(folder: Path, texts: list[Any], **options: Any) -> np.ndarray[Any, Any]:
    """The outputs of a model of transformers for texts or pairs, one by one."""
    import torch
    import transformers as library

    transformers: Any = library
    with quietly():
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = []
    for text in texts:
        parts = [[text]] if isinstance(text, str) else [[part] for part in text]
        read = tokenizer(*parts, return_tensors="pt", **options)
        if model.config.model_type not in ("bert", "roberta", "deberta-v2"):
            read.pop("token_type_ids", None)
        with torch.no_grad():
            rows.append(model(**read).logits[0].double().numpy())
    return np.array(rows)


def chats(replies: list[str], system: str = "") -> list[str]:
    """Conversations as the template writes them."""
    begin = f"<|system|>\n{system}</s>\n" if system else ""
    return [
        f"{begin}<|user|>\n{PROMPT.strip()}</s>\n<|assistant|>\n{reply.strip()}</s>\n"
        for reply in replies
    ]


@pytest.mark.parametrize("family", DECODERS)
def test_decoders_equal_transformers(family: str, made: Callable[..., Path]) -> None:
    folder = made(family)
    metric = loaded("reward", model=str(folder), device="cpu")
    values = metric.pairwise(REPLIES, [], PROMPT)[:, 0]
    expected = by_transformers(folder, chats(SAID), add_special_tokens=False)[:, 0]
    assert np.ptp(expected) > 0.05
    np.testing.assert_allclose(values, expected, atol=2e-4)
    classifier = load_sequence_classifier(folder, "cpu", "float32")
    assert isinstance(classifier, DecoderClassifier)
    assert classifier.decoder.packed == (family != "Gemma2")  # its attention is capped


@pytest.mark.parametrize("family", ["DebertaV2", "Roberta", "Bert"])
def test_encoders_without_a_template_read_two_texts(family: str, made: Callable[..., Path]) -> None:
    folder = made(family, 1, False)
    metric = loaded("reward", model=str(folder), device="cpu")
    values = metric.pairwise(REPLIES, [], PROMPT)[:, 0]
    expected = by_transformers(folder, [(PROMPT, reply) for reply in SAID])[:, 0]
    np.testing.assert_allclose(values, expected, atol=2e-4)


def with_template(folder: Path, template: str, tmp_path: Path) -> Path:
    """A copy of a model with another chat template."""
    copy = Path(shutil.copytree(folder, tmp_path / "own"))
    (copy / "chat_template.jinja").write_text(template)
    return copy


def test_system_text(made: Callable[..., Path]) -> None:
    folder = made("Qwen2")
    metric = loaded("reward", model=str(folder), device="cpu", system="Be kind.")
    expected = by_transformers(folder, chats(SAID, "Be kind."), add_special_tokens=False)
    np.testing.assert_allclose(metric.pairwise(REPLIES, [], PROMPT), expected, atol=2e-4)


def test_a_template_in_the_folder(made: Callable[..., Path], tmp_path: Path) -> None:
    template = "{{ messages[0]['content'] }} => {{ messages[-1]['content'] }}"
    folder = with_template(made("Qwen2"), template, tmp_path)
    metric = loaded("reward", model=str(folder), device="cpu")
    texts = [f"{PROMPT} => {reply}" for reply in SAID]
    expected = by_transformers(folder, texts, add_special_tokens=False)
    np.testing.assert_allclose(metric.pairwise(REPLIES, [], PROMPT), expected, atol=2e-4)
    (folder / "chat_template.jinja").write_text("other {{ messages[-1]['content'] }}")
    with pytest.raises(ModelLoadError, match="files have changed"):
        metric.with_scorer(None).check_files()


def test_one_of_several_outputs(made: Callable[..., Path]) -> None:
    folder = made("Llama", ["helpful", "honest", "brief"])
    expected = by_transformers(folder, chats(SAID), add_special_tokens=False)
    for output, column in (("honest", 1), (2, 2)):
        metric = loaded("reward", model=str(folder), device="cpu", output=output)
        values = metric.pairwise(REPLIES, [], PROMPT)[:, 0]
        np.testing.assert_allclose(values, expected[:, column], atol=2e-4)
    (told,) = metric.explain(REPLIES[0], source=PROMPT)
    assert told["outputs"]["helpful"] == pytest.approx(expected[0, 0], abs=2e-4)
    for wrong, problem in ((None, "3 outputs.*helpful, honest"), ("kind", "no output 'kind'")):
        with pytest.raises(InputError, match=problem):
            loaded("reward", model=str(folder), output=wrong).scorer  # noqa: B018


def test_the_last_token_that_is_no_padding_counts(
    made: Callable[..., Path], tmp_path: Path
) -> None:
    """As in transformers, where the end of a turn is the padding token too."""
    template = "{{ messages[0]['content'] }}\n{{ messages[-1]['content'] }}</s></s>"
    folder = with_template(made("Llama"), template, tmp_path)
    metric = loaded("reward", model=str(folder), device="cpu")
    texts = [f"{PROMPT}\n{reply}</s></s>" for reply in SAID]
    expected = by_transformers(folder, texts, add_special_tokens=False)
    np.testing.assert_allclose(metric.pairwise(REPLIES, [], PROMPT), expected, atol=2e-4)


def test_what_is_too_long_keeps_the_end_of_the_reply(made: Callable[..., Path]) -> None:
    metric = loaded("reward", model=str(made("Llama")), device="cpu", max_tokens=40)
    long = f"{'an old house ' * 30}{PROMPT}"
    with pytest.warns(TruncationWarning):
        cut = metric.pairwise(REPLIES[:2], [], long)
    with pytest.warns(TruncationWarning):
        same = metric.pairwise(REPLIES[:2], [], "more of it " + long)
    assert cut.tolist() == same.tolist()
    read = metric.scorer.reader.read([(long, REPLIES[0])])
    assert read.whole.ids.lengths.tolist() == [40]
    ends = metric.scorer.reader.tokenizer.decode(read.whole.ids.values[-12:].tolist())
    assert ends.endswith(f"{REPLIES[0][-4:]}</s>\n")


def test_refusals(made: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    for file in made("Llama").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelLoadError, match=r"no chat template.*chat_template\.jinja"):
        loaded("reward", model=str(folder)).scorer  # noqa: B018
    settings["chat_template"] = CHAT + "{{ raise_exception('no system') }}"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="no system"):
        loaded("reward", model=str(folder)).scorer  # noqa: B018
    with pytest.raises(ModelLoadError, match="no model is named"):
        loaded("reward").scorer  # noqa: B018


def test_the_cost_is_counted_without_weights(made: Callable[..., Path]) -> None:
    metric = loaded("reward", model=str(made("Llama")))
    scorer = metric.unloaded()
    counted = metric.with_scorer(scorer)
    reps, _ = scorer.prepare(counted.split([]) or [])
    assert len(reps["tokens"]) == 0
    from discorank.metrics.representations import Block
    from discorank.metrics.text.texts import Item

    reps, _ = scorer.prepare([Item(PROMPT), Item(REPLIES[0])])
    passes = scorer.passes(reps, Block(np.array([1]), np.array([], np.int64), 0))
    (length,) = passes.lengths.tolist()
    read = scorer.reader.read([(PROMPT, REPLIES[0])])
    assert length == read.whole.ids.lengths[0]
    assert passes.flops > 0
