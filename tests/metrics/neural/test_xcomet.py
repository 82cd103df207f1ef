"""XCOMET: golden scores, mqm and spans, the parts by what is given, both rules of spans, what is refused."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from discorank import InputError, ModelLoadError, load_metric
from discorank.metrics.neural.xcomet import (
    XCometMetric,
    labels_of,
    mqm_of,
    spans_of,
)
from discorank.metrics.representations import Ragged

from ...support.learned_golden import GOLDEN, cases_of, column, copy_of, grouped

MODELS = GOLDEN / "xcomet" / "models"
ENCODER = str(MODELS / "tiny-xlmr-xl")
GROUPS = grouped(cases_of("xcomet"), "model", "mode", "decoding_threshold")
LONG = pytest.mark.filterwarnings(
    "ignore::discorank.metrics.errors.TruncationWarning",
    "ignore:xcomet. .* tokens are read together",
)


@cache
def tiny(model: str = "tiny-xcomet", name: str = "xcomet", **more: Any) -> XCometMetric:
    metric = load_metric(name, model=str(MODELS / model), encoder_path=ENCODER, **more)
    assert isinstance(metric, XCometMetric)
    return metric


def arguments(group: tuple[str, str, float | None]) -> tuple[list[str], Any, Any]:
    cases, mode = GROUPS[group], group[1]
    references = None if mode == "src" else column(cases, "ref")
    sources = None if mode == "ref" else column(cases, "src")
    return column(cases, "hyp"), references, sources


def metric_of(group: tuple[str, str, float | None], **more: Any) -> XCometMetric:
    model, mode, threshold = group
    name = "xcomet-qe" if mode == "src" else "xcomet"
    return tiny(model, name, decoding_threshold=threshold, **more)


def mqm_by_spans(marked: Iterable[Iterable[Any]]) -> list[float]:
    """(25 - min(25, penalties)) / 25 of every hypothesis, by the spans that are marked."""
    weights = {"minor": 1, "major": 5, "critical": 10}
    penalties = [sum(weights[span.severity] for span in spans) for spans in marked]
    return [(25 - min(25, penalty)) / 25 for penalty in penalties]


@LONG
@pytest.mark.parametrize("group", GROUPS)
def test_golden_values(group: tuple[str, str, float | None]) -> None:
    cases, texts = GROUPS[group], arguments(group)
    scores = metric_of(group).score(*texts)
    np.testing.assert_allclose(scores, column(cases, "score"), rtol=0, atol=1e-5)


@LONG
@pytest.mark.parametrize("group", GROUPS)
def test_golden_spans(group: tuple[str, str, float | None]) -> None:
    marked = metric_of(group).spans(*arguments(group))
    assert mqm_by_spans(marked) == column(GROUPS[group], "mqm")
    for case, spans in zip(GROUPS[group], marked, strict=True):
        expected = case["spans"]
        places = [(span.start, span.end, span.severity) for span in spans]
        assert places == [(span["start"], span["end"], span["severity"]) for span in expected]
        confidences = [span.confidence for span in spans]
        np.testing.assert_allclose(confidences, column(expected, "confidence"), rtol=0, atol=1e-5)


@LONG
def test_golden_parts_of_a_score() -> None:
    cases = GROUPS["tiny-xcomet", "full", None]
    hypotheses, references, sources = arguments(("tiny-xcomet", "full", None))
    by_source = tiny(name="xcomet-qe").score(hypotheses, None, sources)
    by_reference = tiny().score(hypotheses, references)
    mqm_source = np.array(mqm_by_spans(tiny(name="xcomet-qe").spans(hypotheses, None, sources)))
    mqm_reference = np.array(mqm_by_spans(tiny().spans(hypotheses, references)))
    src, ref = (np.minimum(column(cases, key), 1) for key in ("src_score", "ref_score"))
    np.testing.assert_allclose(by_source, 0.78 * src + 0.22 * mqm_source, rtol=0, atol=1e-5)
    np.testing.assert_allclose(by_reference, 0.78 * ref + 0.22 * mqm_reference, rtol=0, atol=1e-5)


def by_hand(
    labels: list[int], rule: str, blanks: Collection[int] = ()
) -> list[tuple[int, int, int]]:
    """Spans (first, end, label) as the definition reads, token by token."""
    labels = list(labels)
    if rule == "clean":
        labels[0] = labels[-1] = 0
        plain = list(labels)
        for place in blanks:
            labels[place] = plain[place - 1]
    spans, begin = [], None
    for place, label in enumerate(labels):
        if label and begin is None:
            begin = place
        elif not label and begin is not None:
            spans.append((begin, place, labels[begin]))
            begin = None
    return spans


@given(st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=12), min_size=1, max_size=5))
def test_spans_are_those_of_the_definition(texts: list[list[int]]) -> None:
    labels = Ragged.of_rows([np.array(text) for text in texts])
    no_blanks = np.zeros(len(labels.values), bool)
    for rule in ("reference", "clean"):
        spans = spans_of(labels, no_blanks, rule)
        expected = [(i, *span) for i, text in enumerate(texts) for span in by_hand(text, rule)]
        columns = (spans.text, spans.first, spans.end, spans.label)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
        penalties = [
            sum({1: 1, 2: 5, 3: 10}[label] for _, _, label in by_hand(text, rule)) for text in texts
        ]
        mqm = [(25 - min(25, penalty)) / 25 for penalty in penalties]
        assert mqm_of(spans, len(texts)).tolist() == mqm


def test_a_blank_continues_a_mistake_and_begins_none() -> None:
    labels = [0, 2, 1, 0, 3, 1, 0]
    blank = np.array([False, False, True, False, True, False, False])
    spans = spans_of(Ragged.of_rows([np.array(labels)]), blank, "clean")
    expected = by_hand(labels, "clean", blanks=(2, 4))
    assert (
        list(zip(spans.first, spans.end, spans.label, strict=True))
        == expected
        == [(1, 3, 2), (5, 6, 1)]
    )


def test_labels_with_a_threshold() -> None:
    probabilities = np.array([[0.4, 0.1, 0.3, 0.2], [0.7, 0.1, 0.1, 0.1]], np.float32)
    assert labels_of(probabilities, None).tolist() == [0, 0]
    assert labels_of(probabilities, 0.5).tolist() == [2, 0]
    assert labels_of(probabilities, 0.2).tolist() == [2, 1]


def test_clean_spans_lie_in_the_text() -> None:
    cases = GROUPS["tiny-xcomet", "ref", None]
    plain = [case for case in cases if len(case["hyp"]) < 80 and case["hyp"].strip()]
    metric = tiny(decode="clean")
    for case, spans in zip(
        plain, metric.spans(column(plain, "hyp"), column(plain, "ref")), strict=True
    ):
        for span in spans:
            assert case["hyp"][span.start : span.end].strip() == span.text != ""
            assert not case["hyp"][span.start].isspace()


def test_offsets_are_those_of_the_text_as_given() -> None:
    """Blanks before a text and special tokens in it, which are read otherwise, move nothing."""
    metric = tiny(decode="clean", decoding_threshold=0.0)
    text = "  the <pad> mill"
    (spans,) = metric.spans([text], ["a mill"])
    assert spans
    assert all(text[span.start : span.end].strip() == span.text for span in spans)
    assert max(span.end for span in spans) == len(text)


def test_lists_with_and_without_source_in_one_call() -> None:
    from discorank.metrics.execution.evaluate import matrices

    metric, texts = tiny(), ["the mill", "a cat"]
    with_source = metric.segments(texts, texts, ["die Mühle"] * 2, None)
    without = metric.segments(texts, texts, None, None)
    mixed = [with_source[0], without[0], with_source[1], without[1]]
    together = np.array([matrix.item() for matrix in matrices(metric, mixed)])
    expected = np.ravel(
        [metric.score(texts, texts, ["die Mühle"] * 2), metric.score(texts, texts)], "F"
    )
    assert together.tobytes() == expected.tobytes()


def test_windows_are_joined_texts() -> None:
    together = tiny(context=1).score(["a cat", "it sat"], ["the cat", "it slept"], None, ["d", "d"])
    plain = tiny().score(["a cat", "the cat it sat"], ["the cat", "the cat it slept"])
    np.testing.assert_array_equal(together, plain)
    with pytest.raises(InputError, match=r"context=2.*At most 1"):
        tiny(context=2)


OTHERS = GOLDEN / "docmetrics" / "models"


@pytest.mark.parametrize(
    ("name", "model", "encoder", "found"),
    [
        ("xcomet", OTHERS / "tiny-unite", OTHERS / "tiny-xlmr", "comet"),
        ("comet", MODELS / "tiny-xcomet", ENCODER, r"xcomet\(model="),
        ("xcomet", MODELS / "tiny-xcomet", OTHERS / "tiny-xlmr", "encoder"),
    ],
)
def test_other_models_are_refused(name: str, model: Path, encoder: Any, found: str) -> None:
    metric: Any = load_metric(name, model=str(model), encoder_path=str(encoder))
    with pytest.raises(ModelLoadError, match=found):
        _ = metric.scorer


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("word_layer: 4", "word_layer: 9", "layer 9 of"),
        ("- critical", "- terrible", "error_labels.*terrible"),
    ],
)
def test_settings_that_are_refused(before: str, after: str, found: str, tmp_path: Path) -> None:
    folder = copy_of(MODELS / "tiny-xcomet", tmp_path / "model")
    settings = folder / "hparams.yaml"
    text = settings.read_text()
    assert before in text
    settings.write_text(text.replace(before, after))
    checkpoint = folder / "checkpoints" / "model.ckpt"
    content = torch.load(checkpoint, weights_only=True)
    for key in (before.partition(":")[0], "error_labels"):
        content["hyper_parameters"].pop(key, None)
    torch.save(content, checkpoint)
    metric: Any = load_metric("xcomet", model=str(folder), encoder_path=ENCODER)
    with pytest.raises(ModelLoadError, match=found):
        _ = metric.scorer
