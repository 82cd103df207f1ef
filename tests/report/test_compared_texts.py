"""`discorank.compare`: it says what the terminal says, and gives its numbers as data frames and values of JSON."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import discorank
from discorank import InputError
from discorank.cli.main import main
from discorank.rerank.selection.saved_comparison import load

REFERENCES = [f"the cat sat on mat number {i} and slept" for i in range(24)]
SYSTEMS = {
    "good": [text.replace("cat", "cats") for text in REFERENCES],
    "bad": [
        text.replace("sat on", "was at") if i % 3 else text for i, text in enumerate(REFERENCES)
    ],
}
DOCUMENTS = [f"d{i // 3}" for i in range(24)]
MQM: dict[str, list[float | None]] = {
    "good": [1.0, 0.0] * 12,
    "bad": [*[3.0, 2.0] * 11, 1.0, None],
}


def systems_file(folder: Path) -> str:
    rows = []
    for d in range(8):
        part = slice(3 * d, 3 * d + 3)
        rows.append(
            {
                "id": f"d{d}",
                "references": {"reference": REFERENCES[part]},
                "systems": {name: texts[part] for name, texts in SYSTEMS.items()},
                "human": {"mqm": {name: scores[part] for name, scores in MQM.items()}},
            }
        )
    path = folder / "systems.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def compared(**options: Any) -> Any:
    settings = {"metrics": ["chrf", "bleu"], "draws": 200, **options}
    return discorank.compare(SYSTEMS, REFERENCES, **settings)


def test_it_prints_what_the_terminal_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = compared(human={"mqm:lower": MQM}, documents=DOCUMENTS)
    options = ["-m", "chrf", "bleu", "--human", "mqm:lower", "--draws", "200", "--quiet"]
    assert main(["compare", systems_file(tmp_path), *options]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(repr(comparison) + "\n--details")
    assert printed.count("\n") == repr(comparison).count("\n") + 2
    assert "people's mqm" in repr(comparison).splitlines()[0]
    assert comparison.best == "good"


def test_a_notebook_shows_it_escaped() -> None:
    systems = {"<b>one</b>": SYSTEMS["good"], "two & more": SYSTEMS["bad"]}
    shown = discorank.compare(systems, REFERENCES, draws=50)._repr_html_()
    assert shown.startswith("<pre>")
    assert re.findall("<.*?>", shown) == ["<pre>", "</pre>"]
    assert "&lt;b&gt;one" in shown


def test_a_data_frame_of_scores() -> None:
    pytest.importorskip("pandas")
    comparison = compared(human={"mqm:lower": MQM})
    frame = comparison.to_pandas()
    assert frame["by"].tolist() == ["mqm", "mqm", "chrf", "chrf", "bleu", "bleu"]
    assert frame["system"].tolist() == ["good", "bad"] * 3
    assert frame["human"].tolist() == [True] * 2 + [False] * 4
    both = [
        (a, b)
        for a, b in zip(MQM["good"], MQM["bad"], strict=True)
        if a is not None and b is not None
    ]
    difference = math.fsum(b - a for a, b in both) / len(both)
    good, bad = frame["score"].tolist()[:2]
    assert bad - good == pytest.approx(difference)
    assert (frame["low"] <= frame["score"]).all()
    assert (frame["score"] <= frame["high"]).all()
    assert frame["best_rank"].tolist()[:2] == [1, 2]


def test_to_dict_is_json_without_texts() -> None:
    data = compared(human={"mqm:lower": MQM}).to_dict()
    written = json.dumps(data, allow_nan=False)
    assert "cats" not in written
    assert data["headline"].startswith("Ship good")
    assert data["settings"]["seed"] == 0
    assert [metric["name"] for metric in data["metrics"]] == ["chrf", "bleu"]
    assert {row["system"] for row in data["scores"]} == {"good", "bad"}


def test_it_is_saved_for_a_report(tmp_path: Path) -> None:
    comparison = compared(documents=DOCUMENTS)
    comparison.save(tmp_path / "saved")
    assert load(tmp_path / "saved").systems == ("good", "bad")


def test_human_scores_by_system_alone() -> None:
    comparison = compared(human={"good": [1.0] * 24, "bad": [0.5] * 24})
    assert [human.scores.name for human in comparison.kept.human] == ["human"]
    assert comparison.kept.human[0].scores.higher_is_better


def test_one_metric_several_references_and_none() -> None:
    two = {"a": REFERENCES, "b": SYSTEMS["bad"]}
    comparison = discorank.compare(SYSTEMS, two, discorank.load_metric("chrf"), draws=50)
    assert comparison.kept.metrics[0].scores[1] == 100
    with pytest.raises(InputError, match="reference"):
        discorank.compare(SYSTEMS, None, draws=50)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"systems": {}}, "systems: no systems"),
        ({"systems": {"a": ["x"], "b": ["x", "y"]}}, r"systems\['b'\]: found 2 segments, systems\['a'\] has 1"),
        ({"systems": {"a": "one text"}}, r"systems\['a'\]: found 'one text'. Give a list"),
        ({"systems": {"a": []}, "references": []}, "found 0 segments"),
        ({"references": ["x"]}, r"references\['reference'\]: found 1 segments, .* has 24"),
        ({"documents": ["a"] * 23}, "documents: found 23 segments"),
        ({"documents": ["a"] * 3 + ["b"] * 3 + ["a"] * 18}, "segment 7: document 'a' comes back"),
        ({"metrics": ["chrf", "chrf"]}, "chrf is given twice"),
        ({"metrics": "chfr"}, "Did you mean 'chrf'"),
        ({"human": {"mqm:low": MQM}}, "expected NAME or NAME:lower"),
        ({"human": {"mqm": {"good": [1.0]}}}, r"human\['mqm'\]\['good'\]: found 1 segments"),
        ({"human": {"mqm": {"other": [1.0] * 24}}}, "other"),
        ({"systems": {"a": [3] * 24}}, r"systems.a\[0\]: found 3, expected a text"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    given = {"systems": SYSTEMS, "references": REFERENCES, "draws": 20, **change}
    with pytest.raises(InputError, match=message):
        discorank.compare(**given)
