"""A run of a generator: a file of inputs in, one candidate list per line out, resumable by the same command.

    {"id", "source", "candidates", ...}      and "chosen": the index of the candidate, where something chooses
A list is written and saved as soon as it and those before it are there. Outputs, checkpoints and error records are
those of decoding runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from ...metrics.errors import DiscorankError, ResumeError
from ...rerank.lists import NOTHING, write_list
from ...rerank.runs.resumable import Checkpoint
from ...rerank.runs.rows import as_line
from ...rerank.runs.run import Written, completing, outputs, write_outcomes
from ...rerank.runs.run_file import Measured
from ...rerank.runs.stream import Stream
from .document_turns import Turn, Turns
from .list_checks import has_no_choice
from .prompts import PromptEntry

_ALWAYS_COUNTED = ("rows", "candidates", "duplicates")


def run_generation(
    turns: Turns,
    entries: Iterable[PromptEntry],
    name: str,
    out: Path | None,
    max_errors: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, errors: None,
    about: Mapping[str, Any] = NOTHING,
) -> Mapping[str, int]:
    """Generates for all inputs into `out`, going on where an earlier run of the same settings stopped; returns counts.

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
    source = iter(entries)
    try:
        _skip(turns, source, name, checkpoint)
        with completing(checkpoint, lambda: Measured(turns.work)):
            for block in _blocks(source, checkpoint.state.entries, turns.at_once):
                with closing(_outcomes(turns, block, checkpoint)) as outcomes:
                    write_outcomes(outcomes, _written, name, checkpoint, max_errors, on_progress)
    finally:
        checkpoint.close()
    return checkpoint.state.counts


def _outcomes(
    turns: Turns,
    block: Sequence[PromptEntry],
    checkpoint: Checkpoint | Stream,
) -> Generator[tuple[PromptEntry, Turn | DiscorankError]]:
    """Every entry with its list or error; what was written of it is saved before the next is waited for."""
    inputs = [entry.record or entry.error for entry in block]
    outcomes = turns.outcomes(inputs)  # type: ignore[arg-type]
    for pair in zip(block, outcomes, strict=True):
        yield pair
        checkpoint.save()


def _blocks(
    entries: Iterator[PromptEntry],
    done: int,
    size: int,
) -> Iterator[list[PromptEntry]]:
    """Blocks that end at multiples of `size` of the whole input, so that a resumed run makes the same ones.

    One ends early behind an entry that could not be read, so that nothing is generated in vain where the run stops.
    """
    block: list[PromptEntry] = []
    for number, entry in enumerate(entries, done + 1):
        block.append(entry)
        if number % size == 0 or entry.error is not None:
            yield block
            block = []
    if block:
        yield block


def _written(outcome: Turn | DiscorankError) -> Written:
    """The line of a list, and what it adds to the counts of the run; raises an error instead of a list."""
    if isinstance(outcome, DiscorankError):
        raise outcome
    row = write_list(outcome.record)
    if outcome.chosen is not None:
        row["chosen"] = outcome.chosen
    if outcome.flags:
        row["context_was_cut"] = True
    return {"rows": as_line(row)}, _counts(outcome)


def _counts(turn: Turn) -> dict[str, int]:
    """What a list adds to the counts of the run; most of them only if they are not 0."""
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


def _skip(
    turns: Turns,
    entries: Iterator[PromptEntry],
    name: str,
    checkpoint: Checkpoint | Stream,
) -> None:
    """Reads over what an earlier run has done; its choices are context of what comes."""
    rows = _rows(checkpoint) if turns.width else iter(())
    row = next(rows, None)
    for entry in islice(entries, checkpoint.state.entries):
        checkpoint.skip(entry.raw)
        if not turns.width:
            continue
        if row is not None and entry.record is not None and row["id"] == entry.record.id:
            turns.replay(entry.record, _chosen_text(row))
            row = next(rows, None)
        else:
            # an error record was written instead of a list
            turns.replay(entry.record, None)
    checkpoint.check_input(name)


def _rows(checkpoint: Checkpoint | Stream) -> Iterator[dict[str, Any]]:
    """The lists that the earlier run wrote."""
    if isinstance(checkpoint, Stream) or not checkpoint.resumed:
        return
    with open(checkpoint.out, encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield dict(json.loads(line))
            except ValueError as error:
                where = f"{checkpoint.out}:{number}"
                raise ResumeError(
                    f"cannot be read ({error})",
                    where=where,
                    fix="Remove it to start anew",
                ) from error


def _chosen_text(row: Mapping[str, Any]) -> str | None:
    """The text chosen in a line that was written; None if nothing was."""
    if "chosen" not in row:
        return None
    candidate = row["candidates"][row["chosen"]]
    text = candidate["text"] if isinstance(candidate, dict) else candidate
    return str(text)
