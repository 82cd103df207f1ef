"""Names, and the one way to a metric."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from discorank import DiscorankError, Document, InputError, MetricError, ModelLoadError, load_metric
from discorank.metrics import registry
from discorank.metrics.lexical.chrf import ChrF
from discorank.metrics.mixture import Function, Mix
from discorank.metrics.names import ALIASES, BUILT_IN, REMARKS, letters
from discorank.metrics.registry import Spec, names, registered_name

BLEU_ZH = 'bleu(tokenize="zh")'


def overlap(hypothesis: str, reference: str) -> float:
    return float(len(set(str(hypothesis)) & set(str(reference))))


def broken(hypothesis: str, reference: str) -> float:
    raise RuntimeError(f"no {hypothesis}")


class Callable2:
    """An instance is a metric, the class is none."""

    def __call__(self, hypothesis: str, reference: str) -> int:
        return 3


@pytest.mark.parametrize(
    "spec",
    [
        "chrf(beta=1)",
        " chrf ( beta = 1.0 ) ",
        "1*chrf(beta=1.0)",
        {"name": "chrf", "beta": 1},
        ChrF(beta=1.0),
        "discorank.metrics.lexical.chrf:ChrF(beta=1)",
        {"name": "discorank.metrics.lexical.chrf:ChrF", "beta": 1.0},
    ],
)
def test_all_ways_lead_to_one_metric(spec: Any) -> None:
    assert load_metric(spec) == load_metric("chrf", beta=1)


def test_settings_beside_a_name_win() -> None:
    assert load_metric("chrf(beta=1)", beta=3) == ChrF(beta=3)
    assert load_metric({"name": "chrf++"}, word_order=1) == ChrF(word_order=1)
    metric = ChrF()
    assert load_metric(metric) is metric


@pytest.mark.parametrize("suffix", [".yaml", ".yml"])
def test_a_yaml_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"metric{suffix}"
    path.write_text("name: bleu\ntokenize: zh\n", encoding="utf-8")
    assert load_metric(path) == load_metric(str(path)) == load_metric(BLEU_ZH)
    for content in ("tokenize: zh\n", f"name: {path}\n"):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=path.name):
            load_metric(path)
    with pytest.raises(InputError, match=r"none\.yaml"):
        load_metric(tmp_path / "none.yaml")


def test_a_mix() -> None:
    mix = load_metric("chrf + 0.5*bleu")
    assert isinstance(mix, Mix)
    assert mix.parts == ((1.0, load_metric("chrf")), (0.5, load_metric("bleu")))
    with pytest.raises(InputError, match=r"\['beta'\] beside a mix"):
        load_metric("chrf + bleu", beta=1)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("chfr", "'chfr'.*'chrf'"),
        ("blue", "'blue'.*'bleu'"),
        ("me/chrf", "'me/chrf'"),
        ("zzzzzz", r"'zzzzzz'. All:\n  bartscore, bartscore-f"),
        ("perplexity", "lm"),
        ("logprob/length", "discorank rerank -m logprob/length"),
        ("moverscore", "bertscore and embedding"),
        ("chrf(bta=1)", "'bta'.*'beta'"),
        ({"name": "chrf", "bta": 1}, "'bta'"),
        ({"beta": 1}, "name"),
        ({"name": 3}, "name"),
        (3, "3"),
        (None, "None"),
        (ChrF, "ChrF"),
        ("json:JSONDecoder", "'json:JSONDecoder'"),
        ("sys:maxsize", "'sys:maxsize'"),
        (f"{__name__}:overlap(a=1)", "no settings"),
    ],
)
def test_refusals(spec: Any, found: str) -> None:
    with pytest.raises(InputError, match=found):
        load_metric(spec)


@pytest.mark.parametrize("name", ["no_such_module_x:A", "json:Nothing", "json:", "...:A"])
def test_what_cannot_be_imported(name: str) -> None:
    with pytest.raises((ModelLoadError, InputError)) as raised:
        load_metric(name)
    assert name.rstrip(":") in str(raised.value)


def test_metric_class() -> None:
    assert registry.metric_class("chrf++") is ChrF
    assert registry.metric_class("discorank.metrics.lexical.chrf:ChrF") is ChrF
    with pytest.raises(InputError, match="is not a metric"):
        registry.metric_class(f"{__name__}:overlap")


def test_a_function() -> None:
    metric = load_metric(overlap)
    assert isinstance(metric, Function)
    assert metric.signature() == f"{__name__}:overlap"
    assert load_metric(metric.signature()) == metric
    assert hash(pickle.loads(pickle.dumps(metric))) == hash(metric)
    assert metric.pairwise(["ab", "b"], ["b", "abc"]).tolist() == [[1, 2], [1, 1]]
    assert metric.score(["ab"], [["b", "abc"]]).tolist() == [2.0]
    seen = load_metric(lambda h, r: isinstance(h, Document) + 2 * isinstance(r, Document))
    assert seen.pairwise([Document(["a"]), "a"], [Document(["a"]), "b"]).tolist() == [
        [3, 1],
        [2, 0],
    ]
    assert load_metric(Callable2()).score(["a"], ["b"]).tolist() == [3.0]


def test_a_function_is_called_once_per_pair_of_distinct_texts() -> None:
    calls: list[tuple[str, str]] = []

    def counting(hypothesis: str, reference: str) -> float:
        calls.append((hypothesis, reference))
        return len(hypothesis) - len(reference)

    matrix = load_metric(counting).pairwise(["a", "bb", "a"], ["bb", "c", "bb"])
    assert matrix.tolist() == [[-1, 0, -1], [0, 1, 0], [-1, 0, -1]]
    assert sorted(calls) == [("a", "bb"), ("a", "c"), ("bb", "bb"), ("bb", "c")]


def test_a_function_that_fails_is_named() -> None:
    with pytest.raises(MetricError, match=f"{__name__}:broken: RuntimeError: no a"):
        load_metric(broken).score(["a"], ["b"])
    for returned in ("many", None):
        with pytest.raises(MetricError, match="lambda"):
            load_metric(lambda h, r, value=returned: value).score(["a"], ["b"])


class Point:
    """An entry point as importlib.metadata gives it."""

    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Point]]:
    points: list[Point] = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    registry.names.cache_clear()
    yield points
    registry.names.cache_clear()


def test_a_plug_in(plug_ins: list[Point]) -> None:
    plug_ins.append(Point("mine", "discorank.metrics.lexical.chrf:ChrF"))
    assert "mine" in registry.names()
    assert load_metric("mine", beta=1) == ChrF(beta=1)


def test_a_plug_in_may_not_take_a_built_in_name(plug_ins: list[Point]) -> None:
    plug_ins.append(Point("chrf", "somewhere:Else"))
    with pytest.raises(InputError, match="'chrf'"):
        registry.names()
    assert load_metric("chrf") == ChrF()


def test_a_plug_in_that_breaks_while_imported(
    plug_ins: list[Point], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "discorank_broken_plugin.py").write_text(
        "raise RuntimeError('boom')\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    plug_ins.append(Point("mine", "discorank_broken_plugin:Mine"))
    with pytest.raises(ModelLoadError, match=r"mine.*boom"):
        load_metric("mine")


def test_an_error_of_ours_passes_through(
    plug_ins: list[Point], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise ModelLoadError("its model is gone", where="here")

    monkeypatch.setitem(sys.modules, "discorank_lazy_plugin", Lazy("discorank_lazy_plugin"))
    with pytest.raises(DiscorankError, match="here: its model is gone"):
        load_metric("discorank_lazy_plugin:Mine")


@pytest.mark.parametrize(
    ("name", "registered"),
    [
        ("BLEU", "bleu"),
        ("ChrF++", "chrf++"),
        ("Doc_COMET", "doc-comet"),
        ("BERTScore", "bertscore"),
    ],
)
def test_names_are_known_in_any_letters(name: str, registered: str) -> None:
    assert load_metric(name) == load_metric(registered)
    assert load_metric(f"0.5*{name} + chrf") == load_metric(f"0.5*{registered} + chrf")
    assert load_metric({"name": name}) == load_metric(registered)


@pytest.mark.parametrize(
    ("name", "metric", "model"),
    [
        ("wmt22-comet-da", "comet", "Unbabel/wmt22-comet-da"),
        ("Unbabel/wmt22-comet-da", "comet", "Unbabel/wmt22-comet-da"),
        ("wmt22-cometkiwi-da", "comet-qe", "Unbabel/wmt22-cometkiwi-da"),
        ("wmt20-comet-qe-da", "comet-qe", "Unbabel/wmt20-comet-qe-da"),
        ("XCOMET-XXL", "xcomet", "Unbabel/XCOMET-XXL"),
        ("metricx-24-hybrid-large-v2p6", "metricx", "google/metricx-24-hybrid-large-v2p6"),
        ("metricx-23-qe-xl-v2p0", "metricx-qe", "google/metricx-23-qe-xl-v2p0"),
        ("BLEURT-20", "bleurt", "lucadiliello/BLEURT-20"),
        ("COMET-poly-cand1-wmt25", "comet-poly", "zouharvi/COMET-poly-cand1-wmt25"),
        *[("Skywork/Skywork-Reward-V2-Qwen3-0.6B", "reward", "")],
        ("cross-encoder/nli-deberta-v3-base", "entail", ""),
        ("roberta-large", "bertscore", ""),
        ("microsoft/deberta-xlarge-mnli", "bertscore", ""),
        ("bart-large-cnn", "bartscore", "facebook/bart-large-cnn"),
        ("LaBSE", "embedding", "sentence-transformers/LaBSE"),
        ("minilm", "bertscore", ""),
    ],
)
def test_names_of_models_lead_to_signatures_that_work(name: str, metric: str, model: str) -> None:
    signature = f'{metric}(model="{model or name}")'
    with pytest.raises(InputError) as raised:
        load_metric(name)
    assert f"'{signature}'" in str(raised.value)
    assert isinstance(load_metric(signature), registry.metric_class(metric))


@pytest.mark.parametrize(
    ("alias", "signature"),
    [
        ("discoscore", "ds-focus"),
        ("DiscoScore", "ds-focus"),
        ("bert-score", "bertscore"),
        ("BERT_Score", "bertscore"),
        ("rougeL", "rouge-l"),
        ("rouge1", "rouge-1"),
        ("sacrebleu", "bleu"),
        ("cometkiwi(context=1)", 'comet-qe(model="Unbabel/wmt22-cometkiwi-da",context=1)'),
        ('cometkiwi(model="mine")', 'comet-qe(model="mine")'),
        ("0.5*discoscore + chrf2", "0.5*ds-focus + chrf"),
    ],
)
def test_an_alias_is_the_metric(alias: str, signature: str) -> None:
    assert load_metric(alias) == load_metric(signature)


def test_every_alias_leads_somewhere_and_is_no_name_itself() -> None:
    for alias, name in ALIASES.items():
        assert registered_name(alias) == name in names(), alias
        assert alias == letters(alias) not in map(letters, BUILT_IN)
    assert not set(REMARKS) & set(ALIASES)


def test_aliases_are_noted_and_can_do_without_their_models() -> None:
    assert Spec.parse("chrf + 0.5*discoscore").aliases == {"discoscore": "ds-focus"}
    assert not Spec.parse("BERT-Score").aliases
    text = 'cometkiwi(lang="cometkiwi") + BERT-Score - 0.3*rc'
    assert Spec.parse(text, with_models=False).text == (
        'comet-qe(lang="cometkiwi") + bertscore - 0.3*cohesion(measure="rc")'
    )
    assert Spec.parse(Spec.parse(text).text) == Spec.parse(text)._replace(
        where=Spec.parse(text).text, aliases={}
    )


def test_rc_and_lc_are_measures_of_cohesion() -> None:
    """As DiscoScore's paper calls them (Zhao et al. 2023, Table 2)."""
    for name in ("rc", "lc"):
        metric = load_metric(name)
        assert metric == load_metric("cohesion", measure=name)
