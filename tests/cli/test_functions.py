"""The functions of discorank: what the commands do, of values of any library, in one list or several."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discorank
from discorank import Candidate, CandidateList, Document, InputError, MBRDecoder, Reranker
from discorank.cli.main import main
from discorank.functions import (
    DecodeSettings,
    ListKeys,
    RerankSettings,
)
from discorank.metrics.spec.checked_settings import setting_names
from discorank.metrics.text.texts import plain_value

TEXTS = ["a cat sat", "the cat sat", "a dog"]
BEST = "the cat sat"
OTHERS = ["x", "y y", "y"]


def torch_of(values: list[float]) -> Any:
    return pytest.importorskip("torch").tensor(values)


def series_of(values: list[Any]) -> Any:
    return pytest.importorskip("pandas").Series(values)


def column_of(values: list[Any]) -> Any:
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_dict({"texts": values})["texts"]


@pytest.mark.parametrize("kind", [list, tuple, np.array, series_of, column_of])
def test_texts_of_any_library_are_one_list(kind: Callable[[Any], Any]) -> None:
    assert discorank.decode(kind(TEXTS), "chrf").text == BEST


@pytest.mark.parametrize("kind", [list, tuple, np.array, series_of, column_of, iter])
def test_lists_of_any_library_are_several(kind: Callable[[Any], Any]) -> None:
    rankings = discorank.decode(kind([TEXTS, OTHERS]), "chrf")
    assert [ranking.text for ranking in rankings] == [BEST, "y y"]
    if kind is not iter:
        decoded = MBRDecoder("chrf").decode(kind([TEXTS, OTHERS]))
        assert [ranking.text for ranking in decoded] == [BEST, "y y"]


@pytest.mark.parametrize("kind", [list, np.array, np.float32, torch_of, series_of])
def test_log_probabilities_of_any_library(kind: Callable[[Any], Any]) -> None:
    logprobs = (
        kind([-1.0, -9.0, -9.0]) if kind is not np.float32 else np.array([-1, -9, -9], np.float32)
    )
    assert discorank.rerank(TEXTS, "logprob", logprobs=logprobs).text == TEXTS[0]
    of_two = discorank.rerank([TEXTS, OTHERS], "logprob", logprobs=[logprobs, logprobs])
    assert [ranking.index for ranking in of_two] == [0, 0]


def test_a_list_in_its_other_forms() -> None:
    record = CandidateList("a", tuple(map(Candidate, TEXTS)))
    assert discorank.decode(record, "chrf").text == BEST
    assert discorank.decode({"candidates": TEXTS}, "chrf").text == BEST
    assert discorank.decode({"prompt": "p", "responses": TEXTS}, "chrf").text == BEST
    objects: Any = [{"text": text, "logprob": np.float64(-1)} for text in TEXTS]
    assert discorank.decode(objects, "chrf", weights="logprob").text == BEST
    documents = [Document([text]) for text in TEXTS]
    assert discorank.decode(documents, "chrf").text == Document([BEST])


def test_data_frames_and_datasets() -> None:
    pandas, datasets = pytest.importorskip("pandas"), pytest.importorskip("datasets")
    rows = [{"src": "s", "out": text, "score": 0.5} for text in TEXTS]
    rows += [{"src": "t", "out": text, "score": None} for text in OTHERS]
    flat = discorank.decode(pandas.DataFrame(rows), "chrf", columns=["source=src", "text=out"])
    assert [ranking.text for ranking in flat] == [BEST, "y y"]
    assert flat[0].candidates[0].fields == {"score": 0.5}
    assert flat[1].candidates[0].fields == {}
    broken = pandas.DataFrame({"candidates": [TEXTS, None]})
    with pytest.raises(InputError, match="data frame:2: candidates: no candidates"):
        discorank.decode(broken, "chrf")
    frame = pandas.DataFrame({"id": [1, 2], "candidates": [TEXTS, OTHERS]})
    assert [ranking.id for ranking in MBRDecoder("chrf").decode(frame)] == ["1", "2"]
    whole = datasets.Dataset.from_dict({"samples": [TEXTS, OTHERS]})
    named = discorank.decode(whole, "chrf", columns=["candidates=samples"])
    assert [ranking.text for ranking in named] == [BEST, "y y"]


def test_files_are_read_as_the_commands_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["decode", "examples:demo.jsonl", "-u", "chrf", "-o", "out", "--quiet"]) == 0
    written = [json.loads(line)["text"] for line in Path("out").read_text().splitlines()]
    assert [ranking.text for ranking in discorank.decode("examples:demo.jsonl", "chrf")] == written
    lists = discorank.read("examples:nbest.moses", "moses", sources="examples:src.txt")
    assert len(lists) == 12
    assert lists[0].source is not None
    with pytest.raises(InputError, match=r"unknown example 'demo'. Did you mean 'demo.jsonl'"):
        discorank.read("examples:demo")
    Path("bad.jsonl").write_text('{"candidates": []}\n')
    with pytest.raises(InputError, match=r"bad.jsonl:1: candidates: no candidates"):
        discorank.read("bad.jsonl")


def test_what_stands_beside_texts() -> None:
    against = discorank.decode(TEXTS, "chrf", pseudo_references=["a dog"], source="s")
    assert (against.text, against.source) == ("a dog", "s")
    two = discorank.decode([TEXTS, OTHERS], "chrf", pseudo_references=[["a dog"], ["x"]])
    assert [ranking.text for ranking in two] == ["a dog", "x"]


def test_expected_utility_is_a_feature() -> None:
    reranked = discorank.rerank(TEXTS, "2*expected", utility="chrf", self_pair=False)
    decoded = discorank.decode(TEXTS, "chrf", self_pair=False)
    assert reranked.text == decoded.text
    assert reranked.utility == pytest.approx(2 * (decoded.utility or 0))


def test_an_explanation_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explain", "examples:demo.jsonl", "-u", "chrf", "--id", "ferry:1"]
    assert main([*command, "--nbest", "1"]) == 0
    record = discorank.read("examples:demo.jsonl")[1]
    explained = discorank.explain(record, "chrf", nbest=1)
    assert repr(explained) == capsys.readouterr().out
    assert explained.data["id"] == explained.ranking.id == "ferry:1"
    assert len(discorank.explain("examples:demo.jsonl", "chrf")) == 3


def test_scores_and_their_signature() -> None:
    one = discorank.score(np.array(["a cat"]), np.array(["the cat"]))
    metric = discorank.load_metric("chrf")
    assert one.corpus == metric.corpus(["a cat"], ["the cat"])
    assert one.segments == metric.score(["a cat"], ["the cat"])
    assert repr(one).startswith("chrf|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")
    several = discorank.score(["a cat"], [["a cat", "the cat"]], metrics=["chrf", "bleu"])
    assert [scores.signature for scores in several] == ["chrf", "bleu"]
    assert "|nrefs:2|" in several[0].quoted


def test_metrics_print_as_the_command_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics"]) == 0
    assert capsys.readouterr().out == f"{discorank.metrics()!r}\n"
    assert discorank.metrics()["ter"].higher_is_better is False


def test_systems_of_a_file_and_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    of_file = discorank.compare("examples:systems.jsonl", human="mqm:lower", draws=20)
    assert of_file.best == "brook"
    frame = pandas.DataFrame({"a": ["x y", "z"], "b": ["x", "q"]})
    of_frame = discorank.compare(frame, pandas.Series(["x y", "z"]), draws=20)
    assert of_frame.best == "a"
    with pytest.raises(InputError, match="references: stands beside a systems file"):
        discorank.compare("examples:systems.jsonl", ["x"])
    with pytest.raises(InputError, match=r"human: .*Give scores by system"):
        discorank.compare({"a": ["x"]}, ["x"], human="mqm")


def test_keywords_are_the_settings_and_are_seen() -> None:
    """What type checkers complete from the TypedDict is what the classes take, and what `help` shows."""
    of_lists = set(ListKeys.__annotations__)
    decoder = set(setting_names(MBRDecoder)) - {"utility"}
    assert set(DecodeSettings.__annotations__) - of_lists == decoder
    reranker = set(setting_names(Reranker)) - {"features", "decoder", "keep_matrix"}
    of_expected = {"utility", "weights", "self_pair"}
    assert set(RerankSettings.__annotations__) - of_lists == reranker | of_expected
    for function in (discorank.decode, discorank.explain):
        assert {"nbest", "weights", "logprobs"} <= set(inspect.signature(function).parameters)
    assert "normalize" in inspect.signature(discorank.rerank).parameters


def test_packages_are_functions_too() -> None:
    import discorank.metrics.base
    import discorank.rerank.mbr

    assert discorank.metrics.base.Metric is discorank.Metric  # type: ignore[attr-defined]
    assert discorank.rerank(TEXTS, "length").text == BEST


def test_plain_values_stay_the_same_object() -> None:
    values = ["a"] * 3
    assert plain_value(values) is values
    nested = plain_value({"a": [np.int64(3), np.array([[1.5]])], "b": "x"})
    assert nested == {"a": [3, [[1.5]]], "b": "x"}
    assert type(nested["a"][0]) is int
