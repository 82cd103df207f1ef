"""Whole documents chosen among systems: against plain sums of sentence utilities, whatever the order and the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from discorank import (
    CandidateList,
    Context,
    Document,
    InputError,
    LocalEngine,
    MBRDecoder,
    Ranking,
    Reranker,
    load_metric,
    use_limits,
)
from discorank.cli.main import main
from discorank.rerank.choice import written_row
from discorank.rerank.lists import read_list
from discorank.rerank.runs import run as runs

from ..support.contextual import Echo
from ..support.lists import WORDS, write_lists

SYSTEMS = ("ada", "bob", "cleo", "dan")


def document(
    name: str, sentences: int, seed: int = 0, shuffled: bool = True
) -> list[dict[str, Any]]:
    """The lists of a document, systems in another order in each."""
    random = Random(f"{name} {seed}")
    lists = []
    for i in range(sentences):
        base = [random.choice(WORDS) for _ in range(6)]
        candidates = []
        for system in SYSTEMS:
            words = [random.choice(WORDS) if random.random() < 0.4 else word for word in base]
            candidates.append(
                {"text": " ".join(words), "system": system, "logprob": -random.random()}
            )
        if shuffled:
            random.shuffle(candidates)
        lists.append(
            {"id": f"{name}:{i}", "document": name, "position": i, "candidates": candidates}
        )
    return lists


def documents(count: int = 6) -> list[dict[str, Any]]:
    """The lists of several documents, and a list of none between them."""
    lists = [row for i in range(count) for row in document(f"d{i}", 1 + i % 4)]
    lists.insert(3, {"id": "alone", "candidates": ["a ferry waits", "the ferry", "a fog"]})
    return lists


def words(tokens: list[str]) -> list[str | None]:
    """Every word is a noun."""
    return list(tokens)


def decided(lists: list[Any], utility: Any = "chrf", **settings: Any) -> list[Ranking]:
    return list(MBRDecoder(utility, choose="document", **settings).decode(lists))


def texts_of(lists: list[dict[str, Any]], system: str) -> list[str]:
    """A system's sentences."""
    return [next(c["text"] for c in row["candidates"] if c["system"] == system) for row in lists]


def system_of(ranking: Ranking) -> Any:
    return ranking.extra["document_choice"]["system"]


@pytest.mark.parametrize("utility", ["chrf", "ter", "chrf + 0.5*bleu"])
def test_the_mean_of_sentence_utilities_decides(utility: str) -> None:
    """The chosen system has the highest mean over sentences of its expected utility, by plain loops."""
    lists = document("d", 5)
    metric = load_metric(utility)
    sums = np.zeros(len(SYSTEMS))
    for i in range(5):
        sentence = [texts_of(lists, system)[i] for system in SYSTEMS]
        sums += metric.pairwise(sentence, sentence).mean(axis=1)
    rankings = decided(lists, utility)
    best = int(np.argmax(sums))
    assert [ranking.text for ranking in rankings] == texts_of(lists, SYSTEMS[best])
    for ranking, row in zip(rankings, lists, strict=True):
        assert ranking.id == row["id"]
        assert ranking.utility == pytest.approx(sums[best] / 5)
        assert row["candidates"][ranking.index]["text"] == ranking.text
        assert system_of(ranking) == SYSTEMS[best]


def test_the_order_of_systems_changes_nothing() -> None:
    plain = decided(document("d", 6, shuffled=False))
    shuffled = decided(document("d", 6, shuffled=True))
    assert [ranking.text for ranking in plain] == [
        texts_of(document("d", 6), system_of(shuffled[0]))[i] for i in range(6)
    ] or system_of(plain[0]) != system_of(shuffled[0])
    lists = document("d", 6)
    turned = [{**row, "candidates": row["candidates"][::-1]} for row in lists]
    assert [r.text for r in decided(lists)] == [r.text for r in decided(turned)]


def test_samples_are_matched_by_number() -> None:
    lists = [
        {"id": "d:0", "document": "d", "candidates": ["it waits", "the ship waits", "fog"]},
        {
            "id": "d:1",
            "document": "d",
            "candidates": ["lifts", "when fog lifts", "when the fog lifts"],
        },
    ]
    first, second = decided(lists)
    assert first.index == second.index
    whole = read_list(
        {
            "id": "d",
            "candidates": [
                ["it waits", "lifts"],
                ["the ship waits", "when fog lifts"],
                ["fog", "when the fog lifts"],
            ],
        }
    )
    (expected,) = MBRDecoder("chrf").decode([whole])
    assert (first.index, first.utility, first.gap) == (
        expected.index,
        expected.utility,
        expected.gap,
    )
    assert first.extra["document_choice"] == {
        "document": "d",
        "candidate": expected.index,
        "sentences": 2,
    }


def test_several_samples_of_a_system_are_matched_in_their_order() -> None:
    rows = document("d", 3, shuffled=False)
    doubled = [
        {**row, "candidates": [{**c, "system": "ada"} for c in row["candidates"]]} for row in rows
    ]
    assert [r.index for r in decided(doubled)] == [r.index for r in decided(rows)]


def test_each_document_is_read_in_its_own_context() -> None:
    lists = document("d", 4)
    (whole,) = MBRDecoder(Echo()).decode(
        [
            CandidateList(
                "d",
                tuple(
                    read_list(
                        {"id": "x", "candidates": [texts_of(lists, s) for s in SYSTEMS]}
                    ).candidates
                ),
            )
        ]
    )
    rankings = decided(lists, Echo())
    assert system_of(rankings[0]) == SYSTEMS[whole.index]
    assert rankings[0].utility == pytest.approx(whole.utility)
    # what another document chose before is no context of it
    behind = decided([*document("before", 3), *lists], Echo())
    assert [r.utility for r in behind[3:]] == [r.utility for r in rankings]


def test_lists_of_context_stand_before_the_document() -> None:
    lists = document("d", 3)
    context = {"id": "c", "document": "d", "candidates": ["the harbour"], "context_only": True}
    context["position"] = -1
    rankings = decided([context, *lists], Echo())
    texts = [Document(texts_of(lists, system)) for system in SYSTEMS]
    expected = Echo().pairwise(texts, texts, None, Context(target=["the harbour"])).mean(axis=1)
    assert rankings[0].utility == pytest.approx(expected.max())
    assert rankings[0].utility != pytest.approx(decided(lists, Echo())[0].utility)
    with pytest.raises(InputError, match="'c': is only context, but stands between sentences"):
        decided([lists[0], {**context, "position": 1}], Echo())


def test_document_metrics_decide_too() -> None:
    lists = document("d", 4)
    nouns = 'lexical-chain(nouns="tests.rerank.test_whole_documents:words",sentences="rule")'
    candidates = [texts_of(lists, system) for system in SYSTEMS]
    (whole,) = MBRDecoder(nouns).decode([{"id": "d", "candidates": candidates}])
    rankings = decided(lists, nouns)
    assert system_of(rankings[0]) == SYSTEMS[whole.index]
    assert rankings[0].utility == whole.utility


def test_logprobs_are_added_up() -> None:
    lists = document("d", 3)
    totals = [
        sum(next(c["logprob"] for c in row["candidates"] if c["system"] == s) for row in lists)
        for s in SYSTEMS
    ]
    rankings = list(Reranker({"logprob": 1.0}, choose="document").decode(lists))
    assert rankings[0].utility == pytest.approx(max(totals))
    assert system_of(rankings[0]) == SYSTEMS[int(np.argmax(totals))]


def test_places_of_a_sentence_have_distinct_texts() -> None:
    """Where systems share a sentence, the best document stands for it."""
    lists = document("d", 2)
    for candidate in lists[0]["candidates"]:
        candidate["text"] = "all the same"
    first, second = decided(lists, nbest=None)
    (place,) = first.ranking
    assert (place.count, place.utility, first.text) == (4, second.utility, "all the same")
    assert lists[0]["candidates"][place.index]["system"] == system_of(second)
    assert len(second.ranking) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"candidates": document("d", 3)[1]["candidates"][:3]},
            "list 'd:1': candidates: no candidate of system",
        ),
        (
            {"candidates": [*document("d", 3)[1]["candidates"], {"text": "x", "system": "eve"}]},
            "a candidate of system 'eve', which list 'd:0' of the document has not",
        ),
        ({"candidates": ["x", "y"]}, "list 'd:1': candidates: no candidate of system"),
        (
            {"candidates": [*document("d", 3)[1]["candidates"], "x"]},
            r"candidates\[4\].system: found None",
        ),
        ({"position": 2}, "list 'd:1': position: position 2 follows 0"),
        ({"source": "x"}, "list 'd:0': source: no source, but list 'd:1' of the document has some"),
        ({"pseudo_references": ["x"]}, "list 'd:0': pseudo_references: no pseudo_references"),
        ({"candidates": [["a", "b"], ["c"]]}, "list 'd:1': candidates: found documents"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    lists = document("d", 2)
    with pytest.raises(InputError, match=message) as caught:
        decided([lists[0], {**lists[1], **change}])
    assert "document 'd'" in caught.value.where
    assert caught.value.fix


def test_as_many_lists_are_held_as_a_text_may_have_sentences() -> None:
    taken = []

    def lists() -> Iterator[dict[str, Any]]:
        for row in [*document("long", 50), *document("d", 2)]:
            taken.append(row["id"])
            yield row

    with use_limits(entries=4):
        decoder = MBRDecoder("chrf", choose="document")
        with pytest.raises(InputError, match="5 sentences, at most 4 are read"):
            list(decoder.decode(lists()))
    entries = [(row["id"], read_list(row)) for row in [*document("long", 9), *document("d", 2)]]
    with use_limits(entries=4):
        outcomes = list(decoder.outcomes(entries, loaded_engine()))
    assert [tag for tag, _ in outcomes] == [tag for tag, _ in entries]
    assert [isinstance(outcome, Ranking) for _, outcome in outcomes] == [False] * 9 + [True] * 2


def loaded_engine() -> Any:
    engine = LocalEngine()
    engine.load([load_metric("chrf")])
    return engine


def test_a_line_that_cannot_be_read_spoils_the_document_around_it_alone() -> None:
    gap = InputError("no JSON")
    before, inside, behind = document("a", 2), document("b", 2), document("c", 2)
    rows = [*before, None, inside[0], None, inside[1], None, *behind]
    entries = [(i, gap if row is None else read_list(row)) for i, row in enumerate(rows)]
    outcomes = dict(MBRDecoder("chrf", choose="document").outcomes(entries, loaded_engine()))
    assert list(outcomes) == list(range(len(rows)))
    kinds = [isinstance(outcomes[i], Ranking) for i in range(len(rows))]
    assert kinds == [True, True, False, False, False, False, False, True, True]
    assert outcomes[2] is outcomes[4] is outcomes[6] is gap
    assert "a line of it could not be read, behind list 'b:0'" in str(outcomes[3])


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def decode(source: Path, out: Path, *more: str) -> int:
    command = ["decode", str(source), "-u", "chrf", "-o", str(out), "--quiet"]
    return main([*command, "--choice", "document", *more])


def test_a_run_goes_on_from_every_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped behind any row, also inside a document, the same command ends with the same bytes."""
    source = write_lists(tmp_path / "in.jsonl", documents(3))
    assert decode(source, tmp_path / "whole", "--format", "text") == 0
    assert decode(source, tmp_path / "whole.jsonl") == 0
    count = len(rows(source))
    assert [row["id"] for row in rows(tmp_path / "whole.jsonl")] == [
        row["id"] for row in rows(source)
    ]
    for name, form in (("whole", ["--format", "text"]), ("whole.jsonl", [])):
        for stop in range(1, count):
            out = tmp_path / f"{stop}.{name}"
            written = iter(range(count))

            def stopping(outcome: Any, form: Any, last: int = stop, number: Any = written) -> Any:
                if next(number) == last:
                    raise KeyboardInterrupt
                return written_row(outcome, form)

            monkeypatch.setattr(runs, "written_row", stopping)
            with pytest.raises((KeyboardInterrupt, SystemExit)):
                raise SystemExit(decode(source, out, *form))
            monkeypatch.setattr(runs, "written_row", written_row)
            assert out.read_bytes().count(b"\n") == stop
            assert decode(source, out, *form) == 0
            assert out.read_bytes() == (tmp_path / name).read_bytes()


def test_a_document_that_grew_is_not_half_another_systems(tmp_path: Path) -> None:
    """Lists appended to a document that is written already may change its best system: they are errors then."""
    grown = [
        {"id": "d:0", "document": "d", "candidates": ["a b c", "a b d", "x y z"]},
        {"id": "d:1", "document": "d", "candidates": ["q", "w", "the fog lifts when it lifts"]},
        {
            "id": "d:2",
            "document": "d",
            "candidates": ["q", "the fog lifts when", "the fog lifts when it"],
        },
    ]
    out = tmp_path / "out.jsonl"
    assert decode(write_lists(tmp_path / "in.jsonl", grown[:1]), out) == 0
    assert rows(out)[0]["text"] == "a b c"
    assert decode(write_lists(tmp_path / "in.jsonl", grown), out, "--max-errors", "9") == 3
    assert len(rows(out)) == 1
    errors = rows(tmp_path / "out.jsonl.errors.jsonl")
    assert [row["id"] for row in errors] == ["d:1", "d:2"]
    assert "its best system is another now" in errors[0]["reason"]


def test_error_rows_and_rows_account_for_every_list(tmp_path: Path) -> None:
    lists = documents()
    lists[-1]["candidates"] = lists[-1]["candidates"][:2]
    source = write_lists(tmp_path / "in.jsonl", lists)
    assert decode(source, tmp_path / "out", "--max-errors", "20") == 3
    failed = [row["id"] for row in rows(tmp_path / "out.errors.jsonl")]
    assert failed == [row["id"] for row in lists if row.get("document") == lists[-1]["document"]]
    assert len(rows(tmp_path / "out")) + len(failed) == len(lists)
