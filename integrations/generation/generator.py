"""The interface of all generators of candidates: prompts in, candidate lists out, in order.

`HuggingFaceGenerator` and `ServerGenerator` have it; so may anything else with these three members. A generator knows
neither files, nor how a choice is made.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import tee
from typing import Any, Protocol
from warnings import warn

from ...metrics.errors import DiscorankError, InputError, unknown
from ...metrics.registry import MetricLike
from ...metrics.text.texts import Text
from ...rerank.lists import NOTHING, Candidate, CandidateList
from ...rerank.mbr import MBRDecoder
from ...rerank.reranker import Reranker


@dataclass(frozen=True, slots=True)
class Prompt:
    """One input of a generator.

    Args:
        id: its name, unique in a run.
        text: what the model reads.
        source: the source that its candidate list carries, where it is another text than the prompt or none.
        document, position: as in a candidate list.
        references: human references, passed on.
        extra: other keys, passed on.
        messages: a conversation that the model reads in its chat template, in place of the text.
    """

    id: str
    text: str
    source: Text | None = None
    document: str | None = None
    position: int | None = None
    references: tuple[Text, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    messages: tuple[Mapping[str, Any], ...] = ()

    def with_extra(self, more: Mapping[str, Any]) -> Prompt:
        """The prompt with further keys."""
        return replace(self, extra={**self.extra, **more})

    def with_candidates(
        self, candidates: Sequence[Candidate], pseudo_references: Sequence[Candidate] = ()
    ) -> CandidateList:
        """The candidate list of this prompt."""
        return CandidateList(
            id=self.id,
            candidates=tuple(candidates),
            source=self.source,
            document=self.document,
            position=self.position,
            pseudo_references=tuple(pseudo_references),
            references=self.references,
            extra=self.extra,
        )

    def generated(
        self, candidates: Sequence[Candidate], pseudo_references: Sequence[Candidate] = ()
    ) -> Generated:
        """The candidate list of this prompt, or the error that stands for it where every candidate is empty."""
        if any(str(candidate.text).strip() for candidate in candidates):
            return self.with_candidates(candidates, pseudo_references)
        problem = f"the model generated nothing: {len(candidates)} empty candidates"
        fix = "Look at the end of the prompt, and at what ends a candidate"
        return InputError(problem, where="text", fix=fix)


Generated = CandidateList | DiscorankError


class Generator(Protocol):
    """Where candidates come from.

    One that counts its tokens has a `Meter` named `meter`. One whose lists may depend, be it by the last bit of a
    number, on the prompts that are handed over beside theirs has `makes_batches = True`: a batch that was half done
    when a run was stopped is then generated again as a whole. One that knows which tokens control its model, such as
    </s>, has a method `plain_text`: a text in which these are words; what fills the fields of a prompt is made so.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """The settings that candidates depend on, as JSON values; no key, device or address of a machine."""

    @property
    def prompts_at_once(self) -> int:
        """How many prompts it wants to be handed together, such as a few batches or all its connections."""

    def generate(self, prompts: Iterable[Prompt]) -> Iterator[Generated]:
        """The candidate list of every prompt, or the error that stands for it, in the order of the prompts.

        Raises:
            DiscorankError: nothing can be generated at all: a setting that cannot work, a server that is gone.
        """


ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
FIX = "Give a text that is not empty, such as '\\n'"


def check_stops(stops: Sequence[str]) -> None:
    """Raises InputError for a stop string without a character."""
    if any(not isinstance(stop, str) or not stop for stop in stops):
        raise InputError("an empty stop string ends every candidate", where="stop", fix=FIX)


def unescaped(text: str) -> str:
    """A stop string as it was typed.

    >>> unescaped(r"\\n\\nEnglish")
    '\\n\\nEnglish'

    Raises:
        InputError: a backslash before anything else.
    """

    def character(match: re.Match[str]) -> str:
        if match[1] not in ESCAPES:
            problem = f"found {match[0]!r}, expected one of \\n \\t \\r \\\\"
            raise InputError(problem, where="--stop", fix="Write \\\\ for a backslash")
        return ESCAPES[match[1]]

    return re.sub(r"\\(.?)", character, text, flags=re.DOTALL)


def before_stop(text: str, stops: Sequence[str]) -> str | None:
    """The text before the first stop string in it; None if there is none.

    >>> before_stop("Hallo.\\nEnglish: B", ["\\n"])
    'Hallo.'
    """
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else None


def decider_of(
    utility: MetricLike | MBRDecoder | Reranker, settings: Mapping[str, Any]
) -> MBRDecoder | Reranker:
    """A whole decider as it is, or an `MBRDecoder` of the utility and the settings, with every candidate as a place.

    Raises:
        InputError: settings beside a whole decider; as `MBRDecoder`.
    """
    if not isinstance(utility, MBRDecoder | Reranker):
        return MBRDecoder(**{"utility": utility, "nbest": None, **settings})
    if settings:
        fix = f"Set it in the {type(utility).__name__}"
        raise InputError("stands beside a whole decoder", where=min(settings), fix=fix)
    return utility


def in_groups(settings: Mapping[str, Any], *groups: Collection[str]) -> list[dict[str, Any]]:
    """Keyword arguments by the groups of names that they belong to; raises InputError for one of no group."""
    known = {name for group in groups for name in group}
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known)
    return [{name: value for name, value in settings.items() if name in group} for group in groups]


def lists_of(generator: Generator, prompts: Iterable[Prompt]) -> Iterator[CandidateList]:
    """The candidate lists of all prompts, with a warning as `warning_of_no_choice`.

    Raises:
        DiscorankError: the first error, with the id of its prompt.
    """
    return warning_of_no_choice(_lists(generator, prompts))


def _lists(generator: Generator, prompts: Iterable[Prompt]) -> Iterator[CandidateList]:
    source, named = tee(prompts)
    for generated, prompt in zip(generator.generate(source), named, strict=True):
        if isinstance(generated, DiscorankError):
            raise generated.inside(f"text {prompt.id!r}")
        yield generated


def has_no_choice(record: CandidateList) -> bool:
    """Whether several candidates are all the same text."""
    texts = {candidate.text for candidate in record.candidates}
    return len(record.candidates) > 1 and len(texts) == 1


def warning_of_no_choice(lists: Iterable[CandidateList]) -> Iterator[CandidateList]:
    """The lists; warns behind the last how many of them have one distinct candidate."""
    num_lists = without_choice = 0
    for record in lists:
        num_lists += 1
        without_choice += has_no_choice(record)
        yield record
    if without_choice:
        problem = f"{without_choice} of {num_lists} lists have one distinct candidate"
        remedy = "raise the temperature, or lower the cutoff"
        warn(f"{problem}, so that nothing is chosen: {remedy}", UserWarning, stacklevel=2)
