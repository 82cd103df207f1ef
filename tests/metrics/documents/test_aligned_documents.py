"""Documents of any sentence counts: aligned values as a plain recursion or program over their sentences has them."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

import discorank
from discorank import Context, Document, InputError, MBRDecoder, Metric, load_metric
from discorank.cli.main import main
from discorank.metrics.documents import aligned
from discorank.metrics.documents import aligned as monotone
from discorank.metrics.documents.aligned import Aligned, source_spans
from discorank.metrics.documents.windows import Windows
from discorank.metrics.documents.wrapper import Split
from discorank.metrics.execution.evaluate import matrices, plan_of, tile_values, tiles_of
from discorank.metrics.execution.meter import Meter
from discorank.metrics.execution.store import Fresh, Store
from discorank.metrics.lexical.chrf import ChrF
from discorank.metrics.lexical.ter import TER
from discorank.metrics.reading_plan import comparisons_of
from discorank.metrics.registry import load_from_data
from discorank.metrics.representations import FloatArray
from discorank.metrics.scorer import Info, Reading, Scorer
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.spec.user_code import AllowedCode, CodeRefusedError
from discorank.metrics.text.texts import NO_CONTEXT, Item
from discorank.rerank.engines.interface import Task
from discorank.rerank.engines.ray.worker import Share

PHASES = (Phase.explicit, Phase.generate)
BOUNDED = bounded(max_examples=8, deadline=None, database=None, phases=PHASES)
WORDS = ["the", "fog", "lifts", "over", "a", "harbour", "ferry", "waits", ".", "late"]
sentences = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
documents = st.lists(sentences, min_size=1, max_size=4).map(Document)
lists = st.lists(documents, min_size=1, max_size=3)


def shares(document: Document) -> FloatArray:
    letters = np.array([len("".join(text.split())) for text in document.sentences], float)
    return letters / letters.sum() if letters.any() else np.full(len(letters), 1 / len(letters))


def utility(metric: Metric, h: str, r: str) -> float:
    return float(metric.pairwise([h], [r])[0, 0])


class Table:
    """Utilities of all units of some documents."""

    def __init__(self, metric: Metric, documents: list[Document]) -> None:
        texts = {""}
        for document in documents:
            texts.update(document.sentences)
            texts.update(map(" ".join, pairwise(document.sentences)))
        self.place = {text: i for i, text in enumerate(texts)}
        self.matrix = metric.pairwise(list(texts), list(texts))

    def __call__(self, h: str, r: str) -> float:
        return float(self.matrix[self.place[h], self.place[r]])


def monotone_by_recursion(worth: Table, h: Document, r: Document) -> float:
    a, b = shares(h), shares(r)

    @cache
    def best(i: int, j: int) -> float:
        ways = [0.0] if i == j == 0 else []
        for rows, columns in ((1, 1), (1, 2), (2, 1), (2, 2), (1, 0), (0, 1)):
            if rows <= i and columns <= j:
                share = (a[i - rows : i].sum() + b[j - columns : j].sum()) / 2
                unit, other = (
                    " ".join(h.sentences[i - rows : i]),
                    " ".join(r.sentences[j - columns : j]),
                )
                ways.append(best(i - rows, j - columns) + share * worth(unit, other))
        return max(ways)

    return best(len(a), len(b))


def expected(worth: Table, h: Document, r: Document) -> float:
    if len(h.sentences) == len(r.sentences) == 1:
        return worth(h.sentences[0], r.sentences[0])
    return monotone_by_recursion(worth, h, r)


@pytest.mark.parametrize("name", ["chrf", "ter"])
@given(h=lists, r=lists)
@BOUNDED
def test_values_are_those_of_plain_computations(
    name: str, h: list[Document], r: list[Document]
) -> None:
    metric: Any = load_metric(f"aligned({name})")
    matrix = metric.pairwise(h, r)
    worth = Table(load_metric(name), h + r)  # type: ignore[arg-type]
    for i, j in np.ndindex(*matrix.shape):
        assert matrix[i, j] == pytest.approx(expected(worth, h[i], r[j]), rel=1e-9, abs=1e-9)
        # a value is that of its pair alone, to the last bit
        assert metric.pairwise([h[i]], [r[j]])[0, 0] == matrix[i, j]


@pytest.mark.parametrize("proxy", [ChrF(), "length"], ids=str)
@given(h=lists, r=lists)
@BOUNDED
def test_a_proxy_that_is_the_metric_finds_the_same(
    proxy: Any, h: list[Document], r: list[Document]
) -> None:
    by_itself = Aligned(ChrF())
    by_other = Aligned(ChrF(), by=proxy)
    own, other = by_itself.pairwise(h, r), by_other.pairwise(h, r)
    if proxy != "length":
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)
    else:  # another alignment is never better
        assert (other <= own + 1e-9).all()


def test_documents_that_are_split_otherwise_are_equal() -> None:
    long = Document(["the fog lifts over the harbour", "a ferry waits there", "it was late"])
    merged = Document(["the fog lifts over the harbour a ferry waits there", "it was late"])
    assert Aligned(ChrF()).pairwise([long], [merged])[0, 0] == pytest.approx(100)


def test_two_sentences_that_change_places() -> None:
    first = ["the fog lifts over the harbour", "nobody was surprised", "it was late"]
    swapped = [Document([first[1], first[0], first[2]])]
    own = [Document(first)]
    # a bead of 2-2 forgives neighbours much, but not all
    assert Aligned(ChrF()).pairwise(swapped, own)[0, 0] < 99
    turned = [Document([*first[1:], "a ferry waits there", first[0]])]
    straight = [Document([*first, "a ferry waits there"])]
    assert Aligned(ChrF()).pairwise(turned, straight)[0, 0] < 90


def test_a_sentence_without_a_counterpart_is_worth_what_is_set() -> None:
    h, r = [Document(["the fog lifts", "xyz"])], [Document(["the fog lifts", "a ferry"])]
    metric = Aligned(ChrF(), skip=100.0, weights="sentences")
    assert metric.pairwise(h, r)[0, 0] == pytest.approx(100)
    by_chrf = Aligned(ChrF(), skip=50.0, by="length")
    assert by_chrf.pairwise(h, h)[0, 0] == pytest.approx(100)


def test_empty_documents_and_sentences() -> None:
    texts = [Document([]), Document([""]), Document(["", "a cat"]), Document(["a cat", "sat", ""])]
    matrix = Aligned(ChrF()).pairwise(texts, texts)
    assert np.isfinite(matrix).all()
    assert matrix[2, 2] == pytest.approx(100)
    assert matrix[0, 2] == 0


def test_plain_texts_are_as_without_alignment() -> None:
    texts = ["the fog lifts", "a ferry waits"]
    metric = Aligned(ChrF())
    assert metric.pairwise(texts, texts).tobytes() == ChrF().pairwise(texts, texts).tobytes()
    mixed = metric.pairwise([*texts, Document(["a", "b"])], texts)
    assert mixed[:2].tobytes() == ChrF().pairwise(texts, texts).tobytes()


@settings
class Contextual(Metric):
    """Reads context and source."""

    context: int = 1
    name: ClassVar[str] = f"{__name__}:Contextual"
    info: ClassVar[Info] = Info(summary="toy", takes_source=True)

    @property
    def reads(self) -> Reading:
        return Reading(self.context, "hypothesis")

    def load(self) -> Scorer:
        raise NotImplementedError


def test_context_and_source_are_those_of_a_sentence() -> None:
    h = Document(["h0", "h1", "h2"])
    r = Document(["r0", "r1"])
    source = Document(["s0", "s1"])
    comparison = Aligned(Contextual()).comparison([h], [r], source, Context(["cs"], ["ct"]))
    compared = comparisons_of([plan_of(Aligned(Contextual()), comparison)])
    rows = {item.text: item.context for unit in compared for item in unit.hypotheses}
    assert rows == {
        "": (),
        "h0": ("ct",),
        "h1": ("h0",),
        "h2": ("h1",),
        "h0 h1": ("ct",),
        "h1 h2": ("h0",),
    }
    sources = {}
    for unit in compared:
        for item in unit.references:
            assert unit.source is not None
            sources[item] = (unit.source.text, unit.source.context)
    assert sources == {
        Item("", ()): ("", ()),
        Item("r0", ("ct",)): ("s0", ("cs",)),
        Item("r1", ("r0",)): ("s1", ("s0",)),
        Item("r0 r1", ("ct",)): ("s0 s1", ("cs",)),
    }


def test_sources_by_length() -> None:
    source = Item(Document(["aaaa", "bbbbbbbb", "cc", "dddddddd"]), (), "source")
    two = Item(Document(["xxxxxxxxxx", "yyyyyyyy"]))
    three = Item(Document(["xxxx", "yyyyyyyy", "zzzzzzzzzz"]))
    one, four = Item("x"), Item(Document(["x", "y", "z", "w"]))
    assert source_spans([two, three, one, four], source) == [
        [(0, 2), (2, 4)],
        [(0, 1), (1, 2), (2, 4)],
        [(0, 4)],
        [(0, 1), (1, 2), (2, 3), (3, 4)],
    ]


@pytest.mark.parametrize("more", [{}, {"by": ChrF()}])
def test_tiles_and_stages_have_the_bytes_of_the_whole(
    more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    r = random.Random(4)
    texts = []
    for _ in range(20):
        texts.append(Document([" ".join(r.choices(WORDS, k=5)) for _ in range(r.randint(1, 5))]))
    metric = Aligned(ChrF(), **more)
    comparison = metric.comparison(texts, texts, None, NO_CONTEXT)
    (whole,) = matrices(metric, [comparison])
    # in batches of few pairs, and pieces of few references
    monkeypatch.setattr(monotone, "CELLS", 40)
    monkeypatch.setattr(aligned, "PIECE_CELLS", 900)
    (pieces,) = matrices(metric, [comparison])
    assert pieces.tobytes() == whole.tobytes()
    monkeypatch.setattr("discorank.metrics.execution.evaluate.WIDEST", 16)
    monkeypatch.setattr("discorank.metrics.execution.evaluate.UNCUT", 16)
    for tile, values in tile_values(metric, comparison, Store(metric.scorer)):
        part = whole[tile.top : tile.bottom, tile.left : tile.right]
        assert values.tobytes() == np.ascontiguousarray(part).tobytes()
    monkeypatch.undo()
    share = Share(
        metric, [Task("x", metric, (comparison,), np.ones(20), keep_matrix=True)], Meter()
    )
    fresh = Fresh.concat([share.represent(k, 2, None) for k in range(2)])  # type: ignore[misc]
    steps = tiles_of(0, 20, 20, True, 3)
    tiles = [tile for step in steps for tile in share.compare(fresh, step)]
    (expectation,) = share.reduce(fresh, tiles).values()
    assert expectation.matrix is not None
    assert expectation.matrix.tobytes() == whole.tobytes()


def test_scores_of_documents_of_unequal_counts() -> None:
    h, r = (
        Document(["the fog lifts .", "a ferry waits"]),
        Document(["the fog lifts . a ferry", "waits here"]),
    )
    metric = Aligned(ChrF())
    assert metric.score([h], [r])[0] == metric.pairwise([h], [r])[0, 0]
    several = metric.score([h, "a cat"], [[r, h], ["a cat", "a dog"]])
    assert several.tolist() == pytest.approx([100, 100])
    assert Aligned(TER()).score([h], [[r, h]])[0] == 0
    # the corpus score adds up the beads
    beads = metric.explain(h, [r])[0]["aligned"]
    pairs = [(bead["hypothesis"], bead["counterpart"]) for bead in beads]
    expected = ChrF().corpus(*map(list, zip(*pairs, strict=True)))
    assert metric.corpus([h], [r]) == pytest.approx(expected)
    assert sum(bead["share"] for bead in beads) == pytest.approx(1)
    for windows in (Windows(ChrF(), 1), Aligned(Windows(ChrF(), 1))):
        with pytest.raises(InputError, match=r"adds up counts.*aligned\(METRIC\)"):
            windows.corpus([h], [r])
        assert np.isfinite(windows.score([h], [r])).all()


def test_explanations_add_up_to_the_value() -> None:
    h, r = (
        Document(["the fog lifts", "xyz", "a ferry waits"]),
        Document(["a ferry waits", "the fog"]),
    )
    metric = Aligned(ChrF())
    (reason,) = metric.explain(h, [r])
    total = 0.0
    for link in reason["aligned"]:
        of_two = utility(ChrF(), link["hypothesis"], link["counterpart"])
        assert link["value"] == pytest.approx(of_two)
        total += link["share"] * link["value"]
    assert total == pytest.approx(metric.pairwise([h], [r])[0, 0])


def test_a_sentence_without_a_counterpart_is_explained_by_what_it_is_worth() -> None:
    h, r = Document(["the fog lifts", "xyz qqq " * 4]), Document(["the fog lifts"])
    metric = Aligned(ChrF(), skip=30.0, weights="sentences")
    first, second = metric.explain(h, [r])[0]["aligned"]
    assert (first["value"], first["counterpart"]) == (pytest.approx(100), "the fog lifts")
    assert (second["value"], second["counterpart"], second["share"]) == (30, "", 0.25)


def test_signatures() -> None:
    metric = load_metric('aligned(chrf(beta=1.0), by="ter", skip=3)')
    assert metric.signature() == 'aligned(chrf(beta=1.0),by="ter",skip=3.0)'
    assert load_metric(metric.signature()) == metric
    assert metric == Aligned(ChrF(beta=1.0), by=TER(), skip=3.0)
    mix = load_metric("split(aligned(chrf + 0.5*ter)) + bleu")
    assert mix.signature() == "split(aligned(chrf)) + 0.5*split(aligned(ter)) + bleu"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("aligned", "aligned"),
        ("chrf(ter)", "chrf"),
        ("aligned(aligned(chrf))", "aligned"),
        ("aligned(chrf", r"\)"),
        ("aligned(chrf by)", "end"),
        ('aligned(chrf,by="comet-qe")', "compares"),
        ('aligned(chrf,by="chfr")', "'chrf'"),
        ("aligned(ds-focus)", "ds-focus"),
        ("aligned(" * 9 + "chrf" + ")" * 9, "8 wrappers"),
    ],
)
def test_wrappers_that_are_refused(text: str, found: str) -> None:
    with pytest.raises(InputError, match=found):
        load_metric(text)


@pytest.mark.parametrize("text", ["aligned(os:getcwd)", 'aligned(chrf,by="os:getcwd")'])
def test_code_inside_wrappers_is_refused_in_files(text: str) -> None:
    with pytest.raises(CodeRefusedError, match="os"):
        load_from_data(text, AllowedCode())


def test_every_context_and_an_alignment_exclude_each_other() -> None:
    class Everywhere(Contextual):
        @property
        def reads(self) -> Reading:
            return Reading(1, "reference", everywhere=True)

    metric = Aligned(Everywhere())
    comparison = metric.comparison([Document(["a", "b"])], ["c"], None, NO_CONTEXT)
    with pytest.raises(InputError, match="context_from"):
        plan_of(metric, comparison)


def test_a_decision_by_aligned_documents() -> None:
    candidates = [
        Document(["the fog lifts .", "a ferry waits ."]),
        Document(["the fog lifts . a ferry waits ."]),
        Document(["it was late .", "nobody came ."]),
    ]
    record = {"id": "d", "candidates": candidates}
    rankings = list(MBRDecoder(Aligned(ChrF()), keep_matrix=True).decode([record]))
    assert rankings[0].flags == ()
    assert rankings[0].matrix is not None
    expected = Aligned(ChrF()).pairwise(candidates, candidates)
    assert rankings[0].matrix.tobytes() == expected.tobytes()
    # a budget computes some of the same pairs
    budget = discorank.Budget(0.5, force=True)
    ranking = next(MBRDecoder(Aligned(ChrF()), keep_matrix=True, budget=budget).decode([record]))
    assert ranking.budget is not None
    assert ranking.matrix is not None
    computed = ranking.budget.computed
    np.testing.assert_allclose(ranking.matrix[computed], expected[computed], rtol=1e-12)


def test_texts_are_split_on_request() -> None:
    texts = ["The fog lifts. A ferry waits.\nIt is late.", "The fog lifts."]
    lines, rule = Split(ChrF(), at="lines"), Split(Aligned(ChrF()))
    as_documents: list[Any] = [Document(["The fog lifts. A ferry waits.", "It is late."]), texts[1]]
    assert (
        lines.pairwise(texts, texts).tobytes()
        == ChrF().pairwise(as_documents, as_documents).tobytes()
    )
    whole: list[Any] = [Document(["The fog lifts.", "A ferry waits.", "It is late."]), texts[1]]
    plain = Aligned(ChrF())
    assert rule.pairwise(texts, texts).tobytes() == plain.pairwise(whole, whole).tobytes()
    assert rule.score(texts, texts[::-1]).tobytes() == plain.score(whole, whole[::-1]).tobytes()
    with pytest.raises(InputError, match=r"at.*lines\|rule\|pysbd"):
        Split(ChrF(), at="os:getcwd")
    pytest.importorskip("pysbd")
    by_pysbd = Aligned(Split(ChrF(), at="pysbd:en"))
    assert by_pysbd.pairwise(texts, texts).tobytes() == plain.pairwise(whole, whole).tobytes()
    with pytest.raises(InputError, match="pysbd:xx"):
        Split(ChrF(), at="pysbd:xx").pairwise(texts, texts)


def test_the_command_aligns_and_splits(tmp_path: Path) -> None:
    texts = ["The fog lifts. A ferry waits.", "The fog lifts. A ferry is waiting.", "It was late."]
    lists, output = tmp_path / "lists.jsonl", tmp_path / "chosen.jsonl"
    lists.write_text(json.dumps({"id": "1", "candidates": texts}) + "\n")
    utility = "split(aligned(chrf + 0.5*ter))"
    assert main(["decode", str(lists), "-u", utility, "-o", str(output)]) == 0
    row = json.loads(output.read_text().splitlines()[0])
    metric = load_metric(utility)
    expected = metric.pairwise(texts, texts).mean(axis=1)
    assert row["text"] == texts[expected.argmax()]
    assert row["utility"] == pytest.approx(expected.max())
    segments = tmp_path / "segments.jsonl"
    row = {"hypothesis": ["The fog.", "It lifts."], "references": [["The fog. It lifts."]]}
    segments.write_text(json.dumps(row) + "\n")
    assert main(["score", str(segments), "-m", "aligned(chrf)"]) == 0
