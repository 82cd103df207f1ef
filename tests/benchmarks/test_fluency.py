"""The benchmark of fluency beside consensus, on a small systems file and a metric of a few lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.choice_quality import fluency, fluency_dtypes
from benchmarks.choice_quality.fluency import if_complete, picks_of
from benchmarks.choice_quality.fluency_tables import Chosen, left_out, macro, markdown, relative
from benchmarks.metric_quality import contrastive_lm
from benchmarks.metric_quality.contrastive_lm import Grouped, cells, is_right, read_items
from benchmarks.support.judged_segments import JudgedSegments, contexts_of, limits_of
from benchmarks.support.kept_values import KeptValues, ListTexts, digest
from discorank.metrics.base import Metric
from discorank.metrics.text.texts import NO_CONTEXT, Context, Item
from discorank.rerank.lists import Candidate, CandidateList
from discorank.rerank.normalization import normalized
from discorank.rerank.selection.contrastive import ContrastiveItem

from ..support.contextual import NewLetters


def asked(metric: Metric) -> list[Item]:
    scorer: Any = metric.scorer
    return list(scorer.asked)


def test_values_are_those_of_the_metric_and_are_kept(tmp_path: Path) -> None:
    lists = [
        ListTexts(("abc", "ab", "abc"), "s", Context(["x"], ["cz"])),
        ListTexts(("q",), "s", NO_CONTEXT),
    ]
    metric = NewLetters(context=1)
    values = KeptValues(tmp_path).values(metric, lists, "first")
    assert [own.tolist() for own in values if own is not None] == [[2, 2, 2], [1]]
    again = NewLetters(context=1)
    known = KeptValues(tmp_path).values(again, lists, "second")
    assert [own.tolist() for own in known if own is not None] == [[2, 2, 2], [1]]
    assert asked(metric)
    assert not asked(again)


def test_what_a_kill_cut_off_is_valued_again(tmp_path: Path) -> None:
    lists = [ListTexts((text,), None, NO_CONTEXT) for text in ("a", "ab", "abc")]
    KeptValues(tmp_path).values(NewLetters(), lists, "whole")
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    metric = NewLetters()
    values = KeptValues(tmp_path).values(metric, lists, "again")
    assert [own.tolist() for own in values if own is not None] == [[1], [2], [3]]
    assert [str(item.text) for item in asked(metric)] == ["abc"]
    assert len(path.read_text().splitlines()) == 3


def test_only_kept_values_leave_gaps(tmp_path: Path) -> None:
    known = ListTexts(("a",), None, NO_CONTEXT)
    KeptValues(tmp_path).values(NewLetters(), [known], "one")
    both = [known, ListTexts(("b",), None, NO_CONTEXT)]
    first, second = KeptValues(tmp_path, only=True).values(NewLetters(), both, "both")
    assert first is not None
    assert second is None


def test_a_digest_is_of_what_the_metric_reads() -> None:
    alone = ListTexts(("a", "b"), "s", NO_CONTEXT)
    behind = ListTexts(("a", "b"), "t", Context(["x"], ["y"]))
    assert digest(alone.comparison(NewLetters())) == digest(behind.comparison(NewLetters()))
    in_context = NewLetters(context=1)
    assert digest(alone.comparison(in_context)) != digest(behind.comparison(in_context))
    other = ListTexts(("a", "c"), "s", NO_CONTEXT)
    assert digest(alone.comparison(NewLetters())) != digest(other.comparison(NewLetters()))


def record(document: str, position: int, *texts: str) -> CandidateList:
    return CandidateList(
        f"{document}:{position}",
        tuple(map(Candidate, texts)),
        source=f"s{position}",
        document=document,
        position=position,
    )


def test_context_is_what_was_picked_before_in_the_document() -> None:
    records = [record("d", 0, "a", "b"), record("d", 1, "c", "d"), record("d", 2, "e")]
    records += [record("d", 4, "f"), record("e", 0, "g")]
    contexts = list(contexts_of(records, [1, 0, 0, 0, 0], 2))
    assert [c.target for c in contexts] == [(), ("b",), ("b", "c"), (), ()]
    assert contexts[2].source == ("s0", "s1")


def systems_file(folder: Path) -> Path:
    random = np.random.default_rng(3)
    words = np.array(["the", "cat", "sat", "on", "a", "mat", "dog", "ran"])
    lines = []
    for d in range(12):
        systems = {name: [" ".join(random.choice(words, 5)) for _ in range(3)] for name in "ABCD"}
        mqm: dict[str, Any] = {name: random.integers(0, 9, 3).tolist() for name in "ABCD"}
        mqm["B"][0] = None
        found = {"id": f"d{d}", "source": ["s"] * 3, "systems": systems, "mqm": mqm}
        lines.append(json.dumps(found) + "\n")
    path = folder / "mt_mqm_toy.xx-en.jsonl.gz"
    path.write_bytes(gzip.compress("".join(lines).encode()))
    return path


def test_the_choice_is_that_of_standardised_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fluency, "language_model", lambda model, context, dtype: NewLetters(context=context)
    )
    data = JudgedSegments(systems_file(tmp_path))
    assert data.rated == [i for i in range(36) if i % 3]
    (chosen,) = if_complete(data, KeptValues(tmp_path / "work"), "chosen-2", "toy", "float32")
    assert chosen.mqm.shape == (24, len(fluency.WEIGHTS))
    # the last segment, by hand
    values, mqm, i = data.consensus, data.mqm[-1], data.rated[-1]
    before = {
        c
        for k in (i - 2, i - 1)
        for c in str(data.records[k].candidates[int(values[k].argmax())].text)
    }
    new = np.array([len(set(str(c.text)) - before) for c in data.records[i].candidates], float)
    sums = normalized(values[i], "zscore") + 0.5 * normalized(new, "zscore")
    assert chosen.mqm[-1, fluency.WEIGHTS.index(0.5)] == mqm[int(sums.argmax())]
    assert chosen.mqm[-1, 0] == mqm[int(values[i].argmax())]
    assert chosen.random[-1] == pytest.approx(mqm.mean())


def test_first_segments_are_those_of_the_first_documents(tmp_path: Path) -> None:
    data = JudgedSegments(systems_file(tmp_path), 5)
    assert data.documents == ["d0", "d0", "d1", "d1", "d2"]
    assert data.texts("first-1")[1].context.target == (str(data.records[1].candidates[0].text),)
    rest = JudgedSegments(systems_file(tmp_path), 5, skipped=3)
    assert rest.documents == ["d1", "d2"]
    assert rest.texts("first-1") == data.texts("first-1")[3:]
    assert limits_of(["9", "a=2"]) == (9, {"a": 2})
    assert limits_of([]) == (None, {})


def chosen(name: str, gain: float) -> Chosen:
    random = np.full(40, 4.0)
    mqm = np.stack([np.full(40, 2.0), np.full(40, 2.0 - gain), np.full(40, 1.0 + gain)], axis=1)
    return Chosen(name, "alone", mqm, random, [f"d{i // 4}" for i in range(40)], 10)


def test_values_are_relative_to_random_and_the_weight_is_that_of_other_sets() -> None:
    parts = [relative(chosen(name, gain)) for name, gain in (("a", 1.0), ("b", 0.0), ("c", 0.0))]
    assert parts[0].values.tolist() == [0.5, 0.25, 0.5]
    assert macro(parts).values == pytest.approx([0.5, 5 / 12, 1 / 3])
    best, outside = left_out(parts)
    assert best == [2, 1, 1]
    assert outside.values == pytest.approx([0.5, (0.5 + 0.5 + 0.5) / 3])
    table = markdown([chosen("a", 1.0), chosen("b", 0.0)], (0.0, 0.25, 0.5))
    assert "0.250 [0.250, 0.250]; -0.250 [-0.250, -0.250]" in table
    assert "| a | 40 | 10 | 10 | 4.000 | 2.000 |" in table


def contrastive_file(folder: Path) -> Path:
    lines = []
    for i in range(30):
        item = {"id": str(i), "group": f"g{i // 3}", "source": "s", "correct": "abc"}
        item |= {"contrastive": ["a"], "context_source": ["x"], "context_target": ["y"]}  # type: ignore[dict-item]
        phenomenon = "deixis" if i % 2 else "ellipsis"
        item |= {"phenomenon": phenomenon, "distance": 1 + i % 4}  # type: ignore[dict-item]
        lines.append(json.dumps(item) + "\n")
    path = folder / "contrastive_toy.en-fr.jsonl.gz"
    path.write_bytes(gzip.compress("".join(lines).encode()))
    return path


def test_fewer_items_of_a_phenomenon_are_among_more(tmp_path: Path) -> None:
    path = contrastive_file(tmp_path)
    some = {item.id for item, _ in read_items(path, 4)}
    more = {item.id for item, _ in read_items(path, 8)}
    assert len(some) == 8
    assert some < more
    assert len(read_items(path, None)) == 30


def test_accuracy_is_by_phenomenon_and_distance() -> None:
    items = [
        Grouped(ContrastiveItem(str(i), "r", ["w"], phenomenon="p", distance=1 + i % 2), f"g{i}")
        for i in range(4)
    ]
    values = [np.array(own) for own in ([2.0, 1.0], [1.0, 2.0], [2.0, 1.0], [1.0, 1.0])]
    right = is_right(values)
    rows = dict(cells(items, right))
    # an equal one is not right
    assert rows["all (4)"].startswith("50.0 [")
    assert rows["p, 1 back (2)"] == "100.0 [100.0, 100.0]"
    assert rows["p, 2 back (2)"] == "0.0 [0.0, 0.0]"
    gains = dict(cells(items, right, 1 - right))
    assert gains["p, 1 back (2)"] == "100.0 [100.0, 100.0]; +100.0 [+100.0, +100.0]"
    assert gains["p, 2 back (2)"] == "0.0 [0.0, 0.0]; -100.0 [-100.0, -100.0]"


def test_a_contrastive_table_has_the_contexts_that_are_complete() -> None:
    items = [Grouped(ContrastiveItem("i", "r", ["w"], phenomenon="p"), "g")]
    table = contrastive_lm.table(
        "toy", items, [0, 1], lambda k: [np.array([2.0, 1.0])] if k == 0 else None
    )
    assert table.splitlines()[0] == "| toy (items) | context 0 |"
    assert "| all (1) | 100.0 [100.0, 100.0] |" in table


def test_dtypes_are_compared_by_ranks_and_by_choices(tmp_path: Path) -> None:
    data = JudgedSegments(systems_file(tmp_path), 4)
    low = [np.array([0.0, 1.0, 2.0, 3.0])] * 4
    high = [np.array([0.0, 1.0, 2.5, 3.0])] * 4
    line = fluency_dtypes.compared(data, low, high)
    assert line.startswith(
        "toy.xx-en, 4 lists: Spearman 1.000, largest difference 0.500; w = 0.125"
    )
    turned = fluency_dtypes.compared(data, low, [-values for values in low])
    changed = (picks_of(data, low) != picks_of(data, [-values for values in low])).sum(axis=0)
    assert "Spearman -1.000" in turned
    assert f"w = 0.75: {changed[-1]} changed" in turned
