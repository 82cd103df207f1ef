"""Entailment of a text by its source, sentence by sentence (SummaC-ZS; Laban et al. 2022): how faithful it is.

    entail(h) = mean_j max_i p(w_i entails s_j)

s_j are the sentences of the text, w_i windows of the source, p the probability of an output of a classifier that reads
both, the window first. With ``agg="min"`` the least supported sentence counts. With ``contradiction`` the greatest
probability of the output of this name over all windows is taken away from every sentence, as the code of SummaC-ZS
does. A model with one output gives its logistic function. From 0 to 1 (-1 with contradiction), higher is better,
reference-free; a text or a source without sentences has 0. Of a window and a sentence that do not fit the longer one
loses its right end. The forms of released models are settings:

    SummaC-ZS    entail(model="...mnli")                      windows of one sentence, entailment
    AlignScore   entail(model="...",window_words=350)         windows of whole sentences up to 350 words, aligned

as far as their weights are a model for sequence classification of transformers (AlignScore's own checkpoint is not).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ..errors import InputError
from ..representations import (
    Block,
    FloatArray,
    IntArray,
    Reps,
    by_hypothesis,
    hypothesis_rows,
)
from ..scorer import Info
from ..spec.checked_settings import Field, settings
from ..text.sentence_splitting import splitter
from ..text.texts import Document, Item, Text
from .models.context_tokens import PlainTexts, WholeTexts, read_whole
from .models.pretrained import tokenizer_of
from .models.sequence_classifier import (
    SequenceClassifier,
    check_output,
    load_sequence_classifier,
)
from .models.settings import ModelMetric, ReadingScorer, as_rows, in_row

# Names of the output that is asked for, where none is named.
SUPPORTED = ("entailment", "entails", "aligned", "supported", "consistent", "factual")
CONTRADICTED = ("contradiction", "contradicts", "contradict")


@settings
class Entail(ModelMetric):
    """Probability that the source entails the sentences of a text.

    Args:
        model: the folder of a classifier of two texts (NLI), or its name on the hub.
        output: the output for entailment, by its name or number; found by its name if not given.
        contradiction: whether the probability of contradiction is taken away.
        agg: the mean over sentences, or the least (min).
        window: sentences of a window of the source; 0 for all.
        window_words: a window is as many sentences as have so many words together, in place of `window`.
        sentences: who splits plain texts: rule, pysbd:LANGUAGE, or your own module:function.
        max_tokens: the longest sequence of window and sentence, in tokens; the model's limit if not given.
    """

    default_model: ClassVar[str | None] = None
    output: str | int | None = None
    contradiction: bool = False
    agg: Literal["mean", "min"] = "mean"
    window: Annotated[int, Field(ge=0)] = 1
    window_words: Annotated[int, Field(ge=1)] | None = None
    sentences: str = "rule"
    name: ClassVar[str] = "entail"
    info: ClassVar[Info] = Info(
        summary="probability that the source entails the text, sentence by sentence",
        reasons=(
            "sentences: each with the window of the source that supports it most, "
            "and how much, the least supported first"
        ),
        papers=("laban2022summac", "zha2023alignscore"),
        unit="document",
        needs_source=True,
        needs_references=False,
        bounds=(0, 1),
        bucketed=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_words is not None and self.window != 1:
            problem = f"window={self.window} beside window_words"
            raise InputError(problem, where=self.name, fix="Leave one of them out")
        splitter(self.sentences)
        if self.contradiction:
            object.__setattr__(self, "info", replace(self.info, bounds=(-1, 1)))

    def load(self) -> EntailScorer:
        """The classifier.

        Raises:
            ModelLoadError: the files are no such model.
            InputError: no output is that of entailment by its name, or there is none of the given name.
        """
        folder = self.model_path()
        model = load_sequence_classifier(folder, self.device, self.dtype, self.batch_tokens)
        return EntailScorer(self, model, tokenizer_of(folder))


class EntailScorer(ReadingScorer):
    """Represents a text by its sentences; compares by the classifier, a pass for every window and sentence.

    Args:
        metric: the settings.
        model: the classifier.
        tokenizer: its tokenizer.
    """

    def __init__(self, metric: Entail, model: SequenceClassifier, tokenizer: Any) -> None:
        super().__init__(metric, model)
        self.metric = metric
        self.tokenizer = tokenizer
        self.max_tokens = min(
            metric.max_tokens or 1 << 30, int(tokenizer.model_max_length), model.max_tokens
        )
        self.plain = PlainTexts(tokenizer)
        self.split = splitter(metric.sentences)
        self.identity += f" {metric.sentences}"
        self.supported = named_output(metric.output, SUPPORTED, model.names, metric.name)
        self.contradicted = -1
        if metric.contradiction:
            where = f"{metric.name}.contradiction"
            self.contradicted = named_output(None, CONTRADICTED, model.names, where)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """The sentences of every text, as JSON, and about how many tokens they have."""
        texts = [self._sentences(item.text) for item in items]
        counts = [sum(len(sentence.split()) for sentence in text) for text in texts]
        return Reps({"sentences": as_rows(texts)}), np.array(counts, np.int64)

    def _sentences(self, text: Text) -> list[str]:
        """The sentences that are read: those that are not blank."""
        split = text.sentences if isinstance(text, Document) else self.split(text)
        plain = [self.plain(sentence) for sentence in split]
        return [sentence for sentence in plain if sentence]

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The support of every hypothesis by its source, [H, 1] of every block."""
        texts = [self._pairs(reps, h, s) for h, s in zip(*hypothesis_rows(blocks), strict=True)]
        # A sentence that several candidates have is read once with each window.
        distinct = list(dict.fromkeys(pair for pairs in texts for row in pairs for pair in row))
        number = {pair: place for place, pair in enumerate(distinct)}
        p = self._probabilities(distinct)  # [pairs, 2]
        values = []
        for pairs in texts:
            support = [_support(p[[number[pair] for pair in row]]) for row in pairs]
            values.append(self._aggregated(support))
        return by_hypothesis(np.array(values, np.float64), blocks)

    def _pairs(self, reps: Reps, h: int, source: int) -> list[list[tuple[str, str]]]:
        """Windows and sentence, a row for every sentence of a hypothesis; none where either has no sentences."""
        windows = self.windows(in_row(reps["sentences"], source))
        rows = [
            [(window, sentence) for window in windows] for sentence in in_row(reps["sentences"], h)
        ]
        return rows if windows else []

    def windows(self, sentences: Sequence[str]) -> list[str]:
        """The windows of a source."""
        if self.metric.window_words is not None:
            return _windows_of_words(sentences, self.metric.window_words)
        size = self.metric.window or max(1, len(sentences))
        starts = range(0, len(sentences), size)
        return [" ".join(sentences[start : start + size]) for start in starts]

    def _probabilities(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Of entailment and, where it counts, of contradiction, [n, 2]."""
        read = read_whole(self.tokenizer, pairs, self.max_tokens)
        logits = self.model.logits(read.ids, types=read.types)
        p = np.zeros((len(pairs), 2))
        if logits.shape[1] == 1:
            p[:, 0] = 1 / (1 + np.exp(-logits[:, 0]))
            return p
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        softmax = powers / powers.sum(axis=1, keepdims=True)
        p[:, 0] = softmax[:, self.supported]
        if self.contradicted >= 0:
            p[:, 1] = softmax[:, self.contradicted]
        return p

    def _aggregated(self, support: Sequence[float]) -> float:
        """The value of a text by the support of its sentences."""
        if not support:
            return 0.0
        return min(support) if self.metric.agg == "min" else sum(support) / len(support)

    def read_block(self, reps: Reps, block: Block) -> WholeTexts:
        """The distinct pairs of windows and sentences of a block."""
        rows = [self._pairs(reps, h, block.source) for h in block.hypotheses.tolist()]
        pairs = dict.fromkeys(pair for of_text in rows for row in of_text for pair in row)
        return read_whole(self.tokenizer, list(pairs), self.max_tokens)

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """The tokens that the classifier reads for a block."""
        return int(self.read_block(reps, block).ids.lengths.sum())

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """Every sentence with its support and the window that supports it most."""
        sentences = []
        for row in self._pairs(reps, int(block.hypotheses[hypothesis]), block.source):
            p = self._probabilities(row)
            best = row[int(p[:, 0].argmax())]
            sentences.append({"sentence": best[1], "support": _support(p), "window": best[0]})
        return {"sentences": sorted(sentences, key=lambda one: one["support"])}


def named_output(
    name: str | int | None, usual: Sequence[str], names: Sequence[str], where: str
) -> int:
    """The number of an output: the one of this name or number, else the only one, or that of a usual name.

    Raises:
        InputError: there is none.
    """
    if name is None and len(names) > 1:
        for number, known in enumerate(names):
            if known.lower() in usual:
                return number
    return check_output(name, names, where)


def _support(p: FloatArray) -> float:
    """Support of a sentence by its probabilities with all windows, [windows, 2]."""
    return float(p[:, 0].max() - p[:, 1].max())


def _windows_of_words(sentences: Sequence[str], words: int) -> list[str]:
    """As many sentences a window as have so many words together; a longer one is a window of its own."""
    windows: list[list[str]] = []
    used = 0
    for sentence in sentences:
        count = len(sentence.split())
        if not windows or used + count > words:
            windows.append([])
            used = 0
        windows[-1].append(sentence)
        used += count
    return [" ".join(window) for window in windows]
