"""Prism and Doc-Prism: golden values of the released code, the equation by hand, context, languages, refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES

from discorank import Context, Document, InputError, ModelLoadError, load_metric
from discorank.metrics.errors import TruncationWarning
from discorank.metrics.execution.store import Store
from discorank.metrics.neural.likelihood import BY_LANGUAGE, CODES, Prism
from discorank.metrics.neural.models.pretrained import pretrained, tokenizer_of
from discorank.metrics.representations import Block

BOUNDED = bounded(max_examples=6, deadline=None, database=None, print_blob=True)
GOLDEN = Path(__file__).parents[2] / "golden" / "docmetrics"
MODEL = GOLDEN / "models" / "tiny-mbart50"
DATA = json.loads((GOLDEN / "cases.json").read_text(encoding="utf-8"))
CASES = [case for case in DATA["cases"] if case["metric"] == "prism"]
TAG, EOS = 483, 2  # de_DE and the end
MODES: dict[str, dict[str, Any]] = {
    "sent": {},
    "refctx": {"context": 2, "context_from": "reference"},
    "hypctx": {"context": 2, "context_from": "hypothesis"},
}

cuts = pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")


@cache
def prism(**settings: Any) -> Prism:
    metric = load_metric("prism", model=str(MODEL), **{"lang": "de", **settings})
    assert isinstance(metric, Prism)
    return metric


@cache
def plain() -> tuple[Any, Any]:
    return tokenizer_of(MODEL), pretrained(MODEL, "AutoModelForSeq2SeqLM")


def ids_of(text: str) -> list[int]:
    ids: list[int] = plain()[0](text, add_special_tokens=False).input_ids
    return ids


def labels_of(context: Sequence[str], text: str) -> list[int]:
    return [
        TAG,
        *(token for before in context for token in [*ids_of(before), EOS]),
        *ids_of(text),
        EOS,
    ]


def direction(source: Sequence[int], target: Sequence[int], n: int) -> float:
    """Mean log-probability of the last n tokens and what stands before them, from one run of the whole model."""
    with torch.inference_mode():
        read = torch.tensor([[EOS, *target[:-1]]])
        logits = plain()[1](
            input_ids=torch.tensor([list(source)]), decoder_input_ids=read, use_cache=False
        ).logits[0]
    values = logits.log_softmax(-1)[torch.arange(len(target)), torch.tensor(list(target))]
    return float(values[len(target) - n - 2 : -1].double().mean())


def by_hand(h: str, r: str, of_h: Sequence[str] = (), of_r: Sequence[str] = ()) -> float:
    x, y = labels_of(of_h, h), labels_of(of_r, r)
    return (direction(y, x, len(ids_of(h))) + direction(x, y, len(ids_of(r)))) / 2


def texts(case: dict[str, Any], side: str) -> list[str]:
    """The sentences of a case without their context."""
    sentences = [
        sentence
        for name in dict.fromkeys(case["doc_ids"])
        for sentence in DATA["documents"][name][side]
    ]
    assert len(sentences) == len(case["doc_ids"])
    return sentences


@cuts
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_golden(case: dict[str, Any]) -> None:
    metric = prism(compat="reference", **MODES[case["mode"]])
    h, r = texts(case, "hyp"), texts(case, "ref")
    np.testing.assert_allclose(
        metric.score(h, r, documents=case["doc_ids"]), case["scores"], atol=1e-5
    )
    assert metric.corpus(h, r, documents=case["doc_ids"]) == pytest.approx(
        case["system_score"], abs=1e-5
    )

    store = Store(metric.scorer)
    segments = metric.segments(h, [[text] for text in r], None, case["doc_ids"])
    for i, block in enumerate(store.add(segments)):
        values = metric.scorer.describe(store.reps, block, 0, 0)
        assert values == {
            "hypothesis_given_reference": pytest.approx(case["scores_hyp_given_ref"][i], abs=1e-5),
            "reference_given_hypothesis": pytest.approx(case["scores_ref_given_hyp"][i], abs=1e-5),
        }
        for row, wanted in (
            (block.hypotheses, case["hyp_ids"]),
            (block.references, case["ref_ids"]),
        ):
            assert store.reps["ids"][row].values.tolist() == wanted[i]


@cuts
def test_without_compat_the_sentence_is_never_cut_for_its_context() -> None:
    case = next(case for case in CASES if case["mode"] == "refctx")
    scores = prism(context=2).score(
        texts(case, "hyp"), texts(case, "ref"), documents=case["doc_ids"]
    )
    long = np.array(
        [
            max(pair) > 128
            for pair in zip(case["untruncated_len_ref"], case["untruncated_len_hyp"], strict=True)
        ]
    )
    assert long.sum() == 2
    np.testing.assert_allclose(scores[~long], np.array(case["scores"])[~long], atol=1e-5)
    assert (scores[long] < -5).all()


@cuts
def test_what_gives_way_in_texts_that_are_too_long() -> None:
    """The oldest context, then the left of what is left, then the right end of the sentence."""
    h, r = "ein Boot", "zwei Boote"
    n = max(len(ids_of(h)), len(ids_of(r)))
    old, new = "Der Sturm kam am Morgen.", "Er war da."
    limit = n + len(ids_of(new)) + 1 + 2
    assert prism(context=2, max_tokens=limit).pairwise(
        [h], [r], context=Context(target=[old, new])
    ) == pytest.approx(by_hand(h, r, [new], [new]), abs=1e-5)
    long = " ".join(["Sturm"] * 40)
    kept = ids_of(long)[:10]
    whole, other = [TAG, *kept, EOS], labels_of([], r)
    wanted = (direction(other, whole, 10) + direction(whole, other, len(ids_of(r)))) / 2
    assert prism(max_tokens=12).score([long], [r]) == pytest.approx(wanted, abs=1e-5)
    with pytest.warns(TruncationWarning):
        prism(max_tokens=12).score([long], [r])


words = st.sampled_from(
    ["Der", "Sturm", "Boot.", "die", "Hafenmeisterin", "x", "</s>", "de_DE", "的猫", "\ud800", ""]
)
some = st.lists(words, max_size=12).map(" ".join)


@given(h=some, r=some, context=st.lists(some, max_size=3))
@BOUNDED
def test_equal_to_the_equation(h: str, r: str, context: list[str]) -> None:
    def clean(text: str) -> str:
        text = text.encode("utf-8", "replace").decode().strip()
        return text.replace("</s>", "< /s>").replace("de_DE", "d e_DE")

    before = [clean(text) for text in context[-2:]]
    matrix = prism(context=2).pairwise([h], [r], context=Context(target=context))
    assert matrix[0, 0] == pytest.approx(by_hand(clean(h), clean(r), before, before), abs=1e-5)
    assert (matrix <= 0).all()


def test_documents_are_read_sentence_by_sentence() -> None:
    h, r = (
        ["Ein Boot kam.", "Es sank.", "Niemand sah es."],
        ["Boote kamen.", "Sie sanken.", "Keiner sah hin."],
    )
    own = prism(context=1).pairwise([Document(h)], [Document(r)])
    before = [[], h[:1], h[1:2]], [[], r[:1], r[1:2]]
    wanted = [by_hand(*pair) for pair in zip(h, r, *before, strict=True)]
    assert own[0, 0] == pytest.approx(np.mean(wanted), abs=1e-5)
    lent = [by_hand(*pair) for pair in zip(h, r, before[1], before[1], strict=True)]
    assert prism(context=1).score([Document(h)], [Document(r)], documents=["d"])[
        0
    ] == pytest.approx(np.mean(lent), abs=1e-5)
    reference = prism(context=1, context_from="reference")
    assert reference.pairwise([Document(h)], [Document(r)])[0, 0] == pytest.approx(
        np.mean(lent), abs=1e-5
    )


def test_an_empty_text_is_scored_by_the_tag() -> None:
    assert prism().score([""], [" "])[0] == pytest.approx(
        direction([TAG, EOS], [TAG, EOS], 0), abs=1e-5
    )
    assert np.isfinite(
        prism(context=2).pairwise(["", "a"], ["", "b"], context=Context(target=["", ""]))
    ).all()


def test_what_pairs_cost() -> None:
    metric = prism(context=1)
    store = Store(metric.scorer)
    h, r = ["Ein Boot kam.", "Es sank."], ["Boote", "Der Sturm kam", "Nacht"]
    comparisons = [
        metric.comparison(h, r, None, Context(target=["Es war Nacht."])),
        metric.comparison(h, h, None, Context()),
    ]
    oblong, square = store.add(comparisons)
    prefix = len(labels_of(["Es war Nacht."], "")) - 1
    of_h, of_r = (sum(len(ids_of(text)) for text in side) for side in (h, r))
    assert metric.scorer.pair_cost(store.reps, oblong) == 3 * (prefix + of_h) + 2 * (prefix + of_r)
    assert metric.scorer.pair_cost(store.reps, square) == 2 * (1 + of_h)
    again = Block(square.hypotheses, square.hypotheses.copy())
    assert metric.scorer.pair_cost(store.reps, again) == 4 * (1 + of_h)


def test_every_language_of_mbart50() -> None:
    assert sorted(CODES) == sorted(FAIRSEQ_LANGUAGE_CODES)
    assert len(BY_LANGUAGE) == len(set(BY_LANGUAGE)) == len(CODES) == 52
    for code in CODES:
        assert (
            Prism(lang=code)
            == Prism(lang=code[:2])
            == Prism().for_language(code[:2])
            == Prism().for_language(code)
        )
    assert Prism().for_language("pt-BR").lang == "pt_XX"
    assert Prism().for_language("ZH-Hant").lang == "zh_CN"
    assert Prism(lang="en").for_language("de").lang == "en_XX"


def test_the_language_changes_the_score() -> None:
    german, english = (prism(lang=lang).score(["Boot"], ["Boote"])[0] for lang in ("de", "en"))
    assert abs(german - english) > 1e-3


@pytest.mark.parametrize("lang", ["d", "deu", "DE", "de_AT", "xx", "", "en_EN"])
def test_an_unknown_language_is_refused(lang: str) -> None:
    with pytest.raises(InputError, match="language"):
        Prism(lang=lang)
    with pytest.raises(InputError, match="'xx'"):
        Prism().for_language("xx-YY")


@pytest.mark.parametrize(
    ("model", "lang", "found"),
    [
        ("tiny-mbart50", None, "lang"),
        ("tiny-bart", "de", "de_DE"),
        ("tiny-bert", "de", "tiny-bert"),
    ],
)
def test_refusals(model: str, lang: str | None, found: str) -> None:
    with pytest.raises((InputError, ModelLoadError), match=found):
        Prism(model=str(GOLDEN / "models" / model), lang=lang).scorer  # noqa: B018
