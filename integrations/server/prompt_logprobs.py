"""Log-probabilities of a prompt that a server has read: the body of a request, and the values in its reply.

    echo            POST completions  {"prompt": prompt + text, "echo": true, "max_tokens": 0, "logprobs": 1}
    echo-one        the same with "max_tokens": 1, for servers that must generate something
                    {"choices": [{"text", "logprobs": {"tokens", "token_logprobs", "text_offset"}}]}
    prompt-logprobs POST completions  {"prompt": prompt + text, "prompt_logprobs": 0, "max_tokens": 1}
                    {"choices": [{"prompt_logprobs": [null, {ID: {"logprob", "decoded_token"}}, ...]}]}      vLLM

The tokens of a reply must make up prompt and text again, where they say what they are, or stand where their offsets
say; a token before them is the server's own, such as one that begins every text. The text begins with the token that
holds its first character. Anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import inf
from typing import Any, ClassVar, Literal, NamedTuple, TypeGuard
from warnings import warn

from ...metrics.errors import DiscorankError, InputError, excerpt
from ...metrics.spec.checked_settings import settings
from ...rerank.lists import MAX_LOGPROB, finite
from ..files.reply_choices import sendable
from ..scoring.list_prompts import Answered, Asked, PromptedText, ScoredText
from .exchange import Client, Exchange, UnusableError
from .score_server import Pair, PairScores, RequestForm
from .server_probe import Row, ServerProbe
from .settings import Connection, further_keys

FLOOR = -9999.0  # what servers write for minus infinity
LONGEST_TOKEN = 64  # characters of a first token that a server leaves out
_OURS = frozenset(
    {"model", "prompt", "echo", "max_tokens", "logprobs", "prompt_logprobs", "stream", "n"}
)


@settings
class ServerScoringOptions:
    """The settings of servers alone.

    Args:
        form: how a server is asked: echo, echo-one or prompt-logprobs; auto tries them in this order.
        request: more keys of the request, as a JSON object.

    Raises:
        InputError: a request that is no JSON object, or sets what has its own place.
    """

    heading: ClassVar = "server"

    form: Literal["auto", "echo", "echo-one", "prompt-logprobs"] = "auto"
    request: str | None = None

    def __post_init__(self) -> None:
        if taken := _OURS & further_keys(self.request).keys():
            problem = "is a key that discorank sets itself"
            raise InputError(problem, where=f"request.{min(taken)}")


class PromptForm(RequestForm[ScoredText]):
    """How a server is asked for the log-probabilities of a prompt: one in each request."""

    def body(self, model: str, pairs: Sequence[Pair]) -> dict[str, Any]:
        """The request for one prompt (the query) and the text behind it (the document)."""
        (pair,) = pairs
        body = {"model": model, "prompt": pair.query + pair.document, "temperature": 0.0}
        if self.name == "prompt-logprobs":
            return {**body, "max_tokens": 1, "prompt_logprobs": 0}
        return {**body, "max_tokens": int(self.name == "echo-one"), "echo": True, "logprobs": 1}

    def values(self, reply: Any, pairs: Sequence[Pair]) -> list[ScoredText]:
        """The value of the text of a request.

        Raises:
            InputError: the reply does not cover prompt and text; says where.
        """
        (pair,) = pairs
        if not pair.document:
            return [ScoredText(0.0, 0)]
        place = "server: reply.choices[0]"
        choices = reply.get("choices") if isinstance(reply, Mapping) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
            raise InputError(f"no choices, found {excerpt(reply)}", where="server: reply")
        if self.name == "prompt-logprobs":
            tokens = _of_positions(choices[0].get("prompt_logprobs"), f"{place}.prompt_logprobs")
        else:
            tokens = _of_columns(choices[0].get("logprobs"), f"{place}.logprobs")
        return [_value(tokens, pair, place)]


FORMS = {
    name: PromptForm(name, "completions", one_query=False, probe=Pair("Hello", " world"))
    for name in ("echo", "echo-one", "prompt-logprobs")
}


class _Tokens(NamedTuple):
    """The tokens of a reply: what each is, its log-probability (None where there is none), where each begins."""

    texts: list[str]
    logprobs: list[Any]
    offsets: list[int] | None = None


def _of_columns(logprobs: Any, where: str) -> _Tokens:
    """The tokens in a reply of an echo."""
    columns = logprobs if isinstance(logprobs, Mapping) else {}
    texts, values = columns.get("tokens"), columns.get("token_logprobs")
    if not _is_list_of(texts, str) or not isinstance(values, list) or len(texts) != len(values):
        problem = f"no log-probabilities of the prompt, found {excerpt(logprobs)}"
        raise InputError(problem, where=where)
    offsets = columns.get("text_offset")
    if not _is_list_of(offsets, int) or len(offsets) != len(texts):
        offsets = None
    return _Tokens(texts, values, offsets)


def _of_positions(positions: Any, where: str) -> _Tokens:
    """The tokens in a reply of vLLM: of each position the one that stands there, as no other was asked for."""
    if not isinstance(positions, list) or not positions:
        problem = f"no log-probabilities of the prompt, found {excerpt(positions)}"
        raise InputError(problem, where=where)
    texts: list[str] = []
    values: list[Any] = []
    for number, position in enumerate(positions):
        if position is None and not number:
            # nobody says what the first token is: what the others leave of the prompt
            texts.append("")
            values.append(None)
            continue
        entries = list(position.values()) if isinstance(position, Mapping) else []
        if len(entries) != 1 or not isinstance(entries[0], Mapping):
            problem = f"found {excerpt(position)}, expected one token"
            raise InputError(problem, where=f"{where}[{number}]")
        texts.append(str(entries[0].get("decoded_token")))
        values.append(entries[0].get("logprob"))
    return _Tokens(texts, values)


def _value(tokens: _Tokens, pair: Pair, where: str) -> ScoredText:
    """The value of the text of a pair.

    Raises:
        InputError: the tokens are not those of prompt and text, or have no log-probabilities.
    """
    starts = _starts(tokens, pair.query + pair.document)
    if starts is None:
        shown = excerpt("".join(tokens.texts))
        raise InputError(
            f"the tokens {shown} are not those of prompt and text, so that nothing can be found in them",
            where=where,
        )
    length, boundary = len(pair.query) + len(pair.document), len(pair.query)
    ends = _ends(starts, length)
    scored = [
        value
        for start, end, value in zip(starts, ends, tokens.logprobs, strict=False)
        if end > boundary and start < length
    ]
    return ScoredText(sum(_number(value, where) for value in scored), len(scored))


def _ends(starts: Sequence[int], length: int) -> list[int]:
    """Where the characters end of which every token is a part, [tokens].

    A token that shows no character is the beginning of one that a later token completes, but for the first, which may
    be the server's own.
    """
    ends = [*starts[1:], length]
    for i in range(len(ends) - 2, 0, -1):
        if ends[i] == starts[i]:
            ends[i] = ends[i + 1]
    return ends


def _number(value: Any, where: str) -> float:
    """A log-probability.

    Raises:
        InputError: it is none, as that of a first token, which nothing stands before.
    """
    number = -inf if value in (-inf, FLOOR) else finite(value)
    if number is None or number > MAX_LOGPROB:
        problem = f"found {excerpt(value)}, expected a log-probability for every token of the text"
        raise InputError(problem, where=where, fix="Give a prompt before it")
    return min(number, 0.0)


def _starts(tokens: _Tokens, whole: str) -> list[int] | None:
    """Where every token begins in `whole`, [tokens]; None if they are not its tokens.

    What stands before `whole` begins below 0, and what was generated behind it at its end.
    """
    lengths = list(map(len, tokens.texts))
    before = _before(tokens.texts, whole)
    if before is not None:
        return list(accumulate(lengths[:-1], initial=-before))
    if tokens.offsets is None or not _fit(tokens, whole):
        return None
    return list(tokens.offsets)


def _before(texts: Sequence[str], whole: str) -> int | None:
    """How many characters of the tokens stand before `whole`; None if they do not make it up.

    The first token may be the server's own, and the last one generated. A first token that does not say what it is
    (empty) is the start of `whole` that the others leave.
    """
    joined = "".join(texts)
    first, last = texts[0], texts[-1]
    for before in (0, len(first)):
        if whole in (joined[before:], joined[before : len(joined) - len(last)]):
            return before
    missing = len(whole) - len(joined)
    if not first and 0 < missing <= LONGEST_TOKEN and whole.endswith(joined):
        return -missing
    return None


def _fit(tokens: _Tokens, whole: str) -> bool:
    """Whether tokens stand in `whole` where their offsets say, but for parts of characters, and leave nothing out."""
    offsets = tokens.offsets or []
    if offsets[:1] != [0] or any(a > b for a, b in pairwise(offsets)):
        return False
    inside = [at for at in offsets if at < len(whole)]
    ends = [*offsets[1 : len(inside)], len(whole)]
    for text, start, end in zip(tokens.texts, inside, ends, strict=False):
        is_part = "\ufffd" in text or text.startswith("bytes:")
        if not is_part and whole[start:end] != text:
            return False
    return len(inside) >= len(offsets) - 1


def _is_list_of(value: Any, kind: type) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and all(type(item) is kind for item in value)


TEXTS_AHEAD = 16  # texts asked for together, for each connection


class ServerScorer:
    """Scores with a server.

    Args:
        model: the model's name on the server.
        connection: how it is reached.
        options: how it is asked.
        probes: whether its values are checked by a text that it generates.

    Raises:
        ResourceError: the server cannot be reached, or works at no request.
        InputError: it refuses the key, does not know the model, or gives none or wrong log-probabilities of a prompt.

    Where the server generates nothing with log-probabilities, so that they cannot be checked, it warns.
    """

    def __init__(
        self,
        model: str,
        connection: Connection,
        options: ServerScoringOptions = ServerScoringOptions(),  # noqa: B008  immutable
        probes: bool = True,
    ) -> None:
        self.model, self.options = model, options
        self.at_once = TEXTS_AHEAD * connection.connections
        forms = list(FORMS.values()) if options.form == "auto" else [FORMS[options.form]]
        self.values = _right_values(model, connection, options, forms, probes)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model's name and the settings that values depend on."""
        further = dict(further_keys(self.options.request))
        return {"scorer": "server", "model": self.model, "request": further, "end": False}

    def scored(self, lists: Iterable[Asked], before_work: Callable[[], None]) -> Iterator[Answered]:
        """The outcome of every list, in order; the error of a text that the server refuses is in its place.

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


def _right_values(
    model: str,
    connection: Connection,
    options: ServerScoringOptions,
    forms: Sequence[PromptForm],
    probes: bool,
) -> PairScores[ScoredText]:
    """The values by the first form that works and brings the right ones; errors as `ServerScorer`."""
    further = further_keys(options.request)
    left, finding = list(forms), ""
    while left:
        try:
            values: PairScores[ScoredText] = PairScores(connection, model, left, further, 1)
        except InputError as error:
            if not finding or isinstance(error, UnusableError):
                raise
            break
        if not probes:
            return values
        (form,) = (form for form in left if form is values.form)
        with Client(connection) as client:
            row = client.result_of(partial(_checked, model, further, form))
        finding = f"{row.what}: {row.finding}"
        if row.holds is None:
            warn(finding, UserWarning, stacklevel=3)
        if row.holds is not False:
            return values
        left.remove(form)
    fix = "Score with --backend huggingface, or on another server; --skip-probe takes what comes"
    raise InputError(finding, where=f"server {connection.base_url}", fix=fix)


async def _checked(
    model: str, further: Mapping[str, Any], form: PromptForm, exchange: Exchange
) -> Row:
    """Whether a form brings the values of a text that the server has generated."""
    return await ServerProbe(exchange, model, False, further, {}).echo(form)


def _texts(asked: Asked) -> list[PromptedText]:
    return [] if isinstance(asked, DiscorankError) else list(asked)


def _pair(text: PromptedText) -> Pair:
    """A text as the server is asked for it: halves of characters are question marks."""
    return Pair(sendable(text.prompt), sendable(text.lead + text.text + text.end_text))
