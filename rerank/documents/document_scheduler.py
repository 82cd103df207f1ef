"""Documents that are searched: each is read whole, searched through an engine, and comes out in input order.

A document is decided when its last list is read, so it is held whole; a window of documents is open at any time, whose
tasks go to the engine together. What a search is, `document_search` says; any `Engine` does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ...metrics.storage.limits import limits
from ..engines.interface import Engine, Result
from ..scheduler import (
    WINDOW_CHARACTERS,
    WINDOW_RECORDS,
    Accept,
    Outcome,
    Program,
    accept_all,
    collected,
)
from .document_search import Decision, DocumentSearch
from .search_counts import num_contexts
from .searched_document import Entry, SearchedDocument, documents_of


@dataclass(slots=True, eq=False)
class _Running:
    """A program that waits for the engine."""

    document: SearchedDocument
    number: int
    program: Program

    def end(self, decision: Decision) -> None:
        """Notes what it has decided."""
        self.document.decisions[self.number] = decision
        self.document.num_waiting -= 1


class DocumentScheduler:
    """Searches documents through an engine.

    Args:
        search: how.
        engine: where tasks go.
        accept: raises an InputError for a decision that cannot be written, which then counts as failed.
    """

    def __init__(self, search: DocumentSearch, engine: Engine, accept: Accept = accept_all) -> None:
        self.search, self.engine, self.accept = search, engine, accept
        self.open: deque[SearchedDocument] = deque()  # in input order
        self.records = self.characters = 0  # of the open documents
        self.running: dict[int, _Running] = {}  # by the key that the engine has for them
        self.has_more = True
        self.refused: Exception | None = None  # why there are no further lists

    def run(self, records: Iterable[tuple[Any, Entry]]) -> Iterator[tuple[Any, Outcome]]:
        """(tag, outcome) of every (tag, record), in input order; a record that fails has its error as outcome."""
        self.has_more, self.refused = True, None
        try:
            yield from self._decided(documents_of(records))
        finally:
            if self.running:
                self.engine.forget(self.running)  # whoever asked has turned away
        if self.refused is not None:
            raise self.refused

    def _decided(self, documents: Iterator[SearchedDocument]) -> Iterator[tuple[Any, Outcome]]:
        """Reads while there is room, hands out what is done, and collects what the engine has."""
        while self.has_more or self.open:
            while self.has_more and self._has_room():
                self._read(documents)
            while self.open and self.open[0].outcomes is not None:
                document = self.open.popleft()
                self.records -= len(document.lines)
                self.characters -= document.characters
                yield from document.decided()
            if self.running and not (self.has_more and self._has_room()):
                for key, result in collected(self.engine, self.running):
                    self._step(self.running.pop(key), result)

    def _has_room(self) -> bool:
        if not self.open:
            return True
        return self.records < WINDOW_RECORDS and self.characters < WINDOW_CHARACTERS

    def _read(self, documents: Iterator[SearchedDocument]) -> None:
        """Admits the next document; if there is an error instead, it is raised when all before it is decided."""
        try:
            document = next(documents, None)
        except Exception as error:
            document, self.refused = None, error
        if document is None:
            self.has_more = False
        else:
            self._admit(document)

    def _admit(self, document: SearchedDocument) -> None:
        """Begins the search of a document."""
        self.open.append(document)
        self.records += len(document.lines)
        self.characters += document.characters
        if document.problem is None:
            document.problem = self._too_many_contexts(document)
        if document.problem is not None:
            document.outcomes = [
                None if record.context_only else document.problem
                for record in document.entries
                if record is not None
            ]
            return
        document.search = self.search.program(document.entries, self.accept)
        self._advance(document)

    def _too_many_contexts(self, document: SearchedDocument) -> InputError | None:
        """Why every choice of a document would take too long, if so."""
        if self.search.beam is not None:
            return None
        num_states, bound = sum(num_contexts(document.entries, self.search.width)), limits().states
        if num_states <= bound:
            return None
        problem = f"{num_states} contexts in which its lists would be decided, at most {bound}"
        fix = "Choose --strategy beam, give fewer candidates, or: --max states=NUMBER"
        return InputError(problem, where=document.name, fix=fix)

    def _advance(self, document: SearchedDocument) -> None:
        """Runs the search of a document until it waits for the engine or is over."""
        if document.search is None:
            return
        try:
            while not document.num_waiting:
                decisions = [one for one in document.decisions if one is not None]
                # nothing was handed out before the first step
                search = document.search
                programs = search.send(decisions) if decisions else next(search)
                document.decisions = [None] * len(programs)
                document.num_waiting = len(programs)
                for number, program in enumerate(programs):
                    self._run(_Running(document, number, program), None)
        except StopIteration as end:
            document.outcomes, document.search = end.value, None

    def _run(self, running: _Running, result: Result | None) -> None:
        """Runs a program to its next task or its end."""
        try:
            program = running.program
            task = next(program) if result is None else program.send(result)
        except StopIteration as end:
            running.end(end.value)
        except DiscorankError as error:
            running.end(error)
        else:
            self.running[id(running)] = running
            self.engine.submit(id(running), task)

    def _step(self, running: _Running, result: Result | DiscorankError) -> None:
        """Hands a result to the program that asked for it, and goes on with its document if that was the last."""
        if isinstance(result, DiscorankError):
            running.end(result)
        else:
            self._run(running, result)
        self._advance(running.document)
