"""Which chooser chooses best: against figures by hand, a plain loop, and from the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank import Document, InputError, MBRDecoder, Reranker, load_metric
from discorank.cli.main import main
from discorank.integrations.formats.selection_files import read_chosen
from discorank.metrics.storage.checksums import with_checksum
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.selection.choosers import (
    BASELINES,
    ChooserComparison,
    Chosen,
    bases_of,
    choices,
    compare_choosers,
    decider_of,
)
from discorank.rerank.selection.comparison import mean_choices
from discorank.rerank.selection.significance import Correction, SignificanceSettings
from discorank.rerank.selection.system_scores import DocumentOutputs

from ...support.contextual import Echo

Scores = dict[str, Any]


def document(
    name: str, texts: dict[str, tuple[str, ...]], scores: Scores, whole: bool = False
) -> DocumentOutputs:
    references = {"refA": tuple("the cat sat" for _ in next(iter(texts.values())))}
    return DocumentOutputs(name, whole, None, texts, references, {"mqm": scores})


def two() -> list[DocumentOutputs]:
    """Five segments in two documents; the last one is not rated for C, and A and B share a text in the first."""
    first = document(
        "d1",
        {"A": ("the same", "a1", "a2"), "B": ("the same", "b1", "b2"), "C": ("c0", "c1", "c2")},
        {"A": (2.0, 1.0, 5.0), "B": (4.0, 0.0, 1.0), "C": (0.0, 6.0, 1.0)},
    )
    second = document(
        "d2",
        {"A": ("x", "a4"), "B": ("y", "b4"), "C": ("z", "c4")},
        {"A": (3.0, 0.0), "B": (1.0, 9.0), "C": (2.0, None)},
    )
    return [first, second]


def fixed(name: str, *texts: Any) -> Chosen:
    return Chosen(name, texts)


HUMAN = [("mqm", True)]
FEW_DRAWS = SignificanceSettings(draws=50)


def compared(
    chosen: list[Chosen],
    documents: Any = None,
    choice: Any = "auto",
    correction: Correction = "none",
) -> ChooserComparison:
    lists = choices(documents or two(), HUMAN, choice)
    tests = SignificanceSettings(draws=200, correction=correction)
    return compare_choosers({}, lists, HUMAN, decided=chosen, settings=tests)


def test_means_gains_and_regret_by_hand() -> None:
    one = fixed("one", "the same", "b1", "c2", "z", "a4")  # 3, 0, 1, 2; the last does not count
    other = fixed("other", "c0", "c1", "b2", "x", "b4")  # 0, 6, 1, 3
    (judged,) = compared([one, other]).judged
    assert (judged.counted, judged.total, judged.best) == (4, 5, "B")
    a, b = [3, 1, 5, 3], [3, 0, 1, 1]
    c = [0, 6, 1, 2]
    means = [
        np.mean([3, 0, 1, 2]),
        np.mean([0, 6, 1, 3]),
        np.mean(b),
        np.mean([a, b, c]),
        np.mean([0, 0, 1, 1]),
    ]
    assert judged.verdicts.scores == pytest.approx(means)
    assert [gain.gain for gain in judged.gains("best single system")] == pytest.approx(
        [means[2] - m for m in means[:2]]
    )
    assert [gain.gain for gain in judged.gains("random system")] == pytest.approx(
        [means[3] - m for m in means[:2]]
    )
    assert [regret.gain for regret in judged.regrets()] == pytest.approx(
        [m - means[4] for m in means[:2]]
    )
    assert judged.reached.tolist() == [2 / 4, 2 / 4]  # b1, c2; c0, b2
    assert judged.unscored.tolist() == [0, 0]
    assert all(
        gain.low <= gain.gain <= gain.high for name in BASELINES for gain in judged.gains(name)
    )
    assert judged.verdicts.units == 2


def test_higher_scores_may_be_better() -> None:
    lists = choices(two(), [("mqm", False)])
    chosen = [fixed("one", "c0", "c1", "a2", "x", "a4")]
    (judged,) = compare_choosers(
        {}, lists, [("mqm", False)], decided=chosen, settings=FEW_DRAWS
    ).judged
    assert judged.best == "A"  # 3 + 1 + 5 + 3
    assert judged.gains("best single system")[0].gain == pytest.approx((0 + 6 + 5 + 3 - 12) / 4)
    assert judged.regrets()[0].gain == pytest.approx(3 / 4)


def test_whole_documents_are_chosen_with_their_segments() -> None:
    chosen = [fixed("one", Document(("c0", "c1", "c2")), Document(("y", "b4")))]
    (judged,) = compared(chosen, choice="document").judged
    assert (judged.counted, judged.total) == (2, 2)
    assert judged.verdicts.scores == pytest.approx(
        [(0 + 6 + 1 + 1) / 4, (4 + 0 + 1 + 1) / 4, 26 / 12, (5 + 1) / 4]
    )
    assert judged.reached.tolist() == [0.5]
    lists, metric = choices(two(), HUMAN, "document"), load_metric("chrf")
    (scored,) = compare_choosers(
        {}, lists, HUMAN, [metric], decided=chosen, settings=FEW_DRAWS
    ).scored
    assert scored.system_scores() == pytest.approx(
        metric.corpus(["c0", "c1", "c2", "y", "b4"], ["the cat sat"] * 5)
    )


def test_scores_of_whole_documents_choose_documents() -> None:
    documents = [
        document(f"d{i}", {"A": ("a", "b"), "B": ("c", "d")}, {"A": i, "B": 1}) for i in range(4)
    ]
    lists = choices(documents, HUMAN)
    assert lists.whole
    assert isinstance(lists.lists[0].candidates[0].text, Document)
    (judged,) = compared(
        [fixed("one", *(one.candidates[1].text for one in lists.lists))], documents
    ).judged
    assert judged.verdicts.scores.tolist() == [1, 1, (1.5 + 1) / 2, (0 + 1 + 1 + 1) / 4]
    with pytest.raises(InputError, match=r"human\.mqm: has scores of whole documents only"):
        choices(documents, HUMAN, "segment")


def test_a_text_of_no_system_counts_for_nobody() -> None:
    one, other = (
        fixed("one", "the same", "b1", "new", "z", "a4"),
        fixed("other", "c0", "c1", "b2", "x", "b4"),
    )
    (judged,) = compared([one, other]).judged
    assert (judged.counted, judged.unscored.tolist()) == (3, [1, 0])
    assert judged.verdicts.scores[:2] == pytest.approx([5 / 3, 9 / 3])
    with pytest.raises(
        InputError, match="of 4 judged segments, 'none' chose a text that no system has in 4"
    ):
        compared([fixed("none", "1", "2", "3", "4", "5")])


def test_nothing_to_judge_is_told() -> None:
    gaps = [document("d", {"A": ("a", "b"), "B": ("c", "d")}, {"A": (1.0, None), "B": (None, 1.0)})]
    with pytest.raises(
        InputError,
        match=r"human\.mqm: no segments where all of the 2 candidate systems have a score",
    ):
        compared([fixed("one", "a", "b")], gaps)
    alone = [document("d", {"A": ("a",), "B": ("c",)}, {"A": (1.0,)})]
    with pytest.raises(InputError, match="people judged 1 systems in every dimension"):
        compared([fixed("one", "a")], alone)
    with pytest.raises(InputError, match="no human scores to judge the choosers by"):
        choices(two(), [])
    with pytest.raises(InputError, match="no choosers"):
        compared([])
    with pytest.raises(InputError, match="there are two of the name 'oracle'"):
        compared([fixed("oracle", "the same", "b1", "c2", "z", "a4")])
    with pytest.raises(InputError, match="'one' chose 1 texts, there are 5 lists"):
        compared([fixed("one", "the same")])


rated = st.one_of(st.none(), st.integers(0, 3))
TEXTS = st.sampled_from(["p", "q", "r"])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_scores_are_those_of_a_plain_loop(data: st.DataObject) -> None:
    documents = []
    for d in range(data.draw(st.integers(1, 3))):
        n = data.draw(st.integers(1, 3))
        texts = {s: tuple(data.draw(st.lists(TEXTS, min_size=n, max_size=n))) for s in "AB"}
        scores = {s: (1, *data.draw(st.lists(rated, min_size=n - 1, max_size=n - 1))) for s in "AB"}
        documents.append(document(f"d{d}", texts, scores))
    lists = choices(documents, HUMAN)
    picks = [
        data.draw(st.sampled_from([c.text for c in record.candidates])) for record in lists.lists
    ]
    (judged,) = compare_choosers(
        {}, lists, HUMAN, decided=[fixed("one", *picks)], settings=FEW_DRAWS
    ).judged

    of_choice, of_systems, best = [], [], []
    at = 0
    for one in documents:
        for i in range(one.segments):
            given_scores: list[Any] = [one.human["mqm"][s][i] for s in "AB"]  # type: ignore[index]
            pick, at = picks[at], at + 1
            if None in given_scores:
                continue
            same = [
                score
                for s, score in zip("AB", given_scores, strict=True)
                if one.systems[s][i] == pick
            ]
            of_choice.append(np.mean(same))
            alike = one.systems["A"][i] == one.systems["B"][i]
            of_systems.append([np.mean(given_scores)] * 2 if alike else given_scores)
            best.append(min(of_systems[-1]))
    means = [
        np.mean(of_choice),
        np.mean(of_systems, axis=0).min(),
        np.mean(of_systems),
        np.mean(best),
    ]
    assert judged.verdicts.scores == pytest.approx(means)
    assert judged.reached == pytest.approx([np.mean(np.isclose(of_choice, best))])
    assert judged.counted == len(best)


def test_deciders_choose_and_metrics_know_what_was_optimised() -> None:
    documents = two()
    deciders = {name: decider_of(load_metric(name)) for name in ("chrf", "chrf + bleu", "cohesion")}
    assert isinstance(deciders["chrf + bleu"], MBRDecoder)
    assert isinstance(deciders["cohesion"], Reranker)
    metrics = [load_metric("chrf++"), load_metric("ter")]
    comparison = compare_choosers(
        deciders, choices(documents, HUMAN), HUMAN, metrics, settings=FEW_DRAWS
    )
    assert comparison.optimised == ((True, True, False), (False, False, False))
    picks = [r.text for r in MBRDecoder(utility="chrf").decode(comparison.choices.lists)]
    references = ["the cat sat"] * 5
    assert comparison.scored[0].system_scores()[0] == pytest.approx(
        metrics[0].corpus([str(p) for p in picks], references)
    )
    assert bases_of("doc-bertscore") == bases_of("bertscore")
    assert bases_of('comet(model="@sha256:0123456789abcdef") + chrf') > bases_of("chrf")
    assert bases_of("gone:Metric + ter") == {"gone:Metric", *bases_of("ter")}


def test_a_combination_chooses_by_its_parts(tmp_path: Path) -> None:
    features = [
        {"metric": name, "weight": 1.0, "min": 0.0, "max": 1.0} for name in ("chrf++", "ter")
    ]
    model = tmp_path / "m.json"
    model.write_text(json.dumps(with_checksum({"format": 1, "features": features})))
    metric = load_metric(f"combination(model={json.dumps(str(model))})")
    assert bases_of(metric.signature()) == bases_of("chrf + ter")
    model.unlink()
    assert bases_of(metric.signature()) == {"combination"}


def test_a_chooser_with_context_reads_what_it_chose_before() -> None:
    lists = choices(two(), HUMAN)
    comparison = compare_choosers(
        {"echo": decider_of(Echo(context=1))}, lists, HUMAN, settings=FEW_DRAWS
    )
    picks = [r.text for r in MBRDecoder(utility=Echo(context=1)).decode(lists.lists)]
    (alone,) = compare_choosers(
        {}, lists, HUMAN, decided=[fixed("echo", *picks)], settings=FEW_DRAWS
    ).judged
    assert comparison.judged[0].verdicts.scores == pytest.approx(alone.verdicts.scores)


def test_a_better_chooser_is_found_and_an_equal_one_is_not() -> None:
    random = np.random.default_rng(0)
    documents, best = [], []
    for d in range(40):
        scores = random.integers(0, 9, size=(3, 4)).astype(float)
        best += scores.argmin(axis=0).tolist()
        texts = {s: tuple(f"{s} {d} {i}" for i in range(4)) for s in "ABC"}
        documents.append(
            document(f"d{d}", texts, dict(zip("ABC", map(tuple, scores.tolist()), strict=True)))
        )
    lists = choices(documents, HUMAN).lists
    chosen = []
    for name in ("one", "other"):
        places = random.integers(3, size=len(lists))
        chosen.append(
            fixed(name, *(r.candidates[p].text for r, p in zip(lists, places, strict=True)))
        )
    chosen.append(fixed("good", *(r.candidates[p].text for r, p in zip(lists, best, strict=True))))
    (judged,) = compared(chosen, documents, correction="holm").judged
    assert judged.between.clusters.tolist() == [2, 2, 1]
    assert [pair.p_corrected for pair in judged.between.pairs][1:] == pytest.approx([3 / 201] * 2)
    assert judged.reached[2] == 1
    assert judged.regrets()[2].gain == 0
    assert judged.gains("random system")[2].p_corrected == pytest.approx(1 / 201)
    assert judged.gains("random system", "holm")[2].p_corrected == pytest.approx(3 / 201)


# files and the command line


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def rows_of(documents: list[DocumentOutputs]) -> list[Any]:
    return [
        {"id": d.id, "references": d.references, "systems": d.systems, "mqm": d.human["mqm"]}
        for d in documents
    ]


@pytest.fixture
def systems(tmp_path: Path) -> str:
    return write(tmp_path / "systems.jsonl", rows_of(two()))


CHOSEN = [{"id": "d1:0", "text": "c0"}, {"id": "d1:1", "system": "C"}, {"id": "d2:1", "text": "b4"}]
REST = [{"id": "d2:0", "text": "x"}, {"id": "d1:2", "text": "b2"}]


def test_choices_are_read_by_id_text_or_system(tmp_path: Path) -> None:
    path = write(tmp_path / "chosen.jsonl", [*CHOSEN, *REST])
    chosen = read_chosen(LineSource(path), choices(two(), HUMAN), "mine")
    assert chosen == fixed("mine", "c0", "c1", "b2", "x", "b4")
    documents = write(
        tmp_path / "d.jsonl",
        [{"id": "d1", "text": ["c0", "c1", "c2"]}, {"id": "d2", "system": "A"}],
    )
    whole = read_chosen(LineSource(documents), choices(two(), HUMAN, "document"), "mine")
    assert whole.texts == (Document(("c0", "c1", "c2")), Document(("x", "a4")))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (CHOSEN, r"chosen.jsonl: nothing chosen for 'd1:2', nor for 1 other segments"),
        ([*CHOSEN, *REST, CHOSEN[0]], r"chosen.jsonl:6: id: 'd1:0' was there before"),
        (
            [{"id": "d9:0", "text": "c"}],
            r"chosen.jsonl:1: id: 'd9:0' is none of the 5 segments, such as 'd1:0'",
        ),
        ([{"text": "c"}], r"chosen.jsonl:1: id: found no id"),
        ([{"id": "d1:0", "text": ["c"]}], r"chosen.jsonl:1: text: found list, expected a string"),
        ([{"id": "d1:0", "system": "Q"}], r"chosen.jsonl:1: system: unknown candidate system 'Q'"),
        ([{"id": "d1:0"}], r"chosen.jsonl:1: text: found NoneType"),
    ],
)
def test_files_of_other_choices_are_refused(rows: list[Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "chosen.jsonl", rows)
    with pytest.raises(InputError, match=message):
        read_chosen(LineSource(path), choices(two(), HUMAN), "mine")


def test_documents_need_all_their_sentences(tmp_path: Path) -> None:
    path = write(tmp_path / "chosen.jsonl", [{"id": "d1", "text": ["c0", "c1"]}])
    with pytest.raises(InputError, match="text: found 2 sentences, expected a list of 3 sentences"):
        read_chosen(LineSource(path), choices(two(), HUMAN, "document"), "mine")


def test_the_command_compares_choosers_and_runs(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "by-ter.jsonl")
    assert (
        main(
            ["decode", systems, "--from", "systems", "-u", "ter", "--human", "mqm:lower", "-o", out]
        )
        == 0
    )
    capsys.readouterr()
    choosers = ["--choosers", "chrf++", "cohesion", "--decoded", out]
    command = ["compare", systems, "--human", "mqm:lower", *choosers]
    assert main([*command, "-m", "chrf", "ter", "--draws", "100", "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert "4 of 5 segments count under mqm" in printed.err
    assert "warning: chrf(word_order=2) chose by chrf, which therefore says little" in printed.err
    assert "warning: by-ter chose by ter" in printed.err
    data = json.loads(printed.out)
    rows = {row["chooser"]: row for row in data["choosers"]}
    names = {"chrf(word_order=2)", "cohesion", "by-ter"}
    assert set(rows) == names | set(BASELINES)
    one, (best, _, oracle) = rows["by-ter"], (rows[name] for name in BASELINES)
    assert one["regret"] == pytest.approx(one["score"] - oracle["score"])
    assert one["gain_over_best"] == pytest.approx(best["score"] - one["score"])
    (pair, *_) = data["chooser_pairs"]
    assert (pair["a"], pair["b"]) == ("chrf(word_order=2)", "cohesion")
    chosen = {(row["metric"], row["chooser"]): row for row in data["chosen"]}
    assert chosen["ter", "by-ter"]["optimised"] is True
    assert chosen["chrf", "by-ter"]["optimised"] is False


@pytest.mark.parametrize("format", ["table", "markdown", "latex", "csv"])
def test_choosers_alone_in_every_format(
    format: str, systems: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--human", "mqm:lower", "--choosers", "chrf", "cohesion", "--draws", "50"]
    assert main(["compare", systems, *options, "--quiet", "--format", format]) == 0
    shown = capsys.readouterr().out
    if format == "csv":
        facts = list(csv.DictReader(io.StringIO(shown)))
        names = {"settings", "choosers", "chooser_pairs", "choices"}
        assert {fact["table"] for fact in facts} == names
        named = {fact["chooser"] for fact in facts if fact["table"] == "choosers"}
        assert named == {"chrf", "cohesion", *BASELINES}
    else:
        assert "best single system" in shown
        assert "gain over B" in shown
        assert "4 of 5 segments, 3 systems" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--choosers", "chrf"], "no human scores to judge the choosers by"),
        (["--choosers", "chrf", "chrf", "--human", "mqm"], "--choosers: chrf is given twice"),
        (["--choosers", "chrf", "--human", "mqm", "--choice", "sentence"], "choice"),
        (["--decoded", "none.jsonl", "--human", "mqm"], "none.jsonl"),
        ([], "--metric: is missing"),
    ],
)
def test_what_is_wrong_is_named(
    options: list[str], message: str, systems: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", systems, *options]) == 2
    assert message in capsys.readouterr().err


def test_choices_of_a_damaged_run_are_not_compared(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    reading = ["--from", "systems", "--human", "mqm:lower"]
    assert main(["decode", systems, *reading, "-u", "ter", "-o", str(out)]) == 0
    data = bytearray(out.read_bytes())
    place = data.index(b'"text": "') + len(b'"text": "')
    data[place] ^= 1
    out.write_bytes(data)
    capsys.readouterr()
    assert main(["compare", systems, "--decoded", str(out), "--human", "mqm:lower"]) == 2
    assert "out: damaged or edited: its first" in capsys.readouterr().err


def test_a_broken_run_file_is_named(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    write(out, [*CHOSEN, *REST])
    for content, message in (
        ("{", "out.jsonl.run.json: no JSON"),
        ('{"signature": "chrf("}', "out.jsonl.run.json: "),
    ):
        Path(f"{out}.run.json").write_text(content)
        assert main(["compare", systems, "--decoded", str(out), "--human", "mqm:lower"]) == 2
        assert message in capsys.readouterr().err


def test_means_over_sets_count_each_set_once() -> None:
    one = compared([fixed("one", "the same", "b1", "c2", "z", "a4")])
    other = compared([fixed("one", "c0", "c1", "b2", "x", "b4")])
    (mean,) = mean_choices([one, other])
    regrets = [comparison.judged[0].regrets()[0].gain for comparison in (one, other)]
    assert mean.sets == 2
    assert mean.regret == pytest.approx(np.mean(regrets))
    assert mean.oracle_reached == pytest.approx(0.5)


def test_lines_of_whole_documents_are_read_where_these_are_chosen(
    systems: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `decode --choice document` wrote of segments is the choice that the same metric makes as a chooser."""
    out = str(tmp_path / "whole.jsonl")
    read = [systems, "--human", "mqm:lower", "--quiet"]
    assert (
        main(["decode", *read, "--from", "systems", "-u", "ter", "--choice", "document", "-o", out])
        == 0
    )
    rows = [json.loads(line) for line in Path(out).read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["d1:0", "d1:1", "d1:2", "d2:0", "d2:1"]
    lists = choices(two(), HUMAN, "document")
    chosen = read_chosen(LineSource(Path(out)), lists, "mine")
    rankings = decider_of(load_metric("ter"))
    assert isinstance(rankings, MBRDecoder)
    assert chosen.texts == tuple(ranking.text for ranking in rankings.decode(lists.lists))
    segments = read_chosen(LineSource(Path(out)), choices(two(), HUMAN), "mine")
    assert segments.texts == tuple(row["text"] for row in rows)
    other = {**rows[1], "document_choice": {**rows[1]["document_choice"], "system": "C"}}
    other["document_choice"]["system"] = "A" if rows[0]["document_choice"]["system"] != "A" else "B"
    mixed = write(tmp_path / "mixed.jsonl", [rows[0], other, *rows[2:]])
    with pytest.raises(InputError, match="'d1' was there before"):
        read_chosen(LineSource(mixed), lists, "mine")
    command = ["compare", *read, "--choosers", "chrf + ter", "--choice", "document"]
    assert main([*command, "--decoded", out, "--normalize-parts", "zscore"]) == 0
    assert "whole" in capsys.readouterr().out


def test_parts_of_choosers_on_one_scale() -> None:
    decider = decider_of(load_metric("chrf + ter"), "zscore")
    assert decider == MBRDecoder("chrf + ter", normalize_parts="zscore")
