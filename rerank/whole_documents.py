"""Whole documents chosen among systems or samples: every sentence of a document is taken from the same one.

    h* = argmax_h mu(h),   h a system's sentences of the document
The lists of a document become one list of documents, which any decider decides: a segment metric by the mean over
sentences of its expected utility, each sentence in the context of its own system's; a document metric by its own. The
decision comes back as one ranking per sentence list, so that runs, resuming and engines need not know.

Candidates belong together that have the same ``system``, where candidates name one (the n-th of it with the n-th), and
those of the same number where none does. Log-probabilities and ``tokens`` of the sentences are added up, other numbers
averaged, what is the same for all sentences stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from ..metrics.errors import DiscorankError, InputError, excerpt
from ..metrics.storage.limits import limits
from ..metrics.text.texts import Document, Text
from .choice import RankedText, Ranking, with_empty
from .lists import Candidate, CandidateList, Distinct, finite
from .order import follows
from .scheduler import Accept, Decided, Outcome

Entry = CandidateList | Decided | DiscorankError


Decide = Callable[[Iterable[Any]], Iterator[tuple[Any, Outcome]]]


class InputLine(NamedTuple):
    """A line of the input, or what an earlier run did with it, and the tag that comes back with its outcome."""

    tag: Any
    entry: Entry

    @property
    def record(self) -> CandidateList | None:
        """The list of the line, None where it could not be read."""
        if isinstance(self.entry, Decided):
            return self.entry.record
        return self.entry if isinstance(self.entry, CandidateList) else None

    @property
    def is_written(self) -> bool:
        """Whether an earlier run wrote what came of it."""
        return isinstance(self.entry, Decided)


class LineGroup(NamedTuple):
    """Lines that are decided together, and how their decision becomes one for each; None where they are one line."""

    parts: tuple[InputLine, ...]
    document: DocumentList | None = None


def document_outcomes(
    decide: Decide, records: Iterable[Any], accept: Accept
) -> Iterator[tuple[Any, Outcome]]:
    """(tag, outcome) of (tag, record), the outcome of a document at each of its lists.

    Lists of a document stand one after the other. A list without one is decided alone, and lists that are only context
    stand before those that are decided.

    Args:
        decide: gives the outcomes of lists, of which the documents are some.
        records: the lists, each with its tag.
        accept: refuses rankings of lists that cannot be written.
    """
    for group, outcome in decide(_groups(records)):
        if group is None:  # of an earlier run
            continue
        yield from _of_parts(group, outcome, accept)


def _of_parts(group: LineGroup, outcome: Outcome, accept: Accept) -> Iterator[tuple[Any, Outcome]]:
    """The outcome of every line of a group that is not written yet."""
    outcomes: list[Outcome] = [outcome] * len(group.parts)
    if isinstance(outcome, Ranking):
        rankings = [outcome]
        if group.document is not None:
            rankings = group.document.of_sentences(outcome)
        outcomes = [_accepted(ranking, accept) for ranking in rankings]
        changed = _changed(group.parts, rankings)
        if changed is not None:
            outcomes = [changed] * len(group.parts)
    for part, own in zip(group.parts, outcomes, strict=True):
        if not part.is_written:
            yield part.tag, part.entry if isinstance(part.entry, DiscorankError) else own


def _changed(parts: tuple[InputLine, ...], rankings: list[Ranking]) -> DiscorankError | None:
    """Why what is chosen does not go with what an earlier run wrote of the first lists; None where it does."""
    for part, ranking in zip(parts, rankings, strict=True):
        entry = part.entry
        if isinstance(entry, Decided) and not entry.failed and entry.text != ranking.text:
            problem = "the document has more lists than when its first were decided, and its best system is another now"
            fix = "Decide the file anew: choose another output"
            return InputError(problem, where=f"list {ranking.id!r:.80}", fix=fix)
    return None


def _accepted(ranking: Ranking, accept: Accept) -> Outcome:
    """The ranking, or why it cannot be written."""
    try:
        accept(ranking)
    except DiscorankError as error:
        return error
    return ranking


def _groups(records: Iterable[tuple[Any, Entry]]) -> Iterator[tuple[LineGroup | None, Entry]]:
    """Groups of lines, each with the list, or the error, that is decided in their place.

    A document is held until its last list is read, at most as many lists as a text may have sentences.
    """
    held: list[InputLine] = []
    document: str | None = None  # of those held
    refusal: DiscorankError | None = None  # why the rest of a document is not held
    for tag, entry in records:
        part = InputLine(tag, entry)
        record = part.record
        # an unreadable line may stand inside the document
        is_inside = record is None and bool(held or refusal)
        if not is_inside:
            of_document = None if record is None else record.document
            if of_document is None or of_document != document:
                yield from _flushed(held, refusal)
                held, document, refusal = [], of_document, None
            if of_document is None or (_is_context(part) and not (held or refusal)):
                yield from _alone(part)
                continue
        held.append(part)
        refusal = refusal or _refusal(len(held))
        if refusal is not None:
            yield from _flushed(held, refusal)
            held = []
    yield from _flushed(held, refusal)


def _is_context(part: InputLine) -> bool:
    """Whether a list is only context."""
    return part.record is not None and part.record.context_only


def _refusal(count: int) -> DiscorankError | None:
    """Why no document of so many lists is held, None where it is."""
    try:
        limits().check("entries", count, what="sentences")
    except InputError as error:
        return error
    return None


def _alone(part: InputLine) -> Iterator[tuple[LineGroup | None, Entry]]:
    """A line that is decided by itself."""
    yield (None if part.is_written else LineGroup((part,))), part.entry


def _flushed(
    held: list[InputLine], refusal: DiscorankError | None
) -> Iterator[tuple[LineGroup | None, Entry]]:
    """The lines held as one document; unreadable ones behind its last list stand alone."""
    end = len(held)
    while end and held[end - 1].record is None:
        end -= 1
    body = tuple(held[:end])
    if not all(part.is_written for part in body):
        try:
            if refusal is not None:
                raise refusal
            whole = DocumentList.of(_lists(body))
            yield LineGroup(body, whole), whole.whole
        except DiscorankError as error:
            name = next(part.record.document for part in body if part.record is not None)
            yield LineGroup(body), error.inside(f"document {name!r:.80}")
    for part in held[end:]:
        yield from _alone(part)


def _lists(parts: tuple[InputLine, ...]) -> list[CandidateList]:
    """The lists of a document; raises InputError where one could not be read, or is only context."""
    lists: list[CandidateList] = []
    for part in parts:
        record = part.record
        if record is None:
            before = f", behind list {lists[-1].id!r:.80}" if lists else ""
            problem = f"a line of it could not be read{before}"
            raise InputError(problem, fix="Mend that line: documents are chosen whole")
        if record.context_only:
            problem = "is only context, but stands between sentences to choose"
            fix = "Put it before them, or give it candidates to choose"
            raise InputError(problem, where=f"list {record.id!r:.80}", fix=fix)
        lists.append(record)
    return lists


SYSTEM, TOKENS = "system", "tokens"
CHOSEN = "document_choice"  # the key of a row that says what was chosen for the document
Key = tuple[str, int] | int  # a system and which of its candidates, or the number of a candidate


@dataclass(frozen=True)
class DocumentList:
    """A document to decide.

    Args:
        lists: of its sentences, in order.
        whole: the list of its candidates, each a `Document`.
        numbers: the number that every candidate of `whole` has in each list, [sentences][candidates].
    """

    lists: tuple[CandidateList, ...]
    whole: CandidateList
    numbers: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, lists: Sequence[CandidateList]) -> DocumentList:
        """The document of these lists.

        Raises:
            InputError: the lists do not follow one another, lack a system or a source, or have other numbers of
                candidates; `where` names the list.
        """
        first = lists[0]
        _check_positions(lists)
        keys = [_keys(record) for record in lists]
        for record, own in zip(lists[1:], keys[1:], strict=True):
            _check_same(own, keys[0], f"list {record.id!r:.80}: candidates", first.id)
        numbers = tuple(tuple(own[key] for key in keys[0]) for own in keys)
        columns = [
            [record.candidates[own[i]] for record, own in zip(lists, numbers, strict=True)]
            for i in range(len(first.candidates))
        ]
        whole = CandidateList(
            str(first.document),
            tuple(map(_joined, columns)),
            _source(lists),
            first.document,
            first.position,
            _pseudo_references(lists),
            _references(lists),
        )
        return cls(tuple(lists), whole, numbers)

    def of_sentences(self, ranking: Ranking) -> list[Ranking]:
        """The ranking of every sentence's list, from that of the documents.

        Of documents that share a sentence, the best stands for it, so that ranks have distinct texts.
        """
        chosen = self.whole.candidates[ranking.index]
        about: dict[str, Any] = {"document": self.whole.id}
        if SYSTEM in chosen.fields:
            about[SYSTEM] = chosen.fields[SYSTEM]
        about |= {"candidate": ranking.index, "sentences": len(self.lists)}
        pairs = zip(self.lists, self.numbers, strict=True)
        return [_of_sentence(ranking, record, own, about) for record, own in pairs]


def _of_sentence(
    ranking: Ranking, record: CandidateList, own: Sequence[int], about: Mapping[str, Any]
) -> Ranking:
    """The ranking of a sentence's list, whose candidates have the numbers `own` by document."""
    counts: dict[Text, int] = {}
    for candidate in record.candidates:
        counts[candidate.text] = counts.get(candidate.text, 0) + 1
    ranked: dict[Text, RankedText] = {}
    for one in ranking.ranking:
        number = own[one.index]
        text = record.candidates[number].text
        if text not in ranked:
            ranked[text] = RankedText(number, counts[text], one.utility, text)
    return replace(
        ranking,
        id=record.id,
        flags=with_empty(ranking.flags, Distinct(record.candidates)),
        ranking=tuple(ranked.values()),
        candidates=record.candidates,
        extra={CHOSEN: dict(about), **ranking.extra, **record.extra},
        matrix=None,
        source=record.source,
        references=record.references,
    )


def _check_positions(lists: Sequence[CandidateList]) -> None:
    """Raises InputError for sentences that do not follow one another, or that are documents themselves."""
    for before, record in pairwise(lists):
        if not follows(before.position, record.position):
            problem = f"position {record.position} follows {before.position}"
            fix = "Give all lists of the document, in order"
            raise InputError(problem, where=f"list {record.id!r:.80}: position", fix=fix)
    for record in lists:
        texts = [candidate.text for candidate in record.candidates]
        if not all(isinstance(text, str) for text in texts):
            raise InputError(
                "found documents, expected sentences of one",
                where=f"list {record.id!r:.80}: candidates",
                fix="Lists of whole documents are decided whole anyway: leave out their document",
            )


def _keys(record: CandidateList) -> dict[Key, int]:
    """The number of every candidate by what it is matched by; raises InputError where only some name a system."""
    systems = [candidate.fields.get(SYSTEM) for candidate in record.candidates]
    if all(system is None for system in systems):
        return {i: i for i in range(len(systems))}
    numbers: dict[Key, int] = {}
    seen: dict[str, int] = {}
    for i, system in enumerate(systems):
        if not isinstance(system, str):
            where = f"list {record.id!r:.80}: candidates[{i}].{SYSTEM}"
            problem = f"found {excerpt(system)}, but others of its list name theirs"
            raise InputError(problem, where=where, fix="Give every candidate its system, or none")
        seen[system] = seen.get(system, -1) + 1
        numbers[system, seen[system]] = i
    return numbers


def _check_same(
    own: Mapping[Key, int], expected: Mapping[Key, int], where: str, first: str
) -> None:
    """Raises InputError for a list that has other candidates than the first of its document."""
    if own.keys() == expected.keys():
        return
    fix = "Give all lists of a document the same systems, or decide sentence by sentence: leave out --choice"
    kinds = {isinstance(next(iter(keys)), int) for keys in (own, expected)}
    if kinds == {True}:
        problem = f"{len(own)} candidates, list {first!r:.80} of the document has {len(expected)}"
        fix = "Give all lists of a document as many samples, or decide sentence by sentence: leave out --choice"
    elif len(kinds) > 1:
        problem = f"some lists name systems and others do not, unlike list {first!r:.80}"
    elif missing := [key for key in expected if key not in own]:
        problem = f"no candidate of {_named(missing[0])}, which list {first!r:.80} has"
    else:
        further = next(key for key in own if key not in expected)
        problem = f"a candidate of {_named(further)}, which list {first!r:.80} has not"
    raise InputError(problem, where=where, fix=fix)


def _named(key: Key) -> str:
    """A key in words."""
    if isinstance(key, int):
        return f"number {key}"
    system, n = key
    return f"system {system!r:.80}" + (f" (number {n + 1} of it)" if n else "")


def _joined(sentences: Sequence[Candidate]) -> Candidate:
    """The document of one system's or sample's sentences."""
    texts = tuple(str(sentence.text) for sentence in sentences)
    logprobs = [s.logprob for s in sentences if s.logprob is not None]
    logprob = min(sum(logprobs), 0.0) if len(logprobs) == len(sentences) else None
    names = [name for name in sentences[0].fields if all(name in s.fields for s in sentences)]
    fields: dict[str, Any] = {}
    for name in names:
        values = [sentence.fields[name] for sentence in sentences]
        numbers = [number for value in values if (number := finite(value)) is not None]
        if len(numbers) == len(values):
            fields[name] = sum(values) if name == TOKENS else sum(numbers) / len(numbers)
        elif all(value == values[0] for value in values):
            fields[name] = values[0]
    return Candidate(Document(texts), logprob, fields)


def _source(lists: Sequence[CandidateList]) -> Document | None:
    """The source sentences, None where no list has one; raises InputError where only some have."""
    with_source = [record for record in lists if record.source is not None]
    if not with_source:
        return None
    if len(with_source) < len(lists):
        lacking = next(record for record in lists if record.source is None)
        problem = f"no source, but list {with_source[0].id!r:.80} of the document has one"
        fix = "Give every list its source, or none"
        raise InputError(problem, where=f"list {lacking.id!r:.80}: source", fix=fix)
    return Document(tuple(str(record.source) for record in lists))


def _pseudo_references(lists: Sequence[CandidateList]) -> tuple[Candidate, ...]:
    """The pseudo-references as documents, matched as candidates are; raises InputError as for these."""
    own = [record.pseudo_references for record in lists]
    if not any(own):
        return ()
    keys = []
    for record, texts in zip(lists, own, strict=True):
        where = f"list {record.id!r:.80}: pseudo_references"
        if not texts:
            problem = "there are none, but other lists of the document have some"
            raise InputError(problem, where=where, fix="Give every list its own, or none")
        keys.append(_keys(replace(record, candidates=texts)))
        _check_same(keys[-1], keys[0], where, lists[0].id)
    columns = [
        [texts[numbers[key]] for texts, numbers in zip(own, keys, strict=True)] for key in keys[0]
    ]
    return tuple(map(_joined, columns))


def _references(lists: Sequence[CandidateList]) -> tuple[Document, ...]:
    """The human references as documents, none where lists have other numbers of them."""
    if len({len(record.references) for record in lists}) > 1:
        return ()
    columns = zip(*(record.references for record in lists), strict=True)
    return tuple(Document(tuple(map(str, column))) for column in columns)
