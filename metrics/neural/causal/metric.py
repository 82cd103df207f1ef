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

Comparison of texts by how likely a causal language model finds one of them behind a prompt.

    u = mean over some directions (y | x) of log p(y | prompt(x)) / n
    log p(y | prompt) = sum_t log p(y_t | prompt, y_<t)

A direction says which text is the target y and which the condition x that the prompt tells of, if it tells of any. What
n is, and whether log p(y) behind nothing is taken away, `Normalize` says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...errors import InputError, ModelLoadError
from ...representations import Block, FloatArray, IntArray, Ragged, Reps, by_block
from ...scorer import Info, Passes, Scorer
from ...spec.checked_settings import Field, settings
from ...storage import checksums
from ...text.prompt_template import (
    SEPARATOR,
    SOURCE,
    TARGET_CONTEXT,
    FewShotExamples,
    Template,
    read_examples,
    warn_of_two_blanks,
)
from ...text.texts import Item, Truncation
from ..likelihood.likelihood_scorer import (
    HYPOTHESIS_GIVEN_REFERENCE,
    HYPOTHESIS_GIVEN_SOURCE,
    REFERENCE_GIVEN_HYPOTHESIS,
    Direction,
    Side,
    side_rows,
)
from ..models.causal_lm import CausalLM
from ..models.context_tokens import PlainTexts, control_tokens
from ..models.files import model_files
from ..models.pretrained import pretrained, tokenizer_of
from ..models.prompt_pass import Prompted
from ..models.settings import ModelMetric
from .prompted_sequences import (
    NO_PROMPT,
    REFERENCE,
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


# token, character: what the sum is divided by; sum: nothing; pmi: the sum less that behind nothing.
Normalize = Literal["token", "character", "sum", "pmi"]
# How many of its least likely tokens are told of a text.
SHOWN_TOKENS = 5


class Loaded(NamedTuple):
    """A model, and what makes its sequences."""

    model: CausalLM
    reader: SequenceReader
    prompts: Prompts


class _Pairs(NamedTuple):
    """Texts behind prompts: rows of both among the representations, [n, 2], and their sequences."""

    rows: IntArray
    sequences: Sequences


class CausalScorer(Scorer):
    """Represents a text by itself; compares by the model.

    Args:
        metric: the settings.
        loaded: the model and its readers.
        directions: what is averaged.
        normalize: what becomes of the sum.
        multi_reference: how several references combine.
    """

    def __init__(
        self,
        metric: ModelMetric,
        loaded: Loaded,
        directions: Sequence[Direction],
        normalize: Normalize,
        multi_reference: Literal["mean", "best"] = "mean",
    ) -> None:
        self.info = replace(metric.info, multi_reference=multi_reference)
        self.model, self.reader, self.prompts = loaded
        self.directions = tuple(directions)
        self.normalize = normalize
        self.batch_tokens = self.model.batch_tokens
        self.identity = metric.identity(self.model.device)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Texts and context as they are, since tokens follow from the prompt; about how many tokens a text has."""
        texts = []
        for item in items:
            plain = [str(item.text), *item.context]
            texts.append(np.frombuffer(json.dumps(plain).encode(), np.uint8))
        lengths = self.reader.num_tokens([self.prompts.plain(str(item.text)) for item in items])
        return Reps({"texts": Ragged.of_rows(texts), "tokens": lengths}), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The mean over the directions, [H, R] of every block ([H, 1] without references)."""
        rows = side_rows(self.info, blocks)
        pairs, places = self._pairs(reps, rows)
        values = self._values(reps, pairs)[places]  # [directions * cells]
        means = values.reshape(len(self.directions), -1).mean(axis=0)  # [cells]
        return by_block(means, blocks)

    def _pairs(self, reps: Reps, rows: dict[Side, IntArray]) -> tuple[_Pairs, IntArray]:
        """The distinct pairs of condition and target, and which of them every direction of every cell is."""
        both = [
            np.stack((rows[direction.condition], rows[direction.target]), axis=1)
            for direction in self.directions
        ]
        distinct, places = np.unique(np.concatenate(both), axis=0, return_inverse=True)
        return _Pairs(distinct, self._sequences(reps, distinct)), places.reshape(-1)

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

    def _values(self, reps: Reps, pairs: _Pairs) -> FloatArray:
        """The value of every pair, [n]."""
        sums, num_tokens = self._sums(pairs.sequences.prompted)
        if self.normalize == "sum":
            return sums
        if self.normalize == "pmi":
            return sums - self._unconditional(reps, pairs.rows[:, 1])
        numbers = num_tokens
        if self.normalize == "character":
            numbers = self._num_characters(reps, pairs.rows[:, 1])
        # A text of which nothing is scored counts as one token of a model that knows nothing.
        is_empty = (num_tokens == 0) | (numbers == 0)
        means = sums / np.where(is_empty, 1, numbers)
        return np.where(is_empty, -np.log(self.model.vocabulary), means)

    def _sums(self, prompted: Prompted) -> tuple[FloatArray, IntArray]:
        """Summed log-probabilities of texts and how many tokens they sum up, [n] each."""
        of_tokens = self.model.log_probabilities(prompted)
        parts = np.split(of_tokens.values, of_tokens.offsets[1:-1])
        return np.array([part.sum() for part in parts]), of_tokens.lengths

    def _unconditional(self, reps: Reps, targets: IntArray) -> FloatArray:
        """Summed log-probabilities of the texts in rows [n] behind nothing, [n]."""
        distinct, places = np.unique(targets, return_inverse=True)
        sums, _ = self._sums(self._behind_nothing(reps, distinct))
        of_targets: FloatArray = sums[places]
        return of_targets

    def _behind_nothing(self, reps: Reps, targets: IntArray) -> Prompted:
        """The sequences of the texts in rows [n] without a prompt."""
        items = [_item(reps["texts"], row) for row in targets.tolist()]
        texts = [self.prompts.plain(str(item.text)) for item in items]
        return self.reader.read([NO_PROMPT] * len(texts), texts).prompted

    def _num_characters(self, reps: Reps, targets: IntArray) -> IntArray:
        """Characters of the texts in rows [n], one more where an end is scored, [n]."""
        numbers = {}
        for row in np.unique(targets).tolist():
            text = self.prompts.plain(str(_item(reps["texts"], row).text))
            numbers[row] = len(text) + self.reader.has_end
        return np.array([numbers[row] for row in targets.tolist()], np.int64)

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """About the tokens that the model reads for a block: every condition once, and the texts behind it."""
        tokens = reps["tokens"]
        cost = 0
        for direction in self.directions:
            sides = {
                "hypothesis": block.hypotheses,
                "reference": block.references,
                "source": np.array([block.source] if block.source >= 0 else [], np.int64),
            }
            conditions, targets = sides[direction.condition], sides[direction.target]
            cost += int(tokens[conditions].sum())
            cost += max(1, len(conditions)) * int(tokens[targets].sum())
        return cost

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every distinct prompt, and one for the rest of every text behind it."""
        pairs, _ = self._pairs(reps, side_rows(self.info, [block]))
        prompted = [pairs.sequences.prompted]
        if self.normalize == "pmi":
            prompted.append(self._behind_nothing(reps, np.unique(pairs.rows[:, 1])))
        lengths, flops = [], 0.0
        for texts in prompted:
            prompt_rows = list({texts.prompt_key(row): row for row in texts.in_order()}.values())
            prompts = texts.first[np.array(prompt_rows, np.int64)]
            rests = np.stack((texts.first, np.maximum(1, texts.num_scored)), axis=1)
            lengths += [prompts, rests[:, 1] - 1]
            flops += self.model.flops(prompts, rests)
        return Passes(np.concatenate(lengths), flops)

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """The most that a sequence of a block loses."""
        pairs, _ = self._pairs(reps, side_rows(self.info, [block]))
        return Truncation(int(pairs.sequences.truncation.max(initial=0)))

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """In every direction the prompt, the sum over how many tokens, and the least likely of them."""
        h = block.hypotheses[hypothesis : hypothesis + 1]
        r = block.references[reference : reference + 1]
        rows = side_rows(self.info, [Block(h, r, block.source)])
        explained = {}
        for target, condition in self.directions:
            pair = np.stack((rows[condition], rows[target]), axis=1)
            prompted = self._sequences(reps, pair).prompted
            values = self.model.log_probabilities(prompted).values
            name = f"{target}_given_{condition}" if rows[condition][0] >= 0 else target
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
    start, end = texts.offsets[row], texts.offsets[row + 1]
    text, *context = json.loads(texts.values[start:end].tobytes())
    return Item(text, tuple(context))
