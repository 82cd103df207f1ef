"""A run of a generator: a file of inputs in, one candidate list per line out, resumable by the same command.

    {"id", "source", "candidates", ...}      and "chosen": the index of the candidate, where something chooses
A list is written and saved as soon as it and those before it are there; of documents in turns, those that are done
before their turn wait in memory. A resumed run makes the same batches: of one that was half written, only what is
missing is written. Outputs, checkpoints and error records are those of decoding runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.errors import DiscorankError, ResumeError
from ...rerank.lists import NOTHING, Candidate, write_list
from ...rerank.runs.resumable import Checkpoint, RowLoop, Stream, Written, as_line, outputs
from ...rerank.runs.run_file import Measured
from ...rerank.votes.confidence import TOKENS
from .document_turns import Turn, Turns
from .generator import has_no_choice
from .prompts import PromptEntry

_ALWAYS_COUNTED = ("rows", "candidates", "duplicates")


Outcome = Written | DiscorankError


class DoneEntry(NamedTuple):
    """An entry that an earlier session has written, of a block that it had not ended; and what was chosen for it."""

    entry: PromptEntry
    chosen: str | None


class EntryBlock(NamedTuple):
    """Entries that are handed over together, and what an earlier session chose for the first ones."""

    entries: list[PromptEntry]
    chosen: list[str | None]


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
    replay = _Replay(turns, checkpoint)

    def outcomes(source: Iterator[PromptEntry]) -> Generator[tuple[PromptEntry, Outcome]]:
        for block in _blocks(source, replay.begun, checkpoint.state.entries, turns.at_once):
            yield from _outcomes(turns, block, checkpoint)

    loop = RowLoop(checkpoint, name, max_errors, on_progress)
    return loop.run(entries, replay.take, outcomes, _raised, lambda: Measured(turns.work))


def _outcomes(
    turns: Turns, block: EntryBlock, checkpoint: Checkpoint | Stream
) -> Generator[tuple[PromptEntry, Outcome]]:
    """Every entry with its line or error, in order; what was done is saved before the next is waited for."""
    inputs = [entry.record or entry.error for entry in block.entries]
    outcomes: dict[int, Outcome] = {}
    place = len(block.chosen)
    for together in turns.outcomes(inputs, block.chosen):  # type: ignore[arg-type]
        for done in together:
            made = done.outcome
            outcomes[done.place] = made if isinstance(made, DiscorankError) else _written(made)
        while place in outcomes:
            yield block.entries[place], outcomes.pop(place)
            place += 1
        checkpoint.save()


def _raised(outcome: Outcome) -> Written:
    """The row to write; raises an error instead."""
    if isinstance(outcome, DiscorankError):
        raise outcome
    return outcome


def _blocks(
    entries: Iterator[PromptEntry],
    begun: list[DoneEntry],
    done: int,
    size: int,
) -> Iterator[EntryBlock]:
    """Blocks that end at multiples of `size` of the whole input, so that a resumed run makes the same ones.

    One ends early behind an entry that could not be read, so that nothing is generated in vain where the run stops.

    Args:
        entries: those to come.
        begun: those of the first block that are done.
        done: how many are done of the whole input.
        size: how many a block has.
    """
    block = EntryBlock([one.entry for one in begun], [one.chosen for one in begun])
    for number, entry in enumerate(entries, done + 1):
        block.entries.append(entry)
        if _ends_block(number, entry, size):
            yield block
            block = EntryBlock([], [])
    if len(block.entries) > len(block.chosen):
        yield block


def _ends_block(number: int, entry: PromptEntry, size: int) -> bool:
    return number % size == 0 or entry.error is not None


def _written(outcome: Turn) -> Written:
    """The line of a list, and what it adds to the counts of the run."""
    record = outcome.record
    candidates = [_without_tokens(candidate) for candidate in record.candidates]
    row = write_list(replace(record, candidates=tuple(candidates)))
    if outcome.chosen is not None:
        row["chosen"] = outcome.chosen
    if outcome.flags:
        row["context_was_cut"] = True
    return {"rows": as_line(row)}, _counts(outcome)


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
        begun: the entries of the block that it had begun, which `turns` does not know yet.
    """

    def __init__(self, turns: Turns, checkpoint: Checkpoint | Stream) -> None:
        self.turns = turns
        self.rows = _rows(checkpoint) if turns.width else iter(())
        self.row: dict[str, Any] | None = None
        self.number = 0
        self.begun: list[DoneEntry] = []

    def take(self, entry: PromptEntry) -> None:
        """Takes the next entry that is done."""
        if self.row is None:
            self.row = next(self.rows, None)
        self.number += 1
        chosen = None  # also where an error record was written instead of a list
        if self.row and entry.record and self.row["id"] == entry.record.id:
            chosen, self.row = _chosen_text(self.row), None
        self.begun.append(DoneEntry(entry, chosen))
        if _ends_block(self.number, entry, self.turns.at_once):
            for one in self.begun:
                self.turns.replay(one.entry.record, one.chosen)
            self.begun = []


def _rows(checkpoint: Checkpoint | Stream) -> Iterator[dict[str, Any]]:
    """The lists that the earlier run wrote."""
    if isinstance(checkpoint, Stream) or not checkpoint.resumed:
        return
    with open(checkpoint.sinks["rows"], encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield dict(json.loads(line))
            except ValueError as error:
                where = f"{checkpoint.sinks['rows']}:{number}"
                raise ResumeError(
                    f"cannot be read ({error})",
                    where=where,
                    fix="Remove it to start anew",
                ) from error
