"""Figures of how the code reads, of one checkout or of several side by side.

    python -m benchmarks.structure.measures CHECKOUT [CHECKOUT ...]

Lines of code are those with a token that is no comment or docstring; syntax nodes are those of Python's own tree, Load
and Store left out; a repeated name is the base name of several modules (without ``__init__``).
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("src", "metrics", "rerank", "integrations")
SKIPPED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def modules(checkout: Path) -> Iterator[Path]:
    """The modules of the package, not through links."""
    for folder in FOLDERS:
        for path in sorted((checkout / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


def docstring_lines(tree: ast.AST) -> set[int]:
    """The numbers of the lines that docstrings stand on."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def measures(checkout: Path) -> dict[str, float]:
    """The figures of a checkout by name."""
    counts: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for path in modules(checkout):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        counts["nodes"] += sum(not isinstance(n, ast.Load | ast.Store) for n in ast.walk(tree))
        without = docstring_lines(tree)
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in SKIPPED:
                lines.update(range(token.start[0], token.end[0] + 1))
            if token.type == tokenize.NAME:
                counts["found"] += token.string == "found"
                counts["bounds"] += token.string.startswith(("MOST_", "LEAST_"))
        counts["lines"] += len(lines - without)
        if path.stem != "__init__":
            names[path.stem] += 1
    flat = {folder: len(list((checkout / folder).glob("*.py"))) for folder in FOLDERS[1:]}
    mbr, readme = checkout / "rerank" / "mbr.py", checkout / "README.md"
    return {
        "lines of code": counts["lines"],
        "syntax nodes per line": counts["nodes"] / counts["lines"],
        "identifiers `found`": counts["found"],
        "names MOST_, LEAST_": counts["bounds"],
        "repeated names of modules": sum(count > 1 for count in names.values()),
        **{f"modules directly in {folder}": number for folder, number in flat.items()},
        "lines of rerank/mbr.py": len(mbr.read_text(encoding="utf-8").splitlines()),
        "lines of README.md": len(readme.read_text(encoding="utf-8").splitlines()),
    }


def main() -> None:
    """Prints a row per figure and a column per checkout; with two, the ratio of the second to the first."""
    checkouts = [Path(argument) for argument in sys.argv[1:] or ["."]]
    columns = [measures(checkout) for checkout in checkouts]
    for name in columns[0]:
        values = [column[name] for column in columns]
        ratio = f"{values[1] / values[0]:10.2f}x" if len(values) == 2 and values[0] else ""
        print(f"{name:32}" + "".join(f"{value:12.5g}" for value in values) + ratio)


if __name__ == "__main__":
    main()
