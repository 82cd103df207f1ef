"""The `TextScorer` of a server that gives the log-probabilities of a prompt.

Prompt and text are one prompt of /completions; the end of a text is not scored, as no server says which token it is,
and a control token written out in a text is what the server takes it for.
Some lists are asked for at a time, so that all connections are busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...metrics.errors import DiscorankError
from ..scoring.text_scorer import Answered, Asked, PromptedText, ScoredText
from .pair_forms import Pair
from .pair_scores import PairScores
from .prompt_logprobs import FORMS, ServerScoringOptions
from .settings import Connection, further_keys

TEXTS_AHEAD = 16  # texts asked for together, for each connection


class ServerScorer:
    """Scores with a server.

    Args:
        model: the model's name on the server.
        connection: how it is reached.
        options: how it is asked.

    Raises:
        ResourceError: the server cannot be reached, or works at no request.
        InputError: it refuses the key, does not know the model, or gives no log-probabilities of a prompt.
    """

    def __init__(
        self,
        model: str,
        connection: Connection,
        options: ServerScoringOptions = ServerScoringOptions(),  # noqa: B008  immutable
    ) -> None:
        self.model, self.options = model, options
        self.at_once = TEXTS_AHEAD * connection.connections
        forms = list(FORMS.values()) if options.form == "auto" else [FORMS[options.form]]
        further = further_keys(options.request)
        self.values: PairScores[ScoredText] = PairScores(connection, model, forms, further, 1)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model's name and the settings that values depend on."""
        further = dict(further_keys(self.options.request))
        return {"scorer": "server", "model": self.model, "request": further, "end": False}

    def scored(self, lists: Iterable[Asked], before_work: Callable[[], None]) -> Iterator[Answered]:
        """What came of every list, in order; the error of a text that the server refuses stands in its place.

        Raises:
            ResourceError: the server is gone, or works no more.
        """
        for block in self._blocks(lists):
            before_work()
            pairs = [_pair(text) for asked in block for text in _texts(asked)]
            outcomes = self.values.outcomes(pairs)
            for asked in block:
                if isinstance(asked, DiscorankError):
                    yield asked
                else:
                    yield [outcomes[_pair(text)] for text in asked]

    def _blocks(self, lists: Iterable[Asked]) -> Iterator[list[Asked]]:
        """Lists that are asked for together; a block ends early behind an error."""
        block: list[Asked] = []
        num_texts = 0
        for asked in lists:
            block.append(asked)
            num_texts += len(_texts(asked))
            if isinstance(asked, DiscorankError) or num_texts >= self.at_once:
                yield block
                block, num_texts = [], 0
        if block:
            yield block


def _texts(asked: Asked) -> list[PromptedText]:
    return [] if isinstance(asked, DiscorankError) else list(asked)


def _pair(text: PromptedText) -> Pair:
    """A text as the server is asked for it: halves of characters are question marks."""
    parts = (text.prompt, text.text + text.end_text)
    prompt, own = (part.encode("utf-8", "replace").decode() for part in parts)
    return Pair(prompt, own)
