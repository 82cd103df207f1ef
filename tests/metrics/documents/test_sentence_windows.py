"""Windows of sentences: the rule, values against a double loop, what fits, sources, and values of pairs alone."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import Document, InputError, MBRDecoder, Metric, Reranker, load_metric
from discorank.cli.commands.check import PassCounts
from discorank.cli.main import main
from discorank.metrics.documents.aligned import Aligned, _overlaps
from discorank.metrics.documents.windows import WindowRule, Windows, window_shares
from discorank.metrics.documents.wrapper import Spans
from discorank.metrics.errors import TruncationWarning
from discorank.metrics.execution.evaluate import Tile, matrices_of_plans, plan_of
from discorank.metrics.execution.store import Store
from discorank.metrics.reading_plan import comparisons_of
from discorank.metrics.text.texts import NO_CONTEXT

from ...support.examples import examples
from ...support.lists import write_lists

MODELS = Path(__file__).parents[2] / "golden" / "docmetrics" / "models"
BOUNDED = examples(10)
WORDS = ["mill", "river", "old", "the", "turns", "near", "a", "wind"]


def in_windows(metric: Any, windows: int | None, stride: int | None) -> Metric:
    assert isinstance(metric, Metric)
    return metric if windows is None else Windows(metric, windows, stride)


@cache
def loaded(name: str, **values: Any) -> Any:
    """A metric with its model, loaded once."""
    return load_metric(name, **values)


def bertscore(windows: int | None = None, stride: int | None = None, **more: Any) -> Metric:
    plain = loaded("bertscore", model=str(MODELS / "tiny-bert"), layer=2, **more)
    return in_windows(plain, windows, stride)


def comet(
    name: str = "comet-qe",
    model: str = "tiny-comet-qe",
    windows: int | None = None,
    **more: Any,
) -> Metric:
    paths = {"model": str(MODELS / model), "encoder_path": str(MODELS / "tiny-xlmr")}
    return in_windows(loaded(name, **paths, **more), windows, None)


def document(number: int, num_sentences: int, num_words: int = 4) -> Document:
    random = np.random.default_rng(number)
    return Document(
        [" ".join(random.choice(WORDS, size=num_words)) + " ." for _ in range(num_sentences)]
    )


def plain_spans(n: int, k: int, s: int) -> Spans:
    """The windows where everything fits."""
    return WindowRule(k, s).spans([min(k, n - first) for first in range(n)])


def averaged(of_windows: Sequence[float], spans: Spans) -> float:
    """Each sentence gets the mean of the windows that have it, the document the mean of its sentences."""
    of_sentences: list[list[float]] = [[] for _ in range(spans[-1][1])]
    for value, (start, stop) in zip(of_windows, spans, strict=True):
        for sentence in of_sentences[start:stop]:
            sentence.append(value)
    return float(np.mean([np.mean(values) for values in of_sentences]))


def text(document: Document, start: int, stop: int) -> str:
    return " ".join(document.sentences[start:stop])


# --- the rule


@pytest.mark.parametrize(
    ("n", "k", "s", "expected"),
    [
        (1, 3, 1, [(0, 1)]),
        (3, 3, 2, [(0, 3)]),
        (10, 4, 2, [(0, 4), (2, 6), (4, 8), (6, 10)]),
        (11, 4, 2, [(0, 4), (2, 6), (4, 8), (6, 10), (7, 11)]),
        (5, 2, 2, [(0, 2), (2, 4), (3, 5)]),
        (4, 1, 1, [(0, 1), (1, 2), (2, 3), (3, 4)]),
    ],
)
def test_windows_of_a_document(n: int, k: int, s: int, expected: list[tuple[int, int]]) -> None:
    assert list(plain_spans(n, k, s)) == expected


@given(st.data(), st.integers(1, 12), st.integers(1, 6))
@BOUNDED
def test_windows_cover_a_document_and_fit(data: st.DataObject, n: int, k: int) -> None:
    stride = data.draw(st.integers(1, k))
    longest = [data.draw(st.integers(1, min(k, n - first))) for first in range(n)]
    # what fits from a sentence on, fits from the next one on without it
    for first in range(n - 1):
        longest[first + 1] = max(longest[first + 1], longest[first] - 1, 1)
    spans = WindowRule(k, stride).spans(longest)
    assert spans[0][0] == 0
    assert spans[-1][1] == n
    assert {i for start, stop in spans for i in range(start, stop)} == set(range(n))
    assert all(stop - start <= longest[start] for start, stop in spans)
    starts = [start for start, _ in spans]
    assert starts == sorted(set(starts))
    assert window_shares(spans).sum() == pytest.approx(n)


# --- values


@pytest.mark.parametrize(("k", "s"), [(3, None), (3, 2), (2, 2), (1, 1), (9, 4)])
def test_values_against_a_double_loop(k: int, s: int | None) -> None:
    hypotheses = [document(i, 5) for i in range(3)]
    references = [document(9, 5), document(8, 5)]
    spans = plain_spans(5, k, s or max(1, k // 2))
    plain = bertscore()
    matrix = bertscore(windows=k, stride=s).pairwise(hypotheses, references)
    for i, h in enumerate(hypotheses):
        for j, r in enumerate(references):
            own = plain.score([text(h, *at) for at in spans], [text(r, *at) for at in spans])
            assert matrix[i, j] == pytest.approx(averaged(own.tolist(), spans), abs=1e-12)


def test_a_text_of_one_window_is_its_joined_text() -> None:
    texts = [document(i, 3) for i in range(3)]
    joined = bertscore().pairwise([str(t) for t in texts], [str(t) for t in texts])
    assert bertscore(windows=3).pairwise(texts, texts).tobytes() == joined.tobytes()
    unequal = [document(i, n) for i, n in enumerate((2, 4, 3))]
    joined = bertscore().pairwise([str(t) for t in unequal], [str(t) for t in unequal])
    matrix = bertscore(windows=5).pairwise(unequal, unequal)
    np.testing.assert_allclose(matrix, joined, rtol=0, atol=1e-12)


def test_unequal_documents_are_compared_at_equal_places() -> None:
    """Of 4 and 3 windows: the shares of overlaps of quarters with thirds."""
    h, r = document(0, 4), document(1, 3)
    matrix = bertscore(windows=1).pairwise([h], [r])
    u = bertscore().pairwise(h.sentences, r.sentences)
    expected = (3 * u[0, 0] + u[1, 0] + 2 * u[1, 1] + 2 * u[2, 1] + u[2, 2] + 3 * u[3, 2]) / 12
    assert matrix[0, 0] == pytest.approx(expected, abs=1e-12)
    # one window against two has the mean of both values
    metric, plain = bertscore(windows=2, stride=2), bertscore()
    short = document(1, 2)
    own = plain.pairwise([text(h, 0, 2), text(h, 2, 4)], [str(short)])
    assert metric.pairwise([h], [short])[0, 0] == pytest.approx(own.mean(), abs=1e-12)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.data())
@BOUNDED
def test_shares_by_place(rows: list[int], data: st.DataObject) -> None:
    columns = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    i, j, share = _overlaps(np.array(rows), np.array(columns))
    np.testing.assert_allclose(np.bincount(i, share), np.array(rows) / sum(rows))
    np.testing.assert_allclose(np.bincount(j, share), np.array(columns) / sum(columns))
    assert len(i) <= len(rows) + len(columns) - 1
    same = _overlaps(np.array(rows), np.array(rows))
    assert same[0].tolist() == same[1].tolist() == list(range(len(rows)))


@pytest.mark.parametrize("form", ["plain", "aligned", "context"])
def test_a_value_depends_on_its_pair_alone(form: str) -> None:
    texts = [document(i, n) for i, n in enumerate((5, 5, 7, 2, 1, 5))]
    metric = bertscore(windows=3, stride=2, context=int(form == "context"))
    if form == "aligned":
        metric = Aligned(metric)
    whole = metric.pairwise(texts, texts[:4])
    for i, h in enumerate(texts):
        for j, r in enumerate(texts[:4]):
            assert metric.pairwise([h], [r])[0, 0].tobytes() == whole[i, j].tobytes(), (i, j)
            assert metric.score([h], [r], None, ["d"])[0].tobytes() == whole[i, j].tobytes()


def test_tiles_are_parts_of_the_whole() -> None:
    texts = [document(i, n) for i, n in enumerate((5, 5, 7, 2))]
    metric = bertscore(windows=3)
    whole = metric.pairwise(texts, texts)
    comparison = metric.comparison(texts, texts, None, NO_CONTEXT)
    store = Store(metric.scorer)
    for tile in (Tile(0, 0, 2, 0, 3), Tile(0, 1, 4, 2, 4), Tile(0, 0, 2, 0, 2)):
        part = plan_of(metric, comparison).part(tile.rows, tile.columns)
        (values,) = matrices_of_plans(metric.scorer, [part], store)
        expected = whole[tile.top : tile.bottom, tile.left : tile.right]
        assert np.ascontiguousarray(expected).tobytes() == values.tobytes()


def test_each_window_is_represented_once() -> None:
    texts = [document(0, 6), document(0, 6), document(1, 6)]
    metric = bertscore(windows=2)
    comparison = metric.comparison(texts, texts, None, NO_CONTEXT)
    items = {i for one in comparisons_of([plan_of(metric, comparison)]) for i in one.items}
    assert len(items) == 2 * 5


# --- what fits


def read_tokens(metric: Metric, texts: Sequence[Document]) -> list[int]:
    """Lengths of the windows that are compared, in tokens."""
    comparison = metric.comparison(texts, texts, None, NO_CONTEXT)
    items = [i for one in comparisons_of([plan_of(metric, comparison)]) for i in one.items]
    lengths: list[int] = metric.scorer.prepare(items)[1].tolist()
    return lengths


def test_windows_are_shortened_until_they_fit() -> None:
    """No warning of truncation, which would be an error here."""
    texts = [document(0, 7, 9), document(1, 7, 3)]
    metric = bertscore(windows=5, max_tokens=40)
    matrix = metric.pairwise(texts, texts)
    assert max(read_tokens(metric, texts)) <= 40
    np.testing.assert_allclose(np.diag(matrix), 1, atol=1e-6)
    with pytest.warns(TruncationWarning):
        bertscore(max_tokens=40).pairwise([str(t) for t in texts], [str(t) for t in texts])
    # the shorter one alone has its own windows, and so has the pair
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric.pairwise(texts[1:], texts[:1])[0, 0].tobytes() == matrix[1, 0].tobytes()


def test_a_sentence_that_does_not_fit_is_cut_and_flagged() -> None:
    long = Document(["mill", "river " * 60, "old"])
    metric = bertscore(windows=2, max_tokens=40)
    with pytest.warns(TruncationWarning, match="lost text"):
        metric.pairwise([long], [long])
    lists = [
        {"id": "1", "candidates": [["mill", "river " * 60], ["old", "mill", "a"]]},
        {"id": "2", "candidates": [["mill " * 15] * 6, ["old", "mill", "a"]]},
    ]
    one, other = MBRDecoder(metric).decode(lists)
    assert "truncated-text" in one.flags
    assert not other.flags
    (joined,) = MBRDecoder(bertscore(max_tokens=40)).decode(lists[1:])
    assert set(joined.flags) == {"joined", "truncated-text"}


# --- sources


def of_source(num_sentences: int) -> Document:
    return document(77, num_sentences)


def test_windows_without_references_stand_beside_the_sources() -> None:
    hypotheses, source = [document(0, 5), document(1, 5)], of_source(5)
    values = comet(windows=3).pairwise(hypotheses, [], source)
    spans = plain_spans(5, 3, 1)
    plain = comet()
    for h, value in zip(hypotheses, values[:, 0], strict=True):
        own = plain.score(
            [text(h, *at) for at in spans], sources=[text(source, *at) for at in spans]
        )
        assert value == pytest.approx(averaged(own.tolist(), spans), abs=1e-12)
    mixed = comet(windows=3).pairwise([*hypotheses, document(3, 6)], [], source)
    assert mixed[:2].tobytes() == values.tobytes()
    assert np.isfinite(mixed).all()
    records = [
        {
            "id": "1",
            "source": list(source.sentences),
            "candidates": [list(h.sentences) for h in [*hypotheses, document(3, 6)]],
        }
    ]
    (ranking,) = Reranker({comet(windows=3).signature(): 1.0}, nbest=None).decode(records)
    assert not ranking.flags
    assert ranking.index == int(mixed[:, 0].argmax())


def test_windows_of_source_hypothesis_and_reference() -> None:
    texts, source = [document(i, 5) for i in range(2)], of_source(5)
    metric, plain = comet("comet", "tiny-comet-ref", windows=3), comet("comet", "tiny-comet-ref")
    spans = plain_spans(5, 3, 1)
    matrix = metric.pairwise(texts, texts, source)
    own = plain.score(*([text(one, *at) for at in spans] for one in (texts[0], texts[1], source)))
    assert matrix[0, 1] == pytest.approx(averaged(own.tolist(), spans), abs=1e-12)
    for num_sentences in (4, 1, 7):
        unequal = metric.pairwise(texts, texts, of_source(num_sentences))
        assert np.isfinite(unequal).all()


def test_texts_that_are_read_side_by_side_fit_together() -> None:
    """Windows of 5 sentences fit one by one, not side by side with source and reference."""
    texts, source = [document(i, 6, 6) for i in range(2)], document(77, 6, 6)
    metric = comet("comet", "tiny-unite", windows=5)
    joined = [text(one, 0, 5) for one in (*texts, source)]
    with pytest.warns(TruncationWarning):
        comet("comet", "tiny-unite").score(joined[:1], joined[1:2], joined[2:])
    assert np.isfinite(metric.pairwise(texts, texts, source)).all()


def test_a_source_that_does_not_fit_shortens_windows() -> None:
    source = Document(["river " * 14] * 4)
    metric = comet(windows=3, max_tokens=40)
    values = metric.pairwise([document(0, 4, 2), document(1, 4, 2)], [], source)
    assert np.isfinite(values).all()


# --- what is told


def test_windows_are_explained() -> None:
    h, same, unequal = document(0, 5), document(1, 5), document(2, 4)
    metric = bertscore(windows=3, stride=2)
    by_position, by_place = metric.explain(h, [same, unequal])
    matrix = metric.pairwise([h], [same, unequal])
    for explanation, value in zip((by_position, by_place), matrix[0], strict=True):
        pairs = explanation["aligned"]
        assert sum(pair["share"] for pair in pairs) == pytest.approx(1)
        assert sum(pair["share"] * pair["F"] for pair in pairs) == pytest.approx(value)
        assert [pair["value"] for pair in pairs] == pytest.approx([pair["F"] for pair in pairs])
    assert [pair["hypothesis"] for pair in by_position["aligned"]] == [
        text(h, *at) for at in plain_spans(5, 3, 2)
    ]


def test_windows_from_the_command_line(tmp_path: Path) -> None:
    texts = [list(document(i, n).sentences) for i, n in enumerate((5, 4, 5))]
    write_lists(tmp_path / "in.jsonl", [{"id": "1", "candidates": texts}])
    command = ["decode", str(tmp_path / "in.jsonl"), "--quiet", "--nbest", "3"]
    out = tmp_path / "out.jsonl"
    assert main([*command, "-u", "windows(chrf,size=3)", "-o", str(out)]) == 0
    row = json.loads(out.read_text())
    assert "flags" not in row
    documents = [Document(text) for text in texts]
    expected = load_metric("windows(chrf,size=3)").pairwise(documents, documents)
    utilities = [ranked["utility"] for ranked in row["ranking"]]
    assert utilities == pytest.approx(sorted(expected.mean(axis=1), reverse=True))


def test_passes_are_counted_without_a_model() -> None:
    metric = bertscore(windows=3, stride=2)
    scorer = metric.unloaded()
    assert scorer is not None
    counts = PassCounts(metric, scorer)
    texts = [document(i, n) for i, n in enumerate((5, 4))]
    counts.add(texts, texts, None)
    # windows of each document, with both of which it is compared
    assert counts.passes >= len(plain_spans(5, 3, 2)) + len(plain_spans(4, 3, 2))
    assert "scorer" not in vars(metric)


def test_corpus_scores() -> None:
    hypotheses, references = [document(0, 5), document(1, 4)], [document(2, 5), document(3, 5)]
    metric = bertscore(windows=3)
    scores = metric.score(hypotheses, references)
    assert metric.corpus(hypotheses, references) == pytest.approx(scores.mean())
    with pytest.raises(InputError, match="windows"):
        load_metric("windows(bleu)").corpus(hypotheses, references)


# --- settings


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("windows(chrf,size=2,stride=3)", "stride"),
        ("windows(chrf,size=0)", "size"),
        ("windows(aligned(chrf))", r"aligned\(windows"),
        ("windows(dr)", "dr"),
    ],
)
def test_settings_that_are_refused(text: str, found: str) -> None:
    with pytest.raises(InputError, match=found):
        load_metric(text)


def test_contexts_of_references_are_refused() -> None:
    lent = bertscore(windows=2, context=1, context_from="reference")
    with pytest.raises(InputError, match="context_from"):
        lent.pairwise([document(0, 3)], [document(1, 3)])
