"""All-subtree kernels: golden values, the fast path against the definition, big trees, metrics."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discorank import Document, InputError, load_metric
from discorank.metrics.representations import Block, FloatArray, Reps
from discorank.metrics.rst import kernel_matrix
from discorank.metrics.rst.kernel_matrix import columns, kernels, nodes
from discorank.metrics.rst.trees import (
    REPRESENTATIONS,
    Labelled,
    Lexical,
    Preprocessing,
    Tree,
    represent,
)
from discorank.metrics.text.texts import RSTTree

from ...support.examples import examples
from ...support.trees import GOLDEN, bracketed, kernel, plain, trees

BOUNDED = examples(10)
AS_GIVEN = Preprocessing(lowercase=False, binary=False, coarse=False)
SOURCES = [RSTTree.read(case["source"]) for case in GOLDEN["trees"]]
SETTINGS = {
    "DR": load_metric("dr", lowercase=False, binarize=None),
    "DR-LEX": load_metric("dr-lex", lowercase=False, binarize=None),
    "no_rel": load_metric("dr-lex", lowercase=False, binarize=None, ignore="relations"),
    "no_nuc": load_metric("dr-lex", lowercase=False, binarize=None, ignore="nuclearity"),
    "no_nuc_no_rel": load_metric("dr-lex", lowercase=False, binarize=None, ignore="both"),
    "no_discourse": load_metric("dr-lex", lowercase=False, binarize=None, ignore="tree"),
    "DR-LEX1.1": load_metric("dr-lex", words="nuclearity", lowercase=False, binarize=None),
    "DR-LEX2": load_metric("dr-lex", words="relation", lowercase=False, binarize=None),
    "DR-LEX2.1": load_metric("dr-lex", words="both", lowercase=False, binarize=None),
}


def fragments(tree: Labelled) -> dict[tuple[str, int], int]:
    """Every fragment as text with its number of expanded nodes, and how often it occurs: the definition itself."""
    counts: dict[tuple[str, int], int] = {}

    def rooted(node: Labelled) -> list[tuple[str, int]]:
        """Fragments with this node as their root."""
        if isinstance(node, str):
            return []
        label, children = node
        ways = [("", 1)]
        for child in children:
            bare = child if isinstance(child, str) else child[0]
            options = [(f"[{bare}]", 0), *rooted(child)]
            ways = [(text + more, n + m) for text, n in ways for more, m in options]
        return [(f"[{label}{text}]", n) for text, n in ways]

    def visit(node: Labelled) -> None:
        for fragment in rooted(node):
            counts[fragment] = counts.get(fragment, 0) + 1
        for child in () if isinstance(node, str) else node[1]:
            visit(child)

    visit(tree)
    return counts


def matrix(representations: list[Labelled], decay: float, log: bool = False) -> FloatArray:
    rows = np.arange(len(representations))
    return kernels(columns(representations)[0], [Block(rows, rows)], decay, log)[0]


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_golden_representations(name: str) -> None:
    for case, tree in zip(GOLDEN["trees"], SOURCES, strict=True):
        assert (
            bracketed(represent(tree, REPRESENTATIONS[name], AS_GIVEN)) == case["bracketed"][name]
        )


@pytest.mark.parametrize("name", REPRESENTATIONS)
@pytest.mark.parametrize(("decay", "key"), [(1.0, "raw"), (0.4, "raw_decay_0.4")])
def test_golden_kernels(name: str, decay: float, key: str) -> None:
    labelled = [represent(tree, REPRESENTATIONS[name], AS_GIVEN) for tree in SOURCES]
    upper = matrix(labelled, decay)[np.triu_indices(len(labelled))]
    golden = np.array(GOLDEN["kernels"][name][key], float)
    np.testing.assert_allclose(upper, golden, rtol=1e-10, atol=0 if decay == 1 else 1e-10)
    assert decay < 1 or (upper == golden).all()


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(("decay", "key"), [(1.0, "normalised"), (0.4, "normalised_decay_0.4")])
def test_golden_scores(name: str, decay: float, key: str) -> None:
    metric = load_metric(SETTINGS[name].signature(), decay=decay)
    texts = [Document([" ".join(words(tree))], rst=plain(tree)) for tree in SOURCES]
    scores = metric.pairwise(texts, texts)
    np.testing.assert_allclose(
        scores[np.triu_indices(len(texts))], GOLDEN["kernels"][name][key], atol=1e-10
    )
    np.testing.assert_allclose(metric.score(texts, texts), 1, atol=1e-12)


def words(tree: Tree) -> list[str]:
    return (
        list(tree)
        if isinstance(tree, tuple)
        else [word for child in tree.children for word in words(child)]
    )


WORDS = ("anywhere", "nuclearity", "relation", "both")


def test_light_is_the_mean_of_the_five() -> None:
    texts = [Document([" ".join(words(tree))], rst=plain(tree)) for tree in SOURCES]
    five = [
        load_metric(name).pairwise(texts, texts)
        for name in ("dr-nolex", *(f'dr-lex(words="{words}")' for words in WORDS))
    ]
    np.testing.assert_allclose(
        load_metric("discotk-light").pairwise(texts, texts), np.mean(five, axis=0), atol=1e-12
    )


# --- against the definition


@given(trees, trees, st.sampled_from(list(REPRESENTATIONS)))
@BOUNDED
def test_the_kernel_counts_fragments(a: Tree, b: Tree, name: str) -> None:
    left, right = (represent(tree, REPRESENTATIONS[name], Preprocessing()) for tree in (a, b))
    if max(len(nodes(tree)) for tree in (left, right)) > 16:
        return
    of_left, of_right = fragments(left), fragments(right)
    for decay in (Fraction(1), Fraction(2, 5)):
        expected = sum(decay ** f[1] * count * of_right.get(f, 0) for f, count in of_left.items())
        assert kernel(nodes(left), nodes(right), decay) == expected  # type: ignore[arg-type]


@given(
    st.lists(trees, min_size=1, max_size=5),
    st.sampled_from(list(REPRESENTATIONS)),
    st.sampled_from([1.0, 0.4]),
)
@BOUNDED
def test_all_pairs_equal_the_kernel(discourse_trees: list[Tree], name: str, decay: float) -> None:
    labelled = [represent(tree, REPRESENTATIONS[name], Preprocessing()) for tree in discourse_trees]
    lists = [nodes(tree) for tree in labelled]
    expected = np.array([[kernel(a, b, decay) for b in lists] for a in lists], float)
    values = matrix(labelled, decay)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(np.exp(matrix(labelled, decay, log=True)), expected, rtol=1e-11)
    assert np.linalg.eigvalsh(values).min() >= -1e-9 * max(1, values.max())


@given(st.lists(trees, min_size=2, max_size=5), st.lists(trees, min_size=1, max_size=3))
@BOUNDED
def test_a_pair_is_the_same_to_the_bit_in_any_company(
    own_trees: list[Tree], others: list[Tree]
) -> None:
    labelled = [represent(tree, Lexical(), Preprocessing()) for tree in own_trees + others]
    own, n = columns(labelled)[0], len(own_trees)
    rows, rest = np.arange(n), np.arange(n, len(labelled))
    square, oblong, turned = kernels(
        own, [Block(rows, rows), Block(rows, rest), Block(rows[::-1], rows.copy())], 0.7
    )
    alone = kernels(own, [Block(rows[i : i + 1], rows[j : j + 1]) for i in rows for j in rows], 0.7)
    assert square.tobytes() == np.concatenate(alone).tobytes()
    assert turned[::-1].tobytes() == square.tobytes()
    whole = kernels(own, [Block(rows, np.arange(len(labelled)))], 0.7)[0]
    assert whole.tobytes() == np.concatenate([square, oblong], axis=1).tobytes()


labels = st.sampled_from("ABx")  # terminals may be named like inner nodes
labelled = st.recursive(
    labels, lambda inner: st.tuples(labels, st.lists(inner, min_size=1, max_size=3).map(tuple))
)
rooted = st.tuples(labels, st.lists(labelled, min_size=1, max_size=3).map(tuple))


@given(representations=st.lists(rooted, min_size=1, max_size=4), decay=st.sampled_from([0.4, 1.0]))
@examples(20)
# the production B -> x of a leaf and of an inner node
@example(representations=[("A", (("B", ("x",)),)), ("A", (("B", (("x", ("x",)),)),))], decay=1.0)
def test_terminals_named_like_inner_nodes(
    representations: list[tuple[str, tuple[Any, ...]]], decay: float
) -> None:
    made = [nodes(tree) for tree in representations]
    expected = np.array([[kernel(a, b, decay) for b in made] for a in made])
    np.testing.assert_allclose(matrix(list(representations), decay), expected, rtol=1e-12)
    logarithms = matrix(list(representations), decay, log=True)
    np.testing.assert_allclose(np.exp(logarithms), expected, rtol=1e-12)


def test_calls_that_are_cut_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    labelled = [represent(tree, Lexical(), Preprocessing()) for tree in SOURCES]
    blocks = [Block(np.arange(9), np.arange(9)), Block(np.arange(4), np.arange(5, 9))]
    expected = kernels(columns(labelled)[0], blocks, 0.4)
    for module, name, value in (
        (kernel_matrix, "MAX_PAIRS", 10),
        (kernel_matrix, "STEP", 7),
        (kernel_matrix, "MAX_BLOCKS", 1),
    ):
        monkeypatch.setattr(module, name, value)
        for a, b in zip(kernels(columns(labelled)[0], blocks, 0.4), expected, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("m", [1, 5, 12])
def test_an_edu_of_distinct_words(m: int) -> None:
    tree = represent(tuple(f"w{i}" for i in range(m)), Lexical(), Preprocessing())
    assert kernel(nodes(tree), nodes(tree), 1) == 3 * 2**m + m + 3


# --- big and odd trees


def chain(words_per_edu: int, count: int, change: int = 0) -> Tree:
    units = [
        tuple(f"w{(i * 7 + j + (change and i % change == 0)) % 97}" for j in range(words_per_edu))
        for i in range(count)
    ]
    return RSTTree("N" * count, "Joint", tuple(units))


def text_of(tree: Tree) -> Document:
    return Document([" ".join(words(tree))], rst=plain(tree))


@pytest.mark.parametrize(
    ("name", "decay"), [("dr", 1.0), ("dr-lex", 1.0), ('dr-lex(words="both")', 0.4)]
)
def test_long_texts_are_finite(name: str, decay: float) -> None:
    shapes = [(1500, 2, 0), (10, 300, 3), (3, 2, 0), (40, 30, 0)]
    texts = [text_of(chain(*shape)) for shape in shapes]
    scores = load_metric(name, decay=decay).pairwise(texts, texts)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(np.diagonal(scores), 1, atol=1e-9)
    assert (scores >= 0).all()
    assert (scores <= 1).all()
    np.testing.assert_allclose(scores, scores.T, rtol=1e-9)
    assert name == "dr" or (scores[~np.eye(len(texts), dtype=bool)] < 0.99).all()  # other words


def test_log_space_meets_plain_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text_of(tree) for tree in SOURCES]
    metric = load_metric("dr-lex")
    expected = metric.pairwise(texts, texts)
    monkeypatch.setattr("discorank.metrics.rst.metric.MAX_NODES", 12)
    scores = load_metric("dr-lex").pairwise(texts, texts)
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_a_kernel_beyond_float64_in_logarithms() -> None:
    tree = represent(tuple(f"w{i}" for i in range(2000)), Lexical(), Preprocessing())
    value = matrix([tree], 1.0, log=True)[0, 0]
    assert value == pytest.approx(log(3) + 2000 * log(2), rel=1e-12)
    assert np.isposinf(matrix([tree], 1.0)[0, 0])


def test_empty_texts_and_empty_edus() -> None:
    metric = load_metric("dr-lex")
    assert metric.pairwise(["", Document([])], [" "]).tolist() == [[1.0], [1.0]]
    assert metric.pairwise([Document([""], rst=[])], [Document(["a"], rst=["a"])])[0, 0] < 1


def test_a_text_without_words_shares_nothing() -> None:
    metric = load_metric("dr-lex", ignore="tree")
    np.testing.assert_array_equal(metric.pairwise(["", "a cat"], ["", "a cat"]), [[0, 0], [0, 1]])


def test_words_are_no_tags() -> None:
    a = represent(("SPAN", "*"), Lexical(), Preprocessing(lowercase=False))
    assert not set(fragments(a)) & set(fragments(("*", ("*",))))


# --- settings


def rated(name: str, a: Tree, b: Tree, **settings: Any) -> float:
    return float(load_metric(name, **settings).pairwise([text_of(a)], [text_of(b)])[0, 0])


def test_settings_do_what_they_say() -> None:
    a = RSTTree("NS", "cause", (("He", "left"), ("it", "rained")))
    b = RSTTree("NS", "result", (("he", "left"), ("it", "rained")))
    assert rated("dr-lex", a, b) == pytest.approx(1)
    assert rated("dr-lex", a, b, relations="raw") < 1
    assert rated("dr-lex", a, b, relations="raw", ignore="relations") == pytest.approx(1)
    assert rated("dr-lex", a, b, lowercase=False) < 1
    flat = RSTTree("NNN", "joint", (("a",), ("b",), ("c",)))
    nested = RSTTree("NN", "joint", (("a",), RSTTree("NN", "joint", (("b",), ("c",)))))
    for name in ("dr", "dr-lex"):
        assert rated(name, flat, nested) == pytest.approx(1)
        assert rated(name, flat, nested, binarize=None) < 1
    turned = RSTTree("SN", "cause", a.children)
    values = [rated("dr-lex", a, turned, words=words) for words in WORDS]
    assert values[0] > values[1] == pytest.approx(values[3])
    assert values[2] > values[1]


@pytest.mark.parametrize("binary", [True, False])
@given(trees)
@BOUNDED
def test_binary_nodes_keep_words_and_nuclei(binary: bool, tree: Tree) -> None:
    labelled = represent(
        tree, Lexical(), Preprocessing(lowercase=False, binary=binary, coarse=False)
    )
    assert bracketed(represent(tree, "words", Preprocessing(lowercase=False))).replace(
        "(NGRAM", ""
    ).count(" *)") == len(words(tree))
    if binary:
        spans = [children for label, children in _inner(labelled) if label == "SPAN"]
        assert all(len(children) == 4 for children in spans)
        assert all(
            any(child[1][0] == ("NUC", ("Nucleus",)) for child in children[2:])
            for children in spans
        )


def _inner(node: Labelled) -> list[tuple[str, tuple[Any, ...]]]:
    return (
        []
        if isinstance(node, str)
        else [node, *(inner for child in node[1] for inner in _inner(child))]
    )


def test_other_languages_need_their_trees() -> None:
    metric = load_metric("dr").for_language("de")
    assert metric.signature() == 'dr(parser="none")'
    assert load_metric("dr").for_language("en-GB") == load_metric("dr")
    with pytest.raises(InputError, match="no tree for 'ein Satz'"):
        metric.pairwise(["ein Satz"], ["noch einer"])
    given_tree = [Document(["ein Satz"], rst=["ein", "Satz"])]
    assert metric.pairwise(given_tree, given_tree).tolist() == [[pytest.approx(1)]]
    with pytest.raises(InputError, match="decay"):
        load_metric("dr", decay=0)
    with pytest.raises(InputError, match=r"words='both' beside ignore='tree'"):
        load_metric("dr-lex", words="both", ignore="tree")


def test_representations_survive_the_wire() -> None:
    scorer = load_metric("discotk-light").parts[0][1].scorer
    from discorank.metrics.text.texts import Item

    reps = scorer.represent(scorer.prepare([Item(text_of(tree)) for tree in SOURCES])[0])
    back = Reps.from_arrays(dict(reps.arrays()))
    rows = np.arange(len(SOURCES))
    assert (
        scorer.compare(back, [Block(rows, rows)])[0].tobytes()
        == scorer.compare(reps, [Block(rows, rows)])[0].tobytes()
    )


def test_a_pair_is_explained_by_its_trees() -> None:
    scorer = load_metric("dr").parts[0][1].scorer
    from discorank.metrics.text.texts import Item

    reps = scorer.prepare([Item(text_of(SOURCES[3])), Item("He said it rained.")])[0]
    description = scorer.describe(reps, Block(np.array([1]), np.array([0])), 0, 0)
    assert description["hypothesis tree"] == "(SN-Attribution [He said] [it rained .])"
    assert description["reference tree"].startswith("(NS-Elaboration [a plan]")


def test_every_pair_of_lexical_settings_is_its_own() -> None:
    brackets = {
        name: bracketed(represent(SOURCES[3], representation, AS_GIVEN))
        for name, representation in REPRESENTATIONS.items()
    }
    assert all(
        brackets[a] != brackets[b] for a, b in combinations_with_replacement(brackets, 2) if a != b
    )
