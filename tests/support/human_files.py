"""Files of human evaluations with the layout of those that WMT released, of made-up texts: for tests and benchmarks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SYSTEMS = ("A", "B", "C", "D")
DOMAINS = ("news", "social", "speech")
SIZES = (1, 3, 30)  # segments of the first documents
QUALITY = {"A": 60, "B": 66, "C": 80, "D": 86, "refA": 95}


def errors_of(text: str, score: float, draw: random.Random, with_category: bool) -> list[Any]:
    """Spans in the words of Appraise and Pearmut: places of the first and last character, or "missing"."""
    errors: list[dict[str, Any]] = []
    for _ in range(int(100 - score) // 15):
        start = draw.randrange(len(text))
        end = min(len(text) - 1, start + draw.randrange(6))
        severity = draw.choice(["minor", "major"])
        errors.append({"start_i": start, "end_i": end, "severity": severity})
    if draw.random() < 0.05:
        errors.append({"start_i": "missing", "end_i": "missing", "severity": "major"})
    if with_category:
        errors = [{**error, "category": "Accuracy/Omission"} for error in errors]
    return errors


def wmt25_segments(
    pair: str = "en-cs_CZ", documents: int = 12, seed: int = 0, is_mqm: bool = False, words: int = 6
) -> Iterator[dict[str, Any]]:
    """The lines of a language pair: three domains, documents of 1 to 30 segments, two annotators, some waves missing.

    The last quarter of the documents has no scores.
    """
    draw = random.Random(seed)
    for number in range(documents):
        size = SIZES[number % 3] if number < 6 else 1 + number % 7
        domain = DOMAINS[number % 3]
        for i in range(size):
            texts = {
                s: " ".join([s, *draw.choices(["lorem", "ipsum", "dolor", "sit", "amet"], k=words)])
                for s in (*SYSTEMS, "refA")
            }
            line: dict[str, Any] = {"doc_id": f"{pair}_#_{domain}_#_doc{number}_#_{i}"}
            line["src_text"] = f"source {number} {i}"
            line["refs"] = {"refA": {"ref": texts["refA"]}}
            line["tgt_text"] = {s: texts[s] for s in SYSTEMS}
            line["scores"] = {}
            if number < documents - documents // 4:
                line["scores"] = {s: _scores(s, texts[s], pair, draw, is_mqm) for s in texts}
            yield line


def _scores(system: str, text: str, pair: str, draw: random.Random, is_mqm: bool) -> dict[str, Any]:
    """What one or two annotators say of a text, and a metric."""
    said: dict[str, Any] = {}
    for wave in (0, 1):
        if wave and draw.random() < 0.25:
            continue
        score = float(min(100, max(0, round(draw.gauss(QUALITY[system], 15)))))
        said[f"human{wave}"] = -(100 - score) / 10 if is_mqm else score
        said[f"errors{wave}"] = errors_of(text, score, draw, is_mqm)
        said[f"annotator{wave}"] = f"{pair}_#_annotator{draw.randrange(3) + 3 * wave}"
        said[f"times{wave}"] = [1000.0, 1000.0 + draw.randrange(5, 90)]
    said["MetricX-25"] = draw.random()
    return said


def write_lines(path: Path, rows: Any) -> Path:
    """Writes rows as JSON lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def wmt24_lines() -> list[dict[str, Any]]:
    """Ratings of two documents as ``wmt24_esa.jsonl`` has them, a text per line in the order of annotation."""
    lines = []
    for annotator, step in (("ann1", 0), ("ann2", 1)):
        for system in ("S1", "S2", "refA"):
            for line_id, document in (
                (7, "test-en-news_x.1"),
                (8, "test-en-news_x.1"),
                (3, "test-en-social_9"),
            ):
                lines.append(
                    {
                        "langs": "en-cs",
                        "line_id": line_id,
                        "src": f"source {line_id}",
                        "tgt": f"{system} text {line_id}",
                        "doc_id": document,
                        "domain": document.split("-")[2].split("_")[0],
                        "esa_spans": [
                            {"start_i": 0, "end_i": 1, "severity": "minor", "error_type": None}
                        ],
                        "esa_score": str(70 + 10 * (system == "S2") + step),
                        "times": ["100.5", "110.5"],
                        "system": system,
                        "annotator": annotator,
                        "speech_info": None,
                    }
                )
    return lines


MQM_HEAD = "system\tdoc\tdocSegId\tglobalSegId\trater\tsource\ttarget\tcategory\tseverity\tmetadata"


def mqm_table() -> str:
    """Annotations of MQM as WMT's TSV has them: an error per line, the error between <v> and </v>."""
    rows = [
        (
            "S1",
            "d1",
            "1",
            "11",
            "r1",
            "s one",
            "the <v>cat</v> sat",
            "Accuracy/Mistranslation",
            "Major",
        ),
        (
            "S1",
            "d1",
            "1",
            "11",
            "r1",
            "s one",
            "the cat <v>sat</v>",
            "Fluency/Punctuation",
            "Minor",
        ),
        ("S1", "d1", "1", "11", "r2", "s one", "the cat sat", "No-error", "no-error"),
        ("S2", "d1", "1", "11", "r1", "<v>s</v> one", "a cat", "Source issue", "Major"),
        ("S2", "d1", "2", "12", "r1", "s two", "<v>all wrong</v>", "Non-translation!", "Major"),
        ("S1", "d1", "2", "12", "r1", "s two", "fine", "Style/Awkward", "Neutral"),
    ]
    return "\n".join([MQM_HEAD, *("\t".join([*row, "{}"]) for row in rows)]) + "\n"


def pearmut_record(
    user: str, item: str, said: dict[str, Any], texts: dict[str, str], place: int | str = 0
) -> dict[str, Any]:
    """A line of Pearmut's log, of a document of one item."""
    return {
        "annotation": [said],
        "actions": [{"time": 10.0, "action": "load"}, {"time": 30.0, "action": "submit"}],
        "item": [{"item_id": item, "src": f"source of {item}", "tgt": texts}],
        "user_id": user,
        "item_i": place,
    }
