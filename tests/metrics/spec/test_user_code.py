"""Code that a file names: refused before anything is imported, loaded where its module is allowed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from discorank import InputError, MBRDecoder, load_metric
from discorank.cli.main import main
from discorank.metrics import registry
from discorank.metrics.combination import Combination
from discorank.metrics.registry import load_from_data, load_without_code
from discorank.metrics.spec.user_code import AllowedCode, CodeRefusedError, code_in

# A stranger's file need not have a checksum.
pytestmark = pytest.mark.filterwarnings(
    "ignore::discorank.metrics.storage.checksums.UncheckedWarning"
)
MODULE = "metrics_of_a_friend"
CODE = """
import os
from os import system


def overlap(hypothesis, reference):
    return float(len(set(str(hypothesis)) & set(str(reference))))


def split(text):
    return str(text).split(".")


class Outer:
    @staticmethod
    def inner(hypothesis, reference):
        return 1.0
"""


@pytest.fixture
def friend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A combination that names code of a module in the working directory."""
    (tmp_path / f"{MODULE}.py").write_text(CODE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield write(tmp_path, f"{MODULE}:overlap")
    sys.modules.pop(MODULE, None)


def write(folder: Path, *metrics: str) -> Path:
    features = [{"metric": metric, "weight": 2, "min": 0, "max": 1} for metric in metrics]
    path = folder / "m.json"
    path.write_text(json.dumps({"format": 1, "features": features}), encoding="utf-8")
    return path


def lists_in(folder: Path) -> str:
    path = folder / "lists.jsonl"
    path.write_text('{"id": "x", "candidates": ["ab", "abc", "c"]}\n', encoding="utf-8")
    return str(path)


def test_a_combination_needs_leave(friend: Path) -> None:
    with pytest.raises(CodeRefusedError, match=rf"m.json: features.0.*--allow-code {MODULE}"):
        load_metric("combination", model=str(friend))
    assert MODULE not in sys.modules
    for allowed in (MODULE, (MODULE,), ("other", MODULE)):
        metric = load_metric("combination", model=str(friend), allow_code=allowed)
        assert isinstance(metric, Combination)
        assert metric.pairwise(["ab"], ["bc"]).tolist() == [[2.0]]
    again: dict[str, Any] = {"name": "combination", "model": str(friend)}
    assert load_metric(again, allow_code=MODULE) == metric
    assert load_metric(f"chrf + {metric.signature()}", allow_code=MODULE)
    record = {"id": "x", "candidates": ["ab", "abc", "c"]}
    assert next(MBRDecoder(utility=metric).decode([record])).text == "abc"


@pytest.mark.parametrize("allowed", ["metrics_of", f"{MODULE}.sub", "other", "m"])
def test_leave_for_another_module_is_none(friend: Path, allowed: str) -> None:
    with pytest.raises(CodeRefusedError):
        load_metric("combination", model=str(friend), allow_code=allowed)
    assert MODULE not in sys.modules


@pytest.mark.parametrize(
    ("spec", "home"),
    [
        (f"{MODULE}:system", "posix"),
        (f"{MODULE}:os.system", "posix"),
        (f"{MODULE}:os.path.join", "posixpath"),
        (f"{MODULE}:Outer.__init__.__class__", None),
        (f'pdd(sentences="{MODULE}:os.popen")', "os"),
    ],
)
def test_a_module_opens_no_other(friend: Path, spec: str, home: str | None) -> None:
    write(friend.parent, spec)
    match = f"which is code of '{home}'" if home else "which is code of"
    with pytest.raises(CodeRefusedError, match=match):
        load_metric("combination", model=str(friend), allow_code=MODULE)
    if home:
        allowed = AllowedCode.of((MODULE, home))
        assert load_from_data(spec, allowed)


def test_parts_of_a_module_count(friend: Path) -> None:
    write(friend.parent, f"{MODULE}:Outer.inner", f'pdd(sentences="{MODULE}:split")')
    assert load_metric("combination", model=str(friend), allow_code=MODULE)


def test_names_of_code_in_settings() -> None:
    settings = {
        "nouns": "hanta:en",
        "sentences": "pysbd:en",
        "schema": ["a b", "c"],
        "model": "./m@sha256:00",
        "deep": {"a:b": [1, ["c.d:e", None]]},
    }
    assert sorted(code_in(settings)) == ["a:b", "c.d:e"]
    swapped = {"sentences": "hanta:en", "nouns": "pysbd:en", "x": "spacy:/tmp/model"}
    assert len(list(code_in(swapped))) == 3
    nested: Any = "a:b"
    for _ in range(5000):
        nested = [nested]
    assert list(code_in({"x": nested})) == ["a:b"]


def test_a_plug_in_is_the_user_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody installed it under a plain name: files may name it, but report, check and cite import nothing."""
    point = EntryPoint("plugged", "tests.support.contextual:Echo", registry.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    registry.names.cache_clear()
    try:
        utility = f'combination(model="{write(tmp_path, "plugged")}")'
        named = load_metric(utility).parts[0][1].signature()
        assert named == point.value  # and files that name it so need no leave either
        assert load_from_data(named, AllowedCode()) == load_from_data("plugged", AllowedCode())
        assert load_from_data("plugged", AllowedCode.of("tests.support", plug_ins=False))
        for spec in ("plugged", named, utility):
            with pytest.raises(CodeRefusedError, match=r"--allow-code tests\.support\.contextual"):
                load_without_code(spec)
            assert main(["check", lists_in(tmp_path), "-u", spec, "--quiet"]) == 0
            assert "cost and needs are not shown" in capsys.readouterr().out
            assert main(["cite", spec, "--quiet"]) == 0
    finally:
        registry.names.cache_clear()


def test_a_yaml_file_without_code(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("name: chrf\nbeta: 1\n", encoding="utf-8")
    assert load_without_code(str(path)) == load_metric("chrf", beta=1.0)
    path.write_text("beta: 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r'Write \{"name": "chrf"'):
        load_without_code(str(path))
    path.write_text("name: chrf\nallow_code: [os]\n", encoding="utf-8")
    with pytest.raises(InputError, match="allow_code"):
        load_metric(path)


def test_the_option_of_commands(friend: Path) -> None:
    utility = f'combination(model="{friend}")'
    lists = lists_in(friend.parent)
    systems = friend.parent / "systems.jsonl"
    rows = [
        {"id": f"d{i}", "systems": {"A": ["ab"], "B": ["c"]}, "references": {"r": [f"a{i}"]}}
        for i in range(3)
    ]
    systems.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = str(friend.parent / "text")
    Path(text).write_text("ab\n", encoding="utf-8")
    config = friend.parent / "c.yaml"
    config.write_text(f"allow_code: [{MODULE}]\n", encoding="utf-8")
    trained = ["train", "combination", str(systems), "--from", "systems", "-m", "chrf"]
    for command in (
        ["decode", lists, "-u", utility],
        ["decode", lists, "-u", "chrf", "--shortlist", utility],
        ["explain", lists, "-u", utility],
        ["compare", str(systems), "-m", utility, "--draws", "10"],
        ["score", "--hypotheses", text, "--references", text, "-m", utility],
        [*trained, "--teacher", utility, "-o", str(friend.parent / "new.json")],
    ):
        assert main([*command, "--quiet"]) == 2
        assert main([*command, "--quiet", "--allow-code", MODULE]) == 0
    assert main(["decode", lists, "-u", utility, "--quiet", "--config", str(config)]) == 0
