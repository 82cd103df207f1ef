"""Bounds on what is read: their names, how they are raised, and what they bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import discorank
from discorank import CandidateList, InputError, load_metric, use_limits
from discorank.cli.main import main
from discorank.cli.options import field_helps
from discorank.integrations.formats.systems_document import read_document
from discorank.metrics.storage.checksums import with_checksum
from discorank.metrics.storage.json_and_yaml import check_json_size, parse_small_json
from discorank.metrics.storage.limits import Limits, limits, limits_of, set_limits
from discorank.rerank.features import weighted_features
from discorank.rerank.lists import read_list
from discorank.rerank.prior import KIND, read_prior

LIST = {"id": "a", "candidates": ["a", "b", "c"]}


def test_every_bound_says_what_it_bounds() -> None:
    names = {field.name for field in fields(Limits)}
    assert set(field_helps(Limits)) == names


def test_bounds_hold_inside_a_with_and_end_with_it() -> None:
    usual = limits()
    with use_limits(candidates=2, systems=5):
        assert (limits().candidates, limits().systems) == (2, 5)
        with use_limits(candidates=3):
            assert (limits().candidates, limits().systems) == (3, 5)
        assert limits().candidates == 2
    with pytest.raises(InputError, match="x"), use_limits(systems=1):
        limits().check("systems", 2, "x")
    assert limits() is usual


@pytest.mark.parametrize("value", [0, -1, 1.5, "9", True, None])
def test_a_bound_is_a_whole_number(value: Any) -> None:
    with pytest.raises(InputError, match="candidates"), use_limits(candidates=value):
        pass


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("candidate=3", "unknown limit 'candidate'. Did you mean 'candidates'"),
        ("candidates", "expected a whole number from 1"),
        ("candidates=", "expected a whole number from 1"),
        ("candidates=0", "expected a whole number from 1"),
        ("candidates=-3", "expected a whole number from 1"),
        ("candidates=1e5", "expected a whole number from 1"),
        ("candidates=" + "9" * 30, "expected a whole number from 1"),
        ("candidates=²", "expected a whole number from 1"),
    ],
)
def test_an_assignment_that_is_none(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=f"--max: .*{problem}"):
        limits_of([text])


READERS: dict[str, tuple[dict[str, int], Callable[[], object]]] = {
    "candidates: 3 candidates, at most 2": ({"candidates": 2}, lambda: read_list(LIST)),
    "pseudo_references: 3 candidates, at most 2": (
        {"candidates": 2},
        lambda: read_list({**LIST, "candidates": ["a"], "pseudo_references": list("abc")}),
    ),
    "references: 3 candidates, at most 2": (
        {"candidates": 2},
        lambda: read_list({**LIST, "candidates": ["a"], "references": list("abc")}),
    ),
    r"candidates\[0\]: 3 sentences, at most 2|candidates\[0\].text: 3 sentences, at most 2": (
        {"sentences": 2},
        lambda: read_list({"id": "a", "candidates": [{"text": ["a", "b", "c"]}]}),
    ),
    "source: 3 sentences, at most 2": (
        {"sentences": 2},
        lambda: read_list({"id": "a", "source": ["a", "b", "c"], "candidates": ["a"]}),
    ),
    "systems: 3 systems, at most 2": (
        {"systems": 2},
        lambda: read_document(
            {"id": "d", "systems": {"a": ["x"], "b": ["x"], "c": ["x"]}}, (), (), ()
        ),
    ),
    "more: 3 systems, at most 2": (
        {"systems": 2},
        lambda: read_document(
            {"id": "d", "systems": {"a": ["x"]}, "more": {"b": ["x"], "c": ["x"]}}, (), (), ["more"]
        ),
    ),
    "systems.a: 3 sentences, at most 2": (
        {"sentences": 2},
        lambda: read_document({"id": "d", "systems": {"a": ["x", "y", "z"]}}, (), (), ()),
    ),
    "prior: systems: 3 systems, at most 2": (
        {"systems": 2},
        lambda: read_prior({"kind": KIND, "format": 1, "systems": dict.fromkeys("abc")}),
    ),
    "signature: 3 metrics, at most 2": ({"metrics": 2}, lambda: load_metric("chrf + bleu + ter")),
    "features: 3 metrics, at most 2": (
        {"metrics": 2},
        lambda: weighted_features({"logprob": 1, "length": 1, "field:x": 1}),
    ),
    "more than 5 values in one line or file of JSON": (
        {"json_values": 5},
        lambda: parse_small_json(b"[1, 2, 3, 4, 5, 6, 7]", "x.json", ""),
    ),
}


@pytest.mark.parametrize("problem", READERS)
def test_more_than_the_bound_is_refused_and_can_be_allowed(problem: str) -> None:
    bounds, read = READERS[problem]
    (name,) = bounds
    with use_limits(**bounds), pytest.raises(InputError, match=f"(?s){problem}.*--max {name}="):
        read()
    if "prior" not in problem:  # which is no whole one
        read()


def test_the_features_of_a_combination(tmp_path: Path) -> None:
    feature = {"metric": "chrf", "weight": 1, "min": 0, "max": 1}
    path = tmp_path / "m.json"
    path.write_text(json.dumps(with_checksum({"format": 1, "features": [feature] * 3})))
    with use_limits(metrics=2), pytest.raises(InputError, match=r"m\.json: features: 3 metrics"):
        load_metric("combination", model=str(path))
    load_metric("combination", model=str(path))


def test_marks_in_texts_are_no_values() -> None:
    text = "x, [{" * 300
    line = json.dumps({"a": text, "b": ['"', "\\", text]}).encode()
    with use_limits(json_values=10):
        check_json_size(line + b" " * (1 << 21))
    with use_limits(json_values=4), pytest.raises(InputError, match="more than 4 values"):
        check_json_size(line + b" " * (1 << 21))


def test_the_command_line_and_a_config_file_raise_a_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists, config = tmp_path / "l.jsonl", tmp_path / "c.yaml"
    lists.write_text(json.dumps(LIST) + "\n")
    config.write_text("max: [candidates=2, systems=9]\n")
    command = ["decode", str(lists), "-u", "chrf", "--quiet"]
    assert main([*command, "--max", "systems=1", "--max", "candidates=2"]) == 3
    assert "3 candidates, at most 2 are read" in capsys.readouterr().err
    assert main([*command, "--config", str(config)]) == 3
    assert "3 candidates, at most 2 are read" in capsys.readouterr().err
    assert main([*command, "--set", "max=[candidates=2]"]) == 3
    assert main(command) == 0, "the bounds of a command end with it"
    assert main([*command, "--max", "candidates=3"]) == 0
    capsys.readouterr()
    assert main([*command, "--max", "nothing=3"]) == 2
    assert "unknown limit 'nothing'" in capsys.readouterr().err


def test_a_bound_is_no_part_of_a_run(tmp_path: Path) -> None:
    lists, out = tmp_path / "l.jsonl", tmp_path / "out.jsonl"
    lists.write_text(json.dumps(LIST) + "\n")
    command = ["decode", str(lists), "-u", "chrf", "--quiet", "-o", str(out)]
    assert main([*command, "--max", "candidates=3"]) == 0
    written = out.read_bytes()
    assert main(command) == 0
    assert out.read_bytes() == written


def test_a_list_made_in_python_is_not_read() -> None:
    with use_limits(candidates=1):
        record = CandidateList("a", tuple(map(discorank.Candidate, "abc")))
        assert str(discorank.decode(record, utility="chrf").text) in "abc"


def test_a_worker_of_ray_has_the_bounds_of_its_driver() -> None:
    from discorank.rerank.engines.ray.worker import Worker

    before = limits()
    try:
        Worker(None, Limits(layers=7))
        assert limits().layers == 7
    finally:
        set_limits(before)
