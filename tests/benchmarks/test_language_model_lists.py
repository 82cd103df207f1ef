"""The benchmark of real n-best lists: which sources it takes, what its choosers choose, how it scores them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

from benchmarks.choice_quality import language_model_lists
from benchmarks.choice_quality.language_model_lists import choices, documents_of, sources, table
from discorank.rerank.lists import Candidate, CandidateList

TEXTS = ("a cat sat here", "the cat sat", "the cat sat down", "no")


def record(i: int) -> CandidateList:
    return CandidateList(
        f"d{i // 2}:{i}",
        tuple(Candidate(f"{text} {i}") for text in TEXTS),
        source="s",
        references=(f"the cat sat down {i}", f"the cat sat down now {i}"),
        extra={"document_id": f"d{i // 2}"},
    )


def test_sources_are_of_many_documents_in_random_order(tmp_path: Path) -> None:
    rows = []
    for d in range(8):
        source = [f"document {d}, segment {i}, long enough" for i in range(3)]
        references = {"refA": ["a"] * 3, "refB": ["b"] * 3}
        rows.append({"id": f"d{d}", "source": [*source[:2], "short"], "references": references})
    path = tmp_path / "nbest_wmt22.en-de.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    few, more = list(sources(path, 5)), list(sources(path, 16))
    assert few == more[:5]
    assert len(more) == 16
    assert all(row["references"] == ["a", "b"] for row in few)
    assert len({row["document_id"] for row in few}) > 2
    assert len({row["id"] for row in more}) == 16


def test_choosers_take_what_their_values_say() -> None:
    records = [record(i) for i in range(4)]
    lm = [np.array([0.0, -1.0, -2.0, 5.0])] * 4
    chosen = choices(records, lm)
    assert chosen["sample"] == [f"a cat sat here {i}" for i in range(4)]
    assert chosen["`lm` given the source"] == [f"no {i}" for i in range(4)]
    assert chosen["oracle by chrF"] == [f"the cat sat down {i}" for i in range(4)]
    assert chosen["MBR `chrf`"][0] in ("the cat sat 0", "the cat sat down 0")


def test_choosers_are_scored_as_systems_with_differences_from_the_first() -> None:
    records = [record(i) for i in range(6)]
    good = [f"the cat sat down {i}" for i in range(6)]
    documents = documents_of(records, {"sample": [f"no {i}" for i in range(6)], "good": good})
    assert [document.segments for document in documents] == [2, 2, 2]
    assert list(documents[0].references) == ["ref0", "ref1"]
    lines = table(documents).splitlines()
    assert lines[0] == "| chosen by | `chrf` | `bleu` | `rouge-l` | `ter` |"
    sample, own = lines[2:]
    assert "; " not in sample
    assert own.startswith("| good | 100.0 [100.0, 100.0]; +")
    assert " | 0.0 [0.0, 0.0]; -" in own  # no edits, fewer than of the sample


def test_the_prompt_ends_where_a_translation_begins() -> None:
    assert language_model_lists.prompt("en-ru") == "English: {source}\nRussian:"
