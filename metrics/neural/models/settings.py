"""Settings that all metrics with a model have: they name the model and say how it is run.

A signature names a model with a digest of its files; a metric made from one checks that the files are still the same.

Bases of scorers with a model: a forward pass for every text, for every pair of texts that are read together, or for
sequences that follow from pairs of texts.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from ...base import Metric
from ...errors import InputError, ModelLoadError
from ...representations import Block, IntArray, Ragged, Reps
from ...scorer import Passes, Reading, Scorer
from ...spec.checked_settings import Field, settings
from ...storage.checksums import MARK
from ...text.texts import Item, Truncation
from .context_tokens import Reader, TruncationRule, WholeTexts
from .encoder import DType, Encoder
from .files import model_files


@settings
class ModelMetric(Metric):
    """A metric that runs a model.

    Args:
        model: a folder, a name on the hub, or minilm.
        revision: which revision on the hub.
        max_tokens: the longest sequence read, in tokens; the model's own limit if not given.
        compat: "reference" computes what the released code computes, where paper and code disagree.
        dtype: precision of the model.
        device: where it runs; the first GPU if there is one, else the CPU. No part of the signature.
        batch_tokens: tokens in one batch, chosen by device if not given. No part of the signature.
    """

    model: str | None = None
    revision: str | None = None
    max_tokens: Annotated[int, Field(ge=8)] | None = None
    compat: Literal["reference"] | None = None
    dtype: DType = "float32"
    device: str | None = field(default=None, compare=False)
    batch_tokens: Annotated[int, Field(ge=1)] | None = field(default=None, compare=False)
    default_model: ClassVar[str | None] = ""
    # Settings that may name a folder of which configuration and tokenizer are read, no weights.
    folder_settings: ClassVar[tuple[str, ...]] = ()
    # Whether there is a scorer without weights, which counts forward passes.
    counts_passes: ClassVar[bool] = True
    # Patterns of files in the model's folder that scores depend on, beside those of every model.
    own_files: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.model is None:
            object.__setattr__(self, "model", self.default_model)
            self.__dict__["defaulted"] = ("model",)
        for name in self.file_settings:
            plain, digest = model_files.split(getattr(self, name) or "")
            if digest:
                object.__setattr__(self, name, plain)
                model_files.check(name, plain, digest, self._digest(name))

    def with_defaults(self, **values: Any) -> Self:
        """As every metric; a model counts as set where it was named, be it the default one."""
        model = values.pop("model", None)
        metric = super().with_defaults(**values)
        if "model" not in self.__dict__.get("defaulted", ()):
            return metric
        if model:
            return replace(metric, model=model)
        metric.__dict__["defaulted"] = self.__dict__["defaulted"]
        return metric

    @cached_property
    def digests(self) -> dict[str, str]:
        """Digest of the files that each setting names, as they were when it was first asked for."""
        return {name: self._digest(name) for name in self.file_settings if self.named(name)}

    @property
    def stamped(self) -> dict[str, str]:
        """Settings that name files, with their digests."""
        stamped = {}
        for name, digest in self.digests.items():
            stamped[name] = f"{self.named(name)}{MARK}{digest}"
        return stamped

    def identity(self, device: Any) -> str:
        """All that a representation depends on beside its text: signature, score version, kind of device, libraries."""
        from importlib.metadata import version

        from .linear_products import products_on

        parts = [
            self.signature(),
            str(self.info.version),
            device.type,
            version("torch"),
            version("transformers"),
            version("tokenizers"),
            products_on(device.type),
        ]
        return " ".join(parts)

    @property
    def products(self) -> str:
        """The backend of matrix products for the model on this machine; empty where the settings need none."""
        if "model" not in self.digests:
            return ""
        from .encoder import device_of
        from .linear_products import products_on

        return products_on(device_of(self.device).type)

    @property
    def reads(self) -> Reading:
        """Context sentences: a hypothesis has its own without references, and with them as `context_from` says."""
        context = getattr(self, "context", 0)
        if context and not self.info.needs_references:
            return Reading(context, "hypothesis")
        return Reading.of_setting(context, getattr(self, "context_from", None))

    def unloaded(self) -> Scorer | None:
        """A scorer on the device "meta", where tensors have shapes and no numbers."""
        return replace(self, device="meta").scorer if self.counts_passes else None

    @property
    def file_settings(self) -> tuple[str, ...]:
        """Settings that name files; what a model or its folder names itself goes without saying."""
        return ("model", *(name for name in self.folder_settings if getattr(self, name)))

    @property
    def has_weights(self) -> bool:
        """Whether weights are loaded."""
        return self.device != "meta"

    def named(self, name: str) -> str:
        """The files that a setting names, its default resolved."""
        return getattr(self, name) or ""

    def _digest(self, name: str) -> str:
        if name in self.folder_settings:
            folder = model_files.locate(self.named(name), weights=False)
            return model_files.digest(folder, weights=False)
        revision = self.revision if name == "model" else None
        also = self.own_files if name == "model" else ()
        path = model_files.locate(self.named(name), revision, also=also)
        return model_files.digest(path, also=also)

    def model_path(self) -> Path:
        """The model's folder or file, fetched if need be; errors as `check_files` and `model_files.locate`."""
        self.check_files()
        return model_files.locate(self.named("model"), self.revision, also=self.own_files)

    def check_files(self) -> None:
        """Raises ModelLoadError if files have changed since the metric was made, here or in another process."""
        for name, digest in self.digests.items():
            now = self._digest(name)
            if now != digest:
                raise ModelLoadError(
                    f"the files have changed: digest {now}, expected {digest}",
                    where=f"{name} {self.named(name)!r}",
                )


@settings
class ContextModelMetric(ModelMetric):
    """A metric whose model reads sentences after those before them.

    Args:
        context: how many preceding sentences are read with each sentence.
        truncation: what gives way in texts that are too long: oldest-context, or the right end as in the released code
            (reference). Default: oldest-context, reference under compat.
    """

    context: Annotated[int, Field(ge=0)] = 0
    truncation: TruncationRule | None = None

    @property
    def truncates(self) -> TruncationRule:
        """The truncation in force."""
        return self.truncation or ("reference" if self.compat else "oldest-context")


class WindowMetric(ModelMetric):
    """A metric that reads a sentence and those before it as one text, with a blank between; its inputs are short."""

    context: int
    max_context: ClassVar[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context > self.max_context:
            problem = (
                f"context={self.context}: its inputs are short, and it was trained on few sentences"
            )
            fix = f"At most {self.max_context}"
            raise InputError(problem, where=f"{self.name}: context", fix=fix)

    @classmethod
    def cited(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The papers of the metric; windows are in no paper."""
        return cls.info.papers


@settings
class CheckpointMetric(ContextModelMetric):
    """A metric whose checkpoint may come without its encoder's configuration and tokenizer.

    Args:
        encoder_path: folder or hub name with the encoder's configuration and tokenizer; the checkpoint names one.
    """

    encoder_path: str | None = None
    counts_passes: ClassVar[bool] = False
    folder_settings: ClassVar[tuple[str, ...]] = ("encoder_path",)


class EncoderScorer(Scorer):
    """Represents every text by a pass of an encoder; pairs are algebra.

    Args:
        metric: the metric.
        encoder: makes states of ids.
        reader: makes ids of texts.
    """

    def __init__(self, metric: ModelMetric, encoder: Encoder, reader: Reader | None) -> None:
        self.info = metric.info
        self.encoder = encoder
        self.reader: Any = reader
        self.batch_tokens = encoder.batch_tokens
        self.identity = metric.identity(encoder.device)

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Token ids, and where the sentence starts behind its context."""
        read = self.reader.read(items)
        return read, read["ids"].lengths

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every text."""
        sources = [block.source] if block.source >= 0 else []
        rows = np.unique(np.concatenate((block.hypotheses, block.references, sources)))
        lengths = reps["ids"].lengths[rows.astype(np.int64)]
        return Passes(lengths, self.encoder.flops(lengths))


class JoinedScorer(Scorer):
    """Reads the texts of a pair in one sequence: every pair is a forward pass.

    Args:
        metric: the metric.
        model: makes states or values of sequences, on its device.
        max_tokens: of a sequence; what is longer is cut.
        batch_tokens: tokens of one pass; those of the model if not given.
    """

    def __init__(
        self, metric: ModelMetric, model: Any, max_tokens: int, batch_tokens: int | None = None
    ) -> None:
        self.info = metric.info
        self.batch_tokens = batch_tokens or model.batch_tokens
        self.identity = metric.identity(model.device)
        self.max_tokens = max_tokens
        self._flops = model.flops

    @abstractmethod
    def sequence_lengths(self, lengths: IntArray, block: Block) -> IntArray:
        """Tokens of every sequence of a block before any cut, [sequences]; lengths: of all texts, [rows]."""

    def pair_cost(self, reps: Reps, block: Block) -> int:
        """Summed lengths of all sequences of a block, before any cut."""
        return int(self.sequence_lengths(reps["ids"].lengths, block).sum())

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every sequence."""
        lengths = self.sequence_lengths(reps["ids"].lengths, block)
        read = np.minimum(lengths, self.max_tokens)
        return Passes(read, self._flops(read))

    def longest(self, reps: Reps, block: Block) -> int:
        """Tokens of the longest sequence of a block before any cut."""
        return int(self.sequence_lengths(reps["ids"].lengths, block).max(initial=0))

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """Whether the longest sequence of a block loses its end."""
        return Truncation.TEXT if self.longest(reps, block) > self.max_tokens else Truncation.NONE


class ReadingScorer(Scorer):
    """Keeps texts as they are, since tokens follow from pairs of texts; every sequence is a forward pass.

    Args:
        metric: the metric.
        model: makes outputs of sequences, on its device.
    """

    def __init__(self, metric: ModelMetric, model: Any) -> None:
        self.info = metric.info
        self.model = model
        self.batch_tokens = model.batch_tokens
        self.identity = metric.identity(model.device)

    @abstractmethod
    def read_block(self, reps: Reps, block: Block) -> WholeTexts:
        """The sequences of a block."""

    def passes(self, reps: Reps, block: Block) -> Passes:
        """One for every sequence, as if nothing were read once for several."""
        lengths = self.read_block(reps, block).ids.lengths
        return Passes(lengths, self.model.flops(lengths))

    def pair_truncation(self, reps: Reps, block: Block) -> Truncation:
        """The most that a sequence of a block loses."""
        return Truncation(int(self.read_block(reps, block).truncation.max(initial=0)))


def as_rows(values: Iterable[Any]) -> Ragged:
    """Texts or lists of texts as JSON, a row of bytes each."""
    return Ragged.of_rows([np.frombuffer(json.dumps(one).encode(), np.uint8) for one in values])


def in_row(column: Ragged, row: int) -> Any:
    """The text or list of texts in a row of `as_rows`."""
    start, end = column.offsets[row], column.offsets[row + 1]
    return json.loads(column.values[start:end].tobytes())
