"""Makes the pictures of report pages: their first screens, in Chromium.

    python -m docs.site.pictures [NAME ...]

Needs the extras report, minilm and discourse. Each is a PNG of docs/pictures/, and a page shows its first command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from discorank.cli.main import main as discorank
from tests.support.browser import Browser, browser_path

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
MAX_BYTES = 150_000


class Picture(NamedTuple):
    """What is shown: the commands before it, where the page begins to be seen, and how high."""

    commands: tuple[str, ...]
    selector: str
    height: int


RECIPES = {
    "report-translations": Picture(
        (
            "decode examples/demo.jsonl --config mbr-doc-bertscore -o run --quiet",
            "report run -o page.html --quiet",
        ),
        "body",
        760,
    ),
    "report-summaries": Picture(
        (
            "decode examples/summaries.jsonl --config discoscore-summarization -o run --quiet",
            "report run -o page.html --quiet",
        ),
        "body",
        760,
    ),
    "report-systems": Picture(
        (
            "compare examples/systems.jsonl -m chrf bleu ter --human mqm:lower --save run --quiet",
            "report run -o page.html --quiet",
        ),
        "body",
        760,
    ),
}
WIDTH = 1000


def picture(name: str, browser: Browser) -> bytes:
    """A PNG of a page.

    Raises:
        RuntimeError: a command fails, or the picture is too large to keep.
    """
    recipe = RECIPES[name]
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.symlink(ROOT / "examples", Path(folder) / "examples")
        os.chdir(folder)
        try:
            for command in recipe.commands:
                if discorank(command.split()):
                    raise RuntimeError(f"discorank {command} failed")
            with browser.page(Path("page.html"), WIDTH, recipe.height) as page:
                page.run(f"document.querySelector({recipe.selector!r}).scrollIntoView()")
                content = page.screenshot()
        finally:
            os.chdir(before)
    if len(content) > MAX_BYTES:
        raise RuntimeError(f"{name}: {len(content)} bytes, at most {MAX_BYTES} are kept")
    return content


def main(names: list[str]) -> None:
    """Writes the pictures."""
    program = browser_path()
    if program is None:
        raise SystemExit("no Chromium found")
    with Browser(program) as browser:
        for name in names or RECIPES:
            (PICTURES / f"{name}.png").write_bytes(picture(name, browser))


if __name__ == "__main__":
    main(sys.argv[1:])
