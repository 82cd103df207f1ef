"""Documents, discourse annotations, contexts, and the comparisons made of them."""

from __future__ import annotations

import pickle
from collections import deque
from typing import Any

import pytest

from discorank import Context, Document, InputError, load_metric
from discorank.metrics.text.texts import (
    NO_CONTEXT,
    Comparison,
    Item,
    RSTTree,
    aligned,
    paired,
    preceding,
)

TREE = {
    "nuc": "NS",
    "rel": "Elaboration",
    "children": [["the", "cat"], {"nuc": "NN", "rel": "Joint", "children": [["a"], ["b"]]}],
}


def test_any_sequence_of_texts_is_scored() -> None:
    scores = load_metric("chrf").score(deque(["a b", "c"]), ["a b", "d"])
    assert scores.tolist() == [100, 0]


def test_a_document_is_a_value() -> None:
    foci: list[list[Any]] = [[("cat", 0, 3)], [["dog"]]]
    document = Document(["a", "b"], id="x", roles=[1, "Aim"], foci=foci, rst=TREE)
    assert document.sentences == ("a", "b")
    assert document.roles == (1, "Aim")
    assert document.foci == ((("cat", 0, 3),), (("dog",),))
    assert str(document) == "a b"
    assert pickle.loads(pickle.dumps(document)) == document
    same = Document(
        ("a", "b"), id="y", roles=(1, "Aim"), foci=((("cat", 0, 3),), (("dog",),)), rst=document.rst
    )
    assert same == document
    assert hash(same) == hash(document)
    with pytest.raises(AttributeError):
        document.id = "z"  # type: ignore[misc]


@pytest.mark.parametrize(
    "other", [Document(["a"]), Document(["a b"]), Document(["a", "b"], roles=[1, 2]), "a b"]
)
def test_documents_that_differ(other: Any) -> None:
    assert Document(["a", "b"]) != other


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        *(
            ({"sentences": value}, "sentences")
            for value in ("a text", ["a", 3], ["a", ["b"]], None, 3)
        ),
        *(({"roles": value}, "roles") for value in ([1, 2], [1.5], "ab", 3)),
        *(({"foci": value}, "foci") for value in ([], "a", [None])),
        *(
            ({"foci": [value]}, r"foci\[0\]")
            for value in ([("k", 1)], [("k", 1, "2")], [("k", -1, 2)], [(3, 1, 2)], [3])
        ),
        ({"rst": "words"}, "rst: .*'words'"),
        ({"rst": {"nuc": "N", "rel": "x"}}, "rst"),
        ({"rst": {"nuc": "NS", "rel": "x", "children": [["a"]]}}, "1 children"),
        ({"rst": {"nuc": "X", "rel": "x", "children": [["a"]]}}, "nuc"),
        ({"rst": {"nuc": "N", "rel": 3, "children": [["a"]]}}, "rel"),
        ({"rst": {"nuc": "N", "rel": "x", "children": [3]}}, r"rst.children\[0\]"),
    ],
)
def test_documents_that_are_refused(arguments: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError, match=found):
        Document(**{"sentences": ["a"], **arguments})


def test_a_context_has_lists_of_sentences() -> None:
    assert Context(source=["a"], target=["b", "c"]) == Context(("a",), ("b", "c"))
    with pytest.raises(InputError):
        Context(target="one sentence")


def test_a_tree_is_read_once() -> None:
    tree = RSTTree.read(TREE)
    assert tree == RSTTree(
        "NS", "Elaboration", (("the", "cat"), RSTTree("NN", "Joint", (("a",), ("b",))))
    )
    assert RSTTree.read(tree) is tree
    assert RSTTree.read(["a", "b"]) == ("a", "b")
    assert hash(tree) == hash(RSTTree.read(TREE))


def test_the_last_sentences_of_a_context() -> None:
    context = Context(source=("s1", "s2", "s3"), target=("t1",))
    assert context.last(2) == Context(("s2", "s3"), ("t1",))
    assert context.last(9) == context
    assert context.last(0) == NO_CONTEXT == Context()


def test_paired() -> None:
    comparison = paired(["h", "g"], ["r"], "s", Context(("s0",), ("t0",)))
    assert comparison == Comparison(
        (Item("h", ("t0",)), Item("g", ("t0",))),
        (Item("r", ("t0",)),),
        Item("s", ("s0",), "source"),
    )
    assert paired(["h"], ["h"], None, NO_CONTEXT).source is None


def test_paired_is_square_where_both_sides_are_equal() -> None:
    texts = ["a", "b"]
    for references in (texts, list(texts), tuple(texts)):
        comparison = paired(texts, references, None, NO_CONTEXT)
        assert comparison.references is comparison.hypotheses
    assert paired(texts, ["b", "a"], None, NO_CONTEXT).references is not None
    assert paired(["a"], [Document(["a"])], None, NO_CONTEXT).references != (Item("a"),)


def items(comparisons: list[Comparison], side: str) -> list[tuple[str, ...]]:
    return [getattr(comparison, side)[0].context for comparison in comparisons]


@pytest.mark.parametrize(
    ("at", "k", "start", "expected"),
    [
        (0, 2, 0, ""),
        (1, 2, 0, "a"),
        (3, 2, 0, "bc"),
        (3, 0, 0, ""),
        (3, 9, 0, "abc"),
        (5, 2, 0, "de"),
        (3, 2, 2, "c"),
        (3, 2, 3, ""),
    ],
)
def test_the_sentences_before(at: int, k: int, start: int, expected: str) -> None:
    assert preceding("abcde", at, k, start) == tuple(expected)


@pytest.mark.parametrize(
    ("context_from", "hypothesis"),
    [
        ("reference", [(), ("r0",), ("r0", "r1"), (), ("r3",)]),
        ("hypothesis", [(), ("h0",), ("h0", "h1"), (), ("h3",)]),
    ],
)
def test_aligned_reads_the_sentences_before_within_the_document(
    context_from: str, hypothesis: list[tuple[str, ...]]
) -> None:
    h, r, s = ([f"{side}{i}" for i in range(5)] for side in "hrs")
    comparisons = aligned(h, [[text] for text in r], s, ["d", "d", "d", "e", "e"], 2, context_from)
    assert items(comparisons, "hypotheses") == hypothesis
    assert items(comparisons, "references") == [(), ("r0",), ("r0", "r1"), (), ("r3",)]
    assert [c.source.context for c in comparisons if c.source] == [
        (),
        ("s0",),
        ("s0", "s1"),
        (),
        ("s3",),
    ]
    assert [c.source.side for c in comparisons if c.source] == ["source"] * 5


def test_aligned_gives_every_reference_its_own_context() -> None:
    comparisons = aligned(
        ["h0", "h1"], [["r0", "q0"], ["r1", "q1"]], None, ["d", "d"], 1, "reference"
    )
    assert comparisons[1].references == (Item("r1", ("r0",)), Item("q1", ("q0",)))
    assert comparisons[1].hypotheses == (Item("h1", ("r0",)),)
    free = aligned(["h0", "h1"], [[], []], None, ["d", "d"], 1, "reference")
    assert free[1].hypotheses == (Item("h1", ("h0",)),)


def test_aligned_without_context_needs_no_documents() -> None:
    assert aligned(["h0"], [["r0"]], None, None, 0, "reference") == [
        Comparison((Item("h0"),), (Item("r0"),))
    ]
    with pytest.raises(InputError, match="documents"):
        aligned(["h0"], [["r0"]], None, None, 1, "reference")
    with pytest.raises(InputError, match=r"documents\[3\]: 'd'"):
        aligned(["h"] * 4, [["r"]] * 4, None, ["d", "d", "e", "d"], 1, "reference")
