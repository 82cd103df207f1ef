"""Contrastive items: reading them, ranking their translations, and the table of accuracies."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from math import inf, nan
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank import Context, InputError, MetricError, load_metric
from discorank.cli.main import main
from discorank.integrations.formats.selection_files import read_contrastive
from discorank.metrics.base import Metric
from discorank.metrics.representations import Block, FloatArray, IntArray, Reps
from discorank.metrics.scorer import Info, Reading, Scorer
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.text.texts import Item
from discorank.rerank.selection import contrastive
from discorank.rerank.selection.contrastive import (
    Accuracy,
    ContrastiveItem,
    Verdict,
    contrastive_accuracy,
    read_item,
    verdicts,
)

from ...support.lists import write_lists

Captured = pytest.CaptureFixture[str]


@settings
class Known(Metric):
    """Reference-free, reads source and context: the share of words of h in <c_s; s> or <c_h>."""

    context: int = 0
    name: ClassVar[str] = f"{__name__}:Known"
    info: ClassVar[Info] = Info(
        summary="toy",
        needs_source=True,
        needs_references=False,
        bounds=(0, 1),
        unit="segment",
    )

    @property
    def reads(self) -> Reading:
        return Reading(self.context, "hypothesis")

    def load(self) -> KnownScorer:
        return KnownScorer()


class KnownScorer(Scorer):
    info = Known.info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        if any(item.text == "poison" for item in items):
            raise InputError("found poison", where="text", fix="Leave it out")
        own, before = (np.empty(len(items), object) for _ in range(2))
        for i, item in enumerate(items):
            own[i] = frozenset(str(item.text).split())
            before[i] = frozenset(" ".join(item.context).split())
        return Reps({"own": own, "before": before}), np.array(
            [len(words) for words in own], np.int64
        )

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        own, before = reps["own"], reps["before"]
        known = [own[b.source] | before[b.source] for b in blocks]
        return [
            np.array([[len(own[h] & (k | before[h])) / max(1, len(own[h]))] for h in b.hypotheses])
            for b, k in zip(blocks, known, strict=True)
        ]


def row(identity: str, correct: str, wrong: list[str], **more: Any) -> dict[str, Any]:
    """An item in its JSON form, without context unless it is given."""
    base = {"id": identity, "source": "s", "context_source": [], "context_target": []}
    return {**base, "correct": correct, "contrastive": wrong, **more}


#                                                                     Known(context=0)     context=1     context=2
ITEMS = [
    row(
        "a", "la s", ["le s"], context_target=["la"], phenomenon="it", distance=1
    ),  # =   1 > .5        as before
    row(
        "b", "la s", ["le s"], context_target=["la", "x"], phenomenon="it", distance=2
    ),  # =   =        1 > .5
    row(
        "c", "s t", ["x t", "t s"], context_source=["t"], phenomenon="word", distance=1
    ),  # .5 > 0, =   1 > .5, =
    row("d", "x y", ["s y"], distance=0, phenomenon="word"),  # 0 < .5        0 < .5        0 < .5
    row("e", "s", ["x", "s x"], note="ignored"),  # 1 > 0, .5     in every context
]


def counts(accuracy: contrastive.ContrastiveAccuracy) -> dict[Any, tuple[int, int, int]]:
    """(n, correct, ties) of the whole and of every group."""
    groups: dict[Any, Accuracy] = {"all": accuracy.overall, **accuracy.phenomenon}
    groups |= {f"distance {k}": v for k, v in accuracy.distance.items()}
    return {name: (one.n, one.correct, one.ties) for name, one in groups.items()}


GROUPS = ("all", "it", "word", None, *(f"distance {n}" for n in (0, 1, 2, None)))
# (n, correct, ties) of every group, in order; what is not known stands last
EXPECTED = [
    (0, [(5, 1, 3), (2, 0, 2), (2, 0, 1), (1, 1, 0), (1, 0, 0), (2, 0, 2), (1, 0, 1), (1, 1, 0)]),
    (1, [(5, 2, 2), (2, 1, 1), (2, 0, 1), (1, 1, 0), (1, 0, 0), (2, 1, 1), (1, 0, 1), (1, 1, 0)]),
    (2, [(5, 3, 1), (2, 2, 0), (2, 0, 1), (1, 1, 0), (1, 0, 0), (2, 1, 1), (1, 1, 0), (1, 1, 0)]),
]


@pytest.mark.parametrize(("context", "expected"), EXPECTED)
def test_by_hand(context: int, expected: list[tuple[int, int, int]]) -> None:
    accuracy = counts(contrastive_accuracy(Known(context=context), ITEMS))
    assert list(accuracy.items()) == list(zip(GROUPS, expected, strict=True))


@pytest.mark.parametrize(
    ("utilities", "rank", "ties", "first", "shares"),
    [
        ([2, 1], 1, 0, True, False),
        ([1, 2], 2, 0, False, False),
        ([1, 1], 2, 1, False, True),
        ([1, 1, 2], 3, 1, False, False),
        ([1, 0, 1, 0.5, 1], 3, 2, False, True),
        ([1 + 9e-10, 1], 2, 1, False, True),
        ([1, 1 + 9e-10], 2, 1, False, True),
        ([1 + 2e-9, 1], 1, 0, True, False),
        ([-1, -1 - 9e-10], 2, 1, False, True),
        ([1e-12, 0], 1, 0, True, False),
        ([0, 0], 2, 1, False, True),
        ([0, nan], 1, 0, True, False),
        ([nan, 0], 2, 0, False, False),
        ([nan, nan], 2, 1, False, True),
        ([inf, inf], 2, 1, False, True),
        ([inf, 1e308], 2, 0, False, False),
        ([1, inf], 1, 0, True, False),
        ([-inf, -1], 2, 0, False, False),
        ([1, -inf], 1, 0, True, False),
    ],
)
def test_verdicts(utilities: list[float], rank: int, ties: int, first: bool, shares: bool) -> None:
    verdict = Verdict.of(np.array(utilities, float))
    assert (verdict.rank, verdict.ties, verdict.is_first, verdict.shares_first) == (
        rank,
        ties,
        first,
        shares,
    )


def test_the_text_of_the_correct_one_is_a_tie() -> None:
    accuracy = contrastive_accuracy(
        "chrf", [row("a", "the cat", ["a dog", "the cat"], reference="the cat")]
    )
    assert counts(accuracy)["all"] == (1, 0, 1)


@pytest.mark.parametrize(
    ("n", "correct", "low", "high"),
    [
        (10, 0, 0, 27.7533),
        (10, 8, 49.0162, 94.3318),
        (10, 10, 72.2467, 100),
        (200, 167, 77.7342, 88.0031),
    ],
)
def test_wilson_interval(n: int, correct: int, low: float, high: float) -> None:
    accuracy = Accuracy(n, correct, 0)
    assert accuracy.interval_percent() == pytest.approx((low, high), abs=5e-4)
    assert accuracy.interval_percent(0.5)[0] >= accuracy.interval_percent(0.95)[0]
    z = 1.959963984540054  # both ends solve (p - share)^2 = z^2 p (1 - p) / n
    for end in accuracy.interval_percent():
        p, share = end / 100, correct / n
        assert (p - share) ** 2 == pytest.approx(z * z * p * (1 - p) / n, abs=1e-12)


WORDS = ["the", "cat", "sat", "mat", "dog"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
items = st.builds(
    row,
    st.just("i"),
    texts,
    st.lists(texts, min_size=1, max_size=4),
    source=texts,
    reference=texts,
    context_source=st.lists(texts, max_size=3),
    context_target=st.lists(texts, max_size=3),
    phenomenon=st.sampled_from([None, "a", "b"]),
    distance=st.sampled_from([None, 0, 3]),
)
METRICS = [
    load_metric("chrf"),
    load_metric("ter"),
    Known(context=1),
    load_metric(f"0.5*ter - bleu + 20*{Known(context=2).signature()}"),
]


@given(rows=st.lists(items, min_size=1, max_size=7), chunk=st.integers(1, 3))
@bounded(max_examples=12, deadline=None, database=None, print_blob=True)
def test_verdicts_are_those_of_pairwise(rows: list[dict[str, Any]], chunk: int) -> None:
    """Whatever the other items, metrics and chunks: distances are turned, mixes summed, contexts cut to size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contrastive, "CHUNK_ITEMS", chunk)
        item_verdicts = list(verdicts(METRICS, map(read_item, rows)))
    assert [item for item, _ in item_verdicts] == [read_item(one) for one in rows]
    for one, (_, several) in zip(rows, item_verdicts, strict=True):
        context = Context(one["context_source"], one["context_target"])
        hypotheses = [one["correct"], *one["contrastive"]]
        for metric, verdict in zip(METRICS, several, strict=True):
            lent = context if metric.reads.context else None
            expected = metric.pairwise(hypotheses, [one["reference"]], one["source"], lent)[:, 0]
            np.testing.assert_allclose(verdict.utilities, expected, rtol=1e-12, atol=1e-12)
            correct, *others = verdict.utilities.tolist()
            tied = [abs(u - correct) <= 1e-9 * max(abs(u), abs(correct)) for u in others]
            better = [u > correct for u in others]
            assert verdict.rank == 1 + sum(t or b for t, b in zip(tied, better, strict=True))
            assert verdict.ties == sum(tied)
    for metric in METRICS:
        groups = contrastive_accuracy(metric, rows)
        for parts in (groups.phenomenon, groups.distance):
            totals = [
                sum(getattr(part, name) for part in parts.values())
                for name in ("n", "correct", "ties")
            ]
            assert totals == [groups.overall.n, groups.overall.correct, groups.overall.ties]


def test_each_text_is_represented_once() -> None:
    seen: list[Item] = []

    class CountingScorer(KnownScorer):
        def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
            seen.extend(items)
            return super().prepare(items)

    class Counting(Known):
        def load(self) -> CountingScorer:
            return CountingScorer()

    rows = [{**ITEMS[i % len(ITEMS)], "id": str(i)} for i in range(300)]
    contrastive_accuracy(Counting(context=1), rows)
    assert len(seen) == len(set(seen)) < 20


def test_long_items_come_in_smaller_chunks() -> None:
    long = ["x" * (contrastive.CHUNK_CHARACTERS // 2)]
    chunks = contrastive._chunks(
        read_item(row(str(i), "s", ["t"], context_source=long)) for i in range(5)
    )
    assert [len(chunk) for chunk in chunks] == [2, 2, 1]


@pytest.mark.parametrize(
    ("metric", "items", "message"),
    [
        (
            "chrf",
            [row("a b", "s", ["t"])],
            r"item 'a b': reference: is missing, and chrf compares.*comet-qe",
        ),
        (f"{Known().signature()} + bleu", [row("a", "s", ["t"])], "bleu compares with it"),
        (
            Known(),
            [{**row("a", "s", ["t"]), "source": None}],
            "item 'a': source: .*needs the source",
        ),
        (
            Known(),
            [row("a", "s", ["t"]), row("b", "s", ["poison"])],
            "item 'b': text: found poison",
        ),
        (Known(), [], "no items, expected at least one"),
        (Known(), [row("a", "s", ["t"]), {"id": "b"}], "item number 2: .*correct"),
    ],
)
def test_refused_items(metric: Any, items: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        contrastive_accuracy(metric, items)


def test_a_metric_that_fails_is_told_with_the_item() -> None:
    def failing(hypothesis: Any, reference: Any) -> float:
        return 1 / len(hypothesis)

    rows = [row("a", "s", ["t"], reference="r"), row("b", "s", [""], reference="r")]
    with pytest.raises(MetricError, match=r"item 'b': .*ZeroDivisionError"):
        contrastive_accuracy(failing, rows)


GOOD = row("a", "s", ["t"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "empty line"),
        ("not json", "not JSON"),
        ("[1]", r"found \[1\]. An item is an object with id, correct"),
        ('"text"', "should be an object"),
        ('{"id": "a", "id": "b"}', "key 'id' stands twice"),
        ({**GOOD, "id": ""}, "id: "),
        ({**GOOD, "id": 7}, "id: "),
        (
            {**GOOD, "id": "first"},
            "id: 'first' was there before, expected a new id. Give every item its own",
        ),
        (
            {**GOOD, "contrastive": []},
            "contrastive: ",
        ),
        ({**GOOD, "contrastive": "t"}, "contrastive: "),
        ({**GOOD, "contrastive": ["t", None]}, r"contrastive.1: "),
        ({**GOOD, "correct": ["s"]}, "correct: "),
        ({**GOOD, "correct": None}, "correct: "),
        ({**GOOD, "source": 1}, "source: "),
        (
            {**GOOD, "context_source": "x"},
            "context_source: ",
        ),
        (
            {**GOOD, "context_target": [["x"]]},
            "context_target.0: ",
        ),
        ({**GOOD, "phenomenon": ["it"]}, "phenomenon: "),
        ({**GOOD, "reference": ["r"]}, "reference: "),
        (
            {**GOOD, "distance": -1},
            "distance: ",
        ),
        ({**GOOD, "distance": 1.0}, "distance: "),
        ({**GOOD, "distance": True}, "distance: "),
        ({**GOOD, "distance": "2"}, "distance: "),
        ({**GOOD, "distance": nan}, "distance: "),
        ({key: v for key, v in GOOD.items() if key != "contrastive"}, "contrastive: "),
        (
            {key: v for key, v in GOOD.items() if key != "context_target"},
            "context_target: ",
        ),
        ("[" * 5000, "nested too deeply"),
        ('{"id": "\\ud800"}', "half of a surrogate pair"),
    ],
)
def test_hostile_lines(line: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    path.write_text(
        f"{json.dumps(row('first', 's', ['t']))}\n{text}\n{json.dumps(row('last', 's', ['t']))}\n"
    )
    items = read_contrastive(path)
    assert next(items).id == "first"
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}:2: .*{message}"):
        next(items)


def test_reading(tmp_path: Path) -> None:
    path = write_lists(tmp_path / "in.jsonl", [*ITEMS, row("ref", "é", ["e"], reference="r")])
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes() + b"\n\n"))
    items = list(read_contrastive(path))
    assert items == list(read_contrastive(packed))
    assert items[1] == ContrastiveItem("b", "la s", ("le s",), (), ("la", "x"), "s", "it", 2)
    assert (items[4].phenomenon, items[4].distance, items[5].reference) == (None, None, "r")
    with pytest.raises(InputError, match=r"none.jsonl: cannot be opened"):
        read_contrastive(tmp_path / "none.jsonl")
    (tmp_path / "bad.gz").write_bytes(packed.read_bytes()[:60])
    with pytest.raises(InputError, match=r"bad.gz"):
        list(read_contrastive(tmp_path / "bad.gz"))


def command(tmp_path: Path, rows: Sequence[dict[str, Any]], *arguments: str) -> int:
    """`accuracy` on these items."""
    path = write_lists(tmp_path / "in.jsonl", rows)
    return main(["accuracy", str(path), *arguments])


def test_table(tmp_path: Path, capsys: Captured) -> None:
    assert command(tmp_path, ITEMS, "-m", Known().signature(), Known(context=2).signature()) == 0
    shown = capsys.readouterr()
    first, second = shown.out.split("\n\n")
    assert first.splitlines()[0] == Known().signature()
    assert [re.split(r" {2,}", line) for line in second.splitlines()] == [
        [Known(context=2).signature()],
        ["items", "n", "correct", "accuracy %", "ties", "95 % interval"],
        ["all", "5", "3", "60.0", "1", "23.1 to 88.2"],
        ["phenomenon it", "2", "2", "100.0", "0", "34.2 to 100.0"],
        ["phenomenon word", "2", "0", "0.0", "1", "0.0 to 65.8"],
        ["phenomenon unknown", "1", "1", "100.0", "0", "20.7 to 100.0"],
        ["distance 0", "1", "0", "0.0", "0", "0.0 to 79.3"],
        ["distance 1", "2", "1", "50.0", "1", "9.5 to 90.5"],
        ["distance 2", "1", "1", "100.0", "0", "20.7 to 100.0"],
        ["distance unknown", "1", "1", "100.0", "0", "20.7 to 100.0"],
    ]
    assert shown.err.endswith("in.jsonl: 5 items\n")


def test_json(tmp_path: Path, capsys: Captured) -> None:
    names = ["chrf", f"chrf + 2.0*{Known(context=1).signature()}"]
    rows = [{**one, "reference": one["correct"]} for one in ITEMS]
    out = tmp_path / "ranks"
    assert command(tmp_path, rows, "-m", *names, "--format", "json", "-o", str(out), "--quiet") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    printed = [json.loads(line) for line in shown.out.splitlines()]
    assert [one["metric"] for one in printed] == [name for name in names for _ in range(8)]
    assert [(one["by"], one["value"]) for one in printed[:8]] == [
        ("all", None),
        *(("phenomenon", value) for value in ("it", "word", None)),
        *(("distance", value) for value in (0, 1, 2, None)),
    ]
    accuracy = contrastive_accuracy(names[0], rows).overall
    assert (printed[0]["n"], printed[0]["correct"], printed[0]["ties"]) == (5, 5, 0)
    assert printed[0]["interval_percent"] == list(accuracy.interval_percent())
    items = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["id"], one["phenomenon"], one["distance"]) for one in items] == [
        (one["id"], one.get("phenomenon"), one.get("distance")) for one in rows
    ]
    assert [list(one["ranks"]) for one in items] == [names] * 5
    assert items[2]["ranks"]["chrf"]["rank"] == 1
    assert items[2]["ranks"]["chrf"]["utilities"] == pytest.approx(
        load_metric("chrf").pairwise(["s t", "x t", "t s"], ["s t"])[:, 0].tolist()
    )
    assert sum(one["ranks"][names[1]]["rank"] == 1 for one in items) == printed[8]["correct"]


def unsure(hypothesis: Any, reference: Any) -> float:
    """A metric that does not always know."""
    return nan if hypothesis == "x" else 1.0


def test_what_is_odd_is_counted(tmp_path: Path, capsys: Captured) -> None:
    rows = [row("a", "s", ["s"]), row("b", "s", ["t"], phenomenon="two\nlines")]
    assert command(tmp_path, rows, "-m", Known().signature()) == 0
    shown = capsys.readouterr()
    assert "2 items, 1 with the correct text among the contrastive\n" in shown.err
    assert r"phenomenon 'two\nlines'" in shown.out
    rows = [
        row("a", "s", ["x"], reference="r"),
        row("b", "x", ["s"], reference="r"),
        row("c", "s", ["t"], reference="r"),
    ]
    assert (
        command(
            tmp_path, rows, "-m", f"{__name__}:unsure", "--format", "json", "-o", f"{tmp_path}/out"
        )
        == 0
    )
    shown = capsys.readouterr()
    assert "3 items, 2 with not-finite\n" in shown.err
    assert json.loads(shown.out.splitlines()[0])["correct"] == 1
    item_ranks = [json.loads(line)["ranks"] for line in (tmp_path / "out").read_text().splitlines()]
    assert [ranks[f"{__name__}:unsure"]["utilities"] for ranks in item_ranks] == [
        [1, None],
        [None, 1],
        [1, 1],
    ]


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (ITEMS, [], "--metric: is missing"),
        (ITEMS, ["-m", "chrf"], "item 'a': reference: is missing, and chrf compares with it"),
        ([], ["-m", "chrf"], "in.jsonl: no items. Give at least one line"),
        ([*ITEMS, {"id": "x"}], ["-m", Known().signature()], "in.jsonl:6: correct: "),
        (ITEMS, ["-m", "chrf", "-o", "{folder}/in.jsonl"], "is an input and an output"),
    ],
)
def test_command_refuses(
    rows: list[dict[str, Any]], arguments: list[str], message: str, tmp_path: Path, capsys: Captured
) -> None:
    given = [argument.format(folder=tmp_path) for argument in arguments]
    out = [] if "-o" in given else ["-o", f"{tmp_path}/out"]
    assert command(tmp_path, rows, *given, *out) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
