"""Contrastive items as JSON lines, plain or gzip, one item per line.

    {"id", "context_source": [...], "context_target": [...], "source", "correct", "contrastive": [...],
     "phenomenon", "distance", "reference"}
`source`, `phenomenon`, `distance` and `reference` may be left out; other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource, without_trailing_blanks
from ...rerank.selection.contrastive import ContrastiveItem, read_item
from ..files.seen_keys import SeenKeys


def read_contrastive(path: str | Path | LineSource) -> Iterator[ContrastiveItem]:
    """The items of a file (``-`` is standard input), streamed.

    Raises:
        InputError: it cannot be opened; while iterating, with file and line, at the first line that is no item and at
            an id that was there before.
    """
    return _items(path if isinstance(path, LineSource) else LineSource(path))


def _items(source: LineSource) -> Iterator[ContrastiveItem]:
    seen = SeenKeys()
    for number, line in without_trailing_blanks(source):
        try:
            if not line.strip():
                raise InputError("empty line", fix="Write one item per line")
            item = read_item(parse_json(line))
            if not seen.add(item.id):
                raise InputError(
                    f"{item.id!r:.80} was there before, expected a new id",
                    where="id",
                    fix="Give every item its own",
                )
        except InputError as error:
            raise error.inside(f"{source.name}:{number}") from None
        yield item
