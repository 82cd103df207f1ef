"""Small valid files of everything that is read, for the law of all readers."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from discorank.cli.options.system_outputs import read_judged_file
from discorank.integrations.files.entries import ListEntry
from discorank.integrations.formats.document_outputs import read_documents
from discorank.integrations.formats.format_table import Format, formats
from discorank.integrations.formats.open_lists import open_documents, open_lists
from discorank.integrations.formats.readers.systems import SystemsOptions
from discorank.integrations.formats.score_columns import read_score_columns
from discorank.integrations.formats.system_texts import OutputFiles, read_outputs
from discorank.integrations.formats.wmt.eval_set_folder import (
    EvalSetOptions,
    read_eval_set,
)
from discorank.integrations.formats.wmt.judgements import read_rankings
from discorank.integrations.generation.prompts import read_prompts
from discorank.metrics.storage.line_source import LineSource
from discorank.rerank.lists import read_list, write_list
from tests.support.human_files import (
    MQM_HEAD,
    mqm_table,
    pearmut_record,
    wmt24_lines,
    wmt25_segments,
)

TOY = Path(__file__).parents[1] / "golden" / "mtme" / "evalset" / "toy"
FOLDER_FILES = (
    "documents/he-en.docs",
    "sources/he-en.txt",
    "references/he-en.refA.txt",
    "system-outputs/he-en/zeta.txt",
    "human-scores/he-en.mqm.seg.score",
    "metric-scores/he-en/Good-refA.doc.score",
)


class Read(NamedTuple):
    """A record under its key, or the error that stands in its place.

    Args:
        line: its first line, and `raw` all of its lines, where the reader keeps them.
    """

    key: Any
    value: Any
    line: int = 0
    raw: bytes = b""


Records = Iterator[Read]


class Sample(NamedTuple):
    """A small valid file.

    Args:
        read: the reader under the law.
        parts: records of whole lines, of different ids; between a head and a tail.
        separator: between the cells of a line that is not JSON.
        file: its name, whose ending may decide how it is read.
        beside: other files of the folder that are read with it, by name.
        covers_lines: entries have the lines that they were read from, and every line is in one.
    """

    read: Callable[[Path], Records]
    parts: tuple[str, ...]
    head: str = ""
    tail: str = ""
    separator: str = ""
    file: str = "file"
    beside: Mapping[str, str] = {}
    covers_lines: bool = False

    @property
    def text(self) -> str:
        """The whole file."""
        return self.head + "".join(self.parts) + self.tail

    def written(self, folder: Path) -> Path:
        """The path of the file, which others stand beside."""
        for name, text in self.beside.items():
            (folder / name).write_text(text, encoding="utf-8")
        path = folder / self.file
        path.write_bytes(self.text.encode())
        return path


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


# readers


def lists_of(format: str, **options: Any) -> Callable[[Path], Records]:
    """Candidate lists, each checked to be what is written of it."""

    def read(path: Path) -> Records:
        with open_lists(path, format, **options) as lists:
            for entry in lists:
                yield _checked(entry)

    return read


def _checked(entry: ListEntry) -> Read:
    assert (entry.record is None) != (entry.error is None)
    if entry.record is None:
        return Read(entry.id, entry.error, entry.line, entry.raw)
    assert entry.record.id == entry.id
    written = json.loads(json.dumps(write_list(entry.record), ensure_ascii=False).encode())
    assert read_list(written) == entry.record
    return Read(entry.id, entry.record, entry.line, entry.raw)


def documents_of(format: str) -> Callable[[Path], Records]:
    """Documents with the outputs of systems."""

    def read(path: Path) -> Records:
        for document in read_documents(open_documents(path, format), SystemsOptions()):
            yield Read(document.id, document)

    return read


def prompts_of(path: Path) -> Records:
    for entry in read_prompts(path):
        yield Read(entry.id, entry.record or entry.error)


def judgements_of(path: Path) -> Records:
    for i, row in enumerate(read_judged_file(str(path), "mqm")):
        yield Read(i, (row.id, row.system, row.rating))


def rankings_of(path: Path) -> Records:
    with closing(LineSource(path)) as source:
        yield from itertools.starmap(Read, read_rankings(source).items())


def score_columns_of(path: Path) -> Records:
    scores = read_score_columns([str(path)], {"a.txt": "A", "b.txt": "B"}, ["A", "B"], 3)
    for key, by_system in scores.items():
        for system, values in by_system.items():
            yield from (Read((key, system, i), value) for i, value in enumerate(values))


def outputs_of(path: Path) -> Records:
    for i, row in enumerate(read_outputs(OutputFiles((str(path),))).rows):
        yield Read(i, row)


def folder_of(name: str) -> Callable[[Path], Records]:
    """A folder of mt-metrics-eval with a file exchanged."""
    zeros = EvalSetOptions(missing="zeros")

    def read(path: Path) -> Records:
        folder = path.parent / "toy"
        if not folder.exists():
            shutil.copytree(TOY, folder)
        good = (folder / name).read_bytes()
        (folder / name).write_bytes(path.read_bytes())
        try:
            yield Read(name, read_eval_set(folder, "he-en", zeros))
        finally:
            (folder / name).write_bytes(good)

    return read


# samples

LISTS: tuple[dict[str, Any], ...] = (
    {
        "id": "a",
        "document": "d",
        "position": 0,
        "source": "s",
        "candidates": ["x", {"text": "y", "logprob": -1.5}],
    },
    {
        "id": "b",
        "document": "d",
        "position": 1,
        "candidates": [{"text": ["A b.", "C."], "roles": [1, "x"], "foci": [[["a", 0, 1]], []]}],
        "references": ["r"],
        "pseudo_references": [["p"]],
        "k": {"v": [1]},
    },
    {
        "id": "c",
        "candidates": [
            {
                "text": ["A b.", "C."],
                "rst": {
                    "nuc": "NS",
                    "rel": "Elaboration",
                    "children": [["A"], {"nuc": "N", "rel": "x", "children": [["C"]]}],
                },
            },
            "é🚀\u2028",
        ],
        "context_only": True,
    },
)
_SYSTEMS: tuple[dict[str, Any], ...] = (
    {
        "id": "a",
        "source": ["s", "t"],
        "references": {"r": ["r", "q"]},
        "systems": {"A": ["a", "b"], "B": ["c", "é🚀"]},
        "human": {"x": {"A": [1, None]}, "y": {"B": 2.5}},
        "ratings": {"esa": {"A": [[{"rater": "r", "score": 1, "spans": []}], None]}},
        "domain": "news",
    },
    {
        "id": "b",
        "source": "s",
        "references": ["r"],
        "systems": {"A": "a"},
        "human": {"A": {"x": 1}},
    },
    {"id": "c", "systems": {"A": ["a"], "B": ["b"]}},
)
_SUMMARY = {
    "model_id": "A",
    "decoded": "a",
    "references": ["r", "s"],
    "text": "t",
    "expert_annotations": [{"fluency": 5}, {"fluency": 4}],
    "turker_annotations": [{"fluency": 1}],
}


def _batch(name: str) -> Any:
    choices = [
        {"index": 1, "text": "é🚀", "logprobs": {"token_logprobs": [-1, -2.5]}},
        {"index": 0, "message": {"content": "b"}, "finish_reason": "length"},
    ]
    response = {"status_code": 200, "body": {"choices": choices}}
    return {"custom_id": name, "response": response, "error": None}


def _harness(number: int, filter: str) -> Any:
    return {
        "doc_id": number,
        "doc": {"k": [1]},
        "target": "t",
        "arguments": {"gen_args_0": {"arg_0": "é🚀", "arg_1": {}}},
        "resps": [["a", "b"]],
        "filter": filter,
    }


def _xml(name: str) -> str:
    return (
        f'<doc origlang="en" domain="news" id="{name}"><src lang="en"><p>\n<seg id="1">One &amp; é🚀.</seg>\n'
        '<seg id="2">Two.</seg></p></src>\n<ref lang="de" translator="A"><p><seg id="1">Eins.</seg>\n'
        '<seg id="2">Zwei.</seg></p></ref>\n<hyp system="A" language="de"><p>\n'
        '<seg id="1">a</seg><seg id="2"/></p></hyp></doc>\n'
    )


def _few_systems(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Segments of the systems A and B alone."""
    names = ("tgt_text", "scores")
    return [row | {name: {s: row[name][s] for s in "AB"} for name in names} for row in rows]


def _by_document(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """Lines of each document."""
    keyed: dict[str, list[Any]] = {}
    for row in rows:
        keyed.setdefault(row["doc_id"].rpartition("_#_")[0] or row["doc_id"], []).append(row)
    return tuple(lines(*of_one) for of_one in keyed.values())


_PEARMUT = {"A": {"score": 70, "error_spans": [{"start_i": 0, "end_i": 2, "severity": "minor"}]}}
_MQM_LINES = mqm_table().splitlines(keepends=True)
_FAIRSEQ = (
    "S-{0}\ts\nT-{0}\tr\nW-{0}\t0.1\tseconds\nH-{0}\t-1\té🚀\nD-{0}\t-1\tx\nP-{0}\t-1.0 -inf\nA-{0}\t0-0\n"
    "I-{0}\t2\nE-{0}_0\tc\n"
)
# parts of the formats of the table; of others, their example is one
PARTS: dict[str, tuple[str, ...]] = {
    "jsonl": tuple(map(lines, LISTS)),
    "systems": tuple(map(lines, _SYSTEMS)),
    "flat": ("a\nb\n", "é🚀\n\n", "x\u2028y\nz\n"),
    "moses": tuple(
        f"{i} ||| a ||| LM0= -1 TM0= 1 2 ||| -3 ||| 0-0\n{i} ||| é🚀 ||| LM0= 1 ||| -4 ||| 0-0\n"
        for i in range(3)
    ),
    "marian": tuple(
        f"{i} ||| a ||| 0-0 ||| F0= -1 ||| -3\n{i} ||| é🚀 ||| 0-0 ||| F0= -1 ||| -4\n"
        for i in range(3)
    ),
    "fairseq": tuple(map(_FAIRSEQ.format, range(3))),
    "batch": tuple(lines(_batch(name)) for name in "abc"),
    "lm-eval": tuple(lines(_harness(i, "x"), _harness(i, "y")) for i in range(3)),
    "summeval": tuple(lines({"id": name, **_SUMMARY}) for name in "abc"),
    "wmt-xml": tuple(map(_xml, "abc")),
    "wmt-jsonl": _by_document(_few_systems(list(wmt25_segments(documents=2, words=1)))),
    "pearmut": tuple(
        lines(pearmut_record("u", f"{name}:0", _PEARMUT, {"A": "one text"})) for name in "abc"
    ),
    "rating-table": tuple(
        "".join(line.replace("\td1\t", f"\t{name}\t") for line in _MQM_LINES[1:]) for name in "abc"
    ),
}
FRAMES = {
    "wmt-xml": ('<?xml version="1.0"?>\n<dataset id="t">\n', "</dataset>\n"),
    "rating-table": (f"{MQM_HEAD}\n", ""),
}
SEPARATORS = {"moses": " ||| ", "marian": " ||| ", "fairseq": "\t", "rating-table": "\t"}
OPTIONS: dict[str, dict[str, Any]] = {"flat": {"num_candidates": 2}}
FOLDERS = {"mtme", "sacrebleu"}  # formats of several files, below


def _of_format(format: Format) -> Iterator[tuple[str, Sample]]:
    parts = PARTS.get(format.name, (format.example,))
    assert all(parts), f"{format.name}: declare an example, or parts here"
    head, tail = FRAMES.get(format.name, ("", ""))
    covers = format.documents is None or format.name == "systems"
    options = OPTIONS.get(format.name, {})
    separator = SEPARATORS.get(format.name, "")
    as_lists = lists_of(format.name, **options)
    sample = Sample(as_lists, parts, head, tail, separator, covers_lines=covers)
    yield format.name, sample
    if format.documents is not None:
        reader = documents_of(format.name)
        yield f"{format.name} documents", sample._replace(read=reader, covers_lines=False)


def _samples() -> dict[str, Sample]:
    samples: dict[str, Sample] = {}
    for format in formats().values():
        if format.name not in FOLDERS:
            samples.update(_of_format(format))
    rows = tuple(f"{name},s,a text,0.5,n\n{name},s,é🚀,-1,\n" for name in "abc")
    table = Sample(lists_of("jsonl"), rows, "id,source,text,score,note\n", "", ",", "file.csv")
    samples["csv"] = table
    tabbed = tuple(row.replace(",", "\t") for row in rows)
    samples["tsv"] = table._replace(
        parts=tabbed, head=table.head.replace(",", "\t"), separator="\t", file="file.tsv"
    )
    wmt24 = wmt24_lines()
    documents = {row["doc_id"]: row for row in wmt24}
    parts = tuple(lines(*(r for r in wmt24 if r["doc_id"] == name)) for name in documents)
    samples["ratings per line"] = Sample(documents_of("wmt-jsonl"), parts)
    texts = {"x.en-de.ref": "r\n" * 3, "x.en-de.docid": "d\nd\ne\n", "x.en-de.hyp.A": "a\n" * 3}
    samples["sacrebleu"] = Sample(
        documents_of("sacrebleu"), ("s\n", "t\n", "é🚀\n"), file="x.en-de.src", beside=texts
    )
    prompts = tuple(lines({"id": i, "source": "s", "topic": "t"}) for i in "abc")
    samples["prompts"] = Sample(prompts_of, prompts)
    judged = tuple(lines({"id": i, "rater": "r", "mqm": {"A": 1.5, "B": None}}) for i in "abc")
    samples["judgements"] = Sample(judgements_of, judged)
    ranked = tuple(lines({"id": i, "ranks": {"A": 1, "B": 2}}) for i in "abc")
    samples["rankings"] = Sample(rankings_of, ranked)
    scores = ("0,,x\n", "5,1.5,y\n", "1,2,z\n")
    columns = Sample(score_columns_of, scores, "A,B,who\n", "", ",", "mqm.csv")
    samples["score columns"] = columns
    samples["scores by row"] = columns._replace(
        head="system,segment,score\n", parts=("A,1,0\n", "B,2,1.5\n", "A,3,2\n")
    )
    samples["plain outputs"] = Sample(outputs_of, ("a\n", "\n", "é🚀\n"))
    rows_of_texts = tuple(lines({"id": str(i), "document": "d", "text": "a"}) for i in range(3))
    samples["decoded outputs"] = Sample(outputs_of, rows_of_texts)
    for name in FOLDER_FILES:
        text = (TOY / name).read_text(encoding="utf-8")
        samples[name] = Sample(folder_of(name), (text,), separator="\t")
    return samples


SAMPLES = _samples()
