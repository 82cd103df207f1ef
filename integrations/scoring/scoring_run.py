"""A run of forced scoring: candidate lists in, the same lists with log-probabilities out, resumable by a repetition.

Equal texts of a list are scored once. Outputs, checkpoints and error records are those of decoding runs; what came out
is saved before the model is asked for more.

Where log-probabilities go: into a key of every candidate, and how many tokens they are of into another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.errors import DiscorankError, InputError, MetricError, excerpt
from ...metrics.execution.meter import Meter
from ...metrics.spec.checked_settings import settings
from ...rerank.lists import ANNOTATIONS, NOTHING, Candidate, CandidateList, write_list
from ...rerank.runs.resumable import Addition, Checkpoint, RowLoop, Stream, outputs
from ...rerank.runs.run_file import Measured
from ..files.entries import ListEntry
from .list_prompts import LEAD, Answered, Asked, ListPrompts, PromptedText, ScoredText, TextScorer

LOGPROB = "logprob"


@settings
class ValueFields:
    """The keys that are written.

    Args:
        field: of the log-probability; "logprob" is what weights and features of that name read.
        overwrite: whether values that stand there are replaced; otherwise a list that has one is refused.

    Raises:
        InputError: a key that candidates have for something else.
    """

    field: str = LOGPROB
    overwrite: bool = False

    def __post_init__(self) -> None:
        if not self.field or self.field in ("text", "tokens", "unfinished", LEAD, *ANNOTATIONS):
            problem = f"found {excerpt(self.field)}, which means something else"
            raise InputError(problem, where="field", fix="Such as logprob or channel")

    @property
    def tokens(self) -> str:
        """The key of the number of tokens."""
        return "tokens" if self.field == LOGPROB else f"{self.field}_tokens"

    def check(self, record: CandidateList) -> None:
        """Raises InputError if something stands where values are to be written."""
        if self.overwrite:
            return
        for place, candidate in _placed(record):
            there = {*candidate.fields, *([] if candidate.logprob is None else [LOGPROB])}
            for key in (self.field, self.tokens):
                if key in there:
                    fix = "Write to another key with --field, or replace it with --overwrite"
                    raise InputError("is there already", where=f"{place}.{key}", fix=fix)

    def written(self, record: CandidateList, values: Iterable[ScoredText]) -> CandidateList:
        """The list with a value for every candidate, then for every pseudo-reference.

        Raises:
            InputError: a value that JSON cannot hold.
        """
        rest = iter(values)
        candidates, references = (
            tuple(self._candidate(candidate, next(rest)) for candidate in texts)
            for texts in (record.candidates, record.pseudo_references)
        )
        return replace(record, candidates=candidates, pseudo_references=references)

    def _candidate(self, candidate: Candidate, value: ScoredText) -> Candidate:
        fields = {**candidate.fields, self.tokens: value.tokens}
        if self.field == LOGPROB:
            return replace(candidate, logprob=value.logprob, fields=fields)
        if not isfinite(value.logprob):
            problem = f"a log-probability of {value.logprob}, which no key but logprob holds"
            raise InputError(problem, where=f"{excerpt(str(candidate.text))}")
        return replace(candidate, fields={**fields, self.field: value.logprob})


def _placed(record: CandidateList) -> Iterator[tuple[str, Candidate]]:
    """The candidates of a list, then its pseudo-references, each with its place."""
    for name in ("candidates", "pseudo_references"):
        for i, candidate in enumerate(getattr(record, name)):
            yield f"{name}[{i}]", candidate


@dataclass(frozen=True)
class ListScoring:
    """How lists are scored.

    Args:
        prompts: what is asked of a list.
        scorer: what answers.
        fields: where the answers go.
    """

    prompts: ListPrompts
    scorer: TextScorer
    fields: ValueFields

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that the lists depend on."""
        written = {"field": self.fields.field, "overwrite": self.fields.overwrite}
        return {**self.scorer.identity, **self.prompts.identity, **written}

    def read(self, entry: ListEntry) -> tuple[list[PromptedText], bool]:
        """As `ListPrompts.read`; raises InputError also where there are values already."""
        texts, is_cut = self.prompts.read(entry)
        if texts and entry.record is not None:
            self.fields.check(entry.record)
        return texts, is_cut


class _Scored(NamedTuple):
    """The texts of a list to score, and the answers for the distinct ones."""

    record: CandidateList | None
    asked: Sequence[PromptedText]
    is_cut: bool
    answered: Answered = ()


def run_scoring(
    scoring: ListScoring,
    entries: Iterable[ListEntry],
    name: str,
    out: Path | None,
    max_errors: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, errors: None,
    reading: Mapping[str, Any] = NOTHING,
    meter: Meter | None = None,
) -> Mapping[str, int]:
    """Scores all lists into `out`, resuming where an earlier run of the same settings stopped; returns the counts.

    Args:
        scoring: what is asked, what answers, and where the answers go.
        entries: what a reader of lists yields, in order.
        name: the input's name for messages.
        out: where lists go; ``OUT.run.json`` and, if needed, ``OUT.errors.jsonl`` stand beside it. None: to stdout,
            with error records on stderr and nothing to resume.
        max_errors: how many error records may be written before the run stops.
        on_progress: called with the number of lists done and of error records.
        reading: how the input is read, and digests of what else is, where that makes other lists of the same bytes.
        meter: counts the texts and tokens that were scored.

    Raises:
        ResumeError: the run standing at `out` has other settings or another input.
        StoppedByErrorsError: more than `max_errors` error records.
        InputError: the input is refused whole.
        ResourceError: the server is gone.
    """
    meter = meter or Meter()
    scoring.prompts.templates.read_by(getattr(scoring.scorer, "plain_text", str))
    checkpoint = outputs(out, {**scoring.identity, **reading}, {"name": name, "seeds": {}})
    loop = RowLoop(checkpoint, name, max_errors, on_progress)
    return loop.run(
        entries,
        scoring.prompts.skip,
        lambda source: _outcomes(scoring, source, checkpoint),
        lambda outcome: _written(scoring.fields, outcome, meter),
        lambda: Measured(meter.now),
    )


def _outcomes(
    scoring: ListScoring, entries: Iterator[ListEntry], checkpoint: Checkpoint | Stream
) -> Generator[tuple[ListEntry, _Scored]]:
    """Every entry with what came of it, in order."""
    waiting: deque[tuple[ListEntry, _Scored]] = deque()
    num_saved = checkpoint.state.entries

    def save() -> None:
        nonlocal num_saved
        if checkpoint.state.entries > num_saved:
            num_saved = checkpoint.state.entries
            checkpoint.save()

    def asked() -> Iterator[Asked]:
        for entry in entries:
            try:
                texts, is_cut = scoring.read(entry)
            except DiscorankError as error:
                waiting.append((entry, _Scored(None, (), False)))
                yield error
            else:
                waiting.append((entry, _Scored(entry.record, texts, is_cut)))
                yield list(dict.fromkeys(texts))

    for answered in scoring.scorer.scored(asked(), save):
        entry, one = waiting.popleft()
        yield entry, one._replace(answered=answered)


def _written(fields: ValueFields, one: _Scored, meter: Meter) -> Addition:
    """The row of a list, and what it adds to the counts of the run; raises an error instead."""
    if isinstance(one.answered, DiscorankError):
        raise one.answered
    if one.record is None:
        raise InputError("nothing was read")
    record = one.record
    if one.asked:
        value_of = dict(zip(dict.fromkeys(one.asked), one.answered, strict=True))
        texts = zip(_placed(record), one.asked, strict=True)
        values = [_checked(value_of[text], place) for (place, _), text in texts]
        record = fields.written(record, values)
        tokens_of = {text: value.tokens for text, value in zip(one.asked, values, strict=True)}
        meter.count(texts=len(tokens_of), tokens=sum(tokens_of.values()))
    row = write_list(record)
    if one.is_cut:
        row["context_was_cut"] = True
    distinct_texts = {candidate.text for candidate in record.candidates}
    counts = {
        "rows": 1,
        "candidates": len(record.candidates),
        "duplicates": len(record.candidates) - len(distinct_texts),
        **({"context-cut": 1} if one.is_cut else {}),
    }
    return {"rows": row}, counts


def _checked(value: ScoredText | DiscorankError, place: str) -> ScoredText:
    """The value of a text; raises the error in its place, or one for NaN."""
    if isinstance(value, DiscorankError):
        raise value.inside(place)
    if isnan(value.logprob):
        fix = "Does the model work in this precision? Try --dtype float32"
        raise MetricError("the model gives NaN", where=place, fix=fix)
    return value
