"""Reads over what an earlier run has done of an input; its choices, where they are context of what follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from ..decider import Decider
from ..lists import CandidateList
from ..scheduler import Decided
from .resumable import Checkpoint, Stream
from .row_forms import RowForm
from .row_loop import Entry


def replayed_choices(
    decider: Decider,
    entries: Iterator[Entry[CandidateList]],
    name: str,
    checkpoint: Checkpoint | Stream,
    form: RowForm,
) -> list[Decided]:
    """Reads over what an earlier run has done; returns its last document where that is context, or decided whole."""
    is_read_again = decider.width > 0 or decider.decides_documents
    chain = checkpoint.resumed and is_read_again
    lines = written_lines(checkpoint) if chain else iter(())
    failed = _failed_lines(checkpoint) if chain else set()
    document: list[Decided] = []
    name_of: str | None = None
    for entry in islice(entries, checkpoint.state.entries):
        checkpoint.skip(entry.raw)
        record = entry.record
        if not chain or record is None:
            document += [Decided(None)] * (chain and document[-1:] != [Decided(None)])
            continue
        if record.document != name_of or record.document is None:
            document, name_of = (
                document[-1:] if document and document[-1].record is None else [],
                record.document,
            )
        lost = (entry.line, entry.id) in failed
        is_first = lost or record.context_only
        text = record.candidates[0].text if is_first else form.chosen(lines, record)
        document.append(Decided(record, text, lost))
    checkpoint.check_input(name)
    return document


def written_lines(checkpoint: Checkpoint | Stream) -> Iterator[str]:
    """The lines that the earlier run wrote."""
    with open(checkpoint.sinks["rows"], encoding="utf-8", newline="\n") as lines:
        yield from lines


def _failed_lines(checkpoint: Checkpoint | Stream) -> set[tuple[int, str | None]]:
    """Line and id of the error records of the earlier run."""
    path = checkpoint.sinks["errors"]
    if not path.exists():
        return set()
    with open(path, encoding="utf-8") as lines:
        return {(row["line"], row["id"]) for row in map(json.loads, lines)}
