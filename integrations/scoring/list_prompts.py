"""The scored texts of a candidate list, each behind its prompt.

Forwards the candidate is scored and ``{source}`` is a field of the prompt; in reverse the source is scored, and
``{candidate}`` is the field. The contexts are the preceding sentences of the document, by the rule of
`rerank/order.py`: their sources, and what was chosen for them, which the lists themselves or a file of earlier
choices say, so that no list waits for another. A document is read as one text, its sentences joined by spaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Literal, NamedTuple, Protocol

from ...metrics.errors import DiscorankError, InputError, excerpt
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource, without_trailing_blanks
from ...metrics.text.prompt_template import SOURCE
from ...metrics.text.texts import NO_CONTEXT, Context, Document, Text
from ...rerank.lists import Candidate, CandidateList
from ...rerank.order import DocumentStream
from ...rerank.runs.resumable import Entry
from ...rerank.runs.run_file import check_beside, lines_of_run
from ..formats.readers.jsonl import id_of
from ..generation.prompt_templates import CANDIDATE, FewShotTemplates

# a field of candidates: the blanks that `generate` found between a prompt and a text
LEAD = "lead"


class PromptedText(NamedTuple):
    """A text to be scored.

    Args:
        prompt: what the model reads before it.
        text: what is scored; a token that controls a model, such as </s>, is words where it is written out in it.
        ends: whether it is whole, so that its end may be scored too.
        lead: the blanks between the prompt and the text, scored with it by models that read both as one string.
        end_text: what is put behind the text and scored with it; in it, as in the prompt, such a token is what it is
            (what fills the fields of a prompt has none: see `TextScorer`).
    """

    prompt: str
    text: str
    ends: bool = True
    end_text: str = ""
    lead: str = ""


class ScoredText(NamedTuple):
    """How likely a text is.

    Args:
        logprob: its total natural log-probability, at most 0.
        tokens: how many tokens were scored.
    """

    logprob: float
    tokens: int


# the distinct texts of one list, or the error that stands for it
Asked = Sequence[PromptedText] | DiscorankError
# what came of each text, or the error that stands for the list
Answered = Sequence[ScoredText | DiscorankError] | DiscorankError


class TextScorer(Protocol):
    """A model that gives texts their log-probabilities.

    One that knows which tokens control its model has a method `plain_text`, as a `Generator` may.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """The settings that values depend on, as JSON values; no key, device or address of a machine."""

    def scored(self, lists: Iterable[Asked], before_work: Callable[[], None]) -> Iterator[Answered]:
        """The outcome of every list, in order; errors among the lists are handed on.

        Args:
            lists: read ahead as far as the model wants for its batches; not past an error.
            before_work: called before anything that takes time, so that what came out can be saved.

        Raises:
            DiscorankError: nothing can be scored at all: a server that is gone.
        """


def read_chosen_texts(path: str) -> dict[str, Text]:
    """The chosen text of every list.

    Raises:
        InputError: the file cannot be read, is not what its run file says, or a line is no choice.
    """
    check_beside(path)
    chosen: dict[str, Text] = {}
    with closing(LineSource(lines_of_run(path))) as source:
        for number, line in without_trailing_blanks(source):
            try:
                list_id, text = _choice(parse_json(line))
                if list_id in chosen:
                    raise InputError(f"{list_id!r:.80} was there before", where="id")
            except InputError as error:
                raise error.inside(f"{source.name}:{number}") from None
            chosen[list_id] = text
    return chosen


def _choice(row: Any) -> tuple[str, Text]:
    """The id and the text of a line."""
    list_id = id_of(row)
    if list_id is None:
        fix = "Give the rows that decode or rerank wrote"
        raise InputError("found no id, expected an object with id and text", where="id", fix=fix)
    text = row.get("text")
    if isinstance(text, str):
        return list_id, text
    if isinstance(text, list) and all(isinstance(sentence, str) for sentence in text):
        return list_id, Document(tuple(text))
    fix = "Give the rows that decode or rerank wrote"
    raise InputError("found no text", where="text", fix=fix)


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
        self.stream, self.after_gap = DocumentStream(context), False
        self._check()

    def _check(self) -> None:
        scored = SOURCE if self.templates.reverse else CANDIDATE
        for template in (self.templates.template, self.templates.first):
            if scored in template.fields:
                problem = f"holds {{{scored}}}, which is what is scored"
                fix = (
                    "Take it out"
                    if self.templates.reverse
                    else "Take it out, or score the source: reverse"
                )
                raise InputError(problem, where=template.where, fix=fix)
        self.templates.check_width(self.context)
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
        templates = self.templates
        examples = templates.examples
        return {
            "prompt": templates.template.text,
            "first_prompt": templates.first.text,
            "examples": None if examples is None else [examples.digest, templates.separator],
            "reverse": templates.reverse,
            "context": self.context,
            "context_from": self.context_from,
            "end_text": self.end_text,
        }

    def skip(self, entry: Entry[CandidateList]) -> None:
        """Counts a list that an earlier run has done; it is context of what comes."""
        with suppress(InputError):
            self._enter(entry.record)

    def read(self, entry: Entry[CandidateList]) -> tuple[list[PromptedText], bool]:
        """The scored texts of the next list: its candidates, then its pseudo-references.

        Nothing is asked of a list that lends context alone. The second value says whether the list is cut off from
        the sentences before it, or these are lost.

        Raises:
            DiscorankError: nothing can be asked of the list.
        """
        record = entry.record
        context, is_cut = self._enter(record)
        if record is None:
            raise entry.error or InputError("nothing was read")
        if record.context_only:
            return [], is_cut
        texts = (*record.candidates, *record.pseudo_references)
        return [self._prompted(record, candidate, context) for candidate in texts], is_cut

    def _prompted(
        self, record: CandidateList, candidate: Candidate, context: Context
    ) -> PromptedText:
        """The scored text of a candidate behind its prompt, with its end where it is whole."""
        text, is_whole, lead = str(candidate.text), True, ""
        if self.templates.reverse:
            prompt = self.templates.filled("", context, {**record.extra, CANDIDATE: text})
            text = self._source(record)
        else:
            source = self._source(record) if self.templates.reads_source(context) else ""
            prompt = self.templates.filled(source, context, record.extra)
            is_whole, lead = "unfinished" not in candidate.fields, _lead(prompt, candidate)
        if self.end_text is None or not is_whole:
            return PromptedText(prompt, text, is_whole, "", lead)
        return PromptedText(prompt, text, False, self.end_text, lead)

    def _enter(self, record: CandidateList | None) -> tuple[Context, bool]:
        """Context of the next list, and whether it is cut off; the list becomes context of those after it."""
        after_gap, self.after_gap = self.after_gap, record is None
        if record is None or not self.context:
            return NO_CONTEXT, False
        if record.document is None:
            problem = "no document, but the prompt reads context"
            fix = "Name the document of every list, or leave context out"
            raise InputError(problem, where="document", fix=fix)
        if record.document != self.document:
            self.document, self.stream = record.document, DocumentStream(self.context)
        is_cut = self.stream.enter(record.position, after_gap)
        context = self.stream.context
        try:
            self.stream.extend(self._source(record), self._chosen(record))
        except InputError:
            self.stream.lose()
            raise
        return context, is_cut

    def _source(self, record: CandidateList) -> str:
        if record.source is None:
            fix = "Give every list its source, or another prompt"
            raise InputError("found nothing, expected a text", where="source", fix=fix)
        return str(record.source)

    def _chosen(self, record: CandidateList) -> str:
        """The text that is taken as the choice from a list.

        Raises:
            InputError: there is none.
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


def _lead(prompt: str, candidate: Candidate) -> str:
    """The blanks that `generate` found before a text and left out of it; none behind a prompt that ends in one."""
    lead = candidate.fields.get(LEAD)
    is_blank = isinstance(lead, str) and not lead.strip()
    return str(lead) if is_blank and prompt and not prompt[-1].isspace() else ""


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
