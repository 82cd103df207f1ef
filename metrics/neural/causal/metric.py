"""Likelihood under a causal language model: how well a text goes on behind a prompt.

    lm(h) = log p(h | prompt) / n,   log p(h | prompt) = sum_{t=1..n} log p(h_t | prompt, h_<t)

Natural logarithms over the n tokens of h and, unless ``end="none"``, of its end: the separator that stands behind the
targets of few-shot examples, a line break without them, or the model's own end token. ``given`` says what the prompt
tells, and what it is if none is written:

    nothing          (nothing)                fluency
    context          {target_context} and a blank: fluency behind the k sentences before, as they were chosen
    source           {source} =               and a blank: translation likelihood, as few-shot examples show it
    source+context   as source, the k pairs of sentence and choice before it as further few-shot examples

`normalize` divides by the tokens scored ("token") or by the characters of h, one more for its end ("character"), leaves
the sum ("sum"), or takes away log p(h) behind nothing ("pmi": log p(h | prompt) - log p(h), the pointwise mutual
information of h and its prompt, in nats). At most 0 but for pmi, higher is better, reference-free. An empty text is
scored by its end; where nothing is scored, "sum" and "pmi" are 0 and the means -log(size of the vocabulary).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, ClassVar, Literal

from ...errors import InputError, ModelLoadError
from ...scorer import Info, Scorer
from ...spec.checked_settings import Field, settings
from ...storage import checksums
from ...text.few_shot import SEPARATOR, FewShotExamples, read_examples, warn_of_two_blanks
from ...text.prompt_template import SOURCE, TARGET_CONTEXT, Template
from ..likelihood.likelihood_scorer import (
    HYPOTHESIS_GIVEN_REFERENCE,
    HYPOTHESIS_GIVEN_SOURCE,
    REFERENCE_GIVEN_HYPOTHESIS,
)
from ..models.causal_lm import CausalLM
from ..models.context_tokens import PlainTexts, control_tokens
from ..models.files import model_files
from ..models.pretrained import pretrained, tokenizer_of
from ..models.settings import ModelMetric
from .causal_scorer import CausalScorer, Loaded, Normalize
from .prompted_sequences import REFERENCE, End, Given, Prompts, SequenceReader

LINE_BREAK = "\n"
# The longest sequence if none is set, where the model has positions for more.
MAX_TOKENS = 4096
# The prompt, by what is given.
DEFAULT_PROMPTS: dict[str, str] = {
    "nothing": "",
    "context": "{target_context} ",
    "source": "{source} = ",
    "source+context": "{source} = ",
    "reference": "{reference} In other words: ",
}
# Fields that a prompt must have, and no others.
FIELDS: dict[str, frozenset[str]] = {
    "nothing": frozenset(),
    "context": frozenset({TARGET_CONTEXT}),
    "source": frozenset({SOURCE}),
    "source+context": frozenset({SOURCE}),
    "reference": frozenset({REFERENCE}),
}


class CausalMetric(ModelMetric):
    """Prompts, examples and loading, for both metrics."""

    default_model: ClassVar[str] = "smollm2"
    counts_passes: ClassVar[bool] = True
    prompt: str | None
    examples: str | None
    separator: str | None
    normalize: Normalize
    end: End
    start: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_prompt()
        if self.separator == "":
            raise InputError("separator is empty", where=self.name, fix="Leave it out, or give one")
        if self.examples and self.prompts_given not in ("source", "source+context", "reference"):
            problem = f"examples are pairs, and given={self.prompts_given!r} has no use for them"
            raise InputError(problem, where=self.name, fix='Set given="source", or leave them out')
        if self.normalize == "pmi" and self.prompts_given == "nothing":
            fix = "Set given=, or another normalize"
            raise InputError("pmi of a text given nothing is 0", where=self.name, fix=fix)

    @property
    def prompts_given(self) -> Given | Literal["reference"]:
        """The content of prompts."""
        return "reference"

    @property
    def template(self) -> Template:
        """That of the prompt."""
        text = DEFAULT_PROMPTS[self.prompts_given] if self.prompt is None else self.prompt
        return Template(text, f"{self.name}: prompt")

    @property
    def separates(self) -> str:
        """The separator behind a target."""
        if self.separator is not None:
            return self.separator
        has_examples = self.examples or self.prompts_given == "source+context"
        return SEPARATOR if has_examples else LINE_BREAK

    def _check_prompt(self) -> None:
        """Raises InputError for a template with other fields than what is given."""
        wanted, fields = FIELDS[self.prompts_given], self.template.fields
        if wanted != fields:
            names = ", ".join(f"{{{name}}}" for name in sorted(wanted)) or "none"
            others = ", ".join(f"{{{name}}}" for name in sorted(fields)) or "none"
            raise InputError(
                f"the prompt has the fields {others}, expected {names}",
                where=f"{self.name}: given={self.prompts_given!r}",
                fix="Write the prompt for what is given, or change given=",
            )

    @property
    def file_settings(self) -> tuple[str, ...]:
        """Settings that name files."""
        return ("model", "examples") if self.examples else ("model",)

    def _digest(self, name: str) -> str:
        if name == "model":
            return super()._digest(name)
        return checksums.check_file(self.named(name)).rpartition(model_files.MARK)[2]

    def _loaded(self) -> Loaded:
        """The model and what makes its sequences.

        Raises:
            ModelLoadError: the files are no such model, have changed, or its tokenizer lacks what the settings need.
        """
        folder = self.model_path()
        tokenizer = tokenizer_of(folder)
        plain = pretrained(folder, "AutoModelForCausalLM", self.has_weights, self.dtype)
        model = CausalLM(plain, self.device, self.dtype, self.batch_tokens)
        limit = min(self.max_tokens or MAX_TOKENS, model.max_tokens)
        reader = SequenceReader(tokenizer, limit, self.end, self.separates, self.start)
        if self.normalize == "pmi" and not reader.first_ids:
            problem = "no beginning-of-text token, behind which a text is given nothing"
            raise ModelLoadError(
                problem, where=str(folder), fix="Name one: start=..., or another normalize"
            )
        examples = read_examples(self.examples) if self.examples else FewShotExamples(())
        warn_of_two_blanks(examples, self.template)
        texts = PlainTexts(tokenizer, control_tokens(tokenizer))
        examples = examples.plain(texts.without_special)
        prompts = Prompts(self.template, examples, self.separates, self.prompts_given, texts)
        return Loaded(model, reader, prompts)


@settings
class LM(CausalMetric):
    r"""The log-probability of a hypothesis behind a prompt.

    Args:
        model: a folder, a GGUF file, a name on the hub, smollm2 (English) or gemma3-270m (many languages).
        given: what the prompt tells: nothing, source, context or source+context; if not given, context where there
            is context, else nothing.
        prompt: a template with the field {source} or {target_context}, as `given` needs it; see above for what it is
            if not given.
        examples: a file of few-shot examples, JSON lines with source and target, where the source is given.
        separator: what stands behind the target of a few-shot example, and ends a text; if not given, an empty line
            where there are few-shot examples, else a line break.
        normalize: token, character, sum or pmi.
        end: what is scored as the end of a text: the separator, the model's end token (token), or none.
        start: the token that sequences begin with, "" for none; the beginning-of-text token if not given.
        context: sentences before each one that the prompt tells.
        max_tokens: the longest sequence, in tokens; the model's limit, but at most 4096, if not given.
    """

    given: Given | None = None
    prompt: str | None = None
    examples: str | None = None
    separator: str | None = None
    normalize: Normalize = "token"
    end: End = "separator"
    start: str | None = None
    context: Annotated[int, Field(ge=0)] = 0
    name: ClassVar[str] = "lm"
    info: ClassVar[Info] = Info(
        summary="likelihood under a causal language model, given nothing, the source or preceding sentences",
        reasons=(
            "log-probabilities are natural logarithms, 0 for what is certain, more negative for what is less likely; "
            "the least likely tokens come first"
        ),
        papers=("yee2019simple",),
        takes_source=True,
        needs_references=False,
        bounds=(-inf, inf),
        bucketed=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        reads_context = "context" in self.prompts_given
        if reads_context and not self.context:
            problem = f"given={self.given!r} without context"
            raise InputError(problem, where=self.name, fix="Set context=k, or take doc-lm")
        if self.context and not reads_context:
            problem = f"context={self.context} and given={self.given!r}"
            fix = 'Set given="context" or given="source+context", or leave context at 0'
            raise InputError(problem, where=self.name, fix=fix)

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """A language model beside consensus; with context, one that reads documents."""
        return (*cls.info.papers, "yu2020better") if settings.get("context") else cls.info.papers

    @property
    def prompts_given(self) -> Given:
        """The content of prompts."""
        return self.given or ("context" if self.context else "nothing")

    @property
    def needs_source(self) -> bool:
        """Whether the prompt tells the source."""
        return "source" in self.prompts_given

    @property
    def reads_source(self) -> bool:
        """The same: a source that no prompt tells is left out."""
        return self.needs_source

    def load(self) -> Scorer:
        """The model."""
        return CausalScorer(self, self._loaded(), (HYPOTHESIS_GIVEN_SOURCE,), self.normalize)


DIRECTIONS = {
    "precision": (HYPOTHESIS_GIVEN_REFERENCE,),
    "recall": (REFERENCE_GIVEN_HYPOTHESIS,),
    "f": (HYPOTHESIS_GIVEN_REFERENCE, REFERENCE_GIVEN_HYPOTHESIS),
}


@settings
class LMPair(CausalMetric):
    r"""The log-probability of a hypothesis given a reference, as a causal model goes on behind a prompt.

    Args:
        model: a folder, a GGUF file, a name on the hub, smollm2 (English) or gemma3-270m (many languages).
        prompt: a template with the field {reference}; "{reference} In other words: " if not given.
        examples: a file of few-shot examples, JSON lines with source (what is given) and target.
        separator: what stands behind the target of a few-shot example, and ends a text; if not given, an empty line
            where there are few-shot examples, else a line break.
        normalize: token, character, sum or pmi.
        end: what is scored as the end of a text: the separator, the model's end token (token), or none.
        start: the token that sequences begin with, "" for none; the beginning-of-text token if not given.
        direction: the hypothesis given the reference (precision), the reference given the hypothesis (recall), or the
            mean of both (f).
        agg: several references: the mean over them, or the best (max).
        max_tokens: the longest sequence, in tokens; the model's limit, but at most 4096, if not given.
    """

    prompt: str | None = None
    examples: str | None = None
    separator: str | None = None
    normalize: Normalize = "token"
    end: End = "separator"
    start: str | None = None
    direction: Literal["precision", "recall", "f"] = "precision"
    agg: Literal["mean", "max"] = "mean"
    name: ClassVar[str] = "lm-pair"
    info: ClassVar[Info] = Info(
        summary="likelihood of the text given the reference, under a causal language model",
        reasons=(
            "log-probabilities are natural logarithms, 0 for what is certain, more negative for what is less likely; "
            "the least likely tokens come first"
        ),
        papers=("yuan2021bartscore",),
        bounds=(-inf, inf),
        multi_reference="mean",
        bucketed=True,
        costly_pairs=True,
    )

    def load(self) -> Scorer:
        """The model."""
        multi_reference: Literal["best", "mean"] = "best" if self.agg == "max" else "mean"
        directions = DIRECTIONS[self.direction]
        return CausalScorer(self, self._loaded(), directions, self.normalize, multi_reference)
