import json, os
import pytest
from . import test_command_lines as t
from .test_command_lines import models  # noqa
PAGES = os.environ.get("REGEN", "").split()
@pytest.mark.parametrize("page", PAGES)
def test_regen(page, models, clone, capsys, monkeypatch):
    wrong = []
    monkeypatch.setattr(t, "check_output", lambda printed, shown: wrong.append((shown, printed)))
    t.test_what_a_page_shows_happens.__wrapped__ if False else None
    t.test_what_a_page_shows_happens(page, models, clone, capsys)
    with open("/tmp/w/regen.jsonl", "a") as f:
        f.write(json.dumps([page, wrong]) + "\n")
