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
from ...rerank.choice import Ranking
from ...rerank.engines.interface import Engine
from ...rerank.lists import CandidateList
from ...rerank.mbr import MBRDecoder
from ...rerank.order import DocumentStream
from ...rerank.scheduler import Program, Scheduler
from .generator import Generated, Generator, Prompt
from .prompt_templates import FewShotTemplates


@dataclass(slots=True)
class WaitingInput:
    """An input that waits for its turn."""

    place: int
    prompt: Prompt
    after_gap: bool  # the line before it could not be read
    context: Context = NO_CONTEXT
    flags: tuple[str, ...] = ()

    @property
    def reading(self) -> str:
        """A digest of all that its list is made from: the input, and its context."""
        read = repr((self.prompt, self.context, self.flags))
        return blake2b(read.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class InputStreams:
    """The streams of documents, from one block of inputs to the next.

    Args:
        width: how many preceding sentences are kept.
        chooses: whether something is chosen for every input, which the next one waits for.
    """

    def __init__(self, width: int, chooses: bool) -> None:
        self.width, self.chooses = width, chooses
        self._document: str | None = None  # of the last input
        self._stream, self._after_gap = DocumentStream(width), False

    def queues(
        self, inputs: Sequence[Prompt | DiscorankError]
    ) -> list[tuple[DocumentStream, deque[WaitingInput]]]:
        """The stream of every document, with its inputs in order."""
        queues: list[tuple[DocumentStream, deque[WaitingInput]]] = []
        for place, entry in enumerate(inputs):
            if isinstance(entry, DiscorankError):
                self._after_gap = True
                continue
            stream = self._stream_of(entry)
            if not queues or queues[-1][0] is not stream:
                queues.append((stream, deque()))
            _, waiting = queues[-1]
            waiting.append(WaitingInput(place, entry, self._after_gap))
            self._after_gap = False
        return queues

    def ready(self, stream: DocumentStream, waiting: deque[WaitingInput]) -> Iterator[WaitingInput]:
        """The next of a stream, or all where none has to wait for a choice, with their contexts."""
        while waiting:
            job = waiting.popleft()
            is_cut = stream.enter(job.prompt.position, job.after_gap)
            job.flags = ("context-cut",) * is_cut
            job.context = stream.context
            yield job
            if self.chooses:
                return
            _extend(stream, job.prompt, "")

    def chose(self, stream: DocumentStream, job: WaitingInput, chosen: str | None) -> None:
        """Makes what was chosen for an input context of the next, where something chooses."""
        if self.chooses:
            _extend(stream, job.prompt, chosen)

    def _stream_of(self, prompt: Prompt) -> DocumentStream:
        """The stream of the prompt's document; documents are adjacent, so one is enough."""
        if prompt.document is None or prompt.document != self._document:
            self._document, self._stream = prompt.document, DocumentStream(self.width)
        return self._stream


def _extend(stream: DocumentStream, prompt: Prompt, chosen: str | None) -> None:
    """Adds an input and what was chosen for it to its stream; None if nothing could be."""
    if chosen is None:
        stream.lose()
    else:
        stream.extend(str(prompt.source or prompt.text), chosen)


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
        engine: what values the lists.
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
        self.generator, self.decider, self.engine = generator, decider, engine
        self.templates, self.context = FewShotTemplates(template, first, examples), context
        self.templates.read_by(getattr(generator, "plain_text", str))
        self.templates.check_width(context)
        self.streams = InputStreams(self.width, decider is not None)
        self._check()

    def _check(self) -> None:
        reads = self.templates.reads_choices
        if reads and self.decider is None:
            fix = "Give a utility that chooses among the candidates"
            raise InputError("the prompt reads what was chosen", where="utility", fix=fix)
        if self.decider is not None and not reads:
            fix = "Leave it out and decode the candidate lists afterwards, or put {target_context} into the prompt"
            raise InputError("the prompt does not read what was chosen", where="utility", fix=fix)
        if self.decider is not None and self.engine is None:
            raise InputError(
                "is missing", where="engine", fix="Give the engine that values the lists"
            )

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
        queues = self.streams.queues(inputs)
        while any(waiting for _, waiting in queues):
            # the next input of the first documents, generated together
            wave: list[tuple[DocumentStream, WaitingInput]] = []
            for stream, waiting in queues:
                if self.decider is None or len(wave) < self.generator.prompts_at_once:
                    wave += [(stream, job) for job in self.streams.ready(stream, waiting)]
            yield from self._wave(wave, chosen, kept)

    def _wave(
        self,
        wave: Sequence[tuple[DocumentStream, WaitingInput]],
        chosen: Sequence[str | None],
        kept: Callable[[str], Turn | None],
    ) -> Iterator[list[Done]]:
        """The outcomes of inputs that do not wait for one another; their streams are extended by them."""
        streams = {job.place: (stream, job) for stream, job in wave}
        earlier: list[Done] = []
        new: set[int] = set()
        for place, (stream, job) in streams.items():
            if place < len(chosen):
                self.streams.chose(stream, job, chosen[place])
            elif turn := kept(job.reading):
                earlier.append(Done(place, turn, job.reading))
            else:
                new.add(place)
        # of a batch that was half done all is generated again, as it may depend on what stands in it
        jobs = [job for _, job in wave if self.makes_batches or job.place in new]
        decided = self._decided(jobs, new) if new else ()
        for together in chain([earlier], decided):
            for done in together:
                self.streams.chose(*streams[done.place], _text_of(done.outcome))
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
        contexts = {job.place: job.context for job in jobs}
        lists = {
            done.place: (done.outcome.record, contexts[done.place])
            for done in made
            if isinstance(done.outcome, Turn)
        }
        rankings = dict(zip(lists, self._rankings(list(lists.values())), strict=True))
        yield [_with_choice(done, rankings) for done in made]
        if stopped is not None:
            raise stopped

    def _made(self, jobs: Sequence[WaitingInput], new: Collection[int]) -> Iterator[Done]:
        """The candidates of the inputs whose places are new, in order, as they come."""
        filled = [self._filled(job) for job in jobs]
        made = iter(
            self.generator.generate([prompt for prompt in filled if isinstance(prompt, Prompt)])
        )
        for job, prompt in zip(jobs, filled, strict=True):
            outcome: Generated | Turn = next(made) if isinstance(prompt, Prompt) else prompt
            if job.place in new:
                if not isinstance(outcome, DiscorankError):
                    outcome = Turn(outcome, None, job.flags)
                yield Done(job.place, outcome, job.reading)

    def _filled(self, job: WaitingInput) -> Prompt | DiscorankError:
        if self.width and job.prompt.document is None:
            fix = "Name the document of every input, or set context=0"
            return InputError(
                "no document, but the prompt reads context", where="document", fix=fix
            )
        context = job.context.last(self.context)
        try:
            text = self.templates.filled(job.prompt.text, context, job.prompt.extra)
        except DiscorankError as error:
            return error
        return replace(job.prompt, text=text)

    def _rankings(
        self, lists: Sequence[tuple[CandidateList, Context]]
    ) -> list[Ranking | DiscorankError]:
        """The decision of every list in its context."""
        decider, engine = self.decider, self.engine
        if decider is None or engine is None:
            return []
        contexts = {id(record): context for record, context in lists}
        width = decider.width

        def decide(record: CandidateList, _: Context, flags: tuple[str, ...]) -> Program:
            context = contexts[id(record)].last(width)
            return decider.program(record, context, flags)

        outcomes = Scheduler(decide, engine).run((None, record) for record, _ in lists)
        return [outcome for _, outcome in outcomes if outcome is not None]


def _with_choice(done: Done, rankings: Mapping[int, Ranking | DiscorankError]) -> Done:
    """The outcome with its ranking by the place of the input, if it has one."""
    if isinstance(done.outcome, DiscorankError):
        return done
    ranking = rankings[done.place]
    if isinstance(ranking, DiscorankError):
        return done._replace(outcome=ranking)
    return done._replace(outcome=done.outcome._replace(chosen=ranking.index))


def _text_of(outcome: Turn | DiscorankError) -> str | None:
    """The text that was chosen, if one was."""
    if isinstance(outcome, DiscorankError) or outcome.chosen is None:
        return None
    return str(outcome.record.candidates[outcome.chosen].text)
