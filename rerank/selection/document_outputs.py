"""What several systems made of one document, with what people think of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...metrics.errors import InputError, unknown
from ...metrics.storage.limits import limits
from ...metrics.text.texts import Document, Text

Judgements = tuple[float | None, ...] | float  # per segment, or one for the whole document
# by the id of a list: ranks of systems, 1 is best
Rankings = Mapping[str, Sequence[Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class DocumentOutputs:
    """A document: its source, every system's text and every reference, each a tuple of aligned segments.

    A document that is one whole text (`whole`) has one segment. `human` holds dimension -> system or reference ->
    scores.
    """

    id: str
    whole: bool
    source: tuple[str, ...] | None
    systems: Mapping[str, tuple[str, ...]]
    references: Mapping[str, tuple[str, ...]]
    human: Mapping[str, Mapping[str, Judgements]]

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return len(next(iter(self.systems.values())))

    @property
    def where(self) -> str:
        """How errors name it."""
        return f"document {self.id!r:.80}"

    def units(self, texts: tuple[str, ...], as_document: bool) -> list[Text]:
        """The texts a metric reads: one `Document` (or the whole text) if `as_document`, else every segment."""
        return [Document(texts)] if as_document and not self.whole else list(texts)


def check_systems(documents: Sequence[DocumentOutputs]) -> tuple[str, ...]:
    """The systems, in the order of the first document, which every document must have.

    Raises:
        InputError: no documents, or other systems in one of them.
    """
    if not documents:
        raise InputError("no documents", where="systems", fix="Give at least one")
    systems = tuple(documents[0].systems)
    for document in documents:
        _check_same(document, documents[0])
    return systems


def all_systems(documents: Sequence[DocumentOutputs]) -> tuple[str, ...]:
    """The systems of all documents, in the order in which they come; a document may lack some.

    Raises:
        InputError: no documents, or too many systems.
    """
    if not documents:
        raise InputError("no documents", where="systems", fix="Give at least one")
    names = tuple(dict.fromkeys(name for document in documents for name in document.systems))
    limits().check("systems", len(names), "systems")
    return names


def _check_same(document: DocumentOutputs, first: DocumentOutputs) -> None:
    """Raises InputError unless a document has the systems of the first."""
    place = f"{document.where}: systems"
    for name in first.systems:
        if name not in document.systems:
            fix = f"{first.where} has it; give all systems the same documents"
            raise InputError(f"no text of system {name!r:.80}", where=place, fix=fix)
    for name in document.systems:
        if name not in first.systems:
            fix = f"{first.where} has none of it; give all systems the same documents"
            raise InputError(f"found the system {name!r:.80}", where=place, fix=fix)


def with_references(
    documents: Sequence[DocumentOutputs], names: Sequence[str]
) -> list[DocumentOutputs]:
    """The documents with these references only.

    Raises:
        InputError: a document has no reference of a name.
    """
    narrowed = []
    for document in documents:
        for name in names:
            if name not in document.references:
                raise unknown(
                    "reference",
                    name,
                    document.references,
                    where=f"{document.where}: references",
                )
        references = {name: document.references[name] for name in names}
        narrowed.append(replace(document, references=references))
    return narrowed
