"""What a server does with the requests that are about to be made, found out by a few small ones before they are paid.

    n                several candidates for one request, or one whatever is asked
    sampling         texts that differ at the temperature asked for
    seed             the same text for the same seed
    log-probabilities    the form that brings those of generated texts (`LOGPROB_FORMS`)
    echo, ...        whether those of a prompt are right: a text that the server has just generated, with the values
                     that it gave its tokens, is sent back as a prompt, and has to get the same values

Some servers give each token of a prompt the values of the place after it: numbers come, and are worse than chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Rare, settings
from ...rerank.messages import text_in, value_at
from ..files.reply_choices import total_logprob
from ..scoring.list_prompts import ScoredText
from .exchange import (
    Exchange,
    ExhaustedError,
    NotThereError,
    RefusedError,
    UnusableError,
)
from .score_server import Pair, RequestForm

# beginnings that go on in many ways
PROMPTS = (
    "Once upon a time, in a small town by the sea, there lived",
    "My favourite things to do on a free afternoon are",
    "The old letter was found in the attic. It said:",
)
NUM_TEXTS = 4
NUM_TOKENS = 24  # of each text
MIN_TOKENS = 6  # of a text that an echo is checked by
MAX_NATS_APART = 0.25  # nats a token, which cuts of the distribution and other batches may make
NO_SAMPLES = (
    "Is there a key that has it sample (--request)? transformers serve samples with "
    '{"generation_config": "{\\"do_sample\\": true}"}'
)


class LogprobForm(NamedTuple):
    """Keys of a request that asks for the log-probabilities of what is generated, and what they are called."""

    name: str
    keys: Mapping[str, Any]


LOGPROB_FORMS: Mapping[bool, tuple[LogprobForm, ...]] = {  # whether it is a chat
    True: (
        LogprobForm("logprobs", {"logprobs": True}),
        LogprobForm("logprobs and top_logprobs", {"logprobs": True, "top_logprobs": 1}),
    ),
    False: (
        LogprobForm("logprobs", {"logprobs": 1}),
        LogprobForm("logprobs: true", {"logprobs": True}),
    ),
}


class Row(NamedTuple):
    """A line of the table: what was tried, whether it holds (None where that cannot be told), and what came."""

    what: str
    holds: bool | None
    finding: str


class ServerFacts(NamedTuple):
    """What a server does.

    Args:
        model: the model's name on the server.
        chat: whether it was asked in chats.
        takes_n: whether one request brings several candidates.
        samples: whether texts differ at the temperature asked for; None where too few came to tell.
        keeps_seed: whether a seed brings a text again; None where all texts are the same.
        logprob_form: what brings log-probabilities of what is generated; None if nothing does.
        rows: all of it as a table, with each form of `prompt_logprobs` that was tried.
    """

    model: str
    chat: bool
    takes_n: bool
    samples: bool | None
    keeps_seed: bool | None
    logprob_form: LogprobForm | None
    rows: tuple[Row, ...]

    def problems(self, temperature: float | None, reads_logprobs: bool) -> Iterator[InputError]:
        """The errors of a server of which candidates or their log-probabilities cannot be had.

        Args:
            temperature: of sampling; None where candidates may be the same.
            reads_logprobs: whether log-probabilities are needed.
        """
        where = f"server: {self.model}"
        if temperature is not None and self.samples is False:
            problem = (
                f"answers with the same text {NUM_TEXTS} times at temperature {temperature:g}, "
                "so that every candidate but the first would be paid for nothing"
            )
            yield InputError(problem, where=where, fix=NO_SAMPLES)
        if reads_logprobs and self.logprob_form is None:
            kind = "chats" if self.chat else "completions"
            tried = " or ".join(form.name for form in LOGPROB_FORMS[self.chat])
            problem = f"gives no log-probabilities of its {kind} (asked by {tried})"
            fix = "Do without them, or ask in the other way, if the server has it"
            yield InputError(problem, where=where, fix=fix)


@settings
class ProbeOptions:
    """What is asked before anything is paid.

    Args:
        probe: print what the server does (several candidates for one request, real sampling, seeds, log-probabilities),
            by a few small requests, and end.
        skip_probe: begin without asking.
    """

    heading: ClassVar = "server"

    probe: bool = False
    skip_probe: Annotated[bool, Rare()] = False


@dataclass(frozen=True)
class ServerProbe:
    """Asks a server.

    Args:
        exchange: requests to it.
        model: the model's name on it.
        chat: whether it is asked in chats.
        further: more keys of every request.
        sampling: keys of a request that draws a candidate, such as its temperature.
    """

    exchange: Exchange
    model: str
    chat: bool
    further: Mapping[str, Any]
    sampling: Mapping[str, Any]

    async def facts(self, echo_forms: Sequence[RequestForm[ScoredText]] = ()) -> ServerFacts:
        """What the server does.

        Args:
            echo_forms: the forms of log-probabilities of prompts to check.

        Raises:
            InputError: it refuses a plain request, the key or the model.
            ResourceError: it cannot be reached, or works at no request.
        """
        try:
            texts = await self._texts(n=NUM_TEXTS, seed=0)
        except RefusedError:
            texts = await self._texts(n=1, seed=0)  # which tells what else is wrong
        takes_n = len(texts) > 1
        for seed in range(len(texts), NUM_TEXTS):
            texts += (await self._texts(n=1, seed=seed))[:1]
        texts = texts[:NUM_TEXTS]
        keeps_seed = None
        if len(set(texts)) > 1:
            keeps_seed = await self._texts(n=1, seed=1) == await self._texts(n=1, seed=1)
        drawn = await self._with_logprobs(self.chat, PROMPTS[0], {"n": 1, **self.sampling})
        form = None if drawn is None else drawn[0]
        written = [text for text in texts if text.strip()]
        samples = None if len(written) < NUM_TEXTS else len(set(written)) > 1
        several = "several candidates for one request" if takes_n else "one, whatever is asked"
        again = {True: "the same text again", False: "another text", None: "all texts are the same"}
        brought = "in no form" if form is None else f"by {form.name}"
        rows = (
            Row("n", takes_n, several),
            Row("sampling", samples, f"{len(set(texts))} of {len(texts)} differ"),
            Row("seed", keeps_seed, again[keeps_seed]),
            Row("log-probabilities", form is not None, brought),
            *[await self.echo(echo_form) for echo_form in echo_forms],
        )
        return ServerFacts(self.model, self.chat, takes_n, samples, keeps_seed, form, rows)

    async def _texts(self, **keys: Any) -> list[str]:
        """The texts of a request."""
        choices = await self._choices(self.chat, PROMPTS[0], {**keys, **self.sampling})
        return [text for choice in choices if (text := text_in(choice)) is not None]

    async def _with_logprobs(
        self, chat: bool, prompt: str, keys: Mapping[str, Any]
    ) -> tuple[LogprobForm, Any, float] | None:
        """The first form that brings log-probabilities, the choice that it brings, and their total."""
        for form in LOGPROB_FORMS[chat]:
            try:
                for choice in await self._choices(chat, prompt, {**keys, **form.keys}):
                    total = total_logprob(choice)
                    if total is not None:
                        return form, choice, total
            except UnusableError:
                raise
            except InputError:
                continue
        return None

    async def echo(self, form: RequestForm[ScoredText]) -> Row:
        """Whether a form brings the right log-probabilities of prompts."""
        what = f"prompts by {form.name}"
        holds, finding = None, "nothing is generated with log-probabilities, to check them by"
        for seed, prompt in enumerate(PROMPTS):
            keys = {"temperature": 1.0, "top_p": 1.0, "seed": seed}
            try:
                drawn = await self._with_logprobs(False, prompt, keys)
            except NotThereError:
                continue
            if drawn is None:
                continue
            _, choice, total = drawn
            text, num_tokens = _text_and_length(choice)
            if num_tokens < MIN_TOKENS or "\ufffd" in text:
                continue
            pair = Pair(prompt, text)
            body = {**form.body(self.model, [pair]), **self.further}
            try:
                # asked once: a server that takes 0 tokens for no bound writes until it fails
                reply = await self.exchange.post(form.path, body, retries=0)
                (value,) = form.values(reply, [pair])
            except (InputError, ExhaustedError) as error:
                return Row(what, False, str(error))
            echoed, own = value.logprob / num_tokens, total / num_tokens
            if abs(echoed - own) <= MAX_NATS_APART:
                return Row(what, True, f"{echoed:.2f} nats a token, {own:.2f} when generated")
            holds = False
            finding = f"wrong: {echoed:.2f} nats a token of a text that it gave {own:.2f} when it generated it"
        return Row(what, holds, finding)

    async def _choices(self, chat: bool, prompt: str, keys: Mapping[str, Any]) -> list[Any]:
        """The choices of a small request."""
        said = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
        asked = {"model": self.model, **self.further, **said, "max_tokens": NUM_TOKENS, **keys}
        reply = await self.exchange.post("chat/completions" if chat else "completions", asked)
        choices = value_at(reply, "choices")
        return choices if isinstance(choices, list) else []


def _text_and_length(choice: Any) -> tuple[str, int]:
    """The text of a choice, with the white space before it that some servers take off, and how many tokens it has."""
    text = value_at(choice, "text")
    logprobs = value_at(choice, "logprobs")
    values = value_at(logprobs, "token_logprobs") or value_at(logprobs, "content") or []
    tokens = value_at(logprobs, "tokens")
    joined = "".join(map(str, tokens)) if isinstance(tokens, list) else ""
    if isinstance(text, str) and joined.strip() == text.strip() and joined.startswith(" "):
        text = joined
    return text if isinstance(text, str) else "", len(values)


def table_of(facts: ServerFacts) -> str:
    """What a server does, as the lines of a table."""
    words = {True: "yes", False: "no", None: "unknown"}
    listed = [(row.what, words[row.holds], row.finding) for row in facts.rows]
    width = max(len(what) for what, _, _ in listed)
    return "\n".join(f"{what:<{width}}  {holds:<7}  {finding}" for what, holds, finding in listed)
