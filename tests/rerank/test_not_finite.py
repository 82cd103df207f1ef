"""What is not finite: in single pairs, in whole lists, in sums, features and normalisation, under every engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import inf, nan
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from discorank import MBRDecoder, Reranker
from discorank.cli.main import main
from discorank.cli.terminal.standard_streams import TerminatedError
from discorank.metrics.base import Metric
from discorank.metrics.errors import DiscorankError, InputError, MetricError
from discorank.metrics.execution.evaluate import Tile
from discorank.metrics.execution.meter import Meter
from discorank.metrics.mixture import Mix
from discorank.metrics.representations import Block, FloatArray, IntArray, Reps
from discorank.metrics.scorer import Info, Scorer
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.text.texts import NO_CONTEXT, Item
from discorank.rerank.choice import Ranking
from discorank.rerank.engines.expectation import Normalize, expected_utility, normalized
from discorank.rerank.engines.interface import Result, Task, loaded_as
from discorank.rerank.engines.local import LocalEngine, results_of
from discorank.rerank.engines.ray.worker import SentTask, Share, Worker
from discorank.rerank.training.combination_training import Preferences, train_combination

from ..support.lists import write_lists

BOUNDED = limits(deadline=None, max_examples=60, database=None)
EXTREME = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1e308, -1e308, 1.7e308, -1.7e308, 5e-324, -5e-324, 0.0, 1e-310, 1.0]),
)


@settings
class Product(Metric):
    """u(h, r) = x(h) x(r) of texts that are numbers, from its matrix."""

    name: ClassVar[str] = "product"
    info: ClassVar[Info] = Info(summary="toy")

    def load(self) -> Scorer:
        return ProductScorer(self.info)


@settings
class LinearProduct(Metric):
    """The same by its linear form."""

    name: ClassVar[str] = "linear-product"
    info: ClassVar[Info] = Info(summary="toy", linear=True)

    def load(self) -> Scorer:
        return ProductScorer(self.info)


@settings
class Alone(Metric):
    """x(h), without references."""

    name: ClassVar[str] = "alone"
    info: ClassVar[Info] = Info(summary="toy", needs_references=False)

    def load(self) -> Scorer:
        return ProductScorer(self.info)


class ProductScorer(Scorer):
    def __init__(self, info: Info) -> None:
        self.info = info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        numbers = np.array([float(str(item.text)) for item in items])
        return Reps({"x": numbers}), np.ones(len(items), np.int64)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        x: Any = reps["x"]
        with np.errstate(all="ignore"):
            if not self.info.needs_references:
                return [x[block.hypotheses][:, None] for block in blocks]
            return [np.outer(x[block.hypotheses], x[block.references]) for block in blocks]

    def expected(
        self, reps: Reps, blocks: Sequence[Block], weights: Sequence[FloatArray]
    ) -> list[FloatArray]:
        x: Any = reps["x"]
        pairs = zip(blocks, weights, strict=True)
        return [x[block.hypotheses] * (x[block.references] @ w) for block, w in pairs]


@settings
class Leaving(Metric):
    """Ends the process, or tries to, in one of its steps."""

    step: str = "compare"
    name: ClassVar[str] = "leaving"
    info: ClassVar[Info] = Info(summary="toy")

    def load(self) -> Scorer:
        if self.step == "load":
            raise SystemExit(0)
        return LeavingScorer(self.step)


class OddStop(BaseException):
    """Passes every `except Exception`."""


class LeavingScorer(ProductScorer):
    def __init__(self, step: str) -> None:
        super().__init__(Leaving.info)
        self.step = step

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        if self.step == "prepare":
            raise OddStop("gone")
        return Reps({"x": np.ones(len(items))}), np.ones(len(items), np.int64)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        if self.step == "compare":
            raise SystemExit(0)
        if self.step == "interrupt":
            raise KeyboardInterrupt
        return super().compare(reps, blocks)

    def aggregate(self, statistics: FloatArray) -> float:
        if self.step == "aggregate":
            raise SystemExit(0)
        return super().aggregate(statistics)


def task_of(utility: Any, texts: Sequence[str], keep: bool = False, **more: Any) -> Task:
    hypotheses = tuple(texts)
    comparisons = tuple(
        part.comparison(hypotheses, hypotheses, None, NO_CONTEXT) for _, part in utility.parts
    )
    return Task("x", utility, comparisons, np.ones(len(texts)), keep_matrix=keep, **more)


def by_local(task: Task) -> Any:
    engine = LocalEngine()
    engine.submit(0, task)
    ((_, result),) = engine.collect()
    return result


def by_tiles(task: Task) -> Any:
    """As Ray's workers value a list that is split."""
    parts: dict[Any, Any] = {}
    for _, metric in task.metric.parts:
        share = Share(metric, [task], Meter())
        fresh = share.represent(0, 1, None)
        assert fresh is not None
        rows = len(task.comparisons[0].hypotheses)
        columns = rows if metric.info.needs_references else 1
        is_linear = metric.info.linear and not task.keep_matrix
        pieces = []
        if not is_linear:
            tiles = [Tile(0, i, i + 1, 0, columns) for i in range(rows)]
            pieces = share.compare(fresh, tiles)
        parts |= share.reduce(fresh, pieces)
    return results_of([task], parts)[0]


def by_worker(task: Task) -> Any:
    """As Ray's workers value a block of lists."""
    worker = Worker(None)
    metrics = list(dict.fromkeys(part for _, part in task.metric.parts))
    loaded = worker.load(metrics)
    if loaded.error is not None:
        return loaded.error
    numbers = {loaded_as(metric): i for i, metric in enumerate(metrics)}
    sent = SentTask.of(0, task, numbers)
    return worker.value([sent]).results[0][1]


ENGINES = [by_local, by_tiles, by_worker]
UTILITIES = [Product(), LinearProduct(), Alone()]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("keep", [False, True])
def test_a_list_without_a_finite_pair_is_an_error(engine: Any, utility: Any, keep: bool) -> None:
    result = engine(task_of(utility, ["nan", "nan"], keep))
    assert isinstance(result, MetricError)
    counts = 4 if utility.info.needs_references else 2
    assert str(result).startswith(
        f"{utility.signature()}: no pair has a finite value, found {counts} nan"
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_one_part_of_a_sum_without_a_finite_pair_is_an_error(engine: Any) -> None:
    # finite under the one, not under the other
    mix = Mix(((1.0, Alone()), (0.5, Product())))
    result = engine(task_of(mix, ["1e200", "-1e200"]))
    assert isinstance(result, MetricError)
    assert "Product" in result.where
    assert "found 2 inf, 2 -inf" in result.problem
    without = Mix(((1.0, Alone()), (0.0, Product())))
    result = engine(task_of(without, ["1e200", "-1e200"]))
    assert isinstance(result, Result)
    assert result.flags == ()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("texts", "own"),
    [
        (["1", "nan", "2"], None),
        (["1", "-inf", "2"], None),
        (["1", "2"], None),
        (["1", "inf", "2"], [1, 1, 1]),
        (["1", "2", "3"], [1, 1, 1]),
        (["1", "nan", "2"], [0.5, 1, 1]),
        (["1e200", "1", "2"], None),
    ],
)
def test_the_full_and_the_linear_form_agree(
    engine: Any, texts: list[str], own: list[float] | None
) -> None:
    left_out = None if own is None else np.array(own, float)
    full = by_local(task_of(Product(), texts, own=left_out))
    linear = engine(task_of(LinearProduct(), texts, own=left_out))
    assert linear.flags == full.flags
    np.testing.assert_allclose(linear.values, full.values, rtol=1e-12)
    assert full.flags == (("not-finite",) if set(texts) - {"1", "2", "3"} else ())


def decided(utility: Any, texts: Sequence[Any], **more: Any) -> Ranking:
    record = {"id": "x", "candidates": list(texts)}
    return next(MBRDecoder(utility, nbest=None, **more).decode([record]))


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_one_pair_that_is_not_finite_never_chooses_and_leaves_a_flag(value: float) -> None:
    def odd(h: str, r: str) -> float:
        return value if (h, r) == ("bb", "a") else float(len(h))

    for more in ({}, {"self_pair": False}):
        ranking = decided(odd, ["a", "bb", "ccc"], **more)
        assert ranking.text == "ccc"
        assert ranking.ranking[-1].text == "bb"
        assert ranking.flags == ("not-finite",)


def test_what_has_no_weight_does_not_choose_but_leaves_a_flag() -> None:
    candidates = [{"text": "a", "logprob": 0.0}, {"text": "bb", "logprob": -inf}]

    def odd(h: str, r: str) -> float:
        return inf if r == "bb" else float(len(h))

    ranking = decided(odd, candidates, weights="logprob")
    assert (ranking.text, ranking.utility) == ("bb", 2.0)
    assert ranking.flags == ("not-finite",)


def test_lists_of_one_text() -> None:
    with pytest.raises(MetricError, match=r"list 'x': .*found 1 nan"):
        decided(lambda h, r: nan, ["a", "a"])
    # nothing is left to compare with, which is no fault of the metric
    for utility in (Product(), LinearProduct()):
        alone = decided(utility, ["3"], self_pair=False)
        assert (alone.utility, alone.flags) == (None, ())
    assert by_local(task_of(Product(), [])).values.shape == (1, 0)


def test_a_shortlist_that_is_not_finite_leaves_a_flag_or_is_an_error() -> None:
    def odd(h: str, r: str) -> float:
        return nan if h == "3" and r == "1" else float(h)

    ranking = decided("chrf", ["1", "2", "3"], shortlist=odd, top_k=2)
    assert ranking.flags == ("not-finite", "shortlisted")
    with pytest.raises(MetricError, match="no pair has a finite value"):
        decided("chrf", ["1", "2", "3"], shortlist=lambda h, r: inf, top_k=2)


def reranked(features: Any, candidates: Sequence[Any], **more: Any) -> Ranking:
    record = {"id": "x", "candidates": list(candidates)}
    return next(Reranker(features, nbest=None, **more).decode([record]))


@pytest.mark.parametrize("normalize", ["none", "zscore", "minmax", "rank"])
def test_features_that_are_not_finite(normalize: Any) -> None:
    ranking = reranked({Alone(): 1.0}, ["1", "inf", "2"], normalize=normalize)
    assert ranking.text == "2"
    assert ranking.flags == ("not-finite",)
    with pytest.raises(MetricError, match=r"Alone: no pair has a finite value, found 1 nan, 1 inf"):
        reranked({Alone(): 1.0, "length": 1.0}, ["inf", "nan"], normalize=normalize)
    assert reranked({Alone(): 0.0, "length": 1.0}, ["inf", "-inf"], normalize=normalize).index == 1
    impossible = [{"text": text, "logprob": -inf} for text in ("a", "bb")]
    with pytest.raises(InputError, match=r"list 'x': feature logprob: no candidate has a finite"):
        reranked({"logprob": 1.0, "length": 1.0}, impossible, normalize=normalize)


@given(
    values=st.lists(EXTREME, min_size=1, max_size=8),
    how=st.sampled_from(["zscore", "minmax", "rank"]),
)
@BOUNDED
def test_normalising_never_overflows_and_keeps_the_order(
    values: list[float], how: Normalize
) -> None:
    normal = normalized(np.array(values), how)
    assert np.isfinite(normal).all()
    order = np.argsort(values, kind="stable")
    given, scaled = np.array(values)[order], normal[order]
    assert ((scaled[1:] > scaled[:-1]) == (given[1:] > given[:-1])).all()
    assert (scaled[1:] >= scaled[:-1]).all()
    if max(values) == min(values):
        assert not normal.any()


@given(
    rows=st.lists(st.lists(EXTREME, min_size=3, max_size=3), min_size=3, max_size=3),
    weights=st.lists(st.sampled_from([1e-3, 0.5, 1.0, 3.0, 1e5]), min_size=3, max_size=3),
    self_pair=st.booleans(),
)
@BOUNDED
def test_expected_utilities_of_finite_pairs_are_finite(
    rows: list[list[float]], weights: list[float], self_pair: bool
) -> None:
    u, w = np.array(rows), np.array(weights)
    values = expected_utility(u, w, None if self_pair else w / 2)
    assert np.isfinite(values).all()
    slack = 1e-9 * np.abs(u).max(axis=1) + 1e-300
    with np.errstate(over="ignore"):
        assert (values <= u.max(axis=1) + slack).all()
        assert (values >= u.min(axis=1) - slack).all()


@pytest.mark.parametrize("size", [1e308, 1e-320])
def test_extreme_weights_of_pseudo_references(size: float) -> None:
    candidates = [{"text": text, "w": k * size} for text, k in (("a", 1.0), ("bb", 1.5), ("bb", 1))]
    utilities = {("a", "a"): 3.0, ("a", "bb"): 1.0, ("bb", "a"): 0.0, ("bb", "bb"): 2.0}
    ranking = decided(lambda h, r: utilities[h, r], candidates, weights="field:w")
    assert ranking.text == "a"
    utilities_by_place = [place.utility for place in ranking.ranking]
    assert utilities_by_place == pytest.approx([11 / 7, 10 / 7], rel=1e-3)


def test_sums_that_are_too_large_are_refused() -> None:
    with pytest.raises(
        MetricError, match=r"a sum with the weight 1e\+308 is too large for a number"
    ):
        decided(Mix(((1e308, Product()),)), ["3", "1"])
    with pytest.raises(MetricError, match="too large"):
        reranked({"length": 1e308}, ["a", "a" * 10])
    with pytest.raises(MetricError, match="too large"):
        Mix(((1e308, Product()),)).pairwise(["3"], ["2"])
    assert Mix(((0.0, Product()), (1.0, Alone()))).pairwise(["nan", "1"], ["nan"])[1] == 1


def test_ranges_that_a_combination_cannot_divide_by_are_refused() -> None:
    lists = [
        {"id": str(i), "candidates": [{"text": t, "p": i} for i, t in enumerate(texts)]}
        for i, texts in enumerate([["-1.7e308", "1.7e308"], ["1", "2"]])
    ]
    from discorank.rerank.lists import read_list

    records = [read_list(data) for data in lists]
    with pytest.raises(InputError, match=r"values from -1\.7e\+308 to 1\.7e\+308, a range"):
        train_combination([Alone()], records, Preferences(field="p"))


@pytest.mark.parametrize("step", ["prepare", "compare", "load"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_metric_that_ends_the_process_is_an_error_of_its_list(engine: Any, step: str) -> None:
    try:
        result = engine(task_of(Leaving(step), ["1", "2"]))
    except DiscorankError as error:
        result = error
    assert isinstance(result, DiscorankError)
    assert "leaving" in result.where.lower()
    assert "SystemExit: 0" in result.problem or "OddStop: gone" in result.problem


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interrupt_stays_one(engine: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        engine(task_of(Leaving("interrupt"), ["1", "2"]))
    assert issubclass(TerminatedError, KeyboardInterrupt)


# commands

NAME = f"{__name__}:"


@pytest.fixture
def numbers(tmp_path: Path) -> list[str]:
    for name, lines in (("hyp", "1\n2\n"), ("ref", "1\n2\n"), ("odd", "1\nnan\n")):
        (tmp_path / name).write_text(lines)
    return [str(tmp_path / name) for name in ("hyp", "ref", "odd")]


def lists_file(tmp_path: Path, *texts: Sequence[str]) -> str:
    rows = [{"id": str(i), "candidates": list(row)} for i, row in enumerate(texts)]
    return str(write_lists(tmp_path / "lists.jsonl", rows))


def systems_file(tmp_path: Path, second: str) -> str:
    systems = {"A": ["1", "2"], "B": ["1", second]}
    row = {"id": "d", "systems": systems, "references": {"r": ["1", "2"]}}
    row |= {"mqm": {"A": [1.0, 2.0], "B": [2.0, 1.0]}}
    return str(write_lists(tmp_path / "systems.jsonl", [row]))


def test_score_says_where_a_score_is_not_finite(
    numbers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    hyp, ref, odd = numbers
    files = ["--hypotheses", hyp, odd, "--references", ref]
    assert main(["score", "-m", f"{NAME}Product", *files]) == 3
    shown = capsys.readouterr()
    assert not shown.out
    assert "segment 2: " in shown.err
    assert "a score of nan, expected a finite number (1 of 2 texts here have none)" in shown.err


@pytest.mark.parametrize("step", ["load", "prepare", "compare", "aggregate"])
def test_commands_name_the_metric_that_ends_the_process(
    step: str, numbers: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hyp, ref, _ = numbers
    spec = f'{NAME}Leaving(step="{step}")'
    path = lists_file(tmp_path, ["1", "2"])
    systems = systems_file(tmp_path, "2")
    commands = {
        "score": ["score", "-m", spec, "--hypotheses", hyp, "--references", ref],
        "compare": ["compare", systems, "-m", spec],
        "train": ["train", "combination", systems, "--from", "systems", "-m", spec],
    }
    commands["train"] += ["--prefer", "mqm:lower", "-o", f"{tmp_path}/m.json"]
    if step != "aggregate":
        commands["explain"] = ["explain", path, "-u", spec]
        commands["decode"] = ["decode", path, "-u", spec]
    else:
        del commands["train"]
    for name, command in commands.items():
        assert main(command) == (2 if step == "load" else 3), name
        shown = capsys.readouterr()
        assert "eaving" in shown.err, name
        assert "SystemExit: 0" in shown.err or "OddStop: gone" in shown.err, name


def test_a_run_counts_flags_and_explains_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lists_file(tmp_path, ["1", "nan", "2"], ["1", "2"], ["nan", "nan"], ["inf", "3"])
    out = tmp_path / "out.jsonl"
    saved = tmp_path / "u.jsonl"
    command = ["decode", path, "-o", str(out), "--max-errors", "9"]
    assert main([*command, "-u", f"{NAME}Product", "--save-utilities", str(saved)]) == 3
    assert "2 no-utility, 2 not-finite; 1 error records" in capsys.readouterr().err
    error = json.loads(Path(f"{out}.errors.jsonl").read_text())
    assert (error["id"], error["kind"]) == ("2", "MetricError")
    assert error["reason"].startswith("no pair has a finite value")
    rows = out.read_bytes()
    again = tmp_path / "again.jsonl"
    kept = lists_file(tmp_path, ["1", "nan", "2"], ["1", "2"])
    assert main(["decode", kept, "-o", str(again), "--utilities", str(saved)]) == 0
    assert rows.startswith(again.read_bytes())
    explain = ["explain", kept, "-u", f"{NAME}Product"]
    capsys.readouterr()
    assert main(explain) == 0
    assert "not finite  [0] 1: nan with nan\n" in capsys.readouterr().out
    assert main([*explain, "--format", "json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert [row["index"] for row in first["not_finite"]] == [0, 1, 2]
    assert first["not_finite"][0]["pairs"] == [{"text": "nan", "utility": "nan"}]
    assert "not_finite" not in second


def test_saved_utilities_without_a_finite_pair_are_an_error(tmp_path: Path) -> None:
    path = lists_file(tmp_path, ["1", "2"])
    saved = tmp_path / "u.jsonl"
    out = str(tmp_path / "out.jsonl")
    save = ["decode", path, "-u", f"{NAME}Product", "-o", out, "--save-utilities", str(saved)]
    assert main(save) == 0
    from discorank.rerank.runs.saved_matrices import header, matrix_row

    odd = np.full((2, 2), -inf)
    (ranking,) = MBRDecoder(Product(), keep_matrix=True).decode(
        [{"id": "0", "candidates": ["1", "2"]}]
    )
    object.__setattr__(ranking, "matrix", odd)
    saved.write_bytes(header("product") + matrix_row(ranking, "product"))
    again = str(tmp_path / "again.jsonl")
    assert main(["decode", path, "-o", again, "--utilities", str(saved)]) == 3
    assert "no pair has a finite value, found 4 -inf" in Path(f"{again}.errors.jsonl").read_text()


def test_a_module_that_leaves_when_imported_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "leaves_at_once.py").write_text("raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["decode", lists_file(tmp_path, ["1", "2"]), "-u", "leaves_at_once:f"]) == 2
    assert "SystemExit: 0" in capsys.readouterr().err


def test_sums_of_a_large_list_that_overflow_are_refused() -> None:
    """Its matrix is never whole, so that a row cannot be added up again, scaled."""
    texts = [f"{1e153 + i * 1e140!r}" for i in range(730)]
    result = by_local(task_of(Product(), texts))
    assert isinstance(result, MetricError)
    assert "utilities of this size cannot be added up" in str(result)
