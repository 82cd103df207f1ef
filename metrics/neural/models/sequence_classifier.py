"""Classifiers of token sequences: a model of transformers with a head of one or several outputs.

Encoders run packed where they can, then their head on sixteen first states at a time; other families run whole, on a
CPU one sequence at a time, padded to a multiple of 16. Decoders read once what several sequences begin with; their head
is

    logits = W x,   or   W_2 relu(W_1 x + b_1) + b_2,     x the state of the last token that is no padding,

as in AutoModelForSequenceClassification and in reward models with two layers. The outputs of a sequence are a function
of its tokens alone, to the last bit on a CPU. It knows neither texts nor what labels mean.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, ModelLoadError
from ...execution.store import in_batches
from ...representations import Array, FloatArray, IntArray, Ragged
from .attention import ROWS
from .causal_lm import CausalModel, decoder_stack
from .encoder import DType, Encoder
from .files.folder_contents import CheckedTensors, read_weights
from .pretrained import pretrained
from .prompt_pass import Prompted, PromptPass

KIND = "AutoModelForSequenceClassification"
# The layer that is the head of decoders in transformers.
HEAD = "score"


class SequenceClassifier(ABC):
    """A loaded classifier.

    Attributes:
        names: of its outputs.
        device: where it runs.
        batch_tokens: tokens of a pass.
        max_tokens: the longest sequence that it has positions for.
    """

    names: tuple[str, ...]
    device: Any
    batch_tokens: int
    max_tokens: int

    @abstractmethod
    def logits(
        self, ids: Ragged, shared: IntArray | None = None, types: Ragged | None = None
    ) -> FloatArray:
        """The outputs of some sequences, float64 [n, outputs].

        Args:
            ids: the sequences.
            shared: how many tokens each begins with that others may begin with too, [n]; decoders read these once.
            types: of the tokens, in rows as long as those of `ids`; encoders read them, and all are 0 if not given.
        """

    @abstractmethod
    def flops(self, lengths: IntArray) -> float:
        """Floating point operations of passes over sequences of these lengths, [n]."""


def load_sequence_classifier(
    folder: Path,
    device: str | None,
    dtype: DType,
    batch_tokens: int | None = None,
    head: str | None = None,
) -> SequenceClassifier:
    """The classifier of a folder; on the device "meta" it has no weights and only counts.

    head: the layer of a decoder whose outputs are wanted, where it is not that of transformers.

    Raises:
        ModelLoadError: the folder is no classifier, lacks weights, or has no such layer.
    """
    empty = pretrained(folder, KIND, weights=False)
    if head is not None or hasattr(empty, HEAD):
        names = _names(empty.config)
        return DecoderClassifier(folder, names, device, dtype, batch_tokens, head or HEAD)
    return EncoderClassifier(folder, device, dtype, batch_tokens)


def _names(config: Any) -> tuple[str, ...]:
    """The names of outputs in a configuration."""
    return tuple(str(config.id2label[i]) for i in range(config.num_labels))


class EncoderClassifier(SequenceClassifier):
    """An encoder with the head of its family.

    Args:
        folder: the model.
        device: where it runs; the first GPU if there is one, else the CPU, if not given.
        dtype: in which precision.
        batch_tokens: tokens of a pass, chosen by device if not given.
    """

    def __init__(
        self, folder: Path, device: str | None, dtype: DType, batch_tokens: int | None = None
    ) -> None:
        self.model = pretrained(folder, KIND, weights=device != "meta")
        self.config = self.model.config
        self.names = _names(self.config)
        self.encoder = Encoder(self.model.base_model, device, dtype, batch_tokens=batch_tokens)
        self.model.to(self.encoder.device, self.encoder.model.dtype).train(False)
        self.device = self.encoder.device
        self.batch_tokens = self.encoder.batch_tokens
        self.max_tokens = self.encoder.max_tokens

    def logits(
        self, ids: Ragged, shared: IntArray | None = None, types: Ragged | None = None
    ) -> FloatArray:
        """As `SequenceClassifier`."""
        if not len(ids):
            return np.empty((0, len(self.names)))
        # A model that knows one type has no vectors for others.
        if (getattr(self.config, "type_vocab_size", None) or 0) <= 1:
            types = None
        forward = self._packed if self.encoder.packed else self._plain

        def run(rows: IntArray) -> FloatArray:
            logits = forward(ids[rows], None if types is None else types[rows])
            return np.asarray(logits.double().cpu().numpy())

        with self.encoder.torch.inference_mode():
            values, places = in_batches(ids.lengths, self.batch_tokens, run)
        return np.concatenate(values)[places]

    def flops(self, lengths: IntArray) -> float:
        """Those of the encoder."""
        return self.encoder.flops(lengths)

    def _packed(self, ids: Ragged, types: Ragged | None) -> Any:
        """Logits [n, outputs] by the packed encoder and the head."""
        states = self.encoder.states(ids, types=types)
        firsts = states.packing.firsts(states.layers[-1])
        return in_blocks(firsts, self._head)

    def _head(self, first_states: Any) -> Any:
        """Logits [rows, outputs] of the first token's states [rows, d]."""
        states = first_states[:, None]  # [rows, 1, d]
        pooler = getattr(self.encoder.model, "pooler", None)
        return self.model.classifier(states if pooler is None else pooler(states))

    def _plain(self, ids: Ragged, types: Ragged | None) -> Any:
        """Logits [n, outputs] by the whole model, padded."""
        outputs = self.encoder.padded_passes(self.model, ids, types)
        return self.encoder.torch.cat([out.logits for out, _ in outputs])


class DecoderClassifier(SequenceClassifier):
    """A decoder with a head over the state of its last token.

    Args:
        folder: the model.
        names: of the outputs, as its configuration has them.
        device, dtype, batch_tokens: as in `EncoderClassifier`.
        head: the layer that is the head, by the name of its weights.

    Raises:
        ModelLoadError: there is no such layer, or the model reads what follows a token.
    """

    def __init__(
        self,
        folder: Path,
        names: tuple[str, ...],
        device: str | None,
        dtype: DType,
        batch_tokens: int | None,
        head: str,
    ) -> None:
        has_weights = device != "meta"
        plain = pretrained(folder, weights=has_weights, dtype=dtype)
        self.decoder = CausalModel(plain, device, dtype, batch_tokens)
        self.names = names
        self.device, self.batch_tokens = self.decoder.device, self.decoder.batch_tokens
        self.max_tokens = self.decoder.max_tokens
        self.config = self.decoder.config
        if has_weights:
            self.head = _Head(folder, head, self.config.hidden_size, self.device, plain.dtype)
            if len(names) != self.head.num_outputs:
                self.names = tuple(map(str, range(self.head.num_outputs)))
            self.decoder.check(_all_states, str(folder))

    def logits(
        self, ids: Ragged, shared: IntArray | None = None, types: Ragged | None = None
    ) -> FloatArray:
        """As `SequenceClassifier`."""
        if not len(ids):
            return np.empty((0, len(self.names)))
        texts = self._texts(ids, np.ones(len(ids), np.int64) if shared is None else shared)
        states = np.array(self.decoder.values(_last_states, texts))  # [n, d]
        with self.decoder.torch.inference_mode():
            of_all = self.decoder.tensor(states).to(self.decoder.model.dtype)
            outputs = in_blocks(of_all, self.head)
        return np.asarray(outputs.double().cpu().numpy())

    def flops(self, lengths: IntArray) -> float:
        """Those of the decoder, with nothing shared; its head is small beside it."""
        return decoder_stack(self.config).flops(lengths)

    def _texts(self, ids: Ragged, shared: IntArray) -> Prompted:
        """The sequences up to the last token that is no padding, and what they share as prompts.

        One token more stands at the end of each: the state before a token is what a pass gives of it.
        """
        padding = getattr(self.config, "pad_token_id", None)
        rows, first = [], []
        for row in range(len(ids)):
            tokens = ids.values[ids.offsets[row] : ids.offsets[row + 1]]
            end = len(tokens)
            if padding is not None:
                is_read = np.flatnonzero(tokens != padding)
                end = int(is_read[-1]) + 1 if len(is_read) else 1
            rows.append(np.concatenate((tokens[:end], tokens[:1])))
            first.append(min(max(1, int(shared[row])), len(rows[-1]) - 1))
        return Prompted(Ragged.of_rows(rows), np.array(first, np.int64))


def _all_states(states: Any, prompt_pass: PromptPass) -> list[Array]:
    """The states before all scored tokens of every sequence, float32 [scored, d]; states: [rows, d]."""
    scoring: Array = states.float().cpu().numpy()[prompt_pass.states]
    return prompt_pass.by_sequence(scoring[prompt_pass.scored_by])


def _last_states(states: Any, prompt_pass: PromptPass) -> list[Array]:
    """The state before the last scored token of every sequence, float32 [d]; states: [rows, d]."""
    last = prompt_pass.num_scored.cumsum() - 1
    at = prompt_pass.states[prompt_pass.scored_by[last]]
    return list(states[at.tolist()].float().cpu().numpy())


class _Head:
    """One linear layer, or two with what is negative cut off between them.

    Args:
        folder: the model.
        name: of the layer: its weight is ``name.weight``, or ``name.0.weight`` and ``name.2.weight`` of two.
        width: of the states.
        device, dtype: where its weights stand, and in which precision.

    Raises:
        ModelLoadError: there is no such layer, or it does not fit the states.
    """

    def __init__(self, folder: Path, name: str, width: int, device: Any, dtype: Any) -> None:
        from torch.nn.functional import pad

        own = re.compile(rf"{re.escape(name)}\.(?:[02]\.)?(?:weight|bias)")
        tensors = read_weights(folder, re.compile(rf"(?!{own.pattern}\Z).*", re.DOTALL))
        checked = CheckedTensors(folder, tensors, re.compile(r"(?!)"))
        numbers = ("",) if f"{name}.weight" in tensors else (".0", ".2")
        if f"{name}{numbers[0]}.weight" not in tensors:
            fix = "Name the layer by its weights: head=..., as regression_layer for regression_layer.weight"
            raise ModelLoadError(f"no weights {name}.weight", where=str(folder), fix=fix)
        self.layers: list[tuple[Any, Any]] = []
        for number in numbers:
            checked.demand([f"{name}{number}.weight"])
            weight = checked.take(f"{name}{number}.weight", None, width)
            self.num_outputs, width = len(weight), len(weight)
            bias_name = f"{name}{number}.bias"
            bias = checked.take(bias_name, width) if bias_name in tensors else None
            # Widths of products are multiples of 16, as everywhere.
            spare = -width % ROWS
            weight = pad(weight, (0, 0, 0, spare)) if number != ".0" else weight
            if bias is not None:
                bias = pad(bias, (0, spare)) if number != ".0" else bias
                bias = bias.to(device, dtype)
            self.layers.append((weight.to(device, dtype), bias))

    def __call__(self, states: Any) -> Any:
        """Outputs [rows, outputs] of states [rows, d]."""
        from .linear_products import linear

        for number, (weight, bias) in enumerate(self.layers):
            states = linear(states.clamp(min=0) if number else states, weight, bias)
        return states[:, : self.num_outputs]


def in_blocks(states: Any, head: Callable[[Any], Any]) -> Any:
    """Outputs of a head over states [n, d], on a CPU on full blocks of 16, so that none depends on their number."""
    import torch

    padded = torch.nn.functional.pad(states, (0, 0, 0, -len(states) % ROWS))
    blocks: Any = torch.split(padded, ROWS if states.device.type == "cpu" else len(padded))
    return torch.cat([head(block) for block in blocks])[: len(states)]


def check_output(name: str | int | None, names: Sequence[str], where: str) -> int:
    """The number of the output that is meant: the only one, or one by its name or number.

    Raises:
        InputError: several and none is named, or there is none of this name.
    """
    known = f"Outputs: {', '.join(names[:12])}" + (", ..." if len(names) > 12 else "")
    if name is None:
        if len(names) == 1:
            return 0
        raise InputError(
            f"the model has {len(names)} outputs", where=where, fix=f"Name one: {known}"
        )
    if isinstance(name, int) and 0 <= name < len(names):
        return name
    if name in names:
        return list(names).index(str(name))
    raise InputError(f"no output {name!r}", where=where, fix=known)
