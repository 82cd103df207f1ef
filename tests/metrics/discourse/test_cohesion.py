"""Cohesion by nouns: golden values, degenerate texts, features, entities and word vectors."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import Document, InputError, load_metric
from discorank.metrics.discourse.coherence.entities import (
    components,
    named_by_longest,
    named_by_members,
    read_vectors,
)
from discorank.metrics.discourse.coherence.foci import adjacency, conn, freq, grid_of

from .test_discoscore import BOUNDED, CASES, DOCUMENTS, TINY, VECTORS, documents

ALONE: dict[str, dict[str, Any]] = {
    "RC": {"name": "cohesion", "measure": "rc"},
    "LC": {"name": "cohesion"},
    "EntityGraph": {"name": "entity-graph"},
    "EntityGraph_weighted": {"name": "entity-graph", "weighted": True},
    "LexicalGraph": {"name": "entity-graph", "focus": "entity", "vectors": VECTORS},
}


@pytest.mark.parametrize("case", ALONE)
def test_golden_values_of_single_texts(case: str) -> None:
    values = load_metric(ALONE[case]).score(list(DOCUMENTS.values()))
    expected = [CASES["expected"]["single_text"][name][case] for name in DOCUMENTS]
    np.testing.assert_allclose(values, expected, atol=1e-12)


def test_golden_chains() -> None:
    metric: Any = load_metric("lexical-chain")
    expected = CASES["expected"]["tiny2"]["ones"]["pairs"]["LexicalChain"]
    values = metric.pairwise(list(DOCUMENTS.values()), list(DOCUMENTS.values()))
    np.testing.assert_allclose(
        values, [[expected[h][r] for r in DOCUMENTS] for h in DOCUMENTS], atol=1e-12
    )


@given(texts=st.lists(documents(), min_size=2, max_size=4))
@BOUNDED
def test_chains_pair_by_pair(texts: list[Document]) -> None:
    metric: Any = load_metric("lexical-chain")
    values = metric.pairwise(texts, texts)
    for i, h in enumerate(texts):
        for j, r in enumerate(texts):
            a, b = (
                {
                    key: set(at)
                    for key, at in grid_of([f[0] for f in some] for some in text.foci or ()).items()
                }
                for text in (h, r)
            )
            chains = [key for key in a.keys() & b.keys() if len(a[key]) > 1 and len(b[key]) > 1]
            assert values[i, j] == pytest.approx(
                sum(len(a[key] & b[key]) / len(b[key]) for key in chains)
            )
    assert metric.score(texts[:1], [texts])[0] == values[0].max()


@pytest.mark.parametrize("case", [*ALONE.values(), {"name": "lexical-chain"}], ids=str)
def test_texts_without_nouns_or_sentences(case: dict[str, Any]) -> None:
    metric: Any = load_metric(case)
    texts = [
        Document([], foci=[]),
        Document(["it is ."], foci=[[]]),
        Document(["a", "b"], foci=[[], []]),
    ]
    assert metric.score(texts, texts).tolist() == [0, 0, 0]


def test_similar_nouns_join_sentences_by_their_own_vectors_too() -> None:
    text = Document(["the boat .", "a car ."], foci=[[("boat", 4, 8)], [("car", 2, 5)]])
    one: Any = load_metric("entity-graph", focus="entity", model=TINY, threshold=-1.0)
    none: Any = load_metric("entity-graph", focus="entity", model=TINY, threshold=1.0)
    assert (one.score([text])[0], none.score([text])[0]) == (0.5, 0)
    assert list(one.explain(text)[0]["shared"].values()) == [[0, 1]]


@given(text=documents())
@BOUNDED
def test_rc_is_freq_times_lc(text: Document) -> None:
    rc, lc = (load_metric("cohesion", measure=m).score([text])[0] for m in ("rc", "lc"))
    grid = grid_of([focus[0] for focus in foci] for foci in text.foci or ())
    assert rc == pytest.approx(freq(grid) * lc)
    graph: Any = load_metric("entity-graph", weighted=True)
    num_sentences = len(text.sentences)
    conn_of_text = conn(adjacency(grid, num_sentences, weighted=True))
    assert graph.score([text])[0] == pytest.approx(conn_of_text * max(1, num_sentences))
    mean: Any = load_metric("entity-graph", weighted=True, mean="matrix")
    assert mean.score([text])[0] == pytest.approx(conn_of_text)


def test_grids_and_graphs_by_hand() -> None:
    grid = grid_of([["cat", "mat", "cat"], [], ["cat", "mat"]])
    assert grid == {"cat": [0, 0, 2], "mat": [0, 2]}
    assert adjacency(grid, 3).tolist() == [[0, 0, 0.5], [0, 0, 0], [0, 0, 0]]
    assert adjacency(grid, 3, weighted=True)[0, 2] == 1
    assert [freq(grid), freq({"cat": [0]})] == [2.5, 0]
    assert conn(adjacency(grid, 3)) == pytest.approx(0.5 / 9)
    assert conn(adjacency({}, 0)) == 0


def test_entities_are_connected_components() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9], [0, 0]], np.float32)
    assert components(vectors, 0.9) == [[0, 1], [2, 3], [4]]
    assert components(vectors[:0], 0.9) == []
    chain = np.array([[np.cos(a), np.sin(a)] for a in (0, 0.5, 1.0)])
    assert components(chain, np.cos(0.6)) == [[0, 1, 2]]  # the ends by way of the middle
    words = dict(zip(["car", "truck", "sea"], vectors, strict=False))
    assert named_by_members(["truck", "car", "sea", "cart"], words, 0.9) == {
        "car": "car-truck",
        "truck": "car-truck",
        "sea": "sea",
        "cart": "cart",
    }
    assert named_by_longest(["a", "b"], np.array([[1.0, 0], [2, 0]]), 0.9) == {"a": "b", "b": "b"}
    assert named_by_longest(["b", "a"], np.array([[1.0, 0], [1, 0]]), 0.9) == {"a": "a", "b": "a"}


@pytest.mark.parametrize("header", ["", "3 2\n"])
@pytest.mark.parametrize("suffix", ["txt", "gz", "bz2"])
def test_word_vectors(tmp_path: Path, header: str, suffix: str) -> None:
    path = tmp_path / f"vectors.{suffix}"
    data = f"{header}Car 1 0\nnew\u00a0york 2 1e-1\ncar 3 0 \n".encode()
    path.write_bytes({"txt": data, "gz": gzip.compress(data), "bz2": bz2.compress(data)}[suffix])
    vectors = read_vectors(str(path))
    assert {word: vector.tolist() for word, vector in vectors.items()} == {
        "car": [3, 0],
        "new\u00a0york": [2, pytest.approx(0.1)],
    }


def test_words_with_spaces_are_known_by_the_header(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("2 2\n. . 1 0\na 0 1\n")
    assert sorted(read_vectors(str(path))) == [". .", "a"]


BROKEN: dict[str, tuple[bytes, str]] = {
    "a.txt": (b"car 1 0\ntruck 1\n", "line 2"),
    "b.txt": (b"car 1 x\n", "line 1"),
    "c.txt": (b"car 1 nan\n", "line 1"),
    "d.txt": (b"", "d.txt"),
    "e.txt": (b"caf\xe9 1 0\n", "e.txt"),
    "f.gz": (gzip.compress(b"car 1 0\n")[:-9], "f.gz"),
    "g.gz": (gzip.compress(b"car 1 0\n" * 99)[:12] + b"\xff\xff\xff\xff\xff", "g.gz"),
    "h.txt": (b"car\n", "line 1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_word_vectors(tmp_path: Path, name: str) -> None:
    data, message = BROKEN[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_vectors(str(tmp_path / name))
