"""Requests for scores: read, valued with those of other requests, answered in their form.

    /v1/score     {"hypotheses", "references", "sources", "documents"}     the columns of `Metric.score`
                  {"text_1": query or queries, "text_2": documents}        vLLM
    /v1/rerank    {"query", "documents", "top_n"}                          vLLM
    /get_reward   {"query": prompts with responses, "prompts", "labels"}   OpenRLHF

A query is the reference of its documents, or their source where the metric reads no references. Any form may bring
`sources` (one `source` for one query or one text), `model`, the name of a metric, and `errors`: with "each"
a text that cannot be read or scored has an error in its place, where otherwise the whole request has (`request`). A
text is a string, or an array of strings, the sentences of a document.

A request counts against the memory shared by all; a text that it repeats is valued once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Container, Generator, Iterator, Mapping, Sequence
from functools import partial
from time import time
from typing import Any, NamedTuple, TypeVar

from ...metrics.errors import DiscorankError, InputError, ResourceError
from ...metrics.mixture import Utility
from ...metrics.text.texts import Text
from ...rerank.engines.interface import Result, Task
from ...rerank.engines.text_scores import (
    ScoreOutcome,
    check_scores_alone,
    distinct_tasks,
    needs_references,
    score_of,
    score_tasks,
)
from ...rerank.lists import read_candidate, with_digits
from .api_errors import ApiError, bad, shown
from .connections import BYTES_PER_BYTE, RequestShare
from .counters import Counters
from .decisions import ChoosingThread
from .settings import ScoreSettings

MODELS = "/v1/models"
# paths that an upstream may answer as well: they are ours if the request names one of our metrics
SHARED = frozenset({"/v1/score", "/v1/rerank"})
BYTES_PER_PAIR = 2048  # memory of a pair that waits: its task, its items and its outcome
CHARACTERS_PER_PAIR = 1024  # on average, where there are as many pairs as may be
Body = Mapping[str, Any]
Faults = dict[int, InputError]  # by the number of the text
V = TypeVar("V")
# runs work on so many bytes: at once, or in a thread where they are many
Run = Callable[[int, Callable[[], Any]], Awaitable[Any]]


class ScoreEndpoints:
    """Answers requests for scores.

    Args:
        utilities: the metrics, by name, of which the first counts where a request names none.
        choosing: the thread that has the engine.
        settings: what a request may ask for.
        max_seconds: how long scoring may take, with its waiting.
        counters: of the server.

    Raises:
        InputError: a metric waits for a corpus.
    """

    def __init__(
        self,
        utilities: Mapping[str, Utility],
        choosing: ChoosingThread,
        settings: ScoreSettings,
        max_seconds: float,
        counters: Counters,
    ) -> None:
        for utility in utilities.values():
            check_scores_alone(utility)
        self._utilities, self._choosing = utilities, choosing
        self._settings, self._max_seconds, self._counters = settings, max_seconds, counters

    def takes(self, path: str) -> bool:
        """Whether a path is one of scores."""
        return bool(self._utilities) and path in FORMS

    def is_ours(self, path: str, body: Body) -> bool:
        """Whether a request is for these metrics, where an upstream answers the path as well."""
        model = body.get("model")
        return path not in SHARED or (isinstance(model, str) and model in self._utilities)

    def models(self) -> dict[str, Any]:
        """The metrics, in OpenAI's form of models."""
        data = []
        for name, utility in self._utilities.items():
            reads = {
                "references": needs_references(utility),
                "source": any(part.needs_source for _, part in utility.parts),
                "context": utility.reads.context,
            }
            about = {"signature": utility.signature(), "reads": reads}
            data.append({"id": name, "object": "model", "owned_by": "discorank", **about})
        return {"object": "list", "data": data}

    async def answer(
        self, path: str, body: Body, named: str | None, share: RequestShare, run: Run
    ) -> bytes:
        """The answer to a request, as JSON.

        Args:
            path: of the request.
            body: of the request.
            named: the metric that its address names.
            share: what it takes of the memory for all.
            run: where work is done.

        Raises:
            ApiError: there is none.
        """
        name = body.get("model", named)
        name = next(iter(self._utilities)) if name is None else name
        if not isinstance(name, str) or name not in self._utilities:
            problem = f"found {shown(name)}, expected one of {', '.join(self._utilities)}"
            raise ApiError(404, problem, "model", "model_not_found")
        errors = body.get("errors", "request")
        if errors not in ("request", "each"):
            raise bad(f"found {shown(errors)}", "errors", '"each" or "request"')
        size, form, utility = share.num_bytes // BYTES_PER_BYTE, FORMS[path], self._utilities[name]
        try:
            with self._counters.score_seconds.time():
                columns = await run(size, partial(form.columns, body, needs_references(utility)))
                scores = await self._scores(columns, utility, errors == "each", share, run)
                content: bytes = await run(size, partial(_written, form, body, name, scores))
        except InputError as error:
            raise ApiError(400, str(error), error.where, "bad_request") from None
        share.take(len(content))
        return content

    async def _scores(
        self, columns: Columns, utility: Utility, in_place: bool, share: RequestShare, run: Run
    ) -> list[ScoreOutcome]:
        """The score of every text, or its error, if errors stand in their places.

        Raises:
            ApiError, InputError: there is an error that does not.
        """
        columns.check()
        size = share.num_bytes // BYTES_PER_BYTE
        faults = self._faults(columns, utility, in_place, self._weighed(columns, share))
        if self._settings.strip:
            columns = columns._replace(hypotheses=list(map(self._stripped, columns.hypotheses)))
        kept = columns.without(faults)
        tasks, numbers = await run(size, lambda: distinct_tasks(score_tasks(utility, *kept)))
        outcomes = await self._outcomes([partial(_one_task, task) for task in tasks])
        others = iter(score_of(utility, outcomes[number]) for number in numbers)
        scores = [
            faults[i] if i in faults else next(others) for i in range(len(columns.hypotheses))
        ]
        failed = [(i, one) for i, one in enumerate(scores) if isinstance(one, DiscorankError)]
        self._counters.scored.labels("score").inc(len(scores) - len(failed))
        self._counters.scored.labels("error").inc(len(failed))
        if failed and not in_place:
            number, error = failed[0]
            place = f"texts[{number}]"
            problem = f"{error.inside(place)} ({len(failed)} of {len(scores)} have no score)"
            raise ApiError(422, problem, place, error_body(error)["code"])
        return scores

    def _stripped(self, text: Any) -> Any:
        """A response without what is cut off its end."""
        while isinstance(text, str):
            end = next((end for end in self._settings.strip if end and text.endswith(end)), None)
            if end is None:
                break
            text = text.removesuffix(end)
        return text

    def _weighed(self, columns: Columns, share: RequestShare) -> list[int]:
        """Take room for pairs; the characters of the longest text of each row.

        Raises:
            ApiError: they are too many, or too long, for a request, or too many for now.
        """
        most, waiting = self._settings.max_pairs, self._choosing.num_waiting
        pairs = characters = 0
        longest = []
        for hypothesis, references, source in columns.rows():
            lengths = [_length(text) for text in (*references, source)]
            alone, num_pairs = _length(hypothesis), max(1, len(references))
            longest.append(max(alone, *lengths))
            pairs += num_pairs
            if longest[-1] <= self._settings.max_text_characters:  # one too long is not scored
                characters += num_pairs * alone + sum(lengths)
        if pairs > most:
            problem = f"the request has {pairs} pairs, at most {most} are scored at a time"
            raise ApiError(413, problem, code="too_many_pairs")
        if characters > most * CHARACTERS_PER_PAIR:
            problem = f"its pairs have {characters} characters, at most {most * CHARACTERS_PER_PAIR} are read"
            raise ApiError(413, problem, code="too_many_characters")
        if waiting + pairs > 4 * most:
            raise ApiError(429, f"{waiting} pairs wait to be scored", code="too_many_pairs")
        share.take(BYTES_PER_PAIR * pairs)
        return longest

    def _faults(
        self, columns: Columns, utility: Utility, in_place: bool, longest: Sequence[int]
    ) -> Faults:
        """The errors of texts that cannot be read, are too long, or lie in a document with such a text.

        Raises:
            ApiError, InputError: there is one, and errors do not stand in their places.
        """
        faults, most = dict(columns.faults), self._settings.max_text_characters
        if faults and not in_place:
            raise next(iter(faults.values()))
        for i, length in enumerate(longest):
            if length > most:
                problem = f"a text has {length} characters, at most {most} are read"
                if not in_place:
                    raise ApiError(413, problem, code="too_long")
                faults.setdefault(i, InputError(problem, where=f"texts[{i}]"))
        if columns.documents is not None and utility.reads.context:
            broken = {columns.documents[i]: fault for i, fault in faults.items()}
            for i, name in enumerate(columns.documents):
                if name in broken:
                    faults.setdefault(i, broken[name])
        return faults

    async def _outcomes(
        self, programs: Sequence[Callable[[], Generator[Task, Result, Any]]]
    ) -> list[Any]:
        """The outcomes of programs; raises ApiError if there are none in time, or if a metric's resource is gone."""
        try:
            async with asyncio.timeout(self._max_seconds):
                outcomes = await self._choosing.outcomes(programs)
        except TimeoutError:
            problem = f"no scores within {self._max_seconds:g} seconds"
            raise ApiError(503, problem, code="slow_scores") from None
        for outcome in outcomes:
            if isinstance(outcome, ResourceError):
                problem = f"no scores: {outcome}"
                raise ApiError(503, problem, code="no_scores", report=problem)
        return outcomes


def _one_task(task: Task) -> Generator[Task, Result, Result]:
    """The program of one task."""
    return (yield task)


def _length(text: Text) -> int:
    """The characters of a text."""
    return len(text) if isinstance(text, str) else sum(map(len, text.sentences))


def _written(form: Form, body: Body, name: str, scores: Sequence[ScoreOutcome]) -> bytes:
    """The answer as JSON, with the name of its metric where it is a list of results."""
    answer = form.answer(body, scores)
    if "data" in answer or "results" in answer:
        answer["model"] = name
    return json.dumps(answer, allow_nan=False).encode()


class Columns(NamedTuple):
    """The texts to score, [n] each; a text that cannot be read has its error in `faults`, and is blank."""

    hypotheses: Sequence[Text]
    references: Sequence[Sequence[Text]] | None = None
    sources: Sequence[Text | None] | None = None
    documents: Sequence[str] | None = None
    faults: Faults = {}  # noqa: RUF012

    def check(self) -> None:
        """Raises InputError for a column of another length than the hypotheses."""
        for name, column in zip(self._fields[1:4], self[1:4], strict=True):
            if column is not None:
                _as_many(column, self.hypotheses, name)

    def without(self, left_out: Container[int]) -> list[Any]:
        """The columns without some texts."""
        return [
            column and [value for i, value in enumerate(column) if i not in left_out]
            for column in self[:4]
        ]

    def rows(self) -> Iterator[tuple[Text, Sequence[Text], Text]]:
        """Each hypothesis with its references and its source, none or empty without any."""
        references = self.references or [()] * len(self.hypotheses)
        sources = self.sources or [""] * len(self.hypotheses)
        for hypothesis, own, source in zip(self.hypotheses, references, sources, strict=True):
            yield hypothesis, own, source or ""


class Form(NamedTuple):
    """A form of requests for scores, and of their answers.

    Args:
        columns: reads what is scored from a request, given whether the metric compares with references; raises
            InputError where something is missing.
        answer: makes the answer, a JSON value without the name of the model.
    """

    columns: Callable[[Body, bool], Columns]
    answer: Callable[[Body, Sequence[ScoreOutcome]], dict[str, Any]]


def error_body(error: DiscorankError) -> dict[str, str]:
    """The error of a text in its place: its message, and whether the text is at fault or the metric failed on it."""
    code = "bad_text" if isinstance(error, InputError) else "not_scored"
    return {"message": str(error), "code": code}


def _result(i: int, outcome: ScoreOutcome, name: str) -> dict[str, Any]:
    """The entry of a text in a list of results."""
    if isinstance(outcome, DiscorankError):
        return {"index": i, name: None, "error": error_body(outcome)}
    return {"index": i, name: outcome}


def _score_columns(body: Body, compares: bool) -> Columns:
    """Columns of texts, as `Metric.score` takes them, or queries and documents, as vLLM's /score takes them."""
    if "hypotheses" in body:
        return _own_columns(body)
    if "text_1" in body or "text_2" in body:
        return _pair_columns(body, compares)
    keys = ", ".join(map(str, body))[:200] or "nothing"
    raise InputError(f"found {keys}, expected hypotheses, or text_1 and text_2", where="body")


def _score_answer(body: Body, outcomes: Sequence[ScoreOutcome]) -> dict[str, Any]:
    """A list of results in the order of the request."""
    data = [{**_result(i, one, "score"), "object": "score"} for i, one in enumerate(outcomes)]
    return {"object": "list", "created": int(time()), "data": data}


def _own_columns(body: Body) -> Columns:
    """Columns as they are named in the request."""
    faults: Faults = {}
    hypotheses = _read(
        _array(body.get("hypotheses"), "hypotheses"), "hypotheses", _text, "", faults
    )
    references = _column(body, "references", _several, [], faults)
    documents = _column(body, "documents", _string, "", faults)
    return Columns(hypotheses, references, _sources(body, faults), documents, faults)


def _pair_columns(body: Body, compares: bool) -> Columns:
    """Columns of queries and documents; one query stands for as many as there are documents."""
    queries, documents = _one_or_more(body, "text_1"), _one_or_more(body, "text_2")
    if len(queries) == 1:
        queries = queries * len(documents)
    if len(queries) != len(documents):
        problem = f"{len(queries)} for {len(documents)} documents"
        raise InputError(problem, where="text_1", fix="Give one query, or one for each document")
    faults: Faults = {}
    hypotheses = _read(documents, "text_2", _text, "", faults)
    texts = _read(queries, "text_1", _text, "", faults)
    sources = _sources(body, faults)
    references = [[text] for text in texts] if compares else None
    if not compares and sources is None:
        sources = [*texts]
    return Columns(hypotheses, references, sources, None, faults)


def _rerank_columns(body: Body, compares: bool) -> Columns:
    """One query and documents, as vLLM's /rerank takes them."""
    faults: Faults = {}
    documents = _read(_array(body.get("documents"), "documents"), "documents", _text, "", faults)
    _top(body, len(documents))
    query, source = _text(body.get("query"), "query"), body.get("source")
    if not compares:
        return Columns(documents, None, [query] * len(documents), None, faults)
    sources = None if source is None else [_text(source, "source")] * len(documents)
    return Columns(documents, [[query]] * len(documents), sources, None, faults)


def _rerank_answer(body: Body, outcomes: Sequence[ScoreOutcome]) -> dict[str, Any]:
    """The best documents first, those without a score last."""

    def rank(i: int) -> tuple[bool, float]:
        outcome = outcomes[i]
        return (True, 0.0) if isinstance(outcome, DiscorankError) else (False, -outcome)

    best = sorted(range(len(outcomes)), key=rank)[: _top(body, len(outcomes))]
    return {"results": [_result(i, outcomes[i], "relevance_score") for i in best]}


def _reward_columns(body: Body, compares: bool) -> Columns:
    """Prompts with their responses, and labels, as OpenRLHF sends them; a response is what follows its prompt."""
    faults: Faults = {}
    queries = _read(_one_or_more(body, "query"), "query", _string, "", faults)
    prompts = body.get("prompts")
    responses = queries
    if prompts is not None:
        _as_many(_array(prompts, "prompts"), queries, "prompts")
        pairs = list(zip(queries, prompts, strict=True))
        responses = _read(pairs, "prompts", _behind, "", faults)
    sources = _sources(body, faults)
    if not compares:
        if sources is None and prompts is not None:
            sources = [*_read(prompts, "prompts", _text, "", faults)]
        return Columns(responses, None, sources, None, faults)
    labels = _array(body.get("labels"), "labels")
    _as_many(labels, queries, "labels")
    read = _read(labels, "labels", _label, ([], None), faults)
    if sources is None and any(source is not None for _, source in read):
        sources = [source for _, source in read]
    return Columns(responses, [references for references, _ in read], sources, None, faults)


def _reward_answer(body: Body, outcomes: Sequence[ScoreOutcome]) -> dict[str, Any]:
    """Rewards in the order of the request; null, and the error beside it, for one that is missing."""
    rewards = [None if isinstance(one, DiscorankError) else one for one in outcomes]
    answer: dict[str, Any] = {"rewards": rewards, "scores": rewards, "extra_logs": {}}
    faults = [
        {"index": i, **error_body(one)}
        for i, one in enumerate(outcomes)
        if isinstance(one, DiscorankError)
    ]
    return {**answer, "errors": faults} if faults else answer


FORMS: Mapping[str, Form] = {
    "/v1/score": Form(_score_columns, _score_answer),
    "/v1/rerank": Form(_rerank_columns, _rerank_answer),
    "/get_reward": Form(_reward_columns, _reward_answer),
}


def _top(body: Body, num_documents: int) -> int:
    """How many documents are answered."""
    top = body.get("top_n")
    if top is None:
        return num_documents
    if type(top) is not int or top < 1:
        raise InputError(f"found {shown(top)}, expected a whole number from 1", where="top_n")
    return top


def _behind(pair: tuple[str, Any], where: str) -> str:
    """The rest of a query after its prompt, before which special tokens may come."""
    query, prompt = pair
    _, mark, response = query.partition(_string(prompt, where))
    if not mark:
        problem = "the query does not contain its prompt, so that the response is not known"
        raise InputError(problem, where=where, fix="Send the responses as query, without prompts")
    return response


def _label(value: Any, where: str) -> tuple[list[Text], Text | None]:
    """References, and the source if there is one: a text, an array of texts, or an object of both."""
    if not isinstance(value, Mapping):
        return _several(value, where), None
    name = "references" if "references" in value else "reference"
    source = value.get("source")
    references = _several(value.get(name), f"{where}.{name}")
    return references, None if source is None else _text(source, f"{where}.source")


def _sources(body: Body, faults: Faults) -> list[Text | None] | None:
    """The column of sources; None without one."""

    def read(value: Any, where: str) -> Text | None:
        return None if value is None else _text(value, where)

    return _column(body, "sources", read, None, faults)


def _column(
    body: Body, key: str, read: Callable[[Any, str], V], blank: Any, faults: Faults
) -> list[V] | None:
    """A column of a request, None if it is missing; arguments as `_read`."""
    if body.get(key) is None:
        return None
    return _read(_array(body[key], key), key, read, blank, faults)


def _read(
    values: Sequence[Any], key: str, read: Callable[[Any, str], V], blank: Any, faults: Faults
) -> list[V]:
    """Read the values of a column; one that cannot be read is blank, and its error, if it is the first, in `faults`."""
    column = []
    for i, value in enumerate(values):
        try:
            column.append(read(value, f"{key}[{i}]"))
        except InputError as error:
            faults.setdefault(i, error)
            column.append(blank)
    return column


def _one_or_more(body: Body, key: str) -> list[Any]:
    """A text or an array of texts, as an array."""
    value = body.get(key)
    return [value] if isinstance(value, str) else _array(value, key, "a text or an array of texts")


def _several(value: Any, where: str) -> list[Text]:
    """One text, or an array of texts; a number is the text of its digits."""
    value = with_digits(value)
    if isinstance(value, str):
        return [_string(value, where)]
    texts = _array(value, where, "a text or an array of texts")
    return [_text(text, f"{where}[{i}]") for i, text in enumerate(map(with_digits, texts))]


def _text(value: Any, where: str) -> Text:
    """A text, the sentences of one, or an object with a text."""
    text = value if isinstance(value, str) else read_candidate(value, where).text
    for part in [text] if isinstance(text, str) else text.sentences:
        _string(part, where)
    return text


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"found {shown(value)}, expected a text", where=where)
    try:
        value.encode()
    except UnicodeEncodeError:
        problem = "half of a surrogate pair, which is not a character"
        raise InputError(problem, where=where, fix="Escape whole pairs") from None
    return value


def _array(value: Any, where: str, expected: str = "an array") -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"found {shown(value)}, expected {expected}", where=where)
    return value


def _as_many(values: Sequence[Any], texts: Sequence[Any], where: str) -> None:
    if len(values) != len(texts):
        raise InputError(f"{len(values)} for {len(texts)} texts", where=where)
