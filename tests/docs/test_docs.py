"""What the documentation shows is what happens."""

from __future__ import annotations

import re
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from discorank.cli.main import main

ROOT = Path(__file__).parents[2]


def blocks(path: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```",
        (ROOT / path).read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )


def test_the_metric_in_the_guide_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = blocks("docs/writing-a-metric.md", "python")
    (tmp_path / "length.py").write_text(code)
    (tmp_path / "lists.jsonl").write_text(
        '{"id": "a", "candidates": ["one", "three", "a very long text"]}\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["decode", "lists.jsonl", "-u", "length:Length(power=2)", "--quiet"]) == 0
    assert '"index": 1' in capsys.readouterr().out


def test_the_fairseq_hub_interface_works_as_described(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from discorank.integrations.fairseq import hub

    from ..support.fairseq_hub import Hub

    monkeypatch.setattr(hub, "load", lambda *given, **options: Hub())
    (code,) = blocks("docs/n-best-lists.md", "python")
    exec(code, {})
    assert sorted(capsys.readouterr().out) == sorted("the dog finds your cat .\n")


def test_the_page_of_metrics_names_every_metric() -> None:
    from discorank.metrics.names import BUILT_IN

    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert [name for name in BUILT_IN if f"| `{name}` |" not in text] == []


def made_tables() -> ModuleType:
    spec = spec_from_file_location("make_tables", ROOT / "docs" / "make_tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = module_from_spec(spec)
    spec.loader.exec_module(tables)
    return tables


def test_tables_are_up_to_date() -> None:
    tables = made_tables()
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        assert tables.with_tables(text) == text, "run: make docs"


def test_the_table_of_what_serve_chooses_has_every_reason() -> None:
    """`outcome` asks the code that reads requests: a reason that no row brings is a row that is missing."""
    from discorank.integrations.proxy.questions import CHOSEN_PATHS, Reason

    table = made_tables().table_of_choices()
    assert set(re.findall(r"passes: `([^`]+)`", table)) == set(get_args(Reason))
    for path in CHOSEN_PATHS:
        assert f"`/v1/{path}`" in table


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    docs = ROOT / "docs"
    found = (*docs.glob("*.md"), *docs.glob("results/*.md"))
    pages = {page.relative_to(docs).as_posix() for page in found} - {"index.md"}
    assert [page for page in sorted(pages) if f"({page})" not in index] == []


def test_the_design_names_what_is_there() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    paths = re.findall(
        r"`((?:src|metrics|rerank|integrations|configs|tests|docs|examples|benchmarks)/[\w/.]*)`",
        text,
    )
    assert [path for path in paths if not (ROOT / path).exists()] == []
    packaging = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    unnamed = []
    for name in packaging["tool"]["setuptools"]["packages"]:
        parts = name.split(".")[1:]
        ends = {"/".join(parts[i:]) for i in range(len(parts))} | {
            f"src/{'/'.join(name.split('.'))}"
        }
        unnamed += [name] * (not any(f"`{end}`" in text for end in ends))
    assert unnamed == []
