"""Scores that a language model on a server gives in words: judges (Kocmi and Federmann 2023).

    judge     reads hypothesis and reference, and the source where it is given
    judge-qe  reads hypothesis and source; reference-free

The `prompt` decides the value: da and sqm 0 to 100, stars 1 to 5, mqm -25 to 0 (1, 5 and 25 off for a minor, major and
critical error), or a prompt file (`prompt_files`). With ``prompt="pairwise"``, of ``judge`` alone, two texts are
compared in both orders (Zheng et al. 2023):

    u(h, r) = (p(first better | h, r) + 1 - p(first better | r, h)) / 2,    u(h, h) = 1/2,

so that the expected utility of a candidate is its share of wins over the others. Higher is better, none is symmetric.
With `judgements` = k the value is the mean of k answers with the seeds seed to seed + k - 1, of those that have one;
where none has, it is NaN. An empty text is judged like any other. Answers are the server's: the same question is asked
once, and its answer kept (`answers`).
"""

from __future__ import annotations

from typing import ClassVar

from ...metrics.errors import InputError
from ...metrics.scorer import Info
from ...metrics.spec.checked_settings import settings
from .judge_metric import JudgeMetric
from .prompt_files import JudgePrompt
from .prompt_texts import BUILT_IN


@settings
class JudgeWithReference(JudgeMetric):
    """A judge that reads a reference, or compares two texts."""

    name: ClassVar[str] = "judge"
    info: ClassVar[Info] = Info(
        summary="a language model on a server judges a hypothesis beside a reference",
        reasons=("judgement: what the answers below are worth, on the scale of the prompt"),
        papers=("kocmi2023large",),
        may_lack=True,
        costly_pairs=True,
        takes_source=True,
    )

    def _check_prompt(self, prompt: JudgePrompt) -> None:
        if not (prompt.is_pairwise or "reference" in prompt.fields):
            fix = "Use judge-qe, or write {reference} into the prompt"
            raise InputError("reads no reference", where=f"{self.name}.prompt", fix=fix)
        super()._check_prompt(prompt)


@settings
class JudgeWithoutReference(JudgeMetric):
    """A judge that reads no reference."""

    name: ClassVar[str] = "judge-qe"
    info: ClassVar[Info] = Info(
        summary="a language model on a server judges a hypothesis beside its source",
        reasons=("judgement: what the answers below are worth, on the scale of the prompt"),
        papers=("kocmi2023large",),
        may_lack=True,
        costly_pairs=True,
        needs_source=True,
        needs_references=False,
    )

    def _check_prompt(self, prompt: JudgePrompt) -> None:
        if prompt.is_pairwise:
            fix = (
                'Use decode -u judge(prompt="pairwise"), or rerank -m expected -u judge(prompt="pairwise"): '
                "the share of wins over the other candidates"
            )
            raise InputError("compares two texts", where=f"{self.name}.prompt", fix=fix)
        if "reference" in prompt.fields and self.prompt not in BUILT_IN:
            fix = "Use judge, or take {reference} out of the prompt"
            raise InputError("reads a reference", where=f"{self.name}.prompt", fix=fix)
        super()._check_prompt(prompt)
