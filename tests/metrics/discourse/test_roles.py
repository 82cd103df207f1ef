"""Where roles come from: sentence classifiers of transformers and of our own training, and what is labelled by them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discorank import Document, InputError, ModelLoadError, load_metric
from discorank.cli.main import main
from discorank.metrics.discourse.roles.classifier import load_classifier, places
from discorank.metrics.discourse.roles.role_sources import SCHEMAS, Schema
from discorank.metrics.discourse.roles.training.role_training import (
    RoleTraining,
    figures,
    fit,
    read_labelled,
    train,
)
from discorank.metrics.execution.store import Store
from discorank.metrics.storage.checksums import with_checksum

from ...support.bit_flips import refused_flips

MODELS = Path(__file__).parents[2] / "golden" / "docmetrics" / "models"
TINY_BERT = str(MODELS / "tiny-bert")
LINEAR: dict[str, Any] = {
    "model": str(Path(__file__).parents[2] / "golden" / "pdd" / "tiny-roles"),
    "encoder_path": TINY_BERT,
}
NAMES = ("Main Event", "Current Context", "NA")
SENTENCES = [
    "the cat sat on a mat .",
    "a tree",
    "",
    "the the the",
    "on the cat a dog sat .",
    "a mat , a mat",
    "dog",
]
TEXT = "The cat sat on a mat. A dog sat. The tree was on the mat! A cat sat."


def metric_of(name: str, **settings: Any) -> Any:
    return load_metric(name, **settings)


def classifier_folder(
    folder: Path, family: str, names: tuple[str, ...] | None = NAMES, labels: int = 3
) -> Path:
    """A transformers model for sequence classification with random weights of some spread."""
    import torch
    import transformers

    torch.manual_seed(5)
    base = MODELS / ("tiny-roberta" if family == "Roberta" else "tiny-bert")
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    config = getattr(transformers, f"{family}Config")()
    own = json.loads((base / "config.json").read_text())
    small = (
        {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48}
        if family == "DistilBert"
        else own
    )
    config.update(
        {
            **small,
            "vocab_size": len(tokenizer),
            "num_labels": labels,
            "pad_token_id": tokenizer.pad_token_id,
        }
    )
    if names:
        config.update(
            {
                "id2label": dict(enumerate(names)),
                "label2id": {name: i for i, name in enumerate(names)},
            }
        )
    model = getattr(transformers, f"{family}ForSequenceClassification")(config)
    for name, weight in model.named_parameters():
        if name.startswith(("classifier", "pre_classifier")) and weight.dim() == 2:
            torch.nn.init.normal_(weight, std=1.0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def training_file(
    path: Path, splits: tuple[str | None, ...] = ("train", "train", "test"), count: int = 12
) -> Path:
    """Documents whose roles are told by a word."""
    random = np.random.default_rng(3)
    words = {"Main Event": "cat", "Consequence": "tree", "NA": "mat"}
    with open(path, "w", encoding="utf-8") as file:
        for i in range(count):
            roles = [str(role) for role in random.choice(list(words), 5)]
            sentences = [f"the {words[role]} {words[role]} {words[role]} ." for role in roles]
            split = splits[i % len(splits)]
            line = {"id": f"d{i}", "sentences": sentences, "roles": roles} | (
                {"split": split} if split else {}
            )
            file.write(json.dumps(line) + "\n")
    return path


def test_schemas_have_the_roles_of_their_papers() -> None:
    assert [len(SCHEMAS[name]) for name in ("news", "lfqa", "recipes")] == [9, 6, 7]
    assert Schema.of("news").kept == 8
    assert Schema.of("lfqa").numbers(["Miscellaneous", 0]).tolist() == [5, 0]
    assert Schema.of("news").numbers(["NA", "Consequence", 8]).tolist() == [1]


# --- transformers


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
def test_labels_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    import torch
    import transformers

    folder = classifier_folder(tmp_path / family, family)
    classifier = load_classifier(folder, "cpu", "float32")
    ids = classifier.reader.read([_item(sentence) for sentence in SENTENCES])["ids"]
    labels = classifier.labels(ids, np.array([len(SENTENCES)]))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        logits = np.array(
            [
                model(**tokenizer(sentence, return_tensors="pt")).logits[0].numpy()
                for sentence in SENTENCES
            ]
        )
    assert labels.tolist() == logits.argmax(axis=1).tolist()
    assert classifier.names == NAMES
    run: Any = classifier
    own = run.model.logits(ids)
    np.testing.assert_allclose(own, logits, atol=1e-5)
    alone = [run.model.logits(ids[np.array([i])]) for i in range(len(ids))]
    assert np.concatenate(alone).tobytes() == own.tobytes()


def _item(sentence: str) -> Any:
    from discorank.metrics.text.texts import Item

    return Item(sentence)


def test_a_transformers_classifier_labels_plain_texts(tmp_path: Path) -> None:
    folder = classifier_folder(tmp_path / "c", "Bert")
    metric = metric_of("role-match", model=str(folder), drop=())
    document = Document(
        ["The cat sat on a mat.", "A dog sat.", "The tree was on the mat!", "A cat sat."]
    )
    assert metric.pairwise([TEXT], [document])[0, 0] == 1
    assert metric.signature().startswith(f'role-match(model="{folder}@sha256:')
    assert metric_of(metric.signature()) == metric


def test_labels_without_names_take_those_of_the_schema(tmp_path: Path) -> None:
    folder = str(classifier_folder(tmp_path / "c", "Bert", None))
    own = metric_of("pdd", model=folder, schema=("x", "y", "z"))
    assert own.scorer.schema.names == ("x", "y", "z")
    assert metric_of("pdd", model=folder).scorer.schema.names == ("LABEL_0", "LABEL_1", "LABEL_2")
    with pytest.raises(InputError, match="3 labels for 9 roles"):
        _ = metric_of("pdd", model=folder, schema="news").scorer


def test_labels_may_stand_in_another_order_than_the_schema(tmp_path: Path) -> None:
    folder = str(classifier_folder(tmp_path / "c", "Bert", ("Current Context", "Main Event", "NA")))
    by_schema, by_label = (
        metric_of("pdd", model=folder, schema=schema) for schema in ("news", None)
    )
    texts = [TEXT, "A tree. A dog sat on the cat. The mat.", "The dog. The dog sat."]
    np.testing.assert_allclose(
        by_schema.pairwise(texts, texts), by_label.pairwise(texts, texts), atol=1e-9
    )
    with pytest.raises(InputError, match="'Current Context'"):
        _ = metric_of("pdd", model=folder, schema="lfqa").scorer


def test_what_is_no_classifier(tmp_path: Path) -> None:
    for model in (classifier_folder(tmp_path / "c", "Bert", None, labels=1), TINY_BERT):
        with pytest.raises(ModelLoadError):
            _ = metric_of("pdd", model=str(model)).scorer


# --- both sides alike


def test_a_classifier_labels_both_sides_even_those_with_roles() -> None:
    metric = metric_of("pdd", **LINEAR)
    sentences = ["the cat sat .", "a dog !", "the tree"]
    lying = Document(sentences, roles=["Consequence"] * 3)
    assert metric.pairwise([lying], [Document(sentences)])[0, 0] == 0


def test_blank_sentences_are_none() -> None:
    metric = metric_of("role-match", **LINEAR, drop=())
    with_blanks, without = Document(["", "the cat sat .", " "]), Document(["the cat sat ."])
    assert metric.pairwise([with_blanks], [without])[0, 0] == 1
    assert metric.pairwise([Document(["", " "])], [without, "", Document([])]).tolist() == [
        [0, 0, 0]
    ]


def test_the_splitter_is_a_setting() -> None:
    text = "The cat sat on p. 3 of a mat. A dog sat."
    store = {
        name: Store(metric_of("pdd", **LINEAR, drop=(), sentences=name).scorer)
        for name in ("rule", "pysbd:en")
    }
    for name, own in store.items():
        own.add([metric_of("pdd").comparison([text], [text], None, _no_context())])
        expected = len(metric_of("pdd", **LINEAR, sentences=name).scorer.split(text))
        assert own.reps["roles"].lengths.tolist() == [expected]


def _no_context() -> Any:
    from discorank.metrics.text.texts import NO_CONTEXT

    return NO_CONTEXT


# --- training


def test_the_linear_layer_is_the_minimum() -> None:
    """The gradient of the objective is zero."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(60, 5)), random.integers(3, size=60)
    weight, bias = fit(x, y, 3, 0.01)
    logits = x @ weight.T + bias
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    wrong = (p - np.eye(3)[y]) / len(x)
    np.testing.assert_allclose(wrong.T @ x + 2 * 0.01 * weight, 0, atol=1e-5)
    np.testing.assert_allclose(wrong.sum(axis=0), 0, atol=1e-5)


def test_places() -> None:
    np.testing.assert_allclose(
        places(np.array([2, 1])),
        [[0.25, 1 / 16, 1, 0.5], [0.75, 9 / 16, 0.5, 1], [0.5, 0.25, 1, 1]],
    )


def test_train_a_linear_classifier_and_decode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = training_file(tmp_path / "data.jsonl"), tmp_path / "roles"
    assert (
        main(
            [
                "train",
                "roles",
                str(data),
                "-o",
                str(out),
                "--encoder",
                TINY_BERT,
                "--format",
                "json",
            ]
        )
        == 0
    )
    quality = json.loads(capsys.readouterr().out)
    assert quality["accuracy"] == 100
    assert quality["documents"] == 4
    assert quality["majority"] < 60
    assert {path.name for path in out.iterdir()} == {"config.json", "model.safetensors"}
    metric = metric_of("role-match", model=str(out))
    both = [Document(["the cat cat .", "the tree tree ."]), Document(["the tree .", "the cat ."])]
    assert metric.pairwise(both, both).tolist() == [[1, 0], [0, 1]]
    lists = tmp_path / "lists.jsonl"
    tree, cat = "The tree tree tree .", "The cat cat cat ."
    lists.write_text(
        json.dumps({"id": "a", "candidates": [tree, f"{cat} {tree}", f"{cat} {tree} {tree}"]})
    )
    assert main(["decode", str(lists), "-u", "pdd", "--model", str(out), "--quiet"]) == 0
    # ln(3/2) from the first in one bin, 0 from the second in two
    assert json.loads(capsys.readouterr().out)["index"] == 2


def test_without_a_split_a_fifth_is_for_testing(tmp_path: Path) -> None:
    train_part, test_part = read_labelled(
        training_file(tmp_path / "a.jsonl", (None,), 20), Schema.of("news", ())
    )
    assert (len(train_part), len(test_part)) == (16, 4)


def test_figures() -> None:
    _, documents = [], [_labelled([0, 0, 1]), _labelled([1])]
    quality = figures(documents, np.array([0, 1, 1, 1]), ("a", "b", "c"), 1)
    assert quality["accuracy"] == 75
    assert quality["majority"] == 50
    assert quality["f1"] == pytest.approx({"a": 200 / 3, "b": 80})
    assert quality["macro_f1"] == pytest.approx((200 / 3 + 80) / 2)
    assert quality["low"] <= 75 <= quality["high"]


def _labelled(roles: list[int]) -> Any:
    from discorank.metrics.discourse.roles.training.role_training import Labelled

    return Labelled("a", ("x",) * len(roles), np.array(roles))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{", "data.jsonl:1"),
        ("[]", "data.jsonl:1"),
        ('{"sentences": ["a"], "roles": []}', "data.jsonl:1"),
        ('{"sentences": ["a"], "roles": ["Main Event", "NA"]}', "data.jsonl:1: roles"),
        ('{"sentences": ["a"], "roles": ["Main"]}', r"data.jsonl:1: roles\[0\].*'Main'"),
        ('{"sentences": ["a"], "roles": [0], "split": "ood"}', "data.jsonl:1.*'ood'"),
        ('{"sentences": ["a"], "roles": [0], "split": "test"}', "0 documents to train on"),
    ],
)
def test_training_data_that_are_refused(line: str, found: str, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=found):
        train(RoleTraining(encoder=TINY_BERT), path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_classifier_is_never_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = training_file(tmp_path / "data.jsonl")
    assert main(["train", "roles", str(data), "-o", str(tmp_path), "--encoder", TINY_BERT]) == 2
    assert "is there already. Name a new folder" in capsys.readouterr().err
    assert (
        main(["train", "roles", str(data), "-o", str(tmp_path / "a" / "b"), "--encoder", TINY_BERT])
        == 2
    )


def test_flipped_bits_of_a_classifier_are_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LINEAR["model"], tmp_path / "roles"))

    def names() -> object:
        return load_classifier(folder, "cpu", "float32", TINY_BERT).names

    expected = names()
    assert refused_flips(folder / "config.json", names, expected, 20)
    assert refused_flips(folder / "model.safetensors", names, expected, 5) == 5


def test_broken_classifiers(tmp_path: Path) -> None:
    folder = tmp_path / "roles"
    shutil.copytree(LINEAR["model"], folder)

    def refused(found: str, **settings: str) -> None:
        with pytest.raises(ModelLoadError, match=found):
            _ = metric_of("pdd", model=str(folder), **settings).scorer

    refused("tiny-bert|encoder")  # its encoder is not here under its name
    refused("digest", encoder_path=str(MODELS / "tiny-xlmr"))
    (folder / "model.safetensors").write_bytes(b"no")
    refused("model.safetensors", encoder_path=TINY_BERT)
    config = json.loads((folder / "config.json").read_text())
    del config["files"]
    (folder / "config.json").write_text(json.dumps(with_checksum(config)))
    refused("model.safetensors", encoder_path=TINY_BERT)
    (folder / "config.json").write_text("{")
    refused("config.json")
