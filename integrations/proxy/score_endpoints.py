"""Requests for scores: read, valued with those of other requests, answered in their form.

    /v1/score     {"hypotheses", "references", "sources", "documents"}     the columns of `Metric.score`
                  {"text_1": query or queries, "text_2": documents}        vLLM
    /v1/rerank    {"query", "documents", "top_n"}                          vLLM
    /get_reward   {"query": prompts with responses, "prompts", "labels"}   OpenRLHF

A query is the reference of its documents, or their source where the metric reads no references. Any form may bring
`sources` (one `source` for one query or one text) and `model`, the name of a metric. A text is a string, or an array of
strings, the sentences of a document. A text that cannot be read or scored fails its request, which names it.

A request counts against the memory shared by all; a text that it repeats is valued once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from time import time
from typing import Any, NamedTuple, TypeVar

from ...metrics.errors import DiscorankError, InputError, ResourceError
from ...metrics.mixture import Utility
from ...metrics.text.texts import Text
from ...rerank.engines.interface import Result, Task
from ...rerank.engines.text_scores import (
    check_scores_alone,
    distinct_tasks,
    needs_references,
    score_of,
    score_tasks,
)
from ...rerank.lists import read_candidate, with_digits
from .api_errors import ApiError, shown
from .connections import BYTES_PER_BYTE, RequestShare
from .counters import Counters
from .decisions import ChoosingThread
from .settings import ScoreSettings

MODELS = "/v1/models"
# paths that an upstream may answer as well: they are ours if the request names one of our metrics
SHARED = frozenset({"/v1/score", "/v1/rerank"})
BYTES_PER_PAIR = 2048  # memory of a pair that waits: its task, its items and its outcome
CHARACTERS_PER_PAIR = 1024  # on average, where there are as many pairs as may be
RETRY_SECONDS = 5
Body = Mapping[str, Any]
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
        size, form, utility = share.num_bytes // BYTES_PER_BYTE, FORMS[path], self._utilities[name]
        try:
            with self._counters.score_seconds.time():
                columns = await run(size, partial(form.columns, body, needs_references(utility)))
                scores = await self._scores(columns, utility, share, run)
                content: bytes = await run(size, partial(_written, form, body, name, scores))
        except InputError as error:
            raise ApiError(400, str(error), error.where, "bad_request") from None
        share.take(len(content))
        return content

    async def _scores(
        self, columns: Columns, utility: Utility, share: RequestShare, run: Run
    ) -> list[float]:
        """The score of every text; raises ApiError, InputError if one has none."""
        columns.check()
        size = share.num_bytes // BYTES_PER_BYTE
        self._weigh(columns, share)
        if self._settings.strip:
            columns = columns._replace(hypotheses=list(map(self._stripped, columns.hypotheses)))
        tasks, numbers = await run(size, lambda: distinct_tasks(score_tasks(utility, *columns)))
        outcomes = await self._outcomes([partial(_one_task, task) for task in tasks])
        of_texts = [score_of(utility, outcomes[number]) for number in numbers]
        scores = [one for one in of_texts if not isinstance(one, DiscorankError)]
        num_failed = len(of_texts) - len(scores)
        self._counters.scored.labels("score").inc(len(scores))
        self._counters.scored.labels("error").inc(num_failed)
        for number, one in enumerate(of_texts):
            if isinstance(one, DiscorankError):
                place = f"texts[{number}]"
                problem = f"{one.inside(place)} ({num_failed} of {len(of_texts)} have no score)"
                raise ApiError(422, problem, place, "not_scored")
        return scores

    def _stripped(self, text: Any) -> Any:
        """A response without what is cut off its end."""
        while isinstance(text, str):
            end = next((end for end in self._settings.strip if end and text.endswith(end)), None)
            if end is None:
                break
            text = text.removesuffix(end)
        return text

    def _weigh(self, columns: Columns, share: RequestShare) -> None:
        """Take room for pairs.

        Raises:
            ApiError: they are too many, or too long, for a request, or too many for now.
        """
        most, waiting = self._settings.max_pairs, self._choosing.num_waiting
        longest = self._settings.max_text_characters
        pairs = characters = 0
        for hypothesis, references, source in columns.rows():
            lengths = [_length(text) for text in (hypothesis, *references, source)]
            if max(lengths) > longest:
                problem = f"a text has {max(lengths)} characters, at most {longest} are read"
                raise ApiError(413, problem, code="too_long")
            num_pairs = max(1, len(references))
            pairs += num_pairs
            characters += (num_pairs - 1) * lengths[0] + sum(lengths)
        if pairs > most:
            problem = f"the request has {pairs} pairs, at most {most} are scored at a time"
            raise ApiError(413, problem, code="too_many_pairs")
        if characters > most * CHARACTERS_PER_PAIR:
            problem = f"its pairs have {characters} characters, at most {most * CHARACTERS_PER_PAIR} are read"
            raise ApiError(413, problem, code="too_many_characters")
        if waiting + pairs > 4 * most:
            raise ApiError(429, f"{waiting} pairs wait to be scored", code="too_many_pairs")
        share.take(BYTES_PER_PAIR * pairs)

    async def _outcomes(
        self, programs: Sequence[Callable[[], Generator[Task, Result, Any]]]
    ) -> list[Any]:
        """The outcomes of programs; raises ApiError if there are none in time, or if a metric's resource is gone."""
        try:
            async with asyncio.timeout(self._max_seconds):
                outcomes = await self._choosing.outcomes(programs)
        except TimeoutError:
            problem = f"no scores within {self._max_seconds:g} seconds"
            raise ApiError(503, problem, code="slow_scores", retry_seconds=RETRY_SECONDS) from None
        for outcome in outcomes:
            if isinstance(outcome, ResourceError):
                problem = f"no scores: {outcome}"
                raise ApiError(
                    503, problem, code="no_scores", retry_seconds=RETRY_SECONDS, report=problem
                )
        return outcomes


def _one_task(task: Task) -> Generator[Task, Result, Result]:
    """The program of one task."""
    return (yield task)


def _length(text: Text) -> int:
    """The characters of a text."""
    return len(text) if isinstance(text, str) else sum(map(len, text.sentences))


def _written(form: Form, body: Body, name: str, scores: Sequence[float]) -> bytes:
    """The answer as JSON, with the name of its metric where it is a list of results."""
    answer = form.answer(body, scores)
    if "data" in answer or "results" in answer:
        answer["model"] = name
    return json.dumps(answer, allow_nan=False).encode()


class Columns(NamedTuple):
    """The texts to score, [n] each."""

    hypotheses: Sequence[Text]
    references: Sequence[Sequence[Text]] | None = None
    sources: Sequence[Text | None] | None = None
    documents: Sequence[str] | None = None

    def check(self) -> None:
        """Raises InputError for a column of another length than the hypotheses."""
        for name, column in zip(self._fields[1:], self[1:], strict=True):
            if column is not None:
                _as_many(column, self.hypotheses, name)

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
    answer: Callable[[Body, Sequence[float]], dict[str, Any]]


def _score_columns(body: Body, compares: bool) -> Columns:
    """Columns of texts, as `Metric.score` takes them, or queries and documents, as vLLM's /score takes them."""
    if "hypotheses" in body:
        return _own_columns(body)
    if "text_1" in body or "text_2" in body:
        return _pair_columns(body, compares)
    keys = ", ".join(map(str, body))[:200] or "nothing"
    raise InputError(f"found {keys}, expected hypotheses, or text_1 and text_2", where="body")


def _score_answer(body: Body, scores: Sequence[float]) -> dict[str, Any]:
    """A list of results in the order of the request."""
    data = [{"index": i, "score": one, "object": "score"} for i, one in enumerate(scores)]
    return {"object": "list", "created": int(time()), "data": data}


def _own_columns(body: Body) -> Columns:
    """Columns as they are named in the request."""
    hypotheses = _read(_array(body.get("hypotheses"), "hypotheses"), "hypotheses", _text)
    references = _column(body, "references", _several)
    return Columns(hypotheses, references, _sources(body), _column(body, "documents", _string))


def _pair_columns(body: Body, compares: bool) -> Columns:
    """Columns of queries and documents; one query stands for as many as there are documents."""
    queries, documents = _one_or_more(body, "text_1"), _one_or_more(body, "text_2")
    if len(queries) == 1:
        queries = queries * len(documents)
    if len(queries) != len(documents):
        problem = f"{len(queries)} for {len(documents)} documents"
        raise InputError(problem, where="text_1", fix="Give one query, or one for each document")
    hypotheses, texts = _read(documents, "text_2", _text), _read(queries, "text_1", _text)
    sources = _sources(body)
    if compares:
        return Columns(hypotheses, [[text] for text in texts], sources)
    return Columns(hypotheses, None, texts if sources is None else sources)


def _rerank_columns(body: Body, compares: bool) -> Columns:
    """One query and documents, as vLLM's /rerank takes them."""
    documents = _read(_array(body.get("documents"), "documents"), "documents", _text)
    _top(body, len(documents))
    query, source = _text(body.get("query"), "query"), body.get("source")
    if not compares:
        return Columns(documents, None, [query] * len(documents))
    sources = None if source is None else [_text(source, "source")] * len(documents)
    return Columns(documents, [[query]] * len(documents), sources)


def _rerank_answer(body: Body, scores: Sequence[float]) -> dict[str, Any]:
    """The best documents first."""
    best = sorted(range(len(scores)), key=lambda i: -scores[i])[: _top(body, len(scores))]
    return {"results": [{"index": i, "relevance_score": scores[i]} for i in best]}


def _reward_columns(body: Body, compares: bool) -> Columns:
    """Prompts with their responses, and labels, as OpenRLHF sends them; a response is what follows its prompt."""
    queries = _read(_one_or_more(body, "query"), "query", _string)
    prompts = body.get("prompts")
    responses = queries
    if prompts is not None:
        _as_many(_array(prompts, "prompts"), queries, "prompts")
        responses = _read(list(zip(queries, prompts, strict=True)), "prompts", _behind)
    sources = _sources(body)
    if not compares:
        if sources is None and prompts is not None:
            sources = [*_read(prompts, "prompts", _text)]
        return Columns(responses, None, sources)
    labels = _array(body.get("labels"), "labels")
    _as_many(labels, queries, "labels")
    read = _read(labels, "labels", _label)
    if sources is None and any(source is not None for _, source in read):
        sources = [source for _, source in read]
    return Columns(responses, [references for references, _ in read], sources)


def _reward_answer(body: Body, scores: Sequence[float]) -> dict[str, Any]:
    """Rewards in the order of the request."""
    return {"rewards": scores, "scores": scores, "extra_logs": {}}


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


def _sources(body: Body) -> list[Text | None] | None:
    """The column of sources; None without one."""
    return _column(body, "sources", lambda value, at: None if value is None else _text(value, at))


def _column(body: Body, key: str, read: Callable[[Any, str], V]) -> list[V] | None:
    """A column of a request, None if it is missing."""
    return None if body.get(key) is None else _read(_array(body[key], key), key, read)


def _read(values: Sequence[Any], key: str, read: Callable[[Any, str], V]) -> list[V]:
    """Read the values of a column; raises InputError for the first that cannot be read."""
    return [read(value, f"{key}[{i}]") for i, value in enumerate(values)]


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
