"""The four tasks of the quick start: how many lines of one's own each needs."""

from __future__ import annotations

import re

from .command_lines import INSTALLS, ROOT, shown_on

PAGE = "docs/quick-start.md"
OWN_LINES = [0, 5, 0, 0]


def test_every_task_needs_as_few_lines_as_it_says() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    tasks = text.partition("\n## Four tasks\n")[2].partition("\n## ")[0]
    _, *parts = re.split(r"^### ", tasks, flags=re.MULTILINE)
    counts = []
    for part in parts:
        code = "".join(re.findall(r"^```python\n(.*?)^```", part, re.MULTILINE | re.DOTALL))
        counts.append(len([line for line in code.splitlines() if line.strip()]))
        assert "\ndiscorank " in part
    assert counts == OWN_LINES


def test_nothing_of_the_page_is_left_out_but_the_installation() -> None:
    left_out = [one.reason for one in shown_on(PAGE) if one.reason is not None]
    assert left_out == [INSTALLS]
