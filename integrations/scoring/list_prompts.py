"""What is asked of a candidate list: each of its texts behind the prompt it is scored after.

Forwards the candidate is scored and ``{source}`` is a field of the prompt; in reverse the source is scored, and
``{candidate}`` is the field. The contexts are the preceding sentences of the document, by the rule of
`rerank/context.py`: their sources, and what was chosen for them, which the lists themselves or a file of earlier
choices say, so that no list waits for another. A document is read as one text, its sentences joined by spaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ...metrics.errors import DiscorankError, InputError, excerpt
from ...metrics.text.texts import NO_CONTEXT, Context, Text
from ...rerank.context import Lane
from ...rerank.lists import Candidate, CandidateList
from ...rerank.runs.entry import Entry
from .few_shot_templates import CANDIDATE, FewShotTemplates
from .text_scorer import PromptedText

ContextFrom = Literal["chosen", "reference", "first"]


class ListPrompts:
    """Reads lists in order and says what is asked of each.

    Args:
        templates: what stands before a text.
        context: how many preceding sentences the contexts hold.
        context_from: what stands for what was chosen: the key `chosen` of lists, or `choices`; the first reference;
            the first candidate.
        choices: texts chosen earlier, by the id of their list.
        end_text: what stands behind a whole text and is scored with it in place of the model's own end, if anything.

    Raises:
        InputError: these do not fit together.
    """

    def __init__(
        self,
        templates: FewShotTemplates,
        context: int = 0,
        context_from: ContextFrom = "chosen",
        choices: Mapping[str, Text] | None = None,
        end_text: str | None = None,
    ) -> None:
        self.templates = templates
        self.context, self.context_from = context, context_from
        self.choices, self.end_text = choices, end_text
        self.document: str | None = None  # of the last list
        self.lane, self.after_gap = Lane(context), False
        self._check()

    def _check(self) -> None:
        if self.templates.reads_context and not self.context:
            fix = "Say how many sentences"
            raise InputError("the prompt reads context, but none is kept", where="context", fix=fix)
        if self.context and not self.templates.reads_context:
            fix = "Put {source_context} or {target_context} into it, or leave context out"
            raise InputError("the prompt reads no context", where="prompt", fix=fix)
        names_choices = self.choices is not None or self.context_from != "chosen"
        if names_choices and not self.templates.reads_choices:
            fix = "Put {target_context} into the prompt, or leave it out"
            where = "choices" if self.choices is not None else "context_from"
            raise InputError("the prompt does not read what was chosen", where=where, fix=fix)
        if self.choices is not None and self.context_from != "chosen":
            raise InputError("stands beside choices", where="context_from", fix="Give one of them")

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that values depend on; the choices have a digest elsewhere."""
        return {
            **self.templates.identity,
            "context": self.context,
            "context_from": self.context_from,
            "end_text": self.end_text,
        }

    def skip(self, entry: Entry[CandidateList]) -> None:
        """Counts a list that an earlier run has done; it is context of what comes."""
        self._entered(entry.record)

    def read(self, entry: Entry[CandidateList]) -> tuple[list[PromptedText], bool] | DiscorankError:
        """What is asked of the next list: its candidates, then its pseudo-references.

        Nothing is asked of a list that lends context alone. The second value says whether the list is cut off from
        the sentences before it, or these are lost. An error stands for a list of which nothing can be asked.
        """
        record = entry.record
        entered = self._entered(record)
        if record is None:
            return entry.error or InputError("nothing was read")
        if isinstance(entered, DiscorankError):
            return entered
        context, is_cut = entered
        if record.context_only:
            return [], is_cut
        try:
            texts = (*record.candidates, *record.pseudo_references)
            return [self._prompted(record, candidate, context) for candidate in texts], is_cut
        except DiscorankError as error:
            return error

    def _prompted(
        self, record: CandidateList, candidate: Candidate, context: Context
    ) -> PromptedText:
        """What is asked of a candidate."""
        text = str(candidate.text)
        if not self.templates.reverse:
            source = self._source(record) if self.templates.reads_source(context) else ""
            prompt = self.templates.filled(source, context, record.extra)
            return self._ended(prompt, text, "unfinished" not in candidate.fields)
        prompt = self.templates.filled("", context, {**record.extra, CANDIDATE: text})
        return self._ended(prompt, self._source(record), True)

    def _ended(self, prompt: str, text: str, is_whole: bool) -> PromptedText:
        """A text behind a prompt, with its end where it is whole."""
        if self.end_text is None or not is_whole:
            return PromptedText(prompt, text, is_whole)
        return PromptedText(prompt, text, ends=False, end_text=self.end_text)

    def _entered(self, record: CandidateList | None) -> tuple[Context, bool] | DiscorankError:
        """Context of the next list, and whether it is cut off; the list becomes context of those after it."""
        if record is None:
            self.after_gap = True
            return NO_CONTEXT, False
        after_gap, self.after_gap = self.after_gap, False
        if not self.context:
            return NO_CONTEXT, False
        if record.document is None:
            fix = "Name the document of every list, or leave context out"
            return InputError(
                "no document, but the prompt reads context", where="document", fix=fix
            )
        if record.document != self.document:
            self.document, self.lane = record.document, Lane(self.context)
        is_cut = self.lane.enter(record.position, after_gap)
        context = self.lane.context
        try:
            self.lane.extend(self._source(record), self._chosen(record))
        except InputError as error:
            self.lane.lose()
            return error
        return context, is_cut

    def _source(self, record: CandidateList) -> str:
        if record.source is None:
            fix = "Give every list its source, or another prompt"
            raise InputError("found nothing, expected a text", where="source", fix=fix)
        return str(record.source)

    def _chosen(self, record: CandidateList) -> str:
        """What stands for the choice from a list.

        Raises:
            InputError: nothing does.
        """
        if not self.templates.reads_choices:
            return ""
        if record.context_only or self.context_from == "first":
            return str(record.candidates[0].text)
        if self.context_from == "reference":
            if not record.references:
                fix = "Give every list a reference, or take another context"
                raise InputError(
                    "none, but the context is made of them", where="references", fix=fix
                )
            return str(record.references[0])
        if self.choices is not None:
            if record.id not in self.choices:
                fix = "Decode the same lists with --max-errors 0, or take another context"
                raise InputError(f"has no choice from {record.id!r:.80}", where="choices", fix=fix)
            return str(self.choices[record.id])
        return str(record.candidates[_index(record)].text)


def _index(record: CandidateList) -> int:
    """The candidate that the key `chosen` of a list names."""
    index = record.extra.get("chosen")
    if type(index) is int and 0 <= index < len(record.candidates):
        return index
    shown = excerpt(index) if "chosen" in record.extra else "nothing"
    raise InputError(
        f"found {shown}, expected the number of a candidate",
        where="chosen",
        fix="Name earlier choices with --choices, or take --context-from reference or first",
    )
