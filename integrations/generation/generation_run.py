"""A run of a generator: a file of inputs in, one candidate list per line out, resumable by the same command.

    {"id", "source", "candidates", ...}      and "chosen": the index of the candidate, where something chooses
A list is written and saved as soon as it and those before it are there; of documents in turns, those that are done
before their turn wait in a file next to the output. A resumed run makes the same batches: of one that was half
written, only what is missing is written. Outputs, checkpoints and error records are those of decoding runs.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.errors import DiscorankError, InputError
from ...metrics.storage.atomic_files import unwritable
from ...metrics.storage.checksums import check, with_checksum
from ...rerank.lists import NOTHING, Candidate, read_list, write_list
from ...rerank.runs.resumable import Addition, Checkpoint, RowLoop, Stream, as_line, outputs
from ...rerank.runs.run_file import Measured
from ...rerank.votes.confidence import TOKENS
from .document_turns import Done, Turn, Turns
from .generator import Prompt, has_no_choice
from .prompts import PromptEntry

_ALWAYS_COUNTED = ("rows", "candidates", "duplicates")


Outcome = Turn | DiscorankError


class EntryBlock(NamedTuple):
    """Entries that are handed over together, and what an earlier session chose for the first ones."""

    entries: list[PromptEntry]
    chosen: list[str | None]

    @property
    def inputs(self) -> list[Prompt | DiscorankError]:
        """The inputs, and the errors of those that could not be read."""
        return [entry.record or entry.error or InputError("not read") for entry in self.entries]


def run_generation(
    turns: Turns,
    entries: Iterable[PromptEntry],
    name: str,
    out: Path | None,
    max_errors: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, errors: None,
    about: Mapping[str, Any] = NOTHING,
) -> Mapping[str, int]:
    """Generates for all inputs into `out`, resuming where an earlier run of the same settings stopped; returns counts.

    Args:
        turns: generates and decides.
        entries: what a reader of inputs yields, in order.
        name: the input's name for messages.
        out: where lists go; ``OUT.run.json`` and, if needed, ``OUT.errors.jsonl`` stand beside it. None: to stdout,
            with error records on stderr and nothing to resume.
        max_errors: how many error records may be written before the run stops.
        on_progress: called with the number of inputs done and of error records.
        about: more to write into the run file.

    Raises:
        ResumeError: the run standing at `out` has other settings or another input.
        StoppedByErrorsError: more than `max_errors` error records.
        InputError: the input is refused whole.
    """
    checkpoint = outputs(out, turns.identity, {"name": name, **about})
    replay, waiting = _Replay(turns, checkpoint), _WaitingLists(checkpoint)

    def outcomes(source: Iterator[PromptEntry]) -> Generator[tuple[PromptEntry, Outcome]]:
        for block in _blocks(source, replay.block, checkpoint.state.entries, turns.at_once):
            yield from _outcomes(turns, block, waiting, checkpoint)
            waiting.clear()

    loop = RowLoop(checkpoint, name, max_errors, on_progress)
    return loop.run(entries, replay.take, outcomes, _written, lambda: Measured(turns.work))


def _outcomes(
    turns: Turns, block: EntryBlock, waiting: _WaitingLists, checkpoint: Checkpoint | Stream
) -> Generator[tuple[PromptEntry, Outcome]]:
    """Every entry with its list or error, in order; what was done is saved before the next is waited for."""
    outcomes: dict[int, Outcome] = {}
    place = len(block.chosen)
    for together in turns.outcomes(block.inputs, block.chosen, waiting.kept):
        outcomes.update((done.place, done.outcome) for done in together)
        first = place
        while place in outcomes:
            place += 1
        waiting.keep(done for done in together if done.place > place)
        for i in range(first, place):
            yield block.entries[i], outcomes.pop(i)
        checkpoint.save()


class _WaitingLists:
    """Lists that are done before those in front of them, in a file, so that a kill does not cost them.

        OUT.waiting.jsonl: {"reading", "row", "checksum"}, one line per list, while one waits
    `reading` is a digest of all that a list was made from: one of another input or context is not found. Of a line that
    is cut off or damaged the list is generated again.

    Args:
        checkpoint: the outputs of the run.
    """

    def __init__(self, checkpoint: Checkpoint | Stream) -> None:
        is_file = isinstance(checkpoint, Checkpoint)
        self.path = Path(f"{checkpoint.out}.waiting.jsonl") if is_file else None
        self.rows: dict[str, dict[str, Any]] = {}
        if not checkpoint.resumed:
            self.clear()
        elif self.path and self.path.exists():
            for line in self.path.read_bytes().splitlines():
                with suppress(ValueError, KeyError, TypeError, InputError):
                    values = json.loads(line)
                    check(values, str(self.path), "")
                    self.rows[values["reading"]] = values["row"]

    def kept(self, reading: str) -> Turn | None:
        """The list that was made from this reading, and its choice."""
        if reading not in self.rows:
            return None
        row = dict(self.rows[reading])
        chosen = row.pop("chosen")
        flags = ("context-cut",) if row.pop("context_was_cut", False) else ()
        return Turn(read_list(row), chosen, flags)

    def keep(self, lists: Iterable[Done]) -> None:
        """Writes lists that have to wait; raises ResourceError where the disk is full."""
        new = [done for done in lists if done.reading not in self.rows]
        rows = [
            (done.reading, _row(done.outcome)) for done in new if isinstance(done.outcome, Turn)
        ]
        if not self.path or not rows:
            return
        try:
            with open(self.path, "ab") as file:
                for reading, row in rows:
                    file.write(as_line(with_checksum({"reading": reading, "row": row})))
        except OSError as error:
            raise unwritable(self.path, error) from error

    def clear(self) -> None:
        """Takes the file away, as nothing waits any more."""
        self.rows = {}
        if self.path:
            self.path.unlink(missing_ok=True)


def _blocks(
    entries: Iterator[PromptEntry], block: EntryBlock, done: int, size: int
) -> Iterator[EntryBlock]:
    """Blocks that end at multiples of `size` of the whole input, so that a resumed run makes the same ones.

    One ends early behind an entry that could not be read, so that nothing is generated in vain where the run stops.

    Args:
        entries: those to come.
        block: the first block, with the entries that are done.
        done: how many are done of the whole input.
        size: how many a block has.
    """
    for number, entry in enumerate(entries, done + 1):
        block.entries.append(entry)
        if _ends_block(number, entry, size):
            yield block
            block = EntryBlock([], [])
    if len(block.entries) > len(block.chosen):
        yield block


def _ends_block(number: int, entry: PromptEntry, size: int) -> bool:
    return number % size == 0 or entry.error is not None


def _written(outcome: Outcome) -> Addition:
    """The row of a list, and what it adds to the counts of the run; raises an error instead."""
    if isinstance(outcome, DiscorankError):
        raise outcome
    return {"rows": _row(outcome)}, _counts(outcome)


def _row(turn: Turn) -> dict[str, Any]:
    record = turn.record
    candidates = tuple(map(_without_tokens, record.candidates))
    row = write_list(replace(record, candidates=candidates))
    if turn.chosen is not None:
        row["chosen"] = turn.chosen
    if turn.flags:
        row["context_was_cut"] = True
    return row


def _without_tokens(candidate: Candidate) -> Candidate:
    """The candidate without the distributions of its tokens, which only Python has."""
    fields = {key: value for key, value in candidate.fields.items() if key != TOKENS}
    return replace(candidate, fields=fields)


def _chosen_text(row: Mapping[str, Any]) -> str | None:
    """The text chosen in a row that was written; None if nothing was."""
    if "chosen" not in row:
        return None
    candidate = row["candidates"][row["chosen"]]
    return str(candidate["text"] if isinstance(candidate, dict) else candidate)


def _counts(turn: Turn) -> dict[str, int]:
    """The counts that a list adds to those of the run; most of them only if they are not 0."""
    candidates = turn.record.candidates
    extra = turn.record.extra
    distinct_texts = {candidate.text for candidate in candidates}
    counts = {
        "rows": 1,
        "candidates": len(candidates),
        "duplicates": len(candidates) - len(distinct_texts),
        "unfinished": sum("unfinished" in candidate.fields for candidate in candidates),
        "truncated-inputs": int("truncated_input_tokens" in extra),
        "missing-candidates": int(extra.get("missing_candidates", 0)),
        "missing-pseudo-references": int(extra.get("missing_pseudo_references", 0)),
        "without-choice": int(has_no_choice(turn.record)),
        **dict.fromkeys(turn.flags, 1),
    }
    return {name: count for name, count in counts.items() if count or name in _ALWAYS_COUNTED}


class _Replay:
    """The sentences that an earlier run has done; its choices are context of those that come.

    Attributes:
        block: what it has done of the block that it had begun, which `turns` does not know yet.
    """

    def __init__(self, turns: Turns, checkpoint: Checkpoint | Stream) -> None:
        self.turns = turns
        self.rows = _rows(checkpoint) if turns.width else iter(())
        self.row: dict[str, Any] | None = None
        self.number = 0
        self.block = EntryBlock([], [])

    def take(self, entry: PromptEntry) -> None:
        """Takes the next entry that is done."""
        if self.row is None:
            self.row = next(self.rows, None)
        self.number += 1
        chosen = None  # also where an error record was written instead of a list
        if self.row and entry.record and self.row["id"] == entry.record.id:
            chosen, self.row = _chosen_text(self.row), None
        self.block.entries.append(entry)
        self.block.chosen.append(chosen)
        if _ends_block(self.number, entry, self.turns.at_once):
            # nothing of it is new
            deque(self.turns.outcomes(self.block.inputs, self.block.chosen), maxlen=0)
            self.block = EntryBlock([], [])


def _rows(checkpoint: Checkpoint | Stream) -> Iterator[dict[str, Any]]:
    """The lists that the earlier run wrote."""
    if isinstance(checkpoint, Stream) or not checkpoint.resumed:
        return
    # their digest was that of the run file
    with open(checkpoint.sinks["rows"], encoding="utf-8", newline="\n") as lines:
        yield from map(json.loads, lines)
