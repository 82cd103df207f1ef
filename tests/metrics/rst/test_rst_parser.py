"""The discourse parser: its networks, charts, figures, training, and the weights that ship."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import Document, InputError, ModelLoadError, load_metric
from discorank.cli.main import main
from discorank.metrics.representations import Ragged
from discorank.metrics.rst.parser.parser import (
    SHIPPED,
    Cut,
    Cuts,
    Parser,
    best_cuts,
    chart,
    english,
)
from discorank.metrics.rst.parser.parser_features import (
    TABLES,
    Triple,
    Units,
    sentence_numbers,
    split_numbers,
)
from discorank.metrics.rst.parser.training import evaluation
from discorank.metrics.rst.parser.training.treebank import Sentence, read_treebank, tagged
from discorank.metrics.rst.parser.weights import GRULayer, Splitter, load, packed, unpacked
from discorank.metrics.rst.trees import edus, letters, letters_of, walk
from discorank.metrics.text.texts import RSTTree

from ...support.bit_flips import refused_flips
from ...support.examples import examples
from ...support.trees import plain

BOUNDED = examples(8)
SAID = "He said that the committee would meet again, because nobody had read the report."


# --- what ships


def test_the_weights_are_small_credited_and_licensed() -> None:
    assert SHIPPED.stat().st_size <= 4_000_000
    about = load(SHIPPED).about
    assert about["licence"] == "CC BY-SA 4.0"
    assert "GUM" in about["credit"]
    licence = SHIPPED.with_name("LICENSE-WEIGHTS.txt").read_text(encoding="utf-8")
    assert "CC BY-SA 4.0" in licence
    assert "Zeldes" in licence


def test_the_figures_of_the_weights() -> None:
    figures = load(SHIPPED).about["figures"]["test"]
    assert figures["documents"] == 12
    assert figures["segmentation"]["f1"] >= 78
    for measure, least in (("span", 91), ("nuclearity", 76), ("relation", 62)):
        own, plain_tree = (
            figures[name][measure] for name in figures if name.startswith("parseval")
        )
        assert own["low"] <= own["f1"] <= own["high"]
        assert own["f1"] >= least
        assert own["f1"] > plain_tree["f1"] + 5


def test_a_sentence() -> None:
    tree = english().document(SAID)
    assert isinstance(tree, RSTTree)
    assert (tree.nuc, tree.rel) == ("SN", "Attribution")
    assert edus(tree)[0] == ("He", "said")
    assert edus(tree)[2][0] == "because"


def test_sentences_are_joined() -> None:
    tree = english().document("It rained. We stayed! Why?")
    assert tree == english().document(["It rained.", "We stayed!", " ", "Why?"])
    assert isinstance(tree, RSTTree)
    assert (tree.nuc, tree.rel, len(tree.children)) == ("NNN", "Joint", 3)
    assert english().document("") == ()


@given(
    st.one_of(
        st.text(max_size=60), st.lists(st.sampled_from(SAID.split()), max_size=40).map(" ".join)
    )
)
@examples(8)
def test_no_letter_is_lost(text: str) -> None:
    tree = english().document(text)
    assert letters_of(tree) == letters(text)
    assert all(
        len(node.children) == len(node.nuc) for node in walk(tree) if isinstance(node, RSTTree)
    )


def test_a_tree_does_not_depend_on_company() -> None:
    alone = english().document(SAID)
    fresh = Parser(load(SHIPPED))
    fresh.document("Another one. " + SAID)
    assert fresh.document(SAID) == alone


def test_many_words_without_a_stop() -> None:
    text = " ".join((SAID.rstrip(".") + " and").split() * 60)
    tree = english().document(text)
    assert letters_of(tree) == letters(text)
    values = load_metric("dr").pairwise([text], [text, SAID])
    assert np.isfinite(values).all()


# --- networks and charts


def test_the_gru_is_torch_s() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.GRU(5, 4, bidirectional=True, batch_first=True)
    x = torch.randn(1, 7, 5)

    def both(name: str) -> Any:
        return np.stack([getattr(net, name + end).detach().numpy() for end in ("", "_reverse")])[
            None
        ]

    layer = GRULayer(
        both("weight_ih_l0").swapaxes(2, 3),
        both("bias_ih_l0")[:, :, None],
        both("weight_hh_l0").swapaxes(2, 3),
        both("bias_hh_l0")[:, :, None],
    )
    np.testing.assert_allclose(layer.states(x.numpy())[0], net(x)[0][0].detach().numpy(), atol=1e-6)


def test_splits_sum_their_features() -> None:
    random = np.random.default_rng(0)
    table, b, w, c = (
        random.normal(size=size).astype(np.float32) for size in ((9, 4), 4, (4, 3), 3)
    )
    rows = [np.array([1, 3]), np.array([8]), np.array([0, 1, 2])]
    scores = Splitter(table, b, w, c).scores(Ragged.of_rows(rows))
    expected = [np.maximum(table[row].sum(axis=0) + b, 0) @ w + c for row in rows]
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def all_trees(i: int, j: int) -> list[Cuts]:
    if i == j:
        return [{}]
    label = ("NN", "x")
    return [
        {(i, j): Cut(k, *label), **left, **right}
        for k in range(i, j)
        for left in all_trees(i, k)
        for right in all_trees(k + 1, j)
    ]


@given(st.integers(1, 6), st.integers(0, 99))
@BOUNDED
def test_the_best_tree_is_the_best_of_all(count: int, seed: int) -> None:
    triples = chart(count)
    scores = np.random.default_rng(seed).normal(size=(len(triples), 2)).astype(np.float32)
    row = {triple: i for i, triple in enumerate(triples)}

    def value(cuts: Cuts) -> float:
        total = 0.0
        for (i, j), cut in cuts.items():
            own = [float(scores[row[Triple(i, k, j)], 0]) for k in range(i, j)]
            total += own[cut.middle - i] - float(np.log(np.exp(own).sum()))
        return total

    best = best_cuts(count, triples, scores, [("NN", "x")])
    assert best in all_trees(0, count - 1)
    assert value(best) == pytest.approx(
        max(value(cuts) for cuts in all_trees(0, count - 1)), abs=1e-5
    )


def test_features_are_frozen() -> None:
    """The weights that ship were trained on these: a change here needs new weights and a new version of the metrics."""
    words = [
        "he",
        "said",
        ",",
        "that",
        "it",
        "did",
        "n't",
        "rain",
        "because",
        "of",
        "3",
        "UN",
        "reports",
        ".",
    ]
    assert crc32(sentence_numbers(words).astype("<i8").tobytes()) == FROZEN_WORDS
    units = Units(
        [w.lower() for w in words],
        ["VV", "NN", "PUN"] * 4 + ["PUN"] * (len(words) - 12),
        [0, 3, 8, len(words)],
    )
    numbers = [split_numbers(units, triple) for triple in chart(3)]
    assert crc32(np.concatenate(numbers).astype("<i8").tobytes()) == FROZEN_SPLITS


FROZEN_WORDS, FROZEN_SPLITS = 3155327016, 857719479


def test_packed_weights_are_near() -> None:
    random = np.random.default_rng(0)
    arrays = {
        "table0": random.normal(size=(2, 5, 3)),
        "cut.b": random.normal(size=(2, 1, 1)),
        "table1": np.zeros((1, 2, 2)),
    }
    restored = unpacked(packed(arrays))
    for name, array in arrays.items():
        np.testing.assert_allclose(restored[name], array, atol=0.02)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"no zip at all"])
def test_broken_weights(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "w.npz").write_bytes(data)
    with pytest.raises(
        ModelLoadError, match=r"weights of the discourse parser.*discorank train rst"
    ):
        load(tmp_path / "w.npz")
    with pytest.raises(ModelLoadError, match="No such file"):
        load(tmp_path / "none.npz")


# --- training


def document(name: str, split: str, seed: int) -> dict[str, Any]:
    """Sentences of the form "A said | B fell , | because C" with their tree."""
    who, what = (["he", "she", "they"][(seed + i) % 3] for i in (0, 1))
    edus = [f"{who} said", f"{what} fell ,", "because it rained .", f"{what} left ."]
    tree = [
        "NN",
        "joint-list",
        "x",
        ["SN", "attribution-positive", 0, ["NS", "causal-cause", 1, 2]],
        3,
    ]
    return {"id": name, "split": split, "edus": edus, "sent": [1, 1, 1, 2], "tree": tree}


def write(path: Path, documents: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in documents), encoding="utf-8")
    return path


def treebank(path: Path) -> Path:
    splits = ["train"] * 12 + ["dev", "test"] * 2
    return write(path, [document(f"d{i}", split, i) for i, split in enumerate(splits)])


def test_reading_a_treebank(tmp_path: Path) -> None:
    parts = read_treebank(treebank(tmp_path / "t.jsonl"))
    assert [len(parts[name]) for name in ("train", "dev", "test")] == [24, 4, 4]
    first, second = parts["train"][:2]
    assert first.whole
    assert first.starts == [0, 2, 5, 9]
    assert first.cuts == {(0, 2): Cut(0, "SN", "Attribution"), (1, 2): Cut(1, "NS", "Cause")}
    assert (second.whole, second.cuts) == (False, {})
    unnamed = [
        {k: v for k, v in document(f"doc {i}", "", i).items() if k != "split"} for i in range(60)
    ]
    assert all(read_treebank(write(tmp_path / "u.jsonl", unnamed)).values())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"sent": [1]}, "1 sentence numbers for 4 EDUs"),
        ({"tree": ["NS", "x", 0, 1]}, "a tree over EDUs 0 to 1 of 4"),
        ({"tree": ["NNNN", "x", 0, 1, 3, 2]}, "ValueError"),
        ({"tree": ["NN", "x", 0]}, "ValueError"),
        ({"tree": {}}, "ValueError"),
        ({"edus": None}, "TypeError"),
        ({"edus": ["he said", "", "because", "she"]}, "EDU 1 has no words"),
        ({"split": "train2"}, "found the split 'train2'.*Expected train, dev, test"),
    ],
)
def test_broken_treebanks(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    path = write(
        tmp_path / "t.jsonl", [document("a", "train", 0), {**document("b", "test", 1), **change}]
    )
    with pytest.raises(InputError, match=rf"t.jsonl:2: .*{match}"):
        read_treebank(path)


def test_original_parseval_from_words_alone() -> None:
    """Inner nodes by the words they span; a segment too many costs its node, and the right nodes around it stay."""
    words = ["they", "said", "she", "fell", "because", "it", "rained"]
    gold = Sentence(
        "a", words, [0, 2, 4, 7], {(0, 2): Cut(0, "SN", "X"), (1, 2): Cut(1, "NS", "Y")}, True
    )
    # over [0, 2, 7]: the root is right, the inner node is not found
    two: evaluation.Parsed = ([0, 2, 7], {(0, 1): Cut(0, "SN", "X")})
    # over [0, 2, 4, 7]: the spans are right, one label of each kind is not
    three: evaluation.Parsed = (
        [0, 2, 4, 7],
        {(0, 2): Cut(0, "NN", "X"), (1, 2): Cut(1, "NS", "Z")},
    )
    counts = evaluation.end_to_end([gold], lambda _: two)
    assert counts["a"].tolist() == [[1, 1, 2], [1, 1, 2], [1, 1, 2]]
    counts = evaluation.end_to_end([gold], lambda _: three)
    assert counts["a"].tolist() == [[2, 2, 2], [1, 2, 2], [1, 2, 2]]
    # one EDU: what is found in it is wrong; a sentence that is no constituent has no tree to compare with
    single = Sentence("b", words, [0, 7], {}, False)
    apart = Sentence("c", words, [0, 2, 7], {}, False)
    counts = evaluation.end_to_end([single, apart], lambda _: two)
    assert {name: rows.tolist() for name, rows in counts.items()} == {"b": [[0, 1, 0]] * 3}


def test_the_evaluated_parse_is_the_parsers_tree() -> None:
    long = "He said that she left, " * 20 + "because nobody had read it."
    for text in (SAID, "It rained.", long):
        words = text.split()
        starts, cuts = evaluation.parse_by(
            english(), Sentence("a", words, [0, len(words)], {}, False)
        )
        tree = english().words(words)
        assert [words[a:b] for a, b in pairwise(starts)] == list(map(list, edus(tree)))
        of_tree = Counter(node.rel for node in walk(tree) if isinstance(node, RSTTree))
        of_cuts = Counter(cut.rel for cut in cuts.values())
        assert of_cuts.keys() == of_tree.keys()
        assert len(cuts) == len(starts) - 2


def test_a_treebank_needs_every_split(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trees of sentences in the split 'dev'"):
        read_treebank(write(tmp_path / "t.jsonl", [document("a", "train", 0)]))
    with pytest.raises(InputError, match="cannot be read"):
        read_treebank(tmp_path / "none.jsonl")


def test_training_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "w.npz"
    options = ["--tagger", "none", "--encoders", "1", "--encoder-epochs", "60", "--splitters", "1"]
    command = [
        "train",
        "rst",
        str(treebank(tmp_path / "t.jsonl")),
        "-o",
        str(out),
        *options,
        "--splitter-epochs",
        "40",
    ]
    assert (
        main([*command, "--licence", "ours", "--credit", "us", "--quiet", "--format", "json"]) == 0
    )
    figures = json.loads(capsys.readouterr().out)
    assert figures["test"]["end to end"]["relation"]["f1"] == 100
    model = load(out)
    assert model.about["licence"] == "ours"
    assert [table.shape[1] for table in model.encoder.tables] == list(TABLES)
    tree = Parser(model).document("they said she fell, because it rained.")
    assert plain(tree)["rel"] == "Attribution"
    metric = load_metric("dr", weights=str(out))
    assert metric.signature().startswith(f'dr(weights="{out}@sha256:')
    assert load_metric(metric.signature()) == metric == metric.for_language("de")
    given_tree = Document(["they said she fell, because it rained."], rst=plain(tree))
    assert metric.pairwise([str(given_tree)], [given_tree])[0, 0] == pytest.approx(1)
    with pytest.raises(InputError, match="weights beside parser='none'"):
        load_metric("dr", weights=str(out), parser="none")
    with pytest.raises(InputError, match="cannot be read"):
        load_metric("dr", weights=str(tmp_path / "none"))


def test_train_says_what_it_needs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["train", "rts"]) == 2
    assert "Did you mean 'rst'" in capsys.readouterr().err
    assert main(["train"]) == 2
    assert main(["train", "--help"]) == 0
    assert main(["train", "rst", "-o", "x.npz"]) == 2
    assert "TREEBANK: is missing" in capsys.readouterr().err
    assert main(["train", "rst", "t.jsonl", "-o", str(tmp_path / "no" / "x.npz")]) == 2


@pytest.mark.parametrize("count", ["encoders", "encoder-epochs", "splitters", "splitter-epochs"])
def test_counts_are_above_zero(
    count: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "rst", str(treebank(tmp_path / "t.jsonl")), "-o", str(tmp_path / "w.npz")]
    assert main([*command, f"--{count}", "0"]) == 2
    assert f"--{count}: found 0: " in capsys.readouterr().err


def test_the_output_is_checked_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discorank.cli.commands.train_metrics.train_parser", stopped)
    command = ["train", "rst", str(treebank(tmp_path / "t.jsonl")), "-o"]
    assert main([*command, str(tmp_path)]) == 2
    assert "is no plain file" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "no" / "w.npz")]) == 2
    assert "no: is no folder" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "w.npz")]) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


def test_tags_are_made_or_refused() -> None:
    assert tagged([["a", "b"], []], "none") == [["-", "-"], []]
    if find_spec("HanTa") is None:
        assert tagged([["a"]], "auto") == [["-"]]
        with pytest.raises(ModelLoadError, match=r"HanTa is not installed.*pip install HanTa"):
            tagged([["a"]], "hanta")


def test_flipped_bits_of_weights_are_refused_or_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "english.npz"
    path.write_bytes(SHIPPED.read_bytes())

    def state() -> object:
        encoder, splitter, tags, labels, about = load(path)
        arrays = (*encoder.tables, encoder.tag_w, encoder.cut_w, splitter.table, splitter.w)
        return crc32(b"".join(array.tobytes() for array in arrays)), tags, labels, about

    assert refused_flips(path, state, state(), 12) > 6
