"""Shrinkage to the means of systems: the definition, both passes, files of means, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import InputError, Reranker
from discorank.cli.main import main
from discorank.rerank.shrinkage import SystemMeans, load_means

from ..support.lists import write_lists

NAMES = ("a", "b", "c")
number = st.integers(-50, 50).map(float)


def made(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Lists of candidates of three systems, with two features and texts that now and then are the same."""
    r = np.random.default_rng(seed)
    return [
        {
            "id": f"l{i}",
            "note": i,
            "candidates": [
                {
                    "text": f"t{r.integers(4)}",
                    "system": name,
                    "x": float(r.normal(k, 3)),
                    "y": float(r.normal()),
                }
                for k, name in enumerate(NAMES)
            ],
        }
        for i in range(n)
    ]


def plain(
    lists: list[dict[str, Any]], weights: dict[str, float], share: float
) -> list[list[float]]:
    """v(c) by its definition, in loops."""
    scores, of_system = [], {name: [] for name in NAMES}  # type: ignore[var-annotated]
    for row in lists:
        z = np.zeros(len(row["candidates"]))
        for name, weight in weights.items():
            column = np.array([candidate[name] for candidate in row["candidates"]])
            if column.std():
                z += weight * (column - column.mean()) / column.std()
        scores.append(z)
        for candidate, value in zip(row["candidates"], z, strict=True):
            of_system[candidate["system"]].append(value)
    means = {name: np.mean(values) for name, values in of_system.items() if values}
    return [
        [
            (1 - share) * value + share * means[candidate["system"]]
            for candidate, value in zip(row["candidates"], z, strict=True)
        ]
        for row, z in zip(lists, scores, strict=True)
    ]


@given(
    values=st.lists(
        st.lists(st.tuples(number, number), min_size=3, max_size=3), min_size=1, max_size=6
    ),
    weight=st.sampled_from([0.0, 0.5, -1.0]),
    share=st.sampled_from([0.25, 0.75, 1.0]),
)
def test_it_is_the_definition(
    values: list[list[tuple[float, float]]], weight: float, share: float
) -> None:
    lists = [
        {
            "id": f"l{i}",
            "candidates": [
                {"text": f"{name}{i}", "system": name, "x": x, "y": y}
                for name, (x, y) in zip(NAMES, row, strict=True)
            ],
        }
        for i, row in enumerate(values)
    ]
    features = {"field:x": 1.0, "field:y": weight}
    wanted = plain(lists, {"x": 1.0, "y": weight}, share)
    rankings = list(Reranker(features, shrink=share, nbest=None).decode(lists))
    for ranking, row in zip(rankings, wanted, strict=True):
        shown = {rank.index: rank.utility for rank in ranking.ranking}
        assert [shown[i] for i in range(3)] == pytest.approx(row, abs=1e-9)
        chosen = NAMES[ranking.index]
        assert ranking.extra == {"chosen_system": chosen}


def rerank(source: Path, out: Path, *more: str) -> int:
    words = ["-m", "field:x", "field:y*0.5", "--shrink", "0.75", "--quiet"]
    return main(["rerank", str(source), *words, "-o", str(out), *more])


def test_the_command_is_the_same_as_python(tmp_path: Path) -> None:
    lists = made(60)
    source, out = write_lists(tmp_path / "in.jsonl", lists), tmp_path / "out"
    assert rerank(source, out, "--nbest", "all") == 0
    reranker = Reranker({"field:x": 1.0, "field:y": 0.5}, shrink=0.75, nbest=None)
    wanted = [json.loads(json.dumps(one.to_dict())) for one in reranker.decode(lists)]
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows == wanted
    assert [row["note"] for row in rows] == list(range(60))
    # the means of that run, in one pass: for a file, and for lists that come one by one
    means = f"{out}.systems.json"
    again, parallel = tmp_path / "again", tmp_path / "parallel"
    assert rerank(source, again, "--nbest", "all", "--system-means", means) == 0
    assert again.read_bytes() == out.read_bytes()
    assert not Path(f"{again}.first").exists()
    streamed = reranker.with_settings(system_means=means).decode(iter(lists))
    assert json.loads(json.dumps(next(streamed).to_dict())) == rows[0]
    assert rerank(source, parallel, "--nbest", "all", "--jobs", "2") == 0
    assert parallel.read_bytes() == out.read_bytes()
    assert Path(f"{parallel}.systems.json").read_bytes() == Path(means).read_bytes()
    # the same command again changes nothing
    assert rerank(source, out, "--nbest", "all") == 0


def test_means_are_those_of_the_scores(tmp_path: Path) -> None:
    lists = made(200)
    wanted = plain(lists, {"x": 1.0, "y": 0.5}, 0.0)
    source, out = write_lists(tmp_path / "in.jsonl", lists), tmp_path / "out"
    assert rerank(source, out) == 0
    means = load_means(f"{out}.systems.json")
    assert means is not None
    assert list(means.systems) == ["c", "b", "a"]
    for k, name in enumerate(NAMES):
        values = np.array([row[k] for row in wanted])
        half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
        one = means.systems[name]
        assert one.lists == 200
        assert one.mean == pytest.approx(values.mean())
        assert one.low == pytest.approx(values.mean() - half)
        assert one.high == pytest.approx(values.mean() + half)


def test_every_list_counts_once_however_many_candidates_a_system_has_there() -> None:
    pairs = [[("a", 1.0), ("a", 3.0), ("b", -4.0)], [("a", 5.0), ("b", float("nan"))]]
    means = SystemMeans.of(pairs)
    assert {name: (one.mean, one.lists) for name, one in means.systems.items()} == {
        "a": (3.5, 2),
        "b": (-4.0, 1),
    }


def test_consensus_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_lists(tmp_path / "in.jsonl", made(5))
    words = ["rerank", str(source), "-m", "expected", "-u", "chrf", "--shrink", "0.5"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    assert "warning: --shrink with -m expected: a consensus prefers" in capsys.readouterr().err


def test_errors_of_the_first_pass_are_those_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = made(12)
    del lists[4]["candidates"][1]["system"]
    lists[7]["candidates"][0]["x"] = "much"
    source, out = write_lists(tmp_path / "in.jsonl", lists), tmp_path / "out"
    assert rerank(source, out) == 3
    assert "candidates[1].system: found nothing, expected a name" in capsys.readouterr().err
    assert rerank(source, out, "--max-errors", "2") == 3
    assert len(out.read_text().splitlines()) == 10
    errors = Path(f"{out}.errors.jsonl").read_bytes()
    assert errors == Path(f"{out}.first.errors.jsonl").read_bytes()
    assert [json.loads(line)["id"] for line in errors.splitlines()] == ["l4", "l7"]


def test_what_cannot_be_shrunk_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", made(5)), tmp_path / "out"

    def refused(*more: str, name: str = "out") -> str:
        words = ["rerank", str(source), "-m", "field:x", "--quiet", *more]
        assert main([*words, *(["-o", str(tmp_path / name)] if name else [])]) == 2
        return capsys.readouterr().err

    assert "--system-means" in refused("--shrink", "0.5", name="")
    assert "shrink" in refused("--shrink", "1.5")
    assert "standardised" in refused("--shrink", "0.5", "--normalize", "rank")
    one = made(5)
    for row in one:
        row["candidates"] = row["candidates"][:1]
    write_lists(source, one)
    assert "all candidates are of one system ('a')" in refused("--shrink", "0.5", name="one")
    write_lists(source, made(5))
    assert rerank(source, out) == 0
    means = Path(f"{out}.systems.json")
    assert "no effect" in refused("--system-means", str(means), name="x")
    means.write_text(means.read_text().replace('"lists": 5', '"lists": 6', 1))
    assert "edited" in refused("--shrink", "0.5", "--system-means", str(means), name="x")
    with pytest.raises(InputError, match="system with a mean"):
        list(
            Reranker({"field:x": 1.0}, shrink=0.5, system_means={"a": 0.0, "b": 1.0}).decode(
                made(1)
            )
        )
    with pytest.raises(InputError, match=r"system_means\.a"):
        Reranker({"field:x": 1.0}, shrink=0.5, system_means={"a": "b"})
    with pytest.raises(InputError, match="one system"):
        SystemMeans.of([[("a", 1.0), ("a", float("nan"))]])
