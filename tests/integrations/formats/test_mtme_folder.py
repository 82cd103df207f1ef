"""Folders of mt-metrics-eval: what is read, what is refused with its place, and that what is written reads back."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import load_metric
from discorank.integrations.formats.format_table import is_eval_set_folder
from discorank.integrations.formats.wmt.eval_set_folder import (
    EvalSetOptions,
    language_pairs,
    read_eval_set,
    read_score_file,
    write_eval_set,
    written_scores,
)
from discorank.integrations.formats.wmt.eval_set_rows import eval_set_of_rows, eval_set_rows
from discorank.metrics.errors import InputError
from discorank.metrics.storage.limits import use_limits
from discorank.rerank.selection.meta_evaluation.eval_set import (
    LEVELS,
    DocumentPlace,
    EvalSet,
    MetricName,
    score_eval_set,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "mtme"
TOY = GOLDEN / "evalset" / "toy"
LEAVE_OUT = EvalSetOptions(missing="leave-out")
ZEROS = EvalSetOptions(missing="zeros")


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    values = json.loads((GOLDEN / "values.json").read_text(encoding="utf-8"))
    return {pair: values[pair]["read"] for pair in ("en-de", "he-en")}


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A copy of the folder, without the metric that lacks a system."""
    folder = tmp_path / "toy"
    shutil.copytree(TOY, folder)
    for path in folder.glob("metric-scores/*/Gap-*"):
        path.unlink()
    return folder


@pytest.mark.parametrize("pair", ["en-de", "he-en"])
def test_what_a_reader_must_find(expected: dict[str, Any], pair: str) -> None:
    found, values = read_eval_set(TOY, pair, ZEROS), expected[pair]
    assert len(found.sources) == values["segments"]
    places = {document.name: [document.start, document.stop] for document in found.documents}
    assert places == values["docs"]
    assert [document.domain for document in found.documents] == values["domains_per_doc"]
    assert sorted(found.outputs) == values["systems"]
    assert sorted(found.human_systems) == values["human_systems"]
    assert sorted(found.references) == values["references"]
    assert sorted({name for name, _ in found.human_scores}) == values["human_scores"]
    assert {level for _, level in found.human_scores} == {*values["levels"]} - {"domain"}
    assert sorted({name.base for name in found.metrics}) == values["metric_basenames"]
    for written, (base, references) in values["parsed"].items():
        name = MetricName.parse(written, found.references)
        assert (name.base, sorted(name.references)) == (base, references)
        assert str(name) == written
    missing = [
        [system, i]
        for system, texts in found.outputs.items()
        for i, text in enumerate(texts)
        if text is None
    ]
    assert missing == values["missing_translation"]


@pytest.mark.parametrize("pair", ["en-de", "he-en"])
def test_scores_that_are_read(expected: dict[str, Any], pair: str) -> None:
    found, values = read_eval_set(TOY, pair, ZEROS), expected[pair]
    gap = found.metric_scores[MetricName("Gap", frozenset({"refA"})), "sys"]
    assert {system: scores.tolist() for system, scores in gap.items()} == values["gap_sys_scores"]
    primary = ["Coarse", "Free-QE", "Good", "Noisy"]
    displayed = {str(name): name.displayed(primary) for name in found.metrics}
    assert {name: displayed[name] for name in values["display_name"]} == values["display_name"]


def test_what_a_metric_lacks_is_an_error_or_chosen() -> None:
    with pytest.raises(InputError, match=r"Gap-refA\.\w+\.score: no score of beta"):
        read_eval_set(TOY, "en-de")
    left = read_eval_set(TOY, "en-de", LEAVE_OUT)
    assert "Gap" not in {name.base for name in left.metrics}
    with pytest.raises(InputError, match="missing = 'ignore'"):
        read_eval_set(TOY, "en-de", EvalSetOptions(missing="ignore"))  # type: ignore[arg-type]


def test_names_hold_for_all_language_pairs_or_one() -> None:
    options = EvalSetOptions(
        main_reference=("refB", "he-en:refA"), outliers=("en-de:theta",), missing="zeros"
    )
    german, english = (read_eval_set(TOY, pair, options) for pair in ("en-de", "he-en"))
    assert (german.standards.reference, english.standards.reference) == ("refB", "refA")
    assert german.standards.outliers == frozenset({"theta"})
    assert not english.standards.outliers


def test_what_the_task_took_for_granted(toy: Path) -> None:
    shutil.move(toy, toy.with_name("wmt23"))
    found = read_eval_set(toy.with_name("wmt23"), "he-en")
    assert found.standards.reference == "refB"
    assert found.standards.human_scores == dict.fromkeys(LEVELS, "mqm")


def edited(toy: Path, name: str, edit: Any) -> Path:
    path = toy / name
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(edit(lines)) + "\n", encoding="utf-8")
    return toy


DOCS, SEG = "documents/he-en.docs", "human-scores/he-en.mqm.seg.score"
SYS = "human-scores/he-en.mqm.sys.score"
METRIC = "metric-scores/he-en/Good-refA.sys.score"


@pytest.mark.parametrize(
    ("name", "edit", "fact"),
    [
        ("sources/he-en.txt", lambda lines: lines[1:], "24 segments, the sources have 23"),
        ("references/he-en.refB.txt", lambda lines: lines[1:], "reference refB: 23 segments"),
        ("system-outputs/he-en/zeta.txt", lambda lines: [*lines, "x"], "output zeta: 25 segments"),
        (DOCS, lambda lines: ["web", *lines[1:]], "expected DOMAIN DOCUMENT"),
        (DOCS, lambda lines: [*lines[:-1], lines[0]], r"he-en.docs:24: document 'doc1'"),
        (SEG, lambda lines: [*lines, ""], "expected SYSTEM SCORE"),
        (SEG, lambda lines: ["alpa 1", *lines[1:]], "seg.score:1: unknown system 'alpa'"),
        (SEG, lambda lines: lines[1:], "23 values of 'alpha'"),
        (SEG, lambda lines: [*lines, "alpha 1"], "25 values of 'alpha', expected 24"),
        (SYS, lambda lines: ["alpha nan", *lines[1:]], "found 'nan'"),
        (METRIC, lambda lines: ["alpha None", *lines[1:]], "system 'alpha' lacks a score"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(
    toy: Path, name: str, edit: Any, fact: str
) -> None:
    with pytest.raises(InputError, match=fact):
        read_eval_set(edited(toy, name, edit), "he-en")


def test_outliers_of_the_task_that_are_not_there_leave_nothing_out(
    toy: Path, tmp_path: Path
) -> None:
    folder = toy.rename(tmp_path / "wmt23")
    options = EvalSetOptions(missing="zeros")
    assert read_eval_set(folder, "en-de", options).standards.outliers == frozenset()
    outputs = folder / "system-outputs" / "en-de"
    (outputs / "synthetic_ref.txt").write_bytes((outputs / "alpha.txt").read_bytes())
    assert read_eval_set(folder, "en-de", options).standards.outliers == {"synthetic_ref"}


def test_parts_that_are_missing(toy: Path) -> None:
    with pytest.raises(InputError, match="unknown language pair 'de-en'"):
        read_eval_set(toy, "de-en")
    with pytest.raises(InputError, match="no reference 'refC'; there are: refA, refB"):
        read_eval_set(toy, "he-en", EvalSetOptions(main_reference=("refC",)))
    with pytest.raises(InputError, match="unknown human scores 'esa'"):
        read_eval_set(toy, "he-en", EvalSetOptions(human_scores=("esa",)))
    with pytest.raises(InputError, match="unknown outlier 'omega'"):
        read_eval_set(toy, "he-en", EvalSetOptions(outliers=("omega",)))
    (toy / "sources" / "he-en.txt").unlink()
    with pytest.raises(InputError, match=r"he-en.txt: is not there"):
        read_eval_set(toy, "he-en")
    assert language_pairs(toy) == ("en-de", "he-en")
    assert not is_eval_set_folder(toy / "sources")
    with pytest.raises(InputError, match="cannot be read"):
        language_pairs(toy / "nowhere")


def test_texts_may_stand_in_json_lines(toy: Path) -> None:
    before = read_eval_set(toy, "he-en")
    path = toy / "system-outputs" / "he-en" / "delta.v2.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.unlink()
    rows = [json.dumps({"hypothesis": line}) for line in lines]
    path.with_suffix(".jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert equal(read_eval_set(toy, "he-en"), before)
    path.with_suffix(".jsonl").write_text('{"text": "x"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"delta.v2.jsonl:1: .*hypothesis: found None"):
        read_eval_set(toy, "he-en")


def test_segments_are_bounded(toy: Path) -> None:
    with use_limits(rows=10), pytest.raises(InputError, match="at most 10 are read"):
        read_eval_set(toy, "he-en")


# -- what is written reads back --


def equal(first: EvalSet, second: EvalSet) -> bool:
    """Whether two sets have the same texts and, bit by bit, the same scores."""
    plain = [field.name for field in fields(EvalSet) if not field.name.endswith("_scores")]
    same_texts = all(getattr(first, name) == getattr(second, name) for name in plain)
    human = [
        {key: _bits(by_system) for key, by_system in each.human_scores.items()}
        for each in (first, second)
    ]
    return same_texts and human[0] == human[1]


def _bits(scores: Any) -> dict[str, bytes]:
    return {system: values.tobytes() for system, values in scores.items()}


@pytest.mark.parametrize("pair", ["en-de", "he-en"])
def test_a_folder_is_written_as_it_was(toy: Path, tmp_path: Path, pair: str) -> None:
    before = replace(read_eval_set(toy, pair), metric_scores={})
    copy = tmp_path / "copy" / "toy"
    write_eval_set(before, copy)
    after = read_eval_set(copy, pair)
    assert equal(before, after)
    for folder in ("documents", "sources", "references", f"system-outputs/{pair}"):
        for path in (copy / folder).iterdir():
            assert path.read_bytes() == (toy / folder / path.name).read_bytes()


def test_own_scores_are_the_metrics_own() -> None:
    eval_set = read_eval_set(TOY, "he-en", LEAVE_OUT)
    scored = score_eval_set(load_metric("ter"), eval_set)
    name = MetricName("ter", frozenset({"refA"}))
    scorer = load_metric("ter").parts[0][1]
    text, reference = eval_set.outputs["alpha"][3], eval_set.references["refA"][3]
    plain = scorer.score([str(text)], [[str(reference)]])
    # lower is better: negated
    assert scored.metric_scores[name, "seg"]["alpha"][3] == -plain[0]
    assert "refA" not in scored.metric_scores[name, "sys"]
    assert "refB" in scored.metric_scores[name, "sys"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"language_pair": "en"}, "expected SOURCE-TARGET"),
        ({"language_pair": "../en-de"}, "expected SOURCE-TARGET"),
        ({"references": {"ref-A": ("a",)}}, "no - or . in its name"),
        ({"outputs": {"a b": ("a",)}}, "without white space"),
        ({"outputs": {"../x": ("a",)}}, "cannot name a file"),
        ({"outputs": {"A": ("a\nb",)}}, "several lines"),
        ({"outputs": {"A": ("a ",)}}, "ends in white space"),
        ({"outputs": {"A": ("[No translation supplied]",)}}, "means a missing text"),
        ({"documents": (DocumentPlace("a b", "x", 0, 1),)}, "without white space"),
    ],
)
def test_what_the_form_cannot_hold_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    texts = ("a",)
    good = EvalSet(
        "t",
        "en-de",
        (DocumentPlace("d", "x", 0, 1),),
        texts,
        {"refA": texts},
        {"A": texts, "refA": texts},
    )
    write_eval_set(good, tmp_path)
    with pytest.raises(InputError, match=message):
        write_eval_set(replace(good, **change), tmp_path)


SCORES = st.lists(
    st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), min_size=3, max_size=3
)


@given(scores=st.dictionaries(st.sampled_from(["A", "b.c-d", "é"]), SCORES, min_size=1))
def test_scores_read_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, scores: dict[str, list[float | None]]
) -> None:
    values = {
        system: np.array([np.nan if x is None else x for x in column])
        for system, column in scores.items()
    }
    path = tmp_path_factory.mktemp("scores") / "x.score"
    path.write_bytes(b"".join(written_scores(values, "x")))
    assert _bits(read_score_file(path, values, 3)) == _bits(values)


def test_rows_of_a_systems_file_make_the_set_again() -> None:
    before = read_eval_set(TOY, "en-de", LEAVE_OUT)
    after = eval_set_of_rows(list(eval_set_rows(before)), "toy", "en-de")
    assert after.documents == before.documents
    assert dict(after.references) == dict(before.references)
    assert dict(after.outputs) == dict(before.outputs)
    for name in ("da", "mqm"):
        theirs, ours = before.human_scores[name, "seg"], after.human_scores[name, "seg"]
        assert set(ours) <= set(theirs)
        for system in ours:
            assert ours[system].tobytes() == theirs[system].tobytes()


def test_rows_of_lower_is_better_are_negated() -> None:
    row = {
        "id": "d",
        "source": ["a", "b"],
        "references": {"r": ["x", "y"]},
        "systems": {"A": ["x", "z"]},
        "human": {"mqm": {"A": [1, None], "r": [0, 3]}, "whole": {"A": 5}},
    }
    found = eval_set_of_rows([row, {**row, "id": "e"}], "t", "en-de", ["mqm"])
    assert found.human_scores["mqm", "seg"]["A"].tolist()[::2] == [-1, -1]
    assert found.human_scores["mqm", "sys"]["r"].tolist() == [-1.5]
    assert found.human_scores["mqm", "doc"]["A"].tolist() == [-1, -1]
    assert found.human_scores["whole", "doc"]["A"].tolist() == [5, 5]
    assert ("whole", "seg") not in found.human_scores
    # a reference that people judged is an output, too
    assert found.human_systems == {"r"}
    with pytest.raises(InputError, match=r"document 'e'.*systems \['B'\]"):
        eval_set_of_rows([row, {**row, "id": "e", "systems": {"B": ["x", "y"]}}], "t", "en-de")
