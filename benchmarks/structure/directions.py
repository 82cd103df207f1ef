"""The directions that the code is steered by, in figures: of this checkout, and of an earlier one beside it.

    python -m benchmarks.structure.directions [BEFORE] [--ratchet]

BEFORE is another checkout, with or without built kernels. A line of code holds a token that is not a comment or part
of a docstring. Import lines are those of import statements, and their share is of all lines of code. A flat folder's
modules are those directly in it. The way of a text is that of `way_of_a_text`; options are those in
``discorank decode --help``.

`--ratchet` prints the lines of each part against the bounds in ratchet.toml alone, which takes two seconds, and exits
with 1 if one is exceeded.
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
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
RATCHET = Path(__file__).with_name("ratchet.toml")
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
    """What a module weighs.

    Where no string but docstrings runs over lines, and no line goes on behind a backslash, the lines of its tokens are
    those that are neither blank nor a comment, which costs a fifth of reading the tokens.
    """
    text = path.read_text(encoding="utf-8")
    docstrings: set[int] = set()
    imports: set[int] = set()
    for node in statements(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(lines_of(node.body[0]))
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(lines_of(node))
    rest = {
        number: line.strip()
        for number, line in enumerate(text.split("\n"), start=1)
        if number not in docstrings
    }
    if any(line.endswith("\\") or '"""' in line or "'''" in line for line in rest.values()):
        lines = token_lines(text) - docstrings
    else:
        lines = {number for number, line in rest.items() if line and not line.startswith("#")}
    return Mass(path, len(lines), len(imports))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """A module or a statement, and all statements in it."""
    yield node
    for blocks in ("body", "handlers", "orelse", "finalbody", "cases"):
        inside = getattr(node, blocks, ())
        for statement in inside if isinstance(inside, list) else ():
            yield from statements(statement)


def lines_of(node: ast.stmt) -> range:
    """The lines of a statement."""
    return range(node.lineno, (node.end_lineno or 0) + 1)


def token_lines(text: str) -> set[int]:
    """The lines that hold a token of code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def masses(checkout: Path, folders: Sequence[str]) -> Iterator[Mass]:
    """Every module below some folders, not through links."""
    for folder in folders:
        for path in sorted((checkout / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield mass(path)


def flat_folders(product: Sequence[Mass], checkout: Path) -> Counter[str]:
    """The number of modules directly in each folder."""
    return Counter(str(one.path.parent.relative_to(checkout)) for one in product)


def import_lines(modules: Sequence[Mass]) -> int:
    """The number of lines of code that are imports."""
    return sum(one.imports for one in modules)


class Part(NamedTuple):
    """A part of the product: its code lines today, the most it may have, and its budget."""

    name: str
    lines: int
    bound: int
    budget: int


class Ratchet(NamedTuple):
    """The bounds of ratchet.toml beside the figures of a checkout."""

    parts: list[Part]
    modules: int
    max_modules: int
    largest_folder: int
    max_largest_folder: int
    import_lines: int
    max_import_lines: int

    def exceeded(self) -> list[str]:
        """The bounds that are exceeded, a line each."""
        figures = [(part.name, part.lines, part.bound) for part in self.parts]
        figures.append(("modules", self.modules, self.max_modules))
        figures.append(("modules of one folder", self.largest_folder, self.max_largest_folder))
        figures.append(("import lines", self.import_lines, self.max_import_lines))
        return [f"{name}: {now:,} > {bound:,}" for name, now, bound in figures if now > bound]


def ratchet(checkout: Path) -> Ratchet:
    """Count the code lines of each part of a checkout; the bounds are those of this checkout."""
    rules = tomllib.loads(RATCHET.read_text(encoding="utf-8"))
    product = list(masses(checkout, PRODUCT))
    names = {path: part["name"] for part in rules["part"] for path in part["paths"]}
    lines: Counter[str] = Counter()
    for one in product:
        lines[names[_longest(str(one.path.relative_to(checkout)), names)]] += one.lines
    parts = [
        Part(part["name"], lines[part["name"]], part["bound"], part["budget"])
        for part in rules["part"]
    ]
    ((_, largest),) = flat_folders(product, checkout).most_common(1)
    return Ratchet(
        parts,
        len(product),
        rules["max_modules"],
        largest,
        rules["max_largest_folder"],
        import_lines(product),
        rules["max_import_lines"],
    )


def _longest(module: str, paths: Iterable[str]) -> str:
    """The longest of some paths that is a module or contains it."""
    return max((path for path in paths if module == path or module.startswith(f"{path}/")), key=len)


def print_ratchet(found: Ratchet) -> None:
    """Print the table of parts."""
    print("part | lines | bound | budget")
    print("--- | --- | --- | ---")
    for part in found.parts:
        print(f"{part.name} | {part.lines:,} | {part.bound:,} | {part.budget:,}")
    sums = (sum(part[i] for part in found.parts) for i in (1, 2, 3))  # type: ignore[misc]
    print(" | ".join(["sum", *(f"{total:,}" for total in sums)]))
    print(f"modules | {found.modules} | {found.max_modules} | 300")
    print(f"modules of one folder | {found.largest_folder} | {found.max_largest_folder} | 16")
    print(f"import lines | {found.import_lines:,} | {found.max_import_lines:,} | -")


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
        "import lines": f"{import_lines(product):,}",
        "largest flat folder": f"{largest} ({folder})",
        "lines of code, tests": f"{sum(one.lines for one in tests):,}",
        "lines of code, benchmarks": f"{sum(one.lines for one in benchmarks):,}",
        "way of a text": f"{way[1]} files, {way[2]} moves" if way else "-",
        "options of `decode --help`": str(len(set(options))),
        "pages of docs": f"{len(pages)}, {sum(len(page.split()) for page in pages):,} words",
        "lines of README.md": str(len(readme.splitlines())),
    }


def main() -> int:
    """Print the tables; return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", nargs="?", type=Path, help="an earlier checkout")
    parser.add_argument("--ratchet", action="store_true", help="check the bounds of lines alone")
    options = parser.parse_args()
    lines = ratchet(CHECKOUT)
    print_ratchet(lines)
    if options.ratchet:
        print(*lines.exceeded(), sep="\n", file=sys.stderr)
        return bool(lines.exceeded())
    print()
    checkouts = {"now": CHECKOUT}
    if options.before:
        checkouts = {"before": options.before.resolve(), **checkouts}
    columns = [directions(checkout) for checkout in checkouts.values()]
    print(" | ".join(["direction", *checkouts]))
    print(" | ".join(["---"] * (1 + len(checkouts))))
    for name in columns[0]:
        print(" | ".join([name, *(column[name] for column in columns)]))
    return bool(lines.exceeded())


if __name__ == "__main__":
    sys.exit(main())
