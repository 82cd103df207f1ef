"""The four tasks: how many lines of one's own each needs. That they run is seen with the other pages."""

from __future__ import annotations

import re

from .command_lines import ROOT, shown_on

PAGE = "docs/four-tasks.md"
OWN_LINES = [0, 5, 0, 0]
SHOWN_LINES = 10


def test_every_task_needs_as_few_lines_as_it_says() -> None:
    _, *parts = re.split(r"^## ", (ROOT / PAGE).read_text(encoding="utf-8"), flags=re.MULTILINE)
    counts = []
    for part in parts:
        code = "".join(re.findall(r"^```python\n(.*?)^```", part, re.MULTILINE | re.DOTALL))
        counts.append(len([line for line in code.splitlines() if line.strip()]))
        assert "discorank " in part
    assert counts == OWN_LINES


def test_three_tasks_show_their_first_ten_lines() -> None:
    shown = [one.code for one in shown_on(PAGE) if one.kind == "text"]
    assert [len(text.splitlines()) for text in shown] == [SHOWN_LINES + 1] * 3
    assert all(text.endswith("\n…\n") for text in shown)


def test_nothing_of_the_page_is_left_out() -> None:
    assert [one.code for one in shown_on(PAGE) if one.reason is not None] == []
