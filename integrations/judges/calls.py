"""The calls of a judge: every distinct question is asked once, some at a time, and answers are kept as they come.

An answer without a value is asked for again, with that answer and a reminder of the form before it, at most `repeats`
times; then the question has none (NaN). A request that the server refuses or fails at, while it answers another, is
the fault of its question, and an error; the other is a call, too. All else that fails ends the run, and so do the
bounds on calls and tokens: calls under way are waited for first, as they are paid.

Answers that were paid for, by what was asked: in memory, and in a folder, where later runs find them.

The folder is a cache (`metrics.execution.cache`), which may be that of ``--cache``: entries have checksums, several
processes may share it, and what is damaged counts as absent and is asked again. An answer is written before anything
is made of it, and synced to the disk.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from threading import Lock, local
from typing import Any, NamedTuple
from warnings import warn

from ...metrics.errors import DiscorankError, InputError, ResourceError, excerpt
from ...metrics.execution.cache import FILE, MAX_BYTES, Cache
from ...metrics.execution.close_at_end import close_at_end
from ..server.exchange import Client
from ..server.request_loop import RequestLoop, ServerRequest, TextJob, forget_oldest
from ..server.settings import Connection
from .judge_answers import Answer, value_of
from .judge_prompts import JudgeQuestion, Requests, Worth


class CallBounds(NamedTuple):
    """The most that a run may spend; None: no bound."""

    calls: int | None = None
    tokens: int | None = None


class Spending:
    """Counts calls, tokens and answers.

    Args:
        bounds: the most that is spent.
    """

    def __init__(self, bounds: CallBounds) -> None:
        self.bounds = bounds
        self.total: Counter[str] = Counter()  # since the beginning
        self.reported: Counter[str] = Counter()  # of it, what `take` has reported
        self._lock = Lock()

    def count(self, **amounts: int) -> None:
        """Adds to what is spent."""
        with self._lock:
            self.total.update(amounts)

    def count_call(self, **amounts: int) -> bool:
        """Counts one more call, and amounts with it, unless no more may be made; whether it may be made."""
        with self._lock:
            may_call = not self.is_over
            if may_call:
                self.total.update({"calls": 1, **amounts})
            return may_call

    def take(self) -> dict[str, int]:
        """The counts since they were last read."""
        with self._lock:
            new = self.total - self.reported
            self.reported = Counter(self.total)
        return dict(new)

    @property
    def calls(self) -> int:
        """Calls made."""
        return self.total["calls"]

    @property
    def tokens(self) -> int:
        """Tokens spent on prompts and answers."""
        return self.total["prompt_tokens"] + self.total["answer_tokens"]

    @property
    def is_over(self) -> bool:
        """Whether no more calls may be made."""
        calls, tokens = self.bounds
        no_calls = calls is not None and self.calls >= calls
        return no_calls or (tokens is not None and self.tokens >= tokens)

    def at_bounds(
        self, model: str, missing: int, folder: str | None, failure: DiscorankError | None = None
    ) -> ResourceError:
        """The error of a run that may spend no more, of which so many answers are missing.

        Args:
            model: which judge it is.
            missing: how many answers.
            folder: where answers are kept.
            failure: of a call behind which no other could be made that shows whose fault it is.
        """
        names = zip(("max_calls", "max_tokens"), self.bounds, strict=True)
        bounds = " and ".join(f"{name}={bound}" for name, bound in names if bound is not None)
        spent = f"{self.calls} calls and {self.tokens} tokens spent"
        fix = "Run the same command again to resume with as much"
        if folder:
            fix = f"{fix}; answers are kept in {folder}"
        problem = f"{bounds} reached: {spent}, at least {missing} answers missing"
        if failure is not None:
            problem = f"{problem}, and the last call failed: {failure.problem}"
            fix = f"{fix}; one more call shows whether the server or the text is at fault"
        return ResourceError(problem, where=f"judge {model}", fix=fix)


IN_MEMORY = 1 << 17  # answers remembered
AT_ONCE = 500  # answers read at once


class KeptAnswers:
    """Answers by key.

    Args:
        folder: where they are kept, made if it is not there; None: in memory alone.
        max_bytes: how many bytes are kept there; what was not used for longest goes first.
    """

    def __init__(self, folder: str | None, max_bytes: int = MAX_BYTES) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self._known: dict[bytes, Answer] = {}
        self._lock, self._num_users = Lock(), 0
        self._of_thread = local()  # sqlite's connections belong to threads

    def __getitem__(self, key: bytes) -> Answer:
        return self._known[key]

    def find(self, keys: Iterable[bytes]) -> set[bytes]:
        """Reads what the folder has of these keys; those that it has and were not in memory."""
        missing = [key for key in dict.fromkeys(keys) if key not in self._known]
        if self.folder is None:
            return set()
        in_folder: set[bytes] = set()
        for start in range(0, len(missing), AT_ONCE):
            answers = self._read(missing[start : start + AT_ONCE])
            self._known.update(answers)
            in_folder.update(answers)
        return in_folder

    def count(self, keys: Sequence[bytes]) -> int:
        """How many of these there are in the folder, which is not made; nothing is remembered."""
        if self.folder is None or not (Path(self.folder) / FILE).exists():
            return 0
        pieces = (keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE))
        return sum(len(self._read(piece)) for piece in pieces)

    def missing(self, keys: Iterable[bytes]) -> list[bytes]:
        """Those of the keys, each once, of which no answer is known."""
        return [key for key in dict.fromkeys(keys) if key not in self._known]

    def keep(self, answers: Mapping[bytes, Answer]) -> None:
        """Keeps some answers."""
        self._known.update(answers)
        if self.folder is not None and answers:
            self._opened().put({key: answer.packed() for key, answer in answers.items()})

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Nothing in memory is forgotten inside a ``with``, in whatever thread; what is too much goes afterwards."""
        with self._lock:
            self._num_users += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_users -= 1
                if not self._num_users:
                    forget_oldest(self._known, IN_MEMORY)

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """The answers in the folder."""
        answers = {}
        for key, reps in self._opened().get(keys).items():
            answer = Answer.unpacked(reps)
            if answer is not None:
                answers[key] = answer
        return answers

    def _opened(self) -> Cache:
        """The folder's cache, opened by the first use in a thread."""
        cache: Cache | None = getattr(self._of_thread, "cache", None)
        if cache is None:
            cache = self._of_thread.cache = Cache(str(self.folder), self.max_bytes, is_synced=True)
            close_at_end(self)
        return cache

    def close(self) -> None:
        """Lets go of the folder in this thread; says how many entries were damaged, if any."""
        cache: Cache | None = getattr(self._of_thread, "cache", None)
        if cache is not None:
            cache.close()
            del self._of_thread.cache


PROBE = JudgeQuestion("Answer with one word.", 0)  # what shows whether a server works


class JudgeCall(NamedTuple):
    """A question, and the answers without a value that it had so far."""

    question: JudgeQuestion
    earlier: tuple[str, ...] = ()

    def again(self, answer: Answer) -> JudgeCall:
        """The call after an answer without a value."""
        return JudgeCall(self.question, (*self.earlier, answer.text))


@dataclass(eq=False)
class JudgeCalls:
    """The answer of a server.

    Args:
        connection: how it is reached.
        requests: how it is asked.
        worth: what answers are worth.
        repeats: how often a question without a value is asked again.
        kept: answers that were paid for.
        spending: counts what is spent, and bounds it.
    """

    connection: Connection
    requests: Requests
    worth: Worth
    repeats: int
    kept: KeptAnswers
    spending: Spending
    faults: dict[bytes, InputError] = field(default_factory=dict)
    has_warned: bool = False

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
        """Have every call answered, or known to be at fault; the keys of the answers that are new to this process."""
        in_folder = self.kept.find(keys)
        self.spending.count(kept_answers=len(in_folder))
        missing = set(self.kept.missing(keys)) - self.faults.keys()
        waiting: dict[bytes, _CallJob] = {}
        for call, key in zip(calls, keys, strict=True):
            if key in missing and key not in waiting:
                waiting[key] = _CallJob(self, key, call)
        if waiting:
            with Client(self.connection) as client:
                self._ask(client, deque(waiting.values()))
        return in_folder | missing

    def _ask(self, client: Client, waiting: deque[_CallJob]) -> None:
        """Make calls, as many at a time as there are connections; errors as `values`."""
        loop: RequestLoop[_CallJob] = RequestLoop(client, self._probe, self._take_probe)
        fatal: DiscorankError | None = None
        # a failure whose cause is unknown, as no more could be spent
        unsettled: DiscorankError | None = None
        for ended in loop.run(waiting, self.connection.connections):
            self.kept.keep({job.key: job.answer for job in ended if job.answer is not None})
            self.faults.update({job.key: job.error for job in ended if job.error is not None})
            for job in ended:
                fatal, unsettled = fatal or job.fatal, unsettled or job.suspicion
                if job.answer is None and job.error is None:
                    waiting.append(job)
            if fatal is not None:
                waiting.clear()
        if fatal is not None:
            raise fatal
        if waiting:
            model, folder = self.requests.model, self.kept.folder
            raise self.spending.at_bounds(model, len(waiting), folder, unsettled)

    def _probe(self) -> ServerRequest | None:
        """A question that a server which works answers, and a call like others."""
        if not self.spending.count_call():
            return None
        path, body, _ = self.requests.body(PROBE)
        return ServerRequest(path, body)

    def _take_probe(self, reply: Any) -> None:
        self.count_tokens(Answer.of_reply(reply, PROBE.prompt))

    def count_tokens(self, answer: Answer) -> None:
        """Count what an answer cost."""
        self.spending.count(prompt_tokens=answer.prompt_tokens, answer_tokens=answer.answer_tokens)


class _CallJob(TextJob):
    """A call that is to be answered."""

    # all texts are refused where the server does not know a key of the request
    trusts_refusals = False

    def __init__(self, calls: JudgeCalls, key: bytes, call: JudgeCall) -> None:
        super().__init__()
        self.calls, self.key, self.call = calls, key, call
        self.answer: Answer | None = None

    def requests(self) -> Iterable[ServerRequest]:
        """As `TextJob`; none where no more may be spent."""
        is_repeated = bool(self.call.earlier)
        if self.is_sent:
            return ()
        if not self.calls.spending.count_call(repeated_calls=int(is_repeated)):
            return ()
        return super().requests()

    def request(self) -> ServerRequest:
        """As `TextJob`."""
        path, body, prompt = self.calls.requests.body(self.call.question, self.call.earlier)
        return ServerRequest(path, body, prompt)

    def take(self, request: ServerRequest, reply: Any) -> None:
        """As `Job`."""
        self.answer = Answer.of_reply(reply, request.label)
        self.calls.count_tokens(self.answer)

    def named(self) -> str:
        """As `TextJob`."""
        return f"prompt ends {excerpt(self.call.question.prompt[-60:])}"
