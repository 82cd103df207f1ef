"""XCOMET (Guerreiro et al. 2024): a sentence score, and spans of mistakes with their severity.

    S = .12 a(h, s) + .33 a(h, r) + .33 a(h, s, r) + .22 mqm,   S = .78 a + .22 mqm  where there is one input
    a(.) = min(1, ff(E_0(.))),   mqm = (25 - min(25, sum of 1, 5, 10 for a minor, major, critical mistake)) / 25

The inputs are read side by side, the hypothesis first; labels of its tokens are averaged over them (1/6, 1/3, 1/2).
``xcomet`` reads source and reference, or the reference alone where no source is given; ``xcomet-qe`` the source alone.
At most 1, may fall below 0, higher is better, not symmetric; an empty text is scored like any other. mqm counts
mistakes, not mistakes per word, so scores of long texts are low. With ``output="errors"`` a value is the sum of the
penalties, as in MQM: lower is better, and the mean over a system's segments tells systems apart whose texts all have
the worst mqm. With ``context=1`` two sentences, joined by a blank,
are scored as one text; a document is the mean of its windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal, cast

from ...errors import InputError, ModelLoadError
from ...execution.store import Store
from ...scorer import Info, Scorer
from ...spec.checked_settings import Field, settings
from ...text.texts import Text
from ..comet.metric import CometCheckpointMetric
from .error_spans import ErrorSpan, Rule
from .xcomet_scorer import InputReader, Output, Settings, XCometScorer

# Sentences before the current one that a window may have.
MAX_CONTEXT = 1


class XCometMetric(CometCheckpointMetric):
    """Loading of a checkpoint, and spans, for both metrics."""

    decode: Rule
    decoding_threshold: float | None
    output: Output

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context > MAX_CONTEXT:
            raise InputError(
                f"context={self.context}: it reads 512 tokens of all texts together, and long texts score low",
                where=self.name,
                fix=f"At most {MAX_CONTEXT} sentence of context",
            )
        if self.output == "errors":
            # The direction is that of the class but here.
            info = replace(type(self).info, higher_is_better=False, bounds=(0, inf))
            object.__setattr__(self, "info", info)

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The paper of XCOMET; its windows are in no paper."""
        return cls.info.papers

    def load(self) -> Scorer:
        """The checkpoint, with its encoder's configuration and tokenizer."""
        self.check_files()
        checkpoint = self.checkpoint()
        if checkpoint.word_layer is None or checkpoint.word_labels is None:
            problem = f"a {checkpoint.kind} has no labels of words, expected an xcomet_metric"
            raise ModelLoadError(
                problem, where=f"{self.name}: {checkpoint.path}", fix="Use comet or comet-qe"
            )
        parts = self.loaded_parts(checkpoint, "reference")
        inputs = InputReader(
            parts.encoder,
            parts.mixer,
            parts.head,
            checkpoint.word_layer,
            checkpoint.word_labels,
            parts.joining,
        )
        finding = Settings(self.decode, self.decoding_threshold, self.output)
        scorer = XCometScorer(self, parts.reader, inputs, finding)
        scorer.identity += parts.stamp
        return scorer

    def spans(
        self,
        hypotheses: Sequence[Text],
        references: Sequence[Text] | None = None,
        sources: Sequence[Text] | None = None,
    ) -> list[list[ErrorSpan]]:
        """The mistakes of every hypothesis, each with text, start, end, severity and confidence.

        Args:
            hypotheses: n texts.
            references: one text per hypothesis, for ``xcomet``.
            sources: one text per hypothesis.

        Raises:
            InputError: as `score`.
        """
        scorer = cast(XCometScorer, self.scorer)
        store = Store(scorer)
        blocks = store.add(self.segments(hypotheses, references, sources, None))
        return [scorer.spans(store.reps, block, 0, 0) for block in blocks]


@settings
class XComet(XCometMetric):
    """Score and mistakes of a hypothesis, given a reference, and the source where there is one.

    Args:
        model: an XCOMET folder, its .ckpt file, or a name on the hub.
        encoder_path: folder or hub name with the encoder's configuration and tokenizer; the checkpoint names one.
        decode: how spans of mistakes are found: reference, as in the released code, or clean, in the text alone.
        decoding_threshold: a token has a mistake where the probabilities of mistakes add up to more than this; where no
            mistake is less probable than any if not given.
        output: score; mqm, the part of it that counts mistakes; or errors, their summed penalties, not capped at 25,
            lower is better.
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

    default_model: ClassVar[str] = "Unbabel/XCOMET-XL"
    encoder_path: str | None = None
    decode: Rule = "reference"
    decoding_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    output: Output = "score"
    context_from: Literal["reference", "hypothesis"] | None = None
    name: ClassVar[str] = "xcomet"
    info: ClassVar[Info] = Info(
        summary="trained regression and marked mistakes, texts read side by side",
        reasons=(
            "errors: mistakes that the model marks, with severity and its confidence in it, 0 to 1"
        ),
        papers=("guerreiro2024xcomet",),
        takes_source=True,
        multi_reference="mean",
        bucketed=True,
        costly_pairs=True,
        version=2,
    )


@settings
class XCometQE(XCometMetric):
    """Score and mistakes of a hypothesis, given the source.

    Args:
        model: an XCOMET folder, its .ckpt file, or a name on the hub.
        encoder_path: folder or hub name with the encoder's configuration and tokenizer; the checkpoint names one.
        decode: how spans of mistakes are found: reference, as in the released code, or clean, in the text alone.
        decoding_threshold: a token has a mistake where the probabilities of mistakes add up to more than this; where no
            mistake is less probable than any if not given.
        output: score; mqm, the part of it that counts mistakes; or errors, their summed penalties, not capped at 25,
            lower is better.
    """

    default_model: ClassVar[str] = "Unbabel/XCOMET-XL"
    encoder_path: str | None = None
    decode: Rule = "reference"
    decoding_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    output: Output = "score"
    name: ClassVar[str] = "xcomet-qe"
    info: ClassVar[Info] = Info(
        summary="trained regression and marked mistakes without a reference",
        reasons=(
            "errors: mistakes that the model marks, with severity and its confidence in it, 0 to 1"
        ),
        papers=("guerreiro2024xcomet",),
        needs_source=True,
        needs_references=False,
        bucketed=True,
        version=2,
    )
