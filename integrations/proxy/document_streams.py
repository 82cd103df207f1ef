"""Documents that come request by request: each position is decided in the context of what was chosen before it.

The rule of the context is that of `rerank.order`. Positions of a document are decided one at a time, in order:
after position p comes p + 1, p again (its answer was lost on the way, and it is decided once more in the same context),
or 0, which begins the document anew. A position may come while the one before it is under way, and waits for it.
Anything else is refused. Documents that nothing comes for are forgotten, and those that were used longest ago where
there are too many.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic

from ...metrics.text.texts import NO_CONTEXT, Context
from ...rerank.order import DocumentStream
from .api_errors import ApiError
from .questions import FIELD

MAX_CHARACTERS = 16_384  # of a source or a choice of a document, which are kept

_PARAM = f"{FIELD}.position"


@dataclass(slots=True, eq=False)
class _Document:
    """The state of a document.

    Args:
        stream: what the next position reads.
        before: what the last one read.
        used_at: when something last came for it.
        open: positions in progress, with what tells of their end.
        deciding: held while one of them is decided.
    """

    stream: DocumentStream
    before: Context = NO_CONTEXT
    used_at: float = 0.0
    open: dict[int, asyncio.Event] = field(default_factory=dict)
    deciding: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def last(self) -> int:
        """The last position that was decided; -1 without any."""
        return -1 if self.stream.position is None else self.stream.position

    def check(self, position: int) -> None:
        """Raises ApiError for a position that cannot be decided next."""
        last = self.last
        if position not in (0, last, last + 1):
            expected = f"{last + 1}, or {max(last, 0)} or 0 once more"
            problem = f"{_PARAM}: found {position}, expected {expected}"
            raise ApiError(400, problem, _PARAM, "position_out_of_order")

    def enter(self, position: int, width: int) -> None:
        """Move the stream to a position."""
        if position == 0:
            self.stream, self.before = DocumentStream(width), NO_CONTEXT
        elif position == self.last:
            self.stream = DocumentStream(width, self.before, position - 1)
        self.before = self.stream.context
        self.stream.enter(position, after_gap=False)


class DocumentTurn:
    """A position of a document that is in progress, its context, and where its choice goes."""

    def __init__(self, document: _Document, position: int, width: int) -> None:
        self._document, self._position, self._width = document, position, width
        self._earlier = document.open.get(position - 1)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[DocumentTurn]:
        """Itself, after the position before it was decided; nothing else of the document is decided within the block.

        Raises:
            ApiError: the position before it was not decided.
        """
        if self._earlier is not None:
            await self._earlier.wait()
        async with self._document.deciding:
            self._document.check(self._position)
            yield self

    @property
    def context(self) -> Context:
        """The context of texts chosen before the position."""
        document = self._document
        if self._position == 0:
            return NO_CONTEXT
        return document.before if self._position == document.last else document.stream.context

    def chosen(self, source: str, target: str) -> None:
        """Add the choice; a position that comes to nothing leaves the document as it was.

        Raises:
            ApiError: the choice is too long to be kept.
        """
        check_length(target, "the choice")
        self._document.enter(self._position, self._width)
        self._document.stream.extend(source, target)


@dataclass(eq=False)
class DocumentStreams:
    """The documents that are known.

    Args:
        width: how many preceding sentences are context.
        max_documents: how many are kept.
        max_seconds: how long a document is kept that nothing comes for.
        clock: tells the time, in seconds.
    """

    width: int
    max_documents: int
    max_seconds: float
    clock: Callable[[], float] = monotonic
    documents: OrderedDict[str, _Document] = field(default_factory=OrderedDict)  # last used last

    def __len__(self) -> int:
        return len(self.documents)

    @asynccontextmanager
    async def turn(self, key: str, position: int) -> AsyncIterator[DocumentTurn]:
        """A position of a document, which is under way within the block.

        Raises:
            ApiError: it does not come behind what was decided, or is under way already.
        """
        document = self._document(key, position)
        if position in document.open:
            problem = f"{_PARAM}: position {position} is in progress"
            raise ApiError(409, problem, _PARAM, "under_way")
        if position - 1 not in document.open:
            document.check(position)
        turn = DocumentTurn(document, position, self.width)
        ended = document.open[position] = asyncio.Event()
        try:
            yield turn
        finally:
            del document.open[position]
            ended.set()
            document.used_at = self.clock()
            if document.last < 0 and not document.open and self.documents.get(key) is document:
                del self.documents[key]  # nothing was decided

    def _document(self, key: str, position: int) -> _Document:
        """The document of a key; a new one where position 0 comes."""
        self._forget_old()
        document = self.documents.get(key)
        if document is None:
            if position != 0:
                problem = f"{_PARAM}: found {position}, but the document is not known, or was not used for long"
                raise ApiError(400, f"{problem}. Begin at 0", _PARAM, "document_unknown")
            self._make_room()
            document = self.documents[key] = _Document(DocumentStream(self.width))
        document.used_at = self.clock()
        self.documents.move_to_end(key)
        return document

    def _forget_old(self) -> None:
        """Forgets documents that nothing came for."""
        earliest = self.clock() - self.max_seconds
        while self.documents:
            key, document = next(iter(self.documents.items()))
            if document.open or document.used_at > earliest:
                return
            del self.documents[key]

    def _make_room(self) -> None:
        """Forgets the document that was used longest ago, if there is no room for another one."""
        if len(self.documents) < self.max_documents:
            return
        idle = (key for key, document in self.documents.items() if not document.open)
        oldest = next(idle, None)
        if oldest is None:
            raise ApiError(
                429, f"{len(self.documents)} documents are in progress", code="documents"
            )
        del self.documents[oldest]


def check_length(text: str, where: str) -> None:
    """Raises ApiError for a text that is too long to be kept."""
    if len(text) > MAX_CHARACTERS:
        problem = (
            f"{where} has {len(text)} characters, a document keeps at most {MAX_CHARACTERS} of each"
        )
        raise ApiError(400, problem, f"{FIELD}.document", "too_long_for_document")
