"""Documents sentence by sentence: generate for a sentence, choose, and let the choice be context of the next.

The next sentences of several documents are generated together, as many as the generator takes at once, those of the
first documents before others, so that these are done and written first. Without a
decider nothing is chosen, and inputs need no document. It knows neither files nor where candidates come from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

from ...metrics.errors import DiscorankError, InputError
from ...metrics.execution.meter import Meter, Metered
from ...metrics.text.prompt_template import FewShotExamples, Template
from ...metrics.text.texts import NO_CONTEXT, Context
from ...rerank.engines.interface import Engine
from ...rerank.engines.local import LocalEngine
from ...rerank.lists import CandidateList
from ...rerank.mbr import MBRDecoder
from ...rerank.order import DocumentStream
from ...rerank.scheduler import Program, Scheduler
from .generator import Generator, Prompt
from .prompt_templates import FewShotTemplates


@dataclass(slots=True)
class WaitingInput:
    """An input that waits for its turn, in the stream of its document."""

    place: int
    prompt: Prompt
    stream: DocumentStream
    after_gap: bool  # the line before it could not be read
    context: Context = NO_CONTEXT
    flags: tuple[str, ...] = ()

    @property
    def reading(self) -> str:
        """A digest of all that its list is made from: the input, and its context."""
        read = repr((self.prompt, self.context, self.flags))
        return blake2b(read.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def enter(self) -> None:
        """Takes its turn, which gives it its context."""
        is_cut = self.stream.enter(self.prompt.position, self.after_gap)
        self.context, self.flags = self.stream.context, ("context-cut",) * is_cut

    def leave(self, chosen: str | None) -> None:
        """Makes it context of the next, with what was chosen for it; None if nothing could be."""
        if chosen is None:
            self.stream.lose()
        else:
            self.stream.extend(str(self.prompt.source or self.prompt.text), chosen)


TURNS_AHEAD = 8  # how many times as many inputs are read ahead where documents take turns


class Turn(NamedTuple):
    """The outcome of one input: its candidates, and which was chosen, where something chooses."""

    record: CandidateList
    chosen: int | None = None
    flags: tuple[str, ...] = ()


class Done(NamedTuple):
    """The outcome of an input, by its place, and a digest of what it was made from."""

    place: int
    outcome: Turn | DiscorankError
    reading: str = ""


class Turns:
    """Generates for inputs in order, and decides where the prompt wants what was chosen.

    Args:
        generator: where candidates come from.
        template: what the model reads of each input.
        first: the template for an input without preceding sentences; `template` if not given.
        context: how many preceding sentences the contexts of a template hold.
        decider: what chooses; needed for ``{target_context}``, and then only.
        engine: what values the lists; one in this process if not given.
        examples: few-shot examples that stand before the prompt of every input.

    Raises:
        InputError: an example lacks a field of a template; templates, context and decider do not fit together.
    """

    def __init__(
        self,
        generator: Generator,
        template: Template,
        first: Template | None = None,
        context: int = 0,
        decider: MBRDecoder | None = None,
        engine: Engine | None = None,
        examples: FewShotExamples | None = None,
    ) -> None:
        self.generator, self.decider, self.engine = generator, decider, engine or LocalEngine()
        self.templates, self.context = FewShotTemplates(template, first, examples), context
        self.templates.read_by(getattr(generator, "plain_text", str))
        self.templates.check_width(context)
        # of the last input
        self.document: str | None = None
        self.stream, self.after_gap = DocumentStream(self.width), False
        reads = self.templates.reads_choices
        if reads and decider is None:
            fix = "Give a utility that chooses among the candidates"
            raise InputError("the prompt reads what was chosen", where="utility", fix=fix)
        if decider is not None and not reads:
            fix = "Leave it out and decode the candidate lists afterwards, or put {target_context} into the prompt"
            raise InputError("the prompt does not read what was chosen", where="utility", fix=fix)

    @property
    def width(self) -> int:
        """How many preceding sentences are kept."""
        return max(self.context, 0 if self.decider is None else self.decider.width)

    @property
    def at_once(self) -> int:
        """How many inputs should be handed together."""
        return self.generator.prompts_at_once * (TURNS_AHEAD if self.decider else 1)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that the outcomes depend on."""
        examples = self.templates.examples
        return {
            **self.generator.identity,
            "prompt": self.templates.template.text,
            "first_prompt": self.templates.first.text,
            "context": self.context,
            "decider": None if self.decider is None else self.decider.identity,
            **({"examples": examples.digest} if examples else {}),
        }

    @property
    def work(self) -> Metered:
        """The counts of the generator, where it keeps some."""
        meter: Meter | None = getattr(self.generator, "meter", None)
        return Metered() if meter is None else meter.now

    @property
    def makes_batches(self) -> bool:
        """Whether prompts that were handed to the generator together must be so again."""
        return bool(getattr(self.generator, "makes_batches", False))

    def outcomes(
        self,
        inputs: Sequence[Prompt | DiscorankError],
        chosen: Sequence[str | None] = (),
        kept: Callable[[str], Turn | None] = lambda reading: None,
    ) -> Iterator[list[Done]]:
        """The outcomes of inputs in the order in which they come, those of one batch together.

        An error among the inputs stands for one that could not be read, and is its own outcome. The next call goes on
        where this one ended.

        Args:
            inputs: the inputs, in order.
            chosen: what an earlier session has chosen for the first ones, None where nothing could be; they do not
                come out again.
            kept: the list that an earlier session made from this reading, if it kept one.

        Raises:
            DiscorankError: nothing more can be generated; what was finished before has come out.
        """
        errors = [
            Done(place, entry)
            for place, entry in enumerate(inputs)
            if isinstance(entry, DiscorankError) and place >= len(chosen)
        ]
        if errors:
            yield errors
        queues = self._queues(inputs)
        while any(queues):
            # the next input of the first documents, generated together
            wave: list[WaitingInput] = []
            for queue in queues:
                if self.decider is None or len(wave) < self.generator.prompts_at_once:
                    wave += self._ready(queue)
            yield from self._wave(wave, chosen, kept)

    def _queues(self, inputs: Sequence[Prompt | DiscorankError]) -> list[deque[WaitingInput]]:
        """The inputs of every document, in order; documents are adjacent, so one stream is known at a time."""
        queues: list[deque[WaitingInput]] = []
        for place, entry in enumerate(inputs):
            if isinstance(entry, DiscorankError):
                self.after_gap = True
                continue
            is_same = entry.document is not None and entry.document == self.document
            if not is_same:
                self.document, self.stream = entry.document, DocumentStream(self.width)
            if not is_same or not queues:
                queues.append(deque())
            queues[-1].append(WaitingInput(place, entry, self.stream, self.after_gap))
            self.after_gap = False
        return queues

    def _ready(self, queue: deque[WaitingInput]) -> Iterator[WaitingInput]:
        """The next of a document, or all where none has to wait for a choice."""
        while queue:
            job = queue.popleft()
            job.enter()
            yield job
            if self.decider is not None:
                return
            job.leave("")

    def _wave(
        self,
        wave: Sequence[WaitingInput],
        chosen: Sequence[str | None],
        kept: Callable[[str], Turn | None],
    ) -> Iterator[list[Done]]:
        """The outcomes of inputs that do not wait for one another; their streams are extended by them."""
        job_at = {job.place: job for job in wave}
        earlier: list[Done] = []
        new: set[int] = set()
        for place, job in job_at.items():
            if place >= len(chosen):
                turn = kept(job.reading)
                if turn is None:
                    new.add(place)
                else:
                    earlier.append(Done(place, turn, job.reading))
            elif self.decider is not None:
                job.leave(chosen[place])
        # of a batch that was half done all is generated again, as it may depend on what stands in it
        jobs = [job for job in wave if self.makes_batches or job.place in new]
        decided = self._decided(jobs, new) if new else ()
        for together in chain([earlier], decided):
            if self.decider is not None:
                for done in together:
                    job_at[done.place].leave(_text_of(done.outcome))
            yield together

    def _decided(self, jobs: Sequence[WaitingInput], new: Collection[int]) -> Iterator[list[Done]]:
        """Generates for inputs, and decides those whose places are new; what came before an error comes out."""
        if self.decider is None:
            for one in self._made(jobs, new):
                yield [one]
            return
        made: list[Done] = []
        stopped: BaseException | None = None
        try:
            for one in self._made(jobs, new):
                made.append(one)
        except (DiscorankError, KeyboardInterrupt) as error:
            stopped = error
        yield self._chosen(made, {job.place: job.context for job in jobs}, self.decider)
        if stopped is not None:
            raise stopped

    def _made(self, jobs: Sequence[WaitingInput], new: Collection[int]) -> Iterator[Done]:
        """The candidates of the inputs whose places are new, in order, as they come."""
        filled = [self._filled(job) for job in jobs]
        made = iter(
            self.generator.generate([prompt for prompt in filled if isinstance(prompt, Prompt)])
        )
        for job, prompt in zip(jobs, filled, strict=True):
            outcome = next(made) if isinstance(prompt, Prompt) else prompt
            if job.place in new:
                if isinstance(outcome, DiscorankError):
                    yield Done(job.place, outcome, job.reading)
                else:
                    yield Done(job.place, Turn(outcome, None, job.flags), job.reading)

    def _filled(self, job: WaitingInput) -> Prompt | DiscorankError:
        if self.width and job.prompt.document is None:
            problem = "no document, but the prompt reads context"
            fix = "Name the document of every input, or set context=0"
            return InputError(problem, where="document", fix=fix)
        context = job.context.last(self.context)
        try:
            text = self.templates.filled(job.prompt.text, context, job.prompt.extra)
        except DiscorankError as error:
            return error
        return replace(job.prompt, text=text)

    def _chosen(
        self, made: Sequence[Done], contexts: Mapping[int, Context], decider: MBRDecoder
    ) -> list[Done]:
        """The outcomes, with the choice from each list in the context of its place, or why there is none."""
        turns: dict[int, Turn] = {
            done.place: done.outcome for done in made if isinstance(done.outcome, Turn)
        }
        context_of = {id(turn.record): contexts[place] for place, turn in turns.items()}

        def decide(record: CandidateList, _: Context, flags: tuple[str, ...]) -> Program:
            context = context_of[id(record)].last(decider.width)
            return decider.program(record, context, flags)

        lists = ((place, turn.record) for place, turn in turns.items())
        rankings = dict(Scheduler(decide, self.engine).run(lists))
        outcomes = []
        for done in made:
            ranking = rankings.get(done.place)
            if isinstance(ranking, DiscorankError):
                done = done._replace(outcome=ranking)
            elif ranking is not None:
                done = done._replace(outcome=turns[done.place]._replace(chosen=ranking.index))
            outcomes.append(done)
        return outcomes


def _text_of(outcome: Turn | DiscorankError) -> str | None:
    """The text that was chosen, if one was."""
    if isinstance(outcome, DiscorankError) or outcome.chosen is None:
        return None
    return str(outcome.record.candidates[outcome.chosen].text)
