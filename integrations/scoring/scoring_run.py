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
from ...rerank.runs.resumable import Checkpoint, RowLoop, Stream, Written, as_line, outputs
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
        for name in ("candidates", "pseudo_references"):
            for i, candidate in enumerate(getattr(record, name)):
                for key in (self.field, self.tokens):
                    if key in candidate.fields or (
                        key == LOGPROB and candidate.logprob is not None
                    ):
                        fix = "Write to another key with --field, or replace it with --overwrite"
                        raise InputError("is there already", where=f"{name}[{i}].{key}", fix=fix)

    def written(self, record: CandidateList, values: Sequence[ScoredText]) -> CandidateList:
        """The list with a value for every candidate, then for every pseudo-reference.

        Raises:
            InputError: a value that JSON cannot hold.
        """
        num_candidates = len(record.candidates)
        of_candidates, of_references = values[:num_candidates], values[num_candidates:]
        return replace(
            record,
            candidates=self._with(record.candidates, of_candidates),
            pseudo_references=self._with(record.pseudo_references, of_references),
        )

    def _with(
        self, candidates: Sequence[Candidate], values: Sequence[ScoredText]
    ) -> tuple[Candidate, ...]:
        pairs = zip(candidates, values, strict=True)
        return tuple(self._candidate(candidate, value) for candidate, value in pairs)

    def _candidate(self, candidate: Candidate, value: ScoredText) -> Candidate:
        fields = {**candidate.fields, self.tokens: value.tokens}
        if self.field == LOGPROB:
            return replace(candidate, logprob=value.logprob, fields=fields)
        if not isfinite(value.logprob):
            problem = f"a log-probability of {value.logprob}, which no key but logprob holds"
            raise InputError(problem, where=f"{excerpt(str(candidate.text))}")
        return replace(candidate, fields={**fields, self.field: value.logprob})


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


class _ScoredList(NamedTuple):
    """A list with its values, and how many distinct texts and tokens they are of."""

    record: CandidateList
    is_cut: bool
    texts: int = 0
    tokens: int = 0


class _WaitingList(NamedTuple):
    """An entry, what is asked of it, and the distinct texts among that."""

    entry: ListEntry
    asked: Sequence[PromptedText] = ()
    is_cut: bool = False
    distinct: Sequence[PromptedText] = ()


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
    save = _Saving(checkpoint).save
    return loop.run(
        entries,
        scoring.prompts.skip,
        lambda source: _outcomes(scoring, source, save, meter),
        _written,
        lambda: Measured(meter.now),
    )


class _Saving:
    """Saves what was written since it was last called."""

    def __init__(self, checkpoint: Checkpoint | Stream) -> None:
        self.checkpoint, self.saved = checkpoint, checkpoint.state.entries

    def save(self) -> None:
        """Saves the outputs if there is more in them."""
        if self.checkpoint.state.entries > self.saved:
            self.saved = self.checkpoint.state.entries
            self.checkpoint.save()


def _outcomes(
    scoring: ListScoring, entries: Iterator[ListEntry], save: Callable[[], None], meter: Meter
) -> Generator[tuple[ListEntry, _ScoredList | DiscorankError]]:
    """Every entry with its scored list, or the error that stands for it, in order."""
    waiting: deque[_WaitingList] = deque()

    def asked() -> Iterator[Asked]:
        for entry in entries:
            read = _read(scoring, entry)
            if isinstance(read, DiscorankError):
                waiting.append(_WaitingList(entry))
                yield read
            else:
                waiting.append(read)
                yield read.distinct

    for answered in scoring.scorer.scored(asked(), save):
        one = waiting.popleft()
        outcome = _scored_list(scoring.fields, one, answered)
        if isinstance(outcome, _ScoredList):
            meter.count(texts=outcome.texts, tokens=outcome.tokens)
        yield one.entry, outcome


def _read(scoring: ListScoring, entry: ListEntry) -> _WaitingList | DiscorankError:
    """The scored texts of an entry, or its error."""
    read = scoring.prompts.read(entry)
    if isinstance(read, DiscorankError):
        return read
    asked, is_cut = read
    try:
        if asked and entry.record is not None:
            scoring.fields.check(entry.record)
    except InputError as error:
        return error
    return _WaitingList(entry, asked, is_cut, list(dict.fromkeys(asked)))


def _scored_list(
    fields: ValueFields, one: _WaitingList, answered: Answered
) -> _ScoredList | DiscorankError:
    """The list with its values, or the first error among them."""
    record = one.entry.record
    if isinstance(answered, DiscorankError) or record is None:
        return answered if isinstance(answered, DiscorankError) else InputError("nothing was read")
    if not one.asked:
        return _ScoredList(record, one.is_cut)
    value_of = dict(zip(one.distinct, answered, strict=True))
    values: list[ScoredText] = []
    for i, text in enumerate(one.asked):
        value = _checked(value_of[text])
        if isinstance(value, DiscorankError):
            return value.inside(_place(record, i))
        values.append(value)
    try:
        scored = fields.written(record, values)
    except InputError as error:
        return error
    num_tokens = {text: value.tokens for text, value in zip(one.asked, values, strict=True)}
    return _ScoredList(scored, one.is_cut, len(num_tokens), sum(num_tokens.values()))


def _checked(value: ScoredText | DiscorankError) -> ScoredText | DiscorankError:
    """The value, or an error in place of NaN."""
    if isinstance(value, ScoredText) and isnan(value.logprob):
        fix = "Does the model work in this precision? Try --dtype float32"
        return MetricError("the model gives NaN", where="", fix=fix)
    return value


def _place(record: CandidateList, i: int) -> str:
    """Where the i-th of the candidates and pseudo-references of a list stands in it."""
    num_candidates = len(record.candidates)
    if i < num_candidates:
        return f"candidates[{i}]"
    return f"pseudo_references[{i - num_candidates}]"


def _written(outcome: _ScoredList | DiscorankError) -> Written:
    """The line of a list, and what it adds to the counts of the run; raises an error instead of a list."""
    if isinstance(outcome, DiscorankError):
        raise outcome
    record = outcome.record
    row = write_list(record)
    if outcome.is_cut:
        row["context_was_cut"] = True
    distinct_texts = {candidate.text for candidate in record.candidates}
    counts = {
        "rows": 1,
        "candidates": len(record.candidates),
        "duplicates": len(record.candidates) - len(distinct_texts),
        **({"context-cut": 1} if outcome.is_cut else {}),
    }
    return {"rows": as_line(row)}, counts
