"""Decoding under a budget: the pairs that are computed are those of the whole matrix, and a whole budget is none."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import discorank
from discorank import Budget, Document, InputError, MBRDecoder, MetricError, Ranking, load_metric
from discorank.metrics.base import Metric
from discorank.metrics.representations import Block, FloatArray, Reps
from discorank.metrics.scorer import Info, Scorer
from discorank.metrics.spec.checked_settings import settings
from discorank.rerank.budget.settings import two_texts_are_one_pair
from discorank.rerank.choice import diverse
from discorank.rerank.engines import local
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.lists import read_list
from discorank.rerank.prior import Prior, SystemPrior
from discorank.rerank.runs.run import json_row

from ..support.contextual import Echo
from ..support.letters_scorer import LettersScorer
from ..support.lists import made_lists

MODELS = Path(__file__).parents[1] / "golden" / "docmetrics" / "models"
SUM = "ter - 0.02*chrf"
SOME = Budget(0.2)


def lists(n: int = 6, width: int = 14, seed: int = 1) -> list[dict[str, Any]]:
    """Lists with duplicates, whose texts are like each other."""
    return list(made_lists(n, width, seed=seed))


def rankings(lists_: Sequence[Any], utility: Any, **settings: Any) -> list[Ranking]:
    """The decisions of the lists, with all places and matrices if not set otherwise."""
    decoder = MBRDecoder(**{"utility": utility, "nbest": None, **settings})
    return list(decoder.decode(lists_, LocalEngine()))


def without_budget(ranking: Ranking) -> bytes:
    """A row but for its budget."""
    return json_row(replace(ranking, budget=None))


def best_texts(ranking: Ranking) -> set[Any]:
    """All that are as good as the chosen one: of them, the order of the list decides."""
    top = ranking.utility
    assert top is not None
    return {place.text for place in ranking.ranking if place.utility == pytest.approx(top, 1e-9)}


WHOLE: list[tuple[str, dict[str, Any]]] = [
    ("ter", {}),
    (SUM, {"nbest": 3}),
    ("ter", {"weights": "logprob", "temperature": 3.0}),
    ("ter", {"self_pair": False}),
    ("ter", {"shortlist": "chrf", "top_k": 4}),
]


@pytest.mark.parametrize(("utility", "more"), WHOLE)
def test_a_budget_of_all_pairs_changes_no_bit(utility: str, more: dict[str, Any]) -> None:
    exact = rankings(lists(), utility, **more)
    found = rankings(lists(), utility, budget=Budget(1.0), **more)
    assert [without_budget(ranking) for ranking in found] == [json_row(r) for r in exact]
    for ranking in found:
        assert ranking.budget is not None
        spent = ranking.budget.as_json()
        assert spent["pairs"] == spent["of"]
        assert (spent["confidence"], spent["regret"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("utility", "more"),
    [
        *WHOLE[:4],
        ("prism", {}),
        ("prism and chrf", {}),
        (SUM, {"budget_of": {"cheap_utility": "bleu"}}),
    ],
)
def test_what_is_computed_is_part_of_the_matrix(utility: str, more: dict[str, Any]) -> None:
    """Each pair is asked for at most once, within the budget, and has the value that it has without one."""
    settings = dict(more)
    budget = Budget(0.3, **settings.pop("budget_of", {}))
    metric = TINY.get(utility, utility)
    records = lists(3) if utility == metric else lists(1, 6)
    records = [{**record, "source": "the fog lifts"} for record in records]
    whole = rankings(records, metric, keep_matrix=True, **settings)
    for exact, ranking in zip(
        whole, rankings(records, metric, keep_matrix=True, budget=budget, **settings), strict=True
    ):
        assert exact.matrix is not None
        assert ranking.matrix is not None
        assert ranking.budget is not None
        computed = ranking.budget.computed
        counted = computed
        if "prism" in utility:  # two texts are one pair
            assert (computed == computed.T).all()
            counted = computed[np.tril_indices(len(computed))]
        assert ranking.budget.pairs == counted.sum() <= max(1, np.ceil(0.3 * counted.size))
        assert ranking.budget.of == counted.size
        assert 0 <= ranking.budget.confidence <= 1
        assert ranking.budget.regret >= 0
        assert np.isnan(ranking.matrix[~computed]).all()
        # a sum of parts may be added up in another order
        np.testing.assert_allclose(ranking.matrix[computed], exact.matrix[computed], rtol=1e-13)
        if "+" not in str(metric) and "-" not in str(metric):
            assert (ranking.matrix[computed] == exact.matrix[computed]).all()


PRISM = f'prism(model="{MODELS}/tiny-mbart50",lang="en")'


@pytest.mark.parametrize(
    ("utility", "expected"),
    [
        ("prism", True),
        ("prism + 0.1*ter", False),
        ("prism + 0.1*chrf + 0*ter", True),  # chrf is computed of all, ter of none
        ("bartscore", True),
        ('bartscore(direction="recall")', False),
        ('prism(context=1,context_from="reference")', False),
        ("dr-lex", True),
        ("ter", False),
    ],
)
def test_whether_two_texts_are_one_pair(utility: str, expected: bool) -> None:
    assert two_texts_are_one_pair(load_metric(utility), False) == expected


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("bertscore", True),
        ('bertscore(aggregate="P")', False),
        ("ds-focus", True),
        ('ds-focus(missing="penalise")', False),
        ('ds-focus(missing="penalise",aggregate="F")', True),
    ],
)
def test_settings_decide_whether_a_metric_is_symmetric(metric: str, expected: bool) -> None:
    loaded = load_metric(metric)
    assert isinstance(loaded, Metric)
    assert loaded.symmetric == expected


TINY: dict[str, Any] = {"prism": PRISM, "prism and chrf": f"{PRISM} + 0.1*chrf"}


def test_permuted_candidates_choose_the_same_text() -> None:
    r = random.Random(5)
    budget = Budget(0.25)
    for record in lists(4, 16):
        texts = [candidate["text"] for candidate in record["candidates"]]
        shuffled = r.sample(texts, len(texts))
        (first,) = rankings([{"id": "a", "candidates": texts}], "ter", budget=budget)
        (second,) = rankings([{"id": "a", "candidates": shuffled}], "ter", budget=budget)
        assert best_texts(first) == best_texts(second)
        assert first.budget is not None
        assert second.budget is not None
        assert first.budget.as_json() == second.budget.as_json()


def test_what_else_is_decoded_changes_nothing() -> None:
    """Lists in work at once, alone, or with other pseudo-references beside them."""
    others = [{"id": "p", "candidates": ["a b", "b c"], "pseudo_references": ["b", "c d", "a b"]}]
    budget = Budget(0.3)
    together = rankings([*lists(), *others], "ter", budget=budget)
    alone = [rankings([record], "ter", budget=budget)[0] for record in [*lists(), *others]]
    assert [json_row(ranking) for ranking in together] == [json_row(ranking) for ranking in alone]


def test_pseudo_references_of_weight_0_are_not_compared() -> None:
    record = lists(1)[0]
    for i, candidate in enumerate(record["candidates"]):
        candidate["w"] = float(i % 2)
    texts = list(dict.fromkeys(candidate["text"] for candidate in record["candidates"]))
    weights = dict.fromkeys(texts, 0.0)
    for candidate in record["candidates"]:
        weights[candidate["text"]] += candidate["w"]
    budget = Budget(0.4)
    (found,) = rankings([record], "ter", budget=budget, weights="field:w")
    assert found.budget is not None
    is_weightless = np.array([weights[text] == 0 for text in texts])
    assert is_weightless.any()
    assert not found.budget.computed[:, is_weightless].any()


def test_a_prior_over_systems_weighs_under_a_budget() -> None:
    """Only what one of two systems said counts."""
    means = {"strong": 9.0, "weak": -9.0}
    systems = tuple((name, SystemPrior(m, 0.1, m, 3, 2)) for name, m in means.items())
    prior = Prior(systems, 1.0, 0.5, 1.0, "mqm", True, True, 3, 2, "x")
    candidates = [
        {"text": " ".join(random.Random(i).choices("abcdef", k=6)), "system": name}
        for i, name in enumerate(["strong", "weak"] * 6)
    ]
    settings: dict[str, Any] = {"prior": prior, "prior_strength": 1e6, "budget": SOME}
    record = read_list({"id": "a", "candidates": candidates})
    (found,) = rankings([record], "ter", **settings)
    weights = MBRDecoder("ter", **settings).pool.weights_of(record.candidates)
    counts = weights > 1e-9 * weights.sum()
    assert counts.sum() == 6
    assert found.budget is not None
    assert found.budget.computed[:, counts].any()
    assert not found.budget.computed[:, ~counts].any()


@pytest.mark.parametrize("strategy", ["sequential", "one-best"])
def test_contexts_are_those_of_no_budget(strategy: Any) -> None:
    """Of a document's lists in turns, each read after the choices before it."""
    records = list(made_lists(9, 8, seed=4))
    exact = rankings(records, Echo(), strategy=strategy, keep_matrix=True)
    whole = rankings(records, Echo(), strategy=strategy, budget=Budget(1.0, force=True))
    assert [without_budget(ranking) for ranking in whole] == [
        json_row(replace(ranking, matrix=None)) for ranking in exact
    ]
    if strategy == "sequential":  # choices may be others, and with them contexts
        return
    budget = Budget(0.4, force=True)
    found = rankings(records, Echo(), strategy=strategy, keep_matrix=True, budget=budget)
    for ranking, known in zip(found, exact, strict=True):
        assert ranking.matrix is not None
        assert ranking.budget is not None
        assert known.matrix is not None
        computed = ranking.budget.computed
        assert (ranking.matrix[computed] == known.matrix[computed]).all()


def test_what_was_spent_prints_as_figures() -> None:
    """Without the matrix of what was computed."""
    (ranking,) = rankings(lists(1), "ter", budget=SOME)
    assert ranking.budget is not None
    shown = repr(ranking.budget)
    assert shown.startswith(f"Spent(pairs={ranking.budget.pairs}, of={ranking.budget.of}, conf")
    assert "array" not in shown


def test_joined_documents_are_joined_in_every_block() -> None:
    """What is compared does not depend on which documents a block has."""
    sentences = ["the fog lifts", "the ferry waits", "a ship leaves", "all by the harbour"]
    r = random.Random(2)
    texts = [Document(r.choices(sentences, k=2 + (i == 7))) for i in range(8)]
    record = {"id": "d", "candidates": texts}
    (exact,) = rankings([record], "ter", keep_matrix=True)
    (found,) = rankings([record], "ter", keep_matrix=True, budget=SOME)
    assert found.flags == exact.flags == ("joined",)
    assert found.budget is not None
    assert found.matrix is not None
    assert exact.matrix is not None
    computed = found.budget.computed
    assert (found.matrix[computed] == exact.matrix[computed]).all()


def odd(hypothesis: str, reference: str) -> float:
    """Shared words; "nan" has no value, and nothing has one against "bad"."""
    if hypothesis == "nan" or reference == "bad":
        return float("nan")
    return float(len(set(hypothesis.split()) & set(reference.split())))


def test_a_text_without_values_is_never_chosen() -> None:
    texts = [" ".join(random.Random(i).choices("abcdef", k=5)) for i in range(9)]
    budget = Budget(0.6)
    (found,) = rankings([{"id": "a", "candidates": ["nan", *texts]}], odd, budget=budget)
    assert found.text != "nan"
    (found,) = rankings([{"id": "a", "candidates": [*texts, "nan"]}], odd, budget=budget)
    assert found.text != "nan"


def test_a_list_without_finite_pairs_is_an_error() -> None:
    record = {"id": "a", "candidates": list("abcdef"), "pseudo_references": ["bad", "bad"]}
    budget = Budget(0.5)
    with pytest.raises(MetricError, match=r"list 'a': budget: none of the \d+ pairs that were"):
        rankings([record], odd, budget=budget)


def test_a_cheap_utility_must_be_finite() -> None:
    record = {"id": "a", "candidates": ["nan", *"abcdef"]}
    with pytest.raises(MetricError, match=r"a cheap utility that is not finite"):
        rankings([record], "ter", budget=Budget(0.5, cheap_utility=odd))


def test_parts_of_weight_0_are_not_computed() -> None:
    """Nor do they count."""
    records = lists(2)
    only = rankings(records, "ter", budget=SOME)
    both = rankings(records, f"ter + 0*{TINY['prism']}", budget=SOME)
    assert [json_row(ranking) for ranking in both] == [json_row(ranking) for ranking in only]


@settings
class Length(Metric):
    """Reference-free: characters of the hypothesis."""

    name: ClassVar[str] = f"{__name__}:Length"
    info: ClassVar[Info] = Info(summary="toy", needs_references=False)

    def load(self) -> Scorer:
        return LengthScorer(self.info)


class LengthScorer(LettersScorer):
    """The number of letters of a text."""

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        lengths = reps["letters"].lengths
        return [lengths[block.hypotheses][:, None].astype(float) for block in blocks]


@settings
class Pairs(Metric):
    """Shared letters, as a model that reads pairs would say."""

    name: ClassVar[str] = f"{__name__}:Pairs"
    info: ClassVar[Info] = Info(summary="toy", bucketed=True, costly_pairs=True)

    def load(self) -> Scorer:
        return PairsScorer(self.info)


class PairsScorer(LengthScorer):
    """Represents a text by its letters."""

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        def letters(row: int) -> set[int]:
            return set(reps["letters"][np.array([row])].values.tolist())

        def shared(h: int, r: int) -> float:
            return len(letters(h) & letters(r)) / len(letters(h) | letters(r))

        found = []
        for block in blocks:
            rows, columns = block.hypotheses.tolist(), block.references.tolist()
            found.append(np.array([[shared(h, r) for r in columns] for h in rows]))
        return found


def test_a_part_without_references_counts() -> None:
    """It is computed for every text, whatever the budget."""
    from discorank.metrics.mixture import Mix

    texts = [" ".join(random.Random(i).choices("abcdef", k=5)) for i in range(12)]
    mix = Mix(((1.0, Pairs()), (100.0, Length())))
    texts[7] += " and much longer than the others"
    (found,) = rankings([{"id": "a", "candidates": texts}], mix, budget=Budget(0.3))
    assert found.index == 7


def test_texts_are_represented_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many blocks a list has, and however little stores may hold for later lists."""
    monkeypatch.setattr(local, "MODEL_STORE_BYTES", 0)
    monkeypatch.setattr(local, "STORE_BYTES", 0)
    monkeypatch.setattr(local, "FIRST_WAVE", 300)  # a few lists
    monkeypatch.setattr(local, "SHORT_SECONDS", 0.0)
    records = [
        {"id": str(i), "candidates": [f"{i} {c['text']}" for c in record["candidates"]]}
        for i, record in enumerate(lists(8))
    ]
    distinct = sum(len(set(record["candidates"])) for record in records)
    engine = LocalEngine()
    budget = Budget(0.4, cheap_utility="bleu")
    decoder = MBRDecoder(Pairs(), budget=budget)
    held = 0
    for ranking in decoder.decode(records, engine):
        assert ranking.budget is not None
        held = max(held, *(len(store.row) for store in engine.stores.values()))
    # for the cheap utility, too; a text that no pair needs is not represented
    assert 1.9 * distinct < engine.meter.now.texts <= 2 * distinct
    assert held < distinct / 2  # lists that are done are let go of


def test_one_pseudo_reference_is_no_trouble() -> None:
    """A pair is then all that there is to know of a text."""
    texts = [" ".join(random.Random(i).choices("abcdef", k=5)) for i in range(20)]
    record = {"id": "a", "candidates": texts, "pseudo_references": ["a b c"]}
    (found,) = rankings([record], "ter", budget=0.3)
    assert found.budget is not None
    assert found.budget.pairs == 6
    assert len(found.ranking) == 20
    assert "not-finite" not in found.flags


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"utility": "chrf", "budget": 0.1}, "--force-budget"),
    ({"utility": "chrf + rouge-l", "budget": 0.1}, "--force-budget"),
    ({"utility": "chrf + 0*ter", "budget": 0.1}, "--force-budget"),
    ({"utility": "ter", "budget": 0.1, "oracle": True}, "budget.* oracle"),
    ({"utility": "ter", "budget": 0.0}, "share"),
    ({"utility": "ter", "budget": 1.5}, "share"),
    ({"utility": "cohesion", "budget": 0.1}, "cohesion"),
    ({"utility": "chrf", "diverse": 1.0}, "at least 2"),
    ({"utility": "chrf", "diverse": 1.0, "nbest": None}, "at least 2"),
    (
        {"utility": "chrf", "diverse": 1.0, "nbest": 3, "oracle": True},
        "diverse.* oracle",
    ),
    (
        {"utility": "ter", "diverse": 1.0, "nbest": 3, "budget": 0.1},
        "diverse.* budget",
    ),
    ({"utility": "cohesion", "diverse": 1.0, "nbest": 3}, "diverse"),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED)
def test_refusals(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        MBRDecoder(**settings)


def test_a_forced_budget_of_algebra() -> None:
    records = lists(3)
    exact = rankings(records, "chrf", keep_matrix=True)
    budget = Budget(0.3, cheap_utility="bleu", force=True)
    for ranking, whole in zip(
        rankings(records, "chrf", keep_matrix=True, budget=budget), exact, strict=True
    ):
        assert ranking.budget is not None
        assert ranking.matrix is not None
        assert whole.matrix is not None
        computed = ranking.budget.computed
        assert (ranking.matrix[computed] == whole.matrix[computed]).all()


def test_the_decoder_of_a_reranker_has_no_budget() -> None:
    decoder = MBRDecoder("ter", budget=0.5)
    with pytest.raises(InputError, match=r"budget: .* a reranker, which needs a value of every"):
        discorank.Reranker({"expected": 1.0}, decoder=decoder)


@pytest.mark.parametrize("shortlist", [None, "bleu"])
def test_a_diverse_list_is_that_of_the_matrix(shortlist: str | None) -> None:
    for record in lists(4, 12):
        (whole,) = rankings([record], "chrf", keep_matrix=True, shortlist=shortlist, top_k=6)
        settings = {"shortlist": shortlist, "top_k": 6, "nbest": 3}
        (found,) = rankings([record], "chrf", diverse=2.0, **settings)
        assert found.matrix is None
        if shortlist is None:
            assert whole.matrix is not None
            texts = list(dict.fromkeys(c["text"] for c in record["candidates"]))
            weights = [sum(c["text"] == text for c in record["candidates"]) for text in texts]
            values = whole.matrix @ weights / sum(weights)
            expected = [texts[i] for i in diverse(values, whole.matrix, 3, 2.0)]
            assert [place.text for place in found.ranking] == expected
        (plain,) = rankings([record], "chrf", diverse=0.0, **settings)
        assert [p.text for p in plain.ranking] == [p.text for p in whole.ranking[:3]]


def test_a_diverse_list_needs_its_candidates_compared() -> None:
    record = {"id": "a", "candidates": ["a b", "b c"], "pseudo_references": ["b", "c d"]}
    with pytest.raises(InputError, match="pseudo_references: candidates are compared with these"):
        rankings([record], "chrf", diverse=1.0, nbest=2)
