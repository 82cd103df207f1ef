"""Files that come with the package: examples, which ``examples:NAME`` names wherever a file is, and pages."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import unknown

PREFIX = "examples:"
_FACE = Path(__file__).parents[2]  # the package, in a checkout or installed
_DIRECTION = re.compile(r":(lower|higher)$")


def bundled(path: str) -> str:
    """The path of a bundled example, of any other file the path itself.

    Raises:
        InputError: there is no such example.
    """
    if not path.startswith(PREFIX):
        return path
    name = path.removeprefix(PREFIX)
    file = _DIRECTION.sub("", name)
    if file not in example_names():
        raise unknown("example", file, example_names())
    return str(_FACE / "examples" / name)


def hint(path: str | Path) -> str:
    """Advice on a path that is not there, where an example has its name; empty otherwise.

    >>> hint("examples/demo.jsonl"), hint("mine.jsonl")
    ('The bundled one is examples:demo.jsonl', '')
    """
    name = Path(path).name
    return f"The bundled one is {PREFIX}{name}" if name in example_names() else ""


def shown_name(path: str | Path) -> str:
    """A path as messages and run files name it: of a bundled example ``examples:NAME``."""
    folder, name = Path(path).parent, Path(path).name
    is_example = folder == _FACE / "examples" and name in example_names()
    return f"{PREFIX}{name}" if is_example else str(path)


def example_names() -> list[str]:
    """The names of all examples that are inputs."""
    files = sorted((_FACE / "examples").glob("*"))
    return [path.name for path in files if path.suffix not in (".py", ".md") and path.is_file()]


def pages() -> dict[str, Path]:
    """The pages of documentation by topic: ``runs``, ``results/speed``."""
    docs = _FACE / "docs"
    paths = (*sorted(docs.glob("*.md")), *sorted(docs.glob("results/*.md")))
    return {path.relative_to(docs).with_suffix("").as_posix(): path for path in paths}
