"""Where log-probabilities go: into a key of every candidate, and how many tokens they are of into another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from ...metrics.errors import InputError, excerpt
from ...metrics.spec.checked_settings import settings
from ...rerank.lists import ANNOTATIONS, Candidate, CandidateList
from .text_scorer import ScoredText

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
        if not self.field or self.field in ("text", "tokens", "unfinished", *ANNOTATIONS):
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
