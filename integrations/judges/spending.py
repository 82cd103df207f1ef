"""What a judge has spent, what of it is reported, and the bounds on it; several threads may count."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import NamedTuple

from ...metrics.errors import DiscorankError, ResourceError


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
        """What was counted since this was last asked."""
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
        fix = "Run the same command again to go on with as much"
        if folder:
            fix = f"{fix}; answers are kept in {folder}"
        problem = f"{bounds} reached: {spent}, at least {missing} answers missing"
        if failure is not None:
            problem = f"{problem}, and the last call failed: {failure.problem}"
            fix = f"{fix}; one more call shows whether the server or the text is at fault"
        return ResourceError(problem, where=f"judge {model}", fix=fix)
