"""``discorank export``: the forms, what stands beside the rows, the card, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discorank import MBRDecoder
from discorank.cli.main import main
from discorank.integrations.training_data.trl_rows import DecidedList, pairs_in
from tests.support.lists import write_lists

LISTS: list[dict[str, Any]] = [
    {
        "id": "a",
        "source": "die Katze",
        "candidates": ["the cat", "the cat sat", "the cat sat", "dog"],
        "lang": "German",
        "messages": [{"role": "user", "content": "Translate."}],
    },
    {"id": "b", "source": "ja", "candidates": ["yes", "yes"], "lang": "German", "messages": []},
    {
        "id": "c",
        "source": "Haus",
        "candidates": ["house", "home", "hut"],
        "lang": "German",
        "messages": [{"role": "user", "content": "Translate it."}],
    },
]


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    source = write_lists(tmp_path / "in.jsonl", LISTS)
    out = tmp_path / "chosen.jsonl"
    assert main(["decode", str(source), "-u", "chrf", "--nbest", "all", "-o", str(out)]) == 0
    return out


def export(kind: str, run: Path, *options: str) -> list[dict[str, Any]]:
    out = run.with_name(f"{kind}.jsonl")
    assert main(["export", kind, str(run), "-o", str(out), *options]) == 0
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def decided(run: Path) -> dict[str, dict[str, Any]]:
    rows = map(json.loads, run.read_text().splitlines())
    return {row["id"]: row for row in rows}


def test_pairs_are_preferences_with_where_they_come_from(run_path: Path) -> None:
    rows = export("pairs", run_path)
    ranking = decided(run_path)["a"]["ranking"]
    first = rows[0]
    assert {key: first[key] for key in ("prompt", "chosen", "rejected", "id", "utility")} == {
        "prompt": "die Katze",
        "chosen": "the cat sat",
        "rejected": "dog",
        "id": "a",
        "utility": "chrf",
    }
    assert first["chosen_utility"] == ranking[0]["utility"]
    assert first["rejected_utility"] == ranking[-1]["utility"]
    assert first["gap"] == ranking[0]["utility"] - ranking[-1]["utility"]
    assert first["standardised_gap"] > 0
    assert [row["id"] for row in rows] == ["a", "c"]  # the texts of b are one


def test_conversations_have_messages(run_path: Path) -> None:
    options = ("--conversational", "--system", "Be brief.", "--prompt", "{lang}: {source}")
    (row, *_) = export("pairs", run_path, *options)
    assert row["prompt"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "German: die Katze"},
    ]
    assert row["chosen"] == [{"role": "assistant", "content": "the cat sat"}]
    (row, *_) = export("pairs", run_path, "--conversational", "--messages", "messages")
    assert row["prompt"] == [{"role": "user", "content": "Translate."}]


def test_the_chosen_text_completes_the_prompt(run_path: Path) -> None:
    rows = export("sft", run_path)
    chosen = decided(run_path)
    assert [(row["prompt"], row["completion"]) for row in rows] == [
        ("die Katze", "the cat sat"),
        ("ja", "yes"),
        ("Haus", chosen["c"]["text"]),
    ]
    assert [row["gap"] for row in rows] == [chosen[name]["gap"] for name in "abc"]


def test_labels_contradict_nothing(run_path: Path) -> None:
    rows = export("kto", run_path, "--pairs", "all")
    labels = {(row["id"], row["completion"]): row["label"] for row in rows}
    assert labels["a", "the cat sat"] is True
    assert labels["a", "dog"] is False
    assert ("a", "the cat") not in labels  # better than one and worse than another
    assert len(labels) == len(rows)
    card = run_path.with_name("kto.jsonl.card.md").read_text()
    assert "| texts preferred in one pair and not in another | 2 |" in card


def test_rankings_have_all_texts_best_first(run_path: Path) -> None:
    rows = export("ranking", run_path)
    assert rows[0]["completions"] == ["the cat sat", "the cat", "dog"]
    assert rows[0]["utilities"] == [place["utility"] for place in decided(run_path)["a"]["ranking"]]
    assert [row["id"] for row in rows] == ["a", "c"]


def test_the_card_has_counts_and_the_caution(run_path: Path) -> None:
    rows = export("pairs", run_path, "--pairs", "best-each", "--max-pairs", "1")
    assert len(rows) == 2
    card = run_path.with_name("pairs.jsonl.card.md").read_text(encoding="utf-8")
    for part in (
        "A metric that was optimised is biased",
        "| utility | `chrf` |",
        "| lists | 3 |",
        "| lists without a row | 1 |",
        "| pairs left out by --max-pairs | 2 |",
        "| rows | 2 |",
        "| mean characters of the preferred text |",
    ):
        assert part in card


def test_lengths_are_balanced(tmp_path: Path) -> None:
    lists = []
    for i in range(40):
        long, short = "the cat sat on the mat", "the cat"
        texts = [long, long, short] if i % 4 else [short, short, long]
        lists.append({"id": str(i), "source": "s", "candidates": texts})
    source, run = write_lists(tmp_path / "in.jsonl", lists), tmp_path / "run.jsonl"
    assert main(["decode", str(source), "-u", "chrf", "--nbest", "all", "-o", str(run)]) == 0
    assert len(export("pairs", run)) == 40
    rows = export("pairs", run, "--balance-lengths")
    longer = [len(row["chosen"]) > len(row["rejected"]) for row in rows]
    assert (sum(longer), len(longer)) == (10, 20)
    assert rows == export("pairs", run, "--balance-lengths")
    assert rows != export("pairs", run, "--balance-lengths", "--seed", "1")


@pytest.mark.parametrize("kind", ["pairs", "sft", "kto", "ranking"])
@pytest.mark.parametrize("form", ["standard", "conversational"])
def test_the_rows_load_with_datasets(run_path: Path, kind: str, form: str) -> None:
    datasets = pytest.importorskip("datasets")
    options = ("--conversational",) if form == "conversational" else ()
    rows = export(kind, run_path, *options)
    path, cache = str(run_path.with_name(f"{kind}.jsonl")), str(run_path.parent / "cache")
    loaded = datasets.load_dataset("json", data_files=path, split="train", cache_dir=cache)
    assert loaded.to_list() == rows
    documented = {
        "pairs": {"prompt", "chosen", "rejected"},
        "sft": {"prompt", "completion"},
        "kto": {"prompt", "completion", "label"},
        "ranking": {"prompt", "completions", "utilities"},
    }
    assert documented[kind] <= set(loaded.column_names)
    if kind == "kto":
        assert loaded.features["label"].dtype == "bool"


@pytest.mark.parametrize("form", ["standard", "conversational"])
def test_trl_takes_the_rows(run_path: Path, form: str) -> None:
    datasets = pytest.importorskip("datasets")
    trl = pytest.importorskip("trl", reason="in an environment of its own: see docs/training.md")
    is_conversational = form == "conversational"
    options = ("--conversational",) if is_conversational else ()
    for kind in ("pairs", "sft", "kto"):
        rows = export(kind, run_path, *options)
        for row in rows:
            assert trl.data_utils.is_conversational(row) == is_conversational
        loaded = datasets.Dataset.from_list(rows)
        if kind == "pairs":
            unpaired = trl.data_utils.unpair_preference_dataset(loaded)
            assert sum(unpaired["label"]) == len(rows)
            assert trl.data_utils.maybe_extract_prompt(loaded[0])["prompt"] == rows[0]["prompt"]


def test_rows_of_a_reranker_name_its_features(tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", LISTS)
    for number, (features, named) in enumerate(
        [
            (["length*-1"], "length*-1.0"),
            (["length", "copied*2"], "length + copied*2.0"),
            (["length", "expected", "-u", "chrf"], "length + expected; chrf"),
        ]
    ):
        out = tmp_path / f"{number}.jsonl"
        command = ["rerank", str(source), "-m", *features, "--nbest", "all", "-o", str(out)]
        assert main(command) == 0
        assert {row["utility"] for row in export("pairs", out)} == {named}


def test_a_run_into_a_table_is_exported_as_one_into_lines(
    tmp_path: Path, run_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    table = tmp_path / "chosen.parquet"
    command = ["decode", str(tmp_path / "in.jsonl"), "-u", "chrf", "--nbest", "all"]
    assert main([*command, "-o", str(table)]) == 0
    for kind in ("pairs", "sft", "kto", "ranking"):
        assert export(kind, table) == export(kind, run_path)
    assert "written as JSON lines" in refused(capsys, "sft", run_path, "-o", tmp_path / "s.parquet")
    rows = tmp_path / "chosen.parquet.rows.jsonl"
    assert "is an input and an output" in refused(capsys, "sft", table, "-o", rows)


def test_rankings_in_python_are_decided_lists() -> None:
    (ranking,) = MBRDecoder("chrf", nbest=None).decode(LISTS[:1])
    (pair,), _ = pairs_in(DecidedList.of(ranking).standings)
    assert (pair.chosen.text, pair.rejected.text) == ("the cat sat", "dog")


# refusals


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main(["export", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_what_does_not_go_together_is_refused(
    run_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run_path.with_name("out.jsonl")
    for options, message in (
        (["pears", run_path], "KIND"),
        (["sft", run_path, "--margin", "1"], "--margin: is for pairs and kto"),
        (["pairs", run_path, "--system", "x"], "--system: is for rows that hold messages"),
        (["pairs", run_path, "--prompt", "{missing}"], "Give every input the key missing"),
        (["pairs", run_path, "--prompt", "{target_context}"], "reads the sentences before"),
        (
            ["sft", run_path, "--conversational", "--messages", "messages"],
            "list 'b': messages: found [], expected messages",
        ),
        (["pairs", run_path, "--pairs", "some"], "pairs"),
    ):
        assert message in refused(capsys, *options, "-o", out)
        assert not out.exists()
    assert "is an input and an output" in refused(capsys, "sft", run_path, "-o", run_path)


def test_runs_that_cannot_be_exported_are_refused(
    tmp_path: Path, run_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    best = tmp_path / "best.jsonl"
    assert main(["decode", str(source), "-u", "chrf", "-o", str(best)]) == 0
    assert "Decide anew with --nbest all" in refused(capsys, "pairs", best, "-o", out)
    assert main(["export", "sft", str(best), "-o", str(out)]) == 0
    write_lists(source, [LISTS[0], {**LISTS[1], "source": "nein"}, LISTS[2]])
    assert "is not the input that" in refused(capsys, "pairs", run_path, "-o", tmp_path / "p")
    write_lists(source, LISTS[1:])
    assert "no list 'a' where" in refused(capsys, "pairs", run_path, "-o", tmp_path / "p")
    write_lists(source, [LISTS[0], {"id": "b"}, LISTS[2]])
    broken = tmp_path / "broken.jsonl"
    command = ["decode", str(source), "-u", "chrf", "--nbest", "all", "-o", str(broken)]
    assert main(command) == 3
    assert "is not complete" in refused(capsys, "pairs", broken, "-o", tmp_path / "p")
    assert main([*command, "--max-errors", "1"]) == 3
    assert [row["id"] for row in export("pairs", broken)] == ["a", "c"]  # b has an error record
    run_path.write_bytes(run_path.read_bytes().replace(b"cat", b"rat", 1))
    assert "damaged or edited" in refused(capsys, "sft", run_path, "-o", tmp_path / "p")


def test_what_is_no_run_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.jsonl"
    words = ["export", "pairs", str(path), "-o", str(tmp_path / "rows.jsonl")]
    assert main(words) == 2
    assert "run.jsonl: is not there. Give what decode or rerank wrote" in capsys.readouterr().err
    path.write_text("{}\n")
    assert main(words) == 2
    assert "is no run: run.jsonl.run.json does not stand beside it" in capsys.readouterr().err


def test_a_list_without_source_has_no_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_lists(tmp_path / "in.jsonl", [{"id": "a", "candidates": ["x", "y"]}])
    run = tmp_path / "run.jsonl"
    assert main(["decode", str(source), "-u", "chrf", "--nbest", "all", "-o", str(run)]) == 0
    assert "list 'a': source: no source, which the prompt reads" in refused(
        capsys, "sft", run, "-o", tmp_path / "out"
    )
