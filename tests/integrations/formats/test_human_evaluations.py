"""Human evaluations as WMT releases them: annotators, spans, documents, and what is said of what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.options.system_outputs import read_judged_file
from discorank.integrations.formats.document_outputs import read_documents
from discorank.integrations.formats.format_table import Row
from discorank.integrations.formats.open_lists import (
    open_documents,
    open_lists,
    recognised_documents,
)
from discorank.integrations.formats.readers.systems import SystemsOptions
from discorank.integrations.formats.wmt.judgements import with_judged, with_means_of_raters
from discorank.integrations.formats.wmt.pearmut import read_pearmut
from discorank.integrations.formats.wmt.rated_rows import LeftOutWarning
from discorank.integrations.formats.wmt.rating_table import read_rating_table
from discorank.metrics.errors import InputError
from discorank.rerank.selection.system_scores import DocumentOutputs, RatedSpan, TextRating
from tests.support.human_files import (
    MQM_HEAD,
    mqm_table,
    pearmut_record,
    wmt24_lines,
    wmt25_segments,
    write_lines,
)

PAIR = "en-cs_CZ"


def documents_of(path: Path, **options: Any) -> list[DocumentOutputs]:
    return list(read_documents(open_documents(path, **options), SystemsOptions()))


# -- WMT25: a segment per line --


def test_documents_are_those_of_the_organisers(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", wmt25_segments())
    assert recognised_documents(path) == "wmt-jsonl"
    documents = documents_of(path)
    assert [d.segments for d in documents][:6] == [1, 3, 30, 1, 3, 30]
    assert documents[1].id == f"{PAIR}_#_social_#_doc1"
    assert list(documents[0].references) == ["refA"]


def test_every_annotator_and_span_is_kept(tmp_path: Path) -> None:
    line = next(wmt25_segments())
    said = {"human0": 80.0, "annotator0": "anna", "times0": [5.0, 12.5], "MetricX-25": 0.5}
    said["errors0"] = [
        {"start_i": 0, "end_i": 2, "severity": "Major"},
        {"start_i": "missing", "end_i": "missing", "severity": "minor"},
    ]
    line["scores"] = {"A": {**said, "human1": 60, "annotator1": "ben", "errors1": []}}
    (document,) = documents_of(write_lines(tmp_path / "x.jsonl", [line]))
    spans = (RatedSpan(0, 3, "major"), RatedSpan(None, None, "minor"))
    ratings = (TextRating("anna", 80.0, spans, 7.5), TextRating("ben", 60.0, ()))
    assert document.ratings == {"esa": {"A": (ratings,)}}
    assert document.human["esa"] == {"A": (70.0,)}


@pytest.mark.parametrize(
    ("given", "scores"),
    [
        ({"human": 3.0, "errors": [], "annotator": "x"}, (3.0,)),
        ({"human1": 3.0, "human2": 5}, (3.0, 5.0)),
        ([{"score": float("nan")}, {"score": "7", "annotator": "x"}], (None, 7.0)),
        ([None, {"human": 2}], (None, 2.0)),
        (4, (4.0,)),
    ],
    ids=["august", "september", "list", "control", "number"],
)
def test_scores_of_every_release_are_read(tmp_path: Path, given: Any, scores: Any) -> None:
    line = {**next(wmt25_segments()), "scores": {"B": given}}
    (document,) = documents_of(write_lines(tmp_path / "x.jsonl", [line]))
    (ratings,) = document.ratings["esa"]["B"]
    own = tuple(None if rating is None else rating.score for rating in ratings)
    assert own[-len(scores) :] == scores or own == scores[1:]


def test_a_wave_that_is_missing_keeps_its_place(tmp_path: Path) -> None:
    first, second = list(wmt25_segments())[1:3]
    first["scores"], second["scores"] = {"A": {"human0": 1}}, {"A": {"human1": 2}}
    (document,) = documents_of(write_lines(tmp_path / "x.jsonl", [first, second]))
    (one, _), (nothing, two) = document.ratings["esa"]["A"]
    assert (one and one.score, nothing, two and two.score) == (1.0, None, 2.0)


def test_mqm_is_told_from_esa_and_pairs_are_asked_for(tmp_path: Path) -> None:
    rows = [*wmt25_segments(), *wmt25_segments("en-ko_KR", is_mqm=True, seed=1)]
    path = write_lines(tmp_path / "x.jsonl", rows)
    with pytest.raises(InputError, match=r"en-cs_CZ \(\d+\), en-ko_KR \(\d+\).*--language-pair"):
        documents_of(path)
    with pytest.raises(InputError, match="no segments of 'de-en'"):
        documents_of(path, language_pair="de-en")
    with pytest.warns(LeftOutWarning, match="segments of other language pairs are left out"):
        korean = documents_of(path, language_pair="en-ko")
    assert {name for d in korean for name in d.ratings} == {"mqm"}
    scores = [
        s for d in korean for own in d.human["mqm"].values() if isinstance(own, tuple) for s in own
    ]
    assert max(s for s in scores if s is not None) <= 0


def test_scores_outside_of_their_range_are_counted(tmp_path: Path) -> None:
    first, second = list(wmt25_segments())[1:3]
    first["scores"], second["scores"] = {"A": {"human0": 5000}}, {"A": {"human0": 100}}
    path = write_lines(tmp_path / "x.jsonl", [first, second])
    with pytest.warns(LeftOutWarning, match="1 scores of esa are outside of 0 to 100"):
        documents_of(path)


def test_what_is_absent_is_counted(tmp_path: Path) -> None:
    rows = list(wmt25_segments())
    del rows[1]["tgt_text"]["B"]
    rows[2]["tgt_text"]["B"] = None
    rows[0]["scores"]["C"]["comment"] = "x"
    rows[0]["scores"]["D"]["errors0"] = [
        {"start_i": 0, "end_i": 10**6},
        {"start_i": 10**6, "end_i": 10**6},
    ]
    path = write_lines(tmp_path / "x.jsonl", rows)
    with pytest.warns(LeftOutWarning) as caught:
        documents = documents_of(path)
    said = str(caught[0].message)
    assert "2 texts of B are not there, and count as empty" in said
    assert "ratings of B are of texts that are not there" in said
    assert "1 values under scores.SYSTEM.comment are no numbers" in said
    assert "1 spans end behind their text, and were cut there" in said
    assert "1 spans have no place in their text, and were left out" in said
    assert documents[1].systems["B"][:2] == ("", "")


def test_segments_are_lists_to_choose_from(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", wmt25_segments())
    with open_lists(path, "wmt-jsonl", human=("esa",)) as lists:
        entries = [entry.record for entry in lists]
    assert all(record is not None for record in entries)
    third = entries[2]
    assert third is not None
    assert (third.document, third.position) == (f"{PAIR}_#_social_#_doc1", 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": []}, "scores: found"),
        ({"scores": {"A": {"human0": "x"}}}, r"2: scores\.A\.score: found 'x', expected a number"),
        ({"scores": {"A": {"human0": 1, "errors0": [3]}}}, r"errors\[0\]: found 3"),
        ({"doc_id": f"{PAIR}_#_news_#_doc0_#_0"}, "segment 0 comes twice"),
    ],
    ids=range(4),
)
def test_damage_names_its_line(tmp_path: Path, change: Row, message: str) -> None:
    first, second = next(wmt25_segments()), next(wmt25_segments())
    second["doc_id"] = f"{PAIR}_#_news_#_doc0_#_1"
    path = write_lines(tmp_path / "x.jsonl", [first, {**second, **change}])
    with pytest.raises(InputError, match=message):
        documents_of(path)


# -- WMT24: a text per line --


def test_a_text_per_line_makes_documents(tmp_path: Path) -> None:
    documents = documents_of(write_lines(tmp_path / "wmt24_esa.jsonl", wmt24_lines()))
    assert [(d.id, d.segments) for d in documents] == [
        ("test-en-news_x.1", 2),
        ("test-en-social_9", 1),
    ]
    first = documents[0]
    assert (list(first.systems), list(first.references)) == (["S1", "S2"], ["refA"])
    assert first.source == ("source 7", "source 8")
    assert [r and r.rater for r in first.ratings["esa"]["S2"][0]] == ["ann1", "ann2"]
    assert first.human["esa"]["S2"] == (80.5, 80.5)


def test_lines_of_two_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    one, *_ = wmt24_lines()
    path = write_lines(tmp_path / "x.jsonl", [one, {**one, "tgt": "other", "annotator": "y"}])
    with pytest.raises(InputError, match=r"x.jsonl:2: .*another text of 'S1'"):
        documents_of(path)
    path = write_lines(tmp_path / "y.jsonl", [one, next(wmt25_segments())])
    with pytest.raises(InputError, match=r"y.jsonl:2: no text of one system"):
        documents_of(path)


def test_the_last_rating_of_an_annotator_counts(tmp_path: Path) -> None:
    one, *_ = wmt24_lines()
    path = write_lines(tmp_path / "x.jsonl", [one, {**one, "esa_score": "5"}])
    with pytest.warns(LeftOutWarning, match="1 ratings were given again"):
        (document,) = documents_of(path)
    assert document.human["esa"]["S1"] == (5.0,)


# -- tables --


def test_mqm_counts_by_the_weights_of_the_task(tmp_path: Path) -> None:
    path = tmp_path / "mqm.tsv"
    path.write_text(mqm_table(), "utf-8")
    assert recognised_documents(path) == "rating-table"
    (document,) = documents_of(path)
    # S1: r1 5 + .1, r2 0; then neutral. S2: a fault of the source, then a non-translation
    assert document.human["mqm"] == {"S1": (-2.55, 0.0), "S2": (0.0, -25.0)}
    one, two = document.ratings["mqm"]["S1"][0]
    assert one is not None
    assert one.spans == (
        RatedSpan(4, 7, "major", "Accuracy/Mistranslation"),
        RatedSpan(8, 11, "minor", "Fluency/Punctuation"),
    )
    assert two == TextRating("r2", 0.0, ())
    (source_error,) = document.ratings["mqm"]["S2"][0]
    assert source_error is not None
    assert source_error.spans == (RatedSpan(0, 1, "major", "Source issue", in_source=True),)


def test_weights_can_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "mqm.tsv"
    path.write_text(mqm_table(), "utf-8")
    (document,) = documents_of(path, mqm_weights=("major=10", "minor/Fluency=2", "neutral=1"))
    assert document.human["mqm"]["S1"] == (-(10 + 0.1) / 2, -1.0)
    with pytest.raises(InputError, match="--mqm-weights: found 'major'"):
        documents_of(path, mqm_weights=("major",))


def test_errors_without_a_weight_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "mqm.tsv"
    path.write_text(mqm_table().replace("Major", "Grave"), "utf-8")
    with pytest.warns(
        LeftOutWarning, match="1 errors of severity 'Grave' have no weight, and count 0"
    ):
        documents_of(path, mqm_weights=("grave/non-translation!=25", "grave/source issue=0"))
    (document,) = documents_of(path, mqm_weights=("grave=5",))  # warnings are errors here
    assert document.human["mqm"] == {"S1": (-2.55, 0.0), "S2": (0.0, -25.0)}


def test_a_table_of_scores_is_esa(tmp_path: Path) -> None:
    path = tmp_path / "esa.csv"
    path.write_text(
        'system,doc,seg_id,rater,source,target,score\nA,d,1,r,s,"x, y",80\nA,d,1,q,s,"x, y",\n',
        "utf-8",
    )
    (document,) = documents_of(path)
    assert document.systems == {"A": ("x, y",)}
    assert document.human["esa"] == {"A": (80.0,)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("system\tdoc\tseg_id\ttarget\n", "no column severity or score"),
        (f"{MQM_HEAD}\nS1\td\n", "2: 2 cells, the head has 10"),
        (f"{MQM_HEAD}\n", "no lines below the head"),
        ("system,doc,seg_id,target,score\nA,d,1,x,much\n", "2: score: found 'much'"),
        ('system,doc,seg_id,target,score\nA,d,1,"x,1\n', "2: not a line of CSV"),
    ],
    ids=range(5),
)
def test_tables_that_are_damaged(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        list(read_rating_table(str(path)))


# -- the systems form --


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ({"esa": {"Z": [None]}}, "ratings.esa.Z: unknown system or reference"),
        ({"esa": {"A": []}}, "ratings.esa.A: 0 segments, the text has 1"),
        ({"esa": {"A": [[{"score": 1}]]}}, r"\[0\]\[0\].rater: is missing"),
        (
            {"esa": {"A": [[{"rater": "r", "score": 1, "spans": [{"start": 2, "end": 99}]}]]}},
            "from 2 to 99",
        ),
    ],
    ids=range(4),
)
def test_ratings_of_the_wrong_form_are_refused(tmp_path: Path, ratings: Any, message: str) -> None:
    row = {"id": "d", "systems": {"A": ["text"]}, "ratings": ratings}
    with pytest.raises(InputError, match=message):
        documents_of(write_lines(tmp_path / "x.jsonl", [row]))


def test_whole_texts_have_ratings_too(tmp_path: Path) -> None:
    rating = {"rater": "r", "score": 4}
    row = {"id": "d", "systems": {"A": "text", "B": "x"}, "ratings": {"esa": {"A": [[rating]]}}}
    (document,) = documents_of(write_lines(tmp_path / "x.jsonl", [row]))
    assert document.human == {"esa": {"A": 4.0}}


# -- Pearmut --

TEXTS = {"A": "one text", "B": "two 😀 text"}
SAID = {
    "A": {
        "score": 70,
        "error_spans": [{"start_i": 0, "end_i": 2, "severity": "minor", "category": None}],
    },
    "B": {
        "score": 90,
        "error_spans": [
            {"start_i": 4, "end_i": 5, "severity": "major"},  # the face takes two places of UTF-16
            {"start_i": 7, "end_i": 10, "severity": "minor"},
            {"start_i": 12, "end_i": 12, "severity": "major"},  # behind the text: [missing]
        ],
    },
}


def test_places_of_javascript_are_characters_here(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", [pearmut_record("u", "d:0", SAID, TEXTS)])
    assert recognised_documents(path) == "pearmut"
    (document,) = documents_of(path)
    ((rating,),) = document.ratings["esa"]["B"]
    assert rating is not None
    spans = [(s.start, s.end, s.severity) for s in rating.spans or ()]
    assert spans == [(4, 5, "major"), (6, 10, "minor"), (None, None, "major")]
    assert (TEXTS["B"][4:5], TEXTS["B"][6:10]) == ("😀", "text")
    assert rating.seconds == 10.0


def test_an_export_is_read_campaign_by_campaign(tmp_path: Path) -> None:
    log = [
        pearmut_record("u", "social_###_7_###_0", SAID, TEXTS),
        pearmut_record("u", "social_###_7_###_1", {"A": {"score": 1}}, TEXTS),
        pearmut_record("v", "attention_check_1", SAID, TEXTS),
        pearmut_record("v", "x", SAID, TEXTS, place="welcome_0"),
        {**pearmut_record("v", "social_###_8_###_0", SAID, TEXTS), "annotation": [None]},
        pearmut_record("w", "social_###_9_###_0", SAID, TEXTS),
        {"annotation": "__RESET__", "user_id": "w", "item_i": 0},
    ]
    path = tmp_path / "annotations.json"
    export = {"ces_Latn---deu_Latn v3": log, "eng_Latn---ces_Latn": log[:1]}
    for indent in (None, 2):
        path.write_text(json.dumps(export, indent=indent), "utf-8")
        assert recognised_documents(path) == "pearmut"
        with pytest.warns(LeftOutWarning) as caught:
            (row,) = read_pearmut(str(path), "ces_Latn-deu_Latn")
        assert row["id"] == "social_###_7"
        assert row["domain"] == "social"
        assert row["not_supplied"] == {"B": [1]}
        said = str(caught[0].message)
        assert "2 tutorials, checks and forms were left out" in said
        assert "1 items were skipped" in said
        assert "2 ratings were taken back by a reset" in said
        assert "1 segments of other language pairs are left out" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": [{"annotation": 1', "no JSON"),
        ('{"a": [3]}', "a 1: found 3, expected an object"),
        ('{"a": [{"annotation": [], "item": [1], "user_id": "u"}]}', "0 annotations of 1 items"),
        ("{}", "nothing was rated"),
    ],
    ids=range(4),
)
def test_annotations_that_are_damaged(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        list(read_pearmut(str(path)))


# -- judgements in files of their own --


def plain_documents() -> list[DocumentOutputs]:
    texts = {"A": ("one text", "x"), "B": ("two texts", "y")}
    return [
        DocumentOutputs("d", False, None, {"A": ("first",), "B": ("first",)}, {}, {}),
        DocumentOutputs("e", False, None, texts, {}, {}),
    ]


def test_annotations_of_raters_are_put_into_their_documents(tmp_path: Path) -> None:
    said = {
        "B": {
            "score": 55,
            "error_spans": [{"start_i": 0, "end_i": 2, "severity": "minor"}],
        }
    }
    texts = {"B": "two texts"}
    log = [pearmut_record(user, "e:0", said, texts) for user in ("u", "v", "u")]
    path = write_lines(tmp_path / "log.jsonl", log)
    with pytest.warns(LeftOutWarning, match="1 ratings were given again"):
        rows = read_judged_file(str(path), "esa")
    documents = with_judged(plain_documents(), rows, "esa")
    assert documents[1].human == {"esa of u": {"B": (55.0, None)}, "esa of v": {"B": (55.0, None)}}
    (first, second), nothing = documents[1].ratings["esa"]["B"]
    assert first == TextRating("u", 55.0, (RatedSpan(0, 3, "minor"),), 20.0)
    assert second is not None
    assert (second.rater, nothing) == ("v", ())
    assert with_means_of_raters(documents, "esa")[1].human == {"esa": {"B": (55.0, None)}}


def test_raters_who_judge_whole_documents_count_as_well(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "e", "esa": {"A": 40, "B": 60}, "rater": "anna"},
        {"id": "e", "esa": {"B": 70}, "rater": "ben"},
        {"id": "d:0", "esa": {"A": 10}, "rater": "anna"},
        {"id": "d:0", "esa": {"A": 90, "B": 20}},
    ]
    path = write_lines(tmp_path / "judged.jsonl", rows)
    judged = with_judged(plain_documents(), read_judged_file(str(path), "esa"), "esa")
    first, second = with_means_of_raters(judged, "esa")
    assert first.human == {"esa": {"A": (10.0,), "B": (20.0,)}}
    assert second.human == {"esa": {"A": 40.0, "B": 65.0}}
    path = write_lines(path, [*rows, {"id": "e:1", "esa": {"B": 50}, "rater": "carl"}])
    judged = with_judged(plain_documents(), read_judged_file(str(path), "esa"), "esa")
    with pytest.raises(InputError, match="document 'e': esa: 'B' has scores of its segments and"):
        with_means_of_raters(judged, "esa")


def test_a_text_that_was_not_judged_has_no_ratings(tmp_path: Path) -> None:
    for text, is_judged in ((" two  texts\n", True), ("two other texts", False)):
        log = [pearmut_record("u", "e:0", {"B": {"score": 55, "error_spans": []}}, {"B": text})]
        rows = read_judged_file(str(write_lines(tmp_path / "log.jsonl", log)), "esa")
        if is_judged:
            assert with_judged(plain_documents(), rows, "esa")[1].human["esa of u"]
            continue
        said = r"log.jsonl:1: e:0: of 'B' 'two other texts' was judged, its text is 'two texts'"
        with pytest.raises(InputError, match=said):
            with_judged(plain_documents(), rows, "esa")


APPRAISE = (
    "engces1,B,{segment},{kind},eng,ces,{score},{document},False,"
    '"[{{""start_i"":0,""end_i"":2,""severity"":""minor"",""error_type"":null}}]",100.0,{end}\n'
)


def appraise(**cells: Any) -> str:
    given = {"segment": 2, "kind": "TGT", "score": 80, "document": "e", "end": "120.0"}
    return APPRAISE.format(**{**given, **cells})


def test_appraise_counts_lines_over_all_documents(tmp_path: Path) -> None:
    path = tmp_path / "wave.csv"
    text = (
        appraise()
        + appraise(score=10, end="90.0")
        + appraise(kind="BAD")
        + appraise(document="e#dup")
    )
    path.write_text(text + appraise(document="x-tutorial1"), "utf-8")
    with pytest.warns(LeftOutWarning) as caught:
        rows = read_judged_file(str(path), "esa")
    said = str(caught[0].message)
    assert "1 lines of quality control (BAD) are left out" in said
    assert "1 lines of quality control (#dup) are left out" in said
    assert "1 lines of tutorials are left out" in said
    # lines 0 is the segment of d, 1 and 2 those of e; the rating that ended last counts
    judged = with_judged(plain_documents(), rows, "esa")[1]
    assert judged.human == {"esa of engces1": {"B": (None, 80.0)}}
    path.write_text(appraise(document="d"), "utf-8")
    with pytest.raises(InputError, match=r"wave.csv:1: id: line 2 is of document 'e', not of 'd'"):
        with_judged(plain_documents(), read_judged_file(str(path), "esa"), "esa")


def test_appraise_names_segments_of_wmt25(tmp_path: Path) -> None:
    name = f"{PAIR}_#_news_#_n1"
    document = DocumentOutputs(name, False, None, {"B": ("text a", "text b")}, {}, {})
    path = tmp_path / "wave.csv"
    path.write_text(appraise(segment=f"{name}_#_1", document=f"{name}_#_1"), "utf-8")
    (judged,) = with_judged([document], read_judged_file(str(path), "esa"), "esa")
    assert judged.human == {"esa of engces1": {"B": (None, 80.0)}}


def test_a_document_whose_name_is_a_number_is_no_segment(tmp_path: Path) -> None:
    line = next(wmt25_segments())
    rows = [{**line, "doc_id": f"{PAIR}_#_social_#_11{n}", "scores": {}} for n in range(3)]
    documents = documents_of(write_lines(tmp_path / "x.jsonl", rows))
    assert [d.id.rsplit("_#_", 1)[1] for d in documents] == ["110", "111", "112"]
