"""Hugging Face datasets into decoders and out of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from discorank import MBRDecoder, Reranker, to_dataset
from discorank.metrics.errors import InputError, ModelLoadError
from discorank.rerank.runs.run import json_row

datasets: Any = pytest.importorskip("datasets")
ROWS: list[dict[str, Any]] = [
    {"id": "a", "candidates": ["the cat", "a cat sat", "the cat sat"], "topic": "cats"},
    {"id": "b", "candidates": ["x y", "x z", "x y z"], "topic": None},
]
OBJECTS = [
    {
        "id": "a",
        "source": "s",
        "candidates": [{"text": "x y", "logprob": -1.0}, {"text": "x", "logprob": None}],
        "references": None,
    },
    {
        "id": "b",
        "source": None,
        "candidates": [{"text": "p q", "logprob": -2.0}, {"text": "p", "logprob": -1.0}],
        "references": ["r"],
    },
]


def test_a_dataset_is_decoded_as_its_rows() -> None:
    decoder = MBRDecoder(utility="chrf", nbest=None)
    expected = [json_row(ranking) for ranking in decoder.decode([ROWS[0], {**ROWS[1]}])]
    found = [json_row(ranking) for ranking in decoder.decode(datasets.Dataset.from_list(ROWS))]
    assert found[0] == expected[0]
    # null and missing are the same in a dataset
    row = json.loads(expected[1])
    assert row.pop("topic") is None
    assert json.loads(found[1]) == row


def test_a_streamed_dataset_is_decoded_too() -> None:
    dataset = datasets.Dataset.from_list(ROWS).to_iterable_dataset()
    assert [ranking.text for ranking in MBRDecoder(utility="chrf").decode(dataset)] == [
        "the cat sat",
        "x y z",
    ]


def test_candidates_with_fields_and_nulls() -> None:
    dataset = datasets.Dataset.from_list(OBJECTS)
    with pytest.raises(InputError, match=r"list 'a'.*logprob"):
        list(Reranker(features={"logprob": 1.0}).decode(dataset))
    [ranking] = Reranker(features={"logprob": 1.0}).decode(dataset.select([1]))
    assert (ranking.index, ranking.text) == (1, "p")


def test_rows_without_ids_have_their_numbers() -> None:
    dataset = datasets.Dataset.from_list(ROWS).remove_columns("id")
    rankings = MBRDecoder(utility="chrf").decode(dataset)
    assert [ranking.id for ranking in rankings] == ["0", "1"]


def test_ids_that_are_numbers_become_their_digits() -> None:
    dataset = datasets.Dataset.from_list([{**row, "id": i + 5} for i, row in enumerate(ROWS)])
    assert [ranking.id for ranking in MBRDecoder(utility="chrf").decode(dataset)] == ["5", "6"]


def test_splits_are_not_lists() -> None:
    splits = datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)})
    with pytest.raises(InputError, match=r"found a DatasetDict of the splits train.*\['train'\]"):
        list(MBRDecoder(utility="chrf").decode(splits))


def test_what_was_chosen_is_a_dataset() -> None:
    decoder = MBRDecoder(utility="chrf", nbest=2)
    rankings = list(decoder.decode(datasets.Dataset.from_list(ROWS)))
    made = to_dataset(iter(rankings))
    assert isinstance(made, datasets.Dataset)
    expected = [json.loads(json_row(ranking)) for ranking in rankings]
    assert made.to_list() == [{"topic": None, **row} for row in expected]
    assert list(made.features) == ["id", "index", "text", "utility", "gap", "ranking", "topic"]
    assert made.filter(lambda row: row["id"] == "b")["text"] == ["x y z"]


def test_the_package_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from discorank.metrics import optional_packages

    monkeypatch.setattr(
        optional_packages, "find_spec", lambda name: None if name == "datasets" else name
    )
    with pytest.raises(ModelLoadError, match=r'pip install "discorank\[datasets\]"'):
        to_dataset([])
