"""COMET (Rei et al. 2020) and Doc-COMET (Vernikos et al. 2022): a trained head over pooled sentence vectors.

    comet     ff([h, r, h*r, |h-r|, h*s, |h-s|])      regression checkpoints (wmt20-comet-da, wmt22-comet-da, ...)
    comet-qe  ff([h, s, h*s, |h-s|])                  reference-free checkpoints (wmt20-comet-qe-da, ...)
    comet-poly  ff([h, s, h*s, |h-s|, c, c*s, |c-s|, c*h, |c-h|])      beside a candidate c (COMET-poly-cand1)

With ``context=k`` each text is encoded after the k sentences before it and pooled over its own tokens, and over the
first and last token of the whole sequence, which have read the context. Sources are read after sources, hypotheses and
references after references (``comet``), hypotheses after hypotheses (``comet-qe``). Unified checkpoints
(UniTE, CometKiwi) read texts side by side instead, without context:

    comet-qe  ff(E_0(mt src)),     comet  the mean of ff(E_0(.)) over (mt src), (mt ref), (mt src ref)

Unbounded, about 0 to 1 for most checkpoints, higher is better, not symmetric; an empty text is scored like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from ...errors import ModelLoadError
from ...execution.store import in_batches
from ...representations import (
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
from ...scorer import Info, Scorer
from ...spec.checked_settings import settings
from ...text.texts import Item
from ..models.context_tokens import Frame, Reader, TruncationRule
from ..models.encoder import Encoder
from ..models.files import model_files
from ..models.pretrained import from_state, tokenizer_of
from ..models.settings import (
    CheckpointMetric,
    ContextModelMetric,
    EncoderScorer,
    JoinedScorer,
    ModelMetric,
)
from .checkpoint import CometCheckpoint, CometSettings, Kind, read_checkpoint
from .network import Head, Mixer, PairHead, PairInputs, source_features, sparsemax

# Positions that COMET 2 leaves out: those of XLM-R's padding, and two more in a single text.
PADDING_POSITIONS, FREE_POSITIONS = 2, 2
# Families of encoders, by COMET's names, with one separator between two texts, and with types of tokens.
ONE_SEPARATOR, TYPED = ("BERT", "RemBERT"), ("BERT",)
# The metrics of every kind of checkpoint; those of a unified one depend on the texts that it reads.
METRICS: Mapping[Kind, tuple[str, ...]] = {
    "regression_metric": ("comet",),
    "referenceless_regression_metric": ("comet-qe",),
    "polycand_metric": ("comet-poly",),
    "xcomet_metric": ("xcomet", "xcomet-qe"),
}


class CometParts(NamedTuple):
    """The parts of a loaded checkpoint.

    Attributes:
        reader, encoder, mixer, head: they make ids, states, vectors and values.
        trained: all layers over the encoder, a torch module.
        joining: the form of texts side by side.
        stamp: a part of the keys of representations beside the signature.
    """

    reader: Reader
    encoder: Encoder
    mixer: Mixer
    head: Head
    trained: Any
    joining: SideBySide
    stamp: str


class CometCheckpointMetric(CheckpointMetric):
    """Loading of a checkpoint, for all metrics by those of COMET."""

    counts_passes: ClassVar[bool] = True

    def checkpoint(self) -> CometCheckpoint:
        """The checkpoint without its encoder's configuration; errors as `load`."""
        return read_checkpoint(model_files.locate(self.named("model"), self.revision))

    def loaded_parts(self, checkpoint: CometCheckpoint, truncation: TruncationRule) -> CometParts:
        """The parts of a checkpoint, with its encoder's configuration and tokenizer.

        Raises:
            ModelLoadError: the encoder's folder is not there, or not that of the checkpoint.
        """
        folder = encoder_folder(checkpoint, self.encoder_path)
        model = from_state(folder, checkpoint.encoder, self.has_weights)
        trained = checkpoint.trained_layers(
            model.config.num_hidden_layers, model.config.hidden_size
        )
        # XCOMET labels the states of a layer of its own: all of them run.
        is_last = checkpoint.settings.layer != "mix" and checkpoint.settings.word_layer is None
        layer = cast(int, checkpoint.settings.layer) if is_last else None
        encoder = Encoder(model, self.device, self.dtype, layer, self.batch_tokens)
        tokenizer = tokenizer_of(folder)
        # The most tokens of texts side by side, and of one text, as far as there are positions; see `SideBySide`.
        positions = int(getattr(encoder.config, "max_position_embeddings", encoder.max_tokens))
        joined = min(positions - PADDING_POSITIONS, encoder.max_tokens)
        most = joined - FREE_POSITIONS if self.max_tokens is None else min(self.max_tokens, joined)
        is_usual = most == encoder.max_tokens - FREE_POSITIONS
        return CometParts(
            Reader(tokenizer, Frame.of(tokenizer), most, truncation),
            encoder,
            mixer_of(checkpoint.settings, trained, encoder.device),
            head_of(checkpoint.settings, trained, encoder.device),
            trained,
            SideBySide.of(checkpoint.settings.encoder_model, joined),
            # An encoder that is not named is in no signature.
            f" {model_files.digest(folder, weights=False)}{'' if is_usual else f' {most} tokens'}",
        )


class CometMetric(CometCheckpointMetric):
    """Loading, and the checkpoints that each metric takes."""

    reference_free: ClassVar[bool]
    pair_inputs: ClassVar[PairInputs] = "source"

    def load(self) -> Scorer:
        """The checkpoint, with its encoder's configuration and tokenizer."""
        self.check_files()
        checkpoint = self.checkpoint()
        self._check(checkpoint)
        parts = self.loaded_parts(checkpoint, self.truncates)
        scorer: Scorer
        if checkpoint.kind == "unified_metric":
            segments = ("mt", "src") if self.reference_free else checkpoint.settings.input_segments
            scorer = UnifiedScorer(self, parts, segments)
        else:
            scorer = RegressionScorer(self, parts.reader, parts.encoder, parts.mixer, parts.head)
        scorer.identity += parts.stamp
        return scorer

    def _check(self, checkpoint: CometCheckpoint) -> None:
        """Raises ModelLoadError if this checkpoint is for another metric, or cannot read context."""
        settings, where = checkpoint.settings, f"{self.name}: {checkpoint.path}"
        names = METRICS.get(checkpoint.kind, ())
        if checkpoint.kind == "unified_metric":
            # Without the reference, a checkpoint that reads all three is one that reads the source.
            segments = {"comet": "ref", "comet-qe": "src"}
            names = tuple(name for name, own in segments.items() if own in settings.input_segments)
        if self.name not in names:
            fix = f"Use it as {' or '.join(f'{name}(model=...)' for name in names)}"
            raise ModelLoadError(f"it is a {checkpoint.kind}", where=where, fix=fix)
        if self.context and (checkpoint.kind == "unified_metric" or settings.pool == "max"):
            problem = f"context is not defined for a {checkpoint.kind} with {settings.pool} pooling"
            raise ModelLoadError(problem, where=where, fix="Set context=0, or use another")


@settings
class Comet(CometMetric):
    """A checkpoint that reads source, hypothesis and reference.

    Args:
        model: a COMET folder, its .ckpt file, or a name on the hub.
        context_from: whose target context a hypothesis is read in; if not given, the reference's in `score`, and its
            own in whole documents that are compared pairwise.
    """

    default_model: ClassVar[str] = "Unbabel/wmt22-comet-da"
    context_from: Literal["reference", "hypothesis"] | None = None
    reference_free: ClassVar[bool] = False
    name: ClassVar[str] = "comet"
    info: ClassVar[Info] = Info(
        summary="trained regression over sentence vectors of source, hypothesis and reference",
        papers=("rei2020comet",),
        needs_source=True,
        multi_reference="mean",
        bucketed=True,
        version=3,
    )

    @cached_property
    def costly_pairs(self) -> bool:
        """Unified checkpoints read texts side by side, a forward pass for each pair; errors as `load`."""
        return self.checkpoint().kind == "unified_metric"


@settings
class CometQE(CometMetric):
    """A checkpoint that reads source and hypothesis.

    Args:
        model: a COMET folder, its .ckpt file, or a name on the hub.
    """

    default_model: ClassVar[str] = "Unbabel/wmt20-comet-qe-da"
    reference_free: ClassVar[bool] = True
    name: ClassVar[str] = "comet-qe"
    info: ClassVar[Info] = Info(
        summary="trained regression over sentence vectors of source and hypothesis",
        papers=("rei2020comet",),
        needs_source=True,
        needs_references=False,
        bucketed=True,
        version=3,
    )

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of COMET, and that of CometKiwi for models of that name."""
        is_kiwi = "kiwi" in str(settings.get("model")).lower()
        kiwi = ("rei2022cometkiwi",) if is_kiwi else ()
        first, *context = super().cited(settings)
        return (first, *kiwi, *context)


@settings
class CometPoly(CometMetric):
    """A checkpoint that reads source, hypothesis and another candidate, which stands where others have the reference.

    Args:
        model: the folder of a COMET-poly that reads one further candidate, its .ckpt file, or a name on the hub.
    """

    default_model: ClassVar[str] = "zouharvi/COMET-poly-cand1-wmt25"
    reference_free: ClassVar[bool] = False
    pair_inputs: ClassVar[PairInputs] = "candidate"
    name: ClassVar[str] = "comet-poly"
    info: ClassVar[Info] = Info(
        summary="trained regression over sentence vectors of source, hypothesis and another candidate",
        papers=("zufle2025cometpoly",),
        needs_source=True,
        multi_reference="mean",
        bucketed=True,
    )


def encoder_folder(checkpoint: CometCheckpoint, named: str | None) -> Path:
    """The folder of the encoder's configuration and tokenizer: as named, else as the checkpoint says.

    Raises:
        ModelLoadError: there is no such folder.
    """
    try:
        return model_files.locate(named or checkpoint.settings.pretrained_model, weights=False)
    except ModelLoadError as error:
        fix = "Name its folder, configuration and tokenizer are enough: --encoder-path, encoder_path=..."
        where = f"encoder of {checkpoint.path}: {error.where}"
        raise ModelLoadError(error.problem, where=where, fix=fix) from error


def mixer_of(settings: CometSettings, trained: Any, device: Any) -> Mixer:
    """The mix of layers and the pooling of a checkpoint."""
    if settings.layer != "mix":
        return Mixer(None, None, False, settings.pool)
    import torch

    # A few numbers, which are looked at also where nothing else is loaded.
    device = "cpu" if device.type == "meta" else device
    mix = trained["layerwise_attention"]
    scalars = torch.cat(list(mix.scalar_parameters)).float().to(device)  # [layers + 1]
    sparse = settings.layer_transformation == "sparsemax"
    shares = sparsemax(scalars) if sparse else scalars.softmax(0)
    gamma = mix.gamma.float().to(device).clone()  # [1]
    return Mixer(shares, gamma, settings.layer_norm, settings.pool)


def head_of(settings: CometSettings, trained: Any, device: Any) -> Head:
    """The estimator of a checkpoint."""
    layers = [  # copies: tensors of a mapped file would change with it
        (layer.weight.float().to(device).clone(), layer.bias.float().to(device).clone())
        for layer in trained["estimator"]["ff"].values()
    ]
    final = activation(settings.final_activation) if settings.final_activation else None
    return Head(layers, activation(settings.activations), final)


def activation(name: str) -> Callable[[Any], Any]:
    """An activation of torch by its name, in place where it is the usual one."""
    import torch

    from ..models.elementwise import Elementwise

    return torch.Tensor.tanh_ if name == "Tanh" else Elementwise(getattr(torch.nn, name)())


class RegressionScorer(EncoderScorer):
    """Represents a text by its pooled vector; compares by the head over vectors of pairs, those of SEScore2 too."""

    def __init__(
        self, metric: ContextModelMetric, reader: Reader, encoder: Encoder, mixer: Mixer, head: Head
    ) -> None:
        super().__init__(metric, encoder, reader)
        self.mixer = mixer
        self.head = head
        self.in_context = metric.context > 0
        self.pair_head: PairHead | None = None
        if metric.info.needs_references:
            usual: PairInputs = "source" if metric.info.needs_source else "plain"
            self.pair_head = PairHead(head, getattr(metric, "pair_inputs", usual))

    def represent(self, prepared: Reps) -> Reps:
        """The pooled vectors, "embedding" float32 [rows, d]."""
        starts = prepared["start"] if self.in_context else None
        states = self.encoder.states(prepared["ids"], all_layers=self.mixer.shares is not None)
        return Reps({"embedding": self.mixer.vectors(states, starts).cpu().numpy()})

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block, or [H, 1] without references."""
        with self.encoder.torch.inference_mode():
            if self.pair_head is not None:
                return self.pair_head.compare(self._vectors(reps["embedding"]), blocks)
            return self._against_source(reps["embedding"], blocks)

    def _against_source(self, embedding: Any, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, 1] of every block; embedding: [rows, d]."""
        hypotheses, sources = hypothesis_rows(blocks)
        h = self._vectors(embedding[hypotheses])  # [hypotheses, d]
        s = self._vectors(embedding[sources])  # [hypotheses, d]
        return by_hypothesis(self.head.whole(source_features(h, s)), blocks)

    def _vectors(self, embedding: Any) -> Any:
        """An array [n, d] as a tensor on the encoder's device."""
        return self.encoder.torch.from_numpy(embedding).to(self.encoder.device)


class UnifiedScorer(JoinedScorer):
    """Represents a text by its ids; a pair is a forward pass, and the head reads the first vector of its sequence."""

    def __init__(self, metric: ModelMetric, parts: CometParts, segments: Sequence[str]) -> None:
        super().__init__(metric, parts.encoder, parts.joining.max_tokens)
        self.reader, self.encoder, self.mixer, self.head, _, self.joining, _ = parts
        self.with_source = "src" in segments
        self.with_reference = "ref" in segments

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids."""
        read = self.reader.read(items)
        ids = read["ids"]
        return Reps({"ids": ids, TRUNCATION_COLUMN: read[TRUNCATION_COLUMN]}), ids.lengths

    def sequence_lengths(self, lengths: IntArray, block: Block) -> IntArray:
        """One for every hypothesis with its source, and with its references one or two for every pair."""
        return self.joining.lengths(lengths, block, self.with_source, self.with_reference)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The head's value, or the mean of it over the readings that there are, [H, R] or [H, 1]."""
        ids = reps["ids"]
        readings: list[list[FloatArray]] = []
        if self.with_source:
            h, s = hypothesis_rows(blocks)
            readings.append(by_hypothesis(self._values(ids, [h, s]), blocks))
        if self.with_reference:
            h, r = cell_rows(blocks)
            readings.append(by_block(self._values(ids, [h, r]), blocks))
            if self.with_source:
                cells = [block.cells for block in blocks]
                s = np.repeat([block.source for block in blocks], cells)
                readings.append(by_block(self._values(ids, [h, s, r]), blocks))
        return [_mean(matrices) for matrices in zip(*readings, strict=True)]

    def _values(self, ids: Ragged, parts: Sequence[IntArray]) -> FloatArray:
        """The head's value of every sequence made of one row of each part, [n]; parts: rows of the texts, [n] each."""
        joined = self.joining.sequences(ids, parts)
        batches, places = in_batches(
            joined.ids.lengths, self.batch_tokens, lambda numbers: self._first(joined.take(numbers))
        )
        with self.encoder.torch.inference_mode():
            return self.head.whole(self.encoder.torch.cat(batches)[self.encoder.tensor(places)])

    def _first(self, joined: JoinedTexts) -> Any:
        """The first vector of the mix, [n, d]."""
        all_layers = self.mixer.shares is not None
        states = self.encoder.states(joined.ids, all_layers, joined.types)
        return self.mixer.vectors(states, None)


def _mean(matrices: Sequence[FloatArray]) -> FloatArray:
    """The mean of matrices [H, R] or [H, 1], element by element."""
    total: FloatArray = sum(matrices[1:], matrices[0])
    return total / len(matrices)


class JoinedTexts(NamedTuple):
    """Token ids, and the types of the tokens where the encoder has them."""

    ids: Ragged
    types: Ragged | None

    def take(self, rows: IntArray) -> JoinedTexts:
        """Some of the sequences."""
        return JoinedTexts(self.ids[rows], None if self.types is None else self.types[rows])


class SideBySide(NamedTuple):
    """The form in which an encoder reads texts side by side.

        FIRST mt LAST LAST src LAST,   FIRST mt LAST LAST ref LAST,   FIRST mt LAST LAST src LAST LAST ref LAST

    with the tokenizer of XLM-R, by which MiniLM is read too. BERT and RemBERT have a single LAST between two texts, and
    BERT a type for every token: 0 in the first text with the tokens around it, 1 behind it.

    COMET 2 counts two positions of every encoder as not the texts', those of XLM-R's padding, and leaves two more free
    in a single text: with n positions, n - 4 tokens of a text and n - 2 of texts side by side (510 and 512 for XLM-R,
    508 and 510 for BERT). COMET 1, the code of Doc-COMET, reads n - 2 tokens of a text.

    Args:
        separators: how many LAST stand between two texts.
        has_types: whether tokens have types.
        max_tokens: of a sequence; what is longer loses its right end, the last token too, as in the released code.
    """

    separators: int
    has_types: bool
    max_tokens: int

    @classmethod
    def of(cls, encoder_model: str, max_tokens: int) -> SideBySide:
        """That of a family of encoders, by COMET's name."""
        separators = 1 if encoder_model in ONE_SEPARATOR else 2
        return cls(separators, encoder_model in TYPED, max_tokens)

    def sequences(self, ids: Ragged, parts: Sequence[IntArray]) -> JoinedTexts:
        """Sequences made of one row of each part.

        Args:
            ids: of single texts, each with FIRST and LAST.
            parts: rows of the texts, [n] each.
        """
        rows = list(zip(*parts, strict=True))
        joined = [self._joined(ids, texts)[: self.max_tokens] for texts in rows]
        if not self.has_types:
            return JoinedTexts(Ragged.of_rows(joined), None)
        types = []
        for sequence, length in zip(joined, ids.lengths[parts[0]].tolist(), strict=True):
            is_behind = np.arange(len(sequence)) >= length
            types.append(is_behind.astype(np.int64))
        return JoinedTexts(Ragged.of_rows(joined), Ragged.of_rows(types))

    def _joined(self, ids: Ragged, rows: Sequence[int]) -> IntArray:
        """The whole sequence of some texts."""
        first, *others = [ids.values[ids.offsets[row] : ids.offsets[row + 1]] for row in rows]
        # the first text ends with a LAST itself
        further = first[-1:].repeat(self.separators - 1)
        pieces = [first]
        for other in others:
            # without its FIRST
            pieces += [further, other[1:]]
        return np.concatenate(pieces)

    def lengths(
        self, lengths: IntArray, block: Block, with_source: bool, with_reference: bool
    ) -> IntArray:
        """Lengths of all sequences of a block before any cut, from those of its texts.

        One for every hypothesis with the source, and with references one or two for every pair.
        """
        of_sequences: list[IntArray] = []
        of_source = lengths[block.source] if with_source else 0
        if with_source:
            of_sequences.append(lengths[block.hypotheses] + of_source + self._added(2))
        if with_reference:
            h, r = cell_rows([block])
            of_sequences.append(lengths[h] + lengths[r] + self._added(2))
            if with_source:
                of_sequences.append(lengths[h] + lengths[r] + of_source + self._added(3))
        return np.concatenate(of_sequences)

    def _added(self, num_texts: int) -> int:
        """Tokens of a sequence less those of its texts, each with FIRST and LAST; 0 or less."""
        return (num_texts - 1) * (self.separators - 2)
