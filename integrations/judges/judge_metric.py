"""What both judges share: settings, what they say of a metric, and how a server is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, Literal, Self
from warnings import warn

from ...metrics.base import Metric
from ...metrics.errors import InputError
from ...metrics.scorer import Reading
from ...metrics.spec.checked_settings import Field, settings
from ..server.metric_server import DEFAULTS, check_connection, connection_of
from ..server.settings import further_keys
from .calls import JudgeCalls
from .judge_questions import Requests
from .judge_scorer import JudgeScorer
from .kept_answers import KeptAnswers
from .prompt_files import CONTEXTS, JudgePrompt, read_prompt
from .spending import CallBounds, Spending

# where a judge that a file names finds its server
ADDRESS_VARIABLE = "DISCORANK_JUDGE_SERVER"
KEY_VARIABLE = "DISCORANK_JUDGE_KEY"

_OURS = frozenset(
    (
        *("model", "prompt", "messages", "n", "stream", "temperature", "seed", "max_tokens"),
        *("logprobs", "top_logprobs"),
    )
)
Count = Annotated[int, Field(ge=1)]


@settings
class JudgeMetric(Metric):
    """What both judges share.

    Args:
        model: the model's name on the server.
        prompt: da, sqm, stars, mqm, pairwise (judge alone), or a prompt file.
        context: how many preceding sentences of either side the prompt shows.
        unit: segment, or document: whole documents are judged at once, instead of sentence by sentence.
        source_lang: the language of the source, as the prompt calls it, such as German; not said if not given.
        target_lang: the language of the texts that are judged.
        judgements: how many answers are averaged; more than one needs a temperature above 0.
        temperature: divides logits; none is sent if it is None.
        seed: sent with the first judgement, the others have the numbers behind it; none is sent if it is None.
        answer_tokens: the longest answer; none is sent if it is None.
        logprobs: whether a value is the expectation over likely answers, where the server gives log-probabilities.
        top_logprobs: how many likely tokens are asked for with `logprobs`.
        repeats: how often a question is asked again whose answer has no value.
        chat: whether prompts go to /chat/completions, instead of to /completions.
        request: more keys of a request, as a JSON object.
        base_url: the address up to the version, such as http://localhost:8000/v1; that in the environment variable
            DISCORANK_JUDGE_SERVER if not given. No part of the signature.
        key_variable: the environment variable that holds the key; no key is sent if it is not named, but that in
            DISCORANK_JUDGE_KEY, if any, to the address in the environment. No part of the signature.
        answers: a folder that keeps answers, so that none is paid for twice. No part of the signature.
        max_calls: how many calls a run may make; it ends at the next. No part of the signature.
        max_tokens: how many tokens of prompts and answers a run may spend. No part of the signature.
        connections: how many calls are made at the same time. No part of the signature.
        timeout_seconds: how long one call may take in all. No part of the signature.
        retries: how often a call is repeated that failed for a reason that may pass. No part of the signature.
        backoff_seconds: how long the first repetition waits; each further one waits twice as long, up to a minute. No
            part of the signature.
    """

    model: str = ""
    prompt: str = "da"
    context: Annotated[int, Field(ge=0)] = 0
    unit: Literal["segment", "document"] = "segment"
    source_lang: str | None = None
    target_lang: str | None = None
    judgements: Annotated[int, Field(ge=1, le=1000)] = 1
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = 0.0
    seed: int | None = 0
    answer_tokens: Count | None = 512
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=1, le=100)] = 20
    repeats: Annotated[int, Field(ge=0, le=10)] = 2
    chat: bool = True
    request: str | None = None
    base_url: str | None = field(default=None, compare=False)
    key_variable: str | None = field(default=None, compare=False)
    answers: str | None = field(default=None, compare=False)
    max_calls: Count | None = field(default=None, compare=False)
    max_tokens: Count | None = field(default=None, compare=False)
    connections: int = field(default=DEFAULTS.connections, compare=False)
    timeout_seconds: float = field(default=DEFAULTS.timeout_seconds, compare=False)
    retries: int = field(default=DEFAULTS.retries, compare=False)
    backoff_seconds: float = field(default=DEFAULTS.backoff_seconds, compare=False)
    users_own: ClassVar[tuple[str, ...]] = ("base_url", "key_variable", "answers")

    def __post_init__(self) -> None:
        if not self.model:
            fix = "Name the model that the server runs: it stands for it in the signature"
            raise InputError("model missing", where=self.name, fix=fix)
        if self.judgements > 1 and self.temperature == 0:
            fix = "Set a temperature above 0, or ask once"
            raise InputError("the same answer every time", where=f"{self.name}.judgements", fix=fix)
        if taken := _OURS & further_keys(self.request).keys():
            problem = "is a key that has a setting of its own"
            raise InputError(problem, where=f"{self.name}.request.{min(taken)}")
        check_connection(self)
        try:
            prompt = read_prompt(self.prompt)
        except InputError as error:
            raise error.inside(self.name) from None
        self._check_prompt(prompt)
        self._keep(prompt)

    def _check_prompt(self, prompt: JudgePrompt) -> None:
        """Raises InputError for a prompt that is not for this metric."""
        if self.context and prompt.fields.isdisjoint(CONTEXTS):
            fix = "Set context=0, or write {source_context} or {target_context} into the prompt"
            raise InputError("the prompt reads none", where=f"{self.name}.context", fix=fix)

    def _keep(self, prompt: JudgePrompt) -> None:
        """Keeps the prompt, and what it says of the metric, with the settings."""
        put = object.__setattr__
        put(self, "prompt", prompt.name)
        put(self, "wording", prompt)
        reads_source = "source" in prompt.fields
        info = replace(
            type(self).info,
            unit=self.unit,
            bounds=prompt.worth.bounds,
            needs_source=reads_source and type(self).info.needs_source,
            takes_source=reads_source,
        )
        put(self, "info", info)

    @property
    def reads(self) -> Reading:
        """Context sentences; those of a hypothesis are its own."""
        return Reading(self.context, "hypothesis")

    def for_language(self, lang: str) -> Self:
        """The judge of texts in a language."""
        return self.with_defaults(target_lang=lang)

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of the judge with these settings."""
        of_prompts = {"mqm": ("kocmi2023gemba",), "pairwise": ("zheng2023judging",)}
        of_prompt = of_prompts.get(str(settings.get("prompt")), ())
        of_logprobs = ("liu2023geval",) if settings.get("logprobs") else ()
        return (*super().cited(settings), *of_prompt, *of_logprobs)

    def unloaded(self) -> JudgeScorer:
        """What fills prompts, and asks nobody."""
        return self._scorer(None)

    def load(self) -> JudgeScorer:
        """What asks the server, which is not asked yet.

        Raises:
            InputError: no address is given, or no key where one is named.

        Warns:
            RuntimeWarning: no folder keeps the answers.
        """
        connection = connection_of(self, ADDRESS_VARIABLE, KEY_VARIABLE)
        connection.key()
        if self.answers is None:
            message = (
                "answers are not kept, and a run that is stopped pays for them again: name a folder"
            )
            warn(f"{self.name}: {message} (answers=..., --cache)", RuntimeWarning, stacklevel=2)
        spending = Spending(CallBounds(self.max_calls, self.max_tokens))
        kept = KeptAnswers(self.answers)
        worth = self._wording.worth
        calls = JudgeCalls(connection, self.requests, worth, self.repeats, kept, spending)
        return self._scorer(calls)

    def _scorer(self, calls: JudgeCalls | None) -> JudgeScorer:
        languages = {"source_lang": self.source_lang, "target_lang": self.target_lang}
        kept = calls.kept if calls else KeptAnswers(self.answers)
        return JudgeScorer(
            self.info, self._wording, languages, self.judgements, self.requests, kept, calls
        )

    @property
    def _wording(self) -> JudgePrompt:
        """The prompt, as it was read."""
        prompt: JudgePrompt = self.__dict__["wording"]
        return prompt

    @property
    def requests(self) -> Requests:
        """How the server is asked."""
        return Requests(
            self.model,
            self.chat,
            self.temperature,
            self.seed,
            self.answer_tokens,
            self.top_logprobs if self.logprobs else 0,
            further_keys(self.request),
        )
