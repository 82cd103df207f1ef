"""Prism (Thompson and Post 2020) and Doc-Prism (Vernikos et al. 2022): either text as a paraphrase of the other.

    u(h, r) = (g(h | r) + g(r | h)) / 2,   g(y | x) = 1/(n + 1) sum_{t=0..n} log p(y_t | y_<t, x)

by a multilingual encoder-decoder (mBART-50) that is given and asked for one language; y_1 ... y_n are the tokens of the
sentence, y_0 the language tag before it or, with ``context=k``, the separator after the k sentences that both texts
begin with. At most 0, higher is better, symmetric; an empty text is scored by y_0 alone. Where the released code cuts a
sentence off, ``truncation="reference"`` scores as it does: what is left of the sum, still divided by n + 1; that may be
nothing, and then 0, the best value.
"""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar, Literal, Self

from ...errors import InputError, ModelLoadError, unknown
from ...representations import Reps
from ...scorer import Info
from ...spec.checked_settings import settings
from ..models.context_tokens import Frame
from ..models.settings import ContextModelMetric
from .likelihood_scorer import (
    HYPOTHESIS_GIVEN_REFERENCE,
    REFERENCE_GIVEN_HYPOTHESIS,
    Extent,
    LikelihoodScorer,
    load,
)

TAGS = (
    "af_ZA ar_AR az_AZ bn_IN cs_CZ de_DE en_XX es_XX et_EE fa_IR fi_FI fr_XX gl_ES gu_IN he_IL hi_IN hr_HR id_ID it_IT "
    "ja_XX ka_GE kk_KZ km_KH ko_KR lt_LT lv_LV mk_MK ml_IN mn_MN mr_IN my_MM ne_NP nl_XX pl_PL ps_AF pt_XX ro_RO ru_RU "
    "si_LK sl_SI sv_SE sw_KE ta_IN te_IN th_TH tl_XX tr_TR uk_UA ur_PK vi_VN xh_ZA zh_CN"
)
CODES = tuple(TAGS.split())
BY_LANGUAGE = {code[:2]: code for code in CODES}


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
    counts_passes: ClassVar[bool] = True
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
        directions = (HYPOTHESIS_GIVEN_REFERENCE, REFERENCE_GIVEN_HYPOTHESIS)
        return LikelihoodScorer(self, load(self, self._frame), self._extent, directions)

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
