"""The directions that the code is steered by, in figures: of this checkout, and of an earlier one beside it.

    python -m benchmarks.structure.directions [BEFORE]

BEFORE is another checkout with its kernels built or not. Lines of code have a token that is no comment or docstring;
import lines are those of import statements, their share is of all lines of code. A flat folder's modules are those
directly in it. The way of a text is that of `way_of_a_text`; options are those that
``discorank decode --help`` lists.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
PRODUCT = ("src", "metrics", "rerank", "integrations", "configs")
SMALL = 60  # lines of code
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
OPTION = re.compile(r"^ {2,4}(?:-\w(?: [^,\s]+)?, )?(--[\w-]+)", re.MULTILINE)
WAY = re.compile(r"(\d+) files, (\d+) moves")


class Mass(NamedTuple):
    """Lines of code of a module, and those of them that import."""

    path: Path
    lines: int
    imports: int


def mass(path: Path) -> Mass:
    """What a module weighs."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    imports: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return Mass(path, len(lines), len(imports))


def masses(checkout: Path, folders: Sequence[str]) -> Iterator[Mass]:
    """Every module below some folders, not through links."""
    for folder in folders:
        for path in sorted((checkout / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield mass(path)


def flat_folders(product: Sequence[Mass], checkout: Path) -> Counter[str]:
    """The number of modules directly in each folder."""
    return Counter(str(one.path.parent.relative_to(checkout)) for one in product)


def import_share(modules: Sequence[Mass]) -> float:
    """Import lines among the lines of code."""
    return sum(one.imports for one in modules) / sum(one.lines for one in modules)


def printed(checkout: Path, *words: str) -> str:
    """What a command prints with the package of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "COLUMNS": "100"}
    line = [sys.executable, *words]
    done = subprocess.run(
        line, cwd=checkout, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def directions(checkout: Path) -> dict[str, str]:
    """The figures of a checkout by name."""
    product = list(masses(checkout, PRODUCT))
    folder, largest = flat_folders(product, checkout).most_common(1)[0]
    tests, benchmarks = (list(masses(checkout, [name])) for name in ("tests", "benchmarks"))
    way = WAY.search(
        printed(checkout, str(CHECKOUT / "benchmarks" / "structure" / "way_of_a_text.py"), "src")
    )
    options = OPTION.findall(printed(checkout, "-m", "discorank", "decode", "--help"))
    pages = [page.read_text(encoding="utf-8") for page in (checkout / "docs").glob("*.md")]
    readme = (checkout / "README.md").read_text(encoding="utf-8")
    return {
        "lines of code, product": f"{sum(one.lines for one in product):,}",
        "modules": str(len(product)),
        f"modules below {SMALL} lines": str(sum(0 < one.lines < SMALL for one in product)),
        "import lines": f"{import_share(product):.1%}",
        "largest flat folder": f"{largest} ({folder})",
        "lines of code, tests": f"{sum(one.lines for one in tests):,}",
        "lines of code, benchmarks": f"{sum(one.lines for one in benchmarks):,}",
        "way of a text": f"{way[1]} files, {way[2]} moves" if way else "-",
        "options of `decode --help`": str(len(set(options))),
        "pages of docs": f"{len(pages)}, {sum(len(page.split()) for page in pages):,} words",
        "lines of README.md": str(len(readme.splitlines())),
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", nargs="?", type=Path, help="an earlier checkout")
    options = parser.parse_args()
    checkouts = {"now": CHECKOUT}
    if options.before:
        checkouts = {"before": options.before.resolve(), **checkouts}
    columns = [directions(checkout) for checkout in checkouts.values()]
    print(" | ".join(["direction", *checkouts]))
    print(" | ".join(["---"] * (1 + len(checkouts))))
    for name in columns[0]:
        print(" | ".join([name, *(column[name] for column in columns)]))


if __name__ == "__main__":
    main()
