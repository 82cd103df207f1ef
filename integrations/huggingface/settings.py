"""The settings of a Hugging Face generator."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import Field, settings
from ..generation.stop_strings import check_stops
from .sampling import DRAWING_VERSIONS, cutoff_of
from .token_draws import Method


class ModelPool(NamedTuple):
    """A pool of texts to generate for every input."""

    name: str
    size: int
    method: Method
    cutoff: float | None
    temperature: float


@settings
class GenerationSettings:
    """How candidates are generated.

    Args:
        num_candidates: candidates per input.
        sampling: "epsilon", "nucleus" or "typical" sampling, which cut off improbable tokens; "ancestral" sampling from
            the model as it is; or "beam", the candidates of a beam search. "epsilon" if not given; a server's is
            "ancestral".
        cutoff: the method's threshold; 0.02 for epsilon, 0.9 for nucleus and typical if not given.
        temperature: divides logits before the cut.
        num_references: pseudo-references per input, generated apart; 0: the candidates serve as such.
        reference_sampling: how pseudo-references are drawn; as candidates if not given.
        reference_cutoff: threshold of reference_sampling.
        reference_temperature: divides logits for pseudo-references; as for candidates if not given.
        seed: the same seed, input and model give the same candidates.
        max_new_tokens: longest candidate; the model's own limit, or 256, if not given.
        max_input_tokens: longer inputs are cut at the end, and counted; an error if not given.
        source_lang: language code of the inputs, for tokenizers that have them (de_DE).
        target_lang: language code of the candidates (en_XX).
        chat: whether the input is put into the tokenizer's chat template as what the user says.
        logprobs: whether candidates carry their total natural log-probability under the model: of all their tokens,
            those of the end or of the stop string included.
        stop: strings that end a candidate, which is the text before the first of them; on the command line with the
            escapes \\n, \\t, \\r and \\\\.
        sequences_at_once: sequences in one batch.
    """

    num_candidates: Annotated[int, Field(ge=1)] = 16
    sampling: Method | None = None
    cutoff: Annotated[float, Field(gt=0, lt=1)] | None = None
    temperature: Annotated[float, Field(ge=1e-6, allow_inf_nan=False)] = 1.0
    num_references: Annotated[int, Field(ge=0)] = 0
    reference_sampling: Method | None = None
    reference_cutoff: Annotated[float, Field(gt=0, lt=1)] | None = None
    reference_temperature: Annotated[float, Field(ge=1e-6, allow_inf_nan=False)] | None = None
    seed: int = 0
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    max_input_tokens: Annotated[int, Field(ge=1)] | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    chat: bool = False
    logprobs: bool = False
    stop: tuple[str, ...] = ()
    sequences_at_once: Annotated[int, Field(ge=1)] = field(default=64, compare=False)

    def __post_init__(self) -> None:
        check_stops(self.stop)
        settings_of_references = (
            self.reference_sampling,
            self.reference_cutoff,
            self.reference_temperature,
        )
        if not self.num_references and any(settings_of_references):
            raise InputError(
                "no pseudo-references are generated",
                where="num_references",
                fix="Say how many",
            )
        for pool in self.pools:
            if pool.method == "beam" and pool.temperature != 1:
                raise InputError(
                    "a beam has no temperature",
                    where="temperature",
                    fix="Leave it out",
                )

    @property
    def pools(self) -> tuple[ModelPool, ...]:
        """The candidates, and the pseudo-references where they are generated apart."""
        candidates = self._candidates
        if not self.num_references:
            return (candidates,)
        return (candidates, self._pseudo_references)

    @property
    def _candidates(self) -> ModelPool:
        method: Method = self.sampling or "epsilon"
        cutoff = cutoff_of(method, self.cutoff, "cutoff")
        return ModelPool("candidates", self.num_candidates, method, cutoff, self.temperature)

    @property
    def _pseudo_references(self) -> ModelPool:
        """Drawn as candidates where nothing else is set; but a beam has no temperature, and each method its cutoff."""
        candidate_method: Method = self.sampling or "epsilon"
        method = self.reference_sampling or candidate_method
        cutoff = self.reference_cutoff
        if not cutoff and method == candidate_method:
            cutoff = self.cutoff
        temperature = self.reference_temperature
        if not temperature:
            temperature = 1.0 if method == "beam" else self.temperature
        return ModelPool(
            name="pseudo_references",
            size=self.num_references,
            method=method,
            cutoff=cutoff_of(method, cutoff, "reference_cutoff"),
            temperature=temperature,
        )

    @property
    def identity(self) -> dict[str, Any]:
        """What candidates depend on, as JSON values."""
        methods = [pool.method for pool in self.pools]
        versions = {one: DRAWING_VERSIONS[one] for one in methods if one in DRAWING_VERSIONS}
        return {
            **{pool.name: list(pool[1:]) for pool in self.pools},
            "seed": self.seed,
            "max_new_tokens": self.max_new_tokens,
            "max_input_tokens": self.max_input_tokens,
            "languages": [self.source_lang, self.target_lang],
            "chat": self.chat,
            "logprobs": self.logprobs,
            **({"stop": list(self.stop)} if self.stop else {}),
            **({"drawing_versions": versions} if versions else {}),
        }
