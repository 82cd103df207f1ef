"""BERTScore: golden values of both released codes, the equation by hand, context, idf, and values in any company."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from discorank import Context, Document, InputError, MBRDecoder, ModelLoadError, load_metric
from discorank.cli.main import main
from discorank.metrics.errors import TruncationWarning
from discorank.metrics.neural.bertscore import BERTScore, BERTScorer
from discorank.metrics.neural.models.files.model_files import BUNDLED
from discorank.metrics.neural.models.pretrained import pretrained, tokenizer_of
from discorank.metrics.representations import Block, FloatArray
from discorank.metrics.text.texts import Item

from ...support.lists import write_lists

GOLDEN = Path(__file__).parents[2] / "golden" / "docmetrics"
MODELS = GOLDEN / "models"
CASES = {
    case["id"]: case
    for case in json.loads((GOLDEN / "cases.json").read_text(encoding="utf-8"))["cases"]
}
ALIGNED = [name for name, case in CASES.items() if case["metric"] == "bertscore" and "ref" in case]
TEXTS = [
    "the old mill",
    "a mill",
    "the mill turns near the river",
    "",
    "river",
    "the old windmill is turning",
    "a b c d",
]


@cache
def tiny(model: str = "tiny-bert", **more: Any) -> BERTScore:
    metric = load_metric("bertscore", **{"model": str(MODELS / model), "layer": 2, **more})
    assert isinstance(metric, BERTScore)
    return metric


def of_case(case: dict[str, Any], **more: Any) -> BERTScore:
    """The metric as the released code of a case computes it; its fork reads even lone sentences as if in context."""
    lent = {"context_from": "hypothesis"} if case["mode"] == "hypctx" else {}
    fork = "fork" in case["engine"]
    baseline = (
        {"rescale": True, "baseline": str(MODELS / case["baseline"])}
        if case.get("baseline")
        else {}
    )
    common = {
        "layer": case["num_layers"],
        "compat": "reference",
        "max_tokens": 128,
        "context": 2 if fork else 0,
    }
    return tiny(case["model"], **common, **lent, **baseline, **more)


def scored(case: dict[str, Any], metric: BERTScore) -> FloatArray:
    sides = [
        [text.split(case["sep"])[-1].strip() if case.get("ws") else text for text in case[side]]
        for side in ("hyp", "ref")
    ]
    documents = case["doc_ids"] if case.get("ws") else [str(i) for i in range(len(sides[0]))]
    return metric.score(sides[0], sides[1], documents=documents)


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
@pytest.mark.parametrize("name", ALIGNED)
@pytest.mark.parametrize("aggregate", ["P", "R", "F"])
def test_golden_values(name: str, aggregate: str) -> None:
    case = CASES[name]
    scores = scored(case, of_case(case, aggregate=aggregate))
    np.testing.assert_allclose(scores, case[aggregate], rtol=0, atol=1e-5)


STRICT = [name for name in ALIGNED if "derived_strict_F_NOT_REFERENCE" in CASES[name]]


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
@pytest.mark.parametrize("name", STRICT)
def test_alignment_of_the_sentence_alone(name: str) -> None:
    case = CASES[name]
    scores = scored(case, of_case(case, match="sentence"))
    np.testing.assert_allclose(scores, case["derived_strict_F_NOT_REFERENCE"], rtol=0, atol=1e-5)
    assert np.abs(scores - case["F"]).max() > 1e-4


def test_golden_multiple_references_and_matrix() -> None:
    case = CASES["bertscore/tiny-xlmr/L2/multiref"]
    for aggregate in ("P", "R", "F"):
        scores = of_case(case, aggregate=aggregate).score(case["hyp"], case["refs"])
        np.testing.assert_allclose(scores, case[aggregate], rtol=0, atol=1e-5)
    case = CASES["bertscore/tiny-xlmr/L2/pairwise4"]
    matrix = tiny("tiny-xlmr").pairwise(case["cands"], case["cands"])
    np.testing.assert_allclose(matrix, case["matrix_F_rows_hyp_cols_ref"], rtol=0, atol=1e-5)


def vectors(model: str, text: str, layer: int = 2) -> tuple[list[int], FloatArray]:
    """Ids and unit vectors of a text by transformers alone."""
    tokenizer, encoder = tokenizer_of(MODELS / model), pretrained(MODELS / model)
    ids = tokenizer(text).input_ids
    with torch.inference_mode():
        states = (
            encoder(torch.tensor([ids]), output_hidden_states=True)
            .hidden_states[layer][0]
            .double()
            .numpy()
        )
    return ids, states / np.linalg.norm(states, axis=1, keepdims=True)


def by_hand(h: str, r: str, idf: dict[int, float] | None = None) -> list[float]:
    """P, R and F by the equation."""
    (h_ids, x), (r_ids, y) = vectors("tiny-bert", h), vectors("tiny-bert", r)
    a, b = (
        [0.0, *(1.0 if idf is None else idf.get(i, idf[-1]) for i in ids[1:-1]), 0.0]
        for ids in (h_ids, r_ids)
    )
    p = sum(w * max(float(v @ u) for u in y) for w, v in zip(a, x, strict=True)) / sum(a)
    q = sum(w * max(float(v @ u) for u in x) for w, v in zip(b, y, strict=True)) / sum(b)
    return [p, q, 2 * p * q / (p + q)]


PAIR = "the old mill near the river", "a mill turns by the old river bank"
CORPUS = ["the old mill", "the river", "a river bank", "turns"]


def frequencies() -> dict[int, float]:
    """Inverse document frequencies of CORPUS by token; of any other under -1."""
    sets = [set(tokenizer_of(MODELS / "tiny-bert")(text).input_ids) for text in CORPUS]
    n = len(sets)
    idf = {i: log((n + 1) / (sum(i in one for one in sets) + 1)) for one in sets for i in one}
    return {**idf, -1: log(n + 1)}


def test_against_the_equation() -> None:
    scores = [tiny(aggregate=name).score([PAIR[0]], [PAIR[1]])[0] for name in ("P", "R", "F")]
    assert scores == pytest.approx(by_hand(*PAIR), abs=1e-6)
    assert by_hand(*PAIR)[0] != pytest.approx(by_hand(*PAIR)[1], abs=1e-3)


def test_idf_against_the_equation(tmp_path: Path) -> None:
    (tmp_path / "idf.txt").write_text("".join(f"{text}\n" for text in CORPUS))
    wanted = by_hand(*PAIR, frequencies())
    for i, name in enumerate(("P", "R", "F")):
        fitted = tiny(idf=True, aggregate=name).fit(CORPUS)
        assert fitted.score([PAIR[0]], [PAIR[1]])[0] == pytest.approx(wanted[i], abs=1e-6)
        from_file = tiny(idf=str(tmp_path / "idf.txt"), aggregate=name)
        assert (
            from_file.score([PAIR[0]], [PAIR[1]]).tobytes()
            == fitted.score([PAIR[0]], [PAIR[1]]).tobytes()
        )
    assert abs(wanted[2] - by_hand(*PAIR)[2]) > 1e-4


def test_rescaling() -> None:
    rows = {2: (0.4, 0.41, 0.405), 1: (0.35, 0.36, 0.355)}
    for layer, base in rows.items():
        for b, name in zip(base, ("P", "R", "F"), strict=True):
            plain = tiny(layer=layer, aggregate=name)
            scaled = replace(plain, rescale=True, baseline=str(MODELS / "baseline_tiny.tsv"))
            x = plain.score([PAIR[0], ""], [PAIR[1], "a"])
            np.testing.assert_allclose(
                scaled.score([PAIR[0], ""], [PAIR[1], "a"]), (x - b) / (1 - b), atol=1e-12
            )


def test_idf_that_was_not_fitted() -> None:
    metric = tiny(idf=True)
    assert metric.unfitted
    with pytest.raises(InputError, match=r"fit\(texts\)"):
        metric.pairwise(["a"], ["b"])
    with pytest.raises(InputError):
        metric.fit([])
    assert not tiny().unfitted
    assert tiny().fit(CORPUS) == tiny()


def test_scores_with_idf_of_their_references() -> None:
    """As bert_score: every reference counts, one of several and one that comes back too."""
    metric, hypotheses = tiny(idf=True), [CORPUS[2], CORPUS[0], PAIR[0]]
    groups = [[CORPUS[0]], [CORPUS[1], CORPUS[2]], [CORPUS[0]]]
    fitted = metric.fit([text for group in groups for text in group])
    wanted = fitted.score(hypotheses, groups)
    assert metric.score(hypotheses, groups).tobytes() == wanted.tobytes()
    assert metric.corpus(hypotheses, groups) == fitted.corpus(hypotheses, groups)
    assert metric.unfitted
    assert abs(wanted - metric.fit(CORPUS[:1]).score(hypotheses, groups)).max() > 1e-4
    with pytest.raises(InputError, match="bertscore needs references"):
        metric.score(["a"])


def test_a_fitted_metric() -> None:
    fitted, other = tiny(idf=True).fit(CORPUS), tiny(idf=True).fit(CORPUS[:3])
    assert not fitted.unfitted
    assert fitted == tiny(idf=True).fit(CORPUS[::-1]) != other
    assert fitted.signature() != other.signature()
    assert 'idf="sha256:' in fitted.signature()
    wanted = fitted.score([PAIR[0]], [PAIR[1]]).tobytes()
    assert pickle.loads(pickle.dumps(fitted)).score([PAIR[0]], [PAIR[1]]).tobytes() == wanted
    assert fitted.with_defaults(device="cpu").score([PAIR[0]], [PAIR[1]]).tobytes() == wanted
    again = load_metric(fitted.signature())
    assert again == fitted
    with pytest.raises(InputError, match="no document frequencies"):
        again.scorer  # noqa: B018


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-roberta", "tiny-xlmr"])
@pytest.mark.parametrize("match", ["sentence", "all"])
def test_an_empty_text_scores_0_in_context_too(model: str, match: str) -> None:
    for context in (0, 2):
        metric = tiny(model, context=context, match=match)
        ids = {"documents": ["d"] * 4} if context else {}
        hypotheses, references = ["a mill", "", "river", " "], ["the mill", "river", "\u2028", ""]
        assert metric.score(hypotheses, references, **ids).tolist()[1:] == [0, 0, 0]
        assert metric.score(hypotheses, references, **ids)[0] > 0


def test_context_is_read() -> None:
    metric = tiny(context=2)
    h, r = (
        ["a mill turns", "it is old", "by the river"],
        ["the mill turns", "it is very old", "near the river"],
    )
    together, alone = (
        metric.score(h, r, documents=["d"] * 3),
        metric.score(h, r, documents=["d", "e", "f"]),
    )
    assert together[0] == alone[0]
    assert (together[1:] != alone[1:]).all()
    shared = metric.pairwise([h[2]], [r[2]], context=Context(target=(r[0], r[1])))
    assert shared.tobytes() == together[2:].tobytes()
    longer = metric.pairwise([h[2]], [r[2]], context=Context(target=("more", r[0], r[1])))
    assert longer.tobytes() == shared.tobytes()
    assert np.abs(metric.pairwise([h[2]], [r[2]]) - shared).max() > 1e-5
    with pytest.raises(InputError, match="reads no context"):
        tiny().pairwise(h, r, context=Context(target=("a",)))


DOCUMENTS = [
    Document(["a mill turns", "it is old", "by the river"]),
    Document(["the mill", "very old it is", "near a river bank"]),
    Document(["old", "mill", "the river"]),
]


@pytest.mark.parametrize("match", ["sentence", "all"])
def test_documents_in_every_reference_context(match: str) -> None:
    """`context_from="reference"` said aloud: a double loop over pairs; not said: every text in its own context."""
    for context_from, lent in (
        ("reference", "reference"),
        (None, "hypothesis"),
        ("hypothesis", "hypothesis"),
    ):
        metric = tiny(context=1, match=match, context_from=context_from)
        single = tiny(context=1, match=match, context_from=lent)
        matrix = metric.pairwise(DOCUMENTS, DOCUMENTS[:2])
        for i, h in enumerate(DOCUMENTS):
            for j, r in enumerate(DOCUMENTS[:2]):
                one = single.score(h.sentences, r.sentences, documents=["d"] * 3)
                assert matrix[i, j] == pytest.approx(one.mean(), abs=1e-12)
        square = metric.pairwise(DOCUMENTS, DOCUMENTS)
        assert np.ascontiguousarray(square[:, :2]).tobytes() == matrix.tobytes()
    first, second = (
        tiny(context=1, context_from=c).pairwise(DOCUMENTS, DOCUMENTS) for c in ("reference", None)
    )
    assert np.abs(first - second).max() > 1e-5


def test_a_list_of_unequal_documents_is_joined_in_every_context() -> None:
    record = {
        "id": "x",
        "document": "d",
        "candidates": [["a mill", "turns"], ["the river"], ["old", "mill"]],
    }
    for context_from in ("reference", "hypothesis", None):
        (ranking,) = MBRDecoder(tiny(context=1, context_from=context_from)).decode([record])
        assert ranking.flags == ("joined",)
    with pytest.raises(InputError, match="sentence by sentence"):
        tiny(context=1).score([Document(["a", "b"])], [Document(["a"])], documents=["d"])


def test_half_precision() -> None:
    half, whole = tiny(dtype="bfloat16"), tiny()
    assert 'dtype="bfloat16"' in half.signature()
    assert half.pairwise(TEXTS, TEXTS) == pytest.approx(whole.pairwise(TEXTS, TEXTS), abs=0.02)
    assert half.pairwise(TEXTS, TEXTS).tobytes() != whole.pairwise(TEXTS, TEXTS).tobytes()


LONG = "the old mill turns near the river bank"


def test_truncation_warns_of_what_was_cut() -> None:
    metric = tiny(context=1, max_tokens=12)
    with pytest.warns(TruncationWarning, match="1 lost text and 0 some context"):
        metric.pairwise(["a", LONG], ["mill"])
    with pytest.warns(TruncationWarning, match="0 lost text and 1 some context"):
        metric.score(["a b c d e f", "a"], ["a", "b c d e f g h i j"], documents=["d", "d"])
    with pytest.warns(TruncationWarning, match="1 lost text"):
        tiny(max_tokens=12, truncation="reference").score([LONG], ["a"])
    metric.score(["a"], ["b"], documents=["d"])


def test_truncation_is_flagged_and_counted(tmp_path: Path) -> None:
    utility = tiny(context=1, max_tokens=12).signature()
    lists = [
        {"id": "1", "document": "d", "candidates": ["a b c d e f", "a b c d e f g"]},
        {"id": "2", "document": "d", "candidates": ["b c d e f g", "b c d"]},
        {"id": "3", "document": "e", "candidates": [LONG, "mill"]},
        {"id": "4", "document": "e", "candidates": ["mill", "a mill"]},
        {"id": "5", "document": "f", "candidates": ["a", "b"]},
    ]
    flags = [r.flags for r in MBRDecoder(load_metric(utility)).decode(lists)]
    assert flags[0] == flags[4] == ()
    assert flags[1] == ("truncated-context",)
    assert flags[2] == ("truncated-text",)
    whole, out = tmp_path / "whole", tmp_path / "out"
    source = write_lists(tmp_path / "in.jsonl", lists)
    command = ["decode", str(source), "-u", utility, "--quiet", "-o"]
    assert main([*command, str(whole)]) == 0
    counts = json.loads(Path(f"{whole}.run.json").read_text())["counts"]
    assert counts["truncated-text"] == sum("truncated-text" in some for some in flags)
    assert counts["truncated-context"] == sum("truncated-context" in some for some in flags) > 0
    assert [json.loads(row).get("flags", []) for row in whole.read_text().splitlines()] == [
        list(f) for f in flags
    ]
    for n in (1, 3, 5):
        write_lists(source, lists[:n])
        assert main([*command, str(out)]) == 0
    assert out.read_bytes() == whole.read_bytes()
    assert json.loads(Path(f"{out}.run.json").read_text())["counts"] == counts


def test_a_text_that_is_cut_in_another_context_is_flagged() -> None:
    """Neither document is too long in its own context, only one in the other's."""
    metric = tiny(context=1, context_from="reference", max_tokens=20)
    candidates = [["a", "b b b b b b b b b b b b"], ["c c c c c c c c c c c c", "d"]]
    with pytest.warns(TruncationWarning, match="1 some context"):
        metric.pairwise([Document(c) for c in candidates], [Document(c) for c in candidates])
    (ranking,) = MBRDecoder(metric).decode([{"id": "x", "document": "d", "candidates": candidates}])
    assert ranking.flags == ("truncated-context",)


BASELINES = {"a.csv": "LAYER,P,R,F\n1,0.1,0.1,0.1\n", "b.csv": "P;R\n", "c.csv": "LAYER,P\n2,0.1\n"}
BASELINES |= {"d.csv": "LAYER,P,R,F\n2,x,0.1,0.1\n", "e.csv": "LAYER,P,R,F\n2,0.1\n", "idf.txt": ""}


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        *(({"rescale": True, "baseline": f"{name}.csv"}, f"{name}.csv") for name in "abcde"),
        ({"rescale": True, "baseline": "none.csv"}, "none.csv"),
        ({"rescale": True}, "baseline"),
        ({"idf": "idf.txt"}, "idf"),
        ({"layer": 9}, "layer 9"),
        ({"layer": None}, "0 to 3"),
        ({"device": "banana"}, "banana"),
        ({"context": -1}, "context"),
        ({"match": "both"}, "match"),
        ({"max_tokens": 2}, "max_tokens"),
        ({"dtype": "int8"}, "dtype"),
        ({"aggregate": "G"}, "aggregate"),
    ],
)
def test_settings_that_are_refused(
    settings: dict[str, Any], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in BASELINES.items():
        Path(name).write_text(content)
    with pytest.raises((InputError, ModelLoadError), match=found):
        tiny(**settings).scorer  # noqa: B018


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_every_layer(layer: int) -> None:
    (_, x), (_, y) = (vectors("tiny-bert", text, layer) for text in PAIR)
    wanted = np.mean([max(v @ u for u in y) for v in x[1:-1]])
    assert tiny(layer=layer, aggregate="P").score(*[[t] for t in PAIR])[0] == pytest.approx(
        wanted, abs=1e-6
    )


def test_what_explain_shows() -> None:
    metric = tiny()
    (items, length) = metric.scorer.prepare([Item(PAIR[0]), Item(PAIR[1])])
    reps = metric.scorer.represent(items)
    values = metric.scorer.describe(reps, Block(np.array([0]), np.array([1])), 0, 0)
    assert [values[name] for name in "PRF"] == pytest.approx(by_hand(*PAIR), abs=1e-6)
    assert len(length) == 2


@pytest.mark.skipif(
    find_spec(BUNDLED["minilm"].packages[0]) is None, reason="the extra minilm is not installed"
)
def test_minilm() -> None:
    metric = load_metric("bertscore")
    sentence = "A cat sits on the mat."
    others: Sequence[str] = [
        "There is a cat on the rug.",
        "Stock prices fell sharply today.",
        sentence,
    ]
    near, far, same = metric.score([sentence] * 3, others)
    assert far < 0.6 < 0.75 < near < same == pytest.approx(1, abs=1e-6)


def spoilt_model(folder: Path, name: str, value: float) -> str:
    """A BERTScore whose model has a value in one weight."""
    source = MODELS / "tiny-xlmr"
    model = pretrained(source)
    dict(model.named_parameters())[name].data.fill_(value)
    model.save_pretrained(folder)
    tokenizer_of(source).save_pretrained(folder)
    return f'bertscore(model="{folder}",layer=1)'


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        # attention may hide what is no number, so such a weight is refused when it is read
        ("encoder.layer.0.attention.self.query.weight", float("nan"), 2),
        ("embeddings.LayerNorm.weight", 3e38, 3),  # overflows
    ],
)
def test_a_model_of_nan_ends_in_errors(tmp_path: Path, name: str, value: float, code: int) -> None:
    metric = spoilt_model(tmp_path / "model", name, value)
    texts = ["the mill", "a river by the old mill", "the mill turns near the river"]
    rows = [{"id": str(i), "candidates": texts} for i in range(3)]
    lists = str(write_lists(tmp_path / "l.jsonl", rows))
    (tmp_path / "hyp").write_text("the mill\n")
    hypotheses = str(tmp_path / "hyp")
    documents = [{"id": "d", "systems": {"A": texts, "B": texts}, "references": {"r": texts[::-1]}}]
    systems = str(write_lists(tmp_path / "systems.jsonl", documents))
    out = tmp_path / "out.jsonl"
    for command in (
        ["score", "-m", metric, "--hypotheses", hypotheses, "--references", hypotheses],
        ["compare", systems, "-m", metric],
        ["explain", lists, "-u", metric],
        ["decode", lists, "-u", metric, "-o", str(out), "--max-errors", "9"],
    ):
        assert main(command) == code
    if code == 3:
        assert not out.read_bytes()
        assert len(Path(f"{out}.errors.jsonl").read_text().splitlines()) == 3


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
@pytest.mark.parametrize("model", ["tiny-bert", "tiny-roberta", "tiny-xlmr"])
@pytest.mark.parametrize("settings", [{}, {"aggregate": "P"}, {"idf": True}, {"max_tokens": 9}])
def test_without_context_it_is_bertscore_to_the_last_digit(
    model: str, settings: dict[str, Any]
) -> None:
    """Of the first sentences of documents, and of lists that have no context (Vernikos et al. 2022, section 3.1)."""
    references = [TEXTS[(i + 2) % len(TEXTS)] for i in range(len(TEXTS))]
    documents = [str(i) for i in range(len(TEXTS))]
    plain = tiny(model, **settings).fit(references)
    for match in ("sentence", "all"):
        in_context = tiny(model, context=2, match=match, **settings).fit(references)
        scores = in_context.score(TEXTS, references, documents=documents)
        assert scores.tobytes() == plain.score(TEXTS, references).tobytes()
        matrix = in_context.pairwise(TEXTS, references)
        assert matrix.tobytes() == plain.pairwise(TEXTS, references).tobytes()


def test_context_is_no_target_but_special_tokens_are() -> None:
    """By hand, from the vectors of the encoder."""
    metric = tiny("tiny-roberta", context=1)
    scorer = metric.scorer
    assert isinstance(scorer, BERTScorer)
    prepared, _ = scorer.prepare([Item("a mill", ("the old river",)), Item("a mill")])
    reps = scorer.represent(prepared)
    lengths = reps["vectors"].lengths.tolist()
    assert lengths == [prepared["ids"].lengths[1]] * 2
    assert reps["weights"][np.array([0])].values.tolist() == [0.0, *[1.0] * (lengths[0] - 2), 0.0]
