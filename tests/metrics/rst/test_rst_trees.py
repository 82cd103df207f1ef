"""Discourse trees: their checks, formats and relation names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import Document, InputError, load_metric
from discorank.cli.main import main
from discorank.metrics.rst.tree_files import (
    read_lisp,
    read_rs3,
    read_trees,
)
from discorank.metrics.rst.trees import (
    CLASSES,
    Tree,
    check_tree,
    check_words,
    coarse,
    edus,
    joined,
    letters,
    split_right,
    words,
)
from discorank.metrics.text.sentence_splitting import sentences
from discorank.metrics.text.texts import MAX_LEVELS, RSTTree

from ...support.examples import examples
from ...support.trees import dis, plain, trees

BOUNDED = examples(15)
SAID = RSTTree(
    "SN",
    "Attribution",
    (("he", "said"), RSTTree("NS", "Cause", (("she", "left"), ("it", "rained")))),
)
DIS = """( Root (span 1 3)
  ( Satellite (leaf 1) (rel2par Attribution) (text _!he said_!) )
  ( Nucleus (span 2 3) (rel2par span)
    ( Nucleus (leaf 2) (rel2par span) (text _!she left <P>_!) )
    ( Satellite (leaf 3) (rel2par Cause) (text _!it rained_!) )//TT_ERR
  )
)"""


def rs3(body: str) -> str:
    typed = (("joint", "multinuc"), ("cause", "rst"), ("contrast", "multinuc"), ("contrast", "rst"))
    header = "".join(f'<rel name="{name}" type="{kind}"/>' for name, kind in typed)
    return f"<rst><header><relations>{header}</relations></header><body>{body}</body></rst>"


def segment(name: int, text: str, parent: str = "", relation: str = "span") -> str:
    up = f' parent="{parent}" relname="{relation}"' if parent else ""
    return f'<segment id="{name}"{up}>{text}</segment>'


# --- the tree itself


def test_edus_are_in_order() -> None:
    assert edus(SAID) == [("he", "said"), ("she", "left"), ("it", "rained")]


@given(trees)
@BOUNDED
def test_plain_data_reads_back(tree: Tree) -> None:
    assert RSTTree.read(json.loads(json.dumps(plain(tree)))) == tree
    assert check_tree(tree) == tree


@pytest.mark.parametrize(
    ("tree", "match"),
    [
        (RSTTree("N", "Cause", (("a",),)), "rst: 1 children"),
        (RSTTree("SS", "Cause", (("a",), ("b",))), "nuc='SS'"),
        (RSTTree("NSS", "Cause", (("a",), ("b",))), "over 2 children"),
        (RSTTree("NS", "Cause", (("a",), RSTTree("N", "x", ()))), r"rst.children\[1\]: 0 children"),
        (("a", 3), "found .'a', 3."),
        (["a"], "A leaf is a tuple"),
    ],
)
def test_broken_trees_are_refused(tree: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        check_tree(tree)


def test_deep_trees_are_refused_not_followed() -> None:
    tree: Tree = ("a",)
    for _ in range(5000):
        tree = RSTTree("NN", "Joint", (("b",), tree))
    with pytest.raises(InputError, match="more than 150 levels"):
        check_tree(tree)
    nested: Any = ["a"]
    for _ in range(5000):
        nested = {"nuc": "NN", "rel": "Joint", "children": [["b"], nested]}
    with pytest.raises(InputError, match="levels"):
        Document(["a"], rst=nested)


def test_words_must_be_those_of_the_text() -> None:
    check_words(SAID, "he  said she left\nit rained")
    check_words((("-LRB-", "a", "''"))[:3], '(a"')
    check_words(("(", "1/2", "*", ")"), r"-LRB- 1\/2 \* -RRB-")
    check_words(("-LRB-", r"1\/2", r"\*", "-RRB-"), "(1/2 *)")
    assert read_lisp(r"( DUMMY (leaf 1) (text _!a 1\/2 \*_!) )") == [("a", "1/2", "*")]
    with pytest.raises(
        InputError, match=r"reads 'leftitrained' where the text reads 'wentitrained'.*"
    ):
        check_words(SAID, "he said she went it rained")
    with pytest.raises(InputError, match="character 14"):
        check_words(SAID, "he said she left")


def test_a_metric_refuses_a_tree_of_other_words() -> None:
    text = Document(["he left"], rst=["he", "stayed"])
    with pytest.raises(
        InputError, match=r"rst of 'he left', character 3 .*the tree reads 'stayed'"
    ):
        load_metric("dr").pairwise([text], [text])


@given(trees.filter(lambda tree: isinstance(tree, RSTTree)))
@BOUNDED
def test_long_nodes_are_cut_beside_a_nucleus(tree: RSTTree) -> None:
    at, pair = split_right(tree.nuc) if len(tree.nuc) > 2 else (1, tree.nuc)
    assert 0 < at < len(tree.nuc)
    assert "N" in pair
    for letter, part in zip(pair, (tree.nuc[:at], tree.nuc[at:]), strict=True):
        assert letter == part if len(part) == 1 else letter == ("N" if "N" in part else "S")


def test_joined_sentences() -> None:
    assert joined([]) == ()
    assert joined([("a",)]) == ("a",)
    assert joined([("a",), ("b",), ("c",)]) == RSTTree("NNN", "Joint", (("a",), ("b",), ("c",)))


# --- relation names


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("elaboration-additional_r", "Elaboration"),
        ("Same-Unite", "Same-Unit"),
        ("TextualOrganization", "Textual-Organization"),
        ("Problem-Solution-n", "Topic-Comment"),
        ("joint-sequence_m", "Temporal"),
        ("context-circumstance", "Background"),
        ("circumstance-e", "Background"),
        ("MANNER", "Manner-Means"),
        ("unheard-of", "unheardof"),
        ("Unheard_Of_r", "unheardof"),
        ("UNHEARDOF-n", "unheardof"),
        ("-", "-"),
        ("", ""),
    ],
)
def test_relations_have_classes(name: str, kind: str) -> None:
    assert coarse(name) == kind


def test_there_are_eighteen_classes() -> None:
    assert len(CLASSES) == 18
    assert all(coarse(kind) == kind for kind in CLASSES)


# --- formats


def test_lisp() -> None:
    assert read_lisp(DIS) == [SAID]


@given(trees)
@BOUNDED
def test_what_is_written_reads_back(tree: Tree) -> None:
    assert read_lisp(dis(tree)) == [tree]


@given(st.lists(trees, min_size=2, max_size=3))
@BOUNDED
def test_several_trees_of_one_file_read_back(written: list[Tree]) -> None:
    assert read_lisp("".join(map(dis, written))) == written


def deep(levels: int) -> dict[str, Any] | list[str]:
    """Plain data of a tree over b b ... a."""
    nested: dict[str, Any] | list[str] = ["a"]
    for _ in range(levels):
        nested = {"nuc": "NN", "rel": "Joint", "children": [["b"], nested]}
    return nested


def test_the_deepest_trees_are_read_compared_and_written(tmp_path: Path) -> None:
    words, other = "b " * MAX_LEVELS + "a", "b " * (MAX_LEVELS - 1) + "a"
    row = {
        "id": "x",
        "candidates": [
            {"text": [words], "rst": deep(MAX_LEVELS)},
            {"text": [other], "rst": deep(MAX_LEVELS - 1)},
        ],
    }
    path = tmp_path / "lists.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert (
        main(["decode", str(path), "-u", "dr-lex", "-o", str(tmp_path / "o.jsonl"), "--quiet"]) == 0
    )
    assert json.loads((tmp_path / "o.jsonl").read_text(encoding="utf-8"))["text"] == [words]
    row["candidates"] = [{"text": [words + " a"], "rst": deep(MAX_LEVELS + 1)}]
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert (
        main(["decode", str(path), "-u", "dr-lex", "-o", str(tmp_path / "p.jsonl"), "--quiet"]) != 0
    )

    tree = check_tree(RSTTree.read(deep(MAX_LEVELS)))
    files = {"t.jsonl": (json.dumps(plain(tree)) + "\n") * 2, "t.dis": dis(tree) * 2}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_trees(tmp_path / name) == [tree, tree]
        assert load_metric("dr", trees=str(tmp_path / name)).score([words], [words])[
            0
        ] == pytest.approx(1)


def test_codra_files_hold_a_tree_per_sentence() -> None:
    text = r"""
( DUMMY (leaf 6) (rel2par DUMMY) (text _!\"No , he said_!))
( Root (span 7 8) ( Nucleus (leaf 7) (rel2par Joint) (text _!a -LRB- (b)_!))
  ( Nucleus (leaf 8) (rel2par Joint) (text _!c_!)))"""
    first, second = read_lisp(text)
    assert first == ('"No', ",", "he", "said")
    assert second == RSTTree("NN", "Joint", (("a", "(", "(b)"), ("c",)))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (DIS[:-1], r"dis:1: a bracket is never closed"),
        (DIS + ")", r"dis:7: found '\)', expected \("),
        (DIS.replace("leaf 3", "leaf 4"), r"dis:5: found leaf '4', expected leaf 3"),
        (DIS + DIS.replace("leaf 1", "leaf 2"), r"dis:8: found leaf '2', expected leaf 4"),
        (DIS.replace("span 2 3", "span 1 3"), r"dis:3: found the span 1 3 over leaves 2 3"),
        (DIS.replace("span 1 3", "span"), r"dis:1: found the span  over leaves 1 3"),
        (DIS.replace("said_!", "said"), r"dis:2: a text that holds another node: .*he said"),
        (DIS.replace("Nucleus", "Necleus"), r"found \(Necleus"),
        (
            DIS.replace(
                "( Nucleus (leaf 2) (rel2par span)", "( Satellite (leaf 2) (rel2par Cause)"
            ),
            "children SS",
        ),
        (DIS.replace("(rel2par Cause) ", ""), "without a relation"),
        ("( Root (span 1 2) )", "neither text nor children"),
        ("he said", r"found 'he', expected \("),
        ("(text _!a_!)", r"found \(text"),
    ],
)
def test_broken_lisp(text: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        read_lisp(text)


def test_rs3_folds_satellites_nearest_first() -> None:
    body = segment(1, "a", "2", "cause") + segment(2, "b", "9") + segment(3, "c", "2", "cause")
    tree = read_rs3(
        rs3(body + segment(4, "d", "9", "cause") + '<group id="9" type="span"/>') + "\nHTTP/1.1 200"
    )
    inner = RSTTree("NS", "cause", (RSTTree("SN", "cause", (("a",), ("b",))), ("c",)))
    assert tree == RSTTree("NS", "cause", (inner, ("d",)))


def test_rs3_left_satellites_are_folded_from_the_nucleus_outwards() -> None:
    body = segment(1, "a", "3", "cause") + segment(2, "b", "3", "purpose") + segment(3, "c")
    assert read_rs3(rs3(body)) == RSTTree(
        "SN", "cause", (("a",), RSTTree("SN", "purpose", (("b",), ("c",))))
    )


def test_rs3_multinuclear() -> None:
    body = "".join(segment(i, text, "9", "joint") for i, text in enumerate("abc"))
    satellite = segment(3, "d", "9", "cause")
    three = RSTTree("NNN", "joint", (("a",), ("b",), ("c",)))
    assert read_rs3(rs3(body + satellite + '<group id="9" type="multinuc"/>')) == RSTTree(
        "NS", "cause", (three, ("d",))
    )


def test_rs3_of_isanlp_rst() -> None:
    """The header makes nuclei of children, whatever type their group has: isanlp_rst writes span."""
    body = (
        segment(1, "It rained.", "5", "joint")
        + segment(2, "The match stopped.", "4")
        + segment(3, "Players left.", "2", "elaboration")
        + '<group id="4" type="span" parent="5" relname="joint"/><group id="5" type="span"/>'
    )
    first, second, third = ("It", "rained."), ("The", "match", "stopped."), ("Players", "left.")
    joint = RSTTree("NN", "joint", (first, RSTTree("NS", "elaboration", (second, third))))
    assert read_rs3(rs3(body)) == joint
    # a multinuclear group below another one, whose satellite has a relation that is typed both ways
    both = (
        body.replace('<group id="5" type="span"/>', '<group id="5" type="multinuc" parent="7"/>')
        + segment(6, "They returned.", "5", "contrast")
        + '<group id="7" type="span"/>'
    )
    assert read_rs3(rs3(both)) == RSTTree("NS", "contrast", (joint, ("They", "returned.")))
    contrast = segment(1, "a", "9", "contrast") + segment(2, "b", "9", "contrast")
    two = RSTTree("NN", "contrast", (("a",), ("b",)))
    assert read_rs3(rs3(contrast + '<group id="9" type="span"/>')) == two


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (segment(1, "a") + segment(2, "b"), "2 nodes without a parent"),
        (segment(1, "a", "7", "cause"), "the parent '7', which does not"),
        (
            segment(1, "a") + segment(2, "b", "3", "cause") + segment(3, "c", "2", "cause"),
            "node 2 .* circle",
        ),
        (segment(1, "a") + segment(1, "b", "1", "cause"), "comes twice"),
        (
            segment(1, "a", "9") + segment(2, "b", "9") + '<group id="9" type="span"/>',
            "2 nuclei without a relation",
        ),
        (segment(1, "a") + segment(2, "b", "3", "cause") + segment(3, "c", "1", "cause"), None),
        (segment(1, "a") + segment(2, "b", "3", "cause") + segment(3, "c") * 0, "parent '3'"),
        ('<group id="9" type="span"/>' + segment(1, "a", "9", "cause"), "without a nucleus"),
        (
            segment(1, "a", "3", "cause") + segment(2, "b") + segment(3, "c", "2", "cause"),
            "do not meet",
        ),
        ("<segment", "not XML"),
    ],
)
def test_broken_rs3(body: str, match: str | None) -> None:
    if match is None:
        assert len(edus(read_rs3(rs3(body)))) == 3
        return
    with pytest.raises(InputError, match=match):
        read_rs3(rs3(body))


def test_rs3_entities_are_refused() -> None:
    with pytest.raises(InputError, match="document type or entity"):
        read_rs3('<!DOCTYPE rst [<!ENTITY a "aaa">]>' + rs3(segment(1, "&a;")))


# --- files


def test_files_of_every_format(tmp_path: Path) -> None:
    files: dict[str, str] = {
        "a.dis": DIS,
        "a.jsonl": json.dumps(plain(SAID))
        + "\n\n"
        + json.dumps({"id": "x", "rst": plain(SAID)})
        + "\n",
        "a.json": json.dumps(plain(SAID), indent=1),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        trees_of_file = read_trees(tmp_path / name)
        assert trees_of_file == [SAID] * (2 if name == "a.jsonl" else 1), name
    (tmp_path / "a.rs3").write_text(
        rs3(segment(1, "a") + segment(2, "b", "1", "cause")), encoding="utf-8"
    )
    assert read_trees(tmp_path / "a.rs3") == [RSTTree("NS", "cause", (("a",), ("b",)))]
    (tmp_path / "a.dis.gz").write_bytes(gzip.compress(DIS.encode()))
    assert read_trees(tmp_path / "a.dis.gz") == [SAID]


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is empty"),
        (b"he said", "begins with 'he said'"),
        (b"\xff\xfe", "cannot be read: UnicodeDecodeError"),
        (b'{"nuc": "NS"', "not JSON"),
        (b'["a"]\n["b"', r"a.txt:2: not JSON"),
        (b'{"nuc": "NS", "rel": "x", "children": [["a"]]}', "over 1 children"),
        (b'["a", {}]', r"a.txt:1: found"),
        (b"[" * 20000, "not JSON|nested too deep"),
        (b"( Root " * 20000, "never closed"),
    ],
)
def test_broken_files(tmp_path: Path, data: bytes, match: str) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(InputError, match=match):
        read_trees(tmp_path / "a.txt")


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_trees(tmp_path / "none")


def test_a_metric_reads_a_file_of_trees(tmp_path: Path) -> None:
    path = tmp_path / "trees.dis"
    path.write_text(
        DIS + "\n( DUMMY (leaf 4) (rel2par DUMMY) (text _!the end ._!))", encoding="utf-8"
    )
    metric = load_metric("dr-lex", trees=str(path))
    assert metric.signature().startswith(f'dr-lex(trees="{path}@sha256:')
    assert load_metric(metric.signature()) == metric
    own = Document(["he said she left it rained"], rst=plain(SAID))
    scores = metric.pairwise(
        ["he said she left it rained", "the end.", Document(["the end.", "the end."])], [own]
    )
    assert scores[0, 0] == pytest.approx(1)
    assert 0 < scores[1, 0] < 1
    with pytest.raises(InputError, match="no tree for 'he stayed'"):
        metric.pairwise(["he stayed"], [own])
    path.write_text("( DUMMY (leaf 1) (rel2par DUMMY) (text _!another_!))", encoding="utf-8")
    with pytest.raises(InputError, match="not the file that was used"):
        load_metric(metric.signature())
    with pytest.raises(InputError, match="cannot be read"):
        load_metric("dr", trees=str(tmp_path / "none"))
    path.write_text(DIS + DIS.replace("Cause", "Joint"))
    with pytest.raises(InputError, match="tree 2: a second tree over"):
        load_metric("dr", trees=str(path)).pairwise(["a"], ["a"])


# --- words and sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I can't, won't; cannot.", "I ca n't , wo n't ; can not ."),
        ("The U.S. and Dr. No's 17th 3.5", "The U.S. and Dr. No 's 17th 3.5"),
        (
            "non-human well-known -- (a@b.org) ... ‘x’",
            "non-human well - known -- ( a@b.org ) ... ‘ x ’",
        ),
        ("", ""),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert words(text) == expected.split()
    assert "".join(words(text)) == letters(text)


def test_sentences() -> None:
    text = 'It is J. Smith etc. But no! "Yes?" (He left.) 3 men came…\nA heading\n\nEnd'
    assert sentences(text) == [
        "It is J. Smith etc. But no!",
        '"Yes?"',
        "(He left.)",
        "3 men came…",
        "A heading",
        "End",
    ]
    assert sentences(" \n ") == []
