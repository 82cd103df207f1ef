"""Likelihood under a causal language model: how well a text goes on behind a prompt.

    lm(h) = log p(h | prompt) / n,   log p(h | prompt) = sum_{t=1..n} log p(h_t | prompt, h_<t)

Natural logarithms over the n tokens of h and, unless ``end="none"``, of its end: the separator that stands behind the
targets of few-shot examples, a line break without them, or the model's own end token. ``given`` says what the prompt
tells, and what it is if none is written:

    nothing          (nothing)                fluency
    context          {target_context} and a blank: fluency behind the k sentences before, as they were chosen
    source           {source} =               and a blank: translation likelihood, as few-shot examples show it
    source+context   as source, the k pairs of sentence and choice before it as further few-shot examples

`normalize` divides by the tokens scored ("token") or leaves the sum ("sum"). At most 0, higher is better,
reference-free. An empty text is scored by its end; where nothing is scored, the sum is 0 and the mean -log(size of the
vocabulary).

``lm-pair`` is the mean over some directions (y | x) of log p(y | prompt(x)) / n. A direction says which text is the
target y and which the condition x in the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...errors import InputError
from ...representations import Block, FloatArray, IntArray, Ragged, Reps
from ...scorer import Info, Passes, Scorer
from ...spec.checked_settings import Field, settings
from ...storage import checksums
from ...text.prompt_template import (
    SEPARATOR,
    FewShotExamples,
    Template,
    read_examples,
    warn_of_two_blanks,
)
from ...text.texts import Item, Truncation
from ..likelihood import DIRECTIONS, HYPOTHESIS_GIVEN_SOURCE, DirectedScorer, Direction
from ..models.causal_lm import CausalLM
from ..models.context_tokens import PlainTexts, control_tokens
from ..models.files import model_files
from ..models.pretrained import pretrained, tokenizer_of
from ..models.prompt_pass import Prompted
from ..models.settings import ModelMetric, as_rows, in_row
from .prompted_sequences import (
    End,
    FewShotPrompt,
    Given,
    Prompts,
    SequenceReader,
    Sequences,
)

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
# token: the sum is divided by their number; sum: by nothing.
Normalize = Literal["token", "sum"]
# How many of its least likely tokens are told of a text.
SHOWN_TOKENS = 5
REASONS = (
    "log-probabilities are natural logarithms, 0 for what is certain, more negative for what is less likely; "
    "the least likely tokens come first"
)


@settings
class CausalMetric(ModelMetric):
    """Prompts, examples and loading, for both metrics.

    Args:
        model: a folder, a GGUF file, a name on the hub, smollm2 (English) or gemma3-270m (many languages).
        separator: what stands behind the target of a few-shot example, and ends a text; if not given, an empty line
            where there are few-shot examples, else a line break.
        normalize: token, the mean over the tokens scored, or sum.
        end: what is scored as the end of a text: the separator, the model's end token (token), or none.
        max_tokens: the longest sequence, in tokens; the model's limit, but at most 4096, if not given.
    """

    default_model: ClassVar[str] = "smollm2"
    prompt: str | None = None
    examples: str | None = None
    separator: str | None = None
    normalize: Normalize = "token"
    end: End = "separator"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_prompt()
        if self.separator == "":
            raise InputError("separator is empty", where=self.name, fix="Leave it out, or give one")
        if self.examples and self.prompts_given not in ("source", "source+context", "reference"):
            problem = f"examples are pairs, and given={self.prompts_given!r} has no use for them"
            raise InputError(problem, where=self.name, fix='Set given="source", or leave them out')

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
        wanted = Template(DEFAULT_PROMPTS[self.prompts_given], "").fields
        fields = self.template.fields
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
        reader = SequenceReader(tokenizer, limit, self.end, self.separates)
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
        given: what the prompt tells: nothing, source, context or source+context; if not given, context where there
            is context, else nothing.
        prompt: a template with the field {source} or {target_context}, as `given` needs it; see above for what it is
            if not given.
        examples: a file of few-shot examples, JSON lines with source and target, where the source is given.
        context: sentences before each one that the prompt tells.
    """

    given: Given | None = None
    context: Annotated[int, Field(ge=0)] = 0
    name: ClassVar[str] = "lm"
    info: ClassVar[Info] = Info(
        summary="likelihood under a causal language model, given nothing, the source or preceding sentences",
        reasons=REASONS,
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
        return CausalScorer(self, self._loaded(), (HYPOTHESIS_GIVEN_SOURCE,))


@settings
class LMPair(CausalMetric):
    r"""The log-probability of a hypothesis given a reference, as a causal model goes on behind a prompt.

    Args:
        prompt: a template with the field {reference}; "{reference} In other words: " if not given.
        examples: a file of few-shot examples, JSON lines with source (what is given) and target.
        direction: the hypothesis given the reference (precision), the reference given the hypothesis (recall), or the
            mean of both (f).
        agg: several references: the mean over them, or the best (max).
    """

    direction: Literal["precision", "recall", "f"] = "precision"
    agg: Literal["mean", "max"] = "mean"
    name: ClassVar[str] = "lm-pair"
    info: ClassVar[Info] = Info(
        summary="likelihood of the text given the reference, under a causal language model",
        reasons=REASONS,
        papers=("yuan2021bartscore",),
        bounds=(-inf, inf),
        multi_reference="mean",
        bucketed=True,
        costly_pairs=True,
    )

    def load(self) -> Scorer:
        """The model."""
        return CausalScorer(self, self._loaded(), DIRECTIONS[self.direction])


class Loaded(NamedTuple):
    """A model, and what makes its sequences."""

    model: CausalLM
    reader: SequenceReader
    prompts: Prompts


class CausalScorer(DirectedScorer):
    """Represents a text by itself; compares by the model.

    Args:
        metric: the settings.
        loaded: the model and its readers.
        directions: what is averaged.
    """

    def __init__(
        self, metric: CausalMetric, loaded: Loaded, directions: Sequence[Direction]
    ) -> None:
        super().__init__(metric, loaded.model, directions)
        self.model, self.reader, self.prompts = loaded
        self.normalize = metric.normalize

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Texts and context as they are, since tokens follow from the prompt; about how many tokens a text has."""
        texts = as_rows([str(item.text), *item.context] for item in items)
        lengths = self.reader.num_tokens([self.prompts.plain(str(item.text)) for item in items])
        return Reps({"texts": texts, "tokens": lengths}), lengths

    def _sequences(self, reps: Reps, pairs: IntArray) -> Sequences:
        """The sequences of targets behind the prompts of their conditions; pairs: [n, 2]."""
        items = {row: _item(reps["texts"], row) for row in np.unique(pairs).tolist() if row >= 0}
        prompts: dict[tuple[int, tuple[str, ...]], FewShotPrompt] = {}
        of_pairs, texts = [], []
        for condition, target in pairs.tolist():
            key = condition, items[target].context
            if key not in prompts:
                given = items[condition] if condition >= 0 else None
                prompts[key] = self.prompts.of(given, items[target].context)
            of_pairs.append(prompts[key])
            texts.append(self.prompts.plain(str(items[target].text)))
        return self.reader.read(of_pairs, texts)

    def pair_values(self, reps: Reps, pairs: IntArray) -> FloatArray:
        """The value of every text behind its prompt, [n]."""
        of_tokens = self.model.log_probabilities(self._sequences(reps, pairs).prompted)
        parts = np.split(of_tokens.values, of_tokens.offsets[1:-1])
        sums = np.array([part.sum() for part in parts])
        if self.normalize == "sum":
            return sums
        # A text of which nothing is scored counts as one token of a model that knows nothing.
        lengths = of_tokens.lengths
        return np.where(lengths, sums / np.maximum(lengths, 1), -np.log(self.model.vocabulary))

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """About the tokens that the model reads for a block: every condition once, and the texts behind it."""
        tokens, sides, cost = reps["tokens"], self.sides(block), 0
        for target, condition in self.directions:
            conditions = sides[condition]
            cost += int(tokens[conditions].sum())
            cost += max(1, len(conditions)) * int(tokens[sides[target]].sum())
        return cost

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every distinct prompt, and one for the rest of every text behind it."""
        texts = self._sequences(reps, self.pairs([block])[0]).prompted
        prompt_rows = list({texts.prompt_key(row): row for row in texts.in_order()}.values())
        prompts = texts.first[np.array(prompt_rows, np.int64)]
        rests = np.stack((texts.first, np.maximum(1, texts.num_scored)), axis=1)
        lengths = np.concatenate((prompts, rests[:, 1] - 1))
        return Passes(lengths, self.model.flops(prompts, rests))

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """The most that a sequence of a block loses."""
        sequences = self._sequences(reps, self.pairs([block])[0])
        return Truncation(int(sequences.truncation.max(initial=0)))

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """In every direction the prompt, the sum over how many tokens, and the least likely of them."""
        h = block.hypotheses[hypothesis : hypothesis + 1]
        r = block.references[reference : reference + 1]
        pairs, places = self.pairs([Block(h, r, block.source)])
        explained = {}
        for (target, condition), place in zip(self.directions, places, strict=True):
            prompted = self._sequences(reps, pairs[[place]]).prompted
            values = self.model.log_probabilities(prompted).values
            name = f"{target}_given_{condition}" if pairs[place, 0] >= 0 else target
            explained[name] = self._shown(prompted, values)
        return explained

    def _shown(self, prompted: Prompted, values: FloatArray) -> dict[str, Any]:
        """The explanation of one sequence by the log-probabilities of its scored tokens."""
        start = int(prompted.first[0])
        prompt, labels = prompted.ids.values[:start], prompted.ids.values[start:]
        decode = self.reader.tokenizer.decode
        least = np.argsort(values, kind="stable")[:SHOWN_TOKENS]
        tokens = [
            {"token": decode([int(labels[i])]), "place": int(i), "logprob": float(values[i])}
            for i in least
        ]
        return {
            "prompt": decode(prompt.tolist()),
            "logprob": float(values.sum()),
            "tokens": len(values),
            "least_likely": tokens,
        }


def _item(texts: Ragged, row: int) -> Item:
    """The text of a row and its context."""
    text, *context = in_row(texts, row)
    return Item(text, tuple(context))
