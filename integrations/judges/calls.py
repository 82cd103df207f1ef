"""The calls of a judge: every distinct question is asked once, some at a time, and answers are kept as they come.

An answer without a value is asked for again, with that answer and a reminder of the form before it, at most `repeats`
times; then the question has none (NaN). A request that the server refuses or fails at, while it answers another, is
the fault of its question, and an error; the other is a call, too. All else that fails ends the run, and so do the
bounds on calls and tokens: calls under way are waited for first, as they are paid.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from math import nan
from typing import Any, NamedTuple
from warnings import warn

from ...metrics.errors import DiscorankError, InputError, ResourceError, excerpt
from ..server.client import Client
from ..server.server_errors import BusyError, ExhaustedError, UnusableError
from ..server.settings import Connection
from .answer_values import value_of
from .judge_answers import Answer
from .judge_questions import JudgeQuestion, Requests
from .kept_answers import KeptAnswers
from .prompt_files import Worth
from .spending import Spending

PROBE = JudgeQuestion("Answer with one word.", 0)  # what shows whether a server works


class JudgeCall(NamedTuple):
    """A question, and the answers without a value that it had so far."""

    question: JudgeQuestion
    earlier: tuple[str, ...] = ()

    def again(self, answer: Answer) -> JudgeCall:
        """The call after an answer without a value."""
        return JudgeCall(self.question, (*self.earlier, answer.text))


class JudgeCalls:
    """What a server answers.

    Args:
        connection: how it is reached.
        requests: how it is asked.
        worth: what answers are worth.
        repeats: how often a question without a value is asked again.
        kept: answers that were paid for.
        spending: counts what is spent, and bounds it.
    """

    def __init__(
        self,
        connection: Connection,
        requests: Requests,
        worth: Worth,
        repeats: int,
        kept: KeptAnswers,
        spending: Spending,
    ) -> None:
        self.connection, self.requests, self.worth = connection, requests, worth
        self.repeats, self.kept, self.spending = repeats, kept, spending
        self.faults: dict[bytes, InputError] = {}
        self.has_warned = False

    def values(self, questions: Iterable[JudgeQuestion]) -> dict[JudgeQuestion, float]:
        """The value of every distinct question, NaN where no answer had one.

        Raises:
            ResourceError: the server cannot be reached, fails at everything, or no more may be spent.
            InputError: the server answers others, but not one, the first of which is named.
        """
        with self.kept.in_use():
            return self._values(dict.fromkeys(questions))

    def _values(self, questions: Iterable[JudgeQuestion]) -> dict[JudgeQuestion, float]:
        """As `values`, of questions that differ."""
        values: dict[JudgeQuestion, float] = {}
        calls = [JudgeCall(question) for question in questions]
        while calls:
            keys = [self.requests.key(call.question, call.earlier) for call in calls]
            fresh = self._have_answers(calls, keys)
            again = []
            for call, key in zip(calls, keys, strict=True):
                answer = self._answer(key)
                value = value_of(answer, self.worth)
                if value is not None:
                    values[call.question] = value
                elif len(call.earlier) < self.repeats:
                    again.append(call.again(answer))
                else:
                    values[call.question] = nan
                    self._note_none(answer, key in fresh)
            calls = again
        return values

    def answers(self, question: JudgeQuestion) -> list[str]:
        """All answers to a question whose value was asked for while they were in use, the last one first."""
        call, texts = JudgeCall(question), []
        while True:
            answer = self.kept[self.requests.key(call.question, call.earlier)]
            texts.append(answer.text)
            has_value = value_of(answer, self.worth) is not None
            if has_value or len(call.earlier) == self.repeats:
                return texts[::-1]
            call = call.again(answer)

    def _answer(self, key: bytes) -> Answer:
        """An answer that is there; raises the error of a question at fault."""
        if key in self.faults:
            raise self.faults[key]
        return self.kept[key]

    def _note_none(self, answer: Answer, is_fresh: bool) -> None:
        """Counts a question without a value, and warns of the first."""
        self.spending.count(unparsable=int(is_fresh))
        if not self.has_warned:
            self.has_warned = True
            shown = excerpt(answer.text)
            message = f"an answer without a value, such as {shown}: it counts as missing"
            warn(f"judge {self.requests.model}: {message}", RuntimeWarning, stacklevel=6)

    def _have_answers(self, calls: Sequence[JudgeCall], keys: Sequence[bytes]) -> set[bytes]:
        """Has every call answered, or known to be at fault; the keys of the answers that are new to this process."""
        in_folder = self.kept.find(keys)
        self.spending.count(kept_answers=len(in_folder))
        missing = set(self.kept.missing(keys)) - self.faults.keys()
        waiting: dict[bytes, JudgeCall] = {}
        for call, key in zip(calls, keys, strict=True):
            if key in missing:
                waiting.setdefault(key, call)
        if waiting:
            with Client(self.connection) as client:
                _Round(self, client, waiting).run()
        return in_folder | missing


class _Round:
    """Some calls, of which as many are under way as there are connections."""

    def __init__(
        self, calls: JudgeCalls, client: Client, waiting: Mapping[bytes, JudgeCall]
    ) -> None:
        self.calls, self.client = calls, client
        self.waiting = deque(waiting.items())
        self.under_way: dict[Future[Any], tuple[bytes, JudgeCall, str]] = {}
        self.failed_once: set[bytes] = set()
        self.come: dict[bytes, Answer] = {}  # that are not kept yet
        self.fatal: DiscorankError | None = None
        self.is_over = False  # whether nothing more may be spent
        # a failure, where it was over before its cause was known
        self.unsettled: DiscorankError | None = None

    def run(self) -> None:
        """Has all calls answered, or known to be at fault; errors as `JudgeCalls.values`."""
        while self.waiting or self.under_way:
            self._send()
            if not self.under_way:
                break
            for future in wait(self.under_way, return_when=FIRST_COMPLETED).done:
                self._take(future)
            self._keep()
        if self.fatal is not None:
            raise self.fatal
        if self.is_over:
            calls, num_missing = self.calls, len(self.waiting)
            raise calls.spending.at_bounds(
                calls.requests.model, num_missing, calls.kept.folder, self.unsettled
            )

    def _send(self) -> None:
        """Begins as many calls as there is room for; none once something is fatal."""
        calls = self.calls
        while self.waiting and len(self.under_way) < calls.connection.connections:
            if self.fatal is not None:
                return
            key, call = self.waiting[0]
            self.is_over = not calls.spending.count_call(repeated_calls=int(bool(call.earlier)))
            if self.is_over:
                return
            self.waiting.popleft()
            path, body, prompt = calls.requests.body(call.question, call.earlier)
            retries = calls.connection.retries_again if key in self.failed_once else None
            self.under_way[self.client.post(path, body, retries)] = (key, call, prompt)

    def _take(self, future: Future[Any]) -> None:
        """Keeps the answer of a call that ended, or notes what it failed at."""
        key, call, prompt = self.under_way.pop(future)
        try:
            answer = Answer.of_reply(future.result(), prompt)
        except UnusableError as error:
            self.fatal = _ending(error)
        except BusyError as error:
            self.fatal = error
        except ExhaustedError as error:
            self._take_failure(key, call, error)
        except InputError as error:
            self._take_failure(key, call, error)
        except ResourceError as error:
            self.fatal = error
        else:
            self._count_tokens(answer)
            self.come[key] = answer

    def _count_tokens(self, answer: Answer) -> None:
        """Counts what an answer cost."""
        self.calls.spending.count(
            prompt_tokens=answer.prompt_tokens, answer_tokens=answer.answer_tokens
        )

    def _keep(self) -> None:
        """Keeps what has come."""
        self.calls.kept.keep(self.come)
        self.come = {}

    def _take_failure(self, key: bytes, call: JudgeCall, error: DiscorankError) -> None:
        """Asks something else: if that is answered the question is at fault, after a second try where one may help."""
        self._keep()
        if not self.calls.spending.count_call():
            self.unsettled = error
            self.waiting.append((key, call))
            return
        path, body, prompt = self.calls.requests.body(PROBE, ())
        try:
            reply = self.client.post(path, body).result()
        except DiscorankError:
            self.fatal = _ending(error)
            return
        self._count_tokens(Answer.of_reply(reply, prompt))
        if isinstance(error, ExhaustedError) and key not in self.failed_once:
            self.failed_once.add(key)
            self.waiting.append((key, call))
            return
        shown = excerpt(call.question.prompt[-60:])
        problem = f"{error.problem}, while the server answers other requests (prompt ends {shown})"
        fix = "Shorten or mend the text, or leave it out"
        self.calls.faults[key] = InputError(problem, where=error.where, fix=fix)


def _ending(error: DiscorankError) -> ResourceError:
    """The error of a server that does nothing: it ends the run, as no other list would fare better."""
    fix = (
        error.fix
        or "Does the server know every key of the request? See logprobs, temperature, seed, request"
    )
    return ResourceError(error.problem, where=error.where, fix=fix)
