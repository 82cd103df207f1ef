"""Reward of a reply (Ouyang et al. 2022): the output of a sequence classifier that reads prompt and reply as a chat.

    reward(h) = logits(system, user: source, assistant: h)[output]

Any number, higher is better, reference-free; values of different prompts need not compare. The raw output, with no
softmax or sigmoid over it. An empty reply is read like any other. Models with several outputs are asked for one, by its
name or number.

A prompt and a reply as one sequence of tokens, in the chat template of a tokenizer.

    system: the system text, if there is one     user: the prompt     assistant: the reply

A tokenizer without a template has its own way to read two texts (DeBERTa: CLS prompt SEP reply SEP). Special tokens
that are written out in a text are broken up. A conversation that is too long loses what stands behind its first token,
so that the end of the reply is read; two texts lose their right ends, the longer one first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import InputError, ModelLoadError
from ..representations import (
    Block,
    FloatArray,
    IntArray,
    Ragged,
    Reps,
    by_hypothesis,
    hypothesis_rows,
)
from ..scorer import Info
from ..spec.checked_settings import settings
from ..text.texts import Item, Truncation
from .models.context_tokens import PlainTexts, WholeTexts, control_tokens, read_whole
from .models.pretrained import tokenizer_of
from .models.prompt_pass import num_common
from .models.sequence_classifier import (
    EncoderClassifier,
    SequenceClassifier,
    check_output,
    load_sequence_classifier,
)
from .models.settings import ModelMetric, ReadingScorer, as_rows, in_row

# The longest sequence if none is set, where the model has positions for more.
MAX_TOKENS = 4096


@settings
class Reward(ModelMetric):
    """The output of a reward model for the source as prompt and the hypothesis as reply.

    Args:
        model: the folder of a model for sequence classification, or its name on the hub.
        output: which output, by its name or number, where the model has several.
        system: a system text before the prompt.
        max_tokens: the longest sequence, in tokens; the model's limit, but at most 4096, if not given.
    """

    default_model: ClassVar[str | None] = None
    own_files: ClassVar[tuple[str, ...]] = ("chat_template.jinja",)
    output: str | int | None = None
    system: str | None = None
    name: ClassVar[str] = "reward"
    info: ClassVar[Info] = Info(
        summary="output of a reward model for the source as prompt and the text as reply",
        reasons="outputs: every output of the model by its name",
        papers=("ouyang2022training",),
        needs_source=True,
        needs_references=False,
        bounds=(-inf, inf),
        bucketed=True,
    )

    def load(self) -> RewardScorer:
        """The model and what makes its sequences.

        Raises:
            ModelLoadError: the files are no such model, or there is no chat template.
            InputError: the model has several outputs and none, or one that it has not, is named.
        """
        folder = self.model_path()
        model = load_sequence_classifier(folder, self.device, self.dtype, self.batch_tokens)
        tokenizer = tokenizer_of(folder)
        limit = min(self.max_tokens or MAX_TOKENS, model.max_tokens)
        joins = isinstance(model, EncoderClassifier)
        reader = ConversationReader(tokenizer, limit, self.system, joins)
        return RewardScorer(self, model, reader)


class RewardScorer(ReadingScorer):
    """Keeps texts as they are, since tokens follow from the prompt; compares by the model.

    Args:
        metric: the settings.
        model: the classifier.
        reader: makes its sequences.
    """

    def __init__(
        self, metric: Reward, model: SequenceClassifier, reader: ConversationReader
    ) -> None:
        super().__init__(metric, model)
        self.reader = reader
        self.output = check_output(metric.output, model.names, metric.name)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """The texts, and about how many tokens each has."""
        texts = [str(item.text) for item in items]
        lengths = self.reader.num_tokens(texts)
        return Reps({"text": as_rows(texts), "tokens": lengths}), lengths

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The output for every hypothesis, [H, 1] of every block."""
        pairs = np.stack(hypothesis_rows(blocks), axis=1)  # [hypotheses, 2]
        distinct, places = np.unique(pairs, axis=0, return_inverse=True)
        logits = self._logits(self._conversations(reps, distinct))
        return by_hypothesis(logits[:, self.output][places.reshape(-1)], blocks)

    def _logits(self, read: Conversations) -> FloatArray:
        """All outputs of some conversations, [n, outputs]."""
        logits: FloatArray = self.model.logits(read.whole.ids, read.shared, read.whole.types)
        return logits

    def _conversations(self, reps: Reps, pairs: IntArray) -> Conversations:
        """The conversations of rows [n, 2], hypothesis and source."""
        texts = {row: in_row(reps["text"], row) for row in np.unique(pairs).tolist()}
        return self.reader.read([(texts[source], texts[h]) for h, source in pairs.tolist()])

    def read_block(self, reps: Reps, block: Block) -> WholeTexts:
        """The conversations of a block."""
        return self._conversations(reps, np.stack(hypothesis_rows([block]), axis=1)).whole

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """About the tokens that the model reads for a block."""
        tokens = reps["tokens"]
        return int(tokens[block.source] + tokens[block.hypotheses].sum())

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """Every output of the model for a hypothesis, by its name."""
        row = block.hypotheses[hypothesis]
        (values,) = self._logits(self._conversations(reps, np.array([[row, block.source]])))
        named = zip(self.model.names, values.tolist(), strict=True)
        return {"outputs": dict(named)}


Messages = list[dict[str, str]]


class Conversations(NamedTuple):
    """The tokens of n conversations."""

    whole: WholeTexts
    shared: IntArray  # [n] tokens before the reply, which other replies to the same prompt have too


class ConversationReader:
    """Makes tokens of prompts and replies.

    Args:
        tokenizer: a transformers tokenizer.
        max_tokens: the longest sequence.
        system: the system text; "" or None for none.
        joins: whether the model reads two texts, joined by the tokenizer, where there is no template.

    Raises:
        ModelLoadError: there is no template, and the model reads no two texts.
        InputError: the template refuses such a conversation.
    """

    def __init__(
        self,
        tokenizer: Any,
        max_tokens: int,
        system: str | None = None,
        joins: bool = False,
    ) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.plain = PlainTexts(tokenizer, control_tokens(tokenizer))
        self.begins: Messages = [{"role": "system", "content": system}] if system else []
        self.is_chat = bool(getattr(tokenizer, "chat_template", None))
        if self.is_chat:
            self._written([*self.begins, _said("user", "a"), _said("assistant", "b")])
        elif system or not joins:
            fix = "Put one into its folder, chat_template.jinja, as transformers writes them"
            where = str(tokenizer.name_or_path)
            raise ModelLoadError("the tokenizer has no chat template", where=where, fix=fix)

    def read(self, pairs: Sequence[tuple[str, str]]) -> Conversations:
        """The conversations of some pairs of prompt and reply."""
        plain = [(self._plain(prompt), self._plain(reply)) for prompt, reply in pairs]
        if self.is_chat:
            return self._chats(plain)
        read = read_whole(self.tokenizer, plain, self.max_tokens)
        return Conversations(read, np.ones(len(plain), np.int64))

    def num_tokens(self, texts: Sequence[str]) -> IntArray:
        """About the tokens of texts alone, [n]."""
        ids = self._ids([self._plain(text) for text in texts])
        return np.fromiter(map(len, ids), np.int64, len(ids))

    def _plain(self, text: str) -> str:
        return self.plain.without_special(text.encode("utf-8", "replace").decode())

    def _chats(self, pairs: Sequence[tuple[str, str]]) -> Conversations:
        """Conversations in the template."""
        prompts = {prompt: self._opening(prompt) for prompt in dict.fromkeys(p for p, _ in pairs)}
        openings = dict(zip(prompts, self._ids(list(prompts.values())), strict=True))
        texts = [
            self._written([*self.begins, _said("user", prompt), _said("assistant", reply)])
            for prompt, reply in pairs
        ]
        rows, shared, truncation = [], [], []
        for (prompt, _), tokens in zip(pairs, self._ids(texts), strict=True):
            spare = max(0, len(tokens) - self.max_tokens)
            before = num_common(openings[prompt], tokens) - spare
            rows.append(np.array([*tokens[:1], *tokens[1 + spare :]], np.int64))
            shared.append(max(1, before))
            truncation.append(Truncation.TEXT if spare else Truncation.NONE)
        whole = WholeTexts(Ragged.of_rows(rows), None, np.array(truncation, np.int64))
        return Conversations(whole, np.array(shared))

    def _opening(self, prompt: str) -> str:
        """What stands before a reply; nothing where the template writes no conversation without one."""
        try:
            return self._written([*self.begins, _said("user", prompt)], opens=True)
        except InputError:
            return ""

    def _written(self, messages: Messages, opens: bool = False) -> str:
        """A conversation in the template; `opens`: up to where the reply begins."""
        try:
            text = self.tokenizer.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=opens,
            )
        except Exception as error:  # templates raise what they like
            problem = f"the chat template refuses it: {type(error).__name__}: {str(error)[:200]}"
            fix = "Leave the system text out, or put another chat_template.jinja into the folder"
            raise InputError(problem, where=str(self.tokenizer.name_or_path), fix=fix) from error
        return str(text)

    def _ids(self, texts: list[str]) -> list[list[int]]:
        """Ids of texts, without special tokens around them: the template writes them."""
        if not texts:
            return []
        ids: list[list[int]] = self.tokenizer(
            texts, add_special_tokens=False, verbose=False
        ).input_ids
        return ids


def _said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}
