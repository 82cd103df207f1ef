"""Requests for scores: read, valued with those of other requests, answered in their form.

The forms are those of `score_forms`. A request counts against the memory shared by all; a text that it repeats is
valued once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

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
from .api_errors import ApiError, bad, shown
from .counters import Counters
from .decisions import ChoosingThread
from .door import BYTES_PER_BYTE, RequestShare
from .score_forms import FORMS, Columns, Faults, Form, error_body
from .settings import ScoreSettings

MODELS = "/v1/models"
# paths that a server upstream may answer as well: they are ours where the request names one of our metrics
SHARED = frozenset({"/v1/score", "/v1/rerank"})
BYTES_PER_PAIR = 2048  # memory of a pair that waits: its task, its items and its outcome
CHARACTERS_PER_PAIR = 1024  # on average, where there are as many pairs as may be
RETRY_SECONDS = 5

# runs work on so many bytes: at once, or in a thread where they are many
Run = Callable[[int, Callable[[], Any]], Awaitable[Any]]
Program = Generator[Task, Result, Any]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request: the metric and the name it goes by, and whether errors stand in their places."""

    body: Mapping[str, Any]
    name: str
    utility: Utility
    in_place: bool


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

    def is_ours(self, path: str, body: Mapping[str, Any]) -> bool:
        """Whether a request is for these metrics, where a server upstream answers the path as well."""
        model = body.get("model")
        return path not in SHARED or (isinstance(model, str) and model in self._utilities)

    def models(self) -> dict[str, Any]:
        """The metrics, in OpenAI's form of models."""
        data = []
        for name, utility in self._utilities.items():
            parts = [part for _, part in utility.parts]
            reads = {
                "references": needs_references(utility),
                "source": any(part.needs_source for part in parts),
                "context": utility.reads.context,
            }
            about = {"signature": utility.signature(), "reads": reads}
            data.append({"id": name, "object": "model", "owned_by": "discorank", **about})
        return {"object": "list", "data": data}

    async def answer(
        self, path: str, body: Mapping[str, Any], named: str | None, share: RequestShare, run: Run
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
        start = perf_counter()
        asked = self._asked(body, named)
        try:
            content = await self._scores_of(asked, FORMS[path], share, run)
        except InputError as error:
            raise ApiError(400, str(error), error.where, "bad_request") from None
        finally:
            self._counters.score_seconds.observe(perf_counter() - start)
        share.take(len(content))
        return content

    def _asked(self, body: Mapping[str, Any], named: str | None) -> _Asked:
        """What a request asks for; raises ApiError for a metric that is not there."""
        name = body.get("model", named)
        name = next(iter(self._utilities)) if name is None else name
        utility = self._utilities.get(name) if isinstance(name, str) else None
        if utility is None:
            problem = f"found {shown(name)}, expected one of {', '.join(self._utilities)}"
            raise ApiError(404, problem, "model", "model_not_found")
        errors = body.get("errors", "request")
        if errors not in ("request", "each"):
            raise bad(f"found {shown(errors)}", "errors", '"each" or "request"')
        return _Asked(body, name, utility, errors == "each")

    async def _scores_of(self, asked: _Asked, form: Form, share: RequestShare, run: Run) -> bytes:
        """The answer to a request for scores."""
        size = share.num_bytes // BYTES_PER_BYTE
        compares = needs_references(asked.utility)
        columns: Columns = await run(size, partial(form.columns, asked.body, compares))
        columns.check()
        amounts = _amounts_of(columns)
        self._take(amounts, share)
        faults = self._faults(asked, columns, amounts)
        if self._settings.strip:
            columns = columns._replace(hypotheses=list(map(self._stripped, columns.hypotheses)))
        kept = columns.without(faults)
        tasks, numbers = await run(size, partial(_tasks, asked.utility, kept))
        outcomes = await self._outcomes([partial(_one_task, task) for task in tasks])
        others = iter(score_of(asked.utility, outcomes[number]) for number in numbers)
        scores = [
            faults[i] if i in faults else next(others) for i in range(len(columns.hypotheses))
        ]
        self._check(scores, asked)
        content: bytes = await run(size, partial(_written, form, asked, scores))
        return content

    def _stripped(self, text: Any) -> Any:
        """A response without what is cut off its end."""
        while isinstance(text, str):
            end = next((end for end in self._settings.strip if end and text.endswith(end)), None)
            if end is None:
                break
            text = text.removesuffix(end)
        return text

    def _faults(self, asked: _Asked, columns: Columns, amounts: Sequence[Amount]) -> Faults:
        """The errors of texts that cannot be read, are too long, or lie in a document with such a text.

        Raises:
            ApiError, InputError: there is one, and errors do not stand in their places.
        """
        faults, most = dict(columns.faults), self._settings.max_text_characters
        if faults and not asked.in_place:
            raise next(iter(faults.values()))
        for i, amount in enumerate(amounts):
            if amount.longest > most:
                problem = f"a text has {amount.longest} characters, at most {most} are read"
                if not asked.in_place:
                    raise ApiError(413, problem, code="too_long")
                faults.setdefault(i, InputError(problem, where=f"texts[{i}]"))
        if columns.documents is not None and asked.utility.reads.context:
            broken = {columns.documents[i]: fault for i, fault in faults.items()}
            of_documents = ((i, broken.get(name)) for i, name in enumerate(columns.documents))
            faults |= {i: fault for i, fault in of_documents if fault and i not in faults}
        return faults

    def _take(self, amounts: Sequence[Amount], share: RequestShare) -> None:
        """Takes room for pairs.

        Raises:
            ApiError: they are too many, or too long, for a request, or too many for now.
        """
        most, waiting = self._settings.max_pairs, self._choosing.num_waiting
        pairs, longest = sum(one.pairs for one in amounts), self._settings.max_text_characters
        # one too long is not scored
        characters = sum(one.characters for one in amounts if one.longest <= longest)
        if pairs > most:
            problem = f"the request has {pairs} pairs, at most {most} are scored at a time"
            raise ApiError(413, problem, code="too_many_pairs")
        if characters > most * CHARACTERS_PER_PAIR:
            problem = f"its pairs have {characters} characters, at most {most * CHARACTERS_PER_PAIR} are read"
            raise ApiError(413, problem, code="too_many_characters")
        if waiting + pairs > 4 * most:
            raise ApiError(429, f"{waiting} pairs wait to be scored", code="too_many_pairs")
        share.take(BYTES_PER_PAIR * pairs)

    async def _outcomes(self, programs: Sequence[Callable[[], Program]]) -> list[Any]:
        """The outcomes of programs, in their places.

        Raises:
            ApiError: there are none in time, or what a metric needs is gone.
        """
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

    def _check(self, outcomes: Sequence[Any], asked: _Asked) -> None:
        """Counts outcomes; raises ApiError for the first error where errors do not stand in their places."""
        errors = [one for one in outcomes if isinstance(one, DiscorankError)]
        self._counters.scored.labels("score").inc(len(outcomes) - len(errors))
        self._counters.scored.labels("error").inc(len(errors))
        if errors and not asked.in_place:
            place = f"texts[{outcomes.index(errors[0])}]"
            problem = f"{errors[0].inside(place)} ({len(errors)} of {len(outcomes)} have no score)"
            raise ApiError(422, problem, place, error_body(errors[0])["code"])


def _one_task(task: Task) -> Generator[Task, Result, Result]:
    """The program of one task."""
    return (yield task)


def _tasks(utility: Utility, columns: Sequence[Any]) -> tuple[list[Task], list[int]]:
    """The distinct tasks of a request, and which of them each text has; errors as `score_tasks`."""
    return distinct_tasks(score_tasks(utility, *columns))


def _written(form: Form, asked: _Asked, scores: Sequence[ScoreOutcome]) -> bytes:
    """The answer as JSON, with the name of its metric where it is a list of results."""
    answer = form.answer(asked.body, scores)
    if "data" in answer or "results" in answer:
        answer["model"] = asked.name
    return json.dumps(answer, allow_nan=False).encode()


class Amount(NamedTuple):
    """The work of one text: pairs, their characters together, and the characters of the longest text."""

    pairs: int
    characters: int
    longest: int


def _amounts_of(columns: Columns) -> list[Amount]:
    """The work of each text of a request."""
    amounts = []
    empty: Sequence[Any] = [()] * len(columns.hypotheses)
    references, sources = columns.references or empty, columns.sources or empty
    for hypothesis, own, source in zip(columns.hypotheses, references, sources, strict=True):
        lengths = [_length(text) for text in own]
        alone, num_pairs = _length(hypothesis), max(1, len(lengths))
        lengths.append(_length(source or ""))
        amounts.append(Amount(num_pairs, num_pairs * alone + sum(lengths), max(alone, *lengths)))
    return amounts


def _length(text: Text) -> int:
    """The characters of a text."""
    return len(text) if isinstance(text, str) else sum(map(len, text.sentences))
