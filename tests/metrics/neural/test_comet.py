"""COMET: golden values of every kind of checkpoint, the equations by hand, context, and values in any company."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from discorank import (
    Context,
    InputError,
    MBRDecoder,
    Metric,
    ModelLoadError,
    Reranker,
    load_metric,
)
from discorank.metrics.errors import TruncationWarning
from discorank.metrics.neural.comet.metric import SideBySide, UnifiedScorer
from discorank.metrics.neural.models.pretrained import pretrained, tokenizer_of
from discorank.metrics.representations import Block, FloatArray, Ragged
from discorank.metrics.text.texts import Item

GOLDEN = Path(__file__).parents[2] / "golden" / "docmetrics"
MODELS = GOLDEN / "models"
ENCODER = str(MODELS / "tiny-xlmr")
CASES = {
    case["id"]: case
    for case in json.loads((GOLDEN / "cases.json").read_text(encoding="utf-8"))["cases"]
    if case["metric"] == "comet"
}
REFERENCE_FREE = ("tiny-comet-qe", "tiny-comet-qe-layer2", "tiny-cometkiwi")
TEXTS = [
    "the old mill",
    "a mill",
    "the mill turns near the river",
    "",
    "river",
    "the old windmill is turning",
    "a b",
]
SOURCE = "die alte Mühle am Fluss"


@cache
def tiny(model: str = "tiny-comet-ref", **more: Any) -> Metric:
    name = "comet-qe" if model in REFERENCE_FREE else "comet"
    metric = load_metric(
        more.pop("name", name), **{"model": str(MODELS / model), "encoder_path": ENCODER, **more}
    )
    assert isinstance(metric, Metric)
    return metric


def inputs(case: dict[str, Any]) -> dict[str, list[str]]:
    """The last sentence of every text; what is before it is its context."""
    first = case["inputs"][0]
    return {
        side: [one[side].split(case["sep"])[-1].strip() for one in case["inputs"]] for side in first
    }


def scored(case: dict[str, Any], model: str = "", **more: Any) -> FloatArray:
    model, texts = model or case["model"], inputs(case)
    lent = (
        {"context_from": "hypothesis"}
        if case["mode"] == "hypctx" and model not in REFERENCE_FREE
        else {}
    )
    settings = {
        "context": case["ws"],
        "compat": "reference",
        "max_tokens": case["truncation_max_length"],
        **lent,
    }
    metric = tiny(model, **{**settings, **more})
    return metric.score(texts["mt"], texts.get("ref"), texts["src"], case["doc_ids"])


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
@pytest.mark.parametrize("name", CASES)
def test_golden_values(name: str) -> None:
    case = CASES[name]
    scores = scored(case)
    np.testing.assert_allclose(scores, case["scores"], rtol=0, atol=1e-5)
    assert scores.mean() == pytest.approx(case["system_score"], abs=1e-5)


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case["model"] == "tiny-comet-ref"]
)
def test_an_old_checkpoint_scores_like_a_new_one(name: str) -> None:
    assert scored(CASES[name], "tiny-comet-legacy").tobytes() == scored(CASES[name]).tobytes()


def test_golden_sentence_vectors() -> None:
    case = CASES["comet/tiny-comet-ref/sent0"]
    scorer, texts = tiny(compat="reference").scorer, inputs(case)
    for side, wanted in case["sent_embeddings_first3"].items():
        prepared, _ = scorer.prepare([Item(text) for text in texts[side][: len(wanted)]])
        ids = prepared["ids"]
        rows = [
            ids.values[a:b].tolist() for a, b in zip(ids.offsets[:-1], ids.offsets[1:], strict=True)
        ]
        assert rows == case["input_ids_first3"][side]
        np.testing.assert_allclose(
            scorer.represent(prepared)["embedding"], wanted, rtol=0, atol=1e-5
        )


@pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning")
def test_golden_parts_of_a_unified_score() -> None:
    case = CASES["comet/tiny-unite/sent0"]
    texts, wanted = inputs(case), case["metadata"]
    whole = tiny("tiny-unite", compat="reference")
    assert isinstance(whole.scorer, UnifiedScorer)
    by_source = tiny("tiny-unite", name="comet-qe", compat="reference").score(
        texts["mt"], sources=texts["src"]
    )
    np.testing.assert_allclose(by_source, wanted["src_scores"], rtol=0, atol=1e-5)
    total = whole.score(texts["mt"], texts["ref"], texts["src"])
    whole.scorer.with_source = False
    by_reference = whole.score(texts["mt"], texts["ref"], texts["src"])
    np.testing.assert_allclose(by_reference, wanted["ref_scores"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        3 * total - by_source - by_reference, wanted["unified_scores"], rtol=0, atol=3e-5
    )


@cache
def plain_encoder() -> tuple[Any, Any]:
    return tokenizer_of(MODELS / "tiny-xlmr"), pretrained(MODELS / "tiny-xlmr")


def vector(
    ids: Sequence[int], start: int, state: dict[str, Any], about: dict[str, Any]
) -> torch.Tensor:
    """A sentence vector by the equations, in double precision."""
    model = plain_encoder()[1]
    own = {
        k.removeprefix("encoder.model."): v
        for k, v in state.items()
        if k.startswith("encoder.model.")
    }
    model.load_state_dict({k: v for k, v in own.items() if k in model.state_dict()})
    with torch.inference_mode():
        layers = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    layers = [x[0].double() for x in layers]  # [length, d] each
    if about["layer_norm"]:
        layers = [(x - x.mean()) / (x.var(correction=0) + 1e-12).sqrt() for x in layers]
    weights = torch.cat(
        [state[f"layerwise_attention.scalar_parameters.{i}"] for i in range(len(layers))]
    ).double()
    shares = weights.softmax(0)
    mixed = state["layerwise_attention.gamma"].double() * sum(
        p * x for p, x in zip(shares, layers, strict=True)
    )
    kept = [0, *range(start, len(ids))]
    pools = {"avg": mixed[kept].mean(0), "cls": mixed[0], "max": mixed.max(0).values}
    vector: torch.Tensor = pools[about["pool"]]
    return vector


def by_hand(
    texts: Sequence[str], state: dict[str, Any], about: dict[str, Any], final: Any, before: str = ""
) -> float:
    """The score of (hypothesis, reference, source), each after the same sentence if one is given."""
    tokenizer = plain_encoder()[0]
    vectors = []
    for text in texts:
        ids, c = (tokenizer(one, add_special_tokens=False).input_ids for one in (text, before))
        whole = [0, *c, 2, *ids, 2] if c else [0, *ids, 2]
        vectors.append(vector(whole, len(c) + 2 if c else 1, state, about))
    h, r, s = vectors
    x = torch.cat([h, r, h * r, (h - r).abs(), h * s, (h - s).abs()])
    for i in (0, 3, 6):
        x = (
            state[f"estimator.ff.{i}.weight"].double() @ x
            + state[f"estimator.ff.{i}.bias"].double()
        )
        x = x.tanh() if i < 6 else x
    return float(final(x))


VARIANTS = [
    {"pool": "avg", "layer_norm": True, "final_activation": None},
    {"pool": "cls", "layer_norm": False, "final_activation": "sigmoid"},
    {"pool": "max", "layer_norm": True, "final_activation": None},
]


@pytest.mark.parametrize("about", VARIANTS, ids=lambda about: str(about["pool"]))
def test_against_the_equations(about: dict[str, Any], tmp_path: Path) -> None:
    """A checkpoint with other settings, which no golden value has."""
    folder = Path(shutil.copytree(MODELS / "tiny-comet-ref", tmp_path / "model"))
    file = folder / "checkpoints" / "model.ckpt"
    held = torch.load(file, weights_only=True)
    held["hyper_parameters"] |= {**about, "layer_transformation": "softmax"}
    torch.save(held, file)
    metric = tiny(model=str(folder))
    texts = ["the mill", "a mill by the river", SOURCE]
    final = torch.sigmoid if about["final_activation"] else (lambda x: x)
    hidden = len(held["hyper_parameters"]["hidden_sizes"])
    assert hidden == 2, "by_hand knows three layers"
    scores = metric.score(*([text] for text in texts))
    assert scores[0] == pytest.approx(by_hand(texts, held["state_dict"], about, final), abs=1e-5)
    deep = replace(metric, context=1)  # type: ignore[call-arg]
    if about["pool"] == "max":
        with pytest.raises(ModelLoadError, match="context=0"):
            deep.scorer  # noqa: B018
        return
    context = Context(source=("river",), target=("river",))
    values = deep.pairwise(texts[:1], texts[1:2], texts[2], context)[0]
    assert values[0] == pytest.approx(
        by_hand(texts, held["state_dict"], about, final, "river"), abs=1e-5
    )


@pytest.mark.parametrize(
    ("model", "name", "more", "advice"),
    [
        ("tiny-comet-ref", "comet-qe", {}, r"comet\(model"),
        ("tiny-comet-qe", "comet", {}, r"comet-qe\(model"),
        ("tiny-cometkiwi", "comet", {}, r"comet-qe\(model"),
        ("tiny-unite", "comet", {"context": 1}, "context=0"),
        ("tiny-unite", "comet-qe", {"context": 1}, "context=0"),
        ("tiny-cometkiwi", "comet-qe", {"context": 1}, "context=0"),
        ("tiny-comet-poly", "comet", {}, "comet-poly"),
        ("tiny-comet-poly", "comet-qe", {}, "comet-poly"),
        ("tiny-comet-ref", "comet-poly", {}, r"comet\(model"),
        ("tiny-cometkiwi", "comet-poly", {}, r"comet-qe\(model"),
        ("tiny-comet-ref", "comet", {"encoder_path": str(MODELS / "tiny-bert")}, "encoder_path"),
        (
            "tiny-comet-ref",
            "comet",
            {"encoder_path": str(MODELS / "tiny-comet-ref")},
            "tiny-comet-ref",
        ),
    ],
)
def test_checkpoints_of_another_metric_or_encoder(
    model: str, name: str, more: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ModelLoadError, match=advice):
        tiny(model, name=name, **more).scorer  # noqa: B018


@pytest.mark.parametrize("context", [1, 2])
def test_whose_context(context: int) -> None:
    """References and sources after their own; hypotheses after references, or their own; comet-qe knows no other."""
    h, r, s = (
        ["a mill", "it turns", "old"],
        ["the mill", "it is turning", "it is old"],
        ["Mühle", "dreht", "alt"],
    )
    ids = ["d"] * 3
    lent, own = tiny(context=context), tiny(context=context, context_from="hypothesis")
    before = slice(max(0, 2 - context), 2)
    shared = Context(source=tuple(s[before]), target=tuple(r[before]))
    assert (
        lent.pairwise(h[2:], r[2:], s[2], shared)[0].tobytes()
        == lent.score(h, r, s, ids)[2:].tobytes()
    )
    assert own.score(h, r, s, ids)[2] != lent.score(h, r, s, ids)[2]
    assert own.score(h, r, s, ids)[0] == lent.score(h, r, s, ids)[0]
    qe = tiny("tiny-comet-qe", context=context)
    mine = Context(source=tuple(s[before]), target=tuple(h[before]))
    assert (
        qe.pairwise(h[2:], [], s[2], mine)[0].tobytes() == qe.score(h, None, s, ids)[2:].tobytes()
    )
    for setting in ("reference", "hypothesis"):
        with pytest.raises(InputError, match="context_from"):
            tiny("tiny-comet-qe", context_from=setting)


@pytest.fixture
def threads() -> Iterator[None]:
    """Puts the number of threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


KINDS: dict[str, dict[str, Any]] = {
    "comet-sparsemax": {"model": "tiny-comet22-ref"},
    "doc-comet": {"context": 2},
    "doc-comet-qe": {"model": "tiny-comet-qe", "context": 2},
    "unite": {"model": "tiny-unite"},
    "kiwi": {"model": "tiny-cometkiwi"},
}


def in_ways(kind: str, ways: Sequence[tuple[int, int]]) -> Iterator[tuple[str, Metric]]:
    """The metric with so many tokens in a batch, under so many threads."""
    for tokens, count in ways:
        torch.set_num_threads(count)
        yield f"{tokens} tokens, {count} threads", tiny(**KINDS[kind], batch_tokens=tokens)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] * (kind not in ("doc-comet", "kiwi")))
        for kind in KINDS
    ],
)
def test_values_do_not_depend_on_their_company(kind: str, threads: None) -> None:
    torch.set_num_threads(1)
    texts = [*TEXTS[1:], "near the river the old mill turns"]
    metric = tiny(**KINDS[kind])
    context = (
        Context(source=("eins", "zwei"), target=("one two", "three"))
        if metric.reads.context
        else None
    )
    ids = ["d"] * 4 + ["e"] * 3
    wanted = metric.pairwise(texts, texts, SOURCE, context)
    aligned = metric.score(texts, texts[::-1], texts, ids)
    for way, other in in_ways(kind, [(7, 1), (4096, 3)]):
        order = np.random.default_rng(len(way)).permutation(len(texts))
        assert other.pairwise(texts, texts, SOURCE, context).tobytes() == wanted.tobytes(), way
        matrix = other.pairwise([texts[i] for i in order], texts, SOURCE, context)
        assert matrix.tobytes() == wanted[order].tobytes(), way
        assert other.score(texts, texts[::-1], texts, ids).tobytes() == aligned.tobytes(), way


LONG = " ".join(["mill"] * 40)


def tokens(text: str) -> int:
    return len(plain_encoder()[0](text).input_ids)


def test_truncation_warns() -> None:
    with pytest.warns(TruncationWarning, match="1 lost text and 0 some context"):
        tiny(max_tokens=20).pairwise([LONG], ["mill"], "a")
    metric = tiny("tiny-comet-qe", max_tokens=20, context=1)
    with pytest.warns(TruncationWarning, match="0 lost text and 1 some context"):
        metric.score(["mill " * 5, "mill " * 5], None, ["a"] * 2, ["d"] * 2)


@pytest.mark.parametrize("name", ["comet", "comet-qe"])
def test_a_unified_sequence_that_is_cut_is_counted(name: str) -> None:
    """Each text fits, all of them side by side do not: something is left out, so somebody is told."""
    metric = tiny("tiny-unite", name=name)
    text = " ".join(["mill"] * next(n for n in range(1, 99) if tokens(" ".join(["mill"] * n)) > 70))
    assert 70 < tokens(text) <= 126
    with pytest.warns(TruncationWarning):
        metric.score([text], [text], [text])
    record = {"id": "x", "source": text, "candidates": [text, "mill"]}
    decoder: Any = MBRDecoder(metric) if name == "comet" else Reranker({metric.signature(): 1.0})
    (ranking,) = decoder.decode([record])
    assert "truncated-text" in ranking.flags


def states_dict(model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """State dict and settings of a checkpoint."""
    held = torch.load(MODELS / model / "checkpoints" / "model.ckpt", weights_only=True)
    return held["state_dict"], held["hyper_parameters"]


def read_ids(metric: Metric, text: str) -> Any:
    """The ids of a text as the metric reads it, [tokens]."""
    prepared, _ = metric.scorer.prepare([Item(text)])
    return prepared["ids"].values


@pytest.mark.parametrize(("max_tokens", "read"), [(None, 126), (60, 60), (128, 128), (999, 128)])
def test_where_long_texts_are_cut(max_tokens: int | None, read: int) -> None:
    """Of 130 positions COMET 2 reads 126 and COMET 1, whose code Doc-COMET is, 128."""
    text = " ".join(["the old mill turns"] * 60)
    uncut = plain_encoder()[0](text, verbose=False).input_ids
    assert len(uncut) > 130
    cut = [*uncut[: read - 1], uncut[-1]]
    metric = tiny("tiny-comet-qe", compat="reference", max_tokens=max_tokens)
    assert read_ids(metric, text).tolist() == cut
    prepared, _ = metric.scorer.prepare([Item(text)])
    embedding = metric.scorer.represent(prepared)["embedding"][0]
    np.testing.assert_allclose(
        embedding, vector(cut, 1, *states_dict("tiny-comet-qe")), rtol=0, atol=1e-5
    )


def test_a_context_that_eats_the_sentence_at_the_cut_of_comet_1() -> None:
    """The released code of Doc-COMET cuts on the right at 128: two more tokens of the sentence are left."""
    before, text = " ".join(["mill"] * 60), " ".join(["river"] * 60)
    tokenizer = plain_encoder()[0]
    context, sentence = (
        tokenizer(one, add_special_tokens=False).input_ids for one in (before, text)
    )
    cut = [0, *[*context, 2, *sentence][:126], 2]
    metric = tiny("tiny-comet-qe", compat="reference", max_tokens=128, context=1)
    prepared, _ = metric.scorer.prepare([Item(text, (before,))])
    assert prepared["ids"].values.tolist() == cut
    wanted = vector(cut, len(context) + 2, *states_dict("tiny-comet-qe"))
    embedding = metric.scorer.represent(prepared)["embedding"][0]
    np.testing.assert_allclose(embedding, wanted, rtol=0, atol=1e-5)


def over_bert(folder: Path, model: str, **changed: Any) -> Path:
    """A tiny model over the encoder tiny-bert, with other settings; without a mix of layers where these name one."""
    shutil.copytree(MODELS / model, folder)
    state, settings = states_dict(model)
    left_out = ("encoder.", "layerwise_attention.") if "sent_layer" in changed else ("encoder.",)
    kept = {name: tensor for name, tensor in state.items() if not name.startswith(left_out)}
    bert = pretrained(MODELS / "tiny-bert").state_dict()
    encoder = {f"encoder.model.{name}": tensor for name, tensor in bert.items()}
    of_bert = {"encoder_model": "BERT", "pretrained_model": "tiny-bert"}
    content = {
        "state_dict": {**kept, **encoder},
        "hyper_parameters": {**settings, **of_bert, **changed},
    }
    torch.save(content, folder / "checkpoints" / "model.ckpt")
    return folder


def test_encoders_of_bert_leave_as_many_positions_free(tmp_path: Path) -> None:
    """unbabel-comet takes two positions off every encoder, also where none is padding's: 124 of 128."""
    files = {
        "model": str(over_bert(tmp_path / "model", "tiny-comet-qe")),
        "encoder_path": str(MODELS / "tiny-bert"),
    }
    text = " ".join(["the old mill turns"] * 60)
    for limit, length in ((None, 124), (999, 126)):
        metric: Any = load_metric("comet-qe", **files, max_tokens=limit)
        assert len(read_ids(metric, text)) == length
        assert metric.scorer.identity.endswith(" 124 tokens") == (limit is None)
        with pytest.warns(TruncationWarning):
            metric.score([text], sources=["a"])


# How BERT and RemBERT, and the encoders that XLM-R's tokenizer goes with, read texts side by side: how many separators
# stand between two, and whether the tokens behind the first text have another type.
JOININGS = {"BERT": (1, True), "RemBERT": (1, False), "MiniLM": (2, False)}


@pytest.mark.parametrize("family", JOININGS)
def test_unified_models_join_texts_as_their_encoder_does(family: str, tmp_path: Path) -> None:
    """By the definition of unbabel-comet: CLS mt SEP src SEP ref SEP, types 0 up to the first SEP and 1 behind it."""
    model = over_bert(tmp_path / "model", "tiny-unite", sent_layer=2, encoder_model=family)
    files = {"model": str(model), "encoder_path": str(MODELS / "tiny-bert")}
    state, encoder = states_dict("tiny-unite")[0], pretrained(MODELS / "tiny-bert")
    tokenizer = tokenizer_of(MODELS / "tiny-bert")
    num_separators, has_types = JOININGS[family]

    def value(*texts: str) -> float:
        ids, types = [tokenizer.cls_token_id], [0]
        for number, text in enumerate(texts):
            if number:
                more = [tokenizer.sep_token_id] * (num_separators - 1)
                ids, types = ids + more, types + [1] * len(more)
            own = [*tokenizer(text, add_special_tokens=False).input_ids, tokenizer.sep_token_id]
            ids, types = ids + own, types + [min(number, 1)] * len(own)
        tokens, kinds = (torch.tensor([row[:126]]) for row in (ids, types))
        with torch.inference_mode():
            out = encoder(
                tokens, token_type_ids=kinds if has_types else None, output_hidden_states=True
            )
        x = out.hidden_states[2][0, 0].double()
        for number in (0, 3, 6):
            weight, bias = (state[f"estimator.ff.{number}.{name}"] for name in ("weight", "bias"))
            x = weight.double() @ x + bias.double()
            x = x.tanh() if number < 6 else x
        return float(x)

    whole, by_source = load_metric("comet", **files), load_metric("comet-qe", **files)
    long = " ".join(["the old mill turns"] * 9)
    for h, r, source in (
        ("the old mill", "a mill turns", "die Mühle"),
        ("river", "", "a b"),
        (long, long, long),
    ):
        expected = [value(h, source), value(h, r), value(h, source, r)]
        is_cut = h == long
        with pytest.warns(TruncationWarning) if is_cut else nullcontext():
            of_all = whole.score([h], [r], [source])[0]
        with pytest.warns(TruncationWarning) if is_cut else nullcontext():
            of_two = by_source.score([h], sources=[source])[0]
        assert of_all == pytest.approx(np.mean(expected), abs=1e-5)
        assert of_two == pytest.approx(expected[0], abs=1e-5)


@pytest.mark.parametrize("family", JOININGS)
def test_lengths_are_those_of_the_sequences(family: str) -> None:
    uncut = SideBySide.of(family, 99)
    rows = [np.arange(length) for length in (5, 7, 4, 9, 3)]
    ids = Ragged.of_rows(rows)
    block = Block(np.array([0, 1]), np.array([3, 4]), 2)
    h, r, s = np.array([0, 0, 1, 1]), np.array([3, 4, 3, 4]), np.full(4, 2)
    parts = [[np.array([0, 1]), np.array([2, 2])], [h, r], [h, s, r]]
    joined = [uncut.sequences(ids, one).ids.lengths for one in parts]
    lengths = uncut.lengths(ids.lengths, block, with_source=True, with_reference=True)
    assert lengths.tolist() == np.concatenate(joined).tolist()
    cut = SideBySide.of(family, 8)
    assert cut.sequences(ids, parts[2]).ids.lengths.max() == 8


# COMET-poly: another candidate stands where others have the reference


def test_another_candidate_is_read_as_released() -> None:
    """The features of the released code, with vectors of the encoder that other tests hold against golden values."""
    metric: Any = tiny("tiny-comet-poly", name="comet-poly")
    matrix = metric.pairwise(TEXTS, TEXTS, SOURCE)
    prepared, _ = metric.scorer.prepare([Item(text) for text in [*TEXTS, SOURCE]])
    embedding = metric.scorer.represent(prepared)["embedding"]
    *vectors, s = torch.from_numpy(embedding).double()
    file = MODELS / "tiny-comet-poly" / "checkpoints" / "model.ckpt"
    state = torch.load(file, weights_only=True)["state_dict"]
    layers = [
        (state[f"estimator.ff.{n}.weight"].double(), state[f"estimator.ff.{n}.bias"].double())
        for n in (0, 3, 6)
    ]

    def value(h: torch.Tensor, c: torch.Tensor) -> float:
        own = [h, s, h * s, (h - s).abs()]
        x = torch.cat([*own, c, c * s, (c - s).abs(), c * h, (c - h).abs()])
        for number, (weight, bias) in enumerate(layers):
            x = weight @ (x.tanh() if number else x) + bias
        return float(x)

    expected = [[value(h, c) for c in vectors] for h in vectors]
    np.testing.assert_allclose(matrix, expected, atol=1e-5)
    assert np.ptp(matrix, axis=1).min() > 1e-3  # the other candidate counts
    several = metric.score(TEXTS[:1], [TEXTS[1:4]], [SOURCE])
    assert several[0] == pytest.approx(matrix[0, 1:4].mean(), abs=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"additional_translation_in": [True, True, False]},
        {"additional_translation_in": [False]},
        {"additional_score_in": [True]},
        {"additional_score_out": [False, True]},
        {"use_ref": True},
    ],
)
def test_other_inputs_of_poly_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    """The settings say what an estimator of this width reads."""
    folder = Path(shutil.copytree(MODELS / "tiny-comet-poly", tmp_path / "poly"))
    file = folder / "checkpoints" / "model.ckpt"
    content = torch.load(file, weights_only=True)
    content["hyper_parameters"] |= changes
    torch.save(content, file)
    with pytest.raises(ModelLoadError, match=next(iter(changes))):
        tiny(str(folder), name="comet-poly").scorer  # noqa: B018
