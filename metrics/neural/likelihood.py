"""Prism and BARTScore: how likely a sequence-to-sequence model finds one text given another.

    u(h, r) = mean over some directions (y | x) of g(y | x),   g(y | x) = 1/n sum_{t scored} log p(y_t | y_<t, x)

A direction says which text is the target y and which the condition x: the hypothesis given the reference, and so on.
Every ordered pair of texts is run through the decoder once in a call, however many directions and blocks need it. At
most 0, higher is better.

BARTScore (Yuan et al. 2021) scores all n tokens of y, those that begin and end it counted, as in the released code:

    bartscore               precision g(h | r), recall g(r | h), or f, the mean of both; f is symmetric
    bartscore-faithfulness  g(h | s) given the source; reference-free, linear in the number of hypotheses

Prism (Thompson and Post 2020) and Doc-Prism (Vernikos et al. 2022) take either text as a paraphrase of the other, in
both directions, by a multilingual encoder-decoder (mBART-50) that is given and asked for one language. Of n + 1 scored
tokens the first is the language tag before the sentence or, with ``context=k``, the separator after the k sentences
that both texts begin with. Where the released code cuts a sentence off, ``truncation="reference"`` scores as it does:
what is left of the sum, still divided by n + 1; that may be nothing, and then 0, the best value.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from ..errors import InputError, ModelLoadError, unknown
from ..representations import (
    Block,
    FloatArray,
    IntArray,
    Ragged,
    Reps,
    by_block,
    cell_rows,
    hypothesis_rows,
)
from ..scorer import Info, Passes, Scorer
from ..spec.checked_settings import settings
from ..text.texts import Item
from .models.context_tokens import Frame, Reader
from .models.pretrained import pretrained, tokenizer_of
from .models.seq2seq import Seq2Seq, Targets
from .models.settings import ContextModelMetric, ModelMetric

Side = Literal["hypothesis", "reference", "source"]


class Direction(NamedTuple):
    """The scored text and the one that is given: log p(target | condition)."""

    target: Side
    condition: Side


HYPOTHESIS_GIVEN_REFERENCE = Direction("hypothesis", "reference")
REFERENCE_GIVEN_HYPOTHESIS = Direction("reference", "hypothesis")
HYPOTHESIS_GIVEN_SOURCE = Direction("hypothesis", "source")


DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    "f": (HYPOTHESIS_GIVEN_REFERENCE, REFERENCE_GIVEN_HYPOTHESIS),
    "precision": (HYPOTHESIS_GIVEN_REFERENCE,),
    "recall": (REFERENCE_GIVEN_HYPOTHESIS,),
}
# Language tags of mBART-50.
TAGS = (
    "af_ZA ar_AR az_AZ bn_IN cs_CZ de_DE en_XX es_XX et_EE fa_IR fi_FI fr_XX gl_ES gu_IN he_IL hi_IN hr_HR id_ID it_IT "
    "ja_XX ka_GE kk_KZ km_KH ko_KR lt_LT lv_LV mk_MK ml_IN mn_MN mr_IN my_MM ne_NP nl_XX pl_PL ps_AF pt_XX ro_RO ru_RU "
    "si_LK sl_SI sv_SE sw_KE ta_IN te_IN th_TH tl_XX tr_TR uk_UA ur_PK vi_VN xh_ZA zh_CN"
)
CODES = tuple(TAGS.split())
BY_LANGUAGE = {code[:2]: code for code in CODES}


class Extent(NamedTuple):
    """The scored labels of n texts."""

    first: IntArray  # [n] the first scored label
    length: IntArray  # [n] how many, and what their sum is divided by; truncation may leave fewer


def load(metric: ContextModelMetric, frame: Callable[[Any], Frame]) -> tuple[Reader, Seq2Seq]:
    """The model of a metric, and what reads texts for it; frame: what a tokenizer's texts begin and end with.

    Raises:
        ModelLoadError: the files are no such model, or have changed.
    """
    folder = metric.model_path()
    tokenizer = tokenizer_of(folder)
    plain = pretrained(folder, "AutoModelForSeq2SeqLM", metric.has_weights)
    model = Seq2Seq(plain, metric.device, metric.dtype, metric.batch_tokens)
    limit = min(metric.max_tokens or 1 << 30, int(tokenizer.model_max_length), model.max_tokens)
    return Reader(tokenizer, frame(tokenizer), limit, metric.truncates), model


class DirectedScorer(Scorer):
    """The mean over some directions of how likely a model finds a target given its condition.

    Args:
        metric: the settings; ``agg`` among them says how several references combine.
        model: on its device.
        directions: what is averaged.
    """

    def __init__(self, metric: ModelMetric, model: Any, directions: Sequence[Direction]) -> None:
        is_best = getattr(metric, "agg", "mean") == "max"
        self.info = replace(metric.info, multi_reference="best" if is_best else "mean")
        self.directions = tuple(directions)
        self.batch_tokens = model.batch_tokens
        self.identity = metric.identity(model.device)

    @abstractmethod
    def pair_values(self, reps: Reps, pairs: IntArray) -> FloatArray:
        """The values of distinct pairs, [n], from the rows of condition and target of each, [n, 2]."""

    def pairs(self, blocks: Sequence[Block]) -> tuple[IntArray, IntArray]:
        """Rows of condition and target of distinct pairs [n, 2], and which of them every direction of every cell is."""
        if self.info.needs_references:
            h, r = cell_rows(blocks)
            rows: dict[Side, IntArray] = {"hypothesis": h, "reference": r}
        else:
            h, s = hypothesis_rows(blocks)
            rows = {"hypothesis": h, "source": s}
        both = [np.stack((rows[d.condition], rows[d.target]), axis=1) for d in self.directions]
        distinct, places = np.unique(np.concatenate(both), axis=0, return_inverse=True)
        return distinct, places.reshape(-1)

    def sides(self, block: Block) -> dict[Side, IntArray]:
        """The rows of a block on each side."""
        source = np.array([block.source] if block.source >= 0 else [], np.int64)
        return {"hypothesis": block.hypotheses, "reference": block.references, "source": source}

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The mean over the directions, [H, R] of every block ([H, 1] without references)."""
        pairs, places = self.pairs(blocks)
        values = self.pair_values(reps, pairs)[places]  # [directions * cells]
        means = values.reshape(len(self.directions), -1).mean(axis=0)  # [cells]
        return by_block(means, blocks)


class LikelihoodScorer(DirectedScorer):
    """Represents a text by the encoder's states, its labels and which of them are scored; compares by the decoder.

    Args:
        metric: the settings.
        loaded: from `load`.
        extent: which labels are scored, of what the reader has read.
        directions: what is averaged.
    """

    def __init__(
        self,
        metric: ContextModelMetric,
        loaded: tuple[Reader, Seq2Seq],
        extent: Callable[[Reps], Extent],
        directions: Sequence[Direction],
    ) -> None:
        self.reader, self.model = loaded
        super().__init__(metric, self.model, directions)
        self.extent = extent
        self.only_sources = all(direction.condition == "source" for direction in directions)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids, and whether other texts are scored given this one."""
        read = self.reader.read(items)
        is_condition = [item.side == "source" or not self.only_sources for item in items]
        columns = {**read.columns, "given": np.array(is_condition)}
        return Reps(columns), read["ids"].lengths

    def represent(self, prepared: Reps) -> Reps:
        """Ragged "states" [tokens, d] of what is given, and of every text the labels "ids" and which are scored."""
        ids, is_condition = prepared["ids"], prepared["given"]
        extent = self.extent(prepared)
        states = self.model.encode(ids[np.flatnonzero(is_condition)])
        num_states = np.where(is_condition, ids.lengths, 0)  # [rows]
        return Reps(
            {
                "states": Ragged.of_lengths(states.values, num_states),
                "ids": ids,
                "prefix": extent.first + 1,
                "scored": np.clip(ids.lengths - extent.first, 0, extent.length),
                "wanted": extent.length,
            }
        )

    def pair_values(self, reps: Reps, pairs: IntArray) -> FloatArray:
        """Mean log-probabilities of the targets, [n]."""
        sums = self.model.log_likelihoods(reps["states"], _targets(reps), pairs)
        means: FloatArray = sums / reps["wanted"][pairs[:, 1]]
        return means

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Tokens that the decoder reads for a block."""
        targets, rows = _targets(reps), self.sides(block)
        # Of a square block, all directions need the same pairs.
        directions = self.directions[:1] if block.square else self.directions
        return sum(len(rows[d.condition]) * targets.num_tokens(rows[d.target]) for d in directions)

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One of the encoder for every text that is a condition, one of the decoder for every ordered pair."""
        pairs, _ = self.pairs([block])
        lengths = reps["ids"].lengths
        of_sources, of_pairs = lengths[np.unique(pairs[:, 0])], lengths[pairs]
        flops = self.model.flops(of_sources, of_pairs)
        return Passes(np.concatenate((of_sources, of_pairs[:, 1])), flops)

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """Mean log-probability in every direction."""
        # Slices, so that of no references none is taken.
        h = block.hypotheses[hypothesis : hypothesis + 1]
        r = block.references[reference : reference + 1]
        pairs, places = self.pairs([Block(h, r, block.source)])
        values = self.pair_values(reps, pairs)[places].tolist()
        names = [f"{target}_given_{condition}" for target, condition in self.directions]
        return dict(zip(names, values, strict=True))


def _targets(reps: Reps) -> Targets:
    """The labels of all texts, and which of them are scored."""
    return Targets(reps["ids"], reps["prefix"], reps["scored"])


class BARTMetric(ContextModelMetric):
    """The check that both metrics make."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context:
            problem = f"{self.name} is not defined with context"
            raise InputError(problem, where="context", fix="Leave it at 0")


@settings
class BARTScore(BARTMetric):
    """Hypothesis and reference, one given the other.

    Args:
        model: a folder or a name on the hub; BART, best trained on a task near the texts.
        direction: precision, recall or f (see above).
        agg: several references: the mean over them, or the best (max).
    """

    default_model: ClassVar[str] = "facebook/bart-large-cnn"
    direction: Literal["f", "precision", "recall"] = "f"
    agg: Literal["mean", "max"] = "mean"
    name: ClassVar[str] = "bartscore"
    info: ClassVar[Info] = Info(
        summary="likelihood of the text given the reference, of the reference given the text, or both",
        reasons="mean log-probability of a token in each direction: 0 if certain, more negative if less likely",
        papers=("yuan2021bartscore",),
        bounds=(-inf, 0.0),
        symmetric=True,
        multi_reference="mean",
        bucketed=True,
        costly_pairs=True,
        version=2,
    )

    @property
    def symmetric(self) -> bool:
        """Of both directions together."""
        return self.direction == "f"

    def load(self) -> LikelihoodScorer:
        """The model."""
        return LikelihoodScorer(self, load(self, Frame.of), _extent, DIRECTIONS[self.direction])


@settings
class BARTScoreFaithfulness(BARTMetric):
    """The hypothesis given its source.

    Args:
        model: a folder or a name on the hub; BART, best trained on a task near the texts.
    """

    default_model: ClassVar[str] = "facebook/bart-large-cnn"
    name: ClassVar[str] = "bartscore-faithfulness"
    info: ClassVar[Info] = Info(
        summary="likelihood of the text given its source",
        reasons="mean log-probability of a token in each direction: 0 if certain, more negative if less likely",
        papers=("yuan2021bartscore",),
        needs_source=True,
        needs_references=False,
        bounds=(-inf, 0.0),
        bucketed=True,
        version=2,
    )

    def load(self) -> LikelihoodScorer:
        """The model."""
        return LikelihoodScorer(self, load(self, Frame.of), _extent, (HYPOTHESIS_GIVEN_SOURCE,))


def _extent(read: Reps) -> Extent:
    """Every label."""
    length = read["ids"].lengths
    return Extent(np.zeros_like(length), length)


@settings
class Prism(ContextModelMetric):
    """Mean log-probability of each text given the other.

    Args:
        model: a folder or a name on the hub; mBART-50.
        lang: language of the texts, such as de or de_DE.
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

    default_model: ClassVar[str] = "facebook/mbart-large-50"
    lang: str | None = None
    context_from: Literal["reference", "hypothesis"] | None = None
    name: ClassVar[str] = "prism"
    info: ClassVar[Info] = Info(
        summary="likelihood of either text given the other",
        reasons="mean log-probability of a token in each direction: 0 if certain, more negative if less likely",
        papers=("thompson2020prism",),
        bounds=(-inf, 0.0),
        symmetric=True,
        multi_reference="mean",
        bucketed=True,
        costly_pairs=True,
        version=2,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lang is not None:
            object.__setattr__(self, "lang", language_code(self.lang))

    def for_language(self, lang: str) -> Self:
        """The metric with this language where none is set."""
        code = lang if lang in CODES else lang.lower().replace("_", "-").partition("-")[0]
        return self if self.lang else self.with_defaults(lang=language_code(code))

    def load(self) -> LikelihoodScorer:
        """The model."""
        if self.lang is None:
            fix = 'Name that of the texts, such as lang="de"'
            raise InputError("no language", where=f"{self.name}: lang", fix=fix)
        return LikelihoodScorer(self, load(self, self._frame), self._extent, DIRECTIONS["f"])

    def _frame(self, tokenizer: Any) -> Frame:
        """The language tag before every text, and the end of sequence behind it and its sentences."""
        tag = tokenizer.convert_tokens_to_ids(self.lang)
        if tag in (None, tokenizer.unk_token_id):
            raise ModelLoadError(
                f"the tokenizer has no tag {self.lang}",
                where=str(tokenizer.name_or_path),
                fix="Give a model with the language tags of mBART-50",
            )
        return Frame(tag, tokenizer.eos_token_id, tokenizer.eos_token_id)

    def _extent(self, read: Reps) -> Extent:
        """From the last separator, or the language tag, to the last token of the sentence."""
        if self.truncates == "reference":
            # Where the last separator would be if nothing had been left out; it may be past the end.
            first = read["whole"] - read["own"] - 2
            return Extent(first, read["own"] + 1)
        first = read["start"] - 1
        last = read["ids"].lengths - 1
        return Extent(first, last - first)


def language_code(lang: str) -> str:
    """The language tag of mBART-50 for a language.

    >>> language_code("de"), language_code("pt_XX")
    ('de_DE', 'pt_XX')

    Raises:
        InputError: it has none.
    """
    code = BY_LANGUAGE.get(lang, lang)
    if code not in CODES:
        raise unknown("language", lang, [*BY_LANGUAGE, *CODES], where="lang")
    return code
