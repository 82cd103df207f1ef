"""A canary: code that leaves a mark when it is imported or unpickled, and files of every form that try to run it."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MODULE = "canary_of_discorank"
CODE = """
import os
from pathlib import Path
Path({mark!r}).touch()


def utility(hypothesis, reference):
    return float(len(str(hypothesis)))


def words(text):
    return str(text).split()


def find(tokens):
    return [None] * len(tokens)


def load(*arguments, **settings):
    return find
"""
# texts that would run where something evaluates, imports or renders them
TEXTS = (
    f"{MODULE}:utility",
    f"import {MODULE}",
    f"!!python/object/apply:importlib.import_module [{MODULE}]",
    f"{{{{ cycler.__init__.__globals__.__builtins__.__import__('{MODULE}') }}}}",
    f"{{source.__class__}} ${{{MODULE}}} `python -c 'import {MODULE}'`",
)


class Runs:
    """What imports the canary when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"import {MODULE}",)


PICKLE = pickle.dumps(Runs())


class Canary:
    """The canary's module, ready to be imported from anywhere.

    Args:
        folder: where it stands, as a module and under whatever other names.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, folder / "it ran"
        folder.mkdir()
        self.write(f"{MODULE}.py")

    def write(self, path: str) -> None:
        """Writes the module under another name, too."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CODE.format(mark=str(self.mark)), encoding="utf-8")

    @property
    def sang(self) -> bool:
        """Whether it was imported."""
        return self.mark.exists() or MODULE in sys.modules


@contextmanager
def singing_unheard(folder: Path) -> Iterator[Canary]:
    """The canary, importable from here; asserts at the end that it has not been imported."""
    canary = Canary(folder)
    sys.path.insert(0, str(folder))
    try:
        yield canary
        assert not canary.sang, "the canary sang"
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(MODULE, None)
