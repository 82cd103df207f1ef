"""XCOMET (Guerreiro et al. 2024): a sentence score, and spans of mistakes with their severity.

    S = .12 a(h, s) + .33 a(h, r) + .33 a(h, s, r) + .22 mqm,   S = .78 a + .22 mqm  where there is one input
    a(.) = min(1, ff(E_0(.))),   mqm = (25 - min(25, sum of 1, 5, 10 for a minor, major, critical mistake)) / 25

The inputs are read side by side, the hypothesis first; labels of its tokens are averaged over them (1/6, 1/3, 1/2).
``xcomet`` reads source and reference, or the reference alone where no source is given; ``xcomet-qe`` the source alone.
At most 1, may fall below 0, higher is better, not symmetric; an empty text is scored like any other. mqm counts
mistakes, not mistakes per word, so scores of long texts are low. With ``context=1`` two sentences, joined by a blank,
are scored as one text; a document is the mean of its windows.

XCOMET's spans of mistakes, from the label probabilities of tokens, and their penalties.

    label_t = argmax_l p_t(l),   l = none, minor, major, critical

A span begins at a token with a mistake behind one without, has that token's severity whatever follows, and ends before
the next token without a mistake. Penalties are 1, 5 and 10; mqm = (25 - min(25, their sum)) / 25.

Two rules: "reference" is that of the released code, which labels the tokens around the text too, as if they were words,
and drops a span that reaches the last of them; "clean" labels the text alone and keeps every span. There a token that
is nothing but a blank continues a mistake and begins none.

Scorer of XCOMET: up to three inputs per pair; that of hypothesis and source is shared by all its pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelLoadError
from ..execution.store import Store, in_batches
from ..representations import (
    TRUNCATION_COLUMN,
    Block,
    FloatArray,
    IntArray,
    Ragged,
    Reps,
    by_block,
    by_hypothesis,
    cell_rows,
    hypothesis_rows,
)
from ..scorer import Info, Scorer
from ..spec.checked_settings import Field, settings
from ..text.texts import Item, Text, Truncation
from .comet.metric import CometCheckpointMetric, JoinedTexts, SideBySide
from .comet.network import Head, Mixer
from .models.context_tokens import Reader
from .models.encoder import Encoder
from .models.settings import JoinedScorer, WindowMetric, as_rows, in_row

Rule = Literal["reference", "clean"]
Severity = Literal["minor", "major", "critical"]
SEVERITIES: tuple[Severity, ...] = ("minor", "major", "critical")
# Penalty of each label.
PENALTIES = np.array([0.0, 1.0, 5.0, 10.0])
WORST = 25.0
# Weights of the sentence scores with source, with reference, with both, and of mqm; of the labels of the three inputs.
SENTENCE_WEIGHTS, MQM_WEIGHT = (0.12, 0.33, 0.33), 0.22
LABEL_WEIGHTS = (1 / 6, 1 / 3, 1 / 2)
# Where there is one input, its score has the weights of all three.
ONE_INPUT_WEIGHT = sum(SENTENCE_WEIGHTS)
# Pairs whose label probabilities are held together.
PAIRS = 1 << 12
# How tokenizers write a token that is a blank alone.
BLANKS = ("▁", "Ġ", " ")
# From about this length on, scores are known to sink with length.
LONG_TOKENS = 200


@settings
class XCometMetric(WindowMetric, CometCheckpointMetric):
    """Loading of a checkpoint, and spans, for both metrics.

    Args:
        model: an XCOMET folder, its .ckpt file, or a name on the hub.
        decode: how spans of mistakes are found: reference, as in the released code, or clean, in the text alone.
        decoding_threshold: a token has a mistake where the probabilities of mistakes add up to more than this; where no
            mistake is less probable than any if not given.
    """

    default_model: ClassVar[str] = "Unbabel/XCOMET-XL"
    max_context: ClassVar[int] = 1
    decode: Rule = "reference"
    decoding_threshold: Annotated[float, Field(ge=0, le=1)] | None = None

    def load(self) -> Scorer:
        """The checkpoint, with its encoder's configuration and tokenizer."""
        self.check_files()
        checkpoint = self.checkpoint()
        if checkpoint.settings.word_layer is None:
            problem = f"a {checkpoint.kind} has no labels of words, expected an xcomet_metric"
            raise ModelLoadError(
                problem, where=f"{self.name}: {checkpoint.path}", fix="Use comet or comet-qe"
            )
        parts = self.loaded_parts(checkpoint, "reference")
        inputs = InputReader(
            parts.encoder,
            parts.mixer,
            parts.head,
            checkpoint.settings.word_layer,
            parts.trained["hidden2tag"],
            parts.joining,
        )
        scorer = XCometScorer(self, parts.reader, inputs)
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
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

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
    """Score and mistakes of a hypothesis, given the source."""

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


class TokenSpans(NamedTuple):
    """Spans of many texts: text, first token, token behind the last one (counted in the text), label; [spans] each."""

    text: IntArray
    first: IntArray
    end: IntArray
    label: IntArray


class ErrorSpan(NamedTuple):
    """A mistake in a hypothesis: its text, characters from `start` to before `end`, severity, confidence (0 to 1)."""

    text: str
    start: int
    end: int
    severity: Severity
    confidence: float


def labels_of(probabilities: NDArray[np.float32], threshold: float | None) -> IntArray:
    """The label of every token [tokens] from label probabilities [tokens, 4].

    With a threshold, a token has a mistake, the most probable one, where those of mistakes add up to more.
    """
    if threshold is None:
        most_probable: IntArray = probabilities.argmax(axis=1)
        return most_probable
    mistakes = probabilities[:, 1:]  # [tokens, 3]
    is_mistake = mistakes.sum(axis=1) > threshold
    return np.where(is_mistake, mistakes.argmax(axis=1) + 1, 0)


def spans_of(labels: Ragged, is_blank: NDArray[np.bool_], rule: Rule) -> TokenSpans:
    """The spans of texts from the labels of their tokens, those around each text included.

    is_blank: which tokens are nothing but a blank, [tokens].
    """
    values = labels.values
    first_tokens, ends = labels.offsets[:-1], labels.offsets[1:]
    if rule == "clean":
        values = values.copy()
        values[first_tokens] = 0
        values[ends - 1] = 0
        before = np.concatenate(([0], values[:-1]))
        values = np.where(is_blank, before, values)  # the first token of a text is no blank
    is_mistake = values > 0
    # A span begins where a mistake follows none, or at the first token of a text.
    follows_one = np.concatenate(([False], is_mistake[:-1]))
    follows_one[first_tokens] = False
    begin = np.flatnonzero(is_mistake & ~follows_one)
    # It ends before the next token without a mistake; one that reaches the end of its text is dropped.
    right = np.flatnonzero(~is_mistake)
    places = np.searchsorted(right, begin)
    end = np.append(right, len(values))[places]
    text = np.searchsorted(labels.offsets, begin, "right") - 1
    closed = end < ends[text]
    begin, end, text = begin[closed], end[closed], text[closed]
    start = first_tokens[text]
    return TokenSpans(text, begin - start, end - start, values[begin])


def mqm_of(spans: TokenSpans, num_texts: int) -> FloatArray:
    """(25 - min(25, summed penalties)) / 25 of every text, [texts]."""
    penalties = np.bincount(spans.text, PENALTIES[spans.label], num_texts).astype(np.float64)
    return (WORST - np.minimum(WORST, penalties)) / WORST


class XCometScorer(JoinedScorer):
    """Represents a text by its ids and its characters; compares by the encoder, the estimator and the labels."""

    def __init__(self, metric: XCometMetric, reader: Reader, inputs: InputReader) -> None:
        super().__init__(metric, inputs.encoder, inputs.joining.max_tokens)
        self.reader, self.inputs, self.encoder = reader, inputs, inputs.encoder
        self.rule, self.threshold = metric.decode, metric.decoding_threshold
        self.joining = inputs.joining
        self.is_warned = False
        # Tokens that are nothing but a blank.
        tokenizer = reader.tokenizer
        vocabulary = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        blank = [number for number, token in enumerate(vocabulary) if token in BLANKS]
        self.blank_tokens = np.array(blank, np.int64)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids of every window, the sentence behind its context; and its characters, as UTF-8."""
        windows = [item.window for item in items]
        read = self.reader.read([Item(window) for window in windows])
        ids = read["ids"]
        columns = {"ids": ids, "text": as_rows(windows)}
        return Reps({**columns, TRUNCATION_COLUMN: read[TRUNCATION_COLUMN]}), ids.lengths

    def sequence_lengths(self, lengths: IntArray, block: Block) -> IntArray:
        """One for every hypothesis with its source, and with its references one or two for every pair."""
        return self.joining.lengths(lengths, block, block.source >= 0, self.info.needs_references)

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """Whether the longest sequence of a block loses its end; warns once of long ones, whose scores sink."""
        longest = self.longest(reps, block)
        if longest > LONG_TOKENS and not self.is_warned:
            self.is_warned = True
            warn(
                f"xcomet: {longest} tokens are read together; scores of long texts sink with their length. "
                "Score sentences, and compare no texts of very different length",
                stacklevel=2,
            )
        return super().pair_truncation(reps, block)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block, or [H, 1] without references."""
        values: list[FloatArray] = [np.empty(0)] * len(blocks)
        # What a block reads decides which inputs there are.
        for sourced in (False, True):
            numbers = [i for i, block in enumerate(blocks) if (block.source >= 0) == sourced]
            chosen = [blocks[i] for i in numbers]
            if chosen:
                for i, matrix in zip(numbers, self._alike(reps, chosen), strict=True):
                    values[i] = matrix
        return values

    def _alike(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values of blocks that all have a source or all have none."""
        hypotheses, sources = hypothesis_rows(blocks)
        references = None
        if self.info.needs_references:
            hypotheses, references = cell_rows(blocks)
            sources = np.repeat([b.source for b in blocks], [b.cells for b in blocks])
        values = []
        for start in range(0, len(hypotheses), PAIRS):
            part = slice(start, start + PAIRS)
            of_part = None if references is None else references[part]
            given = sources[part] if blocks[0].source >= 0 else None
            values.append(self._judged(reps["ids"], hypotheses[part], of_part, given).values)
        by = by_hypothesis if references is None else by_block
        return by(np.concatenate(values), blocks)

    def _judged(
        self,
        ids: Ragged,
        hypotheses: IntArray,
        references: IntArray | None,
        sources: IntArray | None,
    ) -> JudgedPairs:
        """Values and label probabilities of pairs; rows of their texts, [pairs] each, None where there are none."""
        reads: list[Read] = []
        if sources is not None:
            # Once for every hypothesis with its source.
            rows = np.stack((hypotheses, sources), axis=1)
            distinct, place = np.unique(rows, axis=0, return_inverse=True)
            reads.append(self.inputs.read(ids, list(distinct.T)).take(place.reshape(-1)))
        if references is not None:
            reads.append(self.inputs.read(ids, [hypotheses, references]))
            if sources is not None:
                reads.append(self.inputs.read(ids, [hypotheses, sources, references]))
        values = ONE_INPUT_WEIGHT * np.minimum(reads[0].scores, 1)
        probabilities = reads[0].labels
        if len(reads) > 1:
            # Added up in the order source, reference, both.
            values, total = np.zeros(len(hypotheses)), np.zeros_like(probabilities.values)
            for weight, of_labels, read in zip(SENTENCE_WEIGHTS, LABEL_WEIGHTS, reads, strict=True):
                values = values + weight * np.minimum(read.scores, 1)
                total = total + np.float32(of_labels) * read.labels.values  # [tokens, 4]
            probabilities = Ragged(total, probabilities.offsets)
        spans = self._spans(probabilities, ids[hypotheses].values)
        values = values + MQM_WEIGHT * mqm_of(spans, len(hypotheses))
        return JudgedPairs(values, probabilities, spans)

    def _spans(self, probabilities: Ragged, tokens: IntArray) -> TokenSpans:
        """The spans of texts, from label probabilities of their tokens and the ids of these [tokens]."""
        labels = labels_of(probabilities.values, self.threshold)
        is_blank = np.isin(tokens, self.blank_tokens)
        return spans_of(Ragged(labels, probabilities.offsets), is_blank, self.rule)

    def spans(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> list[ErrorSpan]:
        """The mistakes of a pair (positions in the block), in order."""
        row = block.hypotheses[hypothesis : hypothesis + 1]
        references = None
        if self.info.needs_references:
            references = block.references[reference : reference + 1]
        sources = np.array([block.source]) if block.source >= 0 else None
        judged = self._judged(reps["ids"], row, references, sources)
        text = in_row(reps["text"], int(row[0]))
        return self._in_characters(text, judged.probabilities.values, judged.spans)

    def _in_characters(
        self, text: str, probabilities: NDArray[np.float32], spans: TokenSpans
    ) -> list[ErrorSpan]:
        """The spans of one text in characters; probabilities: of its tokens, [tokens, 4]."""
        offsets = self.reader.character_offsets(text)  # [tokens, 2]
        labels = labels_of(probabilities, self.threshold)
        result = []
        for first, end, label in zip(spans.first, spans.end, spans.label, strict=True):
            # how sure the model is of it: the mean probability of its tokens' labels
            inside = np.arange(first, end)
            winning = probabilities[inside, labels[inside]]
            start, stop = int(offsets[first, 0]), int(offsets[end - 1, 1])
            # tokens begin with the white space before them
            if self.rule == "clean":
                start += len(text[start:stop]) - len(text[start:stop].lstrip())
            marked = text[start:stop].strip()
            severity = SEVERITIES[label - 1]
            result.append(ErrorSpan(marked, start, stop, severity, float(winning.mean())))
        return result

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The mistakes of a pair, in characters of the hypothesis."""
        spans = self.spans(reps, block, hypothesis, reference)
        return {"errors": [span._asdict() for span in spans]}


class Read(NamedTuple):
    """Values of one input for n pairs: sentence scores [n], and label probabilities of the hypothesis's tokens."""

    scores: FloatArray
    labels: Ragged  # float32 [tokens, 4] of each pair

    def take(self, rows: IntArray) -> Read:
        """Those of some pairs."""
        return Read(self.scores[rows], self.labels[rows])


class InputReader:
    """Runs the encoder, the estimator and the labels.

    Args:
        encoder: the encoder.
        mixer: makes one vector of its layers.
        head: the estimator of the sentence score.
        word_layer: whose states give labels.
        word_labels: the linear layer of the labels, weight [4, d] and bias [4].
        joining: how the texts of an input stand side by side.
    """

    def __init__(
        self,
        encoder: Encoder,
        mixer: Mixer,
        head: Head,
        word_layer: int,
        word_labels: Any,
        joining: SideBySide,
    ) -> None:
        self.encoder = encoder
        self.mixer = mixer
        self.head = head
        self.word_layer = word_layer
        self.label_weight = word_labels.weight.float().to(encoder.device)  # [4, d]
        self.label_bias = word_labels.bias.float().to(encoder.device)  # [4]
        self.joining = joining

    def read(self, ids: Ragged, parts: Sequence[IntArray]) -> Read:
        """Values of the input made of one row of each part, the hypothesis first; rows of the texts, [n] each."""
        joined = self.joining.sequences(ids, parts)
        num_tokens = ids.lengths[parts[0]]  # of the hypotheses, [n]

        def run(numbers: IntArray) -> Read:
            return self._batch(joined.take(numbers), num_tokens[numbers])

        batches, places = in_batches(joined.ids.lengths, self.encoder.batch_tokens, run)
        scores = np.concatenate([batch.scores for batch in batches])
        values = np.concatenate([batch.labels.values for batch in batches])
        of_batches = [batch.labels.lengths for batch in batches]
        labels = Ragged.of_lengths(values, np.concatenate(of_batches))
        return Read(scores, labels).take(places)

    def _batch(self, joined: JoinedTexts, num_tokens: IntArray) -> Read:
        """Values of some sequences; num_tokens: of their hypotheses, [n]."""
        states = self.encoder.states(joined.ids, True, joined.types)
        with self.encoder.torch.inference_mode():
            scores = self.head.whole(self.mixer.vectors(states, None))
            of_tokens = self._label_probabilities(states.layers[self.word_layer].float())
        labels = states.packing.ragged(of_tokens)
        # the tokens of the hypothesis, which stands first, have labels
        place = np.arange(len(labels.values)) - np.repeat(labels.offsets[:-1], labels.lengths)
        is_labelled = place < np.repeat(num_tokens, labels.lengths)
        kept = np.minimum(num_tokens, labels.lengths)
        return Read(scores, Ragged.of_lengths(labels.values[is_labelled], kept))

    def _label_probabilities(self, states: Any) -> Any:
        """Probabilities of the four labels, float32 [tokens, 4], of states [tokens, d]."""
        # Products and sums of single rows: no probability depends on other tokens.
        logits = [(states * weight).sum(1) for weight in self.label_weight]
        return (self.encoder.torch.stack(logits, 1) + self.label_bias).softmax(1)


class JudgedPairs(NamedTuple):
    """Values of all inputs for n pairs: values [n], label probabilities of the hypotheses' tokens, their spans."""

    values: FloatArray
    probabilities: Ragged
    spans: TokenSpans
