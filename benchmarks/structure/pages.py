"""How much there is to read, and how it is written: words, sentences, pictures and link texts of every page.

    python -m benchmarks.structure.pages [DOCS_FOLDER] [--sentences PAGE]

Words are those of ``wc -w``. Sentences are those of paragraphs, list items and quotes; code, tables and headings have
none, and code within a sentence is one word. A block ends its last sentence, as a colon before a list does.
``--sentences runs`` prints those of a page, the longest first.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {  # of pages of docs/ that are no guide
    "design": "design",
    "metrics": "tables from the code",
    **dict.fromkeys(("file-formats", "security", "reliability"), "reference"),
}
COMMENT = re.compile(r"\A---\n.*?\n---\n|<!--.*?-->", re.DOTALL)
BLOCK = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)|<img\b[^>]*>")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()]*(?:\([^()]*\))?[^()]*\)")
CODE = re.compile(r"(`+).*?\1", re.DOTALL)
NOT_PROSE = re.compile(r"^\s*(?:\||#{1,6} |[-*_]{3,}\s*$|</?\w)")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
FILE_NAME = re.compile(
    r"`?[\w./-]+(?:\.(?:md|py|json|jsonl|yaml|toml|cff|svg|tsv|html|js)|/)(?:#[\w-]*)?`?"
)
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|vs|cf|approx|resp)\.")
END = re.compile(r"(?<=[.!?])[)\"'*_”’]*\s+(?=[\"'“(*_\[]*[A-Z0-9`])")


@dataclass
class Page:
    """What is counted of one page."""

    group: str  # README, guide, results, reference, design
    name: str
    words: int
    sentences: list[str] = field(repr=False)
    pictures: int
    file_name_links: list[str]
    links: int

    @property
    def lengths(self) -> list[int]:
        """Words of every sentence."""
        return [len(sentence.split()) for sentence in self.sentences] or [0]


def page_of(path: Path, group: str) -> Page:
    """Counts one page."""
    text = path.read_text(encoding="utf-8")
    bare = BLOCK.sub("\n", COMMENT.sub("", text))
    texts = [found[1].strip() for found in LINK.finditer(IMAGE.sub("picture", bare))]
    return Page(
        group,
        path.stem,
        len(text.split()),
        [sentence for block in paragraphs(bare) for sentence in sentences(block)],
        len(IMAGE.findall(bare)),
        [words for words in texts if FILE_NAME.fullmatch(words)],
        len(texts),
    )


def paragraphs(bare: str) -> Iterator[str]:
    """Paragraphs, list items and quotes as plain text."""
    lines: list[str] = []
    for line in [*bare.splitlines(), ""]:
        line = re.sub(r"^\s*(?:> ?)+", "", line)
        is_item = ITEM.match(line)
        if not line.strip() or is_item or NOT_PROSE.match(line):
            if lines:
                yield " ".join(lines)
            lines = []
        if line.strip() and not NOT_PROSE.match(line):
            lines.append(ITEM.sub("", line).strip())


def sentences(block: str) -> Iterator[str]:
    """Sentences of a paragraph: code is one word, links are their texts, pictures nothing."""
    plain = CODE.sub("`code`", LINK.sub(r"\1", IMAGE.sub("", block)))
    plain = ABBREVIATION.sub(r"\1", plain)
    yield from (part for part in END.split(plain) if re.search(r"\w", part))


def pages_of(docs: Path) -> list[Page]:
    """Every page that people write: guide, reference, results, README and design."""
    found = [page_of(docs.parent / "README.md", "README")]
    for path in sorted(docs.glob("*.md")):
        found.append(page_of(path, GROUPS.get(path.stem, "guide")))
    found += [page_of(path, "results") for path in sorted(docs.glob("results/*.md"))]
    order = ("README", "guide", "results", "reference", "tables from the code", "design")
    return sorted(found, key=lambda page: order.index(page.group))


def table(pages: list[Page]) -> str:
    """A line per page, and one per group."""
    form = "{:20}  {:24}  {:>6}  {:>9}  {:>5}  {:>7}  {:>8}  {:>5}  {}"
    head = (
        "group",
        "page",
        "words",
        "sentences",
        "mean",
        "longest",
        "pictures",
        "links",
        "file names",
    )
    lines = [form.format(*head)]
    for group in dict.fromkeys(page.group for page in pages):
        members = [page for page in pages if page.group == group]
        for page in members:
            lines.append(form.format(group, page.name, *_figures([page])))
        if len(members) > 1:
            lines.append(form.format(group, f"= {len(members)} pages", *_figures(members)) + "\n")
    shown = sum(page.pictures > 0 for page in pages)
    return "\n".join([*lines, f"pages with pictures: {shown} of {len(pages)}"])


def _figures(pages: list[Page]) -> tuple[object, ...]:
    """What the line of one or more pages says."""
    lengths = [length for page in pages for length in page.lengths]
    return (
        sum(page.words for page in pages),
        sum(len(page.sentences) for page in pages),
        f"{mean(lengths):.1f}",
        max(lengths),
        sum(page.pictures for page in pages),
        sum(page.links for page in pages),
        sum(len(page.file_name_links) for page in pages),
    )


def main() -> None:
    """Prints the table, or the sentences of a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("docs", nargs="?", type=Path, default=ROOT / "docs", metavar="DOCS_FOLDER")
    parser.add_argument("--sentences", metavar="PAGE", help="print its sentences, longest first")
    parsed = parser.parse_args()
    pages = pages_of(parsed.docs.resolve())
    if parsed.sentences is None:
        print(table(pages))
        return
    for page in pages:
        if page.name == parsed.sentences:
            for text in sorted(page.sentences, key=lambda text: -len(text.split())):
                print(f"{len(text.split()):3}  {text}")


if __name__ == "__main__":
    main()
