"""The interface of all that scores texts: texts behind prompts in, log-probabilities out, list by list, in order.

    log P(text | prompt) = sum_t log p(text_t | prompt, text_<t)

`HuggingFaceScorer` and `ServerScorer` have it; so may anything else with these two members. It knows neither files nor
candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ...metrics.errors import DiscorankError


class PromptedText(NamedTuple):
    """A text to be scored.

    Args:
        prompt: what the model reads before it.
        text: what is scored; a token that controls a model, such as </s>, is words where it is written out in it.
        ends: whether it is whole, so that its end may be scored too.
        end_text: what is put behind the text and scored with it; in it, as in the prompt, such a token is what it is
            (what fills the fields of a prompt has none: see `TextScorer`).
    """

    prompt: str
    text: str
    ends: bool = True
    end_text: str = ""


class ScoredText(NamedTuple):
    """How likely a text is.

    Args:
        logprob: its total natural log-probability, at most 0.
        tokens: how many tokens were scored.
    """

    logprob: float
    tokens: int


# the distinct texts of one list, or the error that stands for it
Asked = Sequence[PromptedText] | DiscorankError
# what came of each text, or the error that stands for the list
Answered = Sequence[ScoredText | DiscorankError] | DiscorankError


class TextScorer(Protocol):
    """What gives texts their log-probabilities.

    One that knows which tokens control its model has a method `plain_text`, as a `Generator` may.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """The settings that values depend on, as JSON values; no key, device or address of a machine."""

    def scored(self, lists: Iterable[Asked], before_work: Callable[[], None]) -> Iterator[Answered]:
        """What came of every list, in order; errors among the lists are handed on.

        Args:
            lists: read ahead as far as the model wants for its batches; not past an error.
            before_work: called before anything that takes time, so that what came out can be saved.

        Raises:
            DiscorankError: nothing can be scored at all: a server that is gone.
        """
