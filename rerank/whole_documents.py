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

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ..metrics.errors import DiscorankError, InputError, excerpt
from ..metrics.storage.limits import limits
from ..metrics.text.texts import Document, Text
from .choice import EMPTY, Accept, RankedText, Ranking, with_flags
from .lists import Candidate, CandidateList, Distinct, finite
from .order import follows
from .scheduler import Decided, Outcome, accepted

SYSTEM, TOKENS = "system", "tokens"
CHOSEN = "document_choice"  # the key of a row that says what was chosen for the document
# a list, what an earlier run did with it, or why it could not be read
Entry = CandidateList | Decided | DiscorankError
Line = tuple[Any, Entry]  # of the input, with the tag that comes back with its outcome
# lines that are decided together, and the document that they are; None where they are one line, or an error
Group = tuple[Sequence[Line], "DocumentList | None"]
Decide = Callable[[Iterable[Any]], Iterator[tuple[Any, Outcome]]]
Key = tuple[str, int] | int  # a system and which of its candidates, or the number of a candidate
_ALIKE = "Give all lists of a document the same systems or samples, or decide sentence by sentence: leave out --choice"


def document_outcomes(
    decide: Decide, records: Iterable[Any], accept: Accept | None
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
        if group is not None:  # of an earlier run
            lines, document = group
            yield from _of_lines(lines, document, outcome, accept)


def _of_lines(
    lines: Sequence[Line], document: DocumentList | None, outcome: Outcome, accept: Accept | None
) -> Iterator[tuple[Any, Outcome]]:
    """The outcome of every line of a group that is not written yet."""
    outcomes: list[Outcome] = [outcome] * len(lines)
    if isinstance(outcome, Ranking):
        rankings = [outcome] if document is None else document.of_sentences(outcome)
        changed = _changed(lines, rankings)
        outcomes = [changed or accepted(ranking, accept) for ranking in rankings]
    for (tag, entry), own in zip(lines, outcomes, strict=True):
        if not isinstance(entry, Decided):
            yield tag, entry if isinstance(entry, DiscorankError) else own


def _changed(lines: Sequence[Line], rankings: Sequence[Ranking]) -> DiscorankError | None:
    """Why what is chosen does not go with what an earlier run wrote of the first lists; None where it does."""
    for (_, entry), ranking in zip(lines, rankings, strict=True):
        if isinstance(entry, Decided) and not entry.failed and entry.text != ranking.text:
            problem = "the document has more lists than when its first were decided, and its best system is another now"
            fix = "Decide the file anew: choose another output"
            return InputError(problem, where=f"list {ranking.id!r:.80}", fix=fix)
    return None


def _groups(records: Iterable[Line]) -> Iterator[tuple[Group | None, Entry]]:
    """Groups of lines, each with the list, or the error, that is decided in their place.

    A document is held until its last list is read, at most as many lists as a text may have sentences.
    """
    held: list[Line] = []
    document: str | None = None  # of those held
    refusal: DiscorankError | None = None  # why the rest of a document is not held
    for line in records:
        record = _record(line)
        # an unreadable line may stand inside the document
        if record is not None or not (held or refusal):
            of_document = None if record is None else record.document
            if of_document is None or of_document != document:
                yield from _flushed(held, refusal)
                held, document, refusal = [], of_document, None
            is_context = record is not None and record.context_only
            if of_document is None or (is_context and not (held or refusal)):
                yield _alone(line)
                continue
        held.append(line)
        try:
            limits().check("entries", len(held), what="sentences")
        except InputError as error:
            refusal = error
        if refusal is not None:
            yield from _flushed(held, refusal)
            held = []
    yield from _flushed(held, refusal)


def _record(line: Line) -> CandidateList | None:
    """The list of a line, None where it could not be read."""
    _, entry = line
    record = entry.record if isinstance(entry, Decided) else entry
    return record if isinstance(record, CandidateList) else None


def _alone(line: Line) -> tuple[Group | None, Entry]:
    """A line that is decided by itself."""
    _, entry = line
    return (None if isinstance(entry, Decided) else ([line], None)), entry


def _flushed(
    held: list[Line], refusal: DiscorankError | None
) -> Iterator[tuple[Group | None, Entry]]:
    """The lines held as one document; unreadable ones behind its last list stand alone."""
    end = len(held)
    while end and _record(held[end - 1]) is None:
        end -= 1
    body = held[:end]
    if not all(isinstance(entry, Decided) for _, entry in body):
        try:
            if refusal is not None:
                raise refusal
            whole = DocumentList.of(_lists(body))
            yield (body, whole), whole.whole
        except DiscorankError as error:
            name = next(record.document for record in map(_record, body) if record is not None)
            yield (body, None), error.inside(f"document {name!r:.80}")
    yield from map(_alone, held[end:])


def _lists(lines: Sequence[Line]) -> list[CandidateList]:
    """The lists of a document; raises InputError where one could not be read, or is only context."""
    lists: list[CandidateList] = []
    for record in map(_record, lines):
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


@dataclass(frozen=True)
class DocumentList:
    """A document to decide.

    Args:
        lists: of its sentences, in order.
        whole: the list of its candidates, each a `Document`.
        numbers: the number that every candidate of `whole` has in each list, [sentences][candidates].
    """

    lists: Sequence[CandidateList]
    whole: CandidateList
    numbers: Sequence[Sequence[int]]

    @classmethod
    def of(cls, lists: Sequence[CandidateList]) -> DocumentList:
        """The document of these lists.

        Raises:
            InputError: the lists do not follow one another, lack a system, a source or pseudo-references that others
                have, or have other numbers of candidates; `where` names the list.
        """
        first = lists[0]
        _check_sentences(lists)
        has_source = _check_all_or_none(lists, "source")
        _check_all_or_none(lists, "pseudo_references")
        numbers, candidates = _matched(lists, [record.candidates for record in lists], "candidates")
        pools = [record.pseudo_references for record in lists]
        references = [record.references for record in lists]
        if len(set(map(len, references))) > 1:
            references = []  # they do not make documents
        whole = CandidateList(
            str(first.document),
            candidates,
            Document(tuple(str(record.source) for record in lists)) if has_source else None,
            first.document,
            first.position,
            _matched(lists, pools, "pseudo_references")[1],
            tuple(Document(tuple(map(str, column))) for column in zip(*references, strict=True)),
        )
        return cls(lists, whole, numbers)

    def of_sentences(self, ranking: Ranking) -> list[Ranking]:
        """The ranking of every sentence's list, from that of the documents.

        Of documents that share a sentence, the best stands for it, so that ranks have distinct texts.
        """
        chosen = self.whole.candidates[ranking.index]
        about: dict[str, Any] = {"document": self.whole.id}
        if SYSTEM in chosen.fields:
            about[SYSTEM] = chosen.fields[SYSTEM]
        about |= {"candidate": ranking.index, "sentences": len(self.lists)}
        rankings = []
        for record, own in zip(self.lists, self.numbers, strict=True):
            distinct = Distinct(record.candidates)
            counts = Counter(candidate.text for candidate in record.candidates)
            ranked: dict[Text, RankedText] = {}
            for one in ranking.ranking:
                number = own[one.index]
                text = record.candidates[number].text
                ranked.setdefault(text, RankedText(number, counts[text], one.utility, text))
            sentence = replace(
                ranking,
                id=record.id,
                flags=with_flags(ranking.flags, [] if distinct.can_win.all() else [EMPTY]),
                ranking=tuple(ranked.values()),
                candidates=record.candidates,
                extra={CHOSEN: dict(about), **ranking.extra, **record.extra},
                matrix=None,
                source=record.source,
                references=record.references,
            )
            rankings.append(sentence)
        return rankings


def _check_sentences(lists: Sequence[CandidateList]) -> None:
    """Raises InputError for sentences that do not follow one another, or that are documents themselves."""
    for before, record in pairwise(lists):
        if not follows(before.position, record.position):
            problem = f"position {record.position} follows {before.position}"
            fix = "Give all lists of the document, in order"
            raise InputError(problem, where=f"list {record.id!r:.80}: position", fix=fix)
    for record in lists:
        if not all(isinstance(candidate.text, str) for candidate in record.candidates):
            problem = "found documents, expected sentences of one"
            fix = "Lists of whole documents are decided whole anyway: leave out their document"
            raise InputError(problem, where=f"list {record.id!r:.80}: candidates", fix=fix)


def _check_all_or_none(lists: Sequence[CandidateList], name: str) -> bool:
    """Whether lists have a part; raises InputError where only some have."""
    has = [getattr(record, name) not in (None, ()) for record in lists]
    if any(has) and not all(has):
        problem = f"no {name}, but list {lists[has.index(True)].id!r:.80} of the document has some"
        where = f"list {lists[has.index(False)].id!r:.80}: {name}"
        raise InputError(problem, where=where, fix="Give every list its own, or none")
    return any(has)


def _matched(
    lists: Sequence[CandidateList], pools: Sequence[Sequence[Candidate]], name: str
) -> tuple[list[list[int]], tuple[Candidate, ...]]:
    """The number of every document's sentence in the pool of each list, and the documents."""
    keys = [
        _keys(pool, f"list {record.id!r:.80}: {name}")
        for record, pool in zip(lists, pools, strict=True)
    ]
    for record, own in zip(lists[1:], keys[1:], strict=True):
        different = [key for key in (*keys[0], *own) if (key in own) != (key in keys[0])]
        if different:
            there = f"list {lists[0].id!r:.80} of the document has"
            problem = f"{len(own)} candidates, {there} {len(keys[0])}"
            if isinstance(different[0], tuple):
                system, n = different[0]
                named = f"system {system!r:.80}" + (f" (number {n + 1} of it)" if n else "")
                is_missing = different[0] in keys[0]
                problem = f"no candidate of {named}, which {there}"
                problem = problem if is_missing else f"a candidate of {named}, which {there} not"
            raise InputError(problem, where=f"list {record.id!r:.80}: {name}", fix=_ALIKE)
    numbers = [[own[key] for key in keys[0]] for own in keys]
    columns = [
        [pool[own[i]] for pool, own in zip(pools, numbers, strict=True)]
        for i in range(len(keys[0]))
    ]
    return numbers, tuple(map(_joined, columns))


def _keys(pool: Sequence[Candidate], where: str) -> dict[Key, int]:
    """The number of every candidate by what it is matched by; raises InputError where only some name a system."""
    systems = [candidate.fields.get(SYSTEM) for candidate in pool]
    if all(system is None for system in systems):
        return {i: i for i in range(len(systems))}
    numbers: dict[Key, int] = {}
    seen: Counter[str] = Counter()
    for i, system in enumerate(systems):
        if not isinstance(system, str):
            problem = f"found {excerpt(system)}, but others of its list name theirs"
            fix = "Give every candidate its system, or none"
            raise InputError(problem, where=f"{where}[{i}].{SYSTEM}", fix=fix)
        numbers[system, seen[system]] = i
        seen[system] += 1
    return numbers


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
