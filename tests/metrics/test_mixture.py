"""Mixes: a weighted sum of parts, each as if alone."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest

from discorank import Context, InputError, Metric, Scorer, load_metric
from discorank.metrics.mixture import Mix
from discorank.metrics.names import BUILT_IN
from discorank.metrics.registry import metric_class
from discorank.metrics.representations import Block, FloatArray, IntArray, Reps
from discorank.metrics.scorer import Info, Reading
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.text.texts import Item

H, R = ["the cat sat", "a mat", ""], ["the cat", "a mat on"]


@settings
class Before(Metric):
    """Reference-free: characters of the target context."""

    context: int = 2
    name: ClassVar[str] = f"{__name__}:Before"
    info: ClassVar[Info] = Info(summary="toy", needs_references=False)

    @property
    def reads(self) -> Reading:
        return Reading(self.context)

    def load(self) -> BeforeScorer:
        return BeforeScorer()


class BeforeScorer(Scorer):
    info = Before.info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        size = np.array([len("".join(item.context)) for item in items], np.int64)
        return Reps({"size": size}), size

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        return [reps["size"][block.hypotheses][:, None].astype(float) for block in blocks]


def single(name: str) -> Metric:
    """A metric that is no mix."""
    metric = load_metric(name)
    assert isinstance(metric, Metric)
    return metric


def distance(h: str, r: str) -> float:
    return abs(len(h) - len(r))


def test_the_sum() -> None:
    chrf, bleu = load_metric("chrf"), load_metric("bleu")
    mix = load_metric("chrf - 0.5*bleu + chrf")
    expected = chrf.pairwise(H, R) - 0.5 * bleu.pairwise(H, R) + chrf.pairwise(H, R)
    assert mix.pairwise(H, R) == pytest.approx(expected, rel=1e-15)
    references = [["the cat", "cat"], ["mat"], ["x"]]
    expected = (
        chrf.score(H, references) - 0.5 * bleu.score(H, references) + chrf.score(H, references)
    )
    assert mix.score(H, references) == pytest.approx(expected, rel=1e-15)
    whole = 2 * chrf.corpus(H, references) - 0.5 * bleu.corpus(H, references)
    assert mix.corpus(H, references) == pytest.approx(whole, rel=1e-15)


def test_a_distance_counts_negatively() -> None:
    ter = single("ter")
    mix = Mix(((2.0, ter),))
    assert mix.pairwise(H, R) == pytest.approx(2 * ter.pairwise(H, R))
    assert mix.score(H[:2], R) == pytest.approx(-2 * ter.score(H[:2], R))
    assert (mix.score(H[:2], R) <= 0).all()


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("chrf+bleu", "chrf + bleu"),
        ("chrf - bleu", "chrf + -1.0*bleu"),
        ("2*chrf", "2.0*chrf"),
        ("-chrf++", "-1.0*chrf(word_order=2)"),
        ('1e-7*chrf + 0.5*bleu(tokenize="zh")', '1e-07*chrf + 0.5*bleu(tokenize="zh")'),
    ],
)
def test_signature(text: str, signature: str) -> None:
    mix = load_metric(text)
    assert isinstance(mix, Mix)
    assert mix.signature() == mix.name == signature
    assert load_metric(signature) == mix
    assert hash(pickle.loads(pickle.dumps(mix))) == hash(mix)


def test_weights_are_finite() -> None:
    with pytest.raises(InputError, match="weight nan of chrf"):
        Mix(((float("nan"), single("chrf")),))
    with pytest.raises(InputError, match="weight inf of bleu"):
        load_metric("chrf + 1e999*bleu")
    with pytest.raises(InputError, match="a mix without parts"):
        Mix(())


def test_a_reference_free_part_adds_to_every_column() -> None:
    mix = Mix(((1.0, single("chrf")), (0.5, Before(context=0))))
    assert mix.pairwise(H, R).shape == (3, 2)
    assert mix.reads.context == 0
    assert Mix(((1.0, single("chrf")), (0.5, Before()))).reads == Reading(2)


def test_only_parts_that_read_context_get_it() -> None:
    context = Context(target=("abc", "de", "f"))
    mix = Mix(((1.0, single("chrf")), (0.5, Before())))
    matrix = mix.pairwise(H, R, None, context)
    assert matrix == pytest.approx(load_metric("chrf").pairwise(H, R) + 0.5 * 3)


def test_a_reference_free_mix_has_one_column() -> None:
    assert Mix(((1.0, Before(context=0)), (2.0, Before(context=0)))).pairwise(H, R).shape == (3, 1)


def test_a_mix_fits_and_speaks_languages_like_a_metric() -> None:
    mix = load_metric("chrf + 0.5*bleu")
    assert mix.for_language("zh") == load_metric('chrf + 0.5*bleu(tokenize="zh")')
    assert mix.fit(["a"]) == mix


def is_lower_better(name: str) -> bool:
    kind = metric_class(name)
    return issubclass(kind, Metric) and not kind.info.higher_is_better


LOWER_IS_BETTER = sorted(filter(is_lower_better, BUILT_IN))


def test_some_metrics_are_better_where_lower() -> None:
    assert {"ter", "wer", "cer", "pdd", "metricx", "metricx-qe", "ds-focus"} <= set(LOWER_IS_BETTER)


@pytest.mark.parametrize("name", LOWER_IS_BETTER)
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("chrf - {}", "chrf + {}"),
        ("-{}", "{}"),
        ("chrf + -0.5*{}", "chrf + 0.5*{}"),
        ("chrf - bleu - {}*2", "chrf - bleu + 2*{}"),
    ],
)
def test_a_minus_in_front_of_an_error_rate_is_refused(name: str, text: str, meant: str) -> None:
    """A sum negates error rates: with a minus in front it would choose the worst text."""
    with pytest.raises(InputError, match="lower is better") as error:
        load_metric(text.format(name))
    assert error.value.fix == f"Write {meant.format(name)!r}"
    with pytest.raises(InputError, match="lower is better"):
        load_metric({"name": text.format(name)})


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("chrf - aligned(ter)", "chrf + aligned(ter)"),
        ("chrf - aligned(bleu + wer)", "chrf + aligned(bleu + wer)"),
        ("aligned(chrf - cer)", "chrf + cer"),
        ("chrf - ter(normalized=true)", "chrf + ter(normalized=true)"),
    ],
)
def test_a_minus_in_a_wrapper_or_with_settings_is_refused(text: str, meant: str) -> None:
    with pytest.raises(InputError, match="lower is better") as error:
        load_metric(text)
    assert error.value.fix == f"Write {meant!r}"


def test_a_minus_in_front_of_other_metrics_is_a_weight() -> None:
    for text in ("chrf - bleu", "-chrf", "ter - bleu", "chrf - aligned(bleu)"):
        assert load_metric(text).parts
