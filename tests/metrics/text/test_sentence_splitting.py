"""Sentence splitting, and functions of the user's own that settings name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.metrics.errors import InputError, MetricError, ModelLoadError
from discorank.metrics.spec.user_code import function_named
from discorank.metrics.text.sentence_splitting import sentences, splitter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'Mr. Smith left. "Why?" he asked.  It rained',
            ["Mr. Smith left.", '"Why?" he asked.', "It rained"],
        ),
        ("it rained . we left . (why ?) 3 men", ["it rained .", "we left .", "(why ?)", "3 men"]),
        (
            "Version 2.5 is out, e.g. Here. Das war's.",
            ["Version 2.5 is out, e.g. Here.", "Das war's."],
        ),
        ("今日は。明日？「はい。」終わり", ["今日は。", "明日？", "「はい。」", "終わり"]),
        ("A heading\nand a line", ["A heading", "and a line"]),
        ("Он ушёл. Она нет.", ["Он ушёл.", "Она нет."]),
        (
            "Der U. S. Army. “Ja.” „Nein.“ (Gut.) ¿Qué? ¡Sí!",
            ["Der U. S. Army.", "“Ja.”", "„Nein.“ (Gut.)", "¿Qué?", "¡Sí!"],
        ),
        ("  \n ", []),
    ],
)
def test_the_rule(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet="aB1 .!?…。\n\"'“(", max_size=60))
def test_only_white_space_is_lost(text: str) -> None:
    pieces = sentences(text)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(pieces)


def test_a_long_line_is_split_in_linear_time() -> None:
    assert len(sentences("It rained. " * 50_000)) == 50_000


def test_pysbd() -> None:
    pytest.importorskip("pysbd")
    assert splitter("pysbd:en")("It is p. 3. We left.") == ["It is p. 3.", "We left."]
    with pytest.raises(InputError, match="pysbd:xx"):
        splitter("pysbd:xx")


def test_own_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "def lines(text): return text.split('|')\n"
        "def bad(text): return 3\n"
        "def worse(text): raise KeyError(3)\n"
        "x = 1\n"
    )
    (tmp_path / "own_splitter.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert splitter("own_splitter:lines")("a| b |") == ["a", "b"]
    for name in ("bad", "worse"):
        with pytest.raises(MetricError, match=name):
            splitter(f"own_splitter:{name}")("a")
    with pytest.raises(InputError, match="own_splitter:x"):
        function_named("own_splitter:x", "sentences")
    for name in ("own_splitter:y", "no_such_module:y"):
        with pytest.raises(ModelLoadError, match=name):
            splitter(name)
    with pytest.raises(InputError, match="punkt"):
        splitter("punkt")
